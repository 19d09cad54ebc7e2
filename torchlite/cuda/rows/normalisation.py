"""Batch normalisation. Statistics and parameters have an element for each channel of x (N, C, ...)."""

from __future__ import annotations

from typing import Any

from torchlite import _C
from torchlite.cuda.rows.elementwise import wide


def _axes(x: Any) -> tuple[int, ...]:
    return (0, *range(2, x.ndim))


def _channel(x: Any, v: Any) -> Any:
    """A vector over the channels in a shape that broadcasts against ``x``."""
    return v.reshape(1, -1, *(1,) * (x.ndim - 2))


def _moments(xp: Any, x: Any) -> tuple[Any, Any]:
    n = float(x.size // x.shape[1])
    mean = xp.sum(x, axis=_axes(x)) / n
    d = x - _channel(x, mean)
    return mean, xp.sum(d * d, axis=_axes(x)) / n


def _mix(running: Any, batch: Any, momentum: float) -> None:
    """The running statistic, in place, in its own type and layout."""
    running[...] = (running * (1 - momentum) + (batch * momentum).reshape(running.shape)).astype(running.dtype)


def batch_norm(
    xp: Any, x: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float,
    eps: float,
) -> Any:
    x = wide(xp, x)
    if training:
        mean, var = _moments(xp, x)
    else:
        mean, var = (running.reshape(-1).astype(x.dtype) for running in (running_mean, running_var))
    factor = 1 / xp.sqrt(var + eps)
    if weight is not None:
        factor = factor * weight.reshape(-1).astype(x.dtype)
    y = (x - _channel(x, mean)) * _channel(x, factor)
    if bias is not None:
        y = y + _channel(x, bias.astype(x.dtype))
    if training and running_mean is not None and not _C._discards_effects():
        n = x.size // x.shape[1]
        _mix(running_mean, mean, momentum)
        _mix(running_var, var * (n / (n - 1)), momentum)
    return y, mean, var


def _gradients(xp: Any, g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float) -> Any:
    g, x = wide(xp, g), wide(xp, x)
    inverse = 1 / xp.sqrt(var.reshape(-1).astype(x.dtype) + eps)
    z = (x - _channel(x, mean.astype(x.dtype))) * _channel(x, inverse)
    total, product = xp.sum(g, axis=_axes(x)), xp.sum(g * z, axis=_axes(x))
    factor = inverse if weight is None else inverse * weight.reshape(-1).astype(x.dtype)
    if training:
        n = float(x.size // x.shape[1])
        g = g - _channel(x, total / n) - z * _channel(x, product / n)
    return g * _channel(x, factor), product, total


def batch_norm_gradient(
    xp: Any, g: Any, x: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float
) -> Any:
    if training:
        mean, var = _moments(xp, wide(xp, x))
    return _gradients(xp, g, x, weight, mean, var, training, eps)


def batch_norm_backward(xp: Any, grads: Any, args: Any, results: Any, needs: Any) -> Any:
    g, (x, weight, _, _, _, training, _, eps) = grads[0], args
    none = (None,) * 5
    if not needs[0] and not needs[1]:
        return None, None, xp.sum(g, axis=_axes(g)), *none
    dx, dweight, dbias = _gradients(xp, g, x, weight, results[1], results[2], training, eps)
    return dx, dweight if needs[1] else None, dbias if needs[2] else None, *none


FORWARD = {"batch_norm": batch_norm, "batch_norm_backward": batch_norm_gradient}
BACKWARD = {"batch_norm": batch_norm_backward}
