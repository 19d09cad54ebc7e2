"""The binary format of Torch 7's ``torch.save``: a tree of tagged objects, little-endian.

An object is a tag (int32) and, by tag: nil nothing; a number a float64; a string its length (int32) and bytes; a
boolean an int32; a table its index, the number of pairs and the pairs; an object of a class its index, a version string
"V 1", the name of the class and what the class writes; a function its index, its code and its upvalues. The index
(int32) of a table, object or function that was read before stands for it. A tensor is the number of dimensions (int32),
sizes, strides and 1-based offset (int64) and its storage; a storage the number of elements (int64) and the elements.
"""

from __future__ import annotations

import os
import struct
from typing import Any

import numpy as np

from ... import _C
from ...tensor import _rebuild_tensor
from ..typename import typename

__all__ = ["T7ReaderException", "TorchObject", "load_lua"]

_NIL, _NUMBER, _STRING, _TABLE, _TORCH, _BOOLEAN, _FUNCTION, _OLD_FUNCTION, _RECURSIVE_FUNCTION = range(9)
_ELEMENTS = ("Byte", "Char", "Short", "Int", "Long", "Float", "Double", "Half")


class T7ReaderException(Exception):
    """A file that can't be read: damaged, or with objects that nobody here knows."""


class TorchObject:
    """An object of a Lua class: its name and what it was written as, mostly a table of its fields."""

    def __init__(self, typename: str, obj: Any):
        self._typename = typename
        self._obj = obj

    def torch_typename(self) -> str:
        """The name of the Lua class."""
        return self._typename

    def __getattr__(self, name: str) -> Any:
        fields = self.__dict__.get("_obj")
        if isinstance(fields, dict) and name in fields:
            return fields[name]
        raise AttributeError(f"{self.__dict__.get('_typename')} has no field {name!r}")

    def __repr__(self) -> str:
        return f"TorchObject({self._typename}, {self._obj!r})"


def _cpu_class(name: str) -> tuple[str, str] | None:
    """("Float", "Tensor") for torch.FloatTensor, torch.CudaTensor and the like; None for other classes."""
    package, _, short = name.partition(".")
    for kind in ("Tensor", "Storage"):
        if package == "torch" and short.endswith(kind):
            element = short[: -len(kind)]
            if element.startswith("Cuda"):
                element = element[len("Cuda"):] or "Float"
            if element in _ELEMENTS:
                return element, kind
    return None


class _Reader:
    def __init__(self, file: Any, name: str, unknown_classes: bool):
        self.file, self.name, self.unknown_classes = file, name, unknown_classes
        self.known: dict[int, Any] = {}
        self.size = os.fstat(file.fileno()).st_size

    def damaged(self, what: str) -> T7ReaderException:
        return T7ReaderException(f"load_lua: {self.name!r} is damaged or no Torch 7 file: {what}")

    def bytes(self, n: int) -> bytes:
        left = self.size - self.file.tell()
        if not 0 <= n <= left:  # before memory is taken for them
            raise self.damaged(f"{n} bytes expected, but {left} are left")
        return self.file.read(n)

    def number(self, kind: str) -> Any:
        return struct.unpack("<" + kind, self.bytes(struct.calcsize("<" + kind)))[0]

    def string(self) -> str:
        return self.bytes(self.number("i")).decode("utf-8", "surrogateescape")

    def read(self) -> Any:
        tag = self.number("i")
        if tag == _NIL:
            return None
        if tag == _NUMBER:
            value = self.number("d")
            return int(value) if value.is_integer() else value
        if tag == _STRING:
            return self.string()
        if tag == _BOOLEAN:
            return self.number("i") == 1
        if tag not in (_TABLE, _TORCH, _FUNCTION, _OLD_FUNCTION, _RECURSIVE_FUNCTION):
            raise self.damaged(f"there is no tag {tag}")
        index = self.number("i")
        if index not in self.known:
            self.known[index] = self.table(index) if tag == _TABLE else None
            if tag == _TORCH:
                self.known[index] = self.torch(index)
            elif tag != _TABLE:
                code = self.bytes(self.number("i"))
                self.known[index] = TorchObject("function", {"dumped": code, "upvalues": self.read()})
        return self.known[index]

    def table(self, index: int) -> dict | list:
        """A dict; a list if the keys are 1, 2, ... n. Inside itself a table is always seen as the dict. A table that is
        a key can't be one here; its identity stands for it."""
        fields: dict = {}
        self.known[index] = fields
        for _ in range(self.number("i")):
            key = self.read()
            fields[key if not isinstance(key, (dict, list)) else id(key)] = self.read()
        if fields and all(isinstance(k, int) for k in fields) and sorted(fields) == list(range(1, len(fields) + 1)):
            return [fields[k] for k in sorted(fields)]
        return fields

    def torch(self, index: int) -> Any:
        version = self.string()
        name = self.string() if version.startswith("V ") else version
        known = _cpu_class(name)
        if known is not None:
            return self.tensor(*known) if known[1] == "Tensor" else self.storage(known[0])
        if not self.unknown_classes:
            raise T7ReaderException(
                f"load_lua: {self.name!r} holds an object of the class {name!r}, which is not known here; "
                "unknown_classes=True reads it as a TorchObject"
            )
        result = self.known[index] = TorchObject(name, None)
        result._obj = self.read()
        return result

    def tensor(self, element: str, kind: str) -> Any:
        cls = getattr(_C, element + kind)
        ndim = self.number("i")
        sizes = [self.number("q") for _ in range(ndim)]
        strides = [self.number("q") for _ in range(ndim)]
        offset = self.number("q") - 1
        storage = self.read()
        if storage is None or not ndim:
            return cls()
        if type(storage) is not getattr(_C, element + "Storage"):
            raise self.damaged(f"a {element}Tensor lies on a {typename(storage)}")
        try:
            return _rebuild_tensor(cls, storage, offset, tuple(sizes), tuple(strides))
        except (ValueError, RuntimeError) as error:
            raise self.damaged(str(error)) from None

    def storage(self, element: str) -> Any:
        tensor_class = getattr(_C, element + "Tensor")
        dtype = tensor_class(1).numpy().dtype
        numel = self.number("q")
        values = np.frombuffer(self.bytes(numel * dtype.itemsize), dtype.newbyteorder("<")).astype(dtype)
        return _C.from_numpy(values).storage() if numel else getattr(_C, element + "Storage")()


def load_lua(filename: Any, unknown_classes: bool = False, **kwargs: Any) -> Any:
    """The object in a file that Torch 7's ``torch.save`` wrote in binary form.

    Tensors of CUDA come back in host memory, tables as dicts, or as lists if their keys are 1, 2, ... n.

    Raises:
        T7ReaderException: if the file is damaged, or holds an object of an unknown class (unless ``unknown_classes``).
    """
    with open(filename, "rb") as file:
        return _Reader(file, os.fspath(filename), unknown_classes).read()
