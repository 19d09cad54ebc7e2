"""What puts tensors together, takes bands of matrices, and undoes broadcasts and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlite.cuda.rows.reduction import accumulator


def sum_to(xp: Any, x: Any, sizes: Sequence[int]) -> Any:
    sizes = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    added = x.ndim - len(sizes)
    stretched = tuple(d for d in range(x.ndim) if d < added or sizes[d - added] == 1 != x.shape[d])
    if not stretched:
        return x
    return xp.sum(x, axis=stretched, dtype=accumulator(x), keepdims=True)


def cat(xp: Any, arrays: list[Any], dim: int) -> Any:
    # A 1-d array without elements joins anything, as in the era.
    rank = max(a.ndim for a in arrays)
    kept = [a for a in arrays if not (a.ndim == 1 and a.size == 0 and rank != 1)] or arrays
    return xp.concatenate(kept, axis=dim)


def stack(xp: Any, arrays: list[Any], dim: int) -> Any:
    return xp.stack(arrays, axis=dim)


def tril(xp: Any, x: Any, k: int) -> Any:
    return xp.tril(x, _near(x, k))


def triu(xp: Any, x: Any, k: int) -> Any:
    return xp.triu(x, _near(x, k))


def _near(x: Any, k: int) -> int:
    """A diagonal beyond the matrix is as good as the one just outside."""
    reach = sum(x.shape) + 1
    return max(-reach, min(reach, k))


def trace(xp: Any, x: Any) -> Any:
    return xp.sum(xp.diagonal(x), dtype=accumulator(x))


def unfold_backward(xp: Any, windows: Any, sizes: Sequence[int], dim: int, size: int, step: int) -> Any:
    """Windows may overlap, but their elements at one position do not: each position is one strided addition."""
    whole = xp.zeros(tuple(sizes), np.float32 if windows.dtype == np.float16 else windows.dtype)
    dim %= len(sizes)
    count = windows.shape[dim]
    for j in range(size):
        at = [slice(None)] * len(sizes)
        at[dim] = slice(j, j + (count - 1) * step + 1, step)
        whole[tuple(at)] += windows[..., j]
    return whole


FORWARD = {
    "sum_to": sum_to, "cat": cat, "stack": stack, "tril": tril, "triu": triu, "trace": trace,
    "unfold_backward": unfold_backward,
}
