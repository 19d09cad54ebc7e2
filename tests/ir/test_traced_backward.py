"""A backward inside a trace is recorded as the operations that its gradients are made of."""

from __future__ import annotations

import numpy as np
import pytest
from programs import agrees, engine, run, trace, values, variable

import torchlite
from torchlite import _C
from torchlite.autograd import Function, Variable, grad
from torchlite.nn import functional as F


class Scale(Function):
    @staticmethod
    def forward(ctx, x, factor, mode="s"):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None, None


def model(x, w, b):
    h = torchlite.tanh(F.linear(x, w, b))
    return (h * h).sum() + (h.exp() * h[0]).mean()


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_backward_is_traced_bit_by_bit(create_graph: bool) -> None:
    def step(x, w, b):
        w.grad = b.grad = None
        loss = model(x, w, b)
        loss.backward(create_graph=create_graph)
        return loss, w.grad, b.grad

    inputs = variable(4, 3), variable(2, 3, requires_grad=True), variable(2, requires_grad=True)
    lam = trace(step, *inputs)
    x, w, b = (variable(*v.size(), seed=5, requires_grad=v.requires_grad) for v in inputs)
    loss = model(x, w, b)
    loss.backward()
    replayed = engine.run_forward(lam, (x, w, b))
    for got, expected in zip(replayed, (loss, w.grad, b.grad), strict=True):
        assert got.data.numpy().tobytes() == expected.data.numpy().tobytes()
    assert [v.requires_grad for v in replayed] == [True, create_graph, create_graph]


def test_gradients_of_gradients_are_traced() -> None:
    def penalty(x, w):
        (g,) = grad(torchlite.tanh(F.linear(x, w, None)).sum(), [w], create_graph=True)
        (h,) = grad((g * g).sum(), [w])
        return g, h

    agrees(penalty, variable(4, 3), variable(2, 3, requires_grad=True), volatile=False)


def test_dropout_and_its_gradient_share_a_mask() -> None:
    def step(x):
        y = F.dropout(x, 0.5, True)
        (g,) = grad(y.sum(), [x])
        return y, g

    lam = trace(step, variable(50, requires_grad=True))
    assert "Dropout %0, 0.5, True : Float(50,), Float(50,)" in str(lam)
    for seed in range(3):
        x = variable(50, requires_grad=True, seed=seed)
        y, g = run(lam, x)
        assert (y == x.data.numpy() * g).all()
    y, g = values(_C.Program(lam).run(Variable(torchlite.ones(50))))
    assert (y == g).all()


def test_a_gradient_from_before_the_trace_is_refused() -> None:
    w = variable(3, requires_grad=True)
    (w * 2).sum().backward()
    with pytest.raises(RuntimeError, match="a leaf had a gradient before the trace was entered.*set its grad to None"):
        trace(lambda w: ((w * 2).sum().backward(), w.grad)[1], w)


def test_gradients_add_up_in_a_trace() -> None:
    def f(w):
        w.grad = None
        (w * w).sum().backward()
        (w * 3).sum().backward()
        return w.grad

    w = variable(3, requires_grad=True)
    lam = trace(f, w)
    v = variable(3, requires_grad=True, seed=6)
    assert np.allclose(run(lam, v)[0], 2 * v.data.numpy() + 3)


def test_functions_are_differentiated_in_a_trace() -> None:
    def f(x):
        (g,) = grad((Scale.apply(x, 2.5) * x).sum(), [x])
        return g

    agrees(f, variable(3, requires_grad=True), volatile=False)
