"""The interpreter against the calls that were traced, and the memory of a replay."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from programs import engine, random_program, trace, values, variable

import torchlite
from torchlite import _C
from torchlite.autograd import Variable, grad, no_grad
from torchlite.nn import functional as F


@pytest.mark.parametrize("seed", range(50))
def test_random_programs_replay_bit_by_bit_backward_included(seed: int) -> None:
    f = random_program(seed)
    lam = trace(f, variable(3, 3, requires_grad=True), variable(3, 3, requires_grad=True, seed=1))

    def results(call) -> list[bytes]:
        x, y = variable(3, 3, requires_grad=True, seed=5), variable(3, 3, requires_grad=True, seed=6)
        out = call(x, y)
        gx, gy = grad(out, [x, y], create_graph=True)
        (gx * gy).sum().backward()
        return [v.data.numpy().tobytes() for v in (out, gx, gy, x.grad, y.grad)]

    assert results(lambda x, y: engine.run_forward(lam, (x, y))[0]) == results(f)


@pytest.mark.parametrize("seed", range(0, 50, 5))
def test_a_traced_backward_replays_bit_by_bit(seed: int) -> None:
    f = random_program(seed)

    def step(x, y):
        out = f(x, y)
        return out, *grad(out, [x, y])

    x, y = variable(3, 3, requires_grad=True), variable(3, 3, requires_grad=True, seed=1)
    lam = trace(step, x, y)
    x, y = variable(3, 3, requires_grad=True, seed=5), variable(3, 3, requires_grad=True, seed=6)
    expected = [v.data.numpy().tobytes() for v in step(x, y)]
    for inputs in ((x, y), (x.data, y.data)):
        assert [v.data.numpy().tobytes() for v in _C.Program(lam).run(*inputs)] == expected


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ((variable(2, 3),), "the lambda has 2 inputs, but got 1"),
        ((variable(2, 3), variable(4)), r"input 1 has type Float\(4,\), but the lambda was made for Float\(3,\)"),
        ((variable(3), variable(3)), r"input 0 has type Float\(3,\), but the lambda was made for Float\(2, 3\)"),
        ((variable(2, 3, dtype="float64"), variable(3)), r"input 0 has type Double\(2, 3\), but .*Float\(2, 3\)"),
        ((variable(1, 3), variable(3)), r"input 0 has type Float\(1, 3\)"),
        ((variable(2, 3), 1.0), "input 1 must be a Variable or a tensor, not float"),
    ],
)
def test_inputs_that_do_not_fit_are_refused_with_both_sides(inputs: tuple, message: str) -> None:
    lam = trace(lambda x, y: x * y, variable(2, 3), variable(3))
    with pytest.raises((RuntimeError, TypeError), match=message):
        engine.run_forward(lam, inputs)


def test_run_forward_takes_an_expr_and_a_tuple() -> None:
    lam = trace(lambda x: x, variable(2))
    with pytest.raises(RuntimeError, match="expr argument is expected to be an Expr, but got int"):
        engine.run_forward(1, (variable(2),))
    with pytest.raises(RuntimeError, match="inputs argument is expected to be a tuple, but got list"):
        engine.run_forward(lam, [variable(2)])


def test_results_are_what_the_calls_give() -> None:
    lam = trace(lambda x: x * 2, variable(2))
    x = variable(2, requires_grad=True)
    assert engine.run_forward(lam, (x,))[0].requires_grad
    with no_grad():
        assert not engine.run_forward(lam, (x,))[0].requires_grad
    assert engine.run_forward(lam, (Variable(x.data, volatile=True),))[0].volatile
    assert isinstance(engine.run_forward(lam, (x.data,))[0], Variable)


def test_results_are_independent_of_later_replays() -> None:
    lam = trace(lambda x: (x * 2 + 1, x), variable(3))
    x1, x2 = variable(3, seed=1), variable(3, seed=2)
    first = engine.run_forward(lam, (x1,))
    kept = values(first)
    engine.run_forward(lam, (x2,))
    (again, _) = engine.run_forward(lam, (first[0],))
    assert all((a == b).all() for a, b in zip(values(first), kept, strict=True))
    assert np.allclose(again.data.numpy(), kept[0] * 2 + 1)
    assert (x1.data.numpy() == kept[1]).all()


def allocated() -> int:
    gc.collect()
    return _C._memory_stats()["allocated_bytes"]


@pytest.mark.parametrize("plain", [True, False])
def test_a_replay_holds_two_or_three_live_tensors(plain: bool) -> None:
    size = 100_000

    def chain(x):
        for _ in range(100):
            x = torchlite.tanh(x * 0.5) + 1
        return x

    x = variable(size)
    program = _C.Program(trace(chain, x))
    before = allocated()
    _C._reset_peak_memory()
    program.run(x.data if plain else x)
    assert 0 < _C._memory_stats()["peak_bytes"] - before <= 3 * 4 * size


def test_a_program_keeps_no_run_alive() -> None:
    lam = trace(lambda x: torchlite.tanh(x * 2), variable(1000))
    program = _C.Program(lam)
    x = variable(1000, requires_grad=True)
    before = allocated()
    program.run(x)
    assert allocated() == before
    with pytest.raises(RuntimeError):
        program.run(variable(3))
    assert allocated() == before


def test_an_error_in_a_replay_is_the_operations_own() -> None:
    index = Variable(torchlite.from_numpy(np.array([0, 1])))
    lam = trace(lambda w, i: F.embedding(i, w), variable(3, 2), index)
    bad = Variable(torchlite.from_numpy(np.array([0, 7])))
    with pytest.raises(IndexError, match="embedding: index 7 at position 1 is out of range"):
        engine.run_forward(lam, (variable(3, 2), bad))


def test_a_function_that_returns_another_number_of_results_is_refused() -> None:
    class Moody(torchlite.autograd.Function):
        count = 2

        @staticmethod
        def forward(ctx, x):
            return tuple(x + k for k in range(Moody.count))

        @staticmethod
        def backward(ctx, *g):
            return g[0]

    lam = trace(lambda x: Moody.apply(x), variable(3))
    Moody.count = 3
    with pytest.raises(RuntimeError, match="Moody returned 3 results, but had 2 when it was traced"):
        engine.run_forward(lam, (variable(3),))
