"""Functions that draw a sample: their gradient comes from a reward instead of from their outputs."""

from __future__ import annotations

from numbers import Number
from typing import Any

from .function import Function


def _typename(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class StochasticFunction(Function):
    """An old-style Function with one random output.

    ``output.reinforce(reward)`` gives the reward; ``backward(reward)`` computes the gradients of the inputs from it.
    The engine starts such Functions by itself and ignores gradients that arrive at their output.
    """

    reward: Any = None

    def _do_forward(self, *inputs):
        result = super()._do_forward(*inputs)
        if isinstance(result, tuple):
            raise RuntimeError(f"{type(self).__name__}: a stochastic Function must return a single tensor, not a tuple")
        self._reward_type = type(inputs[0].data) if inputs else type(result.data)
        self._reward_size = result.data.size()
        return result

    __call__ = _do_forward

    def _do_backward(self, grad_output, retain_variables):
        if self.reward is None:
            raise RuntimeError("differentiating stochastic functions requires providing a reward")
        result = super()._do_backward((self.reward,), retain_variables)
        if not retain_variables:
            self.reward = None
        return result

    def _reinforce(self, reward: Any) -> None:
        size = self._reward_size
        if not isinstance(reward, Number):
            if type(reward) is not self._reward_type:
                raise TypeError(
                    f"mismatch between reward and output type: got {_typename(type(reward))}, "
                    f"but expected {_typename(self._reward_type)}"
                )
            if reward.size() != size:
                raise ValueError(
                    f"got reward of size {'x'.join(map(str, reward.size()))}, "
                    f"but expected a tensor of size {'x'.join(map(str, size))}"
                )
        if self.reward is not None:
            raise RuntimeError("you can only reinforce a stochastic Function once")
        self.reward = self._reward_type(size).fill_(reward) if isinstance(reward, Number) else reward
