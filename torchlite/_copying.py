"""Copies of tensors by the copy module and pickles, with what instances of Python subclasses hold.

A tensor is its class, a storage and a view of it. A storage is copied or pickled once for all the tensors on it, and so
they share memory again.
"""

from __future__ import annotations

import copy
from typing import Any

from torchlite import _C

__all__: list[str] = []


def filled_slots(obj: Any) -> dict[str, Any]:
    """What the ``__slots__`` of the Python classes of `obj` hold, by the names that it is stored under."""
    filled = {}
    for cls in type(obj).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{cls.__name__.lstrip('_')}{name}"
            if name not in ("__dict__", "__weakref__") and hasattr(obj, name):
                filled[name] = getattr(obj, name)
    return filled


def _attributes(self: Any) -> Any:
    """What an instance of a Python subclass holds beside the tensor: its state, or None."""
    own = getattr(type(self), "__getstate__", None)
    if own is not None and own is not getattr(object, "__getstate__", None):
        return own(self)
    instance = getattr(self, "__dict__", None) or None
    slots = filled_slots(self)
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


def __reduce_ex__(self: Any, protocol: int) -> tuple:
    # The storage is pickled once for all the tensors that view it, so that they share memory again afterwards.
    arguments = (type(self), self.storage(), self.storage_offset(), tuple(self.size()), self.stride())
    state = _attributes(self)
    return (_rebuild_tensor, arguments) if state is None else (_rebuild_tensor, arguments, state)


def __deepcopy__(self: Any, memo: dict) -> Any:
    storage = copy.deepcopy(self.storage(), memo)
    out = _rebuild_tensor(type(self), storage, self.storage_offset(), self.size(), self.stride())
    memo[id(self)] = out
    _set_attributes(out, copy.deepcopy(_attributes(self), memo))
    return out


def __copy__(self: Any) -> Any:
    out = _C._TensorBase.__new__(type(self)).set_(self)
    _set_attributes(out, _attributes(self))
    return out
