"""Samples of the recurrent rows."""

import numpy as np
from samples import op, real, sample


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plus(x, *biases):
    for b in biases:
        x = x if b is None else x + b
    return x


def lstm_cell(x, y, b_ih, b_hh, c):
    i, f, g, o = np.split(plus(x + y, b_ih, b_hh), 4, 1)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_cell(x, y, b_ih, b_hh, h):
    xr, xz, xn = np.split(plus(x, b_ih), 3, 1)
    yr, yz, yn = np.split(plus(y, b_hh), 3, 1)
    n = np.tanh(xn + sigmoid(xr + yr) * yn)
    z = sigmoid(xz + yz)
    return (1 - z) * n + z * h


def layer(step, x, state, reverse):
    output = np.empty((*x.shape[:2], state[0].shape[1]), x.dtype)
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        state = step(x[t], *state)
        output[t] = state[0]
    return (output, *state)


def lstm(x, h, c, w_ih, w_hh, b_ih=None, b_hh=None, reverse=False):
    return layer(lambda x, h, c: lstm_cell(x @ w_ih.T, h @ w_hh.T, b_ih, b_hh, c), x, (h, c), reverse)


def gru(x, h, w_ih, w_hh, b_ih=None, b_hh=None, reverse=False):
    return layer(lambda x, h: (gru_cell(x @ w_ih.T, h @ w_hh.T, b_ih, b_hh, h),), x, (h,), reverse)


def rnn(x, h, w_ih, w_hh, b_ih=None, b_hh=None, nonlinearity="tanh", reverse=False):
    f = np.tanh if nonlinearity == "tanh" else lambda a: np.maximum(a, 0)
    return layer(lambda x, h: (f(plus(x @ w_ih.T + h @ w_hh.T, b_ih, b_hh)),), x, (h,), reverse)


def operands(gates, states):
    """input (3, 2, 4), the states of 3 units, and the weights."""
    return [real(3, 2, 4), *[real(2, 3)] * states, real(gates * 3, 4), real(gates * 3, 3)]


SAMPLES = [
    op(
        "lstm_cell",
        sample(real(2, 12), real(2, 12), real(12), real(12), real(2, 3)),
        sample(real(2, 12), real(2, 12), None, None, real(2, 3)),
        reference=lstm_cell,
    ),
    op(
        "gru_cell",
        sample(real(2, 9), real(2, 9), real(9), real(9), real(2, 3)),
        sample(real(2, 9), real(2, 9), None, None, real(2, 3)),
        reference=gru_cell,
    ),
    op(
        "lstm",
        sample(*operands(4, 2), real(12), real(12)),
        sample(*operands(4, 2), None, None, True),
        sample(real(1, 2, 4), *operands(4, 2)[1:], real(12), real(12), True),
        reference=lstm,
    ),
    op(
        "gru",
        sample(*operands(3, 1), real(9), real(9)),
        sample(*operands(3, 1), None, None, True),
        reference=gru,
    ),
    op(
        "rnn",
        sample(*operands(1, 1), real(3), real(3)),
        sample(*operands(1, 1), None, None, "tanh", True),
        sample(*operands(1, 1), real(3), real(3), "relu"),
        reference=rnn,
    ),
]
