"""Operations of the table on sparse operands: the extension calls :func:`compute` for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import _C
from .._arrays import array, module_of
from . import tensor as sparse

_RULES: dict[str, Callable] = {}


def compute(name: str, arguments: tuple, out: Any) -> Any:
    """The result of operation ``name`` (with a ``_`` behind it: in place, on ``out``).

    Raises:
        TypeError: if the operation is not defined on sparse tensors.
    """
    in_place = out is not None
    rule = _RULES.get(name[:-1] if in_place else name)
    if rule is None:
        operands = ", ".join(a.type() for a in arguments if isinstance(a, _C._TensorBase))
        raise TypeError(f"{name}: not defined on sparse tensors (got {operands}); use to_dense()")
    result = rule(name, *arguments)
    if not in_place or not sparse.is_sparse(out):
        return result  # the extension copies it into a dense `out`
    if not sparse.is_sparse(result):
        raise TypeError(f"{name}: the result is dense and can't be written into a {out.type()}")
    return out._become(result.type(type(out)))


def _rule(function: Callable) -> Callable:
    _RULES[function.__name__.strip("_")] = function
    return function


def _number(name: str, value: Any) -> Any:
    if isinstance(value, _C._TensorBase):
        raise TypeError(f"{name}: a sparse tensor takes a number there, not a {value.type()}")
    return value


def _same_size(name: str, a: Any, b: Any) -> None:
    if a.size() != b.size():
        raise RuntimeError(f"{name}: sizes {tuple(a.size())} and {tuple(b.size())} of a sparse operation differ")


def _with_values(a: Any, values: Any, coalesced: bool) -> Any:
    return sparse._make(type(a), a._sparse_indices.clone(), values, a.size(), coalesced)


def _sum(name: str, a: Any, alpha: Any, b: Any) -> Any:
    """a + alpha * b, sparse if both are."""
    for x in (a, b):
        if not isinstance(x, _C._TensorBase):
            raise TypeError(f"{name}: a number can't be added to a sparse tensor, as every element would change")
    _same_size(name, a, b)
    if not sparse.is_sparse(a):
        result = a.clone()
        sparse.add_to_dense(result, b, alpha)
        return result
    if not sparse.is_sparse(b):
        result = b.clone() if alpha == 1 else b * alpha
        sparse.add_to_dense(result, a, 1)
        return result
    if not b._nnz():
        return a.clone()
    scaled = b._sparse_values if alpha == 1 else b._sparse_values * alpha
    if not a._nnz():
        return sparse._make(type(a), b._sparse_indices.clone(), scaled.clone(), a.size(), b._coalesced)
    if a._dimI() != b._dimI():
        raise RuntimeError(f"{name}: operands have {a._dimI()} and {b._dimI()} sparse dimensions")
    # Places that occur in both simply occur twice.
    xp = module_of(array(scaled))
    indices = xp.concatenate([array(a._sparse_indices), array(b._sparse_indices)], axis=1)
    values = xp.concatenate([array(a._sparse_values), array(scaled)], axis=0)
    return sparse._make(type(a), _C.from_numpy(indices), _C.from_numpy(values), a.size(), False)


@_rule
def add(name: str, a: Any, alpha: Any, b: Any) -> Any:
    return _sum(name, a, alpha, b)


@_rule
def sub(name: str, a: Any, alpha: Any, b: Any) -> Any:
    return _sum(name, a, -alpha, b)


@_rule
def mul(name: str, a: Any, b: Any) -> Any:
    if not sparse.is_sparse(a):
        a, b = b, a
    if not sparse.is_sparse(b):
        return _with_values(a, a._sparse_values * _number(name, b), a._coalesced)
    _same_size(name, a, b)
    a, b = a.coalesce(), b.coalesce()
    dense = sparse.sparse_mask(b.to_dense(), a)  # zero where b has no element
    if not a._nnz():
        return a.clone()
    return _with_values(a, a._sparse_values * dense._sparse_values, True)


@_rule
def div(name: str, a: Any, b: Any) -> Any:
    if not sparse.is_sparse(a):
        raise TypeError(f"{name}: can't divide by a sparse tensor")
    return _with_values(a, a._sparse_values / _number(name, b), a._coalesced)


@_rule
def pow(name: str, a: Any, b: Any) -> Any:
    if not sparse.is_sparse(a) or _number(name, b) <= 0:
        raise TypeError(f"{name}: a sparse tensor takes a positive exponent only, as zeros would not stay zero")
    a = a.coalesce()
    return _with_values(a, a._sparse_values**b, True)


@_rule
def neg(name: str, a: Any) -> Any:
    return _with_values(a, -a._sparse_values, a._coalesced)


@_rule
def clone(name: str, a: Any) -> Any:
    return a.clone()


@_rule
def transpose(name: str, a: Any, dim0: int, dim1: int) -> Any:
    dim0, dim1 = (_C._wrap_dim(dim, a.dim(), name) for dim in (dim0, dim1))
    if max(dim0, dim1) >= a._dimI():
        raise RuntimeError(f"{name}: dimensions {dim0} and {dim1} can't be swapped: only {a._dimI()} are sparse")
    order = list(range(a._dimI()))
    order[dim0], order[dim1] = order[dim1], order[dim0]
    size = list(a.size())
    size[dim0], size[dim1] = size[dim1], size[dim0]
    indices = _C.from_numpy(np.ascontiguousarray(array(a._sparse_indices)[order]))
    return sparse._make(type(a), indices, a._sparse_values.clone(), size, a._nnz() <= 1)


@_rule
def t(name: str, a: Any) -> Any:
    if a.dim() != 2:
        raise RuntimeError(f"t() expects a 2D tensor, but self is {a.dim()}D")
    return transpose(name, a, 0, 1)


@_rule
def mm(name: str, a: Any, b: Any) -> Any:
    """Sparse times dense: a dense matrix."""
    if not sparse.is_sparse(a) or sparse.is_sparse(b):
        raise TypeError(f"{name}: expected a sparse and a dense matrix, but got {a.type()} and {b.type()}")
    if a.dim() != 2 or b.dim() != 2 or a._dimI() != 2:
        raise RuntimeError(f"{name}: matrices expected, got {a.dim()}D, {b.dim()}D tensors")
    if a.size(1) != b.size(0):
        raise RuntimeError(f"size mismatch, m1: {list(a.size())}, m2: {list(b.size())}")
    result = b.new(a.size(0), b.size(1)).zero_()
    if a._nnz():
        rows, columns = array(a._sparse_indices)
        terms = array(a._sparse_values)[:, None] * array(b)[columns]
        module_of(terms).add.at(array(result), rows, terms)
    return result
