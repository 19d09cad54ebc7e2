"""Linear."""

import math

import torchlite
from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module
from torchlite.nn.parameter import Parameter

__all__ = ["Linear"]


class Linear(Module):
    """y = x weight^T + bias, for x of size (..., in_features) and y of size (..., out_features).

    `weight` (out_features, in_features) and `bias` (out_features, or None without `bias`) start uniform in
    +-1/sqrt(in_features).
    """

    def __init__(self, in_features, out_features, bias=True):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(torchlite.Tensor(out_features, in_features))
        self.register_parameter("bias", Parameter(torchlite.Tensor(out_features)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values."""
        bound = 1 / math.sqrt(max(self.in_features, 1))
        self.weight.data.uniform_(-bound, bound)
        if self.bias is not None:
            self.bias.data.uniform_(-bound, bound)

    def forward(self, input):
        own = self._parameters  # faster than attributes, which stand in where one was taken out
        return F.linear(
            input,
            own["weight"] if "weight" in own else self.weight,
            own["bias"] if "bias" in own else self.bias,
        )

    def __repr__(self):
        return f"{type(self).__name__} ({self.in_features} -> {self.out_features})"
