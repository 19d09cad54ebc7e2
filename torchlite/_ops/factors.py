"""Factors of matrices: qr, svd, symeig, eig, gels, potri, pstrf, geqrf, orgqr, ormqr, btrifact, btrisolve,
btriunpack.

qr, svd and symeig have gradients where the factors are differentiable: for distinct singular or eigenvalues and full
rank. The signs of factors are whatever the computation gives.
"""

from __future__ import annotations

from typing import Any

import torchlite

from .. import _C
from .._arrays import array, module_of
from .matrices import (
    Sizes,
    apply_reflectors,
    define_matrix_op,
    lu_factor,
    permutations,
    pivoted_cholesky,
    require_matrix,
    require_square,
    solve_triangular,
    symmetric,
    transposed,
)

# ---- QR -------------------------------------------------------------------------------------------------------------


def _qr_sizes(self: Sizes) -> list[Sizes]:
    m, n = require_matrix("qr", "self", self)
    return [(m, min(m, n)), (min(m, n), n)]


def _qr_backward(ctx: Any, q_grad: Any, r_grad: Any) -> Any:
    q, r = ctx.output(0), ctx.output(1)
    n = r.size(1)
    if q.size(1) != n:
        raise RuntimeError(f"qr: there is no gradient for a matrix with fewer rows than columns, {q.size(0)} and {n}")
    m = r.mm(r_grad.t()) - q_grad.t().mm(q)
    right_side = q_grad + q.mm(m.tril() + m.tril(-1).t())
    return right_side.t().trtrs(r)[0].t()


define_matrix_op(
    "qr(Tensor self)",
    "(Q, R): self = Q R, where the columns of Q are orthonormal and R is upper triangular. Of a matrix of size (m, n) "
    "they have the sizes (m, k) and (k, n) with k = min(m, n).",
    sizes=_qr_sizes,
    compute=lambda a: module_of(a).linalg.qr(a),
    backward=_qr_backward,
    uses={"self": ("out0", "out1")},
    outputs=2,
)


def _packed_qr(a: Any) -> tuple[Any, Any]:
    h, tau = module_of(a).linalg.qr(a, mode="raw")
    return transposed(h), tau


def _geqrf_sizes(self: Sizes) -> list[Sizes]:
    m, n = require_matrix("geqrf", "self", self)
    return [(m, n), (min(m, n),)]


define_matrix_op(
    "geqrf(Tensor self)",
    "(a, tau): the factors of qr as LAPACK packs them, R in the upper triangle of `a` and below it the vectors of the "
    "reflectors that make Q, whose coefficients are `tau`. orgqr and ormqr take them.",
    sizes=_geqrf_sizes,
    compute=_packed_qr,
    outputs=2,
)


def _require_reflectors(name: str, self: Sizes, tau: Sizes) -> None:
    require_matrix(name, "self", self)
    if len(tau) != 1 or tau[0] > min(self):
        raise RuntimeError(
            f"{name}: tau must be a vector of at most {min(self)} elements for a matrix of size {tuple(self)}, but it "
            f"has size {tuple(tau)}"
        )


def _orgqr_sizes(self: Sizes, tau: Sizes) -> Sizes:
    _require_reflectors("orgqr", self, tau)
    if self[0] < self[1]:
        raise RuntimeError(f"orgqr: self must not have more columns than rows, but it has size {tuple(self)}")
    return tuple(self)


define_matrix_op(
    "orgqr(Tensor self, Tensor tau)",
    "The first columns of the orthogonal matrix Q that geqrf packed into (self, tau), as many as self has.",
    sizes=_orgqr_sizes,
    compute=lambda a, tau: apply_reflectors(a, tau, module_of(a).eye(*a.shape, dtype=a.dtype), False),
)


def _ormqr_sizes(self: Sizes, tau: Sizes, mat: Sizes, left: bool, transpose: bool) -> Sizes:
    _require_reflectors("ormqr", self, tau)
    require_matrix("ormqr", "mat", mat)
    if self[0] != mat[0 if left else 1]:
        raise RuntimeError(
            f"ormqr: mat must have {self[0]} {'rows' if left else 'columns'} for reflectors of size {tuple(self)}, "
            f"but it has size {tuple(mat)}"
        )
    return tuple(mat)


def _ormqr(a: Any, tau: Any, c: Any, left: bool, transpose: bool) -> Any:
    if left:
        return apply_reflectors(a, tau, c, transpose)
    return transposed(apply_reflectors(a, tau, transposed(c), not transpose))


define_matrix_op(
    "ormqr(Tensor self, Tensor tau, Tensor mat, bool left=True, bool transpose=False)",
    "Q mat, where Q is the whole orthogonal matrix that geqrf packed into (self, tau): its transpose with `transpose`, "
    "and from the right without `left`.",
    sizes=_ormqr_sizes,
    compute=_ormqr,
)


def _gels_sizes(self: Sizes, A: Sizes) -> list[Sizes]:
    m, n = require_matrix("gels", "A", A)
    if require_matrix("gels", "self", self)[0] != m:
        raise RuntimeError(f"gels: self must have {m} rows like A of size {(m, n)}, but it has size {tuple(self)}")
    return [(max(m, n), self[1]), (m, n)]


def _gels(b: Any, a: Any) -> Any:
    xp = module_of(a)
    m, n = a.shape
    packed, tau = _packed_qr(a if m >= n else a.T)
    k = min(m, n)
    if m >= n:
        x = apply_reflectors(packed, tau, b, True)
        x[:k] = solve_triangular("gels", packed[:k], x[:k], True)
        return x, packed
    x = xp.zeros((n, b.shape[1]), dtype=b.dtype)
    x[:k] = solve_triangular("gels", packed[:k].T, b, False)
    return apply_reflectors(packed, tau, x, False), packed.T


define_matrix_op(
    "gels(Tensor self, Tensor A)",
    "(X, QR): least squares for A X = self with A of full rank and size (m, n). The first n rows of X are the "
    "solution. If m > n the others hold residuals: the sum of their squares in a column is that of self - A X. If m < n"
    " the solution is the shortest one. QR is the packed factors of A, of its transpose if m < n (transposed back). "
    "RuntimeError if A has not full rank.",
    sizes=_gels_sizes,
    compute=_gels,
    outputs=2,
)

# ---- eigenvalues and singular values --------------------------------------------------------------------------------


def _svd_sizes(self: Sizes, some: bool) -> list[Sizes]:
    m, n = require_matrix("svd", "self", self)
    k = min(m, n)
    return [(m, k if some else m), (k,), (n, k if some else n)]


def _svd(a: Any, some: bool) -> Any:
    u, s, vt = module_of(a).linalg.svd(a, full_matrices=not some)
    return u, s, transposed(vt)


def _gaps(values: Any) -> Any:
    """1 / (values[j] - values[i]) off the diagonal, and 0 on it."""
    n = values.size(0)
    row, column = values.view(1, n).expand(n, n), values.view(n, 1).expand(n, n)
    eye = torchlite.Variable(values.data.new(n).fill_(1)).diag()  # an operation, so that a trace of this records it
    return (1 - eye) / (row - column + eye)


def _svd_backward(ctx: Any, u_grad: Any, s_grad: Any, v_grad: Any) -> Any:
    u, s, v = (ctx.output(i) for i in range(3))
    k = s.size(0)
    if u.size(1) != k or v.size(1) != k:
        raise RuntimeError("svd: there is no gradient of the columns beyond the singular values: use some=True")
    gaps = _gaps(s * s)
    row = s.view(1, k)

    def part(vectors: Any, grad: Any) -> Any:
        m = vectors.t().mm(grad)
        return (m - m.t()) * gaps

    inner = part(u, u_grad) * row.expand(k, k) + row.view(k, 1).expand(k, k) * part(v, v_grad) + s_grad.diag()
    result = u.mm(inner).mm(v.t())
    if u.size(0) > k:
        rest = (u_grad - u.mm(u.t().mm(u_grad))) / row.expand_as(u_grad)
        result = result + rest.mm(v.t())
    if v.size(0) > k:
        rest = (v_grad - v.mm(v.t().mm(v_grad))) / row.expand_as(v_grad)
        result = result + u.mm(rest.t())
    return result, None


define_matrix_op(
    "svd(Tensor self, bool some=True)",
    "(U, S, V): self = U diag(S) V^T with orthonormal columns in U and V and the singular values S from large to "
    "small. Of a matrix of size (m, n), U and V have min(m, n) columns, or m and n without `some`.",
    sizes=_svd_sizes,
    compute=_svd,
    backward=_svd_backward,
    uses={"self": ("out0", "out1", "out2")},
    outputs=3,
)


def _symeig_sizes(self: Sizes, eigenvectors: bool, upper: bool) -> list[Sizes]:
    n, _ = require_square("symeig", "self", self)
    return [(n,), (n, n) if eigenvectors else (0,)]


def _symeig(a: Any, eigenvectors: bool, upper: bool) -> Any:
    linalg, triangle = module_of(a).linalg, "U" if upper else "L"
    return linalg.eigh(a, triangle) if eigenvectors else (linalg.eigvalsh(a, triangle), a[:0, 0])


def _symeig_backward(ctx: Any, values_grad: Any, vectors_grad: Any) -> Any:
    upper = ctx.value("upper")
    inner = values_grad.diag()
    if ctx.value("eigenvectors"):
        vectors = ctx.output(1)
        inner = inner + vectors.t().mm(vectors_grad) * _gaps(ctx.output(0))
    else:
        vectors = ctx.value("self").symeig(True, upper)[1]
    s = vectors.mm(inner).mm(vectors.t())
    s = s + s.t()
    # The gradient is that of the triangle that is read.
    half = (s.triu() + s.triu(1)) if upper else (s.tril() + s.tril(-1))
    return half * 0.5, None, None


define_matrix_op(
    "symeig(Tensor self, bool eigenvectors=False, bool upper=True)",
    "(e, V): the eigenvalues of a symmetric matrix, of which one triangle is read, from small to large, and with "
    "`eigenvectors` its orthonormal eigenvectors as the columns of V, which is empty else.",
    sizes=_symeig_sizes,
    compute=_symeig,
    backward=_symeig_backward,
    uses={"self": ("self", "out0", "out1")},
    outputs=2,
)


def _eig_sizes(self: Sizes, eigenvectors: bool) -> list[Sizes]:
    n, _ = require_square("eig", "self", self)
    return [(n, 2), (n, n) if eigenvectors else (0,)]


def _real_and_imaginary(xp: Any, values: Any, dtype: Any) -> Any:
    """A row of two numbers for each complex one, or for each real one."""
    if values.dtype != dtype:
        return values.astype(dtype.char.upper()).view(dtype).reshape(-1, 2)
    pairs = xp.zeros((len(values), 2), dtype)
    pairs[:, 0] = values
    return pairs


def _eig(a: Any, eigenvectors: bool) -> Any:
    xp, dtype = module_of(a), a.dtype
    if not eigenvectors:
        return _real_and_imaginary(xp, xp.linalg.eigvals(a), dtype), xp.empty(0, dtype)
    values, vectors = xp.linalg.eig(a)
    pairs = _real_and_imaginary(xp, values, dtype)
    if values.dtype == dtype:
        return pairs, vectors
    packed = vectors.real.astype(dtype)
    for j in range(len(values)):
        if values[j].imag > 0:  # the first of a conjugate pair
            packed[:, j + 1] = vectors[:, j].imag
    return pairs, packed


define_matrix_op(
    "eig(Tensor self, bool eigenvectors=False)",
    "(e, V): the eigenvalues of a square matrix, real and imaginary part in a row of e, and with `eigenvectors` the "
    "eigenvectors as the columns of V, which is empty else. Of a conjugate pair the column at the first one holds the "
    "real part of its vector and the next column the imaginary part.",
    sizes=_eig_sizes,
    compute=_eig,
    outputs=2,
)

# ---- Cholesky factors -----------------------------------------------------------------------------------------------


def _potri(factor: Any, upper: bool) -> Any:
    xp = module_of(factor)
    inverse = solve_triangular("potri", factor, xp.eye(len(factor), dtype=factor.dtype), upper)
    return inverse @ inverse.T if upper else inverse.T @ inverse


define_matrix_op(
    "potri(Tensor self, bool upper=True)",
    "The inverse of the matrix whose Cholesky factor self is, as potrf gives it.",
    sizes=lambda self, upper: require_square("potri", "self", self),
    compute=_potri,
)


def _pstrf_sizes(self: Sizes, upper: bool, tol: float) -> list[Sizes]:
    n, _ = require_square("pstrf", "self", self)
    return [(n, n), (n,)]


def _pstrf(a: Any, upper: bool, tol: float) -> Any:
    low, order = pivoted_cholesky(symmetric(a, upper), float(tol))
    return transposed(low) if upper else low, order.astype("int32")


define_matrix_op(
    "pstrf(Tensor self, bool upper=True, Scalar tol=-1)",
    "(u, piv): the Cholesky factor of a symmetric positive semidefinite matrix, of which one triangle is read, with "
    "its rows and columns in the order of the IntTensor `piv` (from 0), largest pivots first: a[piv][:, piv] is u^T u, "
    "or u u^T without `upper`. Where no pivot is above `tol` the factor is 0; a negative one stands for n times the "
    "rounding error of the largest element of the diagonal. RuntimeError for a negative pivot.",
    sizes=_pstrf_sizes,
    compute=_pstrf,
    dtypes=(None, "Int"),
    outputs=2,
)

# ---- batches --------------------------------------------------------------------------------------------------------


def _btrifact_sizes(self: Sizes, info: Sizes | None, pivot: bool) -> list[Sizes]:
    if len(self) != 3 or self[1] != self[2]:
        raise RuntimeError(f"btrifact: self must be a batch of square matrices, but it has size {tuple(self)}")
    if not pivot:
        raise RuntimeError("btrifact: factors without pivoting are unstable: pivot must be True")
    return [tuple(self), tuple(self[:2])]


def _btrifact(a: Any, info: Any, pivot: bool) -> Any:
    xp = module_of(a)
    if info is not None and array(info).dtype != "int32":
        raise TypeError(f"btrifact: info must be an IntTensor, but is {type(info).__name__}")
    lu, pivots = lu_factor(a)
    if info is not None:
        zero = xp.diagonal(lu, axis1=1, axis2=2) == 0
        first = xp.where(zero.any(1), zero.argmax(1) + 1, 0) if a.shape[1] else xp.zeros(len(a), "int64")
        array(info.resize_(len(a)))[...] = first
    return lu, (pivots + 1).astype("int32")


define_matrix_op(
    "btrifact(Tensor self, Tensor? info=None, bool pivot=True)",
    "(LU, pivots): the factors with partial pivoting of each matrix of a batch, packed, and the row (from 1) that each "
    "row was exchanged with, an IntTensor. `info`, an IntTensor, is overwritten with the first position (from 1) of a "
    "0 on the diagonal of U for each matrix that is singular, and 0 for the others.",
    sizes=_btrifact_sizes,
    compute=_btrifact,
    dtypes=(None, "Int"),
    integers=(1,),
    outputs=2,
)


def _btrisolve_sizes(self: Sizes, LU_data: Sizes, LU_pivots: Sizes) -> Sizes:
    _btrifact_sizes(LU_data, None, True)
    if tuple(LU_pivots) != tuple(LU_data[:2]):
        raise RuntimeError(
            f"btrisolve: LU_pivots must have size {tuple(LU_data[:2])} like LU_data of size {tuple(LU_data)}, but has "
            f"size {tuple(LU_pivots)}"
        )
    if len(self) not in (2, 3) or tuple(self[:2]) != tuple(LU_data[:2]):
        raise RuntimeError(
            f"btrisolve: self must be a batch of vectors or matrices with {LU_data[1]} rows, {LU_data[0]} of them like "
            f"LU_data of size {tuple(LU_data)}, but it has size {tuple(self)}"
        )
    return tuple(self)


def _row_order(name: str, pivots: Any) -> Any:
    """The order of rows that an IntTensor of pivots (from 1) stands for."""
    a = array(pivots)
    if a.dtype.kind != "i":
        raise TypeError(f"{name}: LU_pivots must be an IntTensor, but is {type(pivots).__name__}")
    if a.size and not (1 <= int(a.min()) and int(a.max()) <= a.shape[1]):
        raise RuntimeError(f"{name}: LU_pivots must lie between 1 and {a.shape[1]}, but are in [{a.min()}, {a.max()}]")
    return permutations(a.astype("int64") - 1)


def _btrisolve(b: Any, lu: Any, pivots: Any) -> Any:
    columns = b.reshape(*b.shape[:2], -1)
    columns = module_of(b).take_along_axis(columns, _row_order("btrisolve", pivots)[:, :, None], 1)
    y = solve_triangular("btrisolve", lu, columns, False, True)
    return solve_triangular("btrisolve", lu, y, True).reshape(b.shape)


define_matrix_op(
    "btrisolve(Tensor self, Tensor LU_data, Tensor LU_pivots)",
    "The solutions of A X = self for each matrix A of a batch and its right side, a vector or a matrix, from the "
    "factors that btrifact gives. RuntimeError if a matrix is singular.",
    sizes=_btrisolve_sizes,
    compute=_btrisolve,
    integers=(2,),
)


def btriunpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> tuple:
    """(P, L, U) from the factors that `btrifact` gives, with A = P L U for each matrix of the batch.

    `LU_data` has size (count, n, n), `LU_pivots`, an IntTensor, (count, n). L and U are None without `unpack_data`, P
    without `unpack_pivots`.

    Raises:
        RuntimeError: if the sizes do not fit, or the pivots are none.
    """
    for name, value in (("LU_data", LU_data), ("LU_pivots", LU_pivots)):
        if not isinstance(value, _C._TensorBase):
            raise TypeError(f"btriunpack: {name} must be a tensor, but is {type(value).__name__}")
    _btrisolve_sizes(LU_pivots.size(), LU_data.size(), LU_pivots.size())
    a = array(LU_data)
    xp = module_of(a)
    eye = xp.eye(a.shape[1], dtype=a.dtype)
    permutation = lower = upper = None

    def tensor_of(values: Any) -> Any:
        result = LU_data.new(LU_data.size())
        array(result)[...] = values
        return result

    if unpack_data:
        lower, upper = tensor_of(xp.tril(a, -1) + eye), tensor_of(xp.triu(a))
    if unpack_pivots:
        # Row i of L U is row order[i] of A.
        permutation = tensor_of(transposed(eye[_row_order("btriunpack", LU_pivots)]))
    return permutation, lower, upper
