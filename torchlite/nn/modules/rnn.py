"""Recurrent networks: RNN, LSTM and GRU.

Each layer and direction is one fused operation over all time steps; this module checks sizes, cuts the hidden state
into layers and joins the results. The cells, which do one step, are in `rnn_cell`.
"""

import math

import torchlite
from torchlite import _C
from torchlite.autograd import Variable
from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module
from torchlite.nn.parameter import Parameter
from torchlite.nn.utils.rnn import PackedSequence
from torchlite.utils.typename import typename

__all__ = ["GRU", "LSTM", "RNN", "RNNBase"]

_lstm_cell, _gru_cell = _C._find_op("lstm_cell"), _C._find_op("gru_cell")
_rnn, _lstm, _gru = (_C._find_op(name) for name in ("rnn", "lstm", "gru"))
_cat, _stack = _C._find_op("cat"), _C._find_op("stack")


class RNNBase(Module):
    """What RNN, LSTM and GRU share.

    Parameters of layer k: `weight_ih_lk` (G * hidden_size, input_size of the layer), `weight_hh_lk` (G * hidden_size,
    hidden_size), `bias_ih_lk`, `bias_hh_lk` (G * hidden_size), with G the number of gates; names of the second
    direction end in `_reverse`. All start uniform in +-1/sqrt(hidden_size).

    `forward(input, hx=None)`: `input` is (T, B, input_size), or (B, T, input_size) with `batch_first`, or a
    PackedSequence; every hidden state is (num_layers * num_directions, B, hidden_size) and zero by default. Returns the
    output of the last layer, (T, B, num_directions * hidden_size) in the layout of the input, and the hidden state
    after the last step. RuntimeError if a size doesn't fit.
    """

    _gates = 1

    def __init__(
        self,
        input_size,
        hidden_size,
        num_layers=1,
        bias=True,
        batch_first=False,
        dropout=0,
        bidirectional=False,
    ):
        super().__init__()
        name = type(self).__name__
        for argument, value in (("hidden_size", hidden_size), ("num_layers", num_layers)):
            if value < 1:
                raise ValueError(f"{name}: {argument} has to be at least 1, but is {value}")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout has to be between 0 and 1, but is {dropout}")
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self._all_weights = []
        rows = self._gates * hidden_size
        directions = 2 if bidirectional else 1
        for layer in range(num_layers):
            width = input_size if layer == 0 else directions * hidden_size
            for suffix in ("", "_reverse")[:directions]:
                shapes = {"weight_ih": (rows, width), "weight_hh": (rows, hidden_size)}
                if bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                names = []
                for kind, shape in shapes.items():
                    names.append(f"{kind}_l{layer}{suffix}")
                    self.register_parameter(names[-1], Parameter(torchlite.Tensor(*shape)))
                self._all_weights.append(names)
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            parameter.data.uniform_(-bound, bound)

    def flatten_parameters(self):
        """Does nothing: the parameters need no common block of memory here."""

    @property
    def all_weights(self):
        """The parameters: a list for each layer and direction, in the order of registration."""
        own = self._parameters
        return [[own[name] if name in own else getattr(self, name) for name in names] for names in self._all_weights]

    # ---- forward ----

    def _layer(self, input, state, weights, reverse):
        """Runs one layer in one direction; `state` is a tuple of (B, H). Returns the output and the last state."""
        raise NotImplementedError

    def _step(self, input, state, weights):
        """Runs one time step of one layer on `input` (B, I). Returns the new state, a tuple of (B, H)."""
        raise NotImplementedError

    _states: tuple[str, ...] = ("h0",)  # what the hidden state consists of

    def _initial_state(self, input, batch, hx):
        """The hidden state as a tuple of Variables, checked against the batch."""
        size = (len(self._all_weights), batch, self.hidden_size)
        name = type(self).__name__
        if hx is None:
            zeros = Variable(input.data.new(*size).zero_())
            return (zeros,) * len(self._states)
        if len(self._states) == 1:
            if not isinstance(hx, Variable):
                raise TypeError(f"{name}: the hidden state has to be a Variable, but is a {typename(hx)}")
            hx = (hx,)
        elif not isinstance(hx, (tuple, list)) or len(hx) != len(self._states):
            raise TypeError(
                f"{name}: the hidden state has to be a tuple ({', '.join(self._states)}), but is a {typename(hx)}"
            )
        for label, state in zip(self._states, hx, strict=True):
            if tuple(state.size()) != size:
                raise RuntimeError(f"{name}: expected {label} of size {size}, but got {tuple(state.size())}")
        return tuple(hx)

    def forward(self, input, hx=None):
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        sizes = tuple(input.size())
        if len(sizes) != 3 or sizes[2] != self.input_size:
            layout = "(B, T, I)" if self.batch_first else "(T, B, I)"
            raise RuntimeError(
                f"{type(self).__name__}: expected input of size {layout} with I = {self.input_size}, but got {sizes}"
            )
        if self.batch_first:
            input = input.transpose(0, 1)
        state = self._initial_state(input, sizes[0] if self.batch_first else sizes[1], hx)
        output, state = self._run_layers(input, state, self._layer)
        if self.batch_first:
            output = output.transpose(0, 1)
        return output, state

    def _run_layers(self, input, state, run_layer):
        weights = self.all_weights
        directions = 2 if self.bidirectional else 1
        last = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(directions):
                i = layer * directions + direction
                output, end = run_layer(input, tuple(s[i] for s in state), weights[i], direction == 1)
                outputs.append(output)
                last.append(end)
            input = outputs[0] if directions == 1 else _cat(outputs, outputs[0].dim() - 1)
            if self.dropout and self.training and layer < self.num_layers - 1:
                input = F.dropout(input, self.dropout, True)
        joined = tuple(
            parts[0].unsqueeze(0) if len(parts) == 1 else _stack(list(parts), 0) for parts in zip(*last, strict=True)
        )
        return input, joined if len(joined) > 1 else joined[0]

    def _forward_packed(self, packed, hx):
        data, batch_sizes = packed
        width = tuple(data.size())[1:]
        if width != (self.input_size,):
            raise RuntimeError(
                f"{type(self).__name__}: expected packed data of size (N, I) with I = {self.input_size}, "
                f"but got {tuple(data.size())}"
            )
        state = self._initial_state(data, batch_sizes[0], hx)

        def run_layer(data, state, weights, reverse):
            return self._packed_layer(data, batch_sizes, state, weights, reverse)

        data, state = self._run_layers(data, state, run_layer)
        return PackedSequence(data, batch_sizes), state

    def _packed_layer(self, data, batch_sizes, state, weights, reverse):
        """Runs one layer and direction over packed data, step by step with as many rows as are still running."""
        steps, offset = [], 0
        for size in batch_sizes:
            steps.append((offset, size))
            offset += size
        outputs = []
        if reverse:  # sequences join as time runs back to their last element
            initial, state = state, tuple(s[: batch_sizes[-1]] for s in state)
            running = batch_sizes[-1]
            for offset, size in reversed(steps):
                if size > running:
                    state = tuple(_cat([s, s0[running:size]], 0) for s, s0 in zip(state, initial, strict=True))
                    running = size
                state = self._step(data[offset : offset + size], state, weights)
                outputs.append(state[0])
            return _cat(outputs[::-1], 0), state
        ended = []  # final states of the sequences that are over, shortest first
        running = batch_sizes[0]
        for offset, size in steps:
            if size < running:
                ended.append(tuple(s[size:running] for s in state))
                state = tuple(s[:size] for s in state)
                running = size
            state = self._step(data[offset : offset + size], state, weights)
            outputs.append(state[0])
        if ended:
            ended.append(state)
            state = tuple(_cat(list(parts), 0) for parts in zip(*ended[::-1], strict=True))
        return _cat(outputs, 0), state

    def __setstate__(self, state):
        super().__setstate__(state)
        if "_all_weights" not in self.__dict__:
            raise ValueError(f"{type(self).__name__}: the pickled state has no list of weights")

    def __repr__(self):
        options = [f"{self.input_size}, {self.hidden_size}"]
        if self.num_layers != 1:
            options.append(f"num_layers={self.num_layers}")
        if self.bias is not True:
            options.append(f"bias={self.bias}")
        if self.batch_first is not False:
            options.append(f"batch_first={self.batch_first}")
        if self.dropout != 0:
            options.append(f"dropout={self.dropout}")
        if self.bidirectional is not False:
            options.append(f"bidirectional={self.bidirectional}")
        return f"{type(self).__name__}({', '.join(options)})"


def _biases(weights):
    return weights[2:] if len(weights) == 4 else (None, None)


class RNN(RNNBase):
    """Elman network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh), or relu with `nonlinearity='relu'`.

    RNN(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False,
    nonlinearity='tanh'); `dropout` acts between layers. `output, h_n = rnn(input, h_0)`, see RNNBase for the sizes.
    """

    def __init__(self, *args, nonlinearity="tanh", **kwargs):
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: nonlinearity has to be 'tanh' or 'relu', but is {nonlinearity!r}")
        super().__init__(*args, **kwargs)
        self.nonlinearity = nonlinearity

    def _layer(self, input, state, weights, reverse):
        b_ih, b_hh = _biases(weights)
        output, h = _rnn(input, state[0], weights[0], weights[1], b_ih, b_hh, self.nonlinearity, reverse)
        return output, (h,)

    def _step(self, input, state, weights):
        b_ih, b_hh = _biases(weights)
        gates = F.linear(input, weights[0], b_ih) + F.linear(state[0], weights[1], b_hh)
        return (gates.tanh() if self.nonlinearity == "tanh" else F.relu(gates),)


class LSTM(RNNBase):
    """Long short-term memory (https://www.bioinf.jku.at/publications/older/2604.pdf, with forget gates).

    Rows of the weights are the gates i, f, g, o: c' = sigmoid(f) c + sigmoid(i) tanh(g); h' = sigmoid(o) tanh(c').

    LSTM(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False);
    `dropout` acts between layers. `output, (h_n, c_n) = lstm(input, (h_0, c_0))`, see RNNBase for the sizes.
    """

    _gates = 4
    _states = ("h0", "c0")

    def _layer(self, input, state, weights, reverse):
        b_ih, b_hh = _biases(weights)
        output, h, c = _lstm(input, state[0], state[1], weights[0], weights[1], b_ih, b_hh, reverse)
        return output, (h, c)

    def _step(self, input, state, weights):
        b_ih, b_hh = _biases(weights)
        return _lstm_cell(F.linear(input, weights[0]), F.linear(state[0], weights[1]), b_ih, b_hh, state[1])


class GRU(RNNBase):
    """Gated recurrent unit (https://arxiv.org/abs/1406.1078, with the reset gate after the product).

    Rows of the weights are the gates r, z, n: n' = tanh(W_in x + b_in + r (W_hn h + b_hn)); h' = (1 - z) n' + z h.

    GRU(input_size, hidden_size, num_layers=1, bias=True, batch_first=False, dropout=0, bidirectional=False);
    `dropout` acts between layers. `output, h_n = gru(input, h_0)`, see RNNBase for the sizes.
    """

    _gates = 3

    def _layer(self, input, state, weights, reverse):
        b_ih, b_hh = _biases(weights)
        output, h = _gru(input, state[0], weights[0], weights[1], b_ih, b_hh, reverse)
        return output, (h,)

    def _step(self, input, state, weights):
        b_ih, b_hh = _biases(weights)
        return (_gru_cell(F.linear(input, weights[0]), F.linear(state[0], weights[1]), b_ih, b_hh, state[0]),)
