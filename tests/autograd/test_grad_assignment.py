"""What may be assigned to data, grad, requires_grad, volatile and _grad_fn, and that a refusal changes nothing."""

import re

import numpy as np
import pytest
from leaves import constant, leaf, values
from python_functions import Scale, Split

import torchlite
from torchlite import _C
from torchlite.autograd import Variable, backward, grad


def state(v):
    """Everything of a Variable that an assignment can change."""
    return {name: getattr(v, name) for name in
            ("data", "grad", "grad_fn", "requires_grad", "volatile", "output_nr", "_version", "_backward_hooks")}


def refused(v, name, value, error, message):
    before = state(v)
    with pytest.raises(error, match=message):
        setattr(v, name, value)
    after = state(v)
    assert all(after[k] is before[k] or after[k] == before[k] for k in before)


def with_grad():
    x = leaf([1.0, 2.0])
    x.grad = constant([3.0, 4.0])
    return x


def interior():
    return leaf([1.0, 2.0]) * 2


# ---- the constructor ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [(), (None,)], ids=["missing", "None"])
def test_without_data_a_variable_holds_an_empty_float_tensor(args):
    v = Variable(*args)
    assert type(v.data) is torchlite.FloatTensor and v.data.numel() == 0 and not v.requires_grad


@pytest.mark.parametrize("data", [1.0, [1.0], "text", object(), np.float32(1), {}], ids=lambda d: type(d).__name__)
def test_data_has_to_be_a_tensor(data):
    name = type(data).__name__
    with pytest.raises(RuntimeError, match=f"Variable data has to be a tensor, but got .*{name}"):
        Variable(data)
    refused(leaf([1.0]), "data", data, RuntimeError, f"Variable data has to be a tensor, but got .*{name}")


@pytest.mark.parametrize("flag", [1, 2, np.int64(1), True])
def test_the_flags_are_integers(flag):
    assert Variable(np.ones(1), requires_grad=flag).requires_grad is True
    assert Variable(np.ones(1), volatile=flag).volatile is True


def test_a_volatile_variable_cannot_require_grad():
    with pytest.raises(RuntimeError, match="Variable can't be volatile and require_grad at the same time!"):
        Variable(np.ones(1), True, True)


@pytest.mark.parametrize("function", ["text", 1, object()], ids=lambda d: type(d).__name__)
def test_a_grad_fn_has_to_be_a_function(function):
    message = f"Variable _grad_fn has to be a Function object or None, but got {type(function).__name__}"
    with pytest.raises(RuntimeError, match=message):
        Variable(np.ones(1), _grad_fn=function)


def test_a_grad_fn_gives_its_flag_and_gets_another_output():
    y = leaf([1.0]) * 2
    further = [Variable(y.data, _grad_fn=y.grad_fn) for _ in range(3)]
    assert [v.output_nr for v in further] == [1, 2, 3] and all(v.requires_grad for v in further)
    assert not Variable(y.data, _grad_fn=(constant([1.0]) * 2).grad_fn).requires_grad


def test_a_gradient_of_an_output_that_its_function_does_not_know_is_an_error():
    y = leaf([1.0]) * 2
    further = Variable(y.data, _grad_fn=y.grad_fn)
    with pytest.raises(RuntimeError, match="MulConstantBackward: output 0 has no recorded size"):
        backward([further], [constant([1.0])])


def test_a_function_has_a_largest_number_of_outputs():
    y = leaf([1.0]) * 2
    function = Scale._backward_cls()
    for _ in range(65535):
        v = Variable(y.data, _grad_fn=function)
    assert v.output_nr == 65534
    with pytest.raises(RuntimeError, match="ScaleBackward: at most 65535 outputs are supported"):
        Variable(y.data, _grad_fn=function)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.bool_])
def test_only_floating_data_can_require_grad(dtype):
    message = "only Variables of a floating point type can require gradients"
    data = np.ones(2, dtype)
    with pytest.raises(RuntimeError, match=message):
        Variable(data, requires_grad=True)
    v = Variable(data)
    refused(v, "requires_grad", True, RuntimeError, message)
    v.requires_grad = False
    refused(leaf([1.0, 1.0]), "data", data, RuntimeError, message)
    constant([1.0]).data = data


# ---- data ---------------------------------------------------------------------------------------------------------


def test_data_is_the_same_object_each_time():
    t = torchlite.DoubleTensor(2).fill_(1)
    v = Variable(t)
    assert v.data is t and v.data is v.data


def test_assigned_data_changes_neither_version_nor_graph():
    x = with_grad()
    y = x * 2
    t = torchlite.FloatTensor(3, 3)
    for v in (x, y):
        function, gradient = v.grad_fn, v.grad
        v.data = t
        assert v.data is t and v._version == 0 and v.grad_fn is function and v.grad is gradient


def test_data_cannot_be_deleted():
    v = leaf([1.0])
    with pytest.raises(RuntimeError, match="cannot delete the data"):
        del v.data
    assert values(v) == [1]


def test_what_was_saved_stays_what_it_was_when_data_is_assigned():
    x, w = leaf([2.0]), leaf([3.0])
    y = x * w
    w.data = torchlite.DoubleTensor([5.0])
    y.backward()
    assert values(x.grad) == [3] and values(w.grad) == [2]


# ---- grad ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grad", "_grad"])
@pytest.mark.parametrize("make", [with_grad, interior], ids=["leaf", "interior"])
def test_grad_takes_a_variable_or_none(make, name):
    v = make()
    g = constant([5.0, 6.0])
    setattr(v, name, g)
    assert v.grad is g and v._grad is g
    setattr(v, name, None)
    assert v.grad is None and v._grad is None


BAD_GRADS = {
    "array": (lambda v: np.ones(2), RuntimeError, r"expected Variable or None \(got numpy.ndarray\)"),
    "tensor": (lambda v: v.data, RuntimeError, r"expected Variable or None \(got .*DoubleTensor\)"),
    "number": (lambda v: 1.0, RuntimeError, r"expected Variable or None \(got float\)"),
    "itself": (lambda v: v, RuntimeError, "can't assign Variable as its own grad"),
    "type": (lambda v: constant([1.0, 1.0], np.float32), RuntimeError,
             "assigned grad has data of a different type: expected .*DoubleTensor, but got .*FloatTensor"),
    "size": (lambda v: constant([1.0, 1.0, 1.0]), RuntimeError,
             re.escape("assigned grad has data of a different size: expected (2,), but got (3,)")),
    "one element": (lambda v: constant([1.0]), RuntimeError, re.escape("expected (2,), but got (1,)")),
    "dimensions": (lambda v: constant([[1.0, 1.0]]), RuntimeError, re.escape("expected (2,), but got (1, 2)")),
}


@pytest.mark.parametrize("make", [with_grad, interior], ids=["leaf", "interior"])
@pytest.mark.parametrize("case", BAD_GRADS.values(), ids=BAD_GRADS)
def test_a_grad_that_does_not_fit_is_refused(make, case):
    value, error, message = case
    v = make()
    refused(v, "grad", value(v), error, message)


def test_a_deleted_grad_is_none():
    x = with_grad()
    del x.grad
    assert x.grad is None


def test_an_assigned_grad_is_added_to():
    x = with_grad()
    x.grad.volatile = True
    g = x.grad
    (x * 2).sum().backward()
    assert x.grad is g and values(g) == [5, 6]


def test_an_assigned_grad_is_not_written_where_it_may_have_a_history():
    x = with_grad()
    g = x.grad
    (x * 2).sum().backward()
    assert x.grad is not g and values(g) == [3, 4] and values(x.grad) == [5, 6]


# ---- grad_fn ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["grad_fn", "is_leaf", "output_nr", "_version", "shape", "dtype", "ndim"])
def test_what_the_graph_decides_is_read_only(name):
    v = interior()
    value = getattr(v, name)
    with pytest.raises(AttributeError):
        setattr(v, name, value)


@pytest.mark.parametrize("value", ["function", 1, True])
def test_the_private_grad_fn_takes_none_only(value):
    v = interior()
    value = v.grad_fn if value == "function" else value
    refused(v, "_grad_fn", value, RuntimeError, "_grad_fn can be only set to None")


def test_a_cut_variable_keeps_its_flag():
    v = interior()
    v._grad_fn = None
    assert v.is_leaf and v.requires_grad
    (v * 3).sum().backward()
    assert values(v.grad) == [3, 3]


def test_a_cut_second_result_is_a_leaf_like_any_other():
    a, b = Split.apply(leaf([1.0, 2.0]))
    b._grad_fn = None
    assert b.output_nr == 0
    (gradient,) = grad(b * 3, b)
    assert values(gradient) == [3]


# ---- requires_grad and volatile -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, 0, None, "True", np.bool_(True)], ids=repr)
@pytest.mark.parametrize("name", ["requires_grad", "volatile"])
def test_a_flag_takes_a_bool_only(name, value):
    refused(leaf([1.0]), name, value, RuntimeError, f"{name} must be a bool")


@pytest.mark.parametrize("name", ["requires_grad", "volatile"])
def test_a_flag_cannot_be_deleted(name):
    v = leaf([1.0])
    with pytest.raises(RuntimeError, match=f"{name} must be a bool"):
        delattr(v, name)


def test_the_flags_of_an_interior_variable_cannot_change():
    message = r"you can only change requires_grad flags of leaf variables\."
    hint = (" If you want to use a computed variable in a subgraph that doesn't require differentiation use "
            "var_no_grad = var.detach().")
    refused(interior(), "requires_grad", True, RuntimeError, message + "$")
    refused(interior(), "requires_grad", False, RuntimeError, message + re.escape(hint))
    for value in (True, False):
        refused(interior(), "volatile", value, RuntimeError, "volatile can only be set on leaf variables")


def test_the_flag_of_a_leaf_reaches_the_graphs_that_it_is_in():
    x, w = leaf([2.0]), leaf([3.0])
    y = x * w
    x.requires_grad = False
    y.backward(retain_graph=True)
    assert x.grad is None and values(w.grad) == [2]
    x.requires_grad = True
    y.backward()
    assert values(x.grad) == [3]


def test_a_leaf_that_becomes_volatile_makes_volatile_results():
    x = leaf([1.0])
    x.volatile = True
    y = x * leaf([1.0])
    assert y.volatile and y.is_leaf and not y.requires_grad


# ---- hooks --------------------------------------------------------------------------------------------------------


def test_the_hook_dict_takes_any_mapping_or_none():
    x = leaf([1.0])
    x._backward_hooks = {"a": lambda g: g * 10}
    (x * 2).backward()
    assert values(x.grad) == [20]
    x._backward_hooks = None
    x.grad = None
    (x * 2).backward()
    assert values(x.grad) == [2] and x._backward_hooks is None


def test_the_hook_dict_cannot_be_deleted():
    v = leaf([1.0])
    with pytest.raises(RuntimeError, match="cannot delete _backward_hooks"):
        del v._backward_hooks


def test_unknown_attributes_are_errors_on_the_base_only():
    v = _C._VariableBase(np.ones(1))
    with pytest.raises(AttributeError):
        v.no_such_attribute  # noqa: B018
