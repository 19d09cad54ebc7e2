"""What programs older than the era relied on: operands paired in order, and warnings where meanings had changed."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import torchlite
from torchlite import _C, Variable
from torchlite.autograd import gradcheck, gradgradcheck

PAIRED = (
    "self and other not broadcastable, but have the same number of elements.  Falling back to deprecated pointwise "
    "behavior."
)
BROADCAST = (
    "self and other do not have the same shape, but are broadcastable, and have the same number of elements.  Changing "
    "behavior in a backwards incompatible manner to broadcasting rather than viewing as 1-dimensional."
)


def tensor(*shape):
    return torchlite.from_numpy(np.random.default_rng(shape).uniform(0.5, 1.5, shape))


def leaf(*shape):
    return Variable(tensor(*shape), requires_grad=True)


@pytest.fixture
def broadcast_warnings():
    _C._set_backcompat_broadcast_warn(True)
    yield
    _C._set_backcompat_broadcast_warn(False)


@pytest.fixture
def keepdim_warnings():
    _C._set_backcompat_keepdim_warn(True)
    yield
    _C._set_backcompat_keepdim_warn(False)


def warnings_of(f):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f()
    assert all(w.category is UserWarning for w in caught)
    return [str(w.message) for w in caught]


# ---- operands paired in order ---------------------------------------------------------------------------------------

BINARY = ["add", "sub", "mul", "div", "pow", "fmod", "remainder", "atan2", "max", "min"]
COMPARISONS = ["eq", "ne", "lt", "le", "gt", "ge"]


@pytest.mark.parametrize("name", BINARY + COMPARISONS)
def test_operands_that_do_not_broadcast_are_paired_with_one_warning(name):
    x, y = tensor(2, 3), tensor(3, 2)
    got = []
    assert warnings_of(lambda: got.append(getattr(x, name)(y))) == [PAIRED]
    np.testing.assert_array_equal(got[0].numpy(), getattr(x, name)(y.view(2, 3)).numpy())


@pytest.mark.parametrize("name", [n for n in BINARY if n not in ("max", "min")])
@pytest.mark.parametrize("size", [(3, 2), (6,), (1, 6)])
def test_in_place_the_operand_is_paired_where_it_does_not_broadcast_to_self(name, size):
    x, y = tensor(2, 3), tensor(*size)
    expected = getattr(x, name)(y.view(2, 3))
    assert warnings_of(lambda: getattr(x, name + "_")(y)) == [PAIRED]
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


def test_in_place_an_operand_that_would_broadcast_self_is_paired():
    x, y = tensor(3, 1), tensor(1, 3)
    expected = x * y.view(3, 1)
    assert warnings_of(lambda: x.mul_(y)) == [PAIRED]
    np.testing.assert_array_equal(x.numpy(), expected.numpy())


GRADIENTS = {
    **{name: (lambda x, y, name=name: getattr(x, name)(y), (2, 3), (3, 2)) for name in BINARY},
    "lerp": (lambda x, y: x.lerp(y, 0.3), (2, 3), (3, 2)),
    "dist": (lambda x, y: x.dist(y), (2, 3), (3, 2)),
    "in place": (lambda x, y: (x * 1).mul_(y), (3, 1), (1, 3)),
    "in place, square": (lambda x, y: (x * 1).mul_(y), (2, 3), (6,)),
    "addcmul, factors paired": (lambda x, a, b: x.addcmul(2, a, b), (2, 3), (2, 3), (3, 2)),
    "addcmul, product paired": (lambda x, a, b: x.addcmul(2, a, b), (6,), (2, 1), (1, 3)),
    "addcmul, factors and product paired": (lambda x, a, b: x.addcmul(a, b), (6, 1), (3, 2), (2, 3)),
    "addcmul, factors paired, product broadcast": (lambda x, a, b: x.addcmul(a, b), (4, 2, 3), (2, 3), (3, 2)),
    "addcmul, self broadcast": (lambda x, a, b: x.addcmul(a, b), (3,), (2, 1), (1, 3)),
    "addcdiv, factors paired": (lambda x, a, b: x.addcdiv(2, a, b), (2, 3), (2, 3), (3, 2)),
    "addcdiv, product paired": (lambda x, a, b: x.addcdiv(2, a, b), (6,), (2, 1), (1, 3)),
    "addcdiv, factors paired, product broadcast": (lambda x, a, b: x.addcdiv(a, b), (4, 2, 3), (2, 3), (3, 2)),
    "addcdiv, self broadcast": (lambda x, a, b: x.addcdiv(a, b), (3,), (2, 1), (1, 3)),
    "masked_fill": (lambda x: x.masked_fill(Variable(torchlite.ByteTensor([[1, 0], [0, 1], [1, 0]])), 2), (2, 3)),
    "masked_select": (lambda x: x.masked_select(Variable(torchlite.ByteTensor([[1, 0], [0, 1], [1, 0]]))), (2, 3)),
    "masked_scatter": (
        lambda x, y: x.masked_scatter(Variable(torchlite.ByteTensor([[1, 0], [0, 1], [1, 0]])), y), (2, 3), (4,)),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_paired_operands(name):
    f, *sizes = GRADIENTS[name]
    inputs = tuple(leaf(*size) for size in sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert gradcheck(f, inputs)
        assert gradgradcheck(f, inputs)


@pytest.mark.parametrize("name", GRADIENTS)
def test_a_call_warns_at_most_once_and_its_gradient_does_not(name):
    f, *sizes = GRADIENTS[name]
    inputs = tuple(leaf(*size) for size in sizes)
    out = []
    assert len(warnings_of(lambda: out.append(f(*inputs)))) == ("self broadcast" not in name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out[0].sum().backward(create_graph=True)


def test_masks_are_paired_with_a_warning_that_names_them():
    mask = torchlite.ByteTensor([1, 0, 1, 0, 1, 0])
    text = PAIRED.replace("other", "mask")
    x = tensor(2, 3)
    assert warnings_of(lambda: x.masked_fill_(mask, 9)) == [text]
    assert x.numpy().ravel()[::2].tolist() == [9, 9, 9]
    got = []
    assert warnings_of(lambda: got.append(x.masked_select(mask))) == [text]
    assert got[0].tolist() == [9, 9, 9]
    assert warnings_of(lambda: x.masked_scatter_(mask, tensor(3))) == [text]
    np.testing.assert_array_equal(x.numpy().ravel()[::2], tensor(3).numpy())


def test_integers_divide_with_one_warning():
    x, y = torchlite.LongTensor([[7, 8, 9]] * 2), torchlite.LongTensor([[2, 2]] * 3)
    got = []
    assert warnings_of(lambda: got.append(x / y)) == [PAIRED]
    assert got[0].tolist() == [[3, 4, 4]] * 2


def test_as_an_error_the_warning_leaves_everything_as_it_was():
    x = leaf(2, 3) * 1
    before, version = x.data.clone(), x._version
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="not broadcastable"):
            x.mul_(leaf(3, 2))
    assert torchlite.is_tensor(x.data) and x._version == version
    np.testing.assert_array_equal(x.data.numpy(), before.numpy())


def test_sizes_of_other_counts_are_refused():
    with pytest.raises(RuntimeError, match=r"add: .*\(2, 3\).*\(4,\)"):
        tensor(2, 3) + tensor(4)


# ---- the switches ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("which", ["broadcast", "keepdim"])
def test_a_switch_is_off_and_takes_a_bool(which):
    get, put = (getattr(_C, f"_{verb}_backcompat_{which}_warn") for verb in ("get", "set"))
    assert get() is False
    put(True)
    assert get() is True
    put(False)
    for value in (1, None, "on"):
        with pytest.raises(RuntimeError, match="expects a bool"):
            put(value)
    assert get() is False


@pytest.mark.parametrize("name", BINARY + COMPARISONS)
@pytest.mark.parametrize("sizes", [((3, 1), (1, 3)), ((1, 3), (3,)), ((1, 1), (1,))])
def test_operands_that_broadcast_where_they_were_paired_warn_once(broadcast_warnings, name, sizes):
    x, y = (tensor(*size) for size in sizes)
    assert warnings_of(lambda: getattr(x, name)(y)) == [BROADCAST]
    assert warnings_of(lambda: getattr(Variable(x), name)(Variable(y))) == [BROADCAST]


@pytest.mark.parametrize("sizes", [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), (2, 1))])
def test_operands_that_never_were_paired_do_not_warn(broadcast_warnings, sizes):
    x, y = (tensor(*size) for size in sizes)
    assert warnings_of(lambda: (x + y, x * y, x < y, x.dist(y), x.lerp(y, 0.5), x * 2)) == []


def test_operations_of_three_operands_warn_once(broadcast_warnings):
    x, a, b = tensor(3, 1), tensor(1, 3), tensor(3)
    assert len(warnings_of(lambda: x.addcmul(a, b))) == 1
    assert len(warnings_of(lambda: x.addcdiv(a, b))) == 1
    assert len(warnings_of(lambda: x.lerp(a, 0.5))) == 1
    assert len(warnings_of(lambda: x.dist(a))) == 1


REDUCTIONS = {
    "sum": (1,), "prod": (1,), "mean": (1,), "max": (1,), "min": (1,), "norm": (2, 1), "std": (1,), "var": (1,),
    "median": (1,), "mode": (1,), "kthvalue": (1, 1),
}


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if hasattr(_C._ops, name)])
def test_a_reduction_along_a_dimension_without_keepdim_warns_once(keepdim_warnings, name):
    args = REDUCTIONS[name]
    text = f'backwards compatibility: call to "{name}" uses default value for keepdim which has changed default to '
    text += "False.  Consider passing as kwarg."
    for x in (tensor(2, 3), Variable(tensor(2, 3))):
        assert warnings_of(lambda x=x: getattr(x, name)(*args)) == [text]
        assert warnings_of(lambda x=x: getattr(x, name)(*args, keepdim=False)) == []
        assert warnings_of(lambda x=x: getattr(x, name)(*args, keepdim=True)) == []


def test_full_reductions_and_elementwise_max_do_not_warn(keepdim_warnings):
    x = tensor(2, 3)
    assert warnings_of(lambda: (x.sum(), x.max(), x.max(x), x.mean(), x.norm(), Variable(x).sum())) == []


def test_keepdim_none_is_the_default(keepdim_warnings):
    x = Variable(tensor(2, 3))
    got = []
    assert len(warnings_of(lambda: got.append(x.sum(1, keepdim=None)))) == 1
    assert got[0].size() == (2,)
    assert warnings_of(lambda: x.sum(keepdim=None)) == []
