"""Texts of traces against the files in golden/; `pytest --accept` writes them anew."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from programs import trace, variable

import torchlite
from torchlite import _C
from torchlite.autograd import Function, Variable
from torchlite.jit import parse
from torchlite.nn import functional as F

GOLDEN = Path(__file__).parent / "golden"


class MinMax(Function):
    @staticmethod
    def forward(ctx, x, scale):
        return x.min(1)[0] * scale, x.max(1)[0] * scale

    @staticmethod
    def backward(ctx, g, h):
        raise NotImplementedError


WEIGHT = variable(3)


def long(*values: int) -> Variable:
    return Variable(torchlite.from_numpy(np.array(values)))


def language_model(tokens, h, c, embedding, w_ih, w_hh, b_ih, b_hh, w):
    """The seed's example: an unrolled LSTM between an embedding and a linear layer."""
    outputs = []
    embedded = F.dropout(F.embedding(tokens, embedding), 0.2, True)
    for t in range(2):
        h, c = _C._find_op("lstm_cell")(F.linear(embedded[t], w_ih), F.linear(h, w_hh), b_ih, b_hh, c)
        outputs.append(F.linear(F.dropout(h, 0.2, True), w))
    return torchlite.stack(outputs, 0), h, c


def training_step(x, target, w, b):
    loss = F.cross_entropy(F.linear(torchlite.tanh(x), w, b), target)
    w.grad = b.grad = None
    loss.backward()
    return loss, w.grad, b.grad


def in_place(x, y):
    a = x * 2
    a.add_(y)
    a.t_()
    a[0] = 1
    return a.mul_(2.5), x


def several_results(x):
    low, high = MinMax.apply(x, 2.0)
    values, where = x.max(1)
    return low, high, values, where


def captured(w):
    return trace(lambda x: x * w, variable(2, 3), capture=True)


CASES: dict[str, Callable[[], object]] = {
    "identity": lambda: trace(lambda x: x, variable(2, 3)),
    "language_model": lambda: trace(
        language_model, Variable(long(0, 1, 2, 3).data.view(2, 2)), variable(2, 3), variable(2, 3), variable(5, 4),
        variable(12, 4), variable(12, 3), variable(12), variable(12), variable(5, 3),
    ),
    "training_step": lambda: trace(
        training_step, variable(4, 3), long(0, 1, 1, 0), variable(2, 3, requires_grad=True),
        variable(2, requires_grad=True),
    ),
    "in_place": lambda: trace(in_place, variable(2, 2), variable(2, 2)),
    "several_results": lambda: trace(several_results, variable(2, 3)),
    "captured": lambda: trace(lambda x: x * WEIGHT, variable(2, 3), capture=True),
    "keys": lambda: trace(lambda x, i: (x[:, i], x[..., None, ::2], x[i > 0]), variable(3, 3), long(0, 2, 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_text_is_that_of_the_golden_file(name: str, request: pytest.FixtureRequest) -> None:
    lam = CASES[name]()
    text, path = str(lam), GOLDEN / f"{name}.txt"
    if request.config.getoption("--accept"):
        path.write_text(text)
    assert text == path.read_text()
    assert parse(text, lam.captures) == lam


def test_every_golden_file_has_a_case() -> None:
    assert {p.stem for p in GOLDEN.glob("*.txt")} == set(CASES)
