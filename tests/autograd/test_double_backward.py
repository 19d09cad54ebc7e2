"""Derivatives of derivatives, and backward within backward."""

import gc
import weakref

import numpy as np
from leaves import constant, leaf, values
from python_functions import Mul, new_style

from torchlite.autograd import Function, grad


def ones(n):
    return constant(np.ones(n))


def test_second_derivatives_flow_through_a_function_of_variables():
    x = leaf([2.0])
    y = Mul.apply(Mul.apply(x, x), x)
    (first,) = grad(y, x, ones(1), create_graph=True)
    (second,) = grad(first, x, ones(1), create_graph=True)
    (third,) = grad(second, x, ones(1))
    assert (values(first), values(second), values(third)) == ([12], [12], [6])


def test_a_saved_second_output_keeps_its_output_number_in_double_backward():
    class Both(Function):
        """(2x, x*x), saving the second output."""

        @staticmethod
        def forward(ctx, x):
            twice, square = x * 2, x * x
            ctx.save_for_backward(x, square)
            return twice, square

        @staticmethod
        def backward(ctx, g_twice, g_square):
            x, square = ctx.saved_variables
            return g_twice * square + g_square * x * 2  # the gradient of 2x is wrong on purpose: it uses `square`

    x = leaf([3.0])
    twice, _ = Both.apply(x)
    (first,) = grad(twice, x, ones(1), create_graph=True)
    assert values(first) == [9]
    (second,) = grad(first, x, ones(1))
    assert values(second) == [6]


def test_a_saved_and_returned_leaf_works_in_double_backward():
    class Square(Function):
        """x*x as the pair (x, x*x); saves the x that it returns."""

        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x, x * x

        @staticmethod
        def backward(ctx, g, g_square):
            (x,) = ctx.saved_variables
            return g + g_square * x * 2

    x = leaf([3.0])
    _, y = Square.apply(x)
    (gx,) = grad(y, x, ones(1), create_graph=True)
    assert values(gx) == [6]
    (gxx,) = grad(gx, x, ones(1))
    assert values(gxx) == [2]


def test_backward_within_backward_runs_its_own_graph():
    log = []

    def inner_backward(ctx, g):
        log.append("enter")
        z = leaf([2.0])
        Mul.apply(z, z).backward()
        log.append(values(z.grad))
        return g

    x = leaf([1.0])
    a = new_style(lambda ctx, x: x * 1, inner_backward).apply(x)
    Mul.apply(a, a).backward()
    assert log == ["enter", [4]]
    assert values(x.grad) == [2]


def test_backward_is_not_entered_for_a_function_that_needs_no_gradient():
    def fail(ctx, g):
        raise AssertionError("entered")

    frozen = new_style(lambda ctx, x: x * 2, fail).apply(constant([3.0]))
    x = leaf([1.0])
    Mul.apply(x, frozen).backward()
    assert values(x.grad) == [6]


def test_a_gradient_whose_graph_leads_back_to_its_leaf_is_collected():
    x = leaf([3.0])
    y = Mul.apply(x, x)
    y.backward(create_graph=True)
    node, variable = weakref.ref(y.grad_fn), weakref.ref(x)
    del y
    x.grad = None
    gc.collect()
    assert node() is None
    Mul.apply(x, x).backward(create_graph=True)
    del x
    gc.collect()
    assert variable() is None


def test_a_gradient_penalty_loop_stays_flat():
    def step():
        x = leaf([1.0, 2.0])
        (gx,) = grad(Mul.apply(x, x), x, ones(2), create_graph=True)
        Mul.apply(gx, gx).backward(ones(2))

    def objects():
        gc.collect()
        return len(gc.get_objects())

    for _ in range(10):
        step()
    before = objects()
    for _ in range(50):
        step()
    assert abs(objects() - before) <= 10
