"""Samples of the rows that order elements. The references look at one line at a time, in plain Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from samples import NUMERIC, exactly, op, real, sample

SHAPES: list[tuple[tuple[int, ...], int]] = [((3, 4), 0), ((3, 4), 1), ((2, 3, 4), -2), ((5,), 0), ((4, 1), 1), ((), 0)]
TIES = exactly([[2, 1, 2, 1, 3], [1, 1, 0, 0, 3], [3, 3, 3, 3, 3], [5, 4, 3, 2, 1]], "int64")
Line = list[float]


def order(line: Line, descending: bool = False) -> list[int]:
    return sorted(range(len(line)), key=lambda i: -line[i] if descending else line[i])


def along(places: Callable[..., list[int]], reduces: bool = False) -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """(values, indices) from a function of a line that names places in it."""

    def reference(a: np.ndarray, *args: Any, dim: int | None = None, keepdim: bool = False) -> Any:
        axis = -1 if dim is None else dim
        whole = np.moveaxis(np.atleast_1d(a), axis, -1)
        lines = whole.reshape(math.prod(whole.shape[:-1]), whole.shape[-1])
        found = [places(line, *args) for line in lines.tolist()]
        at = np.array(found or np.empty((0, len(places([0.0] * whole.shape[-1], *args)))), np.int64)
        values = np.take_along_axis(lines, at, -1)
        values, at = (np.moveaxis(x.reshape(*whole.shape[:-1], x.shape[1]), -1, axis) for x in (values, at))
        if reduces and not keepdim and whole.ndim > 1:
            return values.squeeze(axis), at.squeeze(axis)
        return (values.reshape(()), at.reshape(())) if a.ndim == 0 and not reduces else (values, at)

    return reference


def sort(a: np.ndarray, dim: int | None = None, descending: bool = False) -> Any:
    return along(lambda line: order(line, descending))(a, dim=dim)


def topk(a: np.ndarray, k: int, dim: int | None = None, largest: bool = True, sorted: bool = True) -> Any:
    def best(line: Line) -> list[int]:
        found = order(line, largest)[:k]
        return found if sorted else [i for i in range(len(line)) if i in found]

    return along(best)(a, dim=dim)


def kthvalue(a: np.ndarray, k: int, dim: int | None = None, keepdim: bool = False) -> Any:
    return along(lambda line: [line.index(line[order(line)[k - 1]])], True)(a, dim=dim, keepdim=keepdim)


def median(a: np.ndarray, dim: int | None = None, keepdim: bool = False) -> Any:
    if dim is None:
        return np.sort(a, axis=None)[(a.size - 1) // 2].reshape((1,) * (a.ndim if keepdim else 1))
    return kthvalue(a, (np.atleast_1d(a).shape[dim] + 1) // 2, dim, keepdim)


def mode(a: np.ndarray, dim: int | None = None, keepdim: bool = False) -> Any:
    def place(line: Line) -> list[int]:
        counts = Counter(line)
        value = min(v for v in line if counts[v] == max(counts.values()))
        return [len(line) - 1 - line[::-1].index(value)]

    return along(place, True)(a, dim=dim, keepdim=keepdim)


def histc(a: np.ndarray, bins: int = 100, min: float = 0, max: float = 0) -> np.ndarray:
    counts = np.zeros(bins, a.dtype)
    low, high = (min, max) if min != max else (a.min(), a.max())
    if low == high:
        low, high = low - 1, high + 1
    for x in a.ravel().tolist():
        if low <= x <= high:
            counts[builtin_min(math.floor((x - low) / (high - low) * bins), bins - 1)] += 1
    return counts


builtin_min = min  # histc has parameters of that name

SAMPLES = [
    op("sort", *(sample(real(*s), d) for s, d in SHAPES), sample(real(2, 5)), sample(real(3, 4), 0, True),
       sample(real(3, 4), descending=True), sample(real(0, 3), 1), sample(real(3, 0), 1), sample(TIES),
       sample(TIES, 1, True), reference=sort, dtypes=NUMERIC),
    op("topk", *(sample(real(*s), 1, d) for s, d in SHAPES), sample(real(2, 5), 3), sample(real(2, 5), 5),
       sample(real(3, 4), 2, 0, False), sample(real(3, 4), 2, largest=False), sample(real(3, 4), 0),
       sample(real(3, 7), 4, 1, True, False), sample(real(0, 3), 2, 1), sample(TIES, 2),
       sample(TIES, 3, 1, False), reference=topk, dtypes=NUMERIC),
    op("kthvalue", *(sample(real(*s), 1, d) for s, d in SHAPES), sample(real(2, 5), 3), sample(real(2, 5), 2, 0, True),
       sample(real(5), 5, 0, True), sample(real(0, 3), 2, 1),
       sample(TIES, 3), reference=kthvalue, dtypes=NUMERIC),
    op("median", *(sample(real(*s), d) for s, d in SHAPES), *(sample(real(*s)) for s, _ in SHAPES),
       sample(real(3, 4), 1, True), sample(real(2, 5), 1, keepdim=True), sample(real(2, 3), keepdim=True),
       sample(real(0, 3), 1), sample(TIES, 1),
       sample(TIES), reference=median, dtypes=NUMERIC),
    op("mode", *(sample(real(*s), d) for s, d in SHAPES), sample(real(2, 5)), sample(real(3, 4), 1, True),
       sample(real(0, 3), 1), sample(TIES), sample(TIES, 0), reference=mode, dtypes=NUMERIC),
    op("nonzero", sample(exactly([[0, 1, 2], [3, 0, 0]])), sample(exactly([0, 5])), sample(exactly(2)),
       reference=lambda a: np.argwhere(np.atleast_1d(a)), dtypes=(*NUMERIC, "uint8"), grad=False),
    op("histc", sample(real(3, 7)), sample(real(3, 7), 5), sample(real(20), 4, -1, 1), sample(exactly([1, 1]), 3),
       sample(real(20), bins=7, min=0, max=3), sample(exactly([0, 1, 2, 3, 4]), 4, 0, 4), reference=histc,
       dtypes=NUMERIC),
]
