"""Recurrent cells: one time step of RNN, LSTM and GRU."""

import math

import torchlite
from torchlite import _C
from torchlite.autograd import Variable
from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module
from torchlite.nn.parameter import Parameter

__all__ = ["GRUCell", "LSTMCell", "RNNCell", "RNNCellBase"]

_lstm_cell, _gru_cell = _C._find_op("lstm_cell"), _C._find_op("gru_cell")
_linear = F.linear


class RNNCellBase(Module):
    """What the cells share.

    Parameters: `weight_ih` (G * hidden_size, input_size), `weight_hh` (G * hidden_size, hidden_size), `bias_ih`,
    `bias_hh` (G * hidden_size, or None), with G the number of gates; all start uniform in +-1/sqrt(hidden_size).
    Input is (B, input_size), every hidden state (B, hidden_size), zero by default. RuntimeError if a size doesn't fit.
    """

    _gates = 1

    def __init__(self, input_size, hidden_size, bias=True):
        super().__init__()
        if hidden_size < 1:
            raise ValueError(f"{type(self).__name__}: hidden_size has to be at least 1, but is {hidden_size}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        rows = self._gates * hidden_size
        self.weight_ih = Parameter(torchlite.Tensor(rows, input_size))
        self.weight_hh = Parameter(torchlite.Tensor(rows, hidden_size))
        self.register_parameter("bias_ih", Parameter(torchlite.Tensor(rows)) if bias else None)
        self.register_parameter("bias_hh", Parameter(torchlite.Tensor(rows)) if bias else None)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            parameter.data.uniform_(-bound, bound)

    def _weights(self):
        own = self._parameters  # faster than attributes, which stand in where one was taken out
        try:
            return own["weight_ih"], own["weight_hh"], own["bias_ih"], own["bias_hh"]
        except KeyError:
            return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def _check(self, input, h, c=None):
        """Raises RuntimeError unless the sizes of the input and the states fit."""
        size = input.size()
        if len(size) == 2 and size[1] == self.input_size:
            expected = (size[0], self.hidden_size)
            if h.size() == expected and (c is None or c.size() == expected):
                return
            label, state = ("h", h) if h.size() != expected else ("c", c)
        else:
            label, state, expected = "input", input, f"(B, {self.input_size})"
        raise RuntimeError(f"{type(self).__name__}: expected {label} of size {expected}, but got {tuple(state.size())}")

    def _zero_state(self, input):
        return Variable(input.data.new(input.size(0), self.hidden_size).zero_())

    def __repr__(self):
        options = [f"{self.input_size}, {self.hidden_size}"]
        if self.bias is not True:
            options.append(f"bias={self.bias}")
        return f"{type(self).__name__}({', '.join(options)})"


class RNNCell(RNNCellBase):
    """h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu with `nonlinearity='relu'`. `h = cell(input, h)`."""

    def __init__(self, input_size, hidden_size, bias=True, nonlinearity="tanh"):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell: nonlinearity has to be 'tanh' or 'relu', but is {nonlinearity!r}")
        super().__init__(input_size, hidden_size, bias)
        self.nonlinearity = nonlinearity

    def forward(self, input, hx=None):
        if hx is None:
            hx = self._zero_state(input)
        self._check(input, hx)
        w_ih, w_hh, b_ih, b_hh = self._weights()
        gates = _linear(input, w_ih, b_ih) + _linear(hx, w_hh, b_hh)
        return gates.tanh() if self.nonlinearity == "tanh" else F.relu(gates)


class LSTMCell(RNNCellBase):
    """One step of an LSTM; gates and formulas as in `LSTM`. `h, c = cell(input, (h, c))`."""

    _gates = 4

    def forward(self, input, hx=None):
        if hx is None:
            h = c = self._zero_state(input)
        else:
            h, c = hx
        self._check(input, h, c)
        w_ih, w_hh, b_ih, b_hh = self._weights()
        return _lstm_cell(_linear(input, w_ih), _linear(h, w_hh), b_ih, b_hh, c)


class GRUCell(RNNCellBase):
    """One step of a GRU; gates and formulas as in `GRU`. `h = cell(input, h)`."""

    _gates = 3

    def forward(self, input, hx=None):
        if hx is None:
            hx = self._zero_state(input)
        self._check(input, hx)
        w_ih, w_hh, b_ih, b_hh = self._weights()
        return _gru_cell(_linear(input, w_ih), _linear(hx, w_hh), b_ih, b_hh, hx)
