"""Activations as modules; `torchlite.nn.functional` has their formulas."""

from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module

__all__ = ["ELU", "LeakyReLU", "LogSoftmax", "ReLU", "Sigmoid", "Softmax", "Softplus", "Tanh"]


class _Activation(Module):
    """An activation whose repr shows the attributes that `_options` names."""

    _options: tuple[str, ...] = ()

    def __repr__(self):
        options = [f"{name}={getattr(self, name)}" for name in self._options]
        if getattr(self, "inplace", False):
            options.append("inplace")
        return f"{type(self).__name__} ({', '.join(options)})"


class ReLU(_Activation):
    """max(x, 0), elementwise; `inplace` writes into the input."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace

    def forward(self, input):
        return F.relu(input, self.inplace)


class LeakyReLU(_Activation):
    """x where x > 0, else `negative_slope` * x, elementwise; `inplace` writes into the input."""

    _options = ("negative_slope",)

    def __init__(self, negative_slope=0.01, inplace=False):
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input):
        return F.leaky_relu(input, self.negative_slope, self.inplace)


class ELU(_Activation):
    """x where x > 0, else `alpha` * (exp(x) - 1), elementwise; `inplace` writes into the input."""

    _options = ("alpha",)

    def __init__(self, alpha=1.0, inplace=False):
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input):
        return F.elu(input, self.alpha, self.inplace)


class Sigmoid(_Activation):
    """1 / (1 + exp(-x)), elementwise."""

    def forward(self, input):
        return F.sigmoid(input)


class Tanh(_Activation):
    """tanh(x), elementwise."""

    def forward(self, input):
        return F.tanh(input)


class Softplus(_Activation):
    """log(1 + exp(`beta` x)) / `beta`, elementwise; x itself where `beta` x > `threshold`."""

    _options = ("beta", "threshold")

    def __init__(self, beta=1, threshold=20):
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input):
        return F.softplus(input, self.beta, self.threshold)


class Softmax(_Activation):
    """exp(x) / sum(exp(x)) over dimension 0 of a 1-d or 3-d input, 1 of a 2-d or 4-d one, or over `dim`."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.softmax(input, self.dim)


class LogSoftmax(_Activation):
    """The logarithm of `Softmax(dim)`, computed without overflow."""

    def __init__(self, dim=None):
        super().__init__()
        self.dim = dim

    def forward(self, input):
        return F.log_softmax(input, self.dim)
