"""Embedding, dropout and softmax."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlite.cuda import _kernels, _random
from torchlite.cuda.rows.elementwise import wide


def embedding(
    xp: Any, index: Any, weight: Any, padding: Any, max_norm: Any, p: float, scale: bool, sparse: bool
) -> Any:
    if sparse:
        raise RuntimeError("embedding: sparse gradients are not supported; use sparse=False")
    if max_norm is not None:
        _renormalise(xp, index, weight, max_norm, p)
    return xp.take(weight, index, axis=0)


def _renormalise(xp: Any, index: Any, weight: Any, max_norm: float, p: float) -> None:
    used = xp.zeros(len(weight), bool)
    used[index.reshape(-1)] = True
    size = xp.absolute(weight)
    norm = xp.max(size, axis=1) if math.isinf(p) else xp.sum(size**p, axis=1) ** (1 / p)
    factor = xp.where(used & (norm > max_norm), max_norm / (norm + 1e-7), 1)
    weight *= factor.astype(weight.dtype)[:, None]


def _occurrences(xp: Any, index: Any, rows: int) -> Any:
    counts = xp.zeros(rows, np.int32)
    xp.add.at(counts, index, xp.ones(index.shape, np.int32))
    return counts


def _row_weights(xp: Any, index: Any, rows: int, padding: Any, scale: bool, kind: Any) -> Any:
    """What each row of the gradient counts: nothing for the padding, with ``scale`` a share of its occurrences."""
    weights = None
    if scale:
        weights = xp.true_divide(1, xp.take(_occurrences(xp, index, rows), index)).astype(kind)
    if padding is not None:
        kept = (index != padding % rows).astype(kind)
        weights = kept if weights is None else weights * kept
    return weights


def embedding_backward(xp: Any, g: Any, index: Any, rows: int, padding: Any, scale: bool) -> Any:
    kind = np.float32 if g.dtype == np.float16 else g.dtype
    index = index.reshape(-1).astype(np.int64)
    g = g.reshape(len(index), -1).astype(kind)
    out = xp.zeros((rows, g.shape[1]), kind)
    weights = _row_weights(xp, index, rows, padding, scale, kind)
    if weights is not None:
        g = g * weights[:, None]
    if _kernels.compiles(xp):
        _kernels.add_rows(xp, out, index, g)
    else:
        xp.add.at(out, index, g)
    return out


def embedding_gather(xp: Any, rows: Any, index: Any, padding: Any, scale: bool) -> Any:
    flat = index.reshape(-1).astype(np.int64)
    out = xp.take(rows, flat, axis=0)
    weights = _row_weights(xp, flat, len(rows), padding, scale, rows.dtype)
    return out if weights is None else out * weights[:, None]


# ---- dropout ---------------------------------------------------------------------------------------------------------


def _require_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")


def dropout(xp: Any, x: Any, p: float, training: bool) -> Any:
    _require_probability(p)
    if p == 0 or not training:
        return x.copy(), xp.empty(0, x.dtype)
    mask = _random.dropout_mask(xp, x.shape, x.dtype, p)
    return x * mask, mask


def dropout_mask(xp: Any, x: Any, p: float) -> Any:
    _require_probability(p)
    return xp.ones_like(x) if p == 0 else _random.dropout_mask(xp, x.shape, x.dtype, p)


# ---- softmax ---------------------------------------------------------------------------------------------------------


def class_dim(x: Any, dim: Any) -> int:
    return dim if dim is not None else 0 if x.ndim in (1, 3) else 1


def softmax_of(xp: Any, x: Any, dim: int) -> Any:
    e = xp.exp(x - xp.max(x, axis=dim, keepdims=True))
    return e / xp.sum(e, axis=dim, keepdims=True)


def log_softmax_of(xp: Any, x: Any, dim: int) -> Any:
    x = x - xp.max(x, axis=dim, keepdims=True)
    return x - xp.log(xp.sum(xp.exp(x), axis=dim, keepdims=True))


def _softmax(log: bool) -> Any:
    def forward(xp: Any, x: Any, dim: Any) -> Any:
        x = wide(xp, x)
        if x.ndim == 0:
            return x * 0 if log else xp.ones_like(x)
        if not x.size:
            return x
        dim = class_dim(x, dim)
        if _kernels.compiles(xp):
            return _kernels.softmax(xp, x, dim, log)
        return log_softmax_of(xp, x, dim) if log else softmax_of(xp, x, dim)

    return forward


def _softmax_backward(log: bool) -> Any:
    def backward(xp: Any, grads: Any, args: Any, results: Any, needs: Any) -> Any:
        (g,), (_, dim), (y,) = grads, args, results
        if g.ndim == 0:
            return xp.zeros_like(g), None
        dim = class_dim(g, dim)
        g, y = wide(xp, g), wide(xp, y)
        if _kernels.compiles(xp) and g.size:
            return _kernels.softmax_backward(xp, g, y, dim, log), None
        if log:
            return g - xp.exp(y) * xp.sum(g, axis=dim, keepdims=True), None
        return y * (g - xp.sum(g * y, axis=dim, keepdims=True)), None

    return backward


FORWARD = {
    "embedding": embedding, "embedding_backward": embedding_backward, "embedding_gather": embedding_gather,
    "dropout": dropout, "dropout_mask": dropout_mask, "softmax": _softmax(False), "log_softmax": _softmax(True),
}
BACKWARD = {"softmax": _softmax_backward(False), "log_softmax": _softmax_backward(True)}
