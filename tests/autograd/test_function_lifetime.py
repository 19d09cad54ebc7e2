"""Cycles through Functions, contexts and hooks can be collected, and what the graph needs stays alive."""

import gc
import weakref

import numpy as np
import pytest
from simple_functions import Exp, Mul, Scale, Split, Token, constant, is_dead, leaf, values

from torchlite.autograd import Function, Variable, grad


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_saved_output_makes_no_cycle(no_collector):
    y = Exp.apply(leaf([1.0]))
    reference = weakref.ref(y.grad_fn.token)
    del y
    assert reference() is None


@pytest.mark.parametrize("flags", [{"volatile": True}, {"requires_grad": False}], ids=str)
def test_a_function_without_gradient_keeps_nothing(no_collector, flags):
    x = Variable(np.array([1.0]), **flags)
    reference = weakref.ref(x)
    y = Mul.apply(x, x)
    del x
    assert reference() is None and values(y) == [1]


def test_a_result_stored_on_its_own_context_is_collected():
    y = Scale.apply(leaf([1.0]), 2)
    y.grad_fn.out = y
    reference = weakref.ref(y)
    del y
    assert is_dead(reference)


@pytest.mark.parametrize("interior", [False, True], ids=["leaf", "interior"])
def test_a_hook_that_refers_to_its_variable_is_collected(interior):
    v = Scale.apply(leaf([1.0]), 2) if interior else leaf([1.0])
    v.register_hook(lambda g, v=v: None)
    reference = weakref.ref(v)
    del v
    assert is_dead(reference)


def test_a_function_hook_that_refers_to_its_result_is_collected():
    y = Scale.apply(leaf([1.0]), 2)
    y.grad_fn.register_hook(lambda i, o, y=y: None)
    reference = weakref.ref(y)
    del y
    assert is_dead(reference)


def test_an_old_style_function_that_refers_to_its_result_is_collected():
    class Old(Function):
        def forward(self, x):
            self.save_for_backward(x)
            return x * 2

        def backward(self, g):
            return g * 2

    function = Old()
    function.result = function(leaf([1.0]))
    reference = weakref.ref(function)
    del function
    assert is_dead(reference)


def test_a_gradient_whose_graph_leads_back_to_its_leaf_is_collected():
    x = leaf([3.0])
    y = Mul.apply(x, x)
    y.backward(create_graph=True)
    node, variable = weakref.ref(y.grad_fn), weakref.ref(x)
    del y
    x.grad = None
    assert is_dead(node)
    Mul.apply(x, x).backward(create_graph=True)
    del x
    assert is_dead(variable)


def test_two_results_of_one_function_in_a_cycle_survive_the_collector():
    x = leaf([1.0, 2.0])
    for _ in range(50):
        a, b = Split.apply(x)
        ring = [a]
        ring.append(ring)
        ring.append(b)
        gc.collect(0)
        Mul.apply(a, b).backward()
        del ring
    assert values(x.grad) == [100, 50]


def test_the_graph_keeps_contexts_and_saved_values_alive():
    x = leaf([2.0])
    y = Mul.apply(Exp.apply(x), constant([3.0]))
    token = weakref.ref(y.grad_fn.next_functions[0][0].token)
    gc.collect()
    assert isinstance(token(), Token)
    y.backward()
    np.testing.assert_allclose(values(x.grad), 3 * np.exp([2.0]))


def test_a_gradient_penalty_loop_stays_flat():
    def step():
        x = leaf([1.0, 2.0])
        one = constant([1.0, 1.0])
        (gx,) = grad(Mul.apply(x, x), x, one, create_graph=True)
        Mul.apply(gx, gx).backward(one)

    def objects():
        gc.collect()
        return len(gc.get_objects())

    for _ in range(10):
        step()
    before = objects()
    for _ in range(50):
        step()
    assert abs(objects() - before) <= 10


def test_a_long_chain_of_python_functions_is_freed_and_differentiated():
    x = leaf([1.0])
    y = x
    for _ in range(20_000):
        y = Scale.apply(y, 1)
    y.backward()
    assert values(x.grad) == [1]
    y = x
    for _ in range(20_000):
        y = Scale.apply(y, 1)
    del y
