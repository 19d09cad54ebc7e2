"""The classes of sparse tensors whose indices and values lie on a CUDA device."""

from __future__ import annotations

from torchlite import _C
from torchlite.sparse import make_class

__all__ = [
    "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip

(ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, HalfTensor, FloatTensor, DoubleTensor) = (
    make_class(dense) for dense in _C._cuda_tensor_classes
)
