"""Samples of the rows on matrices. Factors that are defined up to signs are compared in test_linalg.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from samples import Array, op, real, sample


def regular(n: int) -> Array:
    """Matrices far from singular."""
    return Array(lambda rng: rng.uniform(-1, 1, (n, n)) + 2 * np.eye(n) * rng.choice([-1, 1], n))


def definite(n: int) -> Array:
    """Symmetric positive definite matrices."""

    def build(rng: np.random.Generator) -> np.ndarray:
        a = rng.uniform(-1, 1, (n, n))
        return a @ a.T + np.eye(n)

    return Array(build)


def triangle(a: Any, upper: bool) -> Any:
    return np.triu(a) if upper else np.tril(a)


def whole(a: Any, upper: bool) -> Any:
    """The symmetric matrix with that triangle of `a`."""
    t = triangle(a, upper)
    return t + t.T - np.diag(np.diag(t))


def lu(a: Any) -> Any:
    a = a.copy()
    for j in range(len(a)):
        p = j + np.argmax(abs(a[j:, j]))
        a[[j, p]] = a[[p, j]]
        for i in range(j + 1, len(a)):
            a[i, j] /= a[j, j]
            a[i, j + 1 :] -= a[i, j] * a[j, j + 1 :]
    return a


def potrf(a: Any, upper: bool = True) -> Any:
    a = whole(a, upper)
    low = np.zeros_like(a)
    for i in range(len(a)):
        for j in range(i + 1):
            rest = a[i, j] - low[i, :j] @ low[j, :j]
            low[i, j] = np.sqrt(rest) if i == j else rest / low[j, j]
    return low.T if upper else low


def trtrs(b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    t = triangle(a, upper)
    if unitriangular:
        t = t - np.diag(np.diag(t)) + np.eye(len(t), dtype=a.dtype)
    return np.linalg.inv(t.T if transpose else t) @ b, a


def potrs(b: Any, u: Any, upper: bool = True) -> Any:
    t = triangle(u, upper)
    return np.linalg.inv(t.T @ t if upper else t @ t.T) @ b


def renorm(a: Any, p: float, dim: int, maxnorm: float) -> Any:
    a = a.copy()
    slices = np.moveaxis(a, dim, 0)
    for s in slices:
        norm = abs(s).max() if p == np.inf else (abs(s) ** p).sum() ** (1 / p)
        if norm > maxnorm:
            s *= maxnorm / (norm + 1e-7)  # the era's margin
    return a


SAMPLES = [
    op("inverse", sample(regular(3)), sample(regular(1)), sample(regular(6)), reference=np.linalg.inv, rtol=1e-4,
       equal_rows=False),
    op("gesv", sample(real(3, 2), regular(3)), sample(real(3), regular(3)), sample(real(4, 1), regular(4)),
       sample(real(5, 2), regular(5)), reference=lambda b, a: (np.linalg.inv(a) @ b, lu(a)), rtol=1e-4,
       equal_rows=False, constants=(1,)),
    op("trtrs", *(sample(real(3, 2), regular(3), *flags) for flags in
                  [(), (False,), (True, True), (False, True), (True, False, True), (False, True, True)]),
       sample(real(4), regular(4), upper=False), reference=trtrs, rtol=1e-4, constants=(1,)),
    op("potrf", sample(definite(3)), sample(definite(4), False), sample(definite(1)), sample(definite(2), upper=True),
       reference=potrf, rtol=1e-4, equal_rows=False),
    op("potrs", sample(real(3, 2), regular(3)), sample(real(3, 2), regular(3), False), sample(real(3), regular(3)),
       reference=potrs, rtol=1e-3),
    op("renorm", *(sample(real(3, 4), p, 0, 2.0) for p in (1, 2, 3, 1.5)), sample(real(3, 4), 2, 1, 1),
       sample(real(3, 4), float("inf"), 0, 1.5), sample(real(2, 3, 2), 2, -1, 0.5), sample(real(3, 4), 2, 0, 100),
       reference=renorm),
]
