"""New tensors, and tensors filled with random numbers."""

import math

import numpy as np
import pytest

import torchlite
from torchlite import Variable

FACTORIES = {
    "zeros": (lambda: torchlite.zeros(2, 3), np.zeros((2, 3))),
    "zeros of a tuple": (lambda: torchlite.zeros((2, 3)), np.zeros((2, 3))),
    "zeros of a Size": (lambda: torchlite.zeros(torchlite.ones(2, 3).size()), np.zeros((2, 3))),
    "ones": (lambda: torchlite.ones(3), np.ones(3)),
    "full": (lambda: torchlite.full((2, 2), 7), np.full((2, 2), 7)),
    "eye": (lambda: torchlite.eye(2, 3), np.eye(2, 3)),
    "arange": (lambda: torchlite.arange(4), np.arange(4)),
    "arange with bounds": (lambda: torchlite.arange(1, 2.5, 0.5), [1, 1.5, 2]),
    "arange down": (lambda: torchlite.arange(3, 0, -1), [3, 2, 1]),
    "range": (lambda: torchlite.range(1, 4), [1, 2, 3, 4]),
    "linspace": (lambda: torchlite.linspace(0, 1, 5), [0, 0.25, 0.5, 0.75, 1]),
    "logspace": (lambda: torchlite.logspace(0, 2, 3), [1, 10, 100]),
}


@pytest.mark.parametrize(("make", "expected"), FACTORIES.values(), ids=FACTORIES)
def test_factory_makes_a_float_tensor(make, expected):
    t = make()
    assert type(t) is torchlite.FloatTensor
    np.testing.assert_allclose(t.numpy(), expected)


def test_out_is_resized_filled_and_returned():
    out = torchlite.DoubleTensor(1)
    assert torchlite.ones(2, 3, out=out) is out
    np.testing.assert_array_equal(out.numpy(), np.ones((2, 3)))
    assert torchlite.arange(3, out=out) is out
    np.testing.assert_array_equal(out.numpy(), [0, 1, 2])


def test_like_keeps_type_and_kind():
    assert isinstance(torchlite.zeros_like(torchlite.LongTensor([1])), torchlite.LongTensor)
    v = torchlite.ones_like(Variable(torchlite.DoubleTensor([5]), requires_grad=True))
    assert isinstance(v, Variable)
    assert not v.requires_grad
    assert v.data.tolist() == [1]


def test_negative_sizes_and_endless_ranges_are_refused():
    with pytest.raises(RuntimeError, match="must not be negative"):
        torchlite.zeros(2, -1)
    with pytest.raises(RuntimeError, match="step 1 does not lead from 3 to 0"):
        torchlite.arange(3, 0)
    with pytest.raises(RuntimeError, match="not negative, but got -1"):
        torchlite.randperm(-1)


def test_randperm_is_a_permutation_that_follows_the_seed():
    torchlite.manual_seed(0)
    order = torchlite.randperm(100)
    assert type(order) is torchlite.LongTensor
    assert sorted(order.tolist()) == list(range(100))
    torchlite.manual_seed(0)
    assert torchlite.randperm(100).tolist() == order.tolist()
    assert torchlite.randperm(0).numel() == 0


N = 40000
DISTRIBUTIONS = {
    "uniform_": (lambda t: t.uniform_(-1, 3), 1, 4 / math.sqrt(12)),
    "normal_": (lambda t: t.normal_(2, 3), 2, 3),
    "bernoulli_": (lambda t: t.bernoulli_(0.3), 0.3, math.sqrt(0.21)),
    "exponential_": (lambda t: t.exponential_(0.5), 2, 2),
    "geometric_": (lambda t: t.geometric_(0.25), 4, math.sqrt(12)),
    "log_normal_": (lambda t: t.log_normal_(0, 0.5), math.exp(0.125), math.sqrt(math.exp(0.25) * (math.exp(0.25) - 1))),
    "random_": (lambda t: t.random_(-3, 4), 0, 2),
}


@pytest.mark.parametrize("tensor", [torchlite.FloatTensor, torchlite.DoubleTensor, torchlite.HalfTensor])
@pytest.mark.parametrize(("fill", "mean", "std"), DISTRIBUTIONS.values(), ids=DISTRIBUTIONS)
def test_distribution_has_its_mean_and_deviation(fill, mean, std, tensor):
    torchlite.manual_seed(1)
    t = tensor(N)
    assert fill(t) is t
    values = t.numpy().astype("float64")
    assert values.mean() == pytest.approx(mean, abs=5 * std / math.sqrt(N) + 1e-3)
    assert values.std() == pytest.approx(std, rel=0.05)


def test_cauchy_has_its_quartiles():
    torchlite.manual_seed(1)
    quartiles = np.quantile(torchlite.DoubleTensor(N).cauchy_(1, 2).numpy(), [0.25, 0.5, 0.75])
    np.testing.assert_allclose(quartiles, [-1, 1, 3], atol=0.15)


def test_bounds_of_uniform_and_random():
    u = torchlite.FloatTensor(N).uniform_(2, 2.5).numpy()
    assert 2 <= u.min() < u.max() < 2.5
    assert set(torchlite.LongTensor(1000).random_(3).tolist()) == {0, 1, 2}
    assert torchlite.ByteTensor(N).random_().numpy().max() == 255


def test_views_and_integers_are_filled():
    t = torchlite.zeros(4, 6)
    t.t()[1:3].uniform_(1, 2)
    assert (t.numpy()[:, 1:3] >= 1).all()
    assert not t.numpy()[:, [0, 3, 4, 5]].any()
    assert set(torchlite.ByteTensor(100).bernoulli_().tolist()) == {0, 1}


def test_bernoulli_takes_a_probability_for_each_element():
    assert torchlite.FloatTensor(3).bernoulli_(torchlite.FloatTensor([0, 1, 0])).tolist() == [0, 1, 0]
    assert torchlite.bernoulli(torchlite.FloatTensor([1, 0])).tolist() == [1, 0]


def test_generator_of_its_own():
    g = torchlite.Generator().manual_seed(3)
    torchlite.manual_seed(9)
    before = torchlite.get_rng_state().tolist()
    first = torchlite.FloatTensor(3).normal_(generator=g).tolist()
    assert torchlite.get_rng_state().tolist() == before
    state = torchlite.Generator().set_state(torchlite.Generator().manual_seed(3).get_state())
    assert torchlite.FloatTensor(3).normal_(generator=state).tolist() == first
    assert 0 <= g.seed() == g.initial_seed()


MISUSES = {
    "uniform_ backwards": (lambda: torchlite.FloatTensor(2).uniform_(1, 0), ValueError, "from 1.0 to 0.0"),
    "uniform_ of integers": (lambda: torchlite.LongTensor(2).uniform_(), TypeError, "not for Long"),
    "bernoulli_ of 2": (lambda: torchlite.FloatTensor(2).bernoulli_(2), ValueError, "between 0 and 1, but got 2.0"),
    "random_ of nothing": (lambda: torchlite.LongTensor(2).random_(0), ValueError, "from 0 to 0"),
    "another generator": (lambda: torchlite.FloatTensor(2).normal_(generator=3), TypeError, "not int"),
    "generator with arguments": (lambda: torchlite.Generator(3), TypeError, "takes no arguments"),
}


@pytest.mark.parametrize(("misuse", "error", "message"), MISUSES.values(), ids=MISUSES)
def test_misuse_is_refused(misuse, error, message):
    with pytest.raises(error, match=message):
        misuse()


def test_read_only_memory_is_not_filled():
    a = np.zeros(3, "float32")
    a.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        torchlite.from_numpy(a).uniform_()
