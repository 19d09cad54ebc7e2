"""Factors of matrices: what defines them, whatever signs the computation chose; batches, types, gradients, mistakes."""

import numpy as np
import pytest

import torchlite
from torchlite import DoubleTensor, FloatTensor, HalfTensor, IntTensor, Variable
from torchlite.autograd import gradcheck

SIZES = [(5, 3), (3, 5), (4, 4), (1, 1), (1, 4), (40, 35)]


def array(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


def matrix(*shape, seed=0):
    return torchlite.from_numpy(array(*shape, seed=seed))


def close(a, b, tol=1e-10):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=0, atol=tol)


# ---- identities -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("m, n", SIZES)
def test_qr(m, n):
    a, k = matrix(m, n), min(m, n)
    q, r = a.qr()
    assert q.size() == (m, k) and r.size() == (k, n)
    close(q.mm(r), a)
    close(q.t().mm(q), np.eye(k))
    assert not np.tril(r.numpy(), -1).any()


@pytest.mark.parametrize("m, n", SIZES)
@pytest.mark.parametrize("some", [True, False])
def test_svd(m, n, some):
    a, k = matrix(m, n), min(m, n)
    u, s, v = a.svd(some)
    assert u.size() == (m, k if some else m) and v.size() == (n, k if some else n) and s.size() == (k,)
    close(u[:, :k].mm(s.diag()).mm(v[:, :k].t()), a)
    close(u.t().mm(u), np.eye(u.size(1)))
    close(v.t().mm(v), np.eye(v.size(1)))
    assert (np.diff(s.numpy()) <= 0).all() and min(s) >= 0


@pytest.mark.parametrize("upper", [True, False])
def test_symeig_of_one_triangle(upper):
    a = matrix(6, 6)
    half = np.triu(a.numpy()) if upper else np.tril(a.numpy())
    whole = half + half.T - np.diag(np.diag(half))
    e, v = a.symeig(True, upper)
    close(whole @ v.numpy(), v.numpy() * e.numpy())
    close(v.t().mm(v), np.eye(6))
    alone, none = a.symeig(upper=upper)
    close(alone, e)
    assert none.numel() == 0


def test_eig_packs_conjugate_pairs():
    a = matrix(7, 7)
    e, v = a.eig(True)
    e, v, j, pairs = e.numpy(), v.numpy(), 0, 0
    while j < 7:
        value, vector, step = complex(*e[j]), v[:, j] + 0j, 1
        if value.imag:
            vector, step, pairs = v[:, j] + 1j * v[:, j + 1], 2, pairs + 1
            assert value.imag > 0 and complex(*e[j + 1]) == value.conjugate()
        close(a.numpy() @ vector, value * vector)
        j += step
    assert pairs > 0
    close(sorted(map(tuple, a.eig()[0].tolist())), sorted(map(tuple, e.tolist())))
    assert a.eig()[1].numel() == 0


@pytest.mark.parametrize("m, n", SIZES)
def test_reflectors_make_the_factors_of_qr(m, n):
    a, k = matrix(m, n), min(m, n)
    packed, tau = a.geqrf()
    q = packed.ormqr(tau, DoubleTensor(np.eye(m)))
    close(q.t().mm(q), np.eye(m))
    close(q[:, :k].mm(packed[:k].triu()), a)
    c = matrix(m, 2, seed=1)
    close(packed.ormqr(tau, c, True, True), q.t().mm(c))
    close(packed.ormqr(tau, c.t(), False), c.t().mm(q))
    close(packed.ormqr(tau, c.t(), left=False, transpose=True), c.t().mm(q.t()))
    if m >= n:
        close(packed.orgqr(tau), q[:, :n])


def test_gels_is_least_squares():
    a, b = matrix(6, 3), matrix(6, 2, seed=1)
    x, _ = b.gels(a)
    close(x[:3], np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)[0])
    close((x[3:] * x[3:]).sum(0), ((a.mm(x[:3]) - b) ** 2).sum(0))
    a, b = matrix(3, 6), matrix(3, 2, seed=1)
    x, _ = torchlite.gels(b, a)
    close(x, np.linalg.pinv(a.numpy()) @ b.numpy())


def test_potri_inverts_from_the_factor():
    a = matrix(5, 5)
    a = a.mm(a.t()) + DoubleTensor(np.eye(5))
    for upper in (True, False):
        close(a.potrf(upper).potri(upper).mm(a), np.eye(5))


@pytest.mark.parametrize("rank", [1, 3, 5])
@pytest.mark.parametrize("upper", [True, False])
def test_pstrf_finds_the_rank(rank, upper):
    b = matrix(5, rank)
    a = b.mm(b.t())
    u, piv = a.pstrf(upper)
    assert type(piv) is IntTensor and sorted(piv) == list(range(5))
    order = piv.long()
    permuted = a.index_select(0, order).index_select(1, order)
    close(u.t().mm(u) if upper else u.mm(u.t()), permuted)
    assert np.count_nonzero(np.diag(u.numpy())) == rank


@pytest.mark.parametrize("n", [1, 3, 40])
def test_btrifact_btrisolve_and_btriunpack_agree(n):
    a, b = matrix(4, n, n), matrix(4, n, seed=1)
    info = IntTensor()
    lu, pivots = a.btrifact(info=info)
    assert type(pivots) is IntTensor and info.tolist() == [0] * 4
    p, low, up = torchlite.btriunpack(lu, pivots)
    close(p.bmm(low).bmm(up), a)
    x = b.btrisolve(lu, pivots)
    close(a.bmm(x.unsqueeze(2)).squeeze(2), b)
    wide = matrix(4, n, 3, seed=2)
    close(a.bmm(torchlite.btrisolve(wide, lu, pivots)), wide)


def test_btriunpack_leaves_out_what_is_not_wanted():
    lu, pivots = matrix(2, 3, 3).btrifact()
    assert torchlite.btriunpack(lu, pivots, unpack_data=False)[1:] == (None, None)
    assert torchlite.btriunpack(lu, pivots, unpack_pivots=False)[0] is None


def test_btrifact_names_the_singular_matrices():
    a, info = DoubleTensor([[[1, 2], [3, 4]], [[1, 2], [2, 4]], [[0, 1], [0, 2]]]), IntTensor(7)
    lu, pivots = a.btrifact(info)
    assert info.tolist() == [0, 2, 1]
    with pytest.raises(RuntimeError, match="btrisolve: A is singular"):
        DoubleTensor(3, 2).zero_().btrisolve(lu, pivots)


# ---- gradients and types --------------------------------------------------------------------------------------------


def test_gradients_that_do_not_depend_on_signs():
    x = Variable(matrix(4, 3), requires_grad=True)
    square = Variable(matrix(3, 3), requires_grad=True)
    assert gradcheck(lambda v: v.qr()[1] ** 2, (x,)) and gradcheck(lambda v: v.qr()[0].abs(), (x,))
    for f in (lambda v: v.svd()[1].log(), lambda v: v.svd()[0] ** 2, lambda v: v.t().svd()[2].abs()):
        assert gradcheck(f, (x,))
    assert gradcheck(lambda v: (v + v.t()).symeig()[0], (square,))
    assert gradcheck(lambda v: (v + v.t()).symeig(True)[1] ** 2, (square,))
    # The nuclear norm's gradient is U V^T.
    u, _, v = x.svd()
    x.svd()[1].sum().backward()
    close(x.grad.data, u.mm(v.t()).data)


@pytest.mark.parametrize("call, message", [
    (lambda v: v.t().qr()[0], "qr: there is no gradient for a matrix with fewer rows than columns, 2 and 3"),
    (lambda v: v.svd(False)[0], "svd: there is no gradient of the columns beyond the singular values"),
])
def test_what_has_no_gradient_says_so(call, message):
    x = Variable(matrix(3, 2), requires_grad=True)
    with pytest.raises(RuntimeError, match=message):
        call(x).sum().backward()
    assert x.grad is None


CALLS = {
    "qr": (), "svd": (), "symeig": (True,), "eig": (True,), "geqrf": (), "potri": (), "pstrf": (),
}


@pytest.mark.parametrize("name, args", CALLS.items())
def test_results_have_the_type_of_the_matrix(name, args):
    for cls in (HalfTensor, FloatTensor, DoubleTensor):
        a = cls([[4, 1], [1, 3]])
        out, wide = getattr(a, name)(*args), getattr(DoubleTensor([[4, 1], [1, 3]]), name)(*args)
        out, wide = (o if isinstance(o, tuple) else (o,) for o in (out, wide))
        for o, w in zip(out, wide, strict=True):
            assert type(o) is (cls if type(w) is DoubleTensor else type(w))
            close(o, w, 5e-3)
        assert type(getattr(torchlite, name)(Variable(a), *args)) is (tuple if len(out) > 1 else Variable)


# ---- mistakes -------------------------------------------------------------------------------------------------------

WIDE = DoubleTensor([[1, 2, 3], [4, 5, 6]])
CUBE = DoubleTensor(2, 3, 3).fill_(1)
PIVOTS = IntTensor([[1, 2, 3], [1, 2, 3]])


@pytest.mark.parametrize("call, message", [
    (lambda: CUBE.qr(), r"qr: self must be a matrix, but it has size \(2, 3, 3\)"),
    (lambda: CUBE[0][0].svd(), r"svd: self must be a matrix, but it has size \(3,\)"),
    (lambda: WIDE.symeig(), r"symeig: self must be a square matrix, but it has size \(2, 3\)"),
    (lambda: WIDE.eig(), "eig: self must be a square matrix"), (lambda: WIDE.potri(), "potri: self must be a square"),
    (lambda: WIDE.pstrf(), "pstrf: self must be a square matrix"),
    (lambda: (CUBE[0] / 0).eig(), "eig: .*infs or NaNs"),
    (lambda: (CUBE[0] * -1).pstrf(), "pstrf: the matrix is not positive semidefinite"),
    (lambda: CUBE[0].triu(1).potri(), r"potri: A is singular: element \(0, 0\) of its diagonal is 0"),
    (lambda: WIDE.orgqr(DoubleTensor([1])), r"orgqr: self must not have more columns than rows, but it has size \(2,"),
    (lambda: WIDE.t().orgqr(DoubleTensor([1, 2, 3])), r"tau must be a vector of at most 2 elements for a matrix"),
    (lambda: WIDE.ormqr(DoubleTensor([1]), WIDE.t()), r"ormqr: mat must have 2 rows for reflectors of size"),
    (lambda: WIDE.ormqr(DoubleTensor([1]), WIDE, False), "ormqr: mat must have 2 columns for reflectors"),
    (lambda: WIDE.gels(CUBE[0]), r"gels: self must have 3 rows like A of size \(3, 3\), but it has size \(2, 3\)"),
    (lambda: CUBE[0].gels(CUBE[0].triu(1)), "gels: A is singular"),
    (lambda: WIDE.btrifact(), r"btrifact: self must be a batch of square matrices, but it has size \(2, 3\)"),
    (lambda: CUBE.btrifact(pivot=False), "btrifact: factors without pivoting are unstable: pivot must be True"),
    (lambda: WIDE.t().btrisolve(CUBE, PIVOTS), "btrisolve: self must be a batch of vectors or matrices with 3 rows"),
    (lambda: WIDE.btrisolve(CUBE, PIVOTS[:1]), r"btrisolve: LU_pivots must have size \(2, 3\) like LU_data of size"),
    (lambda: WIDE.btrisolve(CUBE, PIVOTS + 1), r"btrisolve: LU_pivots must lie between 1 and 3, but are in \[2, 4\]"),
    (lambda: torchlite.btriunpack(CUBE, PIVOTS - 1), r"btriunpack: LU_pivots must lie between 1 and 3, but are in \[0"),
])
def test_wrong_values_are_refused(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


@pytest.mark.parametrize("call, message", [
    (lambda: WIDE.ormqr(FloatTensor([1]), WIDE), "ormqr: all tensors must have one type, but got float64 and float32"),
    (lambda: WIDE.btrisolve(CUBE, FloatTensor([[1, 2, 3]] * 2)), "LU_pivots must be an IntTensor, but is FloatTensor"),
    (lambda: torchlite.btriunpack(CUBE, None), "btriunpack: LU_pivots must be a tensor, but is NoneType"),
    (lambda: CUBE.btrifact(FloatTensor()), "btrifact: info must be an IntTensor, but is FloatTensor"),
    (lambda: WIDE.gels(), "gels"), (lambda: WIDE.qr(1, 2), "qr"),
])
def test_arguments_of_other_types_are_refused(call, message):
    with pytest.raises(TypeError, match=message):
        call()
