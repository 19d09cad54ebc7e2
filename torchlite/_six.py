"""Helpers of programs that ran on Python 2 and 3."""

from __future__ import annotations

from typing import Any

__all__ = ["string_classes", "int_classes", "with_metaclass"]

string_classes = (str, bytes)
int_classes = int


def with_metaclass(meta: Any, *bases: type) -> Any:
    """A base for ``class C(with_metaclass(M, A)): ...``, which then derives from `bases` only; its class is `meta`."""

    class Temporary(type):
        def __new__(cls, name: str, this_bases: Any, namespace: dict) -> Any:
            return meta(name, bases, namespace)

        @classmethod
        def __prepare__(cls, name: str, this_bases: Any, /, **kwds: Any) -> Any:
            return meta.__prepare__(name, bases)

    return type.__new__(Temporary, "temporary_class", (), {})
