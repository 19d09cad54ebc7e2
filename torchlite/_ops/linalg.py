"""Linear systems and factors with a gradient: inverse, gesv, potrf, potrs, trtrs; and renorm."""

from __future__ import annotations

import math
from typing import Any

import numpy

import torchlite

from .._arrays import module_of
from . import TensorType, define_op
from .matrices import (
    FLOATING,
    Sizes,
    define_matrix_op,
    one_triangle,
    require_right_side,
    require_square,
    solve_and_factor,
    solve_triangular,
    transposed,
)
from .sizes import axis_of


def _inverse_backward(ctx: Any, grad: Any) -> Any:
    t = ctx.output().t()
    return -t.mm(grad).mm(t)


define_matrix_op(
    "inverse(Tensor self)",
    "The inverse of a square matrix. RuntimeError if it is singular.",
    sizes=lambda self: require_square("inverse", "self", self),
    compute=lambda a: module_of(a).linalg.inv(a),
    backward=_inverse_backward,
    uses={"self": "out"},
)

# ---- linear systems -----------------------------------------------------------------------------------------------


def _outer(a: Any, b: Any) -> Any:
    """a times the transpose of b, both matrices or both vectors."""
    return a.mm(b.t()) if a.dim() == 2 else a.ger(b)


def _gesv_sizes(self: Sizes, A: Sizes) -> list[Sizes]:
    require_square("gesv", "A", A)
    return [require_right_side("gesv", self, A), tuple(A)]


def _gesv_backward(ctx: Any, grad: Any, _: Any) -> Any:
    b_grad = grad.gesv(ctx.value("A").t())[0]
    return b_grad, -_outer(b_grad, ctx.output(0)) if ctx.needs("A") else None


define_matrix_op(
    "gesv(Tensor self, Tensor A)",
    "(X, LU): the solution of A X = self for a matrix (or vector) self, and the factors of A with partial pivoting, "
    "packed into one matrix. LU has no gradient. RuntimeError if A is singular.",
    sizes=_gesv_sizes,
    compute=lambda b, a: solve_and_factor(a, b),
    backward=_gesv_backward,
    uses={"self": "A", "A": ("A", "out0")},
    outputs=2,
    non_differentiable=(1,),
)


def _trtrs_sizes(self: Sizes, A: Sizes, upper: bool, transpose: bool, unitriangular: bool) -> list[Sizes]:
    require_square("trtrs", "A", A)
    return [require_right_side("trtrs", self, A), tuple(A)]


def _trtrs(b: Any, a: Any, upper: bool, transpose: bool, unitriangular: bool) -> Any:
    m, up = (transposed(a), not upper) if transpose else (a, upper)
    x = solve_triangular("trtrs", m, b.reshape(len(b), -1), up, unitriangular).reshape(b.shape)
    return x, a.copy()


def _trtrs_backward(ctx: Any, grad: Any, _: Any) -> Any:
    upper, transpose, unit = (ctx.value(name) for name in ("upper", "transpose", "unitriangular"))
    b_grad = grad.trtrs(ctx.value("A"), upper, not transpose, unit)[0]
    a_grad = None
    if ctx.needs("A"):
        x = ctx.output(0)
        whole = -(_outer(x, b_grad) if transpose else _outer(b_grad, x))
        a_grad = whole.triu(int(unit)) if upper else whole.tril(-int(unit))
    return b_grad, a_grad, None, None, None


define_matrix_op(
    "trtrs(Tensor self, Tensor A, bool upper=True, bool transpose=False, bool unitriangular=False)",
    "(X, A): the solution of A X = self, or of the transpose of A, from one triangle of A, and a copy of A. With "
    "`unitriangular` the diagonal counts as ones. RuntimeError if there is a 0 on it.",
    sizes=_trtrs_sizes,
    compute=_trtrs,
    backward=_trtrs_backward,
    uses={"self": "A", "A": ("A", "out0")},
    outputs=2,
    non_differentiable=(1,),
)

# ---- Cholesky factors ---------------------------------------------------------------------------------------------


def _cholesky(a: Any) -> Any:
    """The lower factor from the lower triangle, or None if there is none."""
    xp = module_of(a)
    try:
        factor = xp.linalg.cholesky(a)
    except numpy.linalg.LinAlgError:
        return None
    if xp is numpy:  # It factors a NaN, which then reaches the end of the diagonal.
        nan = factor.size > 0 and math.isnan(factor.item(-1))
    else:
        nan = xp.isnan(xp.diagonal(factor)).any()
    return None if nan else factor


def _order_without_factor(a: Any) -> int:
    """The smallest leading block of a symmetric matrix that has no Cholesky factor (the whole one has none)."""
    good, bad = 0, len(a)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _cholesky(a[:middle, :middle]) is None:
            bad = middle
        else:
            good = middle
    return bad


def _potrf(a: Any, upper: bool) -> Any:
    lower = a.T if upper else a
    factor = _cholesky(lower)
    if factor is None:
        k = _order_without_factor(lower)
        raise RuntimeError(f"potrf: the leading minor of order {k} is not positive definite")
    return factor.T if upper else factor


def _half_diagonal(x: Any) -> Any:
    """The lower triangle with half the diagonal."""
    return (x.tril() + x.tril(-1)) * 0.5


def _potrf_backward(ctx: Any, grad: Any) -> Any:
    # Murray, "Differentiation of the Cholesky decomposition" (2016). The gradient is that of the triangle that is read.
    upper = ctx.value("upper")
    factor, grad = (ctx.output().t(), grad.t()) if upper else (ctx.output(), grad)
    inverse = factor.inverse()
    s = inverse.t().mm(_half_diagonal(factor.t().mm(grad))).mm(inverse)
    result = _half_diagonal(s + s.t())
    return result.t() if upper else result, None


define_matrix_op(
    "potrf(Tensor self, bool upper=True)",
    "The Cholesky factor of a symmetric positive definite matrix, of which one triangle is read: upper triangular U "
    "with U^T U = self, or lower triangular L with L L^T = self. RuntimeError if it is not positive definite.",
    sizes=lambda self, upper: require_square("potrf", "self", self),
    compute=_potrf,
    backward=_potrf_backward,
    uses={"self": "out"},
)


def _potrs_sizes(self: Sizes, factor: Sizes, upper: bool) -> Sizes:
    require_square("potrs", "the factor", factor)
    return require_right_side("potrs", self, factor)


def _potrs(b: Any, factor: Any, upper: bool) -> Any:
    lower = transposed(one_triangle(factor, True)) if upper else one_triangle(factor, False)
    y = solve_triangular("potrs", lower, b.reshape(len(b), -1), False)
    return solve_triangular("potrs", transposed(lower), y, True).reshape(b.shape)


def _potrs_backward(ctx: Any, grad: Any) -> Any:
    factor, upper = ctx.value("u"), ctx.value("upper")
    b_grad = grad.potrs(factor, upper)
    u_grad = None
    if ctx.needs("u"):
        s = -_outer(b_grad, ctx.output())
        s = s + s.t()
        u_grad = factor.triu().mm(s).triu() if upper else s.mm(factor.tril()).tril()
    return b_grad, u_grad, None


define_matrix_op(
    "potrs(Tensor self, Tensor u, bool upper=True)",
    "The solution X of A X = self, where `u` is the Cholesky factor of A that potrf gives.",
    sizes=_potrs_sizes,
    compute=_potrs,
    backward=_potrs_backward,
    uses={"self": "u", "u": ("u", "out")},
)

# ---- renorm -------------------------------------------------------------------------------------------------------

_EPSILON = 1e-7  # what the scaled norms stay below maxnorm


def _require_renorm(sizes: Sizes, p: float, dim: int, maxnorm: float) -> tuple[int, ...]:
    """The dimensions of a slice."""
    if len(sizes) < 2:
        raise RuntimeError(f"renorm: self must have at least 2 dimensions, but it has size {tuple(sizes)}")
    if not p > 0:
        raise RuntimeError(f"renorm: p must be positive, but got {p}")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: maxnorm must not be negative, but got {maxnorm}")
    axis = axis_of(sizes, dim)
    return tuple(d for d in range(len(sizes)) if d != axis)


def _renorm(self: Any, p: float, dim: int, maxnorm: float) -> Any:
    dims = _require_renorm(self.size(), p, dim, maxnorm)
    _require_floating(str(self.dtype.name).startswith("float"), type(self).__name__)
    norms = self.norm(p, dims, True)
    return self * torchlite.where(norms.gt(maxnorm), maxnorm / (norms + _EPSILON), 1)


def _require_floating(floating: bool, name: str) -> None:
    if not floating:
        raise TypeError(f"renorm: self must have a floating type, but is {name}")


def _renorm_types(self: TensorType, p: float, dim: int, maxnorm: float) -> TensorType:
    _require_renorm(self.sizes, p, dim, maxnorm)
    _require_floating(self.dtype in FLOATING, self.dtype)
    return self


def _renorm_backward(ctx: Any, grad: Any) -> Any:
    x, p, dim, maxnorm = (ctx.value(i) for i in range(4))
    dims = _require_renorm(x.size(), p, dim, maxnorm)
    norms = x.norm(p, dims, True)
    scaled = norms.gt(maxnorm)
    safe = torchlite.where(scaled, norms, 1)
    scale = torchlite.where(scaled, maxnorm / (safe + _EPSILON), 1)
    # d norm / d x
    if p == 2:
        slope = x / safe
    elif p == 1:
        slope = x.sign()
    elif p == float("inf"):
        top = x.abs().eq(norms).type_as(x)
        slope = x.sign() * (top / torchlite.where(scaled, top.sum(dims, True), 1))
    else:
        slope = x.sign() * (x.abs() / safe).pow(p - 1)
    along = (grad * x).sum(dims, True) * (scale / (safe + _EPSILON))
    return grad * scale - torchlite.where(scaled, along, 0) * slope, None, None, None


define_op(
    "renorm(Tensor self, Scalar p, int dim, Scalar maxnorm)",
    "self with each slice along `dim` whose p-norm is above `maxnorm` scaled down to it.",
    forward=_renorm,
    types=_renorm_types,
    backward=_renorm_backward,
    uses={"self": "self"},
    in_place=True,
)
