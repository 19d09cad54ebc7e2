"""The optimisers' updates on devices: a fused kernel where one applies, else the formulas of optim.steps.

The extension has checked types and sizes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from torchlite.cuda import _kernels, _library


def _arrays(tensors: Sequence[Any]) -> tuple[Any, list[Any]] | None:
    """The array module and the tensors' arrays, if a kernel takes them."""
    xp = _library.connect()
    fits = all(t.is_contiguous() and t.dtype.name in _kernels.REALS for t in tensors)
    return (xp, [t.cupy() for t in tensors]) if fits and _kernels.compiles(xp) else None


def sgd_step(
    p: Any, grad: Any, buf: Any, lr: float, momentum: float, dampening: float, weight_decay: float, nesterov: bool
) -> None:
    """As ``torchlite.optim.steps.sgd_step``."""
    found = _arrays([p, grad] if buf is None else [p, grad, buf])
    if found is None:
        from torchlite.optim import steps

        steps.sgd_step(p, grad, buf, lr, momentum, dampening, weight_decay, nesterov)
        return
    xp, arrays = found
    with xp.cuda.Device(p.get_device()):
        _kernels.sgd_step(
            xp, arrays[0], arrays[1], arrays[-1], lr, weight_decay, momentum, dampening, nesterov, buf is not None)


def adam_step(
    p: Any, grad: Any, exp_avg: Any, exp_avg_sq: Any, step: int, lr: float, beta1: float, beta2: float, eps: float,
    weight_decay: float,
) -> None:
    """As ``torchlite.optim.steps.adam_step``."""
    found = _arrays([p, grad, exp_avg, exp_avg_sq])
    if found is None:
        from torchlite.optim import steps

        steps.adam_step(p, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay)
        return
    xp, arrays = found
    size = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    with xp.cuda.Device(p.get_device()):
        _kernels.adam_step(xp, arrays[0], arrays[1], arrays[2], arrays[3], size, beta1, beta2, eps, weight_decay)


def sum_squares(tensors: Sequence[Any]) -> float:
    """The sum of the squares of all elements: one number from each device, for which the host waits."""
    xp = _library.connect()
    parts: dict[int, Any] = {}
    for t in tensors:
        with xp.cuda.Device(t.get_device()):
            x = t.cupy().astype("float64")
            part = xp.sum(x * x)
            former = parts.get(t.get_device())
            parts[t.get_device()] = part if former is None else former + part
    total = 0.0
    for device, part in parts.items():
        with xp.cuda.Device(device):
            total += part.item()
    return total


def scale_(tensors: Sequence[Any], factor: float) -> None:
    """Multiplies each tensor in place."""
    for t in tensors:
        t.mul_(factor)
