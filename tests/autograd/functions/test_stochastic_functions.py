"""Bernoulli, Normal, Multinomial: what they draw, the gradients that rewards give, and how a run finds them."""

import gc
import weakref

import numpy as np
import pytest

import torchlite
from torchlite.autograd import Function, StochasticFunction, Variable, grad
from torchlite.autograd._functions import Bernoulli, Multinomial, Normal


def leaf(values, dtype=np.float64, requires_grad=True):
    return Variable(np.array(values, dtype=dtype), requires_grad=requires_grad)


def array(variable):
    return np.array(variable.data.numpy())


def probabilities(*size):
    return np.random.default_rng(0).uniform(0.1, 0.9, size)


def score(log_probability, parameters, eps=1e-6):
    """The gradient of `log_probability(*parameters)` by differences, an array for each parameter."""
    gradients = []
    for p in parameters:
        g = np.zeros_like(p)
        for i in np.ndindex(p.shape):
            old, values = p[i], []
            for p[i] in (old - eps, old + eps):
                values.append(log_probability(*parameters))
            p[i] = old
            g[i] = (values[1] - values[0]) / (2 * eps)
        gradients.append(g)
    return gradients


# ---- what they draw ------------------------------------------------------------------------------------------


def test_bernoulli_draws_ones_with_the_given_probabilities():
    p = np.tile([0.0, 0.1, 0.7, 1.0], (20000, 1))
    samples = array(Bernoulli()(leaf(p)))
    assert set(np.unique(samples)) == {0, 1} and samples.dtype == p.dtype
    assert np.allclose(samples.mean(0), [0, 0.1, 0.7, 1], atol=0.02)


@pytest.mark.parametrize("fixed", [True, False], ids=["number", "tensor"])
def test_normal_draws_around_the_means(fixed):
    means = leaf(np.tile([-1.0, 5.0], (20000, 1)))
    samples = Normal(2.0)(means) if fixed else Normal()(means, leaf(np.tile([2.0, 2.0], (20000, 1))))
    assert np.allclose(array(samples).mean(0), [-1, 5], atol=0.08)
    assert np.allclose(array(samples).std(0), [2, 2], atol=0.08)


def test_multinomial_draws_classes_in_proportion_to_their_weights():
    samples = Multinomial(20000, True)(leaf([[1.0, 0.0, 3.0], [2.0, 2.0, 0.0]]))
    assert type(samples.data) is torchlite.LongTensor and samples.size() == (2, 20000)
    counts = np.stack([np.bincount(row, minlength=3) / 20000 for row in array(samples)])
    assert np.allclose(counts, [[0.25, 0, 0.75], [0.5, 0.5, 0]], atol=0.02)


def test_multinomial_without_replacement_draws_different_classes():
    samples = array(Multinomial(4, False)(leaf(probabilities(50, 6))))
    assert all(len(set(row)) == 4 for row in samples)


def test_multinomial_of_one_row_gives_one_row():
    assert Multinomial(5, True)(leaf([0.5, 0.5])).size() == (5,)


@pytest.mark.parametrize(
    "make", [Bernoulli, lambda: Normal(1.0), lambda: Multinomial(2, True)], ids=["Bernoulli", "Normal", "Multinomial"]
)
def test_samples_do_not_require_grad(make):
    draw = make()
    samples = draw(leaf(probabilities(2, 3)))
    assert samples.grad_fn is draw and draw.requires_grad and not samples.requires_grad


def test_they_are_old_style_stochastic_functions():
    for cls in (Bernoulli, Normal, Multinomial):
        assert cls._is_legacy and issubclass(cls, StochasticFunction)


def test_normal_takes_its_deviation_from_one_place():
    with pytest.raises(TypeError, match="Normal: the standard deviation"):
        Normal()(leaf([1.0]))
    with pytest.raises(TypeError, match="Normal: the standard deviation"):
        Normal(1.0)(leaf([1.0]), leaf([1.0]))
    with pytest.raises(ValueError, match="Normal: stddev must not be negative, but got -1"):
        Normal(-1)


# ---- gradients -----------------------------------------------------------------------------------------------


def check(samples, leaves, log_probability):
    """After a reward for every sample, the gradients are those of -sum(reward * log p)."""
    rewards = np.random.default_rng(1).standard_normal(tuple(samples.size()))
    samples.reinforce(torchlite.from_numpy(rewards))
    samples.backward()
    drawn = array(samples)
    parameters = [array(v) for v in leaves]
    expected = score(lambda *p: -np.sum(rewards * log_probability(drawn, *p)), parameters)
    for v, g in zip(leaves, expected, strict=True):
        assert np.allclose(array(v.grad), g, rtol=1e-4, atol=1e-6)


def test_the_gradient_of_bernoulli():
    p = leaf(probabilities(3, 4))
    check(Bernoulli()(p), [p], lambda s, p: np.log(np.where(s == 1, p, 1 - p)))


def test_the_gradient_of_bernoulli_is_finite_for_certain_and_tiny_probabilities():
    p = leaf([0.0, 1.0, 1e-300])
    samples = Bernoulli()(p)
    assert array(samples).tolist() == [0, 1, 0]
    samples.reinforce(1)
    samples.backward()
    assert array(p.grad).tolist() == [1, -1, 1]


def test_the_gradient_of_normal_with_a_fixed_deviation():
    means = leaf(probabilities(3, 4))
    check(Normal(0.5)(means), [means], lambda s, m: -((s - m) ** 2) / (2 * 0.5**2))


def test_the_gradients_of_normal():
    means, deviations = leaf(probabilities(3, 4)), leaf(probabilities(3, 4) + 0.5)
    check(
        Normal()(means, deviations),
        [means, deviations],
        lambda s, m, d: -((s - m) ** 2) / (2 * d**2) - np.log(d),
    )


def log_multinomial(replacement):
    def log_probability(samples, weights):
        result = np.zeros(samples.shape)
        for row in np.ndindex(samples.shape[:-1]):
            left = weights[row].copy()
            for k, c in enumerate(samples[row]):
                result[row][k] = np.log(left[c] / left.sum())
                if not replacement:
                    left[c] = 0
        return result

    return log_probability


@pytest.mark.parametrize("size", [(5,), (3, 5)], ids=["row", "rows"])
@pytest.mark.parametrize("replacement", [True, False], ids=["with replacement", "without"])
@pytest.mark.parametrize("n", [1, 3, 5])
def test_the_gradient_of_multinomial(size, replacement, n):
    weights = leaf(probabilities(*size))
    check(Multinomial(n, replacement)(weights), [weights], log_multinomial(replacement))


def test_a_reward_moves_the_means_towards_good_samples():
    """Reinforcement learning in small: the mean of a normal distribution goes to where the reward is."""
    mean = leaf([0.0])
    for _ in range(400):
        sample = Normal(0.5)(mean.expand(20))
        rewards = -((array(sample) - 3) ** 2)
        sample.reinforce(torchlite.from_numpy(rewards - rewards.mean()))
        sample.backward()
        mean.data -= 0.005 * mean.grad.data
        mean.grad = None
    assert abs(array(mean)[0] - 3) < 0.5


# ---- how a run finds them ------------------------------------------------------------------------------------


def rewarded(p, reward=1):
    sample = Bernoulli()(p)
    sample.reinforce(reward)
    return sample


@pytest.mark.parametrize(
    "downstream",
    [
        lambda s: s,
        lambda s: s * 2 + 1,
        lambda s: s.double().view(-1)[0],
        lambda s: torchlite.cat([s + 1, s], 0).sum(),
        lambda s: s.clone().add_(1),
        lambda s: s.max(0)[1].float(),
        lambda s: Double.apply(s),
        lambda s: OldDouble()(s),
    ],
    ids=["itself", "arithmetic", "views", "lists", "in place", "several results", "new style", "old style"],
)
def test_a_run_finds_stochastic_functions_behind_results_that_need_no_gradient(downstream):
    p = leaf([0.25, 0.25])
    result = downstream(rewarded(p))
    assert not result.requires_grad
    result.backward()
    assert p.grad is not None and np.all(array(p.grad) != 0)


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise AssertionError("no gradient is asked for")


class OldDouble(Function):
    def forward(self, x):
        return x * 2


def test_samples_and_gradients_are_found_in_one_run():
    p, w = leaf([0.5, 0.5]), leaf([2.0, 3.0])
    sample = rewarded(p)
    (w * sample).sum().backward()
    assert array(w.grad).tolist() == array(sample).tolist()
    assert p.grad is not None


def test_a_sample_behind_a_sample_is_found():
    p = leaf([0.5, 0.5])
    first = rewarded(p)
    second = Normal(1.0)(first * 2)  # its input needs no gradient, so it needs no reward
    assert not second.grad_fn.requires_grad
    (second + 1).backward()
    assert p.grad is not None


def test_a_function_that_only_leads_to_a_sample_is_not_run():
    calls = []

    class Watched(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x + y, (x + y).long()

        @staticmethod
        def backward(ctx, g, _):
            calls.append(g)
            return g, g

    p = leaf([0.5, 0.5])
    _, index = Watched.apply(leaf([1.0, 1.0]), rewarded(p))
    assert not index.requires_grad
    (index * 2).backward()
    assert p.grad is not None and calls == []


def test_every_sample_needs_its_reward():
    p = leaf([0.5])
    result = rewarded(p) + Bernoulli()(p)
    with pytest.raises(RuntimeError, match="differentiating stochastic functions requires providing a reward"):
        result.backward()


def test_a_function_is_found_once_however_many_ways_lead_to_it():
    p = leaf([0.25])
    sample = rewarded(p, 3)
    a = sample * 2
    (a + a * sample + sample).backward()
    expected = -3 / (array(p) + array(sample) - 1)
    assert np.allclose(array(p.grad), expected)


def test_a_reward_is_used_up_unless_the_graph_is_retained():
    p = leaf([0.5])
    result = rewarded(p) * 2
    result.backward(retain_graph=True)
    result.backward()
    with pytest.raises(RuntimeError, match="requires providing a reward"):
        result.backward()


def test_grad_with_respect_to_the_probabilities():
    p = leaf([0.25])
    sample = rewarded(p)
    (g,) = grad([sample * 1], [p], [None])
    assert np.allclose(array(g), -1 / (array(p) + array(sample) - 1)) and p.grad is None


def test_detached_and_volatile_samples_lead_nowhere():
    p = leaf([0.5])
    for result in (rewarded(p).detach() * 2, Variable(rewarded(p).data) * 2):
        with pytest.raises(RuntimeError, match="there are no graph nodes that require computing gradients"):
            result.backward()
    volatile = Variable(p.data, volatile=True)
    assert Bernoulli()(volatile).grad_fn is None


def test_a_long_chain_behind_a_sample_is_searched_and_freed():
    p = leaf([0.5])
    x = rewarded(p)
    for _ in range(100000):
        x = x + 1
    x.backward()
    assert p.grad is not None
    del x


def test_a_cycle_through_what_is_computed_of_a_sample_is_collected():
    class Holder:
        pass

    p = leaf([0.5])
    holder = Holder()
    sample = rewarded(p)
    sample.grad_fn.holder = holder
    holder.result = sample * 2 + 1
    gone = weakref.ref(holder)
    del sample, holder
    gc.collect()
    assert gone() is None


def test_a_program_with_every_kind_of_sample():
    x, deviations = leaf(probabilities(2, 10)), leaf(probabilities(2, 10) * 5)
    y = (x * 2).clamp(0, 1)
    y = y / y.sum(1, True).expand_as(y)
    multinomial, row = Multinomial(5, False)(y), Multinomial(5, True)(y[0])
    bernoulli, normal, both = Bernoulli()(y), Normal(1)(y), Normal()(y, deviations)
    z = multinomial.double() * 2 + 4
    z = z + row.unsqueeze(0).expand_as(multinomial).double()
    z = torchlite.cat([z, z], 1) + bernoulli + normal + both
    last = Normal(4)(z)
    z = last + 2
    assert not z.requires_grad
    with pytest.raises(RuntimeError, match="requires providing a reward"):
        z.backward(retain_graph=True)
    for sample in (multinomial, row, bernoulli, normal, both):
        sample.reinforce(torchlite.from_numpy(np.random.default_rng(2).standard_normal(tuple(sample.size()))))
    last.backward(retain_graph=True)
    assert array(x.grad).any() and array(deviations.grad).any()
    z.backward()
    with pytest.raises(RuntimeError, match="requires providing a reward"):
        z.backward()
