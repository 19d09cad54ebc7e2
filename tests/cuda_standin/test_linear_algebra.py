"""Linear algebra on a device says what the solver reports, which CuPy asks for only where it is told to."""

import numpy as np
import pytest
from devices import tensor, values

import torchlite

pytestmark = pytest.mark.usefixtures("lib")
SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])


@pytest.mark.parametrize("operation", [
    lambda a: a.inverse(), lambda a: torchlite.gesv(tensor(np.ones((2, 1))), a),
], ids=["inverse", "gesv"])
def test_a_singular_matrix_is_an_error(operation):
    with pytest.raises(RuntimeError, match="singular matrix"):
        operation(tensor(SINGULAR))


def test_a_matrix_without_a_cholesky_factor_is_an_error_that_names_the_minor():
    with pytest.raises(RuntimeError, match="potrf: the leading minor of order 2 is not positive definite"):
        tensor(np.array([[1.0, 2.0], [2.0, 1.0]])).potrf()


def test_what_the_caller_has_chosen_for_cupy_comes_back(lib):
    with pytest.raises(RuntimeError):
        tensor(SINGULAR).inverse()
    assert lib.solvers_raise is False


def test_the_pivoted_factor_of_no_elements_and_of_a_rank():
    assert tensor(np.zeros((0, 0))).pstrf()[0].size() == (0, 0)
    factor, order = tensor(SINGULAR).pstrf()
    u, p = values(factor), values(order)
    assert np.allclose(u.T @ u, SINGULAR[p][:, p])
