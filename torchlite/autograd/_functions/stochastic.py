"""Random samples whose inputs get a gradient from a reward. Old-style Functions.

``backward`` gives the gradient of ``-reward * log p(sample)``: a step down it makes samples of high reward likelier.
"""

from __future__ import annotations

from typing import Any

from ..stochastic_function import StochasticFunction


class Multinomial(StochasticFunction):
    """Multinomial(num_samples, with_replacement)

    Called with weights of size ``(k,)`` or ``(n, k)``, which need not sum to 1, it draws ``num_samples`` of the k
    classes for each row, a LongTensor of size ``(num_samples,)`` or ``(n, num_samples)``.
    """

    def __init__(self, num_samples: int, with_replacement: bool):
        super().__init__()
        self.num_samples = num_samples
        self.with_replacement = with_replacement

    def forward(self, probs: Any) -> Any:  # type: ignore[override]
        samples = probs.multinomial(self.num_samples, self.with_replacement)
        self.save_for_backward(probs, samples)
        self.mark_non_differentiable(samples)
        return samples

    def backward(self, reward: Any) -> Any:  # type: ignore[override]
        probs, samples = self.saved_tensors
        dim = probs.dim() - 1
        drawn = probs.gather(dim, samples)
        if self.with_replacement:
            weight = probs.sum(dim, True).expand_as(drawn)
        else:
            # What draw k chose from: the classes that are never drawn, and those that k and later draws took.
            never = probs.clone().scatter_(dim, samples, 0).sum(dim, True)
            weight = drawn.flip(dim).cumsum(dim).flip(dim) + never
        # log p is the sum over draws of log drawn - log weight.
        share = reward / weight
        result = share.sum(dim, True).expand_as(probs).clone()
        at_drawn = -reward / drawn
        if not self.with_replacement:
            at_drawn -= share.sum(dim, True) - share.cumsum(dim)  # a drawn class had no part in later draws
        return result.scatter_add_(dim, samples, at_drawn)


class Bernoulli(StochasticFunction):
    """Bernoulli()

    Called with probabilities, it draws ones with them and else zeros, of their type and size.
    """

    def forward(self, probs: Any) -> Any:  # type: ignore[override]
        samples = probs.new(probs.size()).bernoulli_(probs)
        self.save_for_backward(probs, samples)
        self.mark_non_differentiable(samples)
        return samples

    def backward(self, reward: Any) -> Any:  # type: ignore[override]
        probs, samples = self.saved_tensors
        # d log p(s) / dp is 1 / p where s is 1 and -1 / (1 - p) where it is 0.
        return -reward / (probs + (samples - 1))


class Normal(StochasticFunction):
    """Normal(stddev=None)

    Called with means, it draws from the normal distributions around them, of their type and size. The standard
    deviation is the number ``stddev`` or, without one, the second argument of the call, of the means' size.
    """

    def __init__(self, stddev: float | None = None):
        super().__init__()
        if stddev is not None and stddev < 0:
            raise ValueError(f"Normal: stddev must not be negative, but got {stddev}")
        self.stddev: Any = stddev

    def forward(self, means: Any, stddevs: Any = None) -> Any:  # type: ignore[override]
        if (stddevs is None) == (self.stddev is None):
            raise TypeError("Normal: the standard deviation is given either to the constructor or to the call")
        noise = means.new(means.size()).normal_()
        samples = means + noise * (self.stddev if stddevs is None else stddevs)
        self.save_for_backward(means, samples, stddevs)
        self.mark_non_differentiable(samples)
        return samples

    def backward(self, reward: Any) -> Any:  # type: ignore[override]
        means, samples, stddevs = self.saved_tensors
        offset = samples - means
        if stddevs is None:
            return -reward * offset / self.stddev**2
        return -reward * offset / stddevs**2, -reward * (offset**2 / stddevs**2 - 1) / stddevs
