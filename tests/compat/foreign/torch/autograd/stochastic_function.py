"""Functions with a random output, whose gradient comes from a reward."""

from numbers import Number

import torch

from .function import Function


class StochasticFunction(Function):
    def __init__(self):
        self.reward = None

    def _do_forward(self, *inputs):
        result = super()._do_forward(*inputs)
        self.output_info = type(inputs[0].data), result.data.size()
        return result

    __call__ = _do_forward

    def _do_backward(self, grad_output, retain_variables):
        if self.reward is None:
            raise RuntimeError("differentiating stochastic functions requires providing a reward")
        result = super()._do_backward((self.reward,), retain_variables)
        if not retain_variables:
            self.reward = None
        return result

    def _reinforce(self, reward):
        cls, size = self.output_info
        if not isinstance(reward, Number):
            if type(reward) is not cls:
                names = torch.typename(reward), torch.typename(cls)
                raise TypeError("mismatch between reward and output type: got {}, but expected {}".format(*names))
            if reward.size() != size:
                raise ValueError("got reward of size {}, but expected a tensor of size {}".format(
                    "x".join(map(str, reward.size())), "x".join(map(str, size))))
        if self.reward is not None:
            raise RuntimeError("you can only reinforce a stochastic Function once")
        self.reward = cls(*size).fill_(reward) if isinstance(reward, Number) else reward
