"""Elementwise rows and reductions against NumPy over shapes, strides and types that hypothesis makes up."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import torchlite
from torchlite.autograd import Variable

DTYPES = [np.float32, np.float64, np.int64, np.int32, np.uint8, np.float16]
OPERATIONS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "maximum": np.maximum, "lt": np.less}


@st.composite
def views(draw: st.DrawFn, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of this shape that is a permuted, stepped or reversed view of a larger one."""
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from([1, 1, 2, -1, -2])) for _ in shape]
    whole = np.empty([abs(steps[d]) * shape[d] for d in order], dtype)
    whole[...] = draw(st.integers(0, 3)) + np.arange(whole.size).reshape(whole.shape) % 7
    view = whole.transpose(np.argsort(order))[(..., *(slice(None, None, s) for s in steps))]
    return view


@st.composite
def operands(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    shapes = draw(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, max_side=4)).input_shapes
    a, b = (draw(views(shape, draw(st.sampled_from(DTYPES)))) for shape in shapes)
    return a, b


@pytest.mark.parametrize("name", OPERATIONS)
@given(ab=operands())
def test_binary_operations_are_numpys(name: str, ab: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = ab
    expected = np.asarray(OPERATIONS[name](a, b))
    if expected.dtype == np.bool_:
        expected = expected.astype(np.uint8)
    got = getattr(torchlite, name)(torchlite.from_numpy(a), torchlite.from_numpy(b)).numpy()
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@given(ab=operands())
def test_in_place_addition_writes_what_numpy_writes_or_nothing(ab: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = ab
    expected, before = a.copy(), a.copy()
    t, other = torchlite.from_numpy(a), torchlite.from_numpy(b.copy())
    try:
        np.add(expected, b, out=expected, casting="same_kind")
    except (ValueError, TypeError):
        paired = a.size == b.size > 0 and a.ndim and b.ndim
        with pytest.raises((RuntimeError, TypeError, UserWarning) if paired else (RuntimeError, TypeError)):
            t.add_(other)
        np.testing.assert_array_equal(a, before)
    else:
        t.add_(other)
        np.testing.assert_array_equal(a, expected)


@given(ab=operands())
def test_gradients_of_broadcast_operands_are_sums(ab: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = (x.astype(np.float64) for x in ab)
    x, y = (Variable(torchlite.from_numpy(v), requires_grad=True) for v in (a, b))
    z = x * y
    if z.data.numel() == 0:
        return
    z.sum().backward()
    whole_a, whole_b = np.broadcast_arrays(a, b)
    for v, own, other in ((x, a, whole_b), (y, b, whole_a)):
        lead = other.ndim - own.ndim
        axes = tuple(range(lead)) + tuple(lead + d for d, s in enumerate(own.shape) if s == 1)
        np.testing.assert_allclose(v.grad.data.numpy(), other.sum(axes).reshape(own.shape))


@pytest.mark.parametrize("name", ["sum", "mean", "max"])
@given(data=st.data())
def test_reductions_are_numpys(name: str, data: st.DataObject) -> None:
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=4, max_side=4))
    a = data.draw(views(shape, data.draw(st.sampled_from([np.float32, np.float64, np.int64]))))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    keepdim = data.draw(st.booleans())
    expected = np.atleast_1d(getattr(np, name)(a, axis=dim, keepdims=keepdim))
    got = getattr(torchlite.from_numpy(a), name)(dim, keepdim=keepdim)
    got = (got[0] if isinstance(got, tuple) else got).numpy()
    assert got.shape == expected.shape and got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)
