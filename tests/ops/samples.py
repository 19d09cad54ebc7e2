"""How the samples of the op table are declared; the samples_*.py files beside this one hold them.

Each samples_*.py defines ``SAMPLES``, a list of ``op(...)``: one entry per row of the table. test_table.py runs every
entry over its element types and over memory layouts, against ``reference``, and checks first and second derivatives.

    op("lerp", sample(real(2, 3), real(2, 3), 0.25), sample(real(2, 3), real(3), -1.5),
       reference=lambda a, b, w: a + w * (b - a))

Arguments of ``sample`` are those of the row's signature in the order a caller writes them, with ``Array`` makers
where the signature has tensors; everything else is passed as it is. ``reference`` is called with the same arguments,
arrays in place of tensors, and returns an array, or a tuple of them for a row with several results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

FLOATING = ("float32", "float64")
NUMERIC = ("float32", "float64", "int64")
INTEGER = ("uint8", "int8", "int16", "int32", "int64")


class Array(NamedTuple):
    """Makes one array argument: ``make(rng, dtype)``. ``dtype`` None takes the element type under test.

    An array with a ``dtype`` of its own (indices, masks) never requires a gradient.
    """

    build: Callable[[np.random.Generator], np.ndarray]
    dtype: str | None = None

    def make(self, rng: np.random.Generator, dtype: str) -> np.ndarray:
        return np.array(self.build(rng), dtype=self.dtype or dtype)


def real(
    *shape: int, low: float = -2.0, high: float = 2.0, gap: float = 0.05, avoid: tuple[float, ...] = (0,)
) -> Array:
    """Numbers in [low, high], no two of them closer than a little, none within ``gap`` of the points in ``avoid``.

    So kinks (ties, zeros, thresholds) lie further away than a finite difference reaches.
    """

    def build(rng: np.random.Generator) -> np.ndarray:
        n = int(np.prod(shape, dtype=int))
        x = low + (high - low) * (rng.permutation(n) + rng.uniform(0.3, 0.7, n)) / max(n, 1)
        for point in avoid:
            near = np.abs(x - point) < gap
            # A point at the end of the interval is left on the inner side.
            x = np.where(near, point + (2 * gap if point + 2 * gap <= high else -2 * gap) + 0.2 * (x - point), x)
        return x.reshape(shape)

    return Array(build)


def positive(*shape: int, low: float = 0.3, high: float = 2.5) -> Array:
    """Numbers in [low, high] above zero."""
    return real(*shape, low=low, high=high, avoid=())


def exactly(values: Any, dtype: str | None = None) -> Array:
    """These very values."""
    return Array(lambda rng: np.array(values), dtype)


def index(*shape: int, high: int, low: int = 0) -> Array:
    """int64 indices in [low, high)."""
    return Array(lambda rng: rng.integers(low, high, shape), "int64")


def mask(*shape: int) -> Array:
    """A uint8 mask of zeros and ones."""
    return Array(lambda rng: rng.integers(0, 2, shape), "uint8")


class Sample(NamedTuple):
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def make(self, dtype: str, seed: int = 0) -> tuple[list[Any], dict[str, Any]]:
        """The arguments with arrays in place of makers."""
        rng = np.random.default_rng(seed)

        def value(a: Any) -> Any:
            if isinstance(a, Array):
                return a.make(rng, dtype)
            return [value(e) for e in a] if isinstance(a, list) else a

        return [value(a) for a in self.args], {k: value(a) for k, a in self.kwargs.items()}

    def differentiable(self) -> list[bool]:
        """Which positional arguments are tensors that take a gradient (for a list: whether its elements do)."""

        def takes(a: Any) -> bool:
            return isinstance(a, Array) and a.dtype is None or isinstance(a, list) and any(map(takes, a))

        return [takes(a) for a in self.args]


def sample(*args: Any, **kwargs: Any) -> Sample:
    return Sample(args, kwargs)


class Entry(NamedTuple):
    name: str
    samples: tuple[Sample, ...]
    reference: Callable[..., Any] | None
    dtypes: tuple[str, ...]
    grad: bool
    second: bool
    rtol: float
    equal_rows: bool
    constants: tuple[int, ...]


def op(
    name: str,
    *samples: Sample,
    reference: Callable[..., Any] | None,
    dtypes: tuple[str, ...] = FLOATING,
    grad: bool = True,
    second: bool = True,
    rtol: float = 1e-5,
    equal_rows: bool = True,
    constants: tuple[int, ...] = (),
) -> Entry:
    """An entry of the table's test.

    ``reference`` None checks derivatives only (results that are random or only defined up to a sign). ``grad`` and
    ``second`` False leave out the first and second derivative of a row whose result has none that differences can see.
    ``rtol`` is for float32 results; float64 ones are compared a million times closer. ``equal_rows`` False leaves out
    the layout in which all rows are one, for a row that needs regular matrices. ``constants`` are positions of
    floating-point results that have no gradient.
    """
    return Entry(name, samples, reference, dtypes, grad, second, rtol, equal_rows, constants)
