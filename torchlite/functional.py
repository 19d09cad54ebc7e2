"""Functions of the package that are more than a method of the same name, in the module that used to have them."""

from __future__ import annotations

from typing import Any

import torchlite

from . import _C

__all__ = ["btriunpack", "chunk", "equal", "matmul", "numel", "split", "stack", "unbind"]

split, chunk, stack, unbind = _C.split, _C.chunk, _C._find_op("stack"), _C.unbind
matmul = _C._find_op("matmul")
btriunpack = torchlite.btriunpack


def equal(tensor1: Any, tensor2: Any) -> bool:
    """Whether two tensors have the same size and the same elements. NaN is equal to nothing.

    Raises:
        TypeError: if they aren't tensors of one type.
    """
    for i, tensor in enumerate((tensor1, tensor2), 1):
        if not isinstance(tensor, _C._TensorBase):
            raise TypeError(f"equal: argument {i} must be a tensor, but is a {torchlite.typename(tensor)}")
    if type(tensor1) is not type(tensor2):
        raise TypeError(f"equal: both tensors must have one type, but got {tensor1.type()} and {tensor2.type()}")
    return tensor1.size() == tensor2.size() and bool(tensor1.eq(tensor2).all())


def numel(tensor: Any) -> int:
    """The number of elements of a tensor or Variable."""
    if not isinstance(tensor, (_C._TensorBase, _C._VariableBase)):
        raise TypeError(f"numel: expected a tensor or Variable, but got {type(tensor).__name__}")
    return tensor.numel()
