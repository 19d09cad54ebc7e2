"""The functions of `torchlite._C._functions` that are no rows of the op table."""

import numpy as np
import pytest
from python_functions import array, ones_like, variable

from torchlite import _C
from torchlite.autograd import Variable, no_grad

functions = _C._functions


INNER = [
    "AccumulateGrad", "Add", "AddBackward", "BatchNormBackward", "BatchNormBackwardBackward", "Cat", "Clone",
    "Contiguous", "ConvNdBackward", "ConvNdBackwardBackward", "Error", "Expand", "Identity", "Narrow", "Transpose",
    "View",
]


@pytest.mark.parametrize("name", INNER)
def test_inner_functions_cannot_be_constructed(name):
    with pytest.raises(RuntimeError, match="Cannot construct"):
        getattr(functions, name)()


@pytest.mark.parametrize("message", ["later", b"later"])
def test_delayed_error_raises_when_differentiated(message):
    x = variable([1.0, 2.0])
    y = functions.DelayedError(message)(x)
    np.testing.assert_array_equal(array(y), [1.0, 2.0])
    assert type(y.grad_fn).__name__ == "Error" and y.requires_grad
    assert [type(f).__name__ for f, _ in y.grad_fn.next_functions] == ["AccumulateGrad"]
    with pytest.raises(RuntimeError, match="^later$"):
        y.backward(ones_like(y))


def test_delayed_error_keeps_positions():
    a, b = variable([1.0]), variable([2.0], False)
    results = functions.DelayedError("later")(a, None, b)
    assert type(results) is tuple and results[1] is None
    assert [r.output_nr for r in results if r is not None] == [0, 2]
    assert results[0].grad_fn is results[2].grad_fn


def test_delayed_error_of_volatile_and_unrecorded_values():
    v = functions.DelayedError("later")(Variable(np.ones(1), volatile=True))
    assert v.volatile and v.grad_fn is None
    with no_grad():
        assert functions.DelayedError("later")(variable([1.0])).is_leaf
    plain = functions.DelayedError("later")(variable([1.0], False))
    assert plain.grad_fn is not None and not plain.requires_grad


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: functions.DelayedError(), RuntimeError, r"missing required arguments \(expected 1 got 0\)"),
        (lambda: functions.DelayedError("a", "b"), RuntimeError, r"too many arguments \(expected 1 got 2\)"),
        (lambda: functions.DelayedError(3), RuntimeError, r"argument 0 \(msg\) must be bytes/str, not int"),
        (lambda: functions.DelayedError("m")(3), TypeError, "argument 0 is not a Variable"),
        (lambda: functions.DelayedError("m")(x=3), TypeError, "keyword arguments are not supported"),
    ],
)
def test_delayed_error_checks_its_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
