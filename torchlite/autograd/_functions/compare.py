"""Comparisons. Results are ByteTensors that no gradient flows through."""

from __future__ import annotations

from .op_function import Binary


class Eq(Binary, op="eq"):
    pass


class Ne(Binary, op="ne"):
    pass


class Gt(Binary, op="gt"):
    pass


class Ge(Binary, op="ge"):
    pass


class Lt(Binary, op="lt"):
    pass


class Le(Binary, op="le"):
    pass
