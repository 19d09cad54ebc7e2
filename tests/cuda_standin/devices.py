"""Helpers: arrays as tensors and Variables on a device."""

from __future__ import annotations

from typing import Any

import numpy as np

import torchlite


def tensor(a: Any, device: int = 0) -> Any:
    return torchlite.from_numpy(np.array(a)).cuda(device)


def variable(a: Any, device: int = 0, requires_grad: bool = False) -> Any:
    return torchlite.Variable(tensor(a, device), requires_grad=requires_grad)


def leaf(a: Any, device: int = 0) -> Any:
    return variable(np.array(a, np.float64), device, True)


def values(x: Any) -> Any:
    """The elements, copied to the host."""
    return (x.data if isinstance(x, torchlite.Variable) else x).cpu().numpy()
