"""Kernels of factors against loops over arrays, and what is made of them; mistakes in their arguments."""

import numpy as np
import pytest

import torchlite
from torchlite import _C
from torchlite._ops import matrices


def unpacked(lu):
    return np.tril(lu, -1) + np.eye(lu.shape[-1]), np.triu(lu)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 100])
def test_factors_multiply_to_the_matrix_with_its_rows_exchanged(n, dtype):
    a = np.random.default_rng(n).standard_normal((3, n, n)).astype(dtype)
    lu, pivots = matrices.lu_factor(a)
    assert lu.dtype == dtype
    for one, packed, order in zip(a, lu, matrices.permutations(pivots), strict=True):
        lower, upper = unpacked(packed)
        np.testing.assert_allclose(lower @ upper, one[order], atol=1e-13 if dtype == "float64" else 1e-4)
        assert np.abs(lower).max(initial=0) <= 1


@pytest.mark.parametrize("first, last", [(0, 7), (0, 3), (3, 7), (2, 2)])
def test_a_panel_is_the_same_by_the_kernel_and_by_the_loop_over_arrays(first, last, monkeypatch):
    a = np.random.default_rng(0).standard_normal((2, 7, 7))
    a[1, :, 4] = 0
    results = []
    for module in (np, type("OtherLibrary", (), {"__getattr__": lambda self, name: getattr(np, name)})()):
        monkeypatch.setattr(matrices, "module_of", lambda array, module=module: module)
        factors, pivots = a.copy(), np.zeros((2, 7), "int64")
        matrices._factor_panel(factors, pivots, first, last)
        results.append((factors, pivots))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-14)
    assert results[0][1].tolist() == results[1][1].tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n, columns", [(1, 1), (3, None), (3, 2), (16, 16), (16, 17), (40, 3), (40, None)])
def test_gesv_solves_and_gives_the_factors(n, columns, dtype):
    generator = np.random.default_rng(n)
    a = (generator.standard_normal((n, n)) + (n + 3) * np.eye(n)).astype(dtype)
    b = generator.standard_normal((n, columns) if columns else n).astype(dtype)
    for left in (a, np.asfortranarray(a)):
        x, lu = torchlite.from_numpy(b.copy()).gesv(torchlite.from_numpy(left))
        np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-13 if dtype == "float64" else 1e-5)
        np.testing.assert_array_equal(lu.numpy(), matrices.lu_factor(left[None])[0][0])


def test_gesv_leaves_its_arguments_alone():
    a, b = torchlite.DoubleTensor([[0, 2], [4, 1]]), torchlite.DoubleTensor([[2], [5]])
    assert b.gesv(a)[0].tolist() == [[1], [1]]
    assert a.tolist() == [[0, 2], [4, 1]] and b.tolist() == [[2], [5]]


@pytest.mark.parametrize("n", [2, 16, 40])
def test_gesv_of_a_singular_matrix_is_refused(n):
    a = torchlite.eye(n)
    a[n - 1, n - 1] = 0
    with pytest.raises(RuntimeError, match="gesv: singular matrix"):
        torchlite.ones(n).gesv(a)


def test_the_first_zero_on_a_diagonal_is_named():
    a = np.zeros((1, 3, 3))
    a[0, 0, 0] = a[0, 2, 2] = 1
    assert _C._lu_panel(a, np.zeros((1, 3), "int64"), 0, 3) == 1
    assert _C._lu_panel(np.eye(3)[None].copy(), np.zeros((1, 3), "int64"), 0, 3) == -1


LAYOUTS = {
    "rows": lambda a: a, "columns": np.asfortranarray, "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "gaps": lambda a: np.repeat(a, 2, 1)[:, ::2], "read-only": lambda a: np.frombuffer(a.tobytes()).reshape(a.shape),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("unit", [False, True])
def test_a_triangle_is_solved_whatever_its_layout(layout, upper, unit):
    generator = np.random.default_rng(0)
    for n in (0, 1, 5, 12, 30):
        a = LAYOUTS[layout](generator.standard_normal((n, n)) / max(n, 1) + 2 * np.eye(n))
        triangle = np.triu(a) if upper else np.tril(a)
        if unit:
            triangle = triangle - np.diag(np.diag(a)) + np.eye(n)
        b = generator.standard_normal((n, 3))
        x = b.copy()
        assert _C._solve_triangle(a, x, upper, unit) == -1
        np.testing.assert_allclose(triangle @ x, b, atol=1e-12)
        np.testing.assert_allclose(matrices.solve_triangular("test", a, b, upper, unit), x, atol=1e-12)


def test_a_zero_on_the_diagonal_of_a_triangle_is_named_before_anything_is_written():
    a, x = np.diag([1.0, 0.0, 0.0]), np.ones((3, 1))
    assert _C._solve_triangle(a, x, True, False) == 1 and (x == 1).all()
    with pytest.raises(RuntimeError, match=r"trtrs: A is singular: element \(1, 1\) of its diagonal is 0"):
        torchlite.ones(3, 1).double().trtrs(torchlite.from_numpy(a))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("m, k", [(1, 1), (5, 3), (4, 4), (40, 20), (3, 0)])
def test_reflectors_are_applied_one_after_the_other(m, k, transpose, layout):
    generator = np.random.default_rng(m)
    packed, tau = LAYOUTS[layout](generator.standard_normal((m, max(k, 1)))), generator.standard_normal(k)
    expected = c = generator.standard_normal((m, 4))
    for i in range(k) if transpose else reversed(range(k)):
        v = np.r_[np.zeros(i), 1, packed[i + 1 :, i]]
        expected = expected - tau[i] * np.outer(v, v @ expected)
    found = matrices.apply_reflectors(packed, tau, c, transpose)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


MATRICES, PIVOTS = np.ones((2, 3, 3)), np.zeros((2, 3), "int64")
READ_ONLY = np.frombuffer(np.ones(3).tobytes()).reshape(3, 1)


@pytest.mark.parametrize("call, error", [
    (lambda: _C._lu_panel([[1.0]], PIVOTS, 0, 1), TypeError),
    (lambda: _C._lu_panel(MATRICES.astype("int64"), PIVOTS, 0, 1), TypeError),
    (lambda: _C._lu_panel(MATRICES[0], PIVOTS, 0, 1), TypeError),
    (lambda: _C._lu_panel(MATRICES[:, :, ::2], PIVOTS, 0, 1), TypeError),
    (lambda: _C._lu_panel(MATRICES, PIVOTS.astype("int32"), 0, 1), TypeError),
    (lambda: _C._lu_panel(MATRICES, PIVOTS[:1], 0, 1), ValueError),
    (lambda: _C._lu_panel(MATRICES, PIVOTS, 0, 4), ValueError),
    (lambda: _C._lu_panel(MATRICES, PIVOTS, 2, 1), ValueError),
    (lambda: _C._lu_panel(MATRICES, PIVOTS, -1, 1), ValueError),
    (lambda: _C._lu_solve(MATRICES[0], PIVOTS[0], np.ones((3, 1), "float32")), TypeError),
    (lambda: _C._lu_solve(MATRICES[0], PIVOTS[0], np.ones((2, 1))), ValueError),
    (lambda: _C._lu_solve(MATRICES[0], PIVOTS[0] + 3, np.ones((3, 1))), IndexError),
    (lambda: _C._lu_solve(MATRICES[0], PIVOTS[0] - 1, np.ones((3, 1))), IndexError),
    (lambda: _C._lu_solve(MATRICES[0], PIVOTS[0], READ_ONLY), TypeError),
    (lambda: _C._solve_triangle(MATRICES[0], READ_ONLY, True, False), TypeError),
    (lambda: _C._solve_triangle(MATRICES, np.ones((3, 1)), True, False), TypeError),
    (lambda: _C._solve_triangle(MATRICES[0], np.ones((3, 1), "float32"), True, False), TypeError),
    (lambda: _C._solve_triangle(MATRICES[0].astype(">f8"), np.ones((3, 1)), True, False), TypeError),
    (lambda: _C._solve_triangle(MATRICES[0], np.ones((2, 1)), True, False), ValueError),
    (lambda: _C._apply_reflectors(MATRICES[0], np.ones(4), np.ones((3, 1)), True), ValueError),
    (lambda: _C._apply_reflectors(MATRICES[0], np.ones(2), np.ones((4, 1)), True), ValueError),
    (lambda: _C._apply_reflectors(MATRICES[0], np.ones(4)[::2], np.ones((3, 1)), True), TypeError),
    (lambda: _C._apply_reflectors(MATRICES[0], np.ones(2), READ_ONLY, True), TypeError),
])
def test_arrays_that_do_not_fit_are_refused(call, error):
    with pytest.raises(error, match="_lu_|_solve_triangle|_apply_reflectors"):
        call()
    assert (MATRICES == 1).all() and (PIVOTS == 0).all()
