"""What the sparse classes share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _C
from .._arrays import array, module_of
from ..utils.typename import typename

# The sparse class of each dense one.
CLASSES: dict[type, type] = {}

# Methods of dense tensors that mean the same for sparse ones: they look at the type and the size only.
_METADATA = {
    "size", "dim", "ndimension", "numel", "nelement", "element_size", "type", "is_cuda", "is_signed", "get_device",
    "is_same_size", "dtype", "ndim", "shape", "data", "device", "itemsize",
}  # fmt: skip
_CONVERSIONS = {"double": "DoubleTensor", "float": "FloatTensor", "half": "HalfTensor", "long": "LongTensor",
                "int": "IntTensor", "short": "ShortTensor", "char": "CharTensor", "byte": "ByteTensor"}  # fmt: skip
_ARRAY_PROTOCOLS = {
    "__getitem__", "__setitem__", "__array__", "__dlpack__", "__dlpack_device__", "__iter__",
    "__len__", "__contains__", "__float__", "__int__", "__index__", "__bool__", "__complex__", "__format__",
}  # fmt: skip


def is_sparse(tensor: Any) -> bool:
    """Whether ``tensor`` is a sparse tensor."""
    return isinstance(tensor, SparseTensor)


class SparseTensor:
    """Base of the sparse classes; see :mod:`torchlite.sparse`."""

    is_sparse = True
    _dense_class: Any
    _sparse_indices: Any
    _sparse_values: Any
    _coalesced: bool

    def __new__(cls, *args: Any) -> Any:
        """``Cls(indices, values, size)``, ``Cls(indices, values)`` of the smallest size that holds the indices,
        ``Cls(*sizes)`` or ``Cls(size)`` without elements, ``Cls()``.

        Raises:
            TypeError: for other arguments, indices that aren't a LongTensor, values of another type.
            RuntimeError: if the sizes of indices, values and size don't fit each other, or an index is out of range.
        """
        if len(args) in (2, 3) and isinstance(args[0], _C._TensorBase):
            return _make(cls, *_checked(cls, *args))
        size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        if any(not isinstance(n, (int, np.integer)) or isinstance(n, bool) for n in size):
            raise TypeError(
                f"{cls.__name__}: expected (indices, values[, size]) or sizes, but got "
                f"({', '.join(type(a).__name__ for a in args)})"
            )
        return empty(cls, tuple(size))

    # ---- the parts ----

    def _indices(self) -> Any:
        """The places: a LongTensor of size (sparse dimensions, nnz)."""
        return self._sparse_indices

    def _values(self) -> Any:
        """The values: a tensor of size (nnz, dense dimensions...)."""
        return self._sparse_values

    def _nnz(self) -> int:
        """The number of stored places, repeated ones counted each time."""
        return self._sparse_indices.numel() and self._sparse_indices.size(1)

    def _dimI(self) -> int:
        """The number of sparse dimensions."""
        return self._sparse_indices.size(0) if self._nnz() else self.dim()  # type: ignore[attr-defined]

    def _dimV(self) -> int:
        """The number of dense dimensions."""
        return self.dim() - self._dimI()  # type: ignore[attr-defined]

    def is_coalesced(self) -> bool:
        """Whether the places are sorted and each occurs once."""
        return self._coalesced

    # ---- conversions ----

    def coalesce(self) -> Any:
        """The same tensor with sorted places, values of equal places added; itself if it is so already."""
        if self._coalesced:
            return self
        indices, values = array(self._sparse_indices), array(self._sparse_values)
        xp = module_of(indices)
        flat = xp.ravel_multi_index(tuple(indices), tuple(self.size())[: len(indices)])  # type: ignore[attr-defined]
        places, where = xp.unique(flat, return_inverse=True)
        summed = xp.zeros((len(places), *values.shape[1:]), values.dtype)
        xp.add.at(summed, where.reshape(-1), values)
        unique = xp.stack(xp.unravel_index(places, tuple(self.size())[: len(indices)]))  # type: ignore[attr-defined]
        return _make(
            type(self), _tensor(unique.astype(np.int64)), _tensor(summed), self.size(), True  # type: ignore[attr-defined]
        )

    def to_dense(self) -> Any:
        """The dense tensor of the same type and size."""
        dense = self._dense_class(*self.size()).zero_()  # type: ignore[attr-defined]
        add_to_dense(dense, self, 1)
        return dense

    def clone(self) -> Any:
        """A copy that shares no memory."""
        return _make(
            type(self), self._sparse_indices.clone(), self._sparse_values.clone(),
            self.size(), self._coalesced,  # type: ignore[attr-defined]
        )  # fmt: skip

    def cpu(self) -> Any:
        """The tensor itself: it lies in host memory."""
        return self

    def type(self, new_type: Any = None, async_: bool = False, **kwargs: Any) -> Any:
        """The name of the class, or a copy of another element type: a class, dense or sparse, or its dotted name."""
        if new_type is None:
            return f"{type(self).__module__}.{type(self).__name__}"
        name = new_type.rpartition(".")[2] if isinstance(new_type, str) else getattr(new_type, "__name__", "")
        target = CLASSES.get(getattr(_C, name, None))  # type: ignore[arg-type]
        if target is None:
            raise TypeError(f"type: expected a class of tensors or its name, but got {new_type!r}")
        if target is type(self):
            return self
        values = self._sparse_values.type(target._dense_class)  # type: ignore[attr-defined]
        return _make(target, self._sparse_indices, values, self.size(), self._coalesced)  # type: ignore[attr-defined]

    def type_as(self, other: Any) -> Any:
        """:meth:`type` of the element type of ``other``."""
        return self.type(type(other))

    def new(self, *args: Any) -> Any:
        """A new tensor of this class; takes what the class takes."""
        return type(self)(*args)

    def _sparse_mask(self, mask: Any) -> Any:
        """The elements of this tensor at the places of the sparse tensor ``mask``."""
        return sparse_mask(self.to_dense(), mask)

    # ---- in place ----

    def _become(self, other: Any) -> Any:
        """Takes the places, values and size of another sparse tensor of this type."""
        self.set_(other)  # type: ignore[attr-defined]
        self._sparse_indices, self._sparse_values = other._sparse_indices, other._sparse_values
        self._coalesced = other._coalesced
        return self

    def zero_(self) -> Any:
        """Removes every element; returns the tensor."""
        return self._become(empty(type(self), tuple(self.size())))  # type: ignore[attr-defined]

    def resize_as_(self, other: Any) -> Any:
        """Takes the size of ``other`` and loses every element; returns the tensor."""
        return self._become(empty(type(self), tuple(other.size())))

    def copy_(self, source: Any, async_: bool = False, **kwargs: Any) -> Any:
        """Takes the places and values of the sparse tensor ``source``, in this element type; returns the tensor."""
        if not is_sparse(source):
            raise TypeError(f"copy_: expected a sparse tensor as source, but got {typename(source)}")
        return self._become(source.type(type(self)).clone())

    # ---- protocols ----

    def __repr__(self) -> str:
        size = "x".join(map(str, self.size())) or "()"  # type: ignore[attr-defined]
        return (
            f"{self.type()} of size {size} with indices:\n{self._sparse_indices!r}\nand values:\n"
            f"{self._sparse_values!r}"
        )

    @property
    def __array_interface__(self) -> dict:
        raise AttributeError(f"__array_interface__: {self.type()} stores no elements in order")

    __str__ = __repr__
    __hash__ = object.__hash__

    def __reduce_ex__(self, protocol: Any) -> Any:
        return rebuild, (type(self), self._sparse_indices, self._sparse_values,
                         tuple(self.size()), self._coalesced)  # type: ignore[attr-defined]  # fmt: skip

    def __deepcopy__(self, memo: dict) -> Any:
        return memo.setdefault(id(self), self.clone())


def rebuild(cls: Any, indices: Any, values: Any, size: Sequence[int], coalesced: bool) -> Any:
    """What pickles of sparse tensors call."""
    return _make(cls, indices, values, size, coalesced)


def _tensor(a: Any) -> Any:
    return _C.from_numpy(a)


def _make(cls: Any, indices: Any, values: Any, size: Sequence[int], coalesced: bool) -> Any:
    """A sparse tensor of checked parts."""
    element = cls._dense_class(1).fill_(0 if not _is_floating(cls) else float("nan"))
    self = _C._TensorBase.__new__(cls)
    _C._TensorBase.set_(self, element.storage(), 0, tuple(size), (0,) * len(size))
    self._sparse_indices, self._sparse_values, self._coalesced = indices, values, coalesced
    return self


def _is_floating(cls: Any) -> bool:
    return cls._dense_class in (_C.HalfTensor, _C.FloatTensor, _C.DoubleTensor)


def empty(cls: Any, size: Sequence[int]) -> Any:
    """A sparse tensor of this size with all dimensions sparse and no elements."""
    indices = _tensor(np.zeros((len(size), 0), np.int64))
    return _make(cls, indices, cls._dense_class([]), size, True)


def _checked(cls: Any, indices: Any, values: Any, size: Any = None) -> tuple:
    name = cls.__name__
    if type(indices) is not _C.LongTensor:
        raise TypeError(f"{name}: indices must be a LongTensor, but got {indices.type()}")
    if type(values) is not cls._dense_class:
        got = values.type() if isinstance(values, _C._TensorBase) else type(values).__name__
        raise TypeError(f"{name}: values must be a {cls._dense_class.__name__}, but got {got}")
    if indices.numel() == 0:
        if size is None:
            raise RuntimeError(f"{name}: a tensor without elements needs a size")
        return empty(cls, size)._sparse_indices, values, size, True
    if indices.dim() != 2 or values.dim() < 1 or values.size(0) != indices.size(1):
        raise RuntimeError(
            f"{name}: indices of size (dimensions, nnz) and values of size (nnz, ...) are needed, but got sizes "
            f"{tuple(indices.size())} and {tuple(values.size())}"
        )
    places = array(indices)
    largest = [int(n) for n in places.max(1)]
    if size is None:
        size = [n + 1 for n in largest] + list(values.size())[1:]
    size = tuple(size)
    if len(size) != len(largest) + values.dim() - 1 or size[len(largest):] != tuple(values.size())[1:]:
        raise RuntimeError(
            f"{name}: size {size} does not fit {len(largest)} sparse dimensions and values of size "
            f"{tuple(values.size())}"
        )
    if places.min() < 0 or any(n >= s for n, s in zip(largest, size, strict=False)):
        raise RuntimeError(f"{name}: an index is out of range: the largest are {largest}, the least is "
                           f"{int(places.min())}, the size is {size}")  # fmt: skip
    return indices, values, size, False


def add_to_dense(dense: Any, sparse: Any, alpha: Any) -> None:
    """``dense += alpha * sparse`` in place; the sizes are equal."""
    if not sparse._nnz():
        return
    target, indices, values = array(dense), array(sparse._sparse_indices), array(sparse._sparse_values)
    module_of(target).add.at(target, tuple(indices), values if alpha == 1 else values * values.dtype.type(alpha))


def sparse_mask(dense: Any, mask: Any) -> Any:
    """The elements of a dense tensor at the places of a sparse one, as a sparse tensor.

    Raises:
        TypeError: if ``mask`` isn't sparse; RuntimeError if the sizes differ.
    """
    if not is_sparse(mask):
        raise TypeError(f"_sparse_mask: expected a sparse tensor as mask, but got {typename(mask)}")
    if dense.size() != mask.size():
        sizes = f"{tuple(dense.size())} and {tuple(mask.size())}"
        raise RuntimeError(f"_sparse_mask: sizes {sizes} of tensor and mask differ")
    mask = mask.coalesce()
    cls = CLASSES[type(dense)]
    if not mask._nnz():
        return empty(cls, mask.size())
    values = array(dense)[tuple(array(mask._sparse_indices))]
    return _make(cls, mask._sparse_indices.clone(), _tensor(values.copy()), mask.size(), True)


def _refusal(name: str) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{name}: {self.type()} stores no elements in order and has no such method; use to_dense()")

    refuse.__name__ = refuse.__qualname__ = name
    return refuse


def make_class(dense: Any) -> Any:
    """The sparse class over a dense one, of the same name."""
    name = dense.__name__
    namespace: dict[str, Any] = {
        "__module__": dense.__module__ + ".sparse",
        "__doc__": f"{name}(indices, values, size): a sparse tensor of the element type of the dense {name}.",
        "_dense_class": dense,
    }
    for method, target in _CONVERSIONS.items():
        namespace[method] = lambda self, _target=target, **kwargs: self.type(_target)
    operations = {op.name for op in _C._ops} | {op.name + "_" for op in _C._ops}
    for method in dir(dense):
        private = method.startswith("_") and method not in _ARRAY_PROTOCOLS
        known = method in _METADATA or method in operations or hasattr(SparseTensor, method) or method == "set_"
        if method not in namespace and not private and (not known or method in _ARRAY_PROTOCOLS):
            namespace[method] = _refusal(method)
    cls = type(name, (SparseTensor, dense), namespace)
    CLASSES[dense] = cls
    return cls
