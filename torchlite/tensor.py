"""Methods of tensors that are no hot path: printing, pickling, copying, NumPy's conversions.

Importing this module adds them to all tensor classes.
"""

from __future__ import annotations

import copy
import importlib
import math
from typing import Any

import numpy as np

from torchlite import _C

__all__ = ["set_printoptions"]

# ---- printing --------------------------------------------------------------------------------------------------------

_PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, float] = dict(_PROFILES["default"])


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
) -> None:
    """Sets how tensors are printed.

    Args:
        precision: digits after the decimal point (4).
        threshold: number of elements above which only the edges are shown (1000).
        edgeitems: items shown at each edge of a summarised dimension (3).
        linewidth: characters a line, after which columns go to a new block (80).
        profile: "default", "short" or "full": values for all of the above, which the other arguments override.

    Raises:
        ValueError: for a profile of another name.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile must be one of {sorted(_PROFILES)}, but got {profile!r}")
        _options.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})


def _number_format(shown: np.ndarray) -> Any:
    """The function that turns one number of `shown` into text of a common width."""
    if shown.dtype.kind != "f":
        texts = [str(shown.min()), str(shown.max())] if shown.size else ["0"]
        width = max(map(len, texts))
        return lambda v: f"{v:>{width}d}"
    precision = int(_options["precision"])
    finite = np.abs(shown[np.isfinite(shown)]).astype(np.float64)
    largest = finite.max(initial=0.0)
    nonzero = finite[finite > 0]
    smallest = nonzero.min() if nonzero.size else 1.0
    if not np.any(finite % 1) and largest < 1e8:
        spec = ".0f"
    elif largest >= 1e5 or smallest < 10.0 ** -(precision + 1) or largest < 1e-3:
        spec = f".{precision}e"
    else:
        spec = f".{precision}f"
    width = max((len(format(float(v), spec)) for v in shown.flat), default=1)
    return lambda v: f"{float(v):>{width}{spec}}"


def _edges(a: np.ndarray) -> tuple[np.ndarray, list[int | None]]:
    """The corners of an array too large to print, and for each dimension where items are left out (None: nowhere)."""
    edge = int(_options["edgeitems"])
    gaps: list[int | None] = [None] * a.ndim
    if a.size <= _options["threshold"]:
        return a, gaps
    for d, size in enumerate(a.shape):
        if size > 2 * edge:
            lead = (slice(None),) * d
            first, last = lead + (slice(0, edge),), lead + (slice(size - edge, size),)
            a = np.concatenate([a[first], a[last]], axis=d)
            gaps[d] = edge
    return a, gaps


def _matrix_lines(a: np.ndarray, number: Any, gaps: list[int | None]) -> list[str]:
    """The lines of a 2-d array, its columns in blocks that fit the line."""
    rows, columns = a.shape
    texts = [[number(v) for v in row] for row in a]
    if gaps[1] is not None:
        texts = [[*row[: gaps[1]], "...", *row[gaps[1] :]] for row in texts]
        columns += 1
    if gaps[0] is not None:
        width = max(map(len, texts[0])) if texts and texts[0] else 3
        texts.insert(gaps[0], [" " * (width - 1) + "⋮" if c != "..." else "⋱  " for c in texts[0]])
    width = max((len(t) for row in texts for t in row), default=1)
    each = max(1, int((_options["linewidth"] - 1) // (width + 2)))
    lines: list[str] = []
    for first in range(0, columns, each):
        last = min(first + each, columns)
        if columns > each:
            lines += ([""] if first else []) + [f"Columns {first} to {last - 1} "]
        lines += [" " + "  ".join(t.rjust(width) for t in row[first:last]) for row in texts]
    return lines


def _tensor_lines(a: np.ndarray) -> list[str]:
    if a.size == 0:
        return []
    shown, gaps = _edges(a)
    number = _number_format(shown)
    if a.ndim == 0:
        return [f" {number(a[()])}"]
    if a.ndim == 1:
        lines = [f" {number(v)}" for v in shown]
        if gaps[0] is not None:
            lines.insert(gaps[0], "⋮".rjust(len(lines[0])))
        return lines
    if a.ndim == 2:
        return _matrix_lines(shown, number, gaps)
    lines = []
    for index in np.ndindex(shown.shape[:-2]):
        # Positions in the whole array: behind a gap they count from its end.
        place = [i if gap is None or i < gap else a.shape[d] - shown.shape[d] + i
                 for d, (i, gap) in enumerate(zip(index, gaps, strict=False))]
        if any(gap is not None and i == gap for i, gap in zip(index, gaps, strict=False)) and lines[-1] != "...":
            lines += ["...", ""]
        lines.append("(" + ",".join(f"{i:<2d}" for i in place) + ",.,.) = ")
        lines += [" " + line for line in _matrix_lines(shown[index], number, gaps[-2:])]
        lines.append("")
    return lines[:-1]


def _describe(self: Any) -> str:
    """The last line: class, sizes and device."""
    if self.numel() == 0 and self.dim() <= 1:
        size = "with no dimension"
    elif self.dim() == 0:
        size = "of size ()"
    else:
        size = "of size " + "x".join(map(str, self.size()))
        if self.dim() == 1:
            size = f"of size {self.size(0)}"
    device = f" (GPU {self.get_device()})" if self.is_cuda else ""
    return f"[{self.type()} {size}{device}]"


def _format(self: Any) -> str:
    lines = _tensor_lines((self.cpu() if self.is_cuda else self)._numpy())
    return "\n".join(["", *lines, _describe(self)]) if lines else _describe(self)


def __format__(self: Any, spec: str) -> str:
    if spec and self.numel() == 1:
        return format(self.item(), spec)
    return object.__format__(self, spec)


# ---- copying and pickling --------------------------------------------------------------------------------------------


def _attributes(self: Any) -> Any:
    """What an instance of a Python subclass holds beside the tensor: its state, or None."""
    own = getattr(type(self), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        return own(self)
    instance = getattr(self, "__dict__", None) or None
    slots = {}
    for cls in type(self).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{cls.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(self, name):
                slots[name] = getattr(self, name)
    return (instance, slots) if slots else instance


def _rebuild_tensor(cls: type, storage: Any, offset: int, size: tuple, stride: tuple) -> Any:
    """A tensor of class `cls` that views `storage`; what pickles call."""
    return _C._TensorBase.__new__(cls).set_(storage, offset, tuple(size), tuple(stride))


def _set_attributes(self: Any, state: Any) -> None:
    if state is None:
        return
    if hasattr(self, "__setstate__"):
        self.__setstate__(state)
        return
    instance, slots = state if isinstance(state, tuple) else (state, {})
    if instance:
        self.__dict__.update(instance)
    for name, value in slots.items():
        setattr(self, name, value)


def _host_storage(self: Any) -> Any:
    if self.is_cuda:
        raise TypeError(f"{self.type()} lies on a CUDA device and cannot be pickled or copied deeply: use cpu() first")
    return self.storage()


def __reduce_ex__(self: Any, protocol: int) -> tuple:
    # The storage is pickled once for all the tensors that view it, so that they share memory again afterwards.
    arguments = (type(self), _host_storage(self), self.storage_offset(), tuple(self.size()), self.stride())
    state = _attributes(self)
    return (_rebuild_tensor, arguments) if state is None else (_rebuild_tensor, arguments, state)


def __deepcopy__(self: Any, memo: dict) -> Any:
    storage = _host_storage(self)
    if id(storage) not in memo:  # copies of tensors that share a storage share its copy
        memo[id(storage)] = storage.clone()
        memo.setdefault(id(memo), []).append(storage)  # its id stays taken for as long as the memo lives
    out = _rebuild_tensor(type(self), memo[id(storage)], self.storage_offset(), self.size(), self.stride())
    memo[id(self)] = out
    _set_attributes(out, copy.deepcopy(_attributes(self), memo))
    return out


def __copy__(self: Any) -> Any:
    out = _C._TensorBase.__new__(type(self)).set_(self)
    _set_attributes(out, _attributes(self))
    return out


# ---- NumPy -----------------------------------------------------------------------------------------------------------


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
        return _C.from_numpy(np.asarray(value))
    except TypeError:
        return value


def __array_ufunc__(self: Any, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
    """NumPy's universal functions on tensors: NumPy computes on their memory, the results are tensors."""
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


def tolist(self: Any) -> Any:
    """The elements as nested lists of Python numbers; of a 0-d tensor its number."""
    return (self.cpu() if self.is_cuda else self).numpy().tolist()


def apply_(self: Any, function: Any) -> Any:
    """Replaces each element by `function(element)`; returns the tensor."""
    return self.copy_(np.array([function(v) for v in self.numpy().ravel().tolist()], self.dtype).reshape(self.size()))


def map_(self: Any, other: Any, function: Any) -> Any:
    """Replaces each element by `function(element, other's element)`, `other` broadcast; returns the tensor."""
    others = np.broadcast_to(other.numpy(), self.size())
    values = zip(self.numpy().ravel().tolist(), others.ravel().tolist(), strict=True)
    return self.copy_(np.array([function(a, b) for a, b in values], self.dtype).reshape(self.size()))


# ---- devices ---------------------------------------------------------------------------------------------------------


def cuda(self: Any, device: int | None = None, async_: bool = False, **kwargs: Any) -> Any:
    """A copy on a CUDA device (the current one by default).

    Raises:
        RuntimeError: where CuPy or a device is missing.
    """
    try:
        bridge = importlib.import_module("torchlite.cuda")
    except ImportError as e:
        raise RuntimeError(
            "cuda(): this version of torchlite has no CUDA yet (the extras cuda12 and cuda13 are for it)"
        ) from e
    return bridge._to_device(self, device)


def _cuda_array_interface(self: Any) -> dict:
    """The memory as CUDA libraries describe it; AttributeError for a tensor in host memory."""
    raise AttributeError(
        f"__cuda_array_interface__: this {self.type()} lies in host memory; its memory is that of numpy()"
    )


def is_pinned(self: Any) -> bool:
    """Whether the memory is page-locked for CUDA; the host allocator's never is."""
    return False


def _sparse_mask(self: Any, mask: Any) -> Any:
    """The elements at the places of the sparse tensor `mask`, as a sparse tensor. RuntimeError if the sizes differ."""
    from .sparse.tensor import sparse_mask

    return sparse_mask(self, mask)


def is_shared(self: Any) -> bool:
    """Whether other processes see the memory."""
    return False


_C._add_tensor_methods({
    f.__name__: f
    for f in (_format, __format__, __reduce_ex__, __deepcopy__, __copy__, __array__, __array_ufunc__,
              __array_function__, tolist, apply_, map_, cuda, is_pinned, is_shared, _sparse_mask)
} | {"copy": _contiguous_copy, "__cuda_array_interface__": property(_cuda_array_interface)})
