"""Dimensions and sizes, as forwards and type rules both need them."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _C


def axis_of(sizes: Sequence[int], dim: int) -> int:
    """The dimension `dim` of a tensor of `sizes`, counted from the front; a 0-d tensor has the one dimension 0.

    Raises:
        RuntimeError: if it has no such dimension.
    """
    return _C._wrap_dim(dim, len(sizes))


def length_of(sizes: Sequence[int], axis: int) -> int:
    """How many elements a tensor of `sizes` has along `axis`."""
    return sizes[axis] if sizes else 1


def kept(sizes: Sequence[int], axis: int) -> tuple[int, ...]:
    """`sizes` with 1 at `axis`."""
    return (*sizes[:axis], 1, *sizes[axis + 1 :]) if sizes else (1,)


def reduced(sizes: Sequence[int], axis: int, keepdim: bool) -> tuple[int, ...]:
    """The sizes of a reduction along `axis`. The one dimension of a vector always stays."""
    return kept(sizes, axis) if keepdim or len(sizes) <= 1 else (*sizes[:axis], *sizes[axis + 1 :])


def reduced_to_one(sizes: Sequence[int], keepdim: bool) -> tuple[int, ...]:
    """The sizes of a reduction of everything."""
    return (1,) * len(sizes) if keepdim and sizes else (1,)
