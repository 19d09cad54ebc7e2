"""Products of matrices and vectors."""

from __future__ import annotations

from typing import Any

from torchlite.cuda.rows.elementwise import scaled
from torchlite.cuda.rows.reduction import accumulator


def dot(xp: Any, a: Any, b: Any) -> Any:
    return xp.sum(xp.multiply(a, b), dtype=accumulator(a) if a.dtype == b.dtype else None)


def ger(xp: Any, a: Any, b: Any) -> Any:
    return xp.multiply(a[:, None], b)


def matmul(xp: Any, a: Any, b: Any) -> Any:
    return dot(xp, a, b) if a.ndim == b.ndim == 1 else xp.matmul(a, b)


def added(xp: Any, beta: Any, x: Any, alpha: Any, product: Any) -> Any:
    """beta x + alpha product; with beta 0 x is not read, so its NaNs do not spread."""
    product = scaled(alpha, product)
    return product if beta == 0 else scaled(beta, x) + product


def addmm(xp: Any, beta: Any, x: Any, alpha: Any, a: Any, b: Any) -> Any:
    return added(xp, beta, x, alpha, xp.matmul(a, b))


def addbmm(xp: Any, beta: Any, x: Any, alpha: Any, a: Any, b: Any) -> Any:
    return added(xp, beta, x, alpha, xp.sum(xp.matmul(a, b), axis=0))


def addr(xp: Any, beta: Any, x: Any, alpha: Any, a: Any, b: Any) -> Any:
    return added(xp, beta, x, alpha, ger(xp, a, b))


def linear(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    y = xp.matmul(x, weight.T)
    return y if bias is None else y + bias


FORWARD = {
    "mm": "matmul", "mv": "matmul", "bmm": "matmul", "dot": dot, "ger": ger, "matmul": matmul, "addmm": addmm,
    "addmv": addmm, "baddbmm": addmm, "addbmm": addbmm, "addr": addr, "linear": linear,
}
