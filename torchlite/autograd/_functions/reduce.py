"""Reductions. Without a dimension ``Max``, ``Min`` and ``Median`` give one Variable, with one values and indices."""

from __future__ import annotations

from typing import Any

from .op_function import OpFunction


def _given(*values: Any) -> tuple:
    """``values`` up to the last one that isn't None: the operation has the defaults."""
    n = len(values)
    while n and values[n - 1] is None:
        n -= 1
    return values[:n]


class Reduction(OpFunction):
    @staticmethod
    def arguments(i, dim=None, keepdim=None):
        return _given(i, dim, keepdim)


class Sum(Reduction, op="sum"):
    pass


class Prod(Reduction, op="prod"):
    pass


class Mean(Reduction, op="mean"):
    pass


class Max(Reduction, op="max"):
    pass


class Min(Reduction, op="min"):
    pass


class Mode(Reduction, op="mode"):
    pass


class Median(Reduction, op="median"):
    pass


class Kthvalue(OpFunction, op="kthvalue"):
    @staticmethod
    def arguments(i, k, dim=None, keepdim=None):
        return _given(i, k, dim, keepdim)


class Norm(OpFunction, op="norm"):
    @staticmethod
    def arguments(i, p=2, dim=None, keepdim=None):
        return _given(i, p, dim, keepdim)
