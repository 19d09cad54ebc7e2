"""alpha belongs to the first tensor, beta to the product."""

import torch

from ..function import Function, InplaceFunction
from .utils import maybe_unexpand


class _Product(InplaceFunction):
    @classmethod
    def forward(cls, ctx, t, x, y, alpha=1, beta=1, inplace=False):
        ctx.alpha, ctx.beta, ctx.size = alpha, beta, t.size()
        ctx.save_for_backward(x, y)
        function = getattr(torch, cls.__name__.lower())
        if inplace:
            ctx.mark_dirty(t)
            return function(alpha, t, beta, x, y, out=t)
        out = t.new()
        return function(alpha, t, beta, x, y, out=out)

    @classmethod
    def backward(cls, ctx, g):
        x, y = ctx.saved_variables
        gx, gy = cls.factors(g, x, y)
        if ctx.beta != 1:
            gx, gy = gx * ctx.beta, gy * ctx.beta
        gt = maybe_unexpand(g, ctx.size)
        return gt * ctx.alpha if ctx.alpha != 1 else gt, gx, gy, None, None, None


class Addmm(_Product):
    @staticmethod
    def factors(g, x, y):
        return torch.mm(g, y.t()), torch.mm(x.t(), g)


class Addbmm(_Product):
    @staticmethod
    def factors(g, x, y):
        g = g.unsqueeze(0).expand(x.size(0), x.size(1), y.size(2))
        return torch.bmm(g, y.transpose(1, 2)), torch.bmm(x.transpose(1, 2), g)


class Baddbmm(_Product):
    @staticmethod
    def factors(g, x, y):
        return torch.bmm(g, y.transpose(1, 2)), torch.bmm(x.transpose(1, 2), g)


class Addmv(_Product):
    @staticmethod
    def factors(g, x, y):
        return torch.ger(g, y), torch.mv(x.t(), g)


class Addr(_Product):
    @staticmethod
    def factors(g, x, y):
        return torch.mv(g, y), torch.mv(g.t(), x)


class Dot(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.sizes = a.size(), b.size()
        return a.new((a.dot(b),))

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_variables
        sa, sb = ctx.sizes
        return b * g.expand(sb), a * g.expand(sa)
