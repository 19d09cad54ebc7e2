"""The seven major problems that the original's trace listed of itself, each with a test named for it."""

from __future__ import annotations

import gc
import weakref

import pytest
from programs import engine, random_program, trace, values, variable

import torchlite
from torchlite import _C
from torchlite.autograd import Variable, grad


def test_problem_1_no_sanity_checks() -> None:
    """A trace is checked when it ends, a lambda when asked, an input before a replay."""
    x = _C.Local(_C.TensorType("Float", (2, 3)))
    y = _C.Local(_C.TensorType("Float", (3, 2)))
    broken = _C.Lambda([x], [_C.Let([y], _C.CppApply("tanh", [x]))], [y])
    with pytest.raises(RuntimeError, match=r"result 0 of tanh has type Float\(2, 3\), but is bound as Float\(3, 2\)"):
        broken.check()
    lam = trace(lambda x: x * 2, variable(2, 3))
    with pytest.raises(RuntimeError, match=r"input 0 has type Float\(3, 2\), but .* for Float\(2, 3\)"):
        engine.run_forward(lam, (variable(3, 2),))


def test_problem_2_the_interpreter_leaks_the_store() -> None:
    """The peak of a replay of a 100-layer chain is a few tensors, as every value dies at its last use."""
    size = 50_000

    def chain(x):
        for _ in range(100):
            x = torchlite.tanh(x * 0.5)
        return x

    x = variable(size)
    program = _C.Program(trace(chain, x))
    gc.collect()
    before = _C._memory_stats()["allocated_bytes"]
    _C._reset_peak_memory()
    (y,) = program.run(x)
    assert _C._memory_stats()["peak_bytes"] - before <= 3 * 4 * size
    assert (y.data.numpy() == chain(x).data.numpy()).all()


@pytest.mark.parametrize("seed", range(10))
def test_problem_3_not_at_parity_with_the_engine(seed: int) -> None:
    """Gradients flow through a replay, and a backward can be a part of a trace; both give the bits of eager calls."""
    f = random_program(seed)

    def step(x, y):
        out = f(x, y)
        return out, *grad(out, [x, y])

    x, y = variable(3, 3, requires_grad=True), variable(3, 3, requires_grad=True, seed=1)
    expected = [v.tobytes() for v in values(step(x, y))]
    (out,) = engine.run_forward(trace(f, x, y), (x, y))
    assert [v.tobytes() for v in values((out, *grad(out, [x, y])))] == expected
    assert [v.tobytes() for v in values(engine.run_forward(trace(step, x, y), (x, y)))] == expected


def test_problem_4_doubtful_memory_management() -> None:
    """Deleting a trace frees all of it, cycles included; a trace keeps no run alive."""
    refs: list[weakref.ref] = []

    class Owner(Variable):
        pass

    def f(x):
        y = x * w
        refs.append(weakref.ref(y))
        return y + 1

    w = Owner(torchlite.ones(3), requires_grad=True)
    w.program = lam = trace(f, variable(3), capture=True)  # type: ignore[attr-defined]
    refs.append(weakref.ref(lam))
    assert refs[0]() is None
    w = lam = None  # noqa: F841
    gc.collect()
    assert refs[1]() is None


def test_problem_5_an_open_expression_rather_than_a_lambda() -> None:
    """It knows its parameters and their types, and names nothing that it does not bind."""
    lam = trace(lambda x, y: x * y, variable(2, 3), variable(3))
    assert str(lam).startswith("lambda %0 : Float(2, 3), %1 : Float(3,) {")
    bound = set(lam.params)
    for let in lam.lets:
        assert {a for a in let.args if isinstance(a, _C.Local)} <= bound
        bound |= set(let.results)
    assert set(lam.ret.args) <= bound
    with pytest.raises(RuntimeError, match="used before it is bound"):
        _C.Lambda(lam.params[:1], lam.lets, lam.ret).check()


def test_problem_6_not_introspectable_from_python() -> None:
    """Every part can be read, and built again."""
    lam = trace(lambda x: x.max(1)[0] * 2, variable(2, 3))
    largest, product = lam.lets
    assert (largest.name, largest.args[1].value) == ("Max", 1)
    assert [str(t) for t in largest.types] == ["Float(2,)", "Long(2,)"]
    assert product.args[0] is largest.results[0]
    lets = [_C.Let(t.results, _C.CppApply(t.op.name, t.args)) for t in lam.lets]
    assert _C.Lambda(lam.params, lets, lam.ret) == lam
    assert torchlite.jit.parse(str(lam)) == lam


def test_problem_7_the_tracer_is_not_reentrant() -> None:
    """Traces nest, and a value of one is refused by another."""
    inner: list[_C.Lambda] = []

    def f(x):
        y = x + 1
        inner.append(trace(lambda z: z * 2, y))
        return y * 3

    lam = trace(f, variable(3))
    assert [t.name for t in inner[0].lets] == ["Mul"]
    assert [t.name for t in lam.lets] == ["Add", "Mul", "Mul"]
    kept: list[Variable] = []
    trace(lambda x: kept.append(x * 2) or kept[0], variable(3))
    with pytest.raises(RuntimeError, match="comes from outside the trace"):
        trace(lambda x: x * kept[0], variable(3))
