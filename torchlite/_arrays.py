"""Arrays of tensors: NumPy's on the host, CuPy's on a CUDA device, so that one body of code serves both."""

from __future__ import annotations

from typing import Any

import numpy

from torchlite import _C


def array(tensor: Any) -> Any:
    """The array on the tensor's memory: writes are seen on both sides."""
    return tensor.cupy() if tensor.is_cuda else tensor.numpy()


def module_of(array: Any) -> Any:
    """The library that an array belongs to: ``numpy`` or ``cupy``."""
    if isinstance(array, (numpy.ndarray, numpy.generic)):
        return numpy
    import cupy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return cupy


_CLASS_OF_TENSORS = {cls.storage_type(): cls for cls in (*_C._tensor_classes, *_C._cuda_tensor_classes)}


def class_of_tensors(storage: Any) -> Any:
    """The class of the tensors that view a storage."""
    return _CLASS_OF_TENSORS[type(storage)]


def vector(storage: Any) -> Any:
    """The elements of a storage as a 1-d tensor on the same memory."""
    return class_of_tensors(storage)(storage)


def require_tensor(function: str, name: str, obj: Any, expected: str = "a tensor") -> None:
    """Raises TypeError unless an argument is a tensor; `expected` says what the function takes."""
    if not isinstance(obj, _C._TensorBase):
        raise TypeError(f"{function}: '{name}' must be {expected}, but is {type(obj).__name__}")


def write_out(function: str, out: Any, result: Any) -> Any:
    """The result of a function: itself, or `out`, if that is a tensor, resized to it and with its values.

    Nothing has happened to `out` where it is refused: TypeError if it is no tensor, RuntimeError if read-only.
    """
    if out is None:
        return result
    require_tensor(function, "out", out)
    if out.readonly:
        raise RuntimeError(f"{function}: 'out' of size {tuple(out.size())} is on read-only memory")
    return out.resize_(result.size()).copy_(result)
