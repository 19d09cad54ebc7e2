"""What the operations on matrices share: how they are declared, and algorithms that NumPy has no function for.

Matrices of LAPACK's layout (triangles and reflectors packed into one) are what LAPACK's routine of the same name gives,
up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy

from .. import _C
from .._arrays import array, module_of
from . import TensorType, define_op

Sizes = tuple[int, ...]

FLOATING = ("Half", "Float", "Double")
SMALL = 16 * 16  # elements up to which the call of a library costs more than the work


def define_matrix_op(
    signature: str,
    doc: str,
    *,
    sizes: Callable[..., Any],
    compute: Callable[..., Any],
    dtypes: Sequence[str | None] = (),
    integers: Sequence[int] = (),
    **row: Any,
) -> None:
    """A row whose tensors are floating-point matrices of one type, which the results have too.

    ``sizes(*args)`` gets the sizes of the tensors in their place and returns those of the result, or a list of them. It
    raises for what does not fit. ``compute(*args)`` gets arrays of single or double precision (Half is computed in
    single precision, integers in double) and returns arrays. ``dtypes`` names the types of results that differ,
    ``integers`` the positions of tensors of integers, which stay as they are.
    """
    name, _, parameters = signature.partition("(")
    matrices = [i for i, p in enumerate(parameters.split(",")) if p.split()[0] == "Tensor" and i not in integers]
    first = matrices[0]
    check = lru_cache(64)(sizes)  # which has no effect but to raise

    def require_one_type(given: list[str]) -> str:
        for other in given[1:]:
            if other != given[0]:
                raise TypeError(f"{name}: all tensors must have one type, but got {given[0]} and {other}")
        return given[0]

    def run(values: list[Any]) -> Any:
        if type(values[first]) is numpy.ndarray:
            return computed(values)
        from cupyx import errstate  # type: ignore[import-not-found, import-untyped, unused-ignore]

        # Without it CuPy does not ask the solver whether it has failed, since the host has to wait for the answer.
        with errstate(linalg="raise"):
            return computed(values)

    def computed(values: list[Any]) -> Any:
        kind = values[first].dtype.char
        try:
            if kind in "fd":
                return compute(*values)
            for i in matrices:
                values[i] = values[i].astype("float32" if kind == "e" else "float64")
            results = compute(*values)
        except numpy.linalg.LinAlgError as e:
            raise RuntimeError(f"{name}: {str(e)[:1].lower()}{str(e)[1:]}") from None
        if kind != "e":
            return results
        results = results if isinstance(results, tuple) else (results,)
        return tuple(r.astype("float16") if r.dtype.kind == "f" else r for r in results)

    def forward_of_one(self: Any, *constants: Any) -> Any:
        check(self.size(), *constants)
        return run([array(self), *constants])

    def forward(*args: Any) -> Any:
        check(*[a.size() if isinstance(a, _C._TensorBase) else a for a in args])
        values = [*args]
        for i in matrices:
            values[i] = array(args[i])
            if args[i].dtype != args[first].dtype:
                require_one_type([str(args[i].dtype) for i in matrices])
        return run(values)

    def types(*args: Any) -> Any:
        tensors = [args[i] for i in matrices]
        dtype = require_one_type([t.dtype for t in tensors])
        dtype = dtype if dtype in FLOATING else "Double"
        found = sizes(*(a.sizes if isinstance(a, TensorType) else a for a in args))
        found = found if isinstance(found, list) else [found]
        own = (*dtypes, *[None] * (len(found) - len(dtypes)))
        return [TensorType(d or dtype, s, tensors[0].device) for s, d in zip(found, own, strict=True)]

    alone = matrices == [0] and not integers
    define_op(signature, doc, forward=forward_of_one if alone else forward, types=types, **row)


def require_matrix(name: str, what: str, sizes: Sizes) -> Sizes:
    if len(sizes) != 2:
        raise RuntimeError(f"{name}: {what} must be a matrix, but it has size {tuple(sizes)}")
    return tuple(sizes)


def require_square(name: str, what: str, sizes: Sizes) -> Sizes:
    require_matrix(name, what, sizes)
    if sizes[0] != sizes[1]:
        raise RuntimeError(f"{name}: {what} must be a square matrix, but it has size {tuple(sizes)}")
    return tuple(sizes)


def require_right_side(name: str, b: Sizes, a: Sizes) -> Sizes:
    """Throws unless `b`, a vector or matrix, has as many rows as `a`."""
    if len(b) not in (1, 2) or b[0] != a[0]:
        raise RuntimeError(
            f"{name}: self must be a matrix or vector with {a[0]} rows like A of size {tuple(a)}, but it has size "
            f"{tuple(b)}"
        )
    return tuple(b)


def transposed(a: Any) -> Any:
    return a.swapaxes(-1, -2)


def one_triangle(a: Any, upper: bool) -> Any:
    xp = module_of(a)
    return xp.triu(a) if upper else xp.tril(a)


def symmetric(a: Any, upper: bool) -> Any:
    """The symmetric matrix with that triangle of `a`."""
    half = one_triangle(a, upper)
    return half + transposed(half) - half * module_of(a).eye(a.shape[-1], dtype=a.dtype)


def _refuse_zero(name: str, at: int) -> None:
    raise RuntimeError(f"{name}: A is singular: element ({at}, {at}) of its diagonal is 0")


def solve_triangular(name: str, a: Any, b: Any, upper: bool, unit: bool = False) -> Any:
    """The x with a x = b, from one triangle of `a`; with `unit` its diagonal counts as ones. Batches do as well."""
    xp = module_of(a)
    n = a.shape[-1]
    if xp is numpy and a.ndim == 2 and b.size <= SMALL and a.size <= SMALL:
        x = b.copy()
        if (zero_at := _C._solve_triangle(a, x, upper, unit)) >= 0:
            _refuse_zero(name, zero_at)
        return x
    if unit:
        a = (xp.triu(a, 1) if upper else xp.tril(a, -1)) + xp.eye(n, dtype=a.dtype)
    else:
        a = one_triangle(a, upper)
        zero = xp.nonzero((xp.diagonal(a, axis1=-2, axis2=-1) == 0).reshape(-1, n).any(0))[0]
        if len(zero):
            _refuse_zero(name, zero[0])
    # The LU factors of an upper triangle are itself and the identity, so this is substitution, without exchanges.
    if upper:
        return xp.linalg.solve(a, b)
    return xp.linalg.solve(a[..., ::-1, ::-1], b[..., ::-1, :])[..., ::-1, :]


# ---- LU with partial pivoting -------------------------------------------------------------------------------------

PANEL = 32


def _factor_panel(a: Any, pivots: Any, first: int, last: int) -> bool:
    """Columns `first` to `last` of the factors in place, which are left alone elsewhere but for exchanges of rows.

    Returns whether they are known to hold a 0 on a diagonal, which is not asked of a device.
    """
    xp = module_of(a)
    if xp is numpy:
        return _C._lu_panel(a, pivots, first, last) >= 0
    batch = xp.arange(len(a))
    for j in range(first, last):
        p = j + xp.abs(a[:, j:, j]).argmax(1)
        pivots[:, j] = p
        row = a[:, j].copy()
        a[:, j] = a[batch, p]
        a[batch, p] = row
        pivot = a[:, j, j]
        # Below a pivot of 0 is nothing but zeros.
        a[:, j + 1 :, j] /= xp.where(pivot == 0, 1, pivot)[:, None]
        a[:, j + 1 :, j + 1 : last] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 : last]
    return False


def lu_factor(matrices: Any) -> tuple[Any, Any]:
    """The packed factors L and U of each matrix of a batch, and the row (from 0) that each row was exchanged with."""
    xp = module_of(matrices)
    a = matrices.copy()
    count, n, _ = a.shape
    pivots = xp.zeros((count, n), dtype="int64")
    for first in range(0, n, PANEL):
        last = min(first + PANEL, n)
        _factor_panel(a, pivots, first, last)
        if last < n:
            corner = a[:, first:last, first:last]
            a[:, first:last, last:] = solve_triangular("lu", corner, a[:, first:last, last:], False, True)
            a[:, last:, last:] -= a[:, last:, first:last] @ a[:, first:last, last:]
    return a, pivots


def solve_and_factor(a: Any, b: Any) -> tuple[Any, Any]:
    """The x with a x = b for one matrix, and the packed factors of a. LinAlgError if it is singular."""
    xp = module_of(a)
    if xp is not numpy or not b.size <= a.size <= SMALL:
        return xp.linalg.solve(a, b), lu_factor(a[None])[0][0]
    lu, x = a.copy(), b.copy()
    pivots = numpy.empty((1, len(a)), numpy.int64)
    if _factor_panel(lu[None], pivots, 0, len(a)):
        raise numpy.linalg.LinAlgError("Singular matrix")
    _C._lu_solve(lu, pivots[0], x if x.ndim == 2 else x[:, None])
    return x, lu


def permutations(pivots: Any) -> Any:
    """The order of rows that the exchanges (from 0) of each matrix amount to: row i of P A is row order[i] of A."""
    xp = module_of(pivots)
    count, n = pivots.shape
    order = xp.tile(xp.arange(n), (count, 1))
    batch = xp.arange(count)
    for j in range(n):
        moved = order[:, j].copy()
        order[:, j] = order[batch, pivots[:, j]]
        order[batch, pivots[:, j]] = moved
    return order


# ---- orthogonal matrices as reflectors ----------------------------------------------------------------------------


def apply_reflectors(packed: Any, tau: Any, c: Any, transpose: bool) -> Any:
    """Q c, or its transpose times c. Q is the product of the reflectors that `packed` holds below its diagonal."""
    xp = module_of(c)
    c = c.copy()
    k = len(tau)
    if xp is numpy:
        _C._apply_reflectors(packed, numpy.ascontiguousarray(tau), c, transpose)
        return c
    for i in range(k) if transpose else reversed(range(k)):
        v = packed[i:, i].copy()
        v[0] = 1
        c[i:] -= tau[i] * xp.outer(v, v @ c[i:])
    return c


def pivoted_cholesky(a: Any, tol: float) -> tuple[Any, Any]:
    """L and the order p with a[p][:, p] = L L^T. Columns from the rank on, where no pivot is above `tol`, are 0."""
    xp = module_of(a)
    n = a.shape[0]
    a, low = a.copy(), xp.zeros_like(a)
    order, rest = xp.arange(n), xp.diagonal(a).copy()
    if tol < 0:
        tol = float(n * xp.finfo(a.dtype).eps * rest.max()) if n else 0.0
    for k in range(n):
        p = k + int(rest[k:].argmax())
        if not float(rest[p]) > tol:
            if float(rest[k:].min()) < -max(tol, 0):
                raise RuntimeError("pstrf: the matrix is not positive semidefinite")
            break
        swap, to = xp.asarray([k, p]), xp.asarray([p, k])
        for x in (a, low, order, rest):
            x[swap] = x[to]
        a[:, swap] = a[:, to]
        low[k, k] = xp.sqrt(rest[k])
        low[k + 1 :, k] = (a[k + 1 :, k] - low[k + 1 :, :k] @ low[k, :k]) / low[k, k]
        rest[k + 1 :] -= low[k + 1 :, k] ** 2
    return low, order
