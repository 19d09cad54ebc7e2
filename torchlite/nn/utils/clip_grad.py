"""Gradient clipping."""

import math

from torchlite import _C, cat
from torchlite.autograd import Variable, no_grad

__all__ = ["clip_grad_norm"]


def clip_grad_norm(parameters, max_norm, norm_type=2):
    """Scales the gradients of `parameters` in place so that their norm together is at most `max_norm`.

    `parameters`: an iterable of Variables or one Variable; those without a gradient don't count. `norm_type`: the p of
    the norm, which may be infinity. Returns the norm before: a float, or, of gradients on CUDA devices, a Double tensor
    of one element on the first one's device, so that the host need not wait for them (`float()` of it does). TypeError
    if `max_norm` or `norm_type` is no number. Source: https://arxiv.org/abs/1211.5063
    """
    if isinstance(parameters, Variable):
        parameters = [parameters]
    for name, value in (("max_norm", max_norm), ("norm_type", norm_type)):
        if isinstance(value, str) or not hasattr(value, "__float__"):
            raise TypeError(f"clip_grad_norm: {name} has to be a number, but is {value!r}")
    max_norm, norm_type = float(max_norm), float(norm_type)
    grads = [p.grad.data for p in parameters if p.grad is not None]
    if any(grad.is_cuda for grad in grads):
        return _clip_on_devices(grads, max_norm, norm_type)
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


def _clip_on_devices(grads, max_norm, norm_type):
    """The same where the gradients are: only norms move, and only between devices."""
    first = next(grad.get_device() for grad in grads if grad.is_cuda)
    with no_grad():
        if norm_type == math.inf:
            norms = [Variable(grad).abs().max() for grad in grads]
        else:
            norms = [Variable(grad).norm(norm_type) for grad in grads]
        norms = cat([norm.double().cuda(first).view(1) for norm in norms])
        total = norms.max() if norm_type == math.inf else (norms**norm_type).sum() ** (1 / norm_type)
        factor = (max_norm / (total + 1e-6)).data
    # As on the host a norm that is no number leaves the gradients alone.
    factor.masked_fill_(factor.lt(1).eq(0), 1)
    for grad in grads:
        there = factor.cuda(grad.get_device()) if grad.is_cuda else factor.cpu()
        grad.mul_(there.type(grad.type()).expand_as(grad))
    return total.data
