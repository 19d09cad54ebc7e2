"""NumPy's functions on tensors: `np.exp(t)`, `np.add(a, t)`, `np.sum(t)`, `np.asarray(t)`.

NumPy computes on the tensors' memory. Universal functions give tensors, other functions what they give for arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlite import _C

__all__: list[str] = []


def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
    return np.array(self.numpy(), dtype=dtype, copy=copy)


def _contiguous_copy(self: Any) -> Any:
    """A contiguous copy, as `clone()` makes it; the name that arrays have for it."""
    return self.clone()


# An operator between an array or a NumPy scalar and a tensor is the tensor's own.
_REFLECTED = {
    np.add: "__radd__",
    np.subtract: "__rsub__",
    np.multiply: "__rmul__",
    np.true_divide: "__rtruediv__",
    np.power: "__rpow__",
    np.matmul: "__rmatmul__",
    np.remainder: "__rmod__",
    np.equal: "__eq__",
    np.not_equal: "__ne__",
    np.less: "__gt__",
    np.less_equal: "__ge__",
    np.greater: "__lt__",
    np.greater_equal: "__le__",
}


def _to_arrays(value: Any) -> Any:
    """`value` with its tensors, also inside lists, tuples and dicts, as arrays on the same memory."""
    if isinstance(value, _C._TensorBase):
        return value.numpy()
    if isinstance(value, (list, tuple)):
        items = [_to_arrays(item) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, dict):
        return {key: _to_arrays(item) for key, item in value.items()}
    return value


def _to_tensor(value: Any) -> Any:
    """An array or NumPy scalar as a tensor; what has no tensor type stays as it is."""
    try:
        return _C.from_numpy(value if type(value) is np.ndarray else np.asarray(value))
    except TypeError:
        return value


def __array_ufunc__(self: Any, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    """NumPy's universal functions on tensors: NumPy computes on their memory, the results are tensors."""
    if len(inputs) == 1 and out is None and not kwargs and method == "__call__":  # np.exp(t): the usual, quickly
        return _to_tensor(ufunc(inputs[0].numpy()))
    if method == "__call__" and out is None and not kwargs and ufunc in _REFLECTED:
        first, second = inputs
        if not isinstance(first, _C._TensorBase):
            result = getattr(second, _REFLECTED[ufunc])(first)
            if result is not NotImplemented:
                return result
    if out is not None:
        kwargs["out"] = _to_arrays(out)
    result = getattr(ufunc, method)(*_to_arrays(inputs), **kwargs)
    if out is not None:
        return out[0] if len(out) == 1 else out
    if result is None:
        return None
    return tuple(map(_to_tensor, result)) if isinstance(result, tuple) else _to_tensor(result)


def __array_function__(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """NumPy's other functions on tensors: NumPy computes on their memory and returns arrays."""
    return function(*_to_arrays(args), **_to_arrays(kwargs))
