"""Functions of matrices."""

from __future__ import annotations

from .op_function import OpFunction, Unary


class Diagonal(OpFunction):
    @staticmethod
    def arguments(i, diagonal=0):
        return i, diagonal


class Diag(Diagonal, op="diag"):
    pass


class Tril(Diagonal, op="tril"):
    pass


class Triu(Diagonal, op="triu"):
    pass


class Cross(OpFunction, op="cross"):
    @staticmethod
    def arguments(a, b, dim=-1):
        return a, b, dim


class Inverse(Unary, op="inverse"):
    pass


class Gesv(OpFunction, op="gesv"):
    @staticmethod
    def arguments(b, a):
        return b, a


class Potrf(OpFunction, op="potrf"):
    @staticmethod
    def arguments(a, upper=True):
        return a, upper


class Trace(Unary, op="trace"):
    pass
