"""Samples of the reducing rows. No reduction gives a 0-d result: where NumPy's would be 0-d, the size is (1,)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from samples import FLOATING, NUMERIC, Array, exactly, index, op, positive, real, sample


def at_least_1d(f: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's reduction with (dim, keepdim) for (axis, keepdims) and the size rule of reductions."""

    def reduced(x: Any, dim: Any = None, keepdim: bool = False, **options: Any) -> Any:
        axis = tuple(dim) if isinstance(dim, (tuple, list)) else dim
        if x.ndim == 0:
            axis = None
        return np.atleast_1d(f(x, axis=axis, keepdims=keepdim, **options))

    return reduced


def pair(values: Callable[..., Any], positions: Callable[..., Any], elementwise: Callable[..., Any]):
    def both(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        if isinstance(dim, np.ndarray):
            return elementwise(x, dim)
        if dim is None:
            return at_least_1d(values)(x)
        return at_least_1d(values)(x, dim, keepdim), at_least_1d(positions)(x, dim, keepdim)

    return both


def norm(x: Any, p: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
    size = np.abs(x)

    def over(y: Any, f: Callable[..., Any] = np.sum) -> Any:
        return at_least_1d(f)(y, dim, keepdim)

    if np.isinf(p):
        return over(size, np.max if p > 0 else np.min)
    if p == 0:
        return over((size != 0).astype(x.dtype))
    return (over(size**p) ** (1 / p)).astype(x.dtype)


def var(x: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False) -> Any:
    return at_least_1d(np.var)(x, dim, keepdim, ddof=int(unbiased))


def logsumexp(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    return np.log(at_least_1d(np.sum)(np.exp(x), dim, keepdim))


def along(f: Callable[..., Any], reverse: bool = False) -> Callable[..., Any]:
    def accumulated(x: Any, dim: int) -> Any:
        y = np.atleast_1d(x)
        y = np.flip(f(np.flip(y, dim), axis=dim), dim) if reverse else f(y, axis=dim)
        return y.reshape(x.shape)

    return accumulated


def prod_backward(g: Any, x: Any, dim: int) -> Any:
    return np.stack(
        [(g.squeeze(dim) * np.delete(x, k, dim).prod(dim)) for k in range(x.shape[dim])], axis=dim
    ).astype(x.dtype)


def put_along(x: Any, at: Any, dim: int, size: int) -> Any:
    shape = list(x.shape)
    shape[dim] = size
    y = np.zeros(shape, x.dtype)
    np.put_along_axis(y, at, x, dim)
    return y


def reductions(make: Callable[..., Array] = real) -> tuple[Any, ...]:
    return (
        sample(make(3, 4)),
        sample(make(3, 4), 0),
        sample(make(3, 4), -1),
        sample(make(3, 4), 1, keepdim=True),
        sample(make(2, 3, 4), 1),
        sample(make(5), 0),
        sample(make(5), 0, keepdim=True),
        sample(make(1, 5), 0),
        sample(make()),
        sample(make(), 0),
    )


def several_dims(make: Callable[..., Array] = real) -> tuple[Any, ...]:
    return sample(make(2, 3, 4), (0, 2)), sample(make(2, 3, 4), (0, 1)), sample(make(2, 3, 4), (-1, 1), keepdim=True)


EMPTY = sample(real(0, 3)), sample(real(0, 3), 0), sample(real(3, 0), 0)
WITH_ZEROS = exactly([[1.5, 0, 2, 3], [0, 2, 0, 1], [1, 2, 3, 0.5]])

SAMPLES = [
    op("sum", *reductions(), *several_dims(), *EMPTY, reference=at_least_1d(np.sum), dtypes=NUMERIC),
    op("mean", *reductions(), *several_dims(), reference=at_least_1d(np.mean), dtypes=NUMERIC),
    op(
        "var",
        sample(real(3, 4)),
        sample(real(3, 4), 0),
        sample(real(3, 4), -1, False),
        sample(real(2, 3, 4), 1, True, True),
        sample(real(2, 3, 4), (0, 2), keepdim=True),
        sample(real(5), 0),
        sample(real(4, 1), 0),
        reference=var,
    ),
    op(
        "std",
        sample(real(3, 4)),
        sample(real(3, 4), 0),
        sample(real(3, 4), -1, False),
        sample(real(2, 3, 4), 1, True, True),
        sample(real(5), 0),
        reference=lambda *a, **k: np.sqrt(var(*a, **k)),
    ),
    op(
        "norm",
        sample(real(3, 4)),
        sample(real(3, 4), 2, 0),
        sample(real(3, 4), 2, 1, True),
        sample(real(3, 4), 3),
        sample(real(3, 4), 1.5, 1),
        sample(real(3, 4), 1, 0),
        sample(real(2, 3, 4), 2, (0, 2)),
        sample(real(5), 2, 0),
        sample(real(3, 4), 4, -1),
        sample(real(), 2),
        reference=norm,
    ),
    op(
        "dist",
        sample(real(3, 4), real(3, 4)),
        sample(real(3, 4), real(4), 3),
        sample(real(3, 1, 3), real(3, 3)),  # as many elements, but broadcast
        sample(real(5), real(5), 1),
        reference=lambda a, b, p=2: norm(a - b, p),
    ),
    op("logsumexp", *reductions(), *several_dims(), reference=logsumexp),
    op(
        "cumsum",
        *(sample(real(*s), d) for s, d in [((3, 4), 0), ((3, 4), -1), ((5,), 0), ((2, 3, 2), 1), ((), 0), ((0, 2), 0)]),
        reference=along(np.cumsum),
        dtypes=NUMERIC,
    ),
    op("reverse_cumsum", sample(real(3, 4), 0), sample(real(3, 4), -1), sample(real(5), 0),
       reference=along(np.cumsum, reverse=True)),
    op("max", *reductions(), sample(real(3, 4), real(3, 4)), sample(real(3, 4), real(4)),
       reference=pair(np.max, np.argmax, np.maximum), dtypes=NUMERIC),
    op("min", *reductions(), sample(real(3, 4), real(3, 4)), sample(real(3, 4), real(4)),
       reference=pair(np.min, np.argmin, np.minimum), dtypes=NUMERIC),
    op("argmax", *reductions(), reference=at_least_1d(np.argmax), dtypes=NUMERIC, grad=False),
    op("argmin", *reductions(), reference=at_least_1d(np.argmin), dtypes=NUMERIC, grad=False),
    op("take_along", sample(real(3, 4), index(3, 1, high=4), 1), sample(real(3, 4), index(1, 4, high=3), 0),
       reference=np.take_along_axis),
    op("put_along", sample(real(3, 1), index(3, 1, high=4), 1, 4), sample(real(1, 4), index(1, 4, high=3), 0, 3),
       reference=put_along),
    op("all", *reductions(), sample(exactly([[1, 0], [1, 1]]), 1), reference=at_least_1d(np.all), grad=False,
       dtypes=(*FLOATING, "uint8")),
    op("any", *reductions(), sample(exactly([[0, 0], [0, 1]]), 1), reference=at_least_1d(np.any), grad=False,
       dtypes=(*FLOATING, "uint8")),
    op("prod", *reductions(), sample(WITH_ZEROS), sample(WITH_ZEROS, 0), sample(WITH_ZEROS, 1, True),
       sample(real(0, 3)), reference=at_least_1d(np.prod), dtypes=NUMERIC),
    op("prod_backward", sample(real(3, 1), real(3, 4), 1), sample(real(1, 4), WITH_ZEROS, 0),
       reference=prod_backward),
    op("cumprod", *(sample(positive(*s), d) for s, d in [((3, 4), 0), ((3, 4), -1), ((5,), 0), ((), 0)]),
       sample(WITH_ZEROS, 0), sample(WITH_ZEROS, 1), reference=along(np.cumprod)),
]
