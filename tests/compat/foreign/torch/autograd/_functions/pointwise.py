"""Elementwise functions: of most only the derivative has to be written."""

import torch

from ..function import Function, InplaceFunction
from .utils import maybe_unexpand, maybe_unexpand_or_view


class _OfOutput(InplaceFunction):
    """Derivative from the result, which is therefore saved; works in place."""

    @classmethod
    def forward(cls, ctx, i, inplace=False):
        name = cls.__name__.lower()
        if inplace:
            ctx.mark_dirty(i)
            result = getattr(i, name + "_")()
        else:
            result = getattr(i, name)()
        ctx.save_for_backward(result)
        return result

    @classmethod
    def backward(cls, ctx, g):
        y, = ctx.saved_variables
        return cls.derivative(g, y), None


class Exp(_OfOutput):
    @staticmethod
    def derivative(g, y):
        return g * y


class Rsqrt(_OfOutput):
    @staticmethod
    def derivative(g, y):
        return g * y.pow(3) / -2


class _WithKernel(_OfOutput):
    """On volatile gradients the backend's kernel writes the result."""

    @classmethod
    def backward(cls, ctx, g):
        y, = ctx.saved_variables
        if not g.volatile:
            return cls.derivative(g, y), None
        backend = torch._thnn.type2backend[type(g.data)]
        grad_input = g.data.new(g.data.size())
        getattr(backend, cls.__name__ + "_updateGradInput")(
            backend.library_state, None, g.data, grad_input, y.data)
        return torch.autograd.Variable(grad_input, volatile=True), None


class Tanh(_WithKernel):
    @staticmethod
    def derivative(g, y):
        return g * (1 - y * y)


class Sigmoid(_WithKernel):
    @staticmethod
    def derivative(g, y):
        return g * ((1 - y) * y)


class _OfInput(Function):
    @classmethod
    def forward(cls, ctx, i):
        ctx.save_for_backward(i)
        return getattr(i, cls.__name__.lower())()

    @classmethod
    def backward(cls, ctx, g):
        i, = ctx.saved_variables
        return cls.derivative(g, i)


def _of_input(name, derivative):
    return type(name, (_OfInput,), {"derivative": staticmethod(derivative), "__module__": __name__})


Log = _of_input("Log", lambda g, i: g.div(i))
Log1p = _of_input("Log1p", lambda g, i: g.div(i.add(1)))
Sinh = _of_input("Sinh", lambda g, i: g * i.cosh())
Cosh = _of_input("Cosh", lambda g, i: g * i.sinh())
Abs = _of_input("Abs", lambda g, i: g * i.sign())
Sin = _of_input("Sin", lambda g, i: g * i.cos())
Cos = _of_input("Cos", lambda g, i: g * -i.sin())
Tan = _of_input("Tan", lambda g, i: g / i.cos().pow(2))
Asin = _of_input("Asin", lambda g, i: g * (1 - i * i).sqrt().reciprocal())
Acos = _of_input("Acos", lambda g, i: g.neg() * (1 - i * i).sqrt().reciprocal())
Atan = _of_input("Atan", lambda g, i: g * (i * i + 1).reciprocal())
Sqrt = _of_input("Sqrt", lambda g, i: g.div(2) * i.pow(-0.5))
Reciprocal = _of_input("Reciprocal", lambda g, i: g.neg() / (i * i))


class _Steps(Function):
    """Constant between its jumps."""

    @classmethod
    def forward(cls, ctx, i):
        return getattr(i, cls.__name__.lower())()

    @staticmethod
    def backward(ctx, g):
        return g * 0


Floor, Ceil, Round, Sign, Trunc = (
    type(name, (_Steps,), {"__module__": __name__}) for name in ("Floor", "Ceil", "Round", "Sign", "Trunc"))


class Frac(Function):
    @staticmethod
    def forward(ctx, i):
        return i.frac()

    @staticmethod
    def backward(ctx, g):
        return g


class Clamp(Function):
    @staticmethod
    def forward(ctx, i, low, high):
        ctx.mask = (i.ge(low) * i.le(high)).type_as(i)
        return i.clamp(low, high)

    @staticmethod
    def backward(ctx, g):
        return g * torch.autograd.Variable(ctx.mask), None, None


class CmaxConstant(Function):
    @staticmethod
    def forward(ctx, i, c):
        ctx.mask = i.gt(c).type_as(i)
        return i.clamp(min=c)

    @staticmethod
    def backward(ctx, g):
        return g * torch.autograd.Variable(ctx.mask), None


class CminConstant(Function):
    @staticmethod
    def forward(ctx, i, c):
        ctx.mask = i.lt(c).type_as(i)
        return i.clamp(max=c)

    @staticmethod
    def backward(ctx, g):
        return g * torch.autograd.Variable(ctx.mask), None


class _Choice(Function):
    @classmethod
    def forward(cls, ctx, a, b):
        ctx.sizes = a.size(), b.size()
        ctx.mask = cls.first(a, b).type_as(a)
        return cls.choose(a, b)

    @staticmethod
    def backward(ctx, g):
        mask = torch.autograd.Variable(ctx.mask)
        a, b = ctx.sizes
        return maybe_unexpand(g * mask, a), maybe_unexpand_or_view(g * (1 - mask), b)


class Cmax(_Choice):
    @staticmethod
    def first(a, b):
        return a.gt(b)

    @staticmethod
    def choose(a, b):
        return a.max(b)


class Cmin(_Choice):
    @staticmethod
    def first(a, b):
        return a.lt(b)

    @staticmethod
    def choose(a, b):
        return a.min(b)


class Atan2(Function):
    @staticmethod
    def forward(ctx, y, x):
        ctx.sizes = y.size(), x.size()
        ctx.save_for_backward(y, x)
        return y.atan2(x)

    @staticmethod
    def backward(ctx, g):
        y, x = ctx.saved_variables
        sy, sx = ctx.sizes
        by = g / (y * y + x * x)
        return maybe_unexpand(by * x, sy), maybe_unexpand_or_view(by * -y, sx)


class Fmod(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.size = a.size()
        return a.fmod(b)

    @staticmethod
    def backward(ctx, g):
        return maybe_unexpand(g, ctx.size), None


class Remainder(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.size = a.size()
        return a.remainder(b)

    @staticmethod
    def backward(ctx, g):
        return maybe_unexpand(g, ctx.size), None


class Lerp(Function):
    @staticmethod
    def forward(ctx, a, b, weight):
        ctx.weight, ctx.sizes = float(weight), (a.size(), b.size())
        return a.lerp(b, ctx.weight)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.sizes
        return maybe_unexpand(g * (1 - ctx.weight), a), maybe_unexpand_or_view(g * ctx.weight, b), None


class Addcmul(InplaceFunction):
    @staticmethod
    def forward(ctx, t, t1, t2, scale=1.0, inplace=False):
        ctx.scale, ctx.sizes = scale, (t.size(), t1.size(), t2.size())
        ctx.save_for_backward(t1, t2)
        if inplace:
            ctx.mark_dirty(t)
            return t.addcmul_(scale, t1, t2)
        return t.addcmul(scale, t1, t2)

    @staticmethod
    def backward(ctx, g):
        t1, t2 = ctx.saved_variables
        s, s1, s2 = ctx.sizes
        scaled = g * ctx.scale
        return maybe_unexpand(g, s), maybe_unexpand(scaled * t2, s1), maybe_unexpand(scaled * t1, s2), None, None


class Addcdiv(InplaceFunction):
    @staticmethod
    def forward(ctx, t, t1, t2, scale=1.0, inplace=False):
        ctx.scale, ctx.sizes = scale, (t.size(), t1.size(), t2.size())
        ctx.save_for_backward(t1, t2)
        if inplace:
            ctx.mark_dirty(t)
            return t.addcdiv_(scale, t1, t2)
        return t.addcdiv(scale, t1, t2)

    @staticmethod
    def backward(ctx, g):
        t1, t2 = ctx.saved_variables
        s, s1, s2 = ctx.sizes
        by1 = g * ctx.scale / t2
        by2 = by1.neg() * t1 / t2
        return maybe_unexpand(g, s), maybe_unexpand(by1, s1), maybe_unexpand(by2, s2), None, None
