"""Files that ``torch.save`` wrote in 2017, and names of torch's in any pickle.

Such a file is a row of pickles: a magic number, the version of the format, facts about the machine, the object, and the
keys of its storages; then for each storage the number of elements (8 bytes) and the elements, little-endian. In the
object a storage is a persistent id: ("storage", class, key, device, number of elements, view or None), a view being
(key, offset, number of elements).
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _C
from .._arrays import class_of_tensors
from .._utils import _import_dotted_name
from ..tensor import _rebuild_tensor

__all__ = ["MAGIC", "read", "unpickler"]

# The pickle of the magic number, with which every such file begins.
MAGIC = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
_VERSION = 1001


def unpickler(
    file: Any,
    pickle_module: Any,
    persistent_load: Callable | None = None,
    substitutes: dict[tuple[str, str], Any] | None = None,
    **options: Any,
) -> Any:
    """An unpickler for which the names of torch's classes and functions stand for torchlite's.

    ``substitutes`` has what other names, pairs of a module and a name in it, stand for.
    """

    class Unpickler(pickle_module.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if substitutes and (module, name) in substitutes:
                return substitutes[module, name]
            if module == "torch" or module.startswith("torch."):
                try:
                    return _import_dotted_name(f"torchlite{module[len('torch'):]}.{name}")
                except (ImportError, AttributeError):
                    pass  # a part of PyTorch that isn't here: the error is that of the name itself
            return super().find_class(module, name)

    if persistent_load is not None:
        Unpickler.persistent_load = lambda self, saved_id: persistent_load(saved_id)  # type: ignore[attr-defined]
    return Unpickler(file, **options)


def _elements(storage: Any, offset: int, numel: int) -> np.ndarray:
    """An array on the memory of a storage."""
    return _rebuild_tensor(class_of_tensors(storage), storage, offset, (numel,), (1,)).numpy()


def read(file: Any, name: Any, pickle_module: Any) -> Any:
    """The object in a file whose magic number has been read already.

    Storages of CUDA come back in host memory.

    Raises:
        RuntimeError: if the file is of another version of the format, or ends too early.
    """
    storages: dict[str, Any] = {}

    def load_storage(saved_id: tuple) -> Any:
        kind, *rest = saved_id
        if kind == "module":  # the class of a module, with its source
            return rest[0]
        if kind != "storage":
            raise RuntimeError(f"load: {name!r} holds an object of unknown kind {kind!r}")
        cls, key, _, numel, view = rest
        if key not in storages:
            storages[key] = getattr(_C, cls.__name__)(numel)
        if view is None:
            return storages[key]
        view_key, offset, size = view
        if view_key not in storages:
            storages[view_key] = type(storages[key])(storages[key], offset, size)
        return storages[view_key]

    def load(persistent_load: Callable | None = None) -> Any:
        # Files of Python 2 hold byte strings; Latin-1 takes any of them.
        return unpickler(file, pickle_module, persistent_load, encoding="latin1").load()

    version = load()
    if version != _VERSION:
        raise RuntimeError(f"load: {name!r} is of version {version} of torch.save's format; {_VERSION} can be read")
    system = load()
    order: Any = "<" if system.get("little_endian", True) else ">"
    result = load(load_storage)
    for key in load():
        head = file.read(8)
        numel = struct.unpack(order + "q", head)[0] if len(head) == 8 else -1
        storage = storages.get(key)
        if storage is None or numel != storage.size():
            raise RuntimeError(f"load: {name!r} is damaged: storage {key!r} has no elements in it")
        target = _elements(storage, 0, numel)
        data = file.read(target.nbytes)
        if len(data) != target.nbytes:
            raise RuntimeError(f"load: {name!r} ends within storage {key!r}: {len(data)} of {target.nbytes} bytes")
        target[...] = np.frombuffer(data, target.dtype.newbyteorder(order))
    return result
