"""Samples of the rows on matrices. Factors that are defined up to signs are compared in test_linalg.py."""

from __future__ import annotations

from typing import Any

import numpy as np
from samples import Array, exactly, op, positive, real, sample


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


def svd(a: Any, some: bool = True) -> Any:
    u, s, vt = np.linalg.svd(a, full_matrices=not some)
    return u, s, vt.T


def symeig(a: Any, eigenvectors: bool = False, upper: bool = True) -> Any:
    values, vectors = np.linalg.eigh(a, UPLO="U" if upper else "L")
    return values, vectors if eigenvectors else np.empty(0, a.dtype)


def eig(a: Any, eigenvectors: bool = False) -> Any:
    values, vectors = np.linalg.eig(a)
    columns: list[Any] = []
    for value, vector in zip(values, vectors.T, strict=True):
        if value.imag >= 0:
            columns += [vector.real, vector.imag] if value.imag else [vector.real]
    return (np.array([[v.real, v.imag] for v in values], a.dtype),
            np.array(columns, a.dtype).T if eigenvectors else np.empty(0, a.dtype))


def geqrf(a: Any) -> Any:
    """Householder's reflectors with LAPACK's choice of signs."""
    a, taus = a.copy(), []
    for k in range(min(a.shape)):
        x = a[k:, k]
        alpha, norm = x[0], np.sqrt((x * x).sum())
        if not x[1:].any():
            taus.append(0)
            continue
        beta = -np.copysign(norm, alpha)
        v, tau = x / (alpha - beta), (beta - alpha) / beta
        v[0] = 1
        a[k:, k:] -= tau * np.outer(v, v @ a[k:, k:])
        a[k + 1 :, k] = v[1:]
        taus.append(tau)
    return a, np.array(taus, a.dtype)


def reflector_product(a: Any, tau: Any) -> Any:
    """The whole Q that is packed in `a` below its diagonal."""
    q = np.eye(len(a), dtype=a.dtype)
    for k, t in enumerate(tau):
        v = np.concatenate([np.zeros(k, a.dtype), [1], a[k + 1 :, k]]).astype(a.dtype)
        q = q @ (np.eye(len(a), dtype=a.dtype) - t * np.outer(v, v))
    return q


def ormqr(a: Any, tau: Any, c: Any, left: bool = True, transpose: bool = False) -> Any:
    q = reflector_product(a, tau)
    q = q.T if transpose else q
    return q @ c if left else c @ q


def gels(b: Any, a: Any) -> Any:
    m, n = a.shape
    packed, tau = geqrf(a if m >= n else a.T)
    q = reflector_product(packed, tau)
    solution = np.linalg.lstsq(a, b, rcond=None)[0]
    x = np.concatenate([solution, (q.T @ b)[n:]]) if m > n else solution
    return x, packed if m >= n else packed.T


def pstrf(a: Any, upper: bool = True, tol: float = -1) -> Any:
    a = whole(a, upper)
    order, rest = [], a.astype(np.float64)
    for _ in range(len(a)):
        p = max((i for i in range(len(a)) if i not in order), key=lambda i: rest[i, i])
        order.append(p)
        rest = rest - np.outer(rest[:, p], rest[p]) / rest[p, p]
    return potrf(a[order][:, order], upper), np.array(order, np.int32)


def btrifact(a: Any) -> Any:
    pivots = np.empty(a.shape[:2], np.int32)
    for m, row in zip(a.copy(), pivots, strict=True):
        for j in range(len(m)):
            p = j + int(np.argmax(abs(m[j:, j])))
            m[[j, p]] = m[[p, j]]
            m[j + 1 :] -= np.outer(m[j + 1 :, j] / m[j, j], m[j])
            row[j] = p + 1
    return np.array([lu(m) for m in a]), pivots


def btrisolve(b: Any, factors: Any, pivots: Any) -> Any:
    out = []
    for rhs, f, row in zip(b, factors, pivots, strict=True):
        rhs = rhs.copy()
        for j, p in enumerate(row):
            rhs[[j, p - 1]] = rhs[[p - 1, j]]
        lower = np.tril(f, -1) + np.eye(len(f), dtype=f.dtype)
        out.append(np.linalg.inv(np.triu(f)) @ (np.linalg.inv(lower) @ rhs))
    return np.array(out)


def batch(n: int, count: int) -> Array:
    return Array(lambda rng: np.array([regular(n).build(rng) for _ in range(count)]))


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
    op("qr", sample(real(4, 3)), sample(real(3, 3)), sample(real(1, 1)), sample(real(5, 2)),
       reference=lambda a: tuple(np.linalg.qr(a)), rtol=1e-4, equal_rows=False),
    op("svd", sample(real(3, 3)), sample(real(4, 2)), sample(real(2, 4)), sample(real(1, 3)), reference=svd, rtol=1e-4),
    op("symeig", sample(definite(3)), sample(definite(3), True), sample(definite(4), True, False),
       sample(regular(3), eigenvectors=True), sample(definite(3), upper=False), reference=symeig, rtol=1e-4,
       equal_rows=False),
    op("eig", sample(regular(3)), sample(definite(3), True), sample(exactly([[0, 1, 0], [-1, 0, 0], [0, 0, 2]]), True),
       reference=eig, rtol=1e-4, equal_rows=False),
    op("geqrf", sample(real(4, 3)), sample(real(3, 4)), sample(real(3, 3)), sample(real(1, 1)), reference=geqrf,
       rtol=1e-4, equal_rows=False),
    op("orgqr", sample(real(4, 3), positive(3)), sample(real(4, 3), positive(2)), sample(real(2, 2), positive(2)),
       reference=lambda a, tau: reflector_product(a, tau)[:, : a.shape[1]], rtol=1e-4),
    op("ormqr", sample(real(4, 3), positive(3), real(4, 2)), sample(real(4, 3), positive(2), real(4, 2), True, True),
       sample(real(4, 3), positive(3), real(2, 4), False), sample(real(4, 2), positive(2), real(1, 4), False, True),
       sample(real(2, 4), positive(2), real(2, 3)), reference=ormqr, rtol=1e-3),
    op("gels", sample(real(5, 2), real(5, 3)), sample(real(3, 2), regular(3)), sample(real(2, 3), real(2, 4)),
       reference=gels, rtol=1e-3, equal_rows=False),
    op("potri", sample(regular(3)), sample(regular(3), False),
       reference=lambda u, upper=True: potrs(np.eye(len(u), dtype=u.dtype), u, upper), rtol=1e-3),
    op("pstrf", sample(definite(4)), sample(definite(4), False), sample(definite(1)), sample(definite(3), tol=0.0),
       reference=pstrf, rtol=1e-4, equal_rows=False),
    op("btrifact", sample(batch(3, 2)), sample(batch(4, 1)), sample(batch(1, 3)), reference=btrifact, rtol=1e-4,
       equal_rows=False),
    op("btrisolve", sample(real(2, 3), batch(3, 2), exactly([[2, 3, 3], [1, 2, 3]], "int32")),
       sample(real(2, 3, 2), batch(3, 2), exactly([[3, 3, 3], [2, 2, 3]], "int32")), reference=btrisolve, rtol=1e-3,
       equal_rows=False),
]
