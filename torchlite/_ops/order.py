"""Operations that order elements: sort, topk, kthvalue, median, mode, nonzero; and counts of them: histc.

They agree on what is larger: NaN is larger than every number, and equal elements stay in their order, so that the
first of them is taken where there is a choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import _C
from .._arrays import array, module_of
from . import TensorType, define_op
from .sizes import axis_of, kept, length_of, reduced, reduced_to_one, require_elements


def _last(dim: int | None) -> int:
    return -1 if dim is None else dim


def _lines(self: Any, axis: int) -> Any:
    """The elements with `axis` last, as a matrix of the lines along it."""
    a = array(self)
    a = module_of(a).moveaxis(a, axis, -1) if a.ndim else a
    return a.reshape(math.prod(a.shape[:-1]), length_of(self.size(), axis))


def _along(lines: Any, sizes: Sequence[int], axis: int) -> Any:
    """Lines of any length brought back to where they lie in a tensor of `sizes`."""
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


def _equal(a: Any, b: Any) -> Any:
    """Where elements are equal, NaN to NaN."""
    return (a == b) | ((a != a) & (b != b))


def _place(lines: Any, k: int) -> Any:
    """The position of the `k`-th smallest element (from 0) of each line, the first one of equals: a column."""
    xp = module_of(lines)
    value = xp.partition(lines, k, axis=-1)[:, k : k + 1]
    return xp.argmax(_equal(lines, value), axis=-1)[:, None]


def best(lines: Any, k: int, largest: bool) -> Any:
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
    return xp.nonzero(chosen)[1].reshape(-1, k)


# ---- gradients: what an element gave goes back to its place -------------------------------------------------------


def _put_back(ctx: Any, grad: Any, indices: Any, dim: int) -> Any:
    """Zeros of self's size with the gradient's elements at `indices` along `dim`."""
    sizes = ctx.sizes("self")
    zeros = _C._ops.zeros_of(grad, sizes or (1,))
    if not sizes:
        return zeros.scatter_add(0, indices.view(-1), grad.view(-1)).view(sizes)
    return zeros.scatter_add(axis_of(sizes, dim), indices, grad)


def _sorted_backward(ctx: Any, grad: Any, _: Any) -> Any:
    """For (self, ..., dim, ...) with the positions as the second result."""
    return _put_back(ctx, grad, ctx.output(1), _last(ctx.value("dim")))


def _put_back_one(ctx: Any, grad: Any, indices: Any, dim: int) -> Any:
    """The same for one element of each line, whether or not its dimension was kept."""
    sizes = ctx.sizes("self")
    one = kept(sizes, axis_of(sizes, dim))
    return _put_back(ctx, grad.view(one), indices.view(one), dim)


# ---- sort and topk ------------------------------------------------------------------------------------------------


def _sort(self: Any, dim: int | None, descending: bool) -> Any:
    axis = axis_of(self.size(), _last(dim))
    lines = _lines(self, axis)
    return _pick(lines, _order(lines, descending), self.size(), axis)


def _sort_types(self: TensorType, dim: int | None, descending: bool) -> Any:
    axis_of(self.sizes, _last(dim))
    return [self, TensorType("Long", self.sizes, self.device)]


define_op(
    "sort(Tensor self, int? dim=None, bool descending=False)",
    "(values, indices): the elements sorted along `dim` (the last one by default) and, a LongTensor, where each was. "
    "Equal elements keep their order; NaN is larger than every number.",
    forward=_sort,
    types=_sort_types,
    backward=lambda ctx, grad, _: (_sorted_backward(ctx, grad, _), None, None),
    uses={"self": "out1"},
    outputs=2,
    non_differentiable=(1,),
    keep_sizes=True,
)


def _require_k(name: str, k: int, sizes: Sequence[int], dim: int | None, least: int) -> int:
    axis = axis_of(sizes, _last(dim))
    size = length_of(sizes, axis)
    if not least <= k <= size:
        raise RuntimeError(
            f"{name}: k must be between {least} and the size {size} of dimension {axis}, but got {k}"
        )
    return axis


def _topk(self: Any, k: int, dim: int | None, largest: bool, sorted: bool) -> Any:
    axis = _require_k("topk", k, self.size(), dim, 0)
    lines = _lines(self, axis)
    xp = module_of(lines)
    if k == 0:
        at = xp.zeros((lines.shape[0], 0), dtype="int64")
    else:
        at = best(lines, k, largest)
        if sorted:
            at = xp.take_along_axis(at, _order(xp.take_along_axis(lines, at, -1), largest), -1)
    return _pick(lines, at, self.size(), axis)


def _topk_types(self: TensorType, k: int, dim: int | None, largest: bool, sorted: bool) -> Any:
    axis = _require_k("topk", k, self.sizes, dim, 0)
    sizes = (*self.sizes[:axis], k, *self.sizes[axis + 1 :]) if self.sizes else (() if k else (0,))
    return [TensorType(self.dtype, sizes, self.device), TensorType("Long", sizes, self.device)]


define_op(
    "topk(Tensor self, int k, int? dim=None, bool largest=True, bool sorted=True)",
    "(values, indices): the `k` largest (or smallest) elements along `dim` (the last one by default) and, a "
    "LongTensor, their places. They come best first if `sorted`, else in the order of their places; of equal elements "
    "the first are taken; NaN is larger than every number. RuntimeError if there are fewer than `k`.",
    forward=_topk,
    types=_topk_types,
    backward=lambda ctx, grad, _: (_sorted_backward(ctx, grad, _), None, None, None, None),
    uses={"self": "out1"},
    outputs=2,
    non_differentiable=(1,),
    keep_sizes=True,
)

# ---- one element of each line -------------------------------------------------------------------------------------


def _pick_one(self: Any, lines: Any, at: Any, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """(values, indices) for a column of positions."""
    sizes = reduced(self.size(), axis, keepdim)
    values = module_of(lines).take_along_axis(lines, at, -1)
    return values.reshape(sizes), at.reshape(sizes)


def _pair_types(self: TensorType, axis: int, keepdim: bool) -> Any:
    sizes = reduced(self.sizes, axis, keepdim)
    return [TensorType(self.dtype, sizes, self.device), TensorType("Long", sizes, self.device)]


def _kthvalue(self: Any, k: int, dim: int | None, keepdim: bool) -> Any:
    axis = _require_k("kthvalue", k, self.size(), dim, 1)
    lines = _lines(self, axis)
    return _pick_one(self, lines, _place(lines, k - 1), axis, keepdim)


define_op(
    "kthvalue(Tensor self, int k, int? dim=None, bool keepdim=False)",
    "(values, indices): the `k`-th smallest element (from 1) along `dim` (the last one by default) and, a LongTensor, "
    "its place, the first one of equal elements. NaN is larger than every number. RuntimeError if there are fewer "
    "than `k`.",
    forward=_kthvalue,
    types=lambda self, k, dim, keepdim: _pair_types(self, _require_k("kthvalue", k, self.sizes, dim, 1), keepdim),
    backward=lambda ctx, grad, _: (_put_back_one(ctx, grad, ctx.output(1), _last(ctx.value("dim"))), None, None, None),
    uses={"self": "out1"},
    outputs=2,
    non_differentiable=(1,),
    keep_sizes=True,
)


def _median_place(lines: Any) -> Any:
    xp = module_of(lines)
    at = _place(lines, (lines.shape[-1] - 1) // 2)
    nan = lines != lines
    return xp.where(nan.any(-1, keepdims=True), xp.argmax(nan, axis=-1)[:, None], at)


def _median(self: Any, dim: int | None, keepdim: bool) -> Any:
    if dim is None:
        if self.numel() == 0:
            raise RuntimeError("median: the tensor has no elements")
        lines = array(self).reshape(1, -1)
        at = _median_place(lines)
        return lines[0, at[0]].reshape(reduced_to_one(self.size(), keepdim)), None, at[0]
    axis = axis_of(self.size(), dim)
    require_elements("median", self.size(), axis)
    lines = _lines(self, axis)
    at = _median_place(lines)
    return *_pick_one(self, lines, at, axis, keepdim), at.reshape(kept(self.size(), axis))


def _median_types(self: TensorType, dim: int | None, keepdim: bool) -> Any:
    if dim is None:
        if 0 in self.sizes:
            raise RuntimeError("median: the tensor has no elements")
        return TensorType(self.dtype, reduced_to_one(self.sizes, keepdim), self.device)
    axis = axis_of(self.sizes, dim)
    require_elements("median", self.sizes, axis)
    return _pair_types(self, axis, keepdim)


def _median_backward(ctx: Any, grad: Any, _: Any) -> Any:
    dim, places = ctx.value("dim"), ctx.output(2)
    if dim is not None:
        return _put_back_one(ctx, grad, places, dim), None, None
    sizes = ctx.sizes("self")
    return _C._ops.zeros_of(grad, (math.prod(sizes),)).scatter_add(0, places, grad.view(1)).view(sizes), None, None


define_op(
    "median(Tensor self, int? dim=None, bool keepdim=False)",
    "The median of all elements; with `dim`, (values, indices): the medians along it and, a LongTensor, their places. "
    "Of an even number of elements it is the lower of the two in the middle. The first of equal elements is taken and "
    "gets the gradient; where there is a NaN, it is the median.",
    forward=_median,
    types=_median_types,
    backward=_median_backward,
    uses={"self": "out2"},
    outputs=2,
    hidden_outputs=1,
    non_differentiable=(1,),
    reduces_to_number=True,
    keep_sizes=True,
)


def _mode(self: Any, dim: int | None, keepdim: bool) -> Any:
    axis = axis_of(self.size(), _last(dim))
    require_elements("mode", self.size(), axis)
    lines = _lines(self, axis)
    xp = module_of(lines)
    order = _order(lines, False)
    ordered = xp.take_along_axis(lines, order, -1)
    n = lines.shape[-1]
    # Runs of equal elements in all the lines one after the other; each line begins a run.
    starts = xp.ones(ordered.shape, dtype=bool)
    starts[:, 1:] = ~_equal(ordered[:, 1:], ordered[:, :-1])
    starts = starts.ravel()
    first = xp.nonzero(starts)[0][starts.cumsum() - 1]
    length = (xp.arange(starts.size) - first).reshape(-1, n)
    # The first position where a run is longest is the end of the run of the smallest element, and its last place.
    return _pick_one(self, lines, xp.take_along_axis(order, length.argmax(-1)[:, None], -1), axis, keepdim)


def _mode_types(self: TensorType, dim: int | None, keepdim: bool) -> Any:
    axis = axis_of(self.sizes, _last(dim))
    require_elements("mode", self.sizes, axis)
    return _pair_types(self, axis, keepdim)


define_op(
    "mode(Tensor self, int? dim=None, bool keepdim=False)",
    "(values, indices): the most frequent element along `dim` (the last one by default), the smallest of several, and, "
    "a LongTensor, its last place.",
    forward=_mode,
    types=_mode_types,
    backward=lambda ctx, grad, _: (_put_back_one(ctx, grad, ctx.output(1), _last(ctx.value("dim"))), None, None),
    uses={"self": "out1"},
    outputs=2,
    non_differentiable=(1,),
    keep_sizes=True,
)

# ---- places and counts --------------------------------------------------------------------------------------------


def _nonzero(self: Any) -> Any:
    a = array(self)
    a = a if a.ndim else a.reshape(1)
    xp = module_of(a)
    places = xp.stack(xp.nonzero(a), axis=-1)
    return places if len(places) else self.new().long()


define_op(
    "nonzero(Tensor self)",
    "The places of the elements that are not zero, in the order of the elements: a LongTensor of size (how many, "
    "ndim). Where there is none it is empty.",
    forward=_nonzero,
    types=lambda self: TensorType("Long", (-1, max(len(self.sizes), 1)), self.device),
    open_sizes=True,
)


def _histc(self: Any, bins: int, min: float, max: float) -> Any:
    _require_bins(bins, min, max)
    a = array(self).reshape(-1)
    xp = module_of(a)
    low, high = float(min), float(max)
    if low == high and a.size:
        low, high = float(a.min()), float(a.max())
    if low == high:
        low, high = low - 1, high + 1
    if not (abs(low) < float("inf") and abs(high) < float("inf")):
        raise RuntimeError(f"histc: the range of the elements is not finite: [{low}, {high}]")
    return xp.histogram(a.astype("float64"), bins=bins, range=(low, high))[0].astype(a.dtype)


def _require_bins(bins: int, min: float, max: float) -> None:
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be positive, but got {bins}")
    if not min <= max:
        raise RuntimeError(f"histc: max must not be smaller than min, but got min {min} and max {max}")


def _histc_types(self: TensorType, bins: int, min: float, max: float) -> TensorType:
    _require_bins(bins, min, max)
    return TensorType(self.dtype, (bins,), self.device)


define_op(
    "histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0)",
    "How many elements lie in each of `bins` equal intervals of [min, max], a tensor of self's type. The last interval "
    "is closed; elements outside are not counted. If min and max are equal, they are those of the elements.",
    forward=_histc,
    types=_histc_types,
)
