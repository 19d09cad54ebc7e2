"""Operations on matrices beyond their values: identities of the results, types, gradients, mistakes."""

import numpy as np
import pytest

import torchlite
from torchlite import DoubleTensor, FloatTensor, HalfTensor, IntTensor, LongTensor, Variable, jit
from torchlite.autograd import gradcheck, gradgradcheck


def matrix(*shape, dtype=np.float64, seed=0):
    return torchlite.from_numpy(np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype))


def definite(n, dtype=np.float64):
    a = matrix(n, n, dtype=dtype).numpy()
    return torchlite.from_numpy(a @ a.T + np.eye(n, dtype=dtype))


def close(a, b, tol=1e-10):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=tol)


# ---- systems ---------------------------------------------------------------------------------------------------------


def test_gesv_takes_the_right_side_first():
    a, b = matrix(4, 4), matrix(4, 2, seed=1)
    x, lu = b.gesv(a)
    close(a.mm(x), b)
    for again in (torchlite.gesv(b, a), [v.data for v in torchlite.gesv(Variable(b), Variable(a))]):
        close(again[0], x)
        close(again[1], lu)


@pytest.mark.parametrize("n", [1, 5, 32, 33, 100])
def test_the_packed_factors_multiply_to_the_rows_of_the_matrix(n):
    a = matrix(n, n)
    lu = np.asarray(matrix(n, 1).gesv(a)[1])
    product = (np.tril(lu, -1) + np.eye(n)) @ np.triu(lu)
    # Pivoting permutes the rows of A: each row of L U is one of them.
    distance = abs(product[:, None] - a.numpy()[None]).max(-1)
    assert sorted(distance.argmin(1)) == list(range(n)) and distance.min(1).max() < 1e-10
    assert abs(np.tril(lu, -1)).max(initial=0) <= 1


def test_the_factors_have_no_gradient():
    x, lu = Variable(matrix(3, 1), requires_grad=True).gesv(Variable(matrix(3, 3), requires_grad=True))
    assert x.requires_grad and not lu.requires_grad


@pytest.mark.parametrize("upper", [True, False])
@pytest.mark.parametrize("transpose", [True, False])
def test_trtrs_reads_one_triangle(upper, transpose):
    a, b = matrix(5, 5) + DoubleTensor([2] * 5).diag(), matrix(5, 2, seed=1)
    half = a.triu() if upper else a.tril()
    x, copy = b.trtrs(a, upper, transpose)
    close((half.t() if transpose else half).mm(x), b)
    assert copy.tolist() == a.tolist() and copy.data_ptr() != a.data_ptr()


def test_potrs_solves_with_the_factor_of_potrf():
    a, b = definite(5), matrix(5, 2)
    for upper in (True, False):
        close(a.mm(b.potrs(a.potrf(upper), upper)), b)


def test_potrf_reads_one_triangle_and_its_gradient_is_of_it():
    a = definite(3)
    for upper in (True, False):
        spoiled = a.triu() if upper else a.tril()
        close(spoiled.potrf(upper), a.potrf(upper))
        x = Variable(a.clone(), requires_grad=True)
        x.potrf(upper).sum().backward()
        other = x.grad.data.tril(-1) if upper else x.grad.data.triu(1)
        assert abs(other).sum() == 0 and abs(x.grad.data).sum() > 0


def test_gradients_flow_from_a_product_through_the_factor():
    x = Variable(matrix(3, 3), requires_grad=True)
    eye = Variable(torchlite.eye(3).double())
    for upper in (True, False):
        f = lambda v, upper=upper: (v.mm(v.t()) + eye).potrf(upper)  # noqa: E731
        assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))
    assert gradcheck(lambda v: (v + eye * 3).inverse().trace(), (x,))


@pytest.mark.parametrize("p", [1, 2, 3, float("inf")])
def test_renorm_leaves_short_rows_alone(p):
    t = DoubleTensor([[3, 4], [0.1, 0.2], [0, 0]])
    r = t.renorm(p, 0, 1)
    close(r[0].norm(p), 1, 1e-6)
    assert r[1:].tolist() == t[1:].tolist()
    same = t.clone()
    assert same.renorm_(p, 0, 1) is same and same.tolist() == r.tolist()


def test_renorm_of_zero_rows_has_a_finite_gradient():
    for p in (1, 2, 2.5, float("inf")):
        x = Variable(DoubleTensor([[3, 4], [0, 0]]), requires_grad=True)
        x.renorm(p, 0, 0.5).sum().backward()
        assert np.isfinite(x.grad.data.numpy()).all() and x.grad.data[1].tolist() == [1, 1]


# ---- types -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [
    lambda a: a.inverse(), lambda a: a.gesv(a)[0], lambda a: a.gesv(a)[1], lambda a: a.potrf(),
    lambda a: a.trtrs(a)[0], lambda a: a.potrs(a),
])
def test_results_have_the_type_of_the_arguments(call):
    for cls in (HalfTensor, FloatTensor, DoubleTensor):
        a = cls([[4, 1], [1, 3]])
        assert type(call(a)) is cls
        close(call(a), call(DoubleTensor([[4, 1], [1, 3]])), 2e-3)
    assert type(call(LongTensor([[4, 1], [1, 3]]))) is DoubleTensor


def test_mixed_types_are_refused():
    with pytest.raises(TypeError, match="gesv: all tensors must have one type, but got float64 and float32"):
        matrix(2, 1).gesv(FloatTensor([[1, 2], [3, 4]]))
    with pytest.raises(TypeError, match="renorm: self must have a floating type, but is IntTensor"):
        IntTensor([[1, 2]]).renorm(2, 0, 1)


def test_they_are_traced_and_replayed():
    a = Variable(definite(3), requires_grad=True)
    lam = jit.make_lambda(lambda v: v.inverse().mm(v.potrf()) + v.gesv(v)[0] + v.renorm(2, 0, 1), (a,))
    assert jit.parse(str(lam)) == lam
    b = Variable(definite(3) * 2)
    (out,) = Variable._execution_engine.run_forward(lam, (b,))
    close(out.data, (b.inverse().mm(b.potrf()) + b.gesv(b)[0] + b.renorm(2, 0, 1)).data)


# ---- mistakes --------------------------------------------------------------------------------------------------------

SINGULAR = DoubleTensor([[1, 2], [2, 4]])
WIDE = DoubleTensor([[1, 2, 3], [4, 5, 6]])


@pytest.mark.parametrize("call, message", [
    (lambda: SINGULAR.inverse(), "inverse: singular matrix"),
    (lambda: SINGULAR.gesv(SINGULAR), "gesv: singular matrix"),
    (lambda: DoubleTensor([[1, 2], [2, 0]]).potrf(), "potrf: the leading minor of order 2 is not positive definite"),
    (lambda: DoubleTensor([[1, 0, 0], [0, -1, 0], [0, 0, 1]]).potrf(False), "the leading minor of order 2 is not"),
    (lambda: SINGULAR.trtrs(DoubleTensor([[1, 2], [3, 0]])), r"A is singular: element \(1, 1\) of its diagonal is 0"),
    (lambda: WIDE.inverse(), r"inverse: self must be a square matrix, but it has size \(2, 3\)"),
    (lambda: DoubleTensor([1]).inverse(), r"inverse: self must be a matrix, but it has size \(1,\)"),
    (lambda: WIDE.gesv(WIDE), r"gesv: A must be a square matrix, but it has size \(2, 3\)"),
    (lambda: WIDE.t().gesv(SINGULAR), r"gesv: self must be a matrix or vector with 2 rows like A of size"),
    (lambda: WIDE.trtrs(WIDE), r"trtrs: A must be a square matrix, but it has size \(2, 3\)"),
    (lambda: WIDE.potrf(), "potrf: self must be a square matrix"),
    (lambda: WIDE.potrs(WIDE), "potrs: the factor must be a square matrix"),
    (lambda: DoubleTensor([1, 2]).renorm(2, 0, 1), r"self must have at least 2 dimensions, but it has size \(2,\)"),
    (lambda: WIDE.renorm(0, 0, 1), "renorm: p must be positive, but got 0"),
    (lambda: WIDE.renorm(2, 2, 1), "dimension out of range"),
    (lambda: WIDE.renorm(2, 0, -1), "renorm: maxnorm must not be negative, but got -1"),
])
def test_wrong_values_are_refused(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()
