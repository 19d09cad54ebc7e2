"""Names of 2017 that current versions of Python and NumPy have dropped, put back where they were."""

from __future__ import annotations

import collections
import collections.abc
import inspect
import math
import sys
import time
from typing import Any

import numpy as np

__all__ = ["restore"]

# Former names of NumPy, by what they stood for.
_NUMPY = {
    "bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str, "long": int,
    "unicode": str, "bool8": np.bool_, "float_": np.float64, "complex_": np.complex128, "string_": np.bytes_,
    "unicode_": np.str_, "int0": np.intp, "uint0": np.uintp, "Inf": np.inf, "Infinity": np.inf, "infty": np.inf,
    "PINF": np.inf, "NINF": -np.inf, "NaN": np.nan, "NAN": np.nan, "PZERO": 0.0, "NZERO": -0.0,
    "product": np.prod, "cumproduct": np.cumprod, "alltrue": np.all, "sometrue": np.any, "round_": np.round,
    "row_stack": np.vstack, "asscalar": lambda a: a.item(),
    "asfarray": lambda a, dtype=np.float64: np.asarray(a, dtype),
}  # fmt: skip

# Methods of unittest.TestCase that Python 3.12 has dropped.
_UNITTEST = {
    "failUnlessEqual": "assertEqual", "assertEquals": "assertEqual", "assertNotEquals": "assertNotEqual",
    "assert_": "assertTrue", "assertAlmostEquals": "assertAlmostEqual", "assertNotAlmostEquals": "assertNotAlmostEqual",
    "assertRegexpMatches": "assertRegex", "assertNotRegexpMatches": "assertNotRegex",
    "assertRaisesRegexp": "assertRaisesRegex",
}  # fmt: skip


_ArgSpec: Any = collections.namedtuple("_ArgSpec", "args varargs keywords defaults")


def _getargspec(function: Any) -> Any:
    """The former ``inspect.getargspec``: (args, varargs, keywords, defaults)."""
    return _ArgSpec(*inspect.getfullargspec(function)[:4])


def _missing(owner: Any, name: str) -> bool:
    return name not in vars(owner)  # what a module's __getattr__ answers with a warning or an error is missing too


def restore() -> None:
    """Adds each name that is missing; one that exists, with whatever meaning, stays as it is."""
    for name in collections.abc.__all__:
        if _missing(collections, name):
            setattr(collections, name, getattr(collections.abc, name))
    for name, value in _NUMPY.items():
        if _missing(np, name):
            setattr(np, name, value)
    if sys.version_info >= (3, 12):  # before, the names are there, and the module costs some time
        from unittest import TestCase

        for name, current in _UNITTEST.items():
            if not hasattr(TestCase, name):
                setattr(TestCase, name, getattr(TestCase, current))
    import fractions

    if not hasattr(inspect, "getargspec"):
        setattr(inspect, "getargspec", _getargspec)  # noqa: B010
    if not hasattr(time, "clock"):
        time.clock = time.process_time  # type: ignore[attr-defined]
    if not hasattr(fractions, "gcd"):
        fractions.gcd = math.gcd  # type: ignore[attr-defined]
