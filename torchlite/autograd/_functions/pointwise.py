"""Elementwise functions."""

from __future__ import annotations

from .op_function import Binary, InplaceOpFunction, InplaceUnary, OpFunction, Unary


class Exp(InplaceUnary, op="exp"):
    pass


class Log(Unary, op="log"):
    pass


class Log1p(Unary, op="log1p"):
    pass


class Tanh(InplaceUnary, op="tanh"):
    pass


class Sigmoid(InplaceUnary, op="sigmoid"):
    pass


class Sinh(Unary, op="sinh"):
    pass


class Cosh(Unary, op="cosh"):
    pass


class Abs(Unary, op="abs"):
    pass


class Clamp(OpFunction, op="clamp"):
    @staticmethod
    def arguments(i, min, max):
        return i, min, max


class Sqrt(Unary, op="sqrt"):
    pass


class Sin(Unary, op="sin"):
    pass


class Cos(Unary, op="cos"):
    pass


class Tan(Unary, op="tan"):
    pass


class Asin(Unary, op="asin"):
    pass


class Acos(Unary, op="acos"):
    pass


class Atan(Unary, op="atan"):
    pass


class Atan2(OpFunction, op="atan2"):
    @staticmethod
    def arguments(y, x):
        return y, x


class Reciprocal(Unary, op="reciprocal"):
    pass


class Rsqrt(InplaceUnary, op="rsqrt"):
    pass


class Cmax(Binary, op="maximum"):
    pass


class Cmin(Binary, op="minimum"):
    pass


class BoundedByConstant(OpFunction):
    @staticmethod
    def arguments(i, c):
        return i, c


class CmaxConstant(BoundedByConstant, op="maximum"):
    pass


class CminConstant(BoundedByConstant, op="minimum"):
    pass


class Floor(Unary, op="floor"):
    pass


class Ceil(Unary, op="ceil"):
    pass


class Frac(Unary, op="frac"):
    pass


class Fmod(Binary, op="fmod"):
    pass


class Remainder(Binary, op="remainder"):
    pass


class Round(Unary, op="round"):
    pass


class Sign(Unary, op="sign"):
    pass


class Trunc(Unary, op="trunc"):
    pass


class Lerp(OpFunction, op="lerp"):
    @staticmethod
    def arguments(a, b, weight):
        return a, b, weight


class ScaledUpdate(InplaceOpFunction):
    @staticmethod
    def arguments(t, t1, t2, scale=1.0):
        return t, scale, t1, t2


class Addcmul(ScaledUpdate, op="addcmul"):
    pass


class Addcdiv(ScaledUpdate, op="addcdiv"):
    pass
