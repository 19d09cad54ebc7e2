import torch

from ..function import Function


class Diag(Function):
    @staticmethod
    def forward(ctx, i, diagonal=0):
        ctx.diagonal, ctx.size = diagonal, i.size()
        return i.diag(diagonal)

    @staticmethod
    def backward(ctx, g):
        if len(ctx.size) == 1 or ctx.size[0] == ctx.size[1]:
            g = g.diag(ctx.diagonal)
            if len(ctx.size) == 1:
                return g, None
            n = ctx.size[0] - g.size(0)
            return (g if n == 0 else _place(g, ctx.size)), None
        rows = [torch.autograd.Variable(g.data.new(ctx.size[1]).zero_()) for _ in range(ctx.size[0])]
        full = torch.stack(rows, 0)
        row = max(0, -ctx.diagonal)
        column = max(0, ctx.diagonal)
        part = full.narrow(0, row, g.size(0)).narrow(1, column, g.size(0)) + g.diag()
        return _pad(part, row, column, ctx.size), None


def _place(g, size):
    return _pad(g, 0, 0, size)


def _pad(part, row, column, size):
    def zeros(*n):
        return torch.autograd.Variable(part.data.new(*n).zero_())

    pieces = [zeros(part.size(0), column)] if column else []
    pieces.append(part)
    right = size[1] - column - part.size(1)
    if right:
        pieces.append(zeros(part.size(0), right))
    line = torch.cat(pieces, 1) if len(pieces) > 1 else pieces[0]
    pieces = [zeros(row, size[1])] if row else []
    pieces.append(line)
    below = size[0] - row - part.size(0)
    if below:
        pieces.append(zeros(below, size[1]))
    return torch.cat(pieces, 0) if len(pieces) > 1 else pieces[0]


class Tril(Function):
    @staticmethod
    def forward(ctx, i, diagonal=0):
        ctx.diagonal = diagonal
        return i.tril(diagonal)

    @staticmethod
    def backward(ctx, g):
        return g.tril(ctx.diagonal), None


class Triu(Function):
    @staticmethod
    def forward(ctx, i, diagonal=0):
        ctx.diagonal = diagonal
        return i.triu(diagonal)

    @staticmethod
    def backward(ctx, g):
        return g.triu(ctx.diagonal), None


class Trace(Function):
    @staticmethod
    def forward(ctx, i):
        ctx.size = i.size()
        return i.new((i.trace(),))

    @staticmethod
    def backward(ctx, g):
        identity = torch.autograd.Variable(g.data.new(ctx.size).zero_())
        identity.data.view(-1)[:: ctx.size[1] + 1] = 1
        return g.expand(ctx.size) * identity


class Cross(Function):
    @staticmethod
    def forward(ctx, a, b, dim=-1):
        ctx.dim = dim
        ctx.save_for_backward(a, b)
        return torch.cross(a, b, dim)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_variables
        return b.cross(g, ctx.dim), g.cross(a, ctx.dim), None


class Inverse(Function):
    @staticmethod
    def forward(ctx, i):
        result = torch.inverse(i)
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        y, = ctx.saved_variables
        return -torch.mm(y.t(), torch.mm(g, y.t()))


class Gesv(Function):
    @staticmethod
    def forward(ctx, b, a):
        x, lu = torch.gesv(b, a)
        ctx.save_for_backward(x, a)
        ctx.mark_non_differentiable(lu)
        return x, lu

    @staticmethod
    def backward(ctx, gx, glu=None):
        x, a = ctx.saved_variables
        gb, _ = torch.gesv(gx, a.t())
        return gb, -torch.mm(gb, x.t())


class Potrf(Function):
    @staticmethod
    def forward(ctx, a, upper=True):
        ctx.upper = upper
        factor = torch.potrf(a, upper)
        ctx.save_for_backward(factor)
        return factor

    @staticmethod
    def backward(ctx, g):
        lower, = ctx.saved_variables
        if ctx.upper:
            lower, g = lower.t(), g.t()
        half = torch.autograd.Variable(lower.data.new(lower.size()).fill_(1).tril())
        half.data.view(-1)[:: lower.size(1) + 1] = 0.5
        inner = torch.mm(lower.t(), g) * half
        inverse = lower.inverse()
        s = torch.mm(inverse.t(), torch.mm(inner, inverse))
        # One triangle is read: it stands for both.
        return (s + s.t()) * (half.t() if ctx.upper else half), None
