"""Random tensors: multinomial, bernoulli, normal, the keyword generator, bounds, and wrong arguments."""

import numpy as np
import pytest

import torchlite
from torchlite import ByteTensor, DoubleTensor, FloatTensor, Generator, HalfTensor, LongTensor, Variable

N = 40000
INF, NAN = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def seeded():
    torchlite.manual_seed(5)


def shares(samples, k):
    return np.bincount(np.asarray(samples).ravel(), minlength=k) / np.asarray(samples).size


# ---- multinomial ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [HalfTensor, FloatTensor, DoubleTensor, LongTensor])
def test_classes_are_drawn_by_their_weights(cls):
    drawn = cls([1, 2, 0, 7]).multinomial(N, True)
    assert type(drawn) is LongTensor and drawn.size() == (N,)
    np.testing.assert_allclose(shares(drawn, 4), [0.1, 0.2, 0, 0.7], atol=0.01)


def test_each_row_is_a_distribution_of_its_own():
    drawn = FloatTensor([[1, 0, 0], [0, 3, 1], [5, 0, 5]]).multinomial(N, replacement=True)
    assert drawn.size() == (3, N)
    np.testing.assert_allclose([shares(row, 3) for row in drawn], [[1, 0, 0], [0, 0.75, 0.25], [0.5, 0, 0.5]],
                               atol=0.01)


def test_without_replacement_the_draws_follow_one_another():
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    drawn = DoubleTensor(np.tile(weights, (N, 1))).multinomial(2).numpy()
    assert (drawn[:, 0] != drawn[:, 1]).all()
    np.testing.assert_allclose(shares(drawn[:, 0], 4), weights, atol=0.01)
    pairs = np.zeros((4, 4))
    np.add.at(pairs, (drawn[:, 0], drawn[:, 1]), 1 / N)
    expected = weights[:, None] * weights / (1 - weights[:, None]) * (1 - np.eye(4))
    np.testing.assert_allclose(pairs, expected, atol=0.01)


def test_without_replacement_all_positive_weights_can_be_drawn_and_no_other():
    weights = FloatTensor([[0, 1, 2, 0, 3]] * 50)
    assert (np.sort(weights.multinomial(3).numpy(), 1) == [1, 2, 4]).all()
    assert weights.multinomial(3).size() == (50, 3) and weights[0].multinomial(1).size() == (1,)


def test_weights_of_every_size_count():
    for weights in ([1e-300, 3e-300, 0], [0.5e308, 1.5e308, 0]):
        w = DoubleTensor(weights)
        np.testing.assert_allclose(shares(w.multinomial(N, True), 3), [0.25, 0.75, 0], atol=0.01)
        np.testing.assert_allclose(shares(w.unsqueeze(0).expand(N, 3).multinomial(1), 3), [0.25, 0.75, 0], atol=0.01)


def test_the_function_takes_out_and_variables():
    w, out = FloatTensor([[1, 0], [0, 1]]), LongTensor(7)
    assert torchlite.multinomial(w, 3, True, out=out) is out
    assert out.tolist() == [[0, 0, 0], [1, 1, 1]]
    drawn = torchlite.multinomial(Variable(w), 1)
    assert isinstance(drawn, Variable) and drawn.data.tolist() == [[0], [1]]
    assert type(drawn.grad_fn).__name__ == "Multinomial"


BAD_WEIGHTS = [
    (lambda: FloatTensor([1, -1, 1]).multinomial(1), "weights must not be negative, but the smallest is -1.0"),
    (lambda: FloatTensor([1, NAN]).multinomial(1), "weights must be finite"),
    (lambda: FloatTensor([1, INF]).multinomial(1, True), "weights must be finite"),
    (lambda: FloatTensor([[1, 0], [0, 0]]).multinomial(1), "the sum of the weights of each row must be above 0"),
    (lambda: FloatTensor(3, 0).multinomial(1), "the sum of the weights of each row must be above 0|1 or 2 dimensions"),
    (lambda: FloatTensor([1, 0, 1]).multinomial(3), "cannot draw 3 samples without replacement from 2 weights above 0"),
    (lambda: FloatTensor([1, 1]).multinomial(3), "cannot draw 3 samples without replacement from 2 weights"),
    (lambda: FloatTensor([1, 1]).multinomial(0), "cannot draw 0 samples: expected a number above 0"),
    (lambda: torchlite.ones(1, 2, 3).multinomial(1), r"must have 1 or 2 dimensions, but have size \(1, 2, 3\)"),
]


@pytest.mark.parametrize("call, message", BAD_WEIGHTS)
def test_bad_weights_are_refused_and_nothing_is_drawn(call, message):
    before = torchlite.get_rng_state().tolist()
    with pytest.raises(RuntimeError, match=message):
        call()
    assert torchlite.get_rng_state().tolist() == before


# ---- bernoulli and normal -------------------------------------------------------------------------------------------


def test_bernoulli_draws_by_the_elements():
    p = FloatTensor([[0, 1], [0.25, 0.5]])
    drawn = np.mean([p.bernoulli().numpy() for _ in range(4000)], 0)
    np.testing.assert_allclose(drawn, p.numpy(), atol=0.03)
    assert type(p.bernoulli()) is FloatTensor and p.bernoulli().size() == (2, 2) and p[1, 0] == 0.25
    out = ByteTensor()
    assert torchlite.bernoulli(p, out=out) is out and out.size() == (2, 2) and out[0, 1] == 1


@pytest.mark.parametrize("draw, mean, std", [
    (lambda a, b: torchlite.normal(a, b), 3, 2), (lambda a, b: torchlite.normal(a), 3, 1),
    (lambda a, b: torchlite.normal(a, 0.5), 3, 0.5), (lambda a, b: torchlite.normal(std=b), 0, 2),
    (lambda a, b: torchlite.normal(-1, b), -1, 2), (lambda a, b: torchlite.normal(mean=-1.5, std=b), -1.5, 2),
    (lambda a, b: torchlite.normal(means=a, std=b), 3, 2),
])
def test_normal_has_three_forms(draw, mean, std):
    for cls in (FloatTensor, DoubleTensor):
        drawn = draw(cls(200, 200).fill_(3), cls(200, 200).fill_(2))
        assert type(drawn) is cls and drawn.size() == (200, 200)
        assert drawn.mean() == pytest.approx(mean, abs=0.05) and drawn.std() == pytest.approx(std, rel=0.05)


def test_normal_pairs_elements_and_fills_out():
    out = FloatTensor()
    drawn = torchlite.normal(FloatTensor([[1, 2], [3, 4]]), FloatTensor([0, 0, 0, 0]), out=out)
    assert drawn is out and out.tolist() == [[1, 2], [3, 4]]


def test_normal_of_variables_is_stochastic():
    for means, std in [(Variable(FloatTensor([1, 2])), 0.0), (Variable(FloatTensor([1, 2])), Variable(FloatTensor(2))),
                       (1.0, Variable(FloatTensor([1, 2])))]:
        drawn = torchlite.normal(means, std)
        assert isinstance(drawn, Variable) and type(drawn.grad_fn).__name__ == "Normal" and drawn.size() == (2,)


@pytest.mark.parametrize("call, error, message", [
    (lambda: torchlite.normal(0, 1), TypeError, "must be a tensor or Variable, but they are int and int"),
    (lambda: torchlite.normal(FloatTensor(2), DoubleTensor(2)), TypeError, "must have one type"),
    (lambda: torchlite.normal(FloatTensor(2), FloatTensor(3)), RuntimeError, r"'means' of size \(2,\) and 'std' of"),
    (lambda: torchlite.normal(FloatTensor(2), -1), RuntimeError, "'std' must not be negative, but the smallest is -1"),
    (lambda: torchlite.normal(0.0, FloatTensor([1, -2])), RuntimeError, "the smallest is -2"),
    (lambda: torchlite.bernoulli([0.5]), TypeError, "'input' must be a tensor or Variable, but is list"),
    (lambda: FloatTensor([2]).bernoulli(), RuntimeError, "a probability must lie between 0 and 1, but got 2.0"),
    (lambda: FloatTensor([NAN]).bernoulli(), RuntimeError, "a probability must lie between 0 and 1, but got nan"),
    (lambda: FloatTensor(3).bernoulli_(FloatTensor([1, 1])), RuntimeError, r"probabilities of size \(2,\) do not fit"),
    (lambda: FloatTensor(2).normal_(0, -1), RuntimeError, "normal_: std must not be negative, but got -1.0"),
    (lambda: FloatTensor(2).log_normal_(0, 0), RuntimeError, "log_normal_: std must be positive, but got 0.0"),
    (lambda: FloatTensor(2).exponential_(0), RuntimeError, "exponential_: lambd must be positive, but got 0.0"),
    (lambda: FloatTensor(2).cauchy_(0, -1), RuntimeError, "cauchy_: sigma must be positive, but got -1.0"),
    (lambda: FloatTensor(2).geometric_(1), RuntimeError, "geometric_: p must lie between 0 and 1.*, but got 1.0"),
    (lambda: FloatTensor(2).geometric_(), TypeError, "p"),
    (lambda: LongTensor(2).normal_(), TypeError, "normal_ is only available for floating types, not for Long"),
    (lambda: ByteTensor(2).random_(0, 257), RuntimeError, "a Byte tensor holds values from 0 to 255, but got from 0"),
    (lambda: ByteTensor(2).random_(-1, 2), RuntimeError, "a Byte tensor holds values from 0 to 255"),
    (lambda: torchlite.ShortTensor(2).random_(40000), RuntimeError, "from -32768 to 32767, but got from 0 to 40000"),
    (lambda: LongTensor(2).random_(3, 3), RuntimeError, "from must be below to, but got from 3 to 3"),
    (lambda: LongTensor(2).random_(**{"from": 3}), TypeError, "'from' needs 'to'"),
    (lambda: LongTensor(2).random_(1.5), TypeError, "float"),
    (lambda: torchlite.multinomial(FloatTensor([1]), 1, out=FloatTensor()), TypeError, "'out' must be a LongTensor"),
    (lambda: torchlite.multinomial([1.0], 1), TypeError, "'input' must be a tensor or Variable, but is list"),
    (lambda: FloatTensor([1]).multinomial(1.5), TypeError, "'num_samples' must be an int, but is float"),
    (lambda: FloatTensor([1]).multinomial(True), TypeError, "'num_samples' must be an int, but is bool"),
    (lambda: torchlite.multinomial(Variable(FloatTensor([1])), 1, generator=Generator()), TypeError,
     "samples of Variables come from the default generator"),
])
def test_wrong_arguments_are_refused_and_nothing_is_drawn(call, error, message):
    before = torchlite.get_rng_state().tolist()
    with pytest.raises(error, match=message):
        call()
    assert torchlite.get_rng_state().tolist() == before


# ---- bounds and generators ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("draw, low, high", [
    (lambda: LongTensor(1000).random_(3), 0, 2), (lambda: LongTensor(1000).random_(to=3), 0, 2),
    (lambda: LongTensor(1000).random_(**{"from": -2, "to": 1}), -2, 0),
    (lambda: FloatTensor(1000).random_(-1, 2), -1, 1),
    (lambda: LongTensor(1000).random_(-2, to=1), -2, 0), (lambda: ByteTensor(N).random_(0, 256), 0, 255),
    (lambda: torchlite.CharTensor(N).random_(-128, 128), -128, 127), (lambda: ByteTensor(N).random_(), 0, 255),
    (lambda: torchlite.CharTensor(N).random_(), 0, 127),
])
def test_random_draws_every_value_between_its_bounds(draw, low, high):
    values = draw().numpy()
    assert set(values.tolist()) == set(range(low, high + 1))


def test_the_bounds_of_long_random():
    low, high = -(2**63), 2**63 - 1
    values = LongTensor(N).random_(low, high).numpy()
    assert values.min() < low * 0.99 and values.max() > high * 0.99


@pytest.mark.parametrize("cls", [HalfTensor, FloatTensor, DoubleTensor])
@pytest.mark.parametrize("low, high", [(0, 1), (-1, 1), (-2, -1), (0, 3), (5, 6), (1000, 1002), (0, 2**-20)])
def test_uniform_stays_within_its_bounds(cls, low, high):
    values = cls(N).uniform_(**{"from": low, "to": high}).numpy().astype(np.float64)
    assert low <= values.min() and values.max() < high
    assert values.max() > low + 0.7 * (high - low)


def test_exponentials_and_their_kin_are_finite_and_positive():
    for cls in (FloatTensor, DoubleTensor):
        for name, args in [("exponential_", (2,)), ("log_normal_", ()), ("geometric_", (0.2,))]:
            values = getattr(cls(N), name)(*args).numpy()
            assert np.isfinite(values).all() and values.min() >= (1 if name == "geometric_" else 0)


FILLS = {
    "normal_": (), "uniform_": (), "bernoulli_": (), "random_": (), "cauchy_": (), "log_normal_": (),
    "exponential_": (), "geometric_": (0.3,),
}
DRAWS = {
    **{name: lambda g, name=name, args=args: getattr(FloatTensor(20), name)(*args, generator=g)
       for name, args in FILLS.items()},
    "bernoulli": lambda g: FloatTensor(20).fill_(0.5).bernoulli(generator=g),
    "multinomial": lambda g: FloatTensor(20).fill_(1).multinomial(10, generator=g),
    "multinomial with replacement": lambda g: FloatTensor(20).fill_(1).multinomial(10, True, generator=g),
    "torchlite.rand": lambda g: torchlite.rand(2, 10, generator=g),
    "torchlite.randn": lambda g: torchlite.randn((2, 10), generator=g),
    "torchlite.randperm": lambda g: torchlite.randperm(20, generator=g),
    "torchlite.multinomial": lambda g: torchlite.multinomial(FloatTensor(20).fill_(1), 10, generator=g),
    "torchlite.bernoulli": lambda g: torchlite.bernoulli(FloatTensor(20).fill_(0.5), generator=g),
    "torchlite.normal": lambda g: torchlite.normal(FloatTensor(20).fill_(0.5), generator=g),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_generator_decides_what_is_drawn_and_leaves_the_default_one_alone(draw):
    before = torchlite.get_rng_state().tolist()
    g = Generator().manual_seed(11)
    first, second = draw(g).tolist(), draw(g).tolist()
    assert first != second and torchlite.get_rng_state().tolist() == before
    assert draw(Generator().manual_seed(11)).tolist() == first
    # The default generator with that seed draws the same.
    torchlite.manual_seed(11)
    assert draw(None).tolist() == first and torchlite.get_rng_state().tolist() != before


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_generator_is_a_generator(draw):
    with pytest.raises(TypeError, match="generator must be a torchlite.Generator, not int"):
        draw(3)


def test_a_generator_has_the_methods_of_the_default_one():
    g = Generator()
    assert g.manual_seed(4) is g and g.initial_seed() == 4
    state = g.get_state()
    first = FloatTensor(3).normal_(generator=g).tolist()
    g.set_state(state)
    assert FloatTensor(3).normal_(generator=g).tolist() == first and type(state) is ByteTensor
    seed = g.seed()
    assert seed == g.initial_seed() != 4
    assert torchlite.default_generator is torchlite.manual_seed(3) and torchlite.initial_seed() == 3


def test_a_generator_may_stand_before_the_sizes():
    g = Generator()
    g.set_state(torchlite.get_rng_state())
    expected = torchlite.rand(2, 3), torchlite.randn(4)
    assert torchlite.rand(g, 2, 3).tolist() == expected[0].tolist()
    assert torchlite.randn(g, 4).tolist() == expected[1].tolist()


def test_a_wrong_generator_leaves_out_alone():
    out = FloatTensor([1, 2])
    with pytest.raises(TypeError, match="generator must be a torchlite.Generator, not int"):
        torchlite.rand(5, out=out, generator=3)
    assert out.tolist() == [1, 2]
