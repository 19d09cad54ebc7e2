"""Helpers of the tests of the IR: traces, and random programs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import numpy as np

import torchlite
from torchlite import _C
from torchlite.autograd import Variable
from torchlite.nn import functional as F

engine = Variable._execution_engine


def variable(*sizes: int, requires_grad: bool = False, dtype: str = "float32", seed: int = 0) -> Variable:
    a = np.random.default_rng((seed, *sizes)).standard_normal(sizes).astype(dtype)
    return Variable(torchlite.from_numpy(a), requires_grad=requires_grad)


@contextmanager
def closed_tracer():
    """Leaves no trace open."""
    depth = _C._tracer_depth()
    try:
        yield
    finally:
        while _C._tracer_depth() > depth:
            _C._tracer_abort()


def trace(f: Callable, *inputs: Variable, capture: bool = False, locations: bool = False) -> Any:
    """The Lambda of f(*inputs)."""
    with closed_tracer():
        _C._tracer_enter(inputs, capture=capture, locations=locations)
        out = f(*inputs)
        return _C._tracer_exit(out if isinstance(out, tuple) else (out,))


def values(out: Any) -> list[np.ndarray]:
    return [v.data.numpy().copy() for v in out]


UNARY = [
    torchlite.tanh, torchlite.sigmoid, torchlite.exp, F.relu, torchlite.abs, lambda a: a * 0.5, lambda a: a + 1,
    lambda a: -a, lambda a: a.t().t(), lambda a: a.clone(), lambda a: F.softmax(a, 1), lambda a: a.cumsum(1),
    lambda a: a[:, [0, 2, 1]], lambda a: a.view(-1).view(3, 3), lambda a: a.clamp(-1, 1), lambda a: a.detach() + a,
]
BINARY = [
    lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a - b, lambda a, b: torchlite.mm(a, b) * 0.3,
    lambda a, b: F.linear(a, b), lambda a, b: torchlite.cat([a, b], 0)[1:4], lambda a, b: a / (b * b + 1),
    lambda a, b: torchlite.stack([a, b], 0).sum(0), lambda a, b: a.clone().add_(b), lambda a, b: (a * b).mul_(a),
]


def random_program(seed: int, size: int = 12) -> Callable:
    """A function of two (3, 3) Variables whose result has size (1,)."""
    rng = np.random.default_rng(seed)
    steps = [(int(rng.integers(0, len(UNARY) + len(BINARY))), *rng.integers(0, 10**6, 2)) for _ in range(size)]

    def program(x: Variable, y: Variable) -> Variable:
        made = [x * 1, y * 1]
        for op, i, j in steps:
            a, b = made[i % len(made)], made[j % len(made)]
            made.append(torchlite.tanh(UNARY[op](a) if op < len(UNARY) else BINARY[op - len(UNARY)](a, b)))
        return (made[-1] * made[-2] + made[2] + x * y).sum()

    return program


def run(lam: _C.Lambda, *inputs: Variable) -> list[np.ndarray]:
    return values(engine.run_forward(lam, inputs))


def agrees(f, *inputs: Variable, capture: bool = False, volatile: bool = True) -> _C.Lambda:
    """The trace of f; on other inputs of the same types the replay equals f itself.

    ``volatile`` False: gradients of a plain backward are volatile, but leaves in a replay.
    """
    lam = trace(f, *inputs, capture=capture)
    others = tuple(variable(*v.size(), seed=9, requires_grad=v.requires_grad) for v in inputs)
    replayed = engine.run_forward(lam, others)
    expected = f(*others)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for a, b in zip(replayed, expected, strict=True):
        assert (a.data.numpy() == b.data.numpy()).all()
        assert a.requires_grad == b.requires_grad
        assert not volatile or a.volatile == b.volatile
    return lam
