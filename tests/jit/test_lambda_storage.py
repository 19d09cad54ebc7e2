"""Lambdas on disk."""

import io

import numpy as np
import pytest

import torchlite
from torchlite import jit
from torchlite.autograd import Function, Variable


class Twice(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def variable(*sizes):
    return Variable(np.random.RandomState(0).randn(*sizes))


def reloaded(lam):
    f = io.BytesIO()
    jit.save(lam, f)
    f.seek(0)
    return jit.load(f)


FUNCTIONS = {
    "constants": lambda x: x.sum(1).clamp(0, 1) * 2.5 + float("inf"),
    "an index": lambda x: x[0, 1:3],
    "a list": lambda x: torchlite.cat([x, x * 2], 1),
    "a Python Function": lambda x: Twice.apply(x) + 1,
    "several results": lambda x: x.max(1),
}


@pytest.mark.parametrize("fn", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_lambda_comes_back_equal_and_runs(fn):
    x = variable(3, 4)
    lam = jit.make_lambda(fn, [x])
    again = reloaded(lam)
    assert str(again) == str(lam)
    result, expected = (Variable._execution_engine.run_forward(each, (x,)) for each in (again, lam))
    assert [v.data.numpy().tobytes() for v in result] == [v.data.numpy().tobytes() for v in expected]


def test_captures_are_saved_with_their_data(tmp_path):
    w = Variable(torchlite.ones(3) * 7, requires_grad=True)
    jit.save(jit.make_lambda(lambda x: x * w, [Variable(torchlite.ones(3))]), tmp_path / "f.pt")
    w.data.zero_()
    again = jit.load(tmp_path / "f.pt")
    assert again.captures[0].data.tolist() == [7, 7, 7] and again.captures[0].requires_grad


def test_other_files_and_objects_are_refused(tmp_path):
    torchlite.save({"a": 1}, tmp_path / "f.pt")
    with pytest.raises(RuntimeError, match="holds no lambda"):
        jit.load(tmp_path / "f.pt")
    with pytest.raises(TypeError, match="must be a Lambda"):
        jit.save(lambda x: x, tmp_path / "g.pt")
