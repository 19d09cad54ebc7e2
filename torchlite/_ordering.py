"""Methods of tensors that order elements: sort, topk, kthvalue, median, mode, nonzero. None is differentiable.

`values, indices` come as a pair of tensors, the indices a LongTensor. NaN counts as larger than every number.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlite import _C


def _axis(self: Any, dim: int) -> int:
    ndim = max(self.dim(), 1)
    if not -ndim <= dim < ndim:
        raise RuntimeError(
            f"dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})"
        )
    return dim % ndim


def _order(self: Any, axis: int, descending: bool) -> np.ndarray:
    """Indices that sort along an axis; equal elements keep their order."""
    a = np.atleast_1d(self.numpy())
    if not descending:
        return np.argsort(a, axis=axis, kind="stable")
    # The stable order of the reversed array, read backwards.
    backwards = np.argsort(np.flip(a, axis), axis=axis, kind="stable")
    return a.shape[axis] - 1 - np.flip(backwards, axis)


def _pick(self: Any, order: np.ndarray, axis: int) -> tuple[Any, Any]:
    values = np.take_along_axis(np.atleast_1d(self.numpy()), order, axis)
    if self.dim() == 0:
        values, order = values.reshape(()), order.reshape(())
    return _C.from_numpy(values), _C.from_numpy(order.astype(np.int64, copy=False))


def _pick_one(self: Any, index: np.ndarray, axis: int, keepdim: bool) -> tuple[Any, Any]:
    """The element at `index`, which has size 1 along `axis`. Along the one dimension of a 1-d tensor it stays."""
    values, indices = _pick(self, index, axis)
    if keepdim or self.dim() <= 1:
        return values, indices
    return values.squeeze(axis), indices.squeeze(axis)


def _require_elements(self: Any, name: str, axis: int) -> None:
    if self.dim() and self.size(axis) == 0:
        raise RuntimeError(f"{name}: dimension {axis} of a tensor of size {tuple(self.size())} has no elements")


def sort(self: Any, dim: int = -1, descending: bool = False) -> tuple[Any, Any]:
    """The elements sorted along `dim`, equal ones in their old order, and where each was: (values, indices)."""
    axis = _axis(self, dim)
    return _pick(self, _order(self, axis, descending), axis)


def topk(self: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Any, Any]:
    """The `k` largest (or smallest) elements along `dim`, best first, and their places: (values, indices).

    Raises:
        RuntimeError: if `dim` has fewer than `k` elements.
    """
    axis = _axis(self, dim)
    size = self.size(axis) if self.dim() else 1
    if not 0 <= k <= size:
        raise RuntimeError(f"topk: k must be between 0 and the size {size} of dimension {axis}, but got {k}")
    return _pick(self, np.take(_order(self, axis, largest), range(k), axis), axis)


def kthvalue(self: Any, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The `k`-th smallest element (from 1) along `dim` and its place: (values, indices).

    Raises:
        RuntimeError: if `dim` has fewer than `k` elements.
    """
    axis = _axis(self, dim)
    size = self.size(axis) if self.dim() else 1
    if not 1 <= k <= size:
        raise RuntimeError(f"kthvalue: k must be between 1 and the size {size} of dimension {axis}, but got {k}")
    return _pick_one(self, np.take(_order(self, axis, False), [k - 1], axis), axis, keepdim)


def median(self: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower median along `dim` and its place, (values, indices); of all elements, a number, without `dim`."""
    if dim is None:
        if self.numel() == 0:
            raise RuntimeError("median: the tensor has no elements")
        flat = np.sort(self.numpy(), axis=None)
        return flat[(flat.size - 1) // 2].item()
    axis = _axis(self, dim)
    _require_elements(self, "median", axis)
    return kthvalue(self, ((self.size(axis) if self.dim() else 1) + 1) // 2, axis, keepdim)


def mode(self: Any, dim: int = -1, keepdim: bool = False) -> tuple[Any, Any]:
    """The most frequent element along `dim`, the smallest of several, and a place of it: (values, indices)."""
    axis = _axis(self, dim)
    _require_elements(self, "mode", axis)

    def place(row: np.ndarray) -> int:
        values, last, counts = np.unique(row[::-1], return_index=True, return_counts=True)
        return row.size - 1 - last[np.argmax(counts)]

    index = np.apply_along_axis(place, axis, np.atleast_1d(self.numpy()))
    return _pick_one(self, np.expand_dims(index, axis), axis, keepdim)


def nonzero(self: Any) -> Any:
    """The places of the elements that are not zero: a LongTensor of size (how many, ndim); empty if there is none."""
    places = np.argwhere(np.atleast_1d(self.numpy()))
    return _C.from_numpy(places) if len(places) else _C.LongTensor()


METHODS: tuple[Any, ...] = (sort, topk, kthvalue, median, mode, nonzero)
