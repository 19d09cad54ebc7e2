"""Samples of the matrix product rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from samples import NUMERIC, op, real, sample


def matmul(a: Any, b: Any) -> Any:
    return np.atleast_1d(np.matmul(a, b))


def cross(a: Any, b: Any, dim: int = -1) -> Any:
    return np.cross(a, b, axis=a.shape.index(3) if dim == -1 else dim)


def added(product):
    """beta self + alpha product, with beta and alpha left out from the left."""

    def reference(*a: Any) -> Any:
        x, y = a[-2:]
        rest = list(a[:-2])
        beta = rest.pop(0) if len(rest) > 1 else 1
        self = rest.pop(0)
        alpha = rest.pop(0) if rest else 1
        return (beta * self + alpha * product(x, y)).astype(x.dtype)

    return reference


def add_samples(self, small, x, y):
    return (
        sample(self, x, y),
        sample(0.5, self, x, y),
        sample(0.5, self, -2, x, y),
        sample(2, small, 3, x, y),
    )


SAMPLES = [
    op(
        "mm",
        sample(real(3, 4), real(4, 2)),
        sample(real(1, 3), real(3, 1)),
        sample(real(20, 30), real(30, 10)),
        sample(real(3, 0), real(0, 2)),
        sample(real(0, 3), real(3, 2)),
        reference=np.matmul,
        dtypes=NUMERIC,
        rtol=1e-4,
    ),
    op("mv", sample(real(3, 4), real(4)), sample(real(30, 40), real(40)), reference=np.matmul, dtypes=NUMERIC,
       rtol=1e-4),
    op("dot", sample(real(5), real(5)), sample(real(0), real(0)), sample(real(1), real(1)), reference=matmul,
       dtypes=NUMERIC, rtol=1e-4),
    op("ger", sample(real(3), real(4)), sample(real(0), real(2)), reference=np.outer, dtypes=NUMERIC),
    op("bmm", sample(real(2, 3, 4), real(2, 4, 2)), sample(real(0, 3, 4), real(0, 4, 2)), reference=np.matmul,
       dtypes=NUMERIC, rtol=1e-4),
    op(
        "matmul",
        sample(real(5), real(5)),
        sample(real(4), real(4, 3)),
        sample(real(3, 4), real(4)),
        sample(real(3, 4), real(4, 2)),
        sample(real(2, 3, 4), real(4)),
        sample(real(4), real(2, 4, 3)),
        sample(real(2, 3, 4), real(4, 2)),
        sample(real(3, 4), real(2, 4, 2)),
        sample(real(2, 1, 3, 4), real(5, 4, 2)),
        reference=matmul,
        rtol=1e-4,
    ),
    op(
        "cross",
        sample(real(2, 3), real(2, 3)),
        sample(real(3, 2), real(3, 2)),
        sample(real(3, 2, 3), real(3, 2, 3)),
        sample(real(3, 2, 3), real(3, 2, 3), 2),
        sample(real(3, 3), real(3, 3), -2),
        sample(real(3), real(3), 0),
        sample(real(0, 3), real(0, 3)),
        reference=cross,
        dtypes=NUMERIC,
    ),
    op("addmm", *add_samples(real(3, 2), real(2), real(3, 4), real(4, 2)), reference=added(np.matmul), rtol=1e-4),
    op("addbmm", *add_samples(real(3, 2), real(2), real(2, 3, 4), real(2, 4, 2)),
       reference=added(lambda x, y: np.matmul(x, y).sum(0)), rtol=1e-4),
    op("baddbmm", *add_samples(real(2, 3, 2), real(3, 1), real(2, 3, 4), real(2, 4, 2)), reference=added(np.matmul),
       rtol=1e-4),
    op("addmv", *add_samples(real(3), real(1), real(3, 4), real(4)), reference=added(np.matmul), rtol=1e-4),
    op("addr", *add_samples(real(3, 4), real(4), real(3), real(4)), reference=added(np.outer), rtol=1e-4),
]
