import math

import torch

from ..function import Function, InplaceFunction
from .utils import maybe_unexpand, maybe_unexpand_or_view, target


class Add(InplaceFunction):
    @staticmethod
    def forward(ctx, a, b, inplace=False):
        ctx.sizes = a.size(), b.size()
        return target(ctx, a, inplace).add_(b) if inplace else a.add(b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.sizes
        return maybe_unexpand(g, a), maybe_unexpand_or_view(g, b), None


class Sub(InplaceFunction):
    @staticmethod
    def forward(ctx, a, b, inplace=False):
        ctx.sizes = a.size(), b.size()
        return target(ctx, a, inplace).sub_(b) if inplace else a.sub(b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.sizes
        return maybe_unexpand(g, a), maybe_unexpand_or_view(g.neg(), b), None


class Mul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.sizes = a.size(), b.size()
        ctx.save_for_backward(a, b)
        return a.mul(b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_variables
        sa, sb = ctx.sizes
        return maybe_unexpand(g.mul(b), sa), maybe_unexpand_or_view(g.mul(a), sb)


class Div(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.sizes = a.size(), b.size()
        ctx.save_for_backward(a, b)
        return a.div(b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_variables
        sa, sb = ctx.sizes
        return maybe_unexpand(g.div(b), sa), maybe_unexpand_or_view(g.neg().mul(a).div(b).div(b), sb)


class Pow(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.sizes = a.size(), b.size()
        ctx.save_for_backward(a, b)
        return a.pow(b)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_variables
        sa, sb = ctx.sizes
        by_base = g.mul(b).mul(a.pow(b - 1))
        by_exponent = g.mul(a.pow(b)).mul(a.log())
        return maybe_unexpand(by_base, sa), maybe_unexpand_or_view(by_exponent, sb)


def _tensor_first(a, b):
    return (True, a, b) if torch.is_tensor(a) else (False, b, a)


class AddConstant(InplaceFunction):
    @staticmethod
    def forward(ctx, a, b, inplace=False):
        ctx.first, tensor, number = _tensor_first(a, b)
        return target(ctx, tensor, inplace).add_(number)

    @staticmethod
    def backward(ctx, g):
        return (g, None, None) if ctx.first else (None, g, None)


class SubConstant(InplaceFunction):
    @staticmethod
    def forward(ctx, a, b, inplace=False):
        ctx.first, tensor, number = _tensor_first(a, b)
        tensor = target(ctx, tensor, inplace)
        return tensor.sub_(number) if ctx.first else tensor.neg_().add_(number)

    @staticmethod
    def backward(ctx, g):
        return (g, None, None) if ctx.first else (None, g.neg(), None)


class MulConstant(InplaceFunction):
    @staticmethod
    def forward(ctx, a, b, inplace=False):
        ctx.first, tensor, ctx.number = _tensor_first(a, b)
        return target(ctx, tensor, inplace).mul_(ctx.number)

    @staticmethod
    def backward(ctx, g):
        g = g.mul(ctx.number)
        return (g, None, None) if ctx.first else (None, g, None)


class DivConstant(InplaceFunction):
    @staticmethod
    def forward(ctx, a, b, inplace=False):
        ctx.first, tensor, ctx.number = _tensor_first(a, b)
        tensor = target(ctx, tensor, inplace)
        if ctx.first:
            return tensor.div_(ctx.number)
        result = tensor.reciprocal_().mul_(ctx.number)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        if ctx.first:
            return g.div(ctx.number), None, None
        y, = ctx.saved_variables
        return None, g.neg().mul(y).mul(y).div(ctx.number), None


class PowConstant(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.first, tensor, ctx.number = _tensor_first(a, b)
        if ctx.first:
            ctx.save_for_backward(tensor)
            return tensor.pow(ctx.number)
        result = torch.pow(ctx.number, tensor)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        saved, = ctx.saved_variables
        if ctx.first:
            slope = saved.pow(ctx.number - 1).mul(ctx.number) if ctx.number else saved.mul(0)
            return g.mul(slope), None
        return None, g.mul(saved).mul(math.log(ctx.number))


class Negate(InplaceFunction):
    @staticmethod
    def forward(ctx, i, inplace=False):
        return target(ctx, i, inplace).neg_()

    @staticmethod
    def backward(ctx, g):
        return g.neg(), None
