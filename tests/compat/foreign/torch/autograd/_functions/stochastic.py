"""Samples; backward(reward) weighs the gradient of the log-probability of what was drawn."""

from ..stochastic_function import StochasticFunction


class Multinomial(StochasticFunction):
    def __init__(self, num_samples, with_replacement):
        super().__init__()
        self.num_samples, self.with_replacement = num_samples, with_replacement

    def forward(self, probs):
        samples = probs.multinomial(self.num_samples, self.with_replacement)
        self.save_for_backward(probs, samples)
        self.mark_non_differentiable(samples)
        return samples

    def backward(self, reward):
        probs, samples = self.saved_tensors
        rows = probs if probs.dim() == 2 else probs.unsqueeze(0)
        drawn = samples if samples.dim() == 2 else samples.unsqueeze(0)
        reward = reward if reward.dim() == 2 else reward.unsqueeze(0)
        grad = rows.new(rows.size()).zero_()
        chosen = rows.gather(1, drawn)
        grad.scatter_add_(1, drawn, -reward.type_as(rows) / chosen)
        # d log(p_k / sum p) has a second term where the probabilities were not normalised.
        total = reward.type_as(rows).sum(1, keepdim=True) / rows.sum(1, keepdim=True)
        grad.add_(total.expand_as(grad))
        return grad if probs.dim() == 2 else grad.squeeze(0)


class Bernoulli(StochasticFunction):
    def forward(self, probs):
        samples = probs.new(probs.size()).bernoulli_(probs)
        self.save_for_backward(probs, samples)
        self.mark_non_differentiable(samples)
        return samples

    def backward(self, reward):
        probs, samples = self.saved_tensors
        return (probs - samples) / (probs * (1 - probs)) * reward


class Normal(StochasticFunction):
    def __init__(self, stddev=None):
        super().__init__()
        self.stddev = stddev

    def forward(self, means, stddevs=None):
        noise = means.new(means.size()).normal_()
        std = self.stddev if stddevs is None else stddevs
        samples = noise * std + means
        if stddevs is None:
            self.save_for_backward(samples, means)
        else:
            self.save_for_backward(samples, means, stddevs)
        self.mark_non_differentiable(samples)
        return samples

    def backward(self, reward):
        saved = self.saved_tensors
        samples, means = saved[:2]
        distance = samples - means
        if len(saved) == 2:
            return -distance / self.stddev ** 2 * reward
        std = saved[2]
        return -distance / std ** 2 * reward, (1 / std - distance ** 2 / std ** 3) * reward
