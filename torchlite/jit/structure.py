"""Nested arguments and results, taken apart into their Variables and put together again.

Structures are tuples (named ones too), lists, dicts, None, Python constants and, in arguments, Modules. What is left of
one without its Variables is a *spec*: hashable, so that it can be part of a key, and enough to rebuild it.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from torchlite import _C

_VARIABLE = ("v",)
_NONE = ("none",)
_CONSTANTS = (bool, int, float, complex, str, bytes, slice, type, type(Ellipsis), range, frozenset)


def _constant_key(value: Any) -> Any:
    """Equal for constants that mean the same to a program: 1, 1.0 and True differ, as do 0.0 and -0.0."""
    if isinstance(value, float):
        return value.hex()
    if isinstance(value, complex):
        return value.real.hex(), value.imag.hex()
    if isinstance(value, slice):
        return tuple(_constant_key(part) for part in (value.start, value.stop, value.step))
    return value


class _Constant:
    """A constant in a spec."""

    __slots__ = ("key", "value")

    def __init__(self, value: Any):
        self.value = value
        self.key = (type(value), _constant_key(value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Constant) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


class _Identity:
    """An object in a spec that stands for itself: a Module, a function."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value) >> 4


def flatten(obj: Any, leaves: list, what: str, modules: bool = False) -> Any:
    """Appends the Variables in ``obj`` to ``leaves`` and returns the spec of the rest.

    Modules are allowed if ``modules`` says so. TypeError, in which ``what`` names the place, for anything
    else.
    """
    if isinstance(obj, _C._VariableBase):
        leaves.append(obj)
        return _VARIABLE
    if obj is None:
        return _NONE
    kind = type(obj)
    if isinstance(obj, tuple):
        if kind is tuple or hasattr(obj, "_fields"):
            return (kind, *[flatten(element, leaves, what, modules) for element in obj])
        if kind.__module__.startswith("torchlite"):  # torchlite.Size
            return _Constant(obj)
    elif kind is list:
        return (list, *[flatten(element, leaves, what, modules) for element in obj])
    elif kind is dict or kind is OrderedDict:
        return (kind, tuple(obj), *[flatten(element, leaves, what, modules) for element in obj.values()])
    elif isinstance(obj, _CONSTANTS):
        return _Constant(obj)
    elif hasattr(obj, "_parameters") and hasattr(obj, "_modules"):
        if modules:
            return _Identity(obj)
    elif callable(obj) and not isinstance(obj, _C._TensorBase):
        return _Identity(obj)
    hint = "; wrap it in a Variable" if isinstance(obj, _C._TensorBase) or hasattr(obj, "__array_interface__") else ""
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    raise TypeError(
        f"{what} must be made of Variables, None, Python constants, tuples, lists and dicts, but has a {name}{hint}"
    )


def unflatten(spec: Any, leaves: Any) -> Any:
    """The structure of ``spec`` with its Variables taken from the iterator ``leaves``."""
    if spec is _VARIABLE:
        return next(leaves)
    if spec is _NONE:
        return None
    if isinstance(spec, (_Constant, _Identity)):
        return spec.value
    kind = spec[0]
    if kind is list:
        return [unflatten(part, leaves) for part in spec[1:]]
    if kind is tuple:
        return tuple([unflatten(part, leaves) for part in spec[1:]])
    if kind is dict or kind is OrderedDict:
        return kind(zip(spec[1], [unflatten(part, leaves) for part in spec[2:]], strict=True))
    return kind._make([unflatten(part, leaves) for part in spec[1:]])


def paths(spec: Any, prefix: str = "") -> list[str]:
    """Where each Variable of ``spec`` stands, as Python would index it: ``[1]['hidden'][0]``."""
    if spec is _VARIABLE:
        return [prefix]
    if spec is _NONE or isinstance(spec, (_Constant, _Identity)):
        return []
    keys, parts = range(len(spec) - 1), spec[1:]
    if spec[0] is dict or spec[0] is OrderedDict:
        keys, parts = spec[1], spec[2:]
    return [path for key, part in zip(keys, parts, strict=True) for path in paths(part, f"{prefix}[{key!r}]")]
