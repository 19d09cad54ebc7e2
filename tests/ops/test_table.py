"""Every row of the op table against NumPy, and its first and second derivatives against finite differences."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import Array, Entry, Sample, op, real, sample

import torchlite
from torchlite import _C
from torchlite.autograd import Function, Variable, backward

ENTRIES: list[Entry] = [
    entry
    for path in sorted(Path(__file__).parent.glob("samples_*.py"))
    for entry in importlib.import_module(path.stem).SAMPLES
]
ROWS = {row.name: row for row in _C._ops}
Arrays = list[np.ndarray]
DTYPE_OF = {"bool": "uint8"}

# ---- memory layouts: the same values in other places ----------------------------------------------------------------


def transposed(a: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(a.T).T


def sliced(a: np.ndarray) -> np.ndarray:
    if a.ndim == 0:
        return a
    wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1] + 1), a.dtype)
    wide[..., 1::2] = a
    return wide[..., 1::2]


def reversed_strides(a: np.ndarray) -> np.ndarray:
    return a[..., ::-1].copy()[..., ::-1] if a.ndim else a


def repeated(a: np.ndarray) -> np.ndarray:
    """All rows are the first one, with stride 0 (other values, the same size)."""
    return np.lib.stride_tricks.as_strided(a, a.shape, (0, *a.strides[1:])) if a.ndim > 1 and a.size else a


LAYOUTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "contiguous": lambda a: a,
    "transposed": transposed,
    "sliced": sliced,
    "reversed": reversed_strides,
    "repeated": repeated,
}

# ---- helpers --------------------------------------------------------------------------------------------------------


def map_arrays(f: Callable[[np.ndarray], Any], value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f(value)
    return [map_arrays(f, v) for v in value] if isinstance(value, list) else value


def tensor(a: np.ndarray) -> Any:
    return torchlite.from_numpy(np.asarray(a))


def call(name: str, args: list[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    out = ROWS[name](*args, **kwargs)
    return out if isinstance(out, tuple) else (out,)


def reference_of(entry: Entry, args: list[Any], kwargs: dict[str, Any]) -> tuple[np.ndarray, ...]:
    assert entry.reference is not None
    with np.errstate(all="ignore"):
        out = entry.reference(*args, **kwargs)
    return tuple(np.asarray(o) for o in (out if isinstance(out, tuple) else (out,)))


def assert_close(got: np.ndarray, expected: np.ndarray, rtol: float) -> None:
    assert got.shape == expected.shape
    assert got.dtype.name == DTYPE_OF.get(expected.dtype.name, expected.dtype.name)
    if got.dtype == np.float64:
        rtol = 1e-6 * rtol
    np.testing.assert_allclose(got.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=rtol)


@contextmanager
def of(entry: Entry, s: Sample, *where: str) -> Iterator[None]:
    """Says which sample failed."""
    try:
        yield
    except Exception as e:
        shown = ", ".join([repr(a.make(np.random.default_rng(0), "float64").shape) if isinstance(a, Array) else repr(a)
                           for a in s.args] + [f"{k}={v!r}" for k, v in s.kwargs.items()])
        raise AssertionError(f"{entry.name}({shown}) {' '.join(where)}: {type(e).__name__}: {e}") from e


def entries(chosen: Callable[[Entry], bool]) -> list[Any]:
    return [pytest.param(entry, id=entry.name) for entry in ENTRIES if entry.name in ROWS and chosen(entry)]


# ---- the table itself -----------------------------------------------------------------------------------------------


def test_every_row_has_samples_and_every_sample_a_row() -> None:
    names = [e.name for e in ENTRIES]
    assert sorted(set(ROWS) - set(names)) == [], "rows without samples"
    assert sorted(set(names) - set(ROWS)) == [], "samples without a row"
    assert len(set(names)) == len(names)
    assert all(e.samples for e in ENTRIES)


def test_rows_say_what_they_do() -> None:
    for row in ROWS.values():
        assert len(row.__doc__.splitlines()) > 1, row.name


def test_the_text_of_a_method_begins_with_the_signature() -> None:
    assert torchlite.Variable.softplus.__doc__ == torchlite.softplus.__doc__
    assert torchlite.FloatTensor.tanh_.__doc__.startswith("tanh(Tensor self)\n\n")


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry, layout", [
    pytest.param(*param.values, layout, id=f"{param.id}-{layout}")
    for param in entries(lambda e: e.reference is not None)
    for layout in LAYOUTS
    if layout != "repeated" or param.values[0].equal_rows
])
def test_values_are_numpys(entry: Entry, layout: str) -> None:
    for s in entry.samples:
        for dtype in entry.dtypes:
            args, kwargs = s.make(dtype)
            args = map_arrays(LAYOUTS[layout], args)
            with of(entry, s, dtype):
                expected = reference_of(entry, args, kwargs)
                got = call(entry.name, map_arrays(lambda a: Variable(tensor(a)), args), kwargs)
                assert len(got) == len(expected)
                for g, e in zip(got, expected, strict=True):
                    assert_close(g.data.numpy(), e, entry.rtol)


def self_position(args: list[Any]) -> int:
    """Where `self` stands: behind the numbers that may lead."""
    return next((i for i, a in enumerate(args) if isinstance(a, np.ndarray)), 0)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced", "reversed"])
@pytest.mark.parametrize("entry", entries(lambda e: e.reference is not None and ROWS[e.name].inplace))
def test_in_place_form_writes_the_same_values(entry: Entry, layout: str) -> None:
    for s in entry.samples:
        for dtype in entry.dtypes:
            args, kwargs = s.make(dtype)
            at = self_position(args)
            if at != 0 and ROWS[entry.name].params[0] == "self":
                continue  # a number on the left
            args[at] = LAYOUTS[layout](np.asarray(args[at]).copy())
            (expected, *_) = reference_of(entry, args, kwargs)
            if args[at].shape != expected.shape or expected.dtype not in (args[at].dtype, bool):
                continue
            with of(entry, s, dtype):
                tensors = map_arrays(tensor, args)
                self = tensors.pop(at)
                assert getattr(self, entry.name + "_")(*tensors, **kwargs) is self
                assert_close(self.numpy(), expected.astype(args[at].dtype), entry.rtol)


# ---- derivatives ----------------------------------------------------------------------------------------------------
# A derivative is compared along random directions: <gradient, d> against (f(x + e d) - f(x - e d)) / 2 e.

STEP = 1e-6


class Problem:
    """A sample as a function of its differentiable arrays, in float64."""

    def __init__(self, entry: Entry, s: Sample, layout: Callable[[np.ndarray], np.ndarray]) -> None:
        self.name, self.constants = entry.name, entry.constants
        args, self.kwargs = s.make("float64")
        self.args = map_arrays(layout, args)
        self.inputs: Arrays = []
        for a, takes in zip(self.args, s.differentiable(), strict=True):
            if takes:
                self.inputs += [a] if isinstance(a, np.ndarray) else [e for e in a if isinstance(e, np.ndarray)]

    def __call__(self, inputs: list[Any]) -> list[Any]:
        """The results that are differentiable, of Variables in place of the inputs."""
        by_id = {id(a): v for a, v in zip(self.inputs, inputs, strict=True)}
        args = map_arrays(lambda a: by_id[id(a)] if id(a) in by_id else Variable(tensor(a)), self.args)
        results = call(self.name, args, self.kwargs)
        return [o for i, o in enumerate(results) if o.data.numpy().dtype == np.float64 and i not in self.constants]

    def variables(self, arrays: Arrays, requires_grad: bool = True) -> list[Any]:
        return [Variable(tensor(a), requires_grad=requires_grad) for a in arrays]

    def values(self, arrays: Arrays) -> Arrays:
        return [o.data.numpy() for o in self(self.variables(arrays, False))]

    def gradients(self, arrays: Arrays, cotangents: Arrays) -> Arrays:
        inputs = self.variables(arrays)
        return [g.data.numpy() for g in self.vjp(inputs, self.variables(cotangents, False), create_graph=False)]

    def vjp(self, inputs: list[Any], cotangents: list[Any], create_graph: bool) -> list[Any]:
        return pull_back(self(inputs), cotangents, inputs, create_graph)


def pull_back(outputs: list[Any], cotangents: list[Any], inputs: list[Any], create_graph: bool) -> list[Any]:
    """The gradients of the leaves `inputs`, zeros for one that is not used."""
    if outputs:
        backward(outputs, cotangents, create_graph=create_graph)
    gradients = []
    for x in inputs:
        gradients.append(Variable(tensor(np.zeros_like(x.data.numpy()))) if x.grad is None else x.grad)
        x.grad = None
    return gradients



def slope(f: Callable[[Arrays], Arrays], x: Arrays, d: Arrays, w: Arrays) -> float:
    """The derivative of <w, f(x)> along d."""
    up, down = (f([a + sign * STEP * b for a, b in zip(x, d, strict=True)]) for sign in (1, -1))
    return sum(float(np.sum(c * (u - v))) for c, u, v in zip(w, up, down, strict=True)) / (2 * STEP)


def directions(rng: np.random.Generator, like: Arrays) -> Arrays:
    return [np.asarray(rng.uniform(-1, 1, a.shape)) for a in like]


def inner(a: Arrays, b: Arrays) -> float:
    assert [x.shape for x in a] == [y.shape for y in b]
    return sum(float(np.sum(x * y)) for x, y in zip(a, b, strict=True))


def has_derivative(e: Entry) -> bool:
    return e.grad and ROWS[e.name].differentiable


@pytest.mark.parametrize("layout", ["contiguous", "transposed"])
@pytest.mark.parametrize("entry", entries(has_derivative))
def test_gradient_is_the_slope(entry: Entry, layout: str) -> None:
    for s in entry.samples:
        with of(entry, s):
            check_gradient(Problem(entry, s, LAYOUTS[layout]))


def check_gradient(p: Problem) -> None:
    rng = np.random.default_rng(1)
    cotangents = directions(rng, p.values(p.inputs))
    gradients = p.gradients(p.inputs, cotangents)
    for i, x in enumerate(p.inputs):
        for _ in range(2):
            d = [np.zeros_like(a) for a in p.inputs]
            d[i] = np.asarray(rng.uniform(-1, 1, x.shape))
            expected = slope(p.values, p.inputs, d, cotangents)
            assert inner(gradients, d) == pytest.approx(expected, rel=1e-5, abs=1e-6), f"input {i}"


@pytest.mark.parametrize("entry", entries(lambda e: has_derivative(e) and e.second))
def test_second_derivative_is_the_slope_of_the_gradient(entry: Entry) -> None:
    for s in entry.samples:
        with of(entry, s):
            check_second_derivative(Problem(entry, s, LAYOUTS["contiguous"]))


def check_second_derivative(p: Problem) -> None:
    rng = np.random.default_rng(2)
    cotangents = directions(rng, p.values(p.inputs))
    n = len(p.inputs)
    x = [*p.inputs, *cotangents]
    weights = directions(rng, p.inputs)
    variables = p.variables(x)
    # The cotangents are leaves as well: the gradient is linear in them.
    first = p.vjp(variables[:n], variables[n:], create_graph=True)
    used = [(g, w) for g, w in zip(first, weights, strict=True) if g.requires_grad]
    second = pull_back([g for g, _ in used], [Variable(tensor(w)) for _, w in used], variables, create_graph=False)
    gradients = [g.data.numpy() for g in second]
    for i, a in enumerate(x):
        d = [np.zeros_like(b) for b in x]
        d[i] = np.asarray(rng.uniform(-1, 1, a.shape))
        expected = slope(lambda y: p.gradients(y[:n], y[n:]), x, d, weights)
        assert inner(gradients, d) == pytest.approx(expected, rel=1e-4, abs=1e-5), f"input {i}"


# ---- the checks themselves ------------------------------------------------------------------------------------------


class WrongGradient(Function):
    """tanh with a gradient that is a thousandth too large."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = x.tanh()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_variables
        return g * (1 - y * y) * 1.001


class WrongSecondDerivative(WrongGradient):
    """tanh whose gradient is right, and forgets that it depends on x."""

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (y,) = ctx.saved_variables
        return g * (1 - (y * y).detach())


def planted(monkeypatch: pytest.MonkeyPatch, function: type) -> Problem:
    monkeypatch.setitem(ROWS, "planted", function.apply)
    return Problem(op("planted", sample(real(3, 4)), reference=None), sample(real(3, 4)), LAYOUTS["contiguous"])


def test_a_wrong_gradient_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError):
        check_gradient(planted(monkeypatch, WrongGradient))


def test_a_wrong_second_derivative_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    p = planted(monkeypatch, WrongSecondDerivative)
    check_gradient(p)
    with pytest.raises(AssertionError):
        check_second_derivative(p)
