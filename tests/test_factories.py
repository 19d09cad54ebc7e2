"""New tensors, and tensors filled with random numbers."""

import math

import numpy as np
import pytest

import torchlite
from torchlite import Variable

# Calls with any of the keywords of a factory, and what they give.
FACTORIES = {
    "zeros": (lambda **k: torchlite.zeros(2, 3, **k), np.zeros((2, 3))),
    "zeros of a tuple": (lambda **k: torchlite.zeros((2, 3), **k), np.zeros((2, 3))),
    "zeros of a list": (lambda **k: torchlite.zeros([2, 3], **k), np.zeros((2, 3))),
    "zeros of a Size": (lambda **k: torchlite.zeros(torchlite.Size([2, 3]), **k), np.zeros((2, 3))),
    "zeros of NumPy's ints": (lambda **k: torchlite.zeros(np.int64(2), np.int32(3), **k), np.zeros((2, 3))),
    "zeros of one NumPy int": (lambda **k: torchlite.zeros(np.int64(2), **k), np.zeros(2)),
    "ones": (lambda **k: torchlite.ones(3, **k), np.ones(3)),
    "full": (lambda **k: torchlite.full((2, 2), 7, **k), np.full((2, 2), 7)),
    "eye": (lambda **k: torchlite.eye(2, **k), np.eye(2)),
    "eye of two sizes": (lambda **k: torchlite.eye(2, m=3, **k), np.eye(2, 3)),
    "arange": (lambda **k: torchlite.arange(4, **k), np.arange(4)),
    "arange with bounds": (lambda **k: torchlite.arange(1, 2.5, 0.5, **k), [1, 1.5, 2]),
    "arange down": (lambda **k: torchlite.arange(3, 0, -1, **k), [3, 2, 1]),
    "linspace": (lambda **k: torchlite.linspace(0, 1, 5, **k), [0, 0.25, 0.5, 0.75, 1]),
    "linspace of 100": (lambda **k: torchlite.linspace(0, 99, **k), np.arange(100)),
    "logspace": (lambda **k: torchlite.logspace(0, 2, steps=3, **k), [1, 10, 100]),
    "zeros_like": (lambda **k: torchlite.zeros_like(torchlite.Tensor(2, 3), **k), np.zeros((2, 3))),
    "ones_like": (lambda **k: torchlite.ones_like(torchlite.Tensor(2, 3), **k), np.ones((2, 3))),
}
RANDOM = {
    "rand": lambda **k: torchlite.rand(2, 3, **k), "randn": lambda **k: torchlite.randn((2, 3), **k),
    "rand of a Size": lambda **k: torchlite.rand(torchlite.Size([2, 3]), **k),
}


@pytest.fixture(params=["torch.FloatTensor", "torchlite.DoubleTensor", torchlite.HalfTensor])
def default_class(request):
    torchlite.set_default_tensor_type(request.param)
    yield torchlite.Tensor
    torchlite.set_default_tensor_type(torchlite.FloatTensor)


def test_the_default_class_is_float_tensor():
    assert torchlite.Tensor is torchlite.FloatTensor is type(torchlite.zeros(1))
    assert torchlite.Storage is torchlite.FloatStorage


@pytest.mark.parametrize(("make", "expected"), FACTORIES.values(), ids=FACTORIES)
def test_a_factory_makes_a_tensor_of_the_default_class(make, expected, default_class):
    t = make()
    assert type(t) is default_class
    assert torchlite.Storage is type(t.storage())
    np.testing.assert_allclose(t.numpy(), np.asarray(expected), rtol=1e-3 if t.element_size() == 2 else 1e-6)


@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_a_random_factory_makes_a_tensor_of_the_default_class(make, default_class):
    t = make()
    assert type(t) is default_class and t.size() == (2, 3) and len(set(t.view(6).tolist())) > 3


@pytest.mark.parametrize(("make", "expected"), FACTORIES.values(), ids=FACTORIES)
def test_out_is_resized_filled_and_returned(make, expected):
    for out in (torchlite.DoubleTensor(1), torchlite.LongTensor(7)):
        assert make(out=out) is out
        np.testing.assert_allclose(out.numpy(), np.asarray(expected).astype(out.numpy().dtype))


@pytest.mark.parametrize("make", RANDOM.values(), ids=RANDOM)
def test_out_of_a_random_factory(make):
    out = torchlite.DoubleTensor()
    assert make(out=out) is out and out.size() == (2, 3)


def test_the_default_class_can_be_one_of_the_callers():
    class Mine(torchlite.DoubleTensor):
        pass

    torchlite.set_default_tensor_type(Mine)
    try:
        assert type(torchlite.ones(2)) is Mine and torchlite.ones(2).tolist() == [1, 1]
        assert torchlite.Storage is torchlite.DoubleStorage
    finally:
        torchlite.set_default_tensor_type("torch.FloatTensor")


@pytest.mark.parametrize("t, error", [
    ("torch.Foo", AttributeError), ("nosuchmodule.DoubleTensor", ImportError), (3, TypeError), (int, TypeError),
    (torchlite._C._TensorBase, TypeError), (torchlite.FloatTensor(1), TypeError), ("os.path", TypeError),
    ("torch.sparse.FloatTensor", TypeError),
])
def test_another_default_is_refused_and_changes_nothing(t, error):
    with pytest.raises(error):
        torchlite.set_default_tensor_type(t)
    assert torchlite.Tensor is torchlite.FloatTensor is type(torchlite.zeros(1))


def test_range_includes_its_end_and_warns_that_it_is_deprecated():
    with pytest.warns(UserWarning, match="range is deprecated in favor of torchlite.arange"):
        assert torchlite.range(1, 4).tolist() == [1, 2, 3, 4]
    with pytest.warns(UserWarning):
        assert torchlite.range(0, 1, 0.5, out=torchlite.DoubleTensor()).tolist() == [0, 0.5, 1]


@pytest.mark.parametrize("sizes", [(2.0,), ("ab",), (1, 2.5), ([1, "a"],), (None,), ({1, 2},), ((2, 3), 1)], ids=repr)
def test_sizes_that_are_no_ints_are_refused(sizes):
    for factory in (torchlite.zeros, torchlite.ones, torchlite.rand, torchlite.randn):
        with pytest.raises(TypeError, match="sizes have to be ints or one sequence of ints"):
            factory(*sizes)


def test_out_has_to_be_a_tensor():
    with pytest.raises(TypeError, match="out has to be a tensor, but is list"):
        torchlite.zeros(2, out=[])


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
    "uniform_ backwards": (lambda: torchlite.FloatTensor(2).uniform_(1, 0), RuntimeError, "from 1.0 to 0.0"),
    "uniform_ of integers": (lambda: torchlite.LongTensor(2).uniform_(), TypeError, "not for Long"),
    "bernoulli_ of 2": (lambda: torchlite.FloatTensor(2).bernoulli_(2), RuntimeError, "between 0 and 1, but got 2.0"),
    "random_ of nothing": (lambda: torchlite.LongTensor(2).random_(0), RuntimeError, "from 0 to 0"),
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


def read_only():
    a = np.zeros(2, np.float32)
    a.flags.writeable = False
    return torchlite.from_numpy(a)


# Calls that refuse `out`, or a value or parameter that does not fit it.
REFUSED_OUT = {
    "zeros": lambda: (torchlite.zeros, (5,), read_only()),
    "rand": lambda: (torchlite.rand, (5,), read_only()),
    "zeros_like": lambda: (torchlite.zeros_like, (torchlite.ones(5),), read_only()),
    "randperm": lambda: (torchlite.randperm, (5,), read_only()),
    "bernoulli": lambda: (torchlite.bernoulli, (torchlite.ones(5),), read_only()),
    "normal": lambda: (torchlite.normal, (torchlite.ones(5),), read_only()),
    "multinomial": lambda: (torchlite.multinomial, (torchlite.ones(5), 3), torchlite.FloatTensor([1, 2])),
    "probabilities": lambda: (torchlite.bernoulli, (torchlite.ones(5) * 2,), torchlite.FloatTensor([1, 2])),
    "integers": lambda: (torchlite.randn, (5,), torchlite.LongTensor([1, 2])),
    "a text": lambda: (torchlite.full, ((5,), "x"), torchlite.LongTensor([1, 2])),
}


@pytest.mark.parametrize("make", REFUSED_OUT.values(), ids=REFUSED_OUT)
def test_an_out_that_is_refused_stays_as_it_was(make):
    function, args, out = make()
    before = out.tolist()
    with pytest.raises((TypeError, RuntimeError)):
        function(*args, out=out)
    assert out.tolist() == before


@pytest.mark.parametrize("function, args", [
    (torchlite.zeros_like, (torchlite.ones(5),)), (torchlite.randperm, (5,)),
    (torchlite.bernoulli, (torchlite.ones(5),)),
    (torchlite.normal, (torchlite.ones(5),)), (torchlite.multinomial, (torchlite.ones(5), 3)), (torchlite.zeros, (3,)),
])
def test_an_out_that_is_no_tensor_is_named(function, args):
    with pytest.raises(TypeError, match="out'? (has to|must) be a .*ensor"):
        function(*args, out=[1])


@pytest.mark.parametrize("call", [
    lambda: torchlite.zeros(2**64), lambda: torchlite.ones(2).view(2**64), lambda: torchlite.ones(2).sum(2**64),
])
def test_a_number_beyond_64_bits_is_told(call):
    with pytest.raises(OverflowError, match=str(2**64)):
        call()
