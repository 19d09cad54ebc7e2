"""Positions that a key, an index array or a mask names.

An index out of range is not looked for, which would make the host wait: CuPy takes it modulo the size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def resolve(xp: Any, key: tuple, indices: list[Any]) -> tuple:
    """``key`` with arrays in place of its "@k"; a Byte array is a mask."""

    def item(i: Any) -> Any:
        if not isinstance(i, str):
            return i
        array = indices[int(i[1:])]
        return array != 0 if array.dtype == np.uint8 else array

    return tuple(item(i) for i in key)


def add_at(xp: Any, whole: Any, key: tuple, part: Any) -> Any:
    """``whole`` with ``part`` added at ``key``, where positions may repeat."""
    kind = whole.dtype
    if kind in (np.float16, np.int8, np.int16, np.uint8):  # atomics exist for wider types
        whole = whole.astype(np.float32 if kind == np.float16 else np.int32)
    xp.add.at(whole, key, part.astype(whole.dtype) if part.dtype != whole.dtype else part)
    return whole


def index_backward(xp: Any, part: Any, sizes: Sequence[int], key: tuple, indices: list[Any]) -> Any:
    whole = xp.zeros(tuple(sizes), part.dtype)
    key = resolve(xp, key, indices)
    if part.size == 1:
        part = part.reshape(())
    if any(i.dtype != np.uint8 for i in indices):
        selected = whole[key]
        return add_at(xp, whole, key, xp.broadcast_to(part.reshape(selected.shape) if part.ndim else part,
                                                      selected.shape))
    whole[key] = part.reshape(whole[key].shape) if part.ndim else part
    return whole


def along(x: Any, dim: int, index: Any) -> tuple:
    return (slice(None),) * (dim % max(x.ndim, 1)) + (index.reshape(-1),)


def index_select(xp: Any, x: Any, dim: int, index: Any) -> Any:
    if x.ndim == 0:
        return xp.broadcast_to(x, index.shape)
    return xp.take(x, index.reshape(-1), axis=dim)


def _rows(x: Any, dim: int, index: Any, source: Any) -> Any:
    shape = list(x.shape)
    shape[dim] = index.size
    return source.reshape(shape)


def index_add(xp: Any, x: Any, dim: int, index: Any, source: Any) -> Any:
    return add_at(xp, x.copy(), along(x, dim, index), _rows(x, dim, index, source))


def index_copy(xp: Any, x: Any, dim: int, index: Any, source: Any) -> Any:
    out = x.copy()
    out[along(x, dim, index)] = _rows(x, dim, index, source)
    return out


def index_fill(xp: Any, x: Any, dim: int, index: Any, value: Any) -> Any:
    out = x.copy()
    out[along(x, dim, index)] = value
    return out


def grid(xp: Any, index: Any, dim: int) -> tuple:
    """The key under which element ``[i, j]`` is ``[index[i, j], j]`` (for dim 0)."""
    dim %= max(index.ndim, 1)

    def positions(d: int) -> Any:
        shape = [1] * index.ndim
        shape[d] = index.shape[d]
        return xp.arange(index.shape[d]).reshape(shape)

    return tuple(index if d == dim else positions(d) for d in range(index.ndim))


def _as_source(src: Any, index: Any) -> Any:
    return src[tuple(slice(0, n) for n in index.shape)] if hasattr(src, "dtype") else src


def gather(xp: Any, x: Any, dim: int, index: Any) -> Any:
    return x[grid(xp, index, dim)]


def scatter(xp: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
    out = x.copy()
    if index.size:
        out[grid(xp, index, dim)] = _as_source(src, index)
    return out


def scatter_add(xp: Any, x: Any, dim: int, index: Any, src: Any) -> Any:
    if not index.size:
        return x.copy()
    return add_at(xp, x.copy(), grid(xp, index, dim), _as_source(src, index))


def masked_select(xp: Any, x: Any, mask: Any) -> Any:
    x, mask = xp.broadcast_arrays(x, mask)
    return x[mask != 0]


def masked_scatter(xp: Any, x: Any, mask: Any, source: Any) -> Any:
    mask = xp.broadcast_to(mask != 0, x.shape)
    if not source.size or not mask.size:
        return x
    position = xp.cumsum(mask.reshape(-1).astype(np.int64)).reshape(mask.shape) - 1
    taken = xp.take(source.reshape(-1), xp.clip(position, 0, source.size - 1))
    return xp.where(mask, taken, x)


FORWARD = {
    "index_backward": index_backward, "index_select": index_select, "index_add": index_add,
    "index_copy": index_copy, "index_fill": index_fill, "gather": gather, "scatter": scatter,
    "scatter_add": scatter_add, "masked_select": masked_select, "masked_scatter": masked_scatter,
}
