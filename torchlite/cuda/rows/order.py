"""Elements by their rank: sort, topk, kthvalue, median, mode.

They agree on what is larger: NaN is larger than every number, and equal elements stay in their order, so that the
first of them is taken where there is a choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlite._arrays import module_of
from torchlite._ops.sizes import axis_of, length_of, reduced, reduced_to_one


def _lines(a: Any, dim: int | None) -> tuple[Any, int]:
    """The elements with `dim` last, as a matrix of the lines along it; and the dimension, counted from the front."""
    axis = axis_of(a.shape, -1 if dim is None else dim)
    moved = module_of(a).moveaxis(a, axis, -1) if a.ndim else a
    return moved.reshape(math.prod(moved.shape[:-1]), length_of(a.shape, axis)), axis


def _along(lines: Any, sizes: Sequence[int], axis: int) -> Any:
    """Lines of any length brought back to where they lie in an array of `sizes`."""
    if not sizes:
        return lines.reshape(() if lines.size == 1 else (-1,))
    rest = (*sizes[:axis], *sizes[axis + 1 :])
    return module_of(lines).moveaxis(lines.reshape(*rest, lines.shape[-1]), -1, axis)


def _order(lines: Any, descending: bool) -> Any:
    """The positions that sort each line."""
    xp = module_of(lines)
    if not descending:
        return xp.argsort(lines, axis=-1, kind="stable")
    # The stable order of the line read backwards, read backwards.
    backwards = xp.argsort(lines[:, ::-1], axis=-1, kind="stable")
    return lines.shape[-1] - 1 - backwards[:, ::-1]


def _pick(lines: Any, order: Any, sizes: Sequence[int], axis: int) -> tuple[Any, Any]:
    values = module_of(lines).take_along_axis(lines, order, -1)
    return _along(values, sizes, axis), _along(order, sizes, axis)


def _pick_one(lines: Any, at: Any, sizes: Sequence[int], axis: int, keepdim: bool) -> tuple[Any, Any]:
    """(values, indices) for a column of positions."""
    sizes = reduced(sizes, axis, keepdim)
    values = module_of(lines).take_along_axis(lines, at, -1)
    return values.reshape(sizes), at.reshape(sizes)


def _equal(a: Any, b: Any) -> Any:
    """Where elements are equal, NaN to NaN."""
    return (a == b) | ((a != a) & (b != b))


def _place(lines: Any, k: int) -> Any:
    """The position of the `k`-th smallest element (from 0) of each line, the first one of equals: a column."""
    xp = module_of(lines)
    value = xp.partition(lines, k, axis=-1)[:, k : k + 1]
    return xp.argmax(_equal(lines, value), axis=-1)[:, None]


def _median_place(lines: Any) -> Any:
    xp = module_of(lines)
    at = _place(lines, (lines.shape[-1] - 1) // 2)
    nan = lines != lines
    return xp.where(nan.any(-1, keepdims=True), xp.argmax(nan, axis=-1)[:, None], at)


def _best(lines: Any, k: int, largest: bool) -> Any:
    """The positions of the `k` largest or smallest elements of each line, from the first to the last."""
    xp = module_of(lines)
    n = lines.shape[-1]
    at = n - k if largest else k - 1
    bound = xp.partition(lines, at, axis=-1)[:, at : at + 1]
    nan, bound_nan = lines != lines, bound != bound
    # What lies beyond the bound for certain, and as many of the first that equal it as are still missing.
    beyond = (lines > bound) | (nan & ~bound_nan) if largest else (lines < bound) | (~nan & bound_nan)
    ties = _equal(lines, bound)
    chosen = beyond | (ties & (ties.cumsum(-1) <= k - beyond.sum(-1, keepdims=True)))
    return xp.argsort(~chosen, axis=-1, kind="stable")[:, :k]


def sort(xp: Any, x: Any, dim: int | None, descending: bool) -> Any:
    lines, axis = _lines(x, dim)
    return _pick(lines, _order(lines, descending), x.shape, axis)


def topk(xp: Any, x: Any, k: int, dim: int | None, largest: bool, sorted: bool) -> Any:
    lines, axis = _lines(x, dim)
    if k == 0:
        at = xp.zeros((lines.shape[0], 0), dtype="int64")
    else:
        at = _best(lines, k, largest)
        if sorted:
            at = xp.take_along_axis(at, _order(xp.take_along_axis(lines, at, -1), largest), -1)
    return _pick(lines, at, x.shape, axis)


def kthvalue(xp: Any, x: Any, k: int, dim: int | None, keepdim: bool) -> Any:
    lines, axis = _lines(x, dim)
    return _pick_one(lines, _place(lines, k - 1), x.shape, axis, keepdim)


def median(xp: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    """(values, indices, places); of all elements (value, None, place), the place being that in the flattened array."""
    if dim is None:
        lines = x.reshape(1, -1)
        at = _median_place(lines)
        return lines[0, at[0]].reshape(reduced_to_one(x.shape, keepdim)), None, at[0]
    lines, axis = _lines(x, dim)
    at = _median_place(lines)
    return *_pick_one(lines, at, x.shape, axis, keepdim), at.reshape(reduced(x.shape, axis, keepdim))


def mode(xp: Any, x: Any, dim: int | None, keepdim: bool) -> Any:
    lines, axis = _lines(x, dim)
    order = _order(lines, False)
    ordered = xp.take_along_axis(lines, order, -1)
    # Runs of equal elements in all the lines one after the other; each line begins a run.
    starts = xp.ones(ordered.shape, dtype=bool)
    starts[:, 1:] = ~_equal(ordered[:, 1:], ordered[:, :-1])
    run = starts.ravel().cumsum()
    length = (xp.arange(run.size) - xp.searchsorted(run, run)).reshape(lines.shape)
    # The first position where a run is longest is the end of the run of the smallest element, and its last place.
    at = xp.take_along_axis(order, length.argmax(-1)[:, None], -1)
    return _pick_one(lines, at, x.shape, axis, keepdim)


FORWARD = {"sort": sort, "topk": topk, "kthvalue": kthvalue, "median": median, "mode": mode}
