"""How many threads a loop may use."""

import numpy as np
import pytest

import torchlite


@pytest.fixture
def threads():
    before = torchlite.get_num_threads()
    yield
    torchlite.set_num_threads(before)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_results_do_not_depend_on_the_number_of_threads(n, threads):
    torchlite.set_num_threads(n)
    assert torchlite.get_num_threads() == n
    a = np.linspace(-3, 3, 300_001, dtype=np.float32)
    np.testing.assert_allclose(torchlite.from_numpy(a).tanh().numpy(), np.tanh(a), rtol=3e-7)


@pytest.mark.parametrize("n", [0, -1, 2000, True, "2", 1.5])
def test_other_numbers_are_refused(n, threads):
    before = torchlite.get_num_threads()
    with pytest.raises(ValueError, match="set_num_threads: expected a number from 1 to 1024"):
        torchlite.set_num_threads(n)
    assert torchlite.get_num_threads() == before
