"""The state of the random number generator."""

import numpy as np
import pytest

import torchlite


def draw():
    return torchlite.FloatTensor(4).uniform_(0, 1).numpy().copy()


def test_a_seed_decides_what_is_drawn():
    torchlite.manual_seed(1)
    first = draw()
    other = draw()
    torchlite.manual_seed(1)
    np.testing.assert_array_equal(draw(), first)
    assert not np.array_equal(first, other)
    torchlite.manual_seed(2)
    assert not np.array_equal(draw(), first)


def test_a_state_can_be_put_back():
    torchlite.manual_seed(1)
    draw()
    state = torchlite.get_rng_state()
    assert type(state) is torchlite.ByteTensor
    first = draw()
    torchlite.set_rng_state(state)
    np.testing.assert_array_equal(draw(), first)


def test_a_state_is_a_copy():
    torchlite.manual_seed(1)
    state = torchlite.get_rng_state()
    before = state.numpy().copy()
    draw()
    np.testing.assert_array_equal(state.numpy(), before)


def test_initial_seed_is_the_last_one_set():
    torchlite.manual_seed(77)
    assert torchlite.initial_seed() == 77


@pytest.mark.parametrize("state", [torchlite.ByteTensor(3), torchlite.FloatTensor(3), "state"])
def test_a_wrong_state_is_refused_and_changes_nothing(state):
    torchlite.manual_seed(1)
    first = draw()
    torchlite.manual_seed(1)
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        torchlite.set_rng_state(state)
    np.testing.assert_array_equal(draw(), first)
