"""Hooks on Variables and functions: order, results and their checks."""

import numpy as np
import pytest
from python_functions import Mul, OldMul, Scale, array, ones_like, variable

from torchlite.autograd import Variable


def backward(y):
    y.backward(ones_like(y), retain_graph=True)


def volatile(values, dtype=np.float64):
    return Variable(np.array(values, dtype=dtype), volatile=True)


# ---- hooks of Variables ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["leaf", "interior"])
def hooked(request):
    """(x, v, y): leaf, the Variable to hook, a result of it with dy/dv = 1."""
    x = variable([1.0])
    v = x if request.param == "leaf" else Scale.apply(x, 1)
    return x, v, Scale.apply(v, 1)


def test_hooks_run_in_order_on_each_others_results(hooked):
    x, v, y = hooked
    v.register_hook(lambda g: volatile(array(g) + 1))
    v.register_hook(lambda g: volatile(array(g) * 10))
    backward(y)
    assert array(x.grad)[0] == 20.0


def test_hook_that_returns_none_or_its_gradient_changes_nothing(hooked):
    x, v, y = hooked
    seen = []
    v.register_hook(seen.append)
    v.register_hook(lambda g: g)
    backward(y)
    assert array(x.grad)[0] == 1.0 and len(seen) == 1


def test_hooks_run_on_every_pass(hooked):
    x, v, y = hooked
    seen = []
    v.register_hook(seen.append)
    backward(y)
    backward(y)
    assert len(seen) == 2


def test_removed_hook_is_not_called(hooked):
    x, v, y = hooked
    seen = []
    v.register_hook(seen.append).remove()
    backward(y)
    assert seen == []


def test_hook_may_remove_itself_and_a_later_one(hooked):
    x, v, y = hooked
    seen = []

    def first(g):
        seen.append("first")
        one.remove()
        two.remove()

    one = v.register_hook(first)
    two = v.register_hook(lambda g: seen.append("second"))
    v.register_hook(lambda g: seen.append("third"))
    backward(y)
    assert seen == ["first", "third"]


def test_hook_added_by_a_hook_waits_for_the_next_pass(hooked):
    x, v, y = hooked
    seen = []
    v.register_hook(lambda g: v.register_hook(seen.append) and None)
    backward(y)
    assert seen == []
    backward(y)
    assert len(seen) == 1


def named(g):
    return named.result


WRONG = {
    "no variable": (np.ones(1), TypeError, "expected Variable, but hook returned 'numpy.ndarray'"),
    "type": (
        np.float32,
        RuntimeError,
        "hook 'named' has changed the type of value .was torchlite.DoubleTensor got torchlite.FloatTensor.",
    ),
    "size": ((2,), RuntimeError, "hook 'named' has changed the size of value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_result_is_refused(hooked, case):
    value, error, message = WRONG[case]
    if isinstance(value, tuple):
        value = volatile(np.ones(value))
    elif value is np.float32:
        value = volatile([1.0], np.float32)
    x, v, y = hooked
    named.result = value
    v.register_hook(named)
    with pytest.raises(error, match=message):
        backward(y)
    named.result = None
    assert x.grad is None


def test_hook_without_a_name_is_unknown():
    class Callable:
        def __call__(self, g):
            return volatile([1.0, 2.0])

    x = variable([1.0])
    x.register_hook(Callable())
    with pytest.raises(RuntimeError, match="hook '<unknown>' has changed the size"):
        backward(Scale.apply(x, 1))


def test_error_of_a_hook_keeps_its_type(hooked):
    x, v, y = hooked

    def hook(g):
        raise KeyError("mine")

    v.register_hook(hook)
    with pytest.raises(KeyError, match="mine"):
        backward(y)
    assert x.grad is None


# ---- hooks of functions ----------------------------------------------------------------------------------------------


@pytest.fixture(params=["new", "old"])
def mul(request):
    """(leaves, result) with gradients to two inputs, the second of which is None."""
    x = variable([3.0])
    y = Scale.apply(x, 2) if request.param == "new" else OldMul(2)(x)
    return x, y


def test_function_hook_sees_both_sides(mul):
    x, y = mul
    seen = []
    y.grad_fn.register_hook(lambda gi, go: seen.append((gi, go)))
    backward(y)
    ((gi, go),) = seen
    assert type(gi) is tuple and type(go) is tuple
    assert [array(g)[0] for g in gi] == [2.0] and [array(g)[0] for g in go] == [1.0]


def test_function_hooks_replace_in_order(mul):
    x, y = mul
    y.grad_fn.register_hook(lambda gi, go: (volatile(array(gi[0]) + 1),))
    y.grad_fn.register_hook(lambda gi, go: (volatile(array(gi[0]) * 10),))
    y.grad_fn.register_hook(lambda gi, go: None)
    backward(y)
    assert array(x.grad)[0] == 30.0


def test_function_hook_handle_removes(mul):
    x, y = mul
    seen = []
    handle = y.grad_fn.register_hook(lambda gi, go: seen.append(gi))
    handle.remove()
    backward(y)
    assert seen == []


def test_function_hook_may_drop_a_gradient():
    a, b = variable([2.0]), variable([3.0])
    y = Mul.apply(a, b)
    y.grad_fn.register_hook(lambda gi, go: (None, gi[1]))
    backward(y)
    assert a.grad is None and array(b.grad)[0] == 2.0


FUNCTION_WRONG = {
    "no tuple": (lambda gi, go: [gi[0]], TypeError, "expected tuple, but hook returned 'list'"),
    "length": (
        lambda gi, go: (gi[0], gi[0]),
        RuntimeError,
        r"hook '<lambda>' has returned an incorrect number of values \(got 2, but expected 1\)",
    ),
    "no variable": (lambda gi, go: (1,), TypeError, "expected Variable, but hook returned 'int'"),
    "size": (lambda gi, go: (volatile([1.0, 2.0]),), RuntimeError, "hook '<lambda>' has changed the size of value"),
    "type": (
        lambda gi, go: (volatile([1], np.int64),),
        RuntimeError,
        "has changed the type of value .was torchlite.DoubleTensor got torchlite.LongTensor.",
    ),
}


@pytest.mark.parametrize("case", FUNCTION_WRONG)
def test_wrong_function_hook_result_is_refused(case):
    hook, error, message = FUNCTION_WRONG[case]
    x = variable([1.0])
    y = Scale.apply(x, 2)
    y.grad_fn.register_hook(hook)
    with pytest.raises(error, match=message):
        backward(y)
    assert x.grad is None


def test_none_gradient_cannot_be_replaced():
    from python_functions import new_style

    x = variable([1.0])
    y = new_style(lambda ctx, x: x * 1, lambda ctx, g: None).apply(x)
    y.grad_fn.register_hook(lambda gi, go: (go[0],))
    with pytest.raises(RuntimeError, match="can't replace a None gradient with a non-None value"):
        backward(y)


def test_function_of_an_op_takes_hooks():
    x = variable([1.0])
    y = x * x
    seen = []
    handle = y.grad_fn.register_hook(lambda gi, go: seen.append(len(gi)))
    backward(y)
    handle.remove()
    backward(y)
    assert seen == [2]


def test_registering_what_cannot_be_called_is_refused():
    with pytest.raises(TypeError, match="register_hook: the hook must be callable, but got int"):
        Scale.apply(variable([1.0]), 2).grad_fn.register_hook(3)


def test_register_hook_dict_wants_a_variable():
    fn = Scale.apply(variable([1.0]), 2).grad_fn
    with pytest.raises(RuntimeError, match="_register_hook_dict expected a variable"):
        fn._register_hook_dict(3)
