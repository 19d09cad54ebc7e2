"""A small program as a user with a type checker would write it; test_stubs.py gives it to mypy and never runs it."""

from typing import Any

import numpy as np
from typing_extensions import assert_type

import torchlite
from torchlite import Function, Variable, nn, optim
from torchlite.autograd import grad


class Double(Function):
    @staticmethod
    def forward(ctx: Any, x: torchlite.FloatTensor) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Variable) -> Variable:
        return g * 2


def arithmetic() -> None:
    w = Variable(np.ones((2, 3), np.float32), requires_grad=True)
    assert_type(w * 2 + w.t().t(), Variable)
    assert_type(w.exp().sum(0), Variable)
    assert_type(torchlite.cat([w, w], 1), Variable)
    assert_type(torchlite.exp(w), Variable)
    assert_type(w[0], Variable)
    assert_type(w.requires_grad, bool)
    w.detach().mul_(2).clamp_(0, 1)
    loss: Variable = (w @ w.t()).sum()
    loss.backward()
    if w.grad is not None:
        w.grad.data.zero_()
    grad(w.sum(), w)
    Double.apply(w)


def tensors() -> None:
    t = torchlite.FloatTensor(2, 3)
    assert_type(t.uniform_(), torchlite.FloatTensor)
    assert_type(t.view(6), torchlite.FloatTensor)
    assert_type(t.long(), torchlite.LongTensor)
    assert_type(t > 0, torchlite.ByteTensor)
    values, places = t.sort(1)
    assert_type(places, torchlite.LongTensor)
    array = t.numpy()
    array += 1


def training() -> None:
    model = nn.Linear(3, 1)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    with torchlite.no_grad():
        model(Variable(np.ones((1, 3), np.float32)))
    optimizer.zero_grad()
