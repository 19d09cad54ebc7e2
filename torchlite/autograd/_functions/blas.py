"""Products of matrices and vectors. ``alpha`` weighs the summand ``t``, ``beta`` the product."""

from __future__ import annotations

from .op_function import Binary, InplaceOpFunction


class AddProduct(InplaceOpFunction):
    # The operations have the names the other way round: their `beta` is the weight of the summand.
    @staticmethod
    def arguments(t, x, y, alpha=1, beta=1):
        return alpha, t, beta, x, y


class Addmm(AddProduct, op="addmm"):
    pass


class Addbmm(AddProduct, op="addbmm"):
    pass


class Baddbmm(AddProduct, op="baddbmm"):
    pass


class Addmv(AddProduct, op="addmv"):
    pass


class Addr(AddProduct, op="addr"):
    pass


class Dot(Binary, op="dot"):
    pass
