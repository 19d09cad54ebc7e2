"""Hooks of Variables, as `register_hook` gives them."""

import weakref
from collections import OrderedDict

import pytest
from leaves import constant, leaf, values
from python_functions import Mul, Scale, Split

from torchlite.autograd import grad


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


@pytest.mark.parametrize("place", [lambda x: x, interior], ids=["leaf", "interior"])
@pytest.mark.parametrize("make", [dict, OrderedDict])
def test_hooks_may_be_given_as_a_dictionary_of_any_kind(place, make):
    x = leaf([2.0])
    v = place(x)
    v._backward_hooks = make({"first": lambda g: g * 10})
    handle = v.register_hook(lambda g: g + 1)
    Scale.apply(v, 3).backward()
    assert values(x.grad) == [31]
    handle.remove()
    x.grad = None
    Scale.apply(v, 3).backward()
    assert values(x.grad) == [30]


@pytest.mark.parametrize("place", [lambda x: x, interior], ids=["leaf", "interior"])
def test_another_dictionary_takes_the_place_of_the_first(place):
    x = leaf([2.0])
    v = place(x)
    v.register_hook(lambda g: g * 10)
    v._backward_hooks = {"other": lambda g: g + 1}
    Scale.apply(v, 3).backward()
    assert values(x.grad) == [4]
    x.grad = v._backward_hooks = None
    Scale.apply(v, 3).backward()
    assert values(x.grad) == [3]


# ---- retain_grad ---------------------------------------------------------------------------------------------------


def test_retain_grad_stores_the_gradient_of_an_interior_variable():
    x = leaf([2.0])
    y = Scale.apply(x, 3)
    y.retain_grad()
    y.retain_grad()
    z = Mul.apply(y, y)
    z.backward(retain_graph=True)
    assert values(y.grad) == [12] and values(x.grad) == [36]
    z.backward()
    assert values(y.grad) == [24]


def test_retain_grad_can_be_differentiated_with_create_graph():
    x = leaf([2.0])
    y = Scale.apply(x, 3)
    y.retain_grad()
    Mul.apply(y, y).backward(create_graph=True)
    assert values(grad(y.grad, x)[0]) == [6]
    y.grad = x.grad = None


def test_retain_grad_does_nothing_on_a_leaf():
    x = leaf([2.0])
    x.retain_grad()
    assert not x._backward_hooks
    constant([2.0]).retain_grad()


def test_retain_grad_needs_a_variable_that_requires_grad():
    with pytest.raises(RuntimeError, match="can't retain_grad on Variable that has requires_grad=False"):
        Scale.apply(constant([1.0]), 2).retain_grad()


def test_retain_grad_does_not_keep_the_variable_alive():
    y = Scale.apply(leaf([2.0]), 3)
    y.retain_grad()
    z = Scale.apply(y, 2)
    reference = weakref.ref(y)
    del y
    assert reference() is None
    z.backward()
