"""Helpers that packages written for the era import, and what its pickles call."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ._arrays import class_of_tensors
from .tensor import _rebuild_tensor as _rebuild

__all__ = ["FatalError"]


class FatalError(Exception):
    """Raised by the era where the process could not go on. Programs may catch it; torchlite never raises it."""


def _accumulate(iterable: Iterable, fn: Any = lambda x, y: x + y) -> Iterator:
    """The running totals of `iterable`: its first item, `fn` of that and the second, ..."""
    return itertools.accumulate(iterable, fn)


def _import_dotted_name(name: str) -> Any:
    """The object that ``'package.module.attribute'`` names. ``torch`` means this package, installed as such or not.

    Raises:
        ImportError: if the part before the first dot is no module; AttributeError if a later part isn't found.
    """
    first, *rest = name.split(".")
    if first == "torch":
        first = __package__ or "torchlite"
    found = importlib.import_module(first)
    path = first
    for part in rest:
        path += "." + part
        if not hasattr(found, part) and hasattr(found, "__path__"):
            try:
                importlib.import_module(path)
            except ModuleNotFoundError as e:
                if e.name != path:
                    raise
        found = getattr(found, part)
    return found


def _rebuild_tensor(storage: Any, storage_offset: int, size: Sequence[int], stride: Sequence[int]) -> Any:
    """A tensor that views `storage`, of the class that belongs to it; pickles of the era call it."""
    return _rebuild(class_of_tensors(storage), storage, storage_offset, tuple(size), tuple(stride))
