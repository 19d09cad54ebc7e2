"""Arrays of tensors: NumPy's on the host, CuPy's on a CUDA device, so that one body of code serves both."""

from __future__ import annotations

from typing import Any

import numpy


def array(tensor: Any) -> Any:
    """The array on the tensor's memory: writes are seen on both sides."""
    return tensor.cupy() if tensor.is_cuda else tensor.numpy()


def module_of(array: Any) -> Any:
    """The library that an array belongs to: ``numpy`` or ``cupy``."""
    if isinstance(array, (numpy.ndarray, numpy.generic)):
        return numpy
    import cupy  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return cupy
