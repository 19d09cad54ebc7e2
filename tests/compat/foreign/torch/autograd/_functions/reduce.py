import torch

from ..function import Function


def _keyword(keepdim):
    return {} if keepdim is None else {"keepdim": keepdim}


def _spread(ctx, g):
    """The gradient of a sum for each of its terms."""
    if ctx.dim is not None and not ctx.keepdim and len(ctx.size) > 1:
        g = g.unsqueeze(ctx.dim)
    return g.expand(ctx.size)


class _Reduction(Function):
    @classmethod
    def forward(cls, ctx, i, dim=None, keepdim=None):
        ctx.dim, ctx.keepdim, ctx.size = dim, bool(keepdim), i.size()
        method = getattr(i, cls.__name__.lower())
        result = i.new((method(),)) if dim is None else method(dim, **_keyword(keepdim))
        cls.save(ctx, i, result)
        return result

    @staticmethod
    def save(ctx, i, result):
        pass


class Sum(_Reduction):
    @staticmethod
    def backward(ctx, g):
        return _spread(ctx, g), None, None


class Mean(_Reduction):
    @staticmethod
    def backward(ctx, g):
        n = ctx.size[ctx.dim] if ctx.dim is not None else torch.Size(ctx.size).numel()
        return _spread(ctx, g) / n, None, None


class Prod(_Reduction):
    @staticmethod
    def save(ctx, i, result):
        ctx.save_for_backward(i)

    @staticmethod
    def backward(ctx, g):
        i, = ctx.saved_variables
        # The product of the others, term by term: right also where factors are zero.
        lines = i.contiguous().view(1, -1) if ctx.dim is None else i.transpose(ctx.dim, -1)
        n = lines.size(-1)
        others = [_product([lines.narrow(-1, k, 1) for k in range(n) if k != j], lines) for j in range(n)]
        others = torch.cat(others, lines.dim() - 1)
        others = others.view(ctx.size) if ctx.dim is None else others.transpose(ctx.dim, -1)
        return _spread(ctx, g) * others, None, None


def _product(factors, like):
    if not factors:
        return torch.autograd.Variable(like.data.new(like.narrow(-1, 0, 1).size()).fill_(1))
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product


class _Selection(Function):
    """One element of each line, and where it stood."""

    whole = True  # without a dim: one element of all; else that of the last dim
    arguments = ()

    @classmethod
    def forward(cls, ctx, i, *args):
        args = list(args) + [None] * (len(cls.arguments) + 2 - len(args))
        extra, (dim, keepdim) = args[:-2], args[-2:]
        ctx.size, ctx.extra = i.size(), len(extra)
        name = cls.__name__.lower()
        ctx.all = dim is None and cls.whole
        if ctx.all:
            value = getattr(i, name)(*extra)
            ctx.index = i.eq(value).nonzero()[0] if i.dim() > 1 else i.eq(value).nonzero()[0]
            return i.new((value,))
        ctx.dim = i.dim() - 1 if dim is None else dim % i.dim()
        ctx.keepdim = bool(keepdim)
        value, index = getattr(i, name)(*(extra + [ctx.dim]), **_keyword(keepdim))
        ctx.index = index
        ctx.mark_non_differentiable(index)
        return value, index

    @staticmethod
    def backward(ctx, g, g_index=None):
        nones = (None,) * (ctx.extra + 2)
        zeros = torch.autograd.Variable(g.data.new(ctx.size).zero_())
        if ctx.all:
            place = tuple(ctx.index.tolist())
            mask = g.data.new(ctx.size).zero_()
            mask[place if len(place) > 1 else place[0]] = 1
            return (g.expand(ctx.size) * torch.autograd.Variable(mask),) + nones
        index = torch.autograd.Variable(ctx.index)
        if not ctx.keepdim and len(ctx.size) > 1:
            g, index = g.unsqueeze(ctx.dim), index.unsqueeze(ctx.dim)
        return (zeros.scatter(ctx.dim, index, g),) + nones


class Max(_Selection):
    pass


class Min(_Selection):
    pass


class Median(_Selection):
    pass


class Mode(_Selection):
    whole = False


class Kthvalue(_Selection):
    whole = False
    arguments = ("k",)


class Norm(Function):
    @staticmethod
    def forward(ctx, i, p=2, dim=None, keepdim=None):
        ctx.p, ctx.dim, ctx.keepdim, ctx.size = p, dim, bool(keepdim), i.size()
        ctx.save_for_backward(i)
        return i.new((i.norm(p),)) if dim is None else i.norm(p, dim, **_keyword(keepdim))

    @staticmethod
    def backward(ctx, g):
        i, = ctx.saved_variables
        # d|i|_p = (|i| / |i|_p)^(p-1) sign(i), with the norm computed again so that it can be differentiated again.
        total = i.abs().pow(ctx.p)
        total = total.sum() if ctx.dim is None else total.sum(ctx.dim, keepdim=True)
        norm = total.pow(1.0 / ctx.p).expand_as(i)
        return _spread(ctx, g) * (i.abs() / norm).pow(ctx.p - 1) * i.sign(), None, None, None
