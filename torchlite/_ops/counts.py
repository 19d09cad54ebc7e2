"""Places of elements and counts of them: nonzero, histc."""

from __future__ import annotations

from typing import Any

from .._arrays import array, module_of
from . import TensorType, define_op


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
