"""The forms in which the era called operations: leading factors, keywords, several signatures under one name."""

from __future__ import annotations

import numpy as np
import pytest

import torchlite
from torchlite import LongTensor, Variable

A = np.array([[1.0, 2], [3, 4]], np.float32)
B = np.array([[5.0, 6], [7, 8]], np.float32)
U, W = np.array([1.0, 2], np.float32), np.array([3.0, 4], np.float32)
BATCH = np.stack([A, B])
MASK = np.array([[1, 0], [0, 1]], np.uint8)
ROWS = np.array([1, 0])
PICK = np.array([[1, 0]])


def changed(at, values, base=A):
    out = base.copy()
    out[at] = values
    return out


# Each form is called with tensors a, b, u, w ... in place of the arrays, once on tensors and once on Variables.
FORMS = {
    # add and sub: `value` is the operand, or the factor of one
    "t.add(a, 2)": A + 2,
    "a.add(2)": A + 2,
    "a.add(value=2)": A + 2,
    "a.add(b)": A + B,
    "a.add(other=b)": A + B,
    "a.add(2, b)": A + 2 * B,
    "a.add(2, other=b)": A + 2 * B,
    "a.add(value=2, other=b)": A + 2 * B,
    "a.add(other=b, value=2)": A + 2 * B,
    "a.add(b, value=2)": A + 2 * B,
    "t.add(a, 2, b)": A + 2 * B,
    "t.add(a, b, value=2)": A + 2 * B,
    "t.add(a, value=2)": A + 2,
    "t.add(input=a, other=b)": A + B,
    "a.add_(2, b)": A + 2 * B,
    "a.sub(2, b)": A - 2 * B,
    "a.sub(value=2)": A - 2,
    "t.sub(a, 2, b)": A - 2 * B,
    "a.sub_(b)": A - B,
    # two operands
    "a.mul(2)": A * 2,
    "a.mul(value=2)": A * 2,
    "a.mul(other=b)": A * B,
    "a.div(value=2)": A / 2,
    "t.div(a, b)": A / B,
    "a.fmod(value=2)": np.fmod(A, 2),
    "a.remainder(other=b)": A % B,
    "a.pow(2)": A**2,
    "a.pow(exponent=2)": A**2,
    "a.pow(b)": A**B,
    "t.pow(2, a)": 2**A,
    "t.pow(a, b)": A**B,
    "t.atan2(a, b)": np.arctan2(A, B),
    "a.lerp(b, 0.5)": A + 0.5 * (B - A),
    "a.lerp(end=b, weight=0.5)": A + 0.5 * (B - A),
    "a.clamp(2, 3)": A.clip(2, 3),
    "a.clamp(min=2)": A.clip(2),
    "t.clamp(a, max=2)": A.clip(None, 2),
    "a.eq(value=1)": (A == 1).astype(np.uint8),
    "t.gt(a, 2)": (A > 2).astype(np.uint8),
    "t.le(a, other=b)": (A <= B).astype(np.uint8),
    "a.ge(2)": (A >= 2).astype(np.uint8),
    # a product added
    "a.addcmul(a, b)": A + A * B,
    "a.addcmul(2, a, b)": A + 2 * A * B,
    "a.addcmul(value=2, tensor1=a, tensor2=b)": A + 2 * A * B,
    "t.addcmul(a, 2, a, b)": A + 2 * A * B,
    "t.addcdiv(a, 2, a, b)": A + 2 * A / B,
    "a.addmm(a, b)": A + A @ B,
    "a.addmm(2, a, b)": 2 * A + A @ B,
    "a.addmm(2, 3, a, b)": 2 * A + 3 * (A @ B),
    "a.addmm(beta=2, alpha=3, mat1=a, mat2=b)": 2 * A + 3 * (A @ B),
    "t.addmm(a, a, b)": A + A @ B,
    "t.addmm(2, a, a, b)": 2 * A + A @ B,
    "t.addmm(a, 3, a, b)": A + 3 * (A @ B),
    "t.addmm(2, a, 3, a, b)": 2 * A + 3 * (A @ B),
    "a.addmm_(2, 3, a, b)": 2 * A + 3 * (A @ B),
    "u.addmv(2, 3, a, u)": 2 * U + 3 * (A @ U),
    "t.addmv(u, 3, a, u)": U + 3 * (A @ U),
    "a.addr(2, 3, u, w)": 2 * A + 3 * np.outer(U, W),
    "t.addr(2, a, u, w)": 2 * A + np.outer(U, W),
    "t.addbmm(2, a, 3, batch, batch)": 2 * A + 3 * (BATCH @ BATCH).sum(0),
    "a.addbmm(batch, batch)": A + (BATCH @ BATCH).sum(0),
    "batch.baddbmm(2, 3, batch, batch)": 2 * BATCH + 3 * (BATCH @ BATCH),
    "t.baddbmm(batch, 3, batch, batch)": BATCH + 3 * (BATCH @ BATCH),
    "t.bmm(batch, batch)": BATCH @ BATCH,
    "a.mv(u)": A @ U,
    "t.ger(u, w)": np.outer(U, W),
    "t.matmul(a, u)": A @ U,
    # along a dimension
    "a.sum(1)": A.sum(1),
    "a.sum(dim=1, keepdim=True)": A.sum(1, keepdims=True),
    "t.sum(a, -1, True)": A.sum(1, keepdims=True),
    "a.prod(0)": A.prod(0),
    "a.mean(1, keepdim=True)": A.mean(1, keepdims=True),
    "a.norm(2, 1)": np.sqrt((A**2).sum(1)),
    "a.norm(p=1, dim=0, keepdim=True)": A.sum(0, keepdims=True),
    "a.std(0)": A.std(0, ddof=1),
    "a.std(0, False)": A.std(0),
    "a.var(0, unbiased=False, keepdim=True)": A.var(0, keepdims=True),
    "t.var(a, 1)": A.var(1, ddof=1),
    "a.max(1)": (A.max(1), np.array([1, 1])),
    "a.max(1, True)": (A.max(1, keepdims=True), np.array([[1], [1]])),
    "t.min(a, 0, keepdim=True)": (A.min(0, keepdims=True), np.array([[0, 0]])),
    "a.max(b)": np.maximum(A, B),
    "a.max(other=b)": np.maximum(A, B),
    "t.min(a, b)": np.minimum(A, B),
    "a.cumsum(0)": A.cumsum(0),
    "t.cumprod(a, dim=1)": A.cumprod(1),
    # positions
    "a.index_select(0, rows)": A[ROWS],
    "t.index_select(a, 1, index=rows)": A[:, ROWS],
    "a.index_add(0, rows, b)": A + B[ROWS],
    "a.index_add_(0, rows, src=b)": A + B[ROWS],
    "a.index_copy_(0, rows, b)": B[ROWS],
    "a.index_fill_(0, rows, 9)": np.full_like(A, 9),
    "a.index_fill_(0, rows, value=9)": np.full_like(A, 9),
    "t.gather(a, 0, pick)": np.array([[3, 2]], np.float32),
    "a.scatter_(0, pick, 9)": changed(([1, 0], [0, 1]), 9),
    "a.scatter_(0, pick, value=9)": changed(([1, 0], [0, 1]), 9),
    "a.scatter_(0, pick, src=b[:1])": changed(([1, 0], [0, 1]), [5, 6]),
    "a.masked_fill_(mask, 0)": A * (1 - MASK),
    "a.masked_fill_(mask, value=0)": A * (1 - MASK),
    "a.masked_scatter_(mask, u)": changed(([0, 1], [0, 1]), [1, 2]),
    "t.masked_select(a, mask)": A[MASK == 1],
    "a.diag()": A.diagonal(),
    "u.diag(1)": np.diag(U, 1),
    "a.diag(diagonal=1)": A.diagonal(1),
    "a.tril(k=-1)": np.tril(A, -1),
    "t.triu(a, diagonal=1)": np.triu(A, 1),
    "a.tril_()": np.tril(A),
    "a.triu_(1)": np.triu(A, 1),
    "t.cat([a, b], 1)": np.concatenate([A, B], 1),
    "t.cat((a, b), dim=-1)": np.concatenate([A, B], 1),
    "t.stack([u, w], 1)": np.stack([U, W], 1),
    "t.t(a)": A.T,
    "t.transpose(a, 0, 1)": A.T,
}


@pytest.mark.parametrize("variables", [False, True], ids=["tensors", "Variables"])
@pytest.mark.parametrize("form", FORMS)
def test_a_form_of_the_era(form, variables):
    arrays = {"a": A, "b": B, "u": U, "w": W, "batch": BATCH, "mask": MASK, "rows": ROWS, "pick": PICK}
    arguments = {name: torchlite.from_numpy(array.copy()) for name, array in arrays.items()}
    if variables:
        arguments = {name: Variable(t) for name, t in arguments.items()}
    got = eval(form, {"t": torchlite, **arguments})
    expected = FORMS[form]
    for g, e in zip(*((x if isinstance(x, tuple) else (x,)) for x in (got, expected)), strict=True):
        values = (g.data if variables else g).numpy()
        assert values.dtype == e.dtype
        np.testing.assert_allclose(values, e, rtol=1e-6)


a, u, w = (torchlite.from_numpy(x.copy()) for x in (A, U, W))

NUMBERS = {
    "sum": (lambda: a.sum(), 10.0), "prod": (lambda: torchlite.prod(a), 24.0), "mean": (lambda: a.mean(), 2.5),
    "max": (lambda: a.max(), 4.0), "min": (lambda: a.min(), 1.0), "norm": (lambda: a.norm(1), 10.0),
    "std": (lambda: a.std(False), A.std()), "var": (lambda: a.var(unbiased=True), A.var(ddof=1)),
    "dist": (lambda: a.dist(a, 1), 0.0), "trace": (lambda: a.trace(), 5.0), "dot": (lambda: torchlite.dot(u, w), 11.0),
    "matmul": (lambda: u.matmul(w), 11.0), "@": (lambda: u @ w, 11.0),
    "sum of integers": (lambda: LongTensor([1, 2]).sum(), 3), "matmul of integers": (
        lambda: LongTensor([1, 2]) @ LongTensor([3, 4]), 11),
    "max of integers": (lambda: LongTensor([1, 2]).max(), 2),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_full_reduction_of_a_tensor_is_a_number(name):
    f, expected = NUMBERS[name]
    got = f()
    assert type(got) is type(expected) or isinstance(expected, np.floating) and type(got) is float
    assert got == pytest.approx(expected, rel=1e-6)


def test_of_variables_it_is_a_variable_of_one_element():
    x, y = Variable(u), Variable(w)
    for v in (x.sum(), x.dot(y), x.matmul(y), x @ y, x.max()):
        assert isinstance(v, Variable) and v.size() == (1,)


WRONG = {
    "add without an operand": (lambda: a.add(), "add", "()", "argument 'other' is missing"),
    "a word": (lambda: a.mul("x"), "mul", "(str)",
               "argument 'other' must be a Variable, a tensor or a number, not str"),
    "a tensor for a number": (lambda: a.clamp(u), "clamp", "(torchlite.FloatTensor)",
                              "argument 'min' must be a number or None, not torchlite.FloatTensor"),
    "too many": (lambda: a.mm(a, a), "mm", "(torchlite.FloatTensor, torchlite.FloatTensor)", "2 positional arguments"),
    "an unknown keyword": (lambda: a.sum(dims=1), "sum", "(dims=int)", "unexpected keyword argument 'dims'"),
    "a keyword twice": (lambda: a.mul(a, other=a), "mul", "(torchlite.FloatTensor, other=torchlite.FloatTensor)",
                        "1 positional arguments"),
    "value twice": (lambda: a.add(1, 2, value=3), "add", "(int, int, value=int)", ""),
    "a number in a list": (lambda: torchlite.cat([a, 3]), "cat", "(list)", "element 1 of argument 'tensors'"),
    "no tensor at all": (lambda: torchlite.sum(), "sum", "()", "argument 'self' is missing"),
    "a fraction for a dimension": (lambda: a.index_select(0.5, LongTensor([0])), "index_select",
                                   "(float, torchlite.LongTensor)", "argument 'dim' must be an int, not float"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_call_lists_what_was_given_and_what_is_expected(name):
    call, op, given, why = WRONG[name]
    with pytest.raises(TypeError) as raised:
        call()
    text = str(raised.value)
    expected = f"{op} received an invalid combination of arguments - got {given}, but expected one of: {op}("
    assert text.startswith(expected)
    assert why in text
