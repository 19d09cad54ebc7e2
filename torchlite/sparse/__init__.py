"""Sparse tensors: the places and values of the elements that are not zero."""

from __future__ import annotations

from .. import _C
from .operations import compute
from .tensor import SparseTensor, is_sparse, make_class

__all__ = [
    "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
    "SparseTensor", "is_sparse",
]  # fmt: skip

_C._set_sparse(SparseTensor, compute)

ByteTensor = make_class(_C.ByteTensor)
CharTensor = make_class(_C.CharTensor)
DoubleTensor = make_class(_C.DoubleTensor)
FloatTensor = make_class(_C.FloatTensor)
HalfTensor = make_class(_C.HalfTensor)
IntTensor = make_class(_C.IntTensor)
LongTensor = make_class(_C.LongTensor)
ShortTensor = make_class(_C.ShortTensor)
