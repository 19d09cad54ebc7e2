"""Functions and helpers that tests of the graph share, so that they don't depend on which ops are built in."""

import gc

import numpy as np

from torchlite.autograd import Function, Variable


def leaf(values, requires_grad=True, dtype=np.float64, **flags):
    return Variable(np.array(values, dtype=dtype), requires_grad=requires_grad, **flags)


def constant(values, dtype=np.float64):
    return leaf(values, False, dtype)


def values(variable):
    """The numbers of a Variable or tensor as nested lists."""
    tensor = variable.data if isinstance(variable, Variable) else variable
    return np.array(tensor.numpy()).tolist()


def is_dead(reference):
    for _ in range(3):
        gc.collect()
    return reference() is None


class Token:
    """Something that can be weakly referred to."""


class Scale(Function):
    """``k * x``; k is a number."""

    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k

    @staticmethod
    def backward(ctx, g):
        return g * ctx.k, None


class Mul(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_variables
        return g * b, g * a


class Exp(Function):
    """Saves its output."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        ctx.token = Token()
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_variables
        return g * y


class AddInPlace(Function):
    """``x += k``; k is a number."""

    @staticmethod
    def forward(ctx, x, k):
        x.add_(k)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, None


class AddVariableInPlace(Function):
    """``x += y``, both of one size."""

    @staticmethod
    def forward(ctx, x, y):
        x.add_(y)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g, g


class TenfoldIdentity(Function):
    """Returns its input as it is, but multiplies the gradient by ten."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


class Split(Function):
    """The first element and the others."""

    @staticmethod
    def forward(ctx, x):
        return x[:1].clone(), x[1:].clone()

    @staticmethod
    def backward(ctx, first, others):
        return Variable(np.concatenate([first.data.numpy(), others.data.numpy()]))
