"""Arithmetic. A class whose name ends in ``Constant`` takes a number on one side, whichever that is."""

from __future__ import annotations

from ... import _C
from .op_function import Binary, InplaceBinary, InplaceUnary


def _is_variable(value):
    return isinstance(value, _C._VariableBase)


class Add(InplaceBinary, op="add"):
    pass


class Sub(InplaceBinary, op="sub"):
    pass


class Mul(Binary, op="mul"):
    pass


class Div(Binary, op="div"):
    pass


class Pow(Binary, op="pow"):
    pass


class AddConstant(InplaceBinary, op="add"):
    @classmethod
    def call_in_place(cls, a, b):
        return a.add_(b) if _is_variable(a) else b.add_(a)


class SubConstant(InplaceBinary, op="sub"):
    @classmethod
    def call_in_place(cls, a, b):
        return a.sub_(b) if _is_variable(a) else b.neg_().add_(a)


class MulConstant(InplaceBinary, op="mul"):
    @classmethod
    def call_in_place(cls, a, b):
        return a.mul_(b) if _is_variable(a) else b.mul_(a)


class DivConstant(InplaceBinary, op="div"):
    @classmethod
    def call_in_place(cls, a, b):
        return a.div_(b) if _is_variable(a) else b.pow_(-1).mul_(a)


class PowConstant(Binary, op="pow"):
    pass


class Negate(InplaceUnary, op="neg"):
    pass
