"""Losses. A target out of range is not looked for, which would make the host wait: its loss is NaN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from torchlite.cuda import _kernels
from torchlite.cuda.rows.elementwise import wide


class Classes:
    """Targets of ``classes`` classes: which of them count, and what each weighs."""

    def __init__(self, xp: Any, target: Any, weight: Any, ignore: int, classes: int, kind: Any) -> None:
        self.counts = target != ignore
        valid = (target >= 0) & (target < classes)
        self.index = xp.where(self.counts & valid, target, 0).astype(np.int64)
        one = xp.ones(target.shape, kind) if weight is None else xp.take(weight.astype(kind), self.index)
        self.weights = xp.where(self.counts, xp.where(valid, one, np.nan), 0).astype(kind)
        self.total = xp.sum(self.weights, dtype=np.float64).reshape(1)


def _classes_last(xp: Any, x: Any) -> Any:
    return xp.moveaxis(x, 1, -1)


def _pick(xp: Any, rows: Any, index: Any) -> Any:
    return xp.take_along_axis(rows, index[..., None], -1)[..., 0]


def _reduced(xp: Any, terms: Any, total: Any, average: bool, kind: Any) -> Any:
    loss = xp.sum(terms, dtype=np.float64).reshape(1)
    return (loss / total if average else loss).astype(kind)


def nll_loss(xp: Any, x: Any, target: Any, weight: Any, average: bool, ignore: int) -> Any:
    x = wide(xp, x)
    c = Classes(xp, target, weight, ignore, x.shape[1], x.dtype)
    terms = xp.where(c.counts, -(c.weights * _pick(xp, _classes_last(xp, x), c.index)), 0)
    return _reduced(xp, terms, c.total, average, x.dtype), c.total


def _row_factors(xp: Any, c: Classes, g: Any, average: bool, kind: Any) -> Any:
    factor = g.reshape(()).astype(np.float64)
    if average:
        factor = factor / c.total.reshape(())
    return (c.weights * factor).astype(kind)


def _one_hot(xp: Any, index: Any, classes: int) -> Any:
    return index[..., None] == xp.arange(classes)


def nll_loss_backward(
    xp: Any, g: Any, target: Any, weight: Any, sizes: Sequence[int], average: bool, ignore: int
) -> Any:
    kind = np.float32 if g.dtype == np.float16 else g.dtype
    c = Classes(xp, target, weight, ignore, sizes[1], kind)
    factors = _row_factors(xp, c, g, average, kind)[..., None]
    return xp.moveaxis(xp.where(_one_hot(xp, c.index, sizes[1]), -factors, 0), -1, 1)


def cross_entropy(xp: Any, x: Any, target: Any, weight: Any, average: bool, ignore: int) -> Any:
    x = wide(xp, x)
    rows = _classes_last(xp, x)
    c = Classes(xp, target, weight, ignore, x.shape[1], x.dtype)
    if _kernels.compiles(xp):
        terms, log_sums = _kernels.cross_entropy(xp, rows, c.index)
    else:
        log_sums = _log_sums(xp, rows)
        terms = log_sums - _pick(xp, rows, c.index)
    terms = xp.where(c.counts, c.weights * terms, 0)
    return _reduced(xp, terms, c.total, average, x.dtype), log_sums.reshape(-1), c.total


def _log_sums(xp: Any, rows: Any) -> Any:
    top = xp.max(rows, axis=-1, keepdims=True)
    return (xp.log(xp.sum(xp.exp(rows - top), axis=-1, keepdims=True)) + top)[..., 0]


def cross_entropy_backward(
    xp: Any, g: Any, x: Any, target: Any, weight: Any, average: bool, ignore: int
) -> Any:
    x = wide(xp, x)
    c = Classes(xp, target, weight, ignore, x.shape[1], x.dtype)
    factors = _row_factors(xp, c, g, average, x.dtype)
    rows = _classes_last(xp, x)
    if _kernels.compiles(xp):
        made = _kernels.cross_entropy_backward(xp, rows, c.index, factors)
    else:
        probability = xp.exp(rows - _log_sums(xp, rows)[..., None])
        made = factors[..., None] * (probability - _one_hot(xp, c.index, x.shape[1]))
        made = xp.where(factors[..., None] == 0, 0, made)
    return xp.moveaxis(made, -1, 1)


def class_weights(xp: Any, x: Any, target: Any, weight: Any, average: bool, ignore: int) -> Any:
    kind = wide(xp, x).dtype
    c = Classes(xp, target, weight, ignore, x.shape[1], kind)
    weights = c.weights / c.total if average else c.weights
    return xp.expand_dims(weights, 1)


# ---- differences -----------------------------------------------------------------------------------------------------


def _pair_loss(term: Any) -> Any:
    def forward(xp: Any, x: Any, target: Any, average: bool) -> Any:
        d = xp.subtract(wide(xp, x), wide(xp, target))
        loss = xp.sum(term(xp, d), dtype=np.float64)
        return xp.true_divide(loss, float(d.size)) if average else loss

    return forward


def _smooth(xp: Any, d: Any) -> Any:
    a = xp.absolute(d)
    return xp.where(a < 1, 0.5 * a * a, a - 0.5)


# ---- binary cross entropy --------------------------------------------------------------------------------------------

BCE_EPS = 1e-12  # keeps logarithms finite


def _weighted_loss(term: Any) -> Any:
    def forward(xp: Any, x: Any, target: Any, weight: Any, average: bool) -> Any:
        # In double precision: 1 + eps is 1 in float.
        terms = term(xp, x.astype(np.float64), target.astype(np.float64))
        loss = xp.sum(terms if weight is None else terms * weight, dtype=np.float64)
        return xp.true_divide(loss, float(x.size)) if average else loss

    return forward


def _bce(xp: Any, x: Any, t: Any) -> Any:
    return -t * xp.log(x + BCE_EPS) - (1 - t) * xp.log(1 - x + BCE_EPS)


def _bce_with_logits(xp: Any, x: Any, t: Any) -> Any:
    return xp.maximum(x, 0) - x * t + xp.log1p(xp.exp(-xp.absolute(x)))


FORWARD = {
    "binary_cross_entropy": _weighted_loss(_bce),
    "binary_cross_entropy_with_logits": _weighted_loss(_bce_with_logits),
    "nll_loss": nll_loss, "nll_loss_backward": nll_loss_backward, "cross_entropy": cross_entropy,
    "cross_entropy_backward": cross_entropy_backward, "class_weights": class_weights,
    "mse_loss": _pair_loss(lambda xp, d: d * d), "l1_loss": _pair_loss(lambda xp, d: xp.absolute(d)),
    "smooth_l1_loss": _pair_loss(_smooth),
}
