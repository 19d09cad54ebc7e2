"""Hooks of Variables and of functions."""

import re

import numpy as np
import pytest
from simple_functions import Mul, Scale, Split, constant, leaf, values

from torchlite.autograd import Variable, grad


def interior(x):
    return Scale.apply(x, 1)


@pytest.mark.parametrize("place", [lambda x: x, interior], ids=["leaf", "interior"])
def test_a_hook_may_look_at_the_gradient_or_replace_it(place):
    seen = []
    x = leaf([2.0])
    v = place(x)
    v.register_hook(lambda g: seen.append(values(g)))
    v.register_hook(lambda g: g * 10)
    Scale.apply(v, 3).backward()
    assert seen == [[3]] and values(x.grad) == [30]


@pytest.mark.parametrize("place", [lambda x: x, interior], ids=["leaf", "interior"])
def test_hooks_run_in_the_order_of_registration_each_on_the_last_result(place):
    x = leaf([1.0])
    v = place(x)
    v.register_hook(lambda g: g + 1)
    v.register_hook(lambda g: g * 10)
    Scale.apply(v, 1).backward()
    assert values(x.grad) == [20]


def test_a_hook_may_return_its_argument():
    x = leaf([1.0])
    x.register_hook(lambda g: g)
    Scale.apply(x, 2).backward()
    assert values(x.grad) == [2]


def test_hooks_run_on_every_backward_through_a_retained_graph():
    calls = []
    x = leaf([1.0])
    v = interior(x)
    v.register_hook(lambda g: calls.append("v"))
    x.register_hook(lambda g: calls.append("x"))
    y = Scale.apply(v, 2)
    y.backward(retain_graph=True)
    y.backward()
    assert calls == ["v", "x", "v", "x"]


def test_a_leaf_hook_sees_the_whole_sum_once():
    seen = []
    x = leaf([1.0])
    x.register_hook(lambda g: seen.append(values(g)))
    a = Scale.apply(x, 2)
    b = Scale.apply(Scale.apply(x, 3), 1)
    (a + b + Scale.apply(Scale.apply(Scale.apply(x, 4), 1), 1)).backward()
    assert seen == [[9]]


def test_a_hook_of_one_output_leaves_the_other_alone():
    x = leaf([1.0, 2.0])
    a, b = Split.apply(x)
    a.register_hook(lambda g: g * 10)
    Mul.apply(a, b).backward()
    assert values(x.grad) == [20, 1]


@pytest.mark.parametrize("place", [lambda x: x, interior], ids=["leaf", "interior"])
def test_a_removed_hook_is_not_called(place):
    calls = []
    x = leaf([1.0])
    v = place(x)
    handle = v.register_hook(lambda g: calls.append(1))
    v.register_hook(lambda g: calls.append(2))
    handle.remove()
    handle.remove()
    Scale.apply(v, 1).backward()
    assert calls == [2]


def test_a_handle_removes_its_hook_at_the_end_of_a_with_block():
    calls = []
    x = leaf([1.0])
    y = Scale.apply(x, 1)
    with x.register_hook(lambda g: calls.append(1)):
        y.backward()
    y.backward()
    assert calls == [1]


def test_hooks_are_refused_where_no_gradient_comes():
    with pytest.raises(RuntimeError, match="cannot register a hook on a variable that doesn't require gradient"):
        constant([1.0]).register_hook(print)
    with pytest.raises(RuntimeError, match="cannot register a hook on a volatile variable"):
        leaf([1.0], False, volatile=True).register_hook(print)


BAD_RESULTS = [
    (lambda g: 3, TypeError, "expected Variable, but hook returned 'int'"),
    (lambda g: "text", TypeError, "expected Variable, but hook returned 'str'"),
    (lambda g: Variable(np.ones(3)), RuntimeError, "hook 'bad' has changed the size of value"),
    (lambda g: Variable(np.ones(1, np.float32)), RuntimeError, "hook 'bad' has changed the type of value (was "),
]


@pytest.mark.parametrize("place", [lambda x: x, interior], ids=["leaf", "interior"])
@pytest.mark.parametrize("result, error, message", BAD_RESULTS)
def test_a_wrong_result_of_a_hook_is_refused_naming_the_hook(place, result, error, message):
    def bad(g):
        return result(g)

    x = leaf([1.0])
    v = place(x)
    v.register_hook(bad)
    with pytest.raises(error, match=re.escape(message)):
        Scale.apply(v, 1).backward()
    assert x.grad is None


def test_an_error_in_a_hook_keeps_its_type_and_leaves_no_gradient():
    def bad(g):
        raise LookupError("from the hook")

    x = leaf([1.0])
    x.register_hook(bad)
    with pytest.raises(LookupError, match="from the hook"):
        Scale.apply(x, 1).backward()
    assert x.grad is None


def test_a_hook_result_with_history_makes_the_gradient_differentiable():
    x = leaf([3.0])
    y = Scale.apply(x, 1)
    y.register_hook(lambda g: Mul.apply(g, x))
    (gx,) = grad(y, x, constant([1.0]), create_graph=True)
    assert values(gx) == [1] or values(gx) == [3]
    z = Scale.apply(y, 1)
    (gx,) = grad(z, x, constant([1.0]), create_graph=True)
    assert values(gx) == [3]
    assert values(grad(gx, x, constant([1.0]))[0]) == [1]


# ---- functions -----------------------------------------------------------------------------------------------------


def test_a_function_hook_sees_both_sides_and_may_replace_gradients_of_inputs():
    seen = []
    x = leaf([2.0])
    y = Scale.apply(x, 3)

    def hook(grad_inputs, grad_outputs):
        seen.append(([values(g) for g in grad_inputs if g is not None], [values(g) for g in grad_outputs]))
        return tuple(None if g is None else g * 10 for g in grad_inputs)

    y.grad_fn.register_hook(hook)
    y.backward()
    assert seen == [([[3]], [[1]])] and values(x.grad) == [30]


def test_a_function_hook_is_removed_by_its_handle():
    calls = []
    y = Scale.apply(leaf([2.0]), 3)
    handle = y.grad_fn.register_hook(lambda *args: calls.append(1))
    handle.remove()
    y.backward()
    assert calls == []


@pytest.mark.parametrize(
    "result, error, message",
    [
        (lambda i, o: 3, TypeError, "expected tuple, but hook returned 'int'"),
        (lambda i, o: (), RuntimeError, "hook 'bad' has returned an incorrect number of values (got 0, but expected"),
        (lambda i, o: ("text", *i[1:]), TypeError, "expected Variable, but hook returned 'str'"),
        (lambda i, o: (Variable(np.ones(3)), *i[1:]), RuntimeError, "hook 'bad' has changed the size of value"),
    ],
)
def test_a_wrong_result_of_a_function_hook_is_refused(result, error, message):
    def bad(grad_inputs, grad_outputs):
        return result(grad_inputs, grad_outputs)

    x = leaf([2.0])
    y = Scale.apply(x, 3)
    y.grad_fn.register_hook(bad)
    with pytest.raises(error, match=re.escape(message)):
        y.backward()
    assert x.grad is None


def test_register_hook_dict_wants_a_variable():
    y = Scale.apply(leaf([2.0]), 3)
    with pytest.raises(RuntimeError, match="_register_hook_dict expected a variable"):
        y.grad_fn._register_hook_dict(3)
