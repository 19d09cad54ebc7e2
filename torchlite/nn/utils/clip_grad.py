"""Gradient clipping."""

import math

from torchlite import _C
from torchlite.autograd import Variable

__all__ = ["clip_grad_norm"]


def clip_grad_norm(parameters, max_norm, norm_type=2):
    """Scales the gradients of `parameters` in place so that their norm together is at most `max_norm`.

    `parameters`: an iterable of Variables or one Variable; those without a gradient don't count. `norm_type`: the p of
    the norm, which may be infinity. Returns the norm before, a float. TypeError if either is no number. Source: https://arxiv.org/abs/1211.5063
    """
    if isinstance(parameters, Variable):
        parameters = [parameters]
    for name, value in (("max_norm", max_norm), ("norm_type", norm_type)):
        if isinstance(value, str) or not hasattr(value, "__float__"):
            raise TypeError(f"clip_grad_norm: {name} has to be a number, but is {value!r}")
    max_norm, norm_type = float(max_norm), float(norm_type)
    grads = [p.grad.data for p in parameters if p.grad is not None]
    if norm_type == 2:
        total = math.sqrt(_C._sum_squares(grads))
    elif norm_type == math.inf:
        total = max((float(grad.abs().max()) for grad in grads), default=0.0)
    else:
        total = sum(float(grad.norm(norm_type)) ** norm_type for grad in grads) ** (1 / norm_type)
    factor = max_norm / (total + 1e-6)
    if factor < 1:
        _C._scale_(grads, factor)
    return total
