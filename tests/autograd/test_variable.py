"""Variables: construction, properties, gradients and what is refused."""

import re

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Mul, Scale

import torchlite
from torchlite.autograd import Variable, no_grad


def volatile(v, **kwargs):
    return leaf(v, False, volatile=True, **kwargs)


def state(v):
    """What a refused assignment must not change."""
    return id(v.data), values(v), id(v.grad), id(v.grad_fn), v.requires_grad, v.volatile, v._version


def interior():
    return Scale.apply(leaf([1.0, 2.0]), 1)


# ---- construction --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, flags", [
    (lambda d: Variable(d), (False, False)),
    (lambda d: Variable(data=d), (False, False)),
    (lambda d: Variable(d, True), (True, False)),
    (lambda d: Variable(d, requires_grad=1), (True, False)),
    (lambda d: Variable(d, False, True), (False, True)),
    (lambda d: Variable(d, volatile=True), (False, True)),
])
def test_flags_are_given_by_position_or_name(make, flags):
    v = make(torchlite.DoubleTensor([1.0]))
    assert (v.requires_grad, v.volatile) == flags and v.is_leaf and v.grad is None and v.output_nr == 0


@pytest.mark.parametrize("make, error, message", [
    (lambda: Variable([1.0]), RuntimeError, "Variable data has to be a tensor, but got list"),
    (lambda: Variable("text"), RuntimeError, "Variable data has to be a tensor, but got str"),
    (lambda: Variable(constant([1.0])), RuntimeError, "Variable data has to be a tensor, but got Variable"),
    (
        lambda: Variable(np.ones(1), requires_grad=True, volatile=True),
        RuntimeError,
        "Variable can't be volatile and require_grad at the same time!",
    ),
    (
        lambda: Variable(np.ones(1), _grad_fn=3),
        RuntimeError,
        "Variable _grad_fn has to be a Function object or None, but got int",
    ),
    (lambda: Variable(np.ones(1), nonsense=1), TypeError, "nonsense"),
    (lambda: Variable(np.ones(1), False, False, None, 5), TypeError, "argument"),
])
def test_wrong_arguments_are_refused(make, error, message):
    with pytest.raises(error, match=re.escape(message)):
        make()


@pytest.mark.parametrize("make", [lambda: Variable(), lambda: Variable(None)])
def test_without_data_there_is_an_empty_float_tensor(make):
    assert type(make().data) is torchlite.FloatTensor


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_])
def test_integers_cannot_require_grad(dtype):
    array = np.ones(2, dtype)
    with pytest.raises(RuntimeError):
        Variable(array, requires_grad=True)
    v = Variable(array, requires_grad=False)
    with pytest.raises(RuntimeError):
        v.requires_grad = True
    assert not v.requires_grad


def test_data_is_one_object_on_the_memory_of_the_array():
    array = np.ones(3)
    v = Variable(array)
    assert v.data is v.data
    v.data[0] = 5
    array[1] = 7
    assert values(v) == [5, 7, 1] and array[0] == 5
    t = v.data
    assert Variable(t).data is t


def test_zero_dimensional_arrays_stay_so():
    for dtype in (np.float32, np.float64):
        x = Variable(np.array(3.0, dtype), requires_grad=True)
        y = x + x
        assert y.data.numpy().shape == () and y.data.numpy().dtype == dtype
        y.backward(retain_graph=True)
        y.backward()
        assert x.grad.data.numpy().shape == () and x.grad.data.numpy().dtype == dtype and values(x.grad) == 4


def test_a_huge_virtual_array_needs_no_memory():
    v = Variable(np.broadcast_to(np.float32(1), (2**33,)))
    assert v.size() == (2**33,) and v.numel() == 2**33 and len(v) == 2**33
    assert "8589934592" in repr(v)
    assert v._version == 0


# ---- properties ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make, attribute, value, message", [
    (lambda: leaf([1.0]), "data", [1.0], "Variable data has to be a tensor, but got list"),
    (lambda: leaf([1.0]), "data", constant([1.0]), "Variable data has to be a tensor, but got Variable"),
    (lambda: leaf([1.0]), "requires_grad", 1, "requires_grad must be a bool"),
    (lambda: leaf([1.0]), "volatile", 0, "volatile must be a bool"),
    (interior, "requires_grad", True, "you can only change requires_grad flags of leaf variables."),
    (
        interior,
        "requires_grad",
        False,
        "you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
        "subgraph that doesn't require differentiation use var_no_grad = var.detach().",
    ),
    (interior, "volatile", True, "volatile can only be set on leaf variables"),
    (interior, "_grad_fn", 3, "_grad_fn can be only set to None"),
    (lambda: leaf([1.0]), "grad", 3, "expected Variable or None (got int)"),
    (lambda: leaf([1.0]), "grad", np.ones(1), "expected Variable or None (got numpy.ndarray)"),
    (lambda: leaf([1.0]), "grad", constant([1.0], np.float32), "assigned grad has data of a different type"),
    (lambda: leaf([1.0]), "grad", constant([1.0, 2.0]), "assigned grad has data of a different size"),
    (lambda: leaf([1.0]), "grad", constant([[1.0]]), "assigned grad has data of a different size"),
])
def test_a_refused_assignment_changes_nothing(make, attribute, value, message):
    v = make()
    v.grad = kept = constant(np.full(tuple(v.size()), 9.0))
    before = state(v)
    with pytest.raises((RuntimeError, TypeError), match=re.escape(message)):
        setattr(v, attribute, value)
    assert state(v) == before and v.grad is kept


def test_a_variable_cannot_be_its_own_gradient():
    v = leaf([1.0])
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        v.grad = v
    assert v.grad is None


def test_a_gradient_can_be_assigned_and_cleared():
    v, g = leaf([1.0]), constant([2.0])
    v.grad = g
    assert v.grad is g and v._grad is g
    v.grad = None
    assert v.grad is None
    y = interior()
    y.grad = constant([1.0, 2.0])
    assert values(y.grad) == [1, 2]


def test_deleting_a_gradient_clears_it_or_is_refused():
    v = leaf([1.0])
    v.grad = constant([2.0])
    try:
        del v.grad
    except (AttributeError, TypeError):
        assert values(v.grad) == [2]
    else:
        assert v.grad is None


@pytest.mark.parametrize("attribute, value", [("grad_fn", None), ("is_leaf", True), ("output_nr", 1), ("_version", 3)])
def test_some_properties_are_read_only(attribute, value):
    with pytest.raises(AttributeError):
        setattr(leaf([1.0]), attribute, value)


def test_grad_fn_can_be_cleared():
    v = interior()
    v._grad_fn = None
    assert v.grad_fn is None and v.is_leaf


def test_new_data_keeps_the_version_and_the_graph():
    v = interior()
    node = v.grad_fn
    v.data = torchlite.FloatTensor([1, 2, 3])
    assert v.size() == (3,) and v.grad_fn is node and v._version == 0


def test_data_that_grows_is_never_summed_by_broadcasting():
    x = leaf([1.0])
    x.sum().backward()
    x.data = torchlite.DoubleTensor(np.ones(20))
    y = x.sum()
    with pytest.raises(RuntimeError, match="size") as error:
        y.backward()
    assert "1" in str(error.value) and "20" in str(error.value)
    x.grad = None
    x.sum().backward()
    assert values(x.grad) == [1.0] * 20


def test_setting_requires_grad_reaches_graphs_that_are_built_later():
    x = leaf([1.0])
    x.requires_grad = False
    assert not (x * 2).requires_grad
    x.requires_grad = True
    (x * 2).backward()
    assert values(x.grad) == [2]


# ---- accumulation --------------------------------------------------------------------------------------------------


def test_a_plain_backward_adds_into_the_same_gradient_object():
    x, one = leaf([1.0, 2.0]), volatile([1.0, 1.0])
    y = Mul.apply(x, x)
    y.backward(one, retain_graph=True)
    g, data = x.grad, x.grad.data
    y.backward(one)
    assert x.grad is g and x.grad.data is data and values(g) == [4, 8]


def test_a_backward_with_a_graph_adds_out_of_place():
    x = leaf([1.0, 2.0])
    y = Mul.apply(x, x)
    y.backward(np.ones(2), create_graph=True)
    g = x.grad
    y.backward(np.ones(2), create_graph=True)
    assert x.grad is not g and values(g) == [2, 4] and values(x.grad) == [4, 8]
    x.grad = None


def test_a_gradient_never_aliases_the_one_that_was_given():
    x = leaf([1.0, 2.0])
    given = volatile([1.0, 1.0])
    x.backward(given)
    x.backward(given)
    assert values(given) == [1, 1] and values(x.grad) == [2, 2]
    given.data.fill_(9)
    assert values(x.grad) == [2, 2]


def test_a_gradient_handed_to_two_leaves_is_not_shared():
    x, y = leaf([1.0]), leaf([1.0])
    (x + y).backward()
    x.grad.data.fill_(9)
    assert values(y.grad) == [1]


def test_a_leaf_may_be_updated_in_place_without_grad():
    x = leaf([1.0])
    y, z = x * 2, x * x
    with no_grad():
        x.sub_(0.5)
    assert x.is_leaf and x.requires_grad and x._version == 1
    y.backward()
    assert values(x.grad) == [2]
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    assert values(x.grad) == [2]
    (x * x).backward()
    assert values(x.grad) == [3]


# ---- dtypes and layouts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("other, result", [
    (2.5, None), (2, None), (np.float32(2), np.float32), (np.float64(2), np.float64), (np.array(2.0), np.float64),
    (np.array([2.0], np.float32), np.float32),
], ids=["float", "int", "np.float32", "np.float64", "0-d", "array"])
def test_promotion_follows_numpy_and_gradients_keep_the_dtype_of_the_data(dtype, other, result):
    x = leaf([1.5], dtype=dtype)
    y = x * other
    expected = (x.data.numpy() * other).dtype if result is None else (np.ones(1, dtype) * other).dtype
    assert y.data.numpy().dtype == expected
    y.backward(np.ones(1, expected))
    assert x.grad.data.numpy().dtype == dtype


def test_an_array_on_the_left_gives_a_variable():
    x = leaf([1.0, 2.0])
    for y in (np.ones(2) * x, np.ones(2) + x, np.ones(2) - x, np.ones(2) / x, np.float64(2) * x):
        assert type(y) is Variable and y.requires_grad


def test_a_differentiable_variable_does_not_turn_into_an_array_silently():
    x = leaf([1.0, 2.0])
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(x)
    array = np.asarray(constant([1.0, 2.0]))
    assert array.dtype == np.float64 and array.tolist() == [1, 2]
    copy = np.array(constant([1.0]), copy=True)
    assert copy.dtype == np.float64


@pytest.mark.parametrize("view", [
    lambda a: a[::-1], lambda a: a.T, lambda a: a[::-1].T, lambda a: a[:, ::2], lambda a: a[1:, ::-1],
], ids=["reversed", "transposed", "both", "strided", "cut"])
def test_memory_order_never_changes_a_gradient(view):
    base = np.arange(6.0).reshape(2, 3) + 1
    x = Variable(view(base), requires_grad=True)
    weight = np.arange(1.0, x.numel() + 1).reshape(tuple(x.size()))
    (x * x).backward(weight)
    np.testing.assert_array_equal(values(x.grad), 2 * view(base) * weight)


# ---- memory --------------------------------------------------------------------------------------------------------


def test_a_write_through_a_view_is_noticed_by_what_saved_the_base():
    base = Scale.apply(leaf([1.0, 2.0]), 1)
    y = Mul.apply(base, base)
    view = base[0:1]
    del base
    try:
        view.add_(1)
    except RuntimeError:
        y.backward(np.ones(2))
    else:
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.backward(np.ones(2))


def test_detach_shares_memory_and_version_but_no_history():
    x = interior()
    d = x.detach()
    assert d.is_leaf and not d.requires_grad and d.data is x.data
    with pytest.raises(RuntimeError, match="there are 2 objects sharing it"):
        d.add_(1)
    assert volatile([1.0]).detach().volatile


def test_detach_in_place_cuts_the_history():
    x = interior()
    assert x.detach_() is x and x.is_leaf and not x.requires_grad


def test_truth_of_a_variable():
    assert not Variable()
    with pytest.raises(RuntimeError, match="bool value of Variable objects containing non-empty"):
        bool(leaf([1.0, 2.0]))


def test_the_gradient_of_a_norm_at_zero_is_zero():
    x = leaf([0.0, 0.0])
    x.norm().backward()
    assert values(x.grad) == [0, 0]
    x.grad = None
    (x.norm() ** 2).backward()
    assert values(x.grad) == [0, 0]


def test_repeated_indices_add_their_gradients():
    x = leaf([1.0, 2.0, 3.0])
    index = np.array([1, 1, 0])
    y = x[index]
    index[:] = 2
    y.backward(np.array([1.0, 10.0, 100.0]))
    assert values(x.grad) == [100, 11, 0]
