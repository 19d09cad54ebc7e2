"""Python Functions that the tests of `_FunctionBase` share."""

import numpy as np

from torchlite.autograd import Function, Variable


def variable(values, requires_grad=True, dtype=np.float64):
    return Variable(np.array(values, dtype=dtype), requires_grad=requires_grad)


def ones_like(v):
    return Variable(np.ones_like(v.data.numpy()), volatile=True)


def array(v):
    return v.data.numpy()


class Scale(Function):
    """k * x for a Python number k."""

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


class AddInPlace(Function):
    """a += k for a Python number k."""

    @staticmethod
    def forward(ctx, a, k):
        a += k
        ctx.mark_dirty(a)
        return a

    @staticmethod
    def backward(ctx, g):
        return g, None


class TenfoldIdentity(Function):
    """Returns its input; the gradient is ten times what it should be, so that a skipped backward shows."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 10


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_variables
        return g * y


class Split(Function):
    """The first and the second element of a vector of two."""

    @staticmethod
    def forward(ctx, x):
        return x[:1].clone(), x[1:].clone()

    @staticmethod
    def backward(ctx, ga, gb):
        return Variable(np.concatenate([array(ga), array(gb)]))


class OldMul(Function):
    """Old style: k * x."""

    def __init__(self, k):
        super().__init__()
        self.k = k

    def forward(self, x):
        self.save_for_backward(x)
        return x * self.k

    def backward(self, g):
        return g * self.k


def new_style(forward, backward=None, name="Custom"):
    """A new-style Function of two plain functions."""
    members = {"forward": staticmethod(forward)}
    if backward is not None:
        members["backward"] = staticmethod(backward)
    return type(name, (Function,), members)
