"""Products of vectors."""

from __future__ import annotations

from typing import Any

from .._arrays import array, module_of
from . import TensorType, define_op
from .sizes import axis_of, length_of


def _axis_of_three(name: str, sizes: tuple[int, ...], other: tuple[int, ...], dim: int) -> int:
    """The dimension that a cross product runs along: for -1 the first one of size 3."""
    if sizes != other:
        raise RuntimeError(f"{name}: both tensors must have one size, but got {tuple(sizes)} and {tuple(other)}")
    if dim == -1:
        if 3 not in sizes:
            raise RuntimeError(f"{name}: no dimension of size 3 in a tensor of size {tuple(sizes)}")
        return sizes.index(3)
    dim = axis_of(sizes, dim)
    if length_of(sizes, dim) != 3:
        raise RuntimeError(f"{name}: dimension {dim} must have size 3, but a tensor of size {tuple(sizes)} was given")
    return dim


def _cross(self: Any, other: Any, dim: int) -> Any:
    axis = _axis_of_three("cross", self.size(), other.size(), dim)
    a, b = array(self), array(other)
    return module_of(a).cross(a, b, axis=axis)


def _cross_types(self: TensorType, other: TensorType, dim: int) -> TensorType:
    _axis_of_three("cross", self.sizes, other.sizes, dim)
    if self.dtype != other.dtype:
        raise TypeError(f"cross: all tensors must have one type, but got {self.dtype} and {other.dtype}")
    return self


def _cross_backward(ctx: Any, grad: Any) -> Any:
    dim = ctx.value("dim")
    return (
        ctx.value("other").cross(grad, dim) if ctx.needs("self") else None,
        grad.cross(ctx.value("self"), dim) if ctx.needs("other") else None,
        None,
    )


define_op(
    "cross(Tensor self, Tensor other, int dim=-1)",
    "The cross product of vectors of three elements along `dim`; -1 stands for the first dimension of size 3.",
    forward=_cross,
    types=_cross_types,
    backward=_cross_backward,
    uses={"self": "other", "other": "self"},
)
