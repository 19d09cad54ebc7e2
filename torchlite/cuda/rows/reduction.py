"""Reductions and running sums and products."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlite.cuda.rows.elementwise import wide


def axes(x: Any, dim: Any) -> tuple[int, ...]:
    """The dimensions that ``dim`` (None: all of them) names."""
    if x.ndim == 0:
        return ()
    if dim is None:
        return tuple(range(x.ndim))
    dims = (dim,) if not isinstance(dim, (tuple, list)) else dim
    return tuple(d % x.ndim for d in dims)


def accumulator(x: Any) -> Any:
    return np.float32 if x.dtype == np.float16 else x.dtype if x.dtype.kind == "f" else np.int64


def count(x: Any, axis: tuple[int, ...]) -> int:
    return math.prod(x.shape[a] for a in axis)


def sum_(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    return xp.sum(x, axis=axes(x, dim), dtype=accumulator(x), keepdims=keepdim)


def mean(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    x = wide(xp, x)
    axis = axes(x, dim)
    return xp.true_divide(xp.sum(x, axis=axis, keepdims=keepdim), float(count(x, axis)))


def variance(xp: Any, x: Any, dim: Any, unbiased: bool, keepdim: bool) -> Any:
    if isinstance(dim, bool):  # var(unbiased) is the era's full form
        dim, unbiased = None, dim
    x = wide(xp, x)
    axis = axes(x, dim)
    n = count(x, axis)
    d = x - xp.true_divide(xp.sum(x, axis=axis, keepdims=True), float(n))
    return xp.true_divide(xp.sum(d * d, axis=axis, keepdims=keepdim), float(max(n - unbiased, 0)))


def std(xp: Any, *args: Any) -> Any:
    return xp.sqrt(variance(xp, *args))


def norm(xp: Any, x: Any, p: float, dim: Any, keepdim: bool) -> Any:
    x = wide(xp, x)
    axis = axes(x, dim)
    size = xp.absolute(x)
    if math.isinf(p):
        if count(x, axis) == 0:
            empty = 0.0 if p > 0 else math.inf
            return xp.sum(size, axis=axis, keepdims=keepdim) + empty
        return (xp.max if p > 0 else xp.min)(size, axis=axis, keepdims=keepdim)
    if p == 0:
        return xp.sum((x != 0).astype(x.dtype), axis=axis, keepdims=keepdim)
    if p == 1:
        return xp.sum(size, axis=axis, keepdims=keepdim)
    if p == 2:
        return xp.sqrt(xp.sum(x * x, axis=axis, keepdims=keepdim))
    return xp.sum(size**p, axis=axis, keepdims=keepdim) ** (1 / p)


def dist(xp: Any, a: Any, b: Any, p: float) -> Any:
    return norm(xp, xp.subtract(a, b), p, None, False)


def logsumexp(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    x = wide(xp, x)
    axis = axes(x, dim)
    if count(x, axis) == 0:
        return xp.sum(x, axis=axis, keepdims=keepdim) - math.inf
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0)
    out = xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=True)) + top
    return out if keepdim else xp.squeeze(out, axis)


def running(name: str, backwards: bool = False) -> Any:
    def forward(xp: Any, x: Any, dim: int) -> Any:
        if x.ndim == 0:
            return x
        if backwards:
            x = xp.flip(x, dim)
        out = getattr(xp, name)(x, axis=dim, dtype=accumulator(x))
        return xp.flip(out, dim) if backwards else out

    return forward


# ---- extremes --------------------------------------------------------------------------------------------------------


def refuse_empty(name: str, x: Any, axis: tuple[int, ...]) -> None:
    if x.size == 0 and count(x, axis) == 0:
        raise RuntimeError(f"{name}: cannot reduce a tensor of size {x.shape} over dimensions without elements")


def extremum(name: str) -> Any:
    def forward(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
        if hasattr(dim, "dtype"):
            return (xp.maximum if name == "max" else xp.minimum)(x, dim)
        refuse_empty(name, x, axes(x, dim))
        if dim is None:
            return getattr(xp, name)(x)
        if x.ndim == 0:
            return x, xp.zeros((), np.int64)
        at = xp.expand_dims(getattr(xp, "arg" + name)(x, axis=dim), dim)
        return xp.take_along_axis(x, at, dim), at

    return forward


def arg_extremum(name: str) -> Any:
    def forward(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
        refuse_empty(name, x, axes(x, dim))
        return getattr(xp, name)(x.reshape(-1) if x.ndim == 0 else x, axis=None if x.ndim == 0 else dim)

    return forward


def take_along(xp: Any, x: Any, index: Any, dim: int) -> Any:
    return xp.take_along_axis(x, index, dim)


def put_along(xp: Any, x: Any, index: Any, dim: int, size: int) -> Any:
    shape = list(x.shape)
    shape[dim] = size
    positions = [1] * x.ndim
    positions[dim] = size
    at = xp.arange(size).reshape(positions)
    return xp.where(at == index, xp.broadcast_to(x, shape), 0)


def truth(name: str) -> Any:
    return lambda xp, x, dim, keepdim: getattr(xp, name)(x != 0, axis=axes(x, dim), keepdims=keepdim)


def prod(xp: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    return xp.prod(x, axis=axes(x, dim), dtype=accumulator(x), keepdims=keepdim)


def prod_backward(xp: Any, g: Any, x: Any, dim: int) -> Any:
    """g times the product of the others: of those before and of those behind, so that zeros need no division."""
    kind = accumulator(x)
    first = [slice(None)] * x.ndim
    first[dim] = slice(0, 1)
    ones = xp.ones_like(x[tuple(first)], dtype=kind)

    def before(y: Any) -> Any:
        rest = [slice(None)] * y.ndim
        rest[dim] = slice(0, y.shape[dim])
        shifted = xp.concatenate([ones, y.astype(kind)], axis=dim)[tuple(rest)]
        return xp.cumprod(shifted, axis=dim)

    if x.shape[dim] == 0:
        return x
    return g * before(x) * xp.flip(before(xp.flip(x, dim)), dim)


FORWARD = {
    "sum": sum_, "mean": mean, "var": variance, "std": std, "norm": norm, "dist": dist, "logsumexp": logsumexp,
    "cumsum": running("cumsum"), "reverse_cumsum": running("cumsum", backwards=True), "cumprod": running("cumprod"),
    "max": extremum("max"), "min": extremum("min"), "argmax": arg_extremum("argmax"), "argmin": arg_extremum("argmin"),
    "take_along": take_along, "put_along": put_along, "all": truth("all"), "any": truth("any"), "prod": prod,
    "prod_backward": prod_backward,
}
