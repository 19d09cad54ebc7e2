"""Recurrent cells and layers, forward and backward. Sizes: T steps, B sequences, H hidden units.

A layer is one product for the inputs of all steps, then one small product and one cell a step; its backward has one
small product a step and one large one a weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torchlite.cuda import _kernels
from torchlite.cuda.rows.elementwise import sigmoid_of, wide


def _wide_all(xp: Any, *arrays: Any) -> list[Any]:
    return [None if a is None else wide(xp, a) for a in arrays]


def _with_bias(x: Any, bias: Any) -> Any:
    return x if bias is None else x + bias


# ---- cells -----------------------------------------------------------------------------------------------------------


def lstm_step(xp: Any, gates: Any, c: Any) -> tuple[Any, Any, Any, Any]:
    """h', c', the activated gates i, f, g, o and tanh(c') from the gates before their functions (B, 4 H)."""
    if _kernels.compiles(xp):
        return _kernels.lstm_cell(xp, gates, c)
    i, f, g, o = xp.split(gates, 4, axis=1)
    i, f, g, o = sigmoid_of(xp, i), sigmoid_of(xp, f), xp.tanh(g), sigmoid_of(xp, o)
    c = f * c + i * g
    t = xp.tanh(c)
    return o * t, c, xp.concatenate([i, f, g, o], axis=1), t


def lstm_step_backward(xp: Any, dh: Any, dc: Any, gates: Any, tanh_c: Any, c: Any) -> tuple[Any, Any]:
    """Gradients of the gates before their functions, and of the state before the step. dh or dc may be None."""
    dh = xp.zeros_like(c) if dh is None else dh
    dc = xp.zeros_like(c) if dc is None else dc
    if _kernels.compiles(xp):
        return _kernels.lstm_cell_backward(xp, dh, dc, gates, tanh_c, c)
    i, f, g, o = xp.split(gates, 4, axis=1)
    d = dc + dh * o * (1 - tanh_c * tanh_c)
    parts = [d * g * (i * (1 - i)), d * c * (f * (1 - f)), d * i * (1 - g * g), dh * tanh_c * (o * (1 - o))]
    return xp.concatenate(parts, axis=1), d * f


def gru_step(xp: Any, a: Any, b: Any, h: Any) -> tuple[Any, Any, Any]:
    """h', the activated gates r, z, n and the hidden part of n, from the two parts of the gates (B, 3 H)."""
    if _kernels.compiles(xp):
        return _kernels.gru_cell(xp, a, b, h)
    ar, az, an = xp.split(a, 3, axis=1)
    br, bz, bn = xp.split(b, 3, axis=1)
    r, z = sigmoid_of(xp, ar + br), sigmoid_of(xp, az + bz)
    n = xp.tanh(an + r * bn)
    return n + z * (h - n), xp.concatenate([r, z, n], axis=1), bn


def gru_step_backward(xp: Any, dh: Any, gates: Any, hidden_n: Any, h: Any) -> tuple[Any, Any, Any]:
    """Gradients of the two parts of the gates and of the state before the step, the products apart."""
    if _kernels.compiles(xp):
        return _kernels.gru_cell_backward(xp, dh, gates, hidden_n, h)
    r, z, n = xp.split(gates, 3, axis=1)
    dn = dh * (1 - z) * (1 - n * n)
    dz = dh * (h - n) * (z * (1 - z))
    dr = dn * hidden_n * (r * (1 - r))
    return xp.concatenate([dr, dz, dn], axis=1), xp.concatenate([dr, dz, dn * r], axis=1), dh * z


def lstm_cell(xp: Any, a: Any, b: Any, bias_a: Any, bias_b: Any, c: Any) -> Any:
    a, b, bias_a, bias_b, c = _wide_all(xp, a, b, bias_a, bias_b, c)
    return lstm_step(xp, _with_bias(_with_bias(a + b, bias_a), bias_b), c)


def lstm_cell_backward(xp: Any, grads: Any, args: Any, results: Any, needs: Any) -> Any:
    dh, dc = _wide_all(xp, *grads)
    dgates, dprevious = lstm_step_backward(xp, dh, dc, results[2], results[3], wide(xp, args[4]))
    bias = xp.sum(dgates, axis=0) if needs[2] or needs[3] else None
    return dgates, dgates, bias, bias, dprevious


def gru_cell(xp: Any, a: Any, b: Any, bias_a: Any, bias_b: Any, h: Any) -> Any:
    a, b, bias_a, bias_b, h = _wide_all(xp, a, b, bias_a, bias_b, h)
    return gru_step(xp, _with_bias(a, bias_a), _with_bias(b, bias_b), h)


def gru_cell_backward(xp: Any, grads: Any, args: Any, results: Any, needs: Any) -> Any:
    da, db, dh = gru_step_backward(xp, wide(xp, grads[0]), results[1], results[2], wide(xp, args[4]))
    return (da, db, xp.sum(da, axis=0) if needs[2] else None, xp.sum(db, axis=0) if needs[3] else None, dh)


# ---- layers ----------------------------------------------------------------------------------------------------------


def _order(steps: int, reverse: bool) -> range:
    return range(steps - 1, -1, -1) if reverse else range(steps)


def lstm(xp: Any, x: Any, h: Any, c: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, reverse: bool) -> Any:
    x, h, c, w_ih, w_hh, b_ih, b_hh = _wide_all(xp, x, h, c, w_ih, w_hh, b_ih, b_hh)
    gates = _with_bias(_with_bias(xp.matmul(x, w_ih.T), b_ih), b_hh)
    output = xp.empty((*x.shape[:2], h.shape[1]), x.dtype)
    cells, tanh_c = xp.empty_like(output), xp.empty_like(output)
    for t in _order(len(x), reverse):
        h, c, gates[t], tanh_c[t] = lstm_step(xp, gates[t] + xp.matmul(h, w_hh.T), c)
        output[t], cells[t] = h, c
    return output, h, c, gates, tanh_c, cells


def gru(xp: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, reverse: bool) -> Any:
    x, h, w_ih, w_hh, b_ih, b_hh = _wide_all(xp, x, h, w_ih, w_hh, b_ih, b_hh)
    gates = _with_bias(xp.matmul(x, w_ih.T), b_ih)
    output = xp.empty((*x.shape[:2], h.shape[1]), x.dtype)
    hidden_n = xp.empty_like(output)
    for t in _order(len(x), reverse):
        h, gates[t], hidden_n[t] = gru_step(xp, gates[t], _with_bias(xp.matmul(h, w_hh.T), b_hh), h)
        output[t] = h
    return output, h, gates, hidden_n


def _nonlinearity(name: str) -> bool:
    if name not in ("tanh", "relu"):
        raise ValueError(f"rnn: nonlinearity must be 'tanh' or 'relu', but is '{name}'")
    return name == "relu"


def rnn(
    xp: Any, x: Any, h: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, nonlinearity: str, reverse: bool
) -> Any:
    relu = _nonlinearity(nonlinearity)
    x, h, w_ih, w_hh, b_ih, b_hh = _wide_all(xp, x, h, w_ih, w_hh, b_ih, b_hh)
    output = _with_bias(_with_bias(xp.matmul(x, w_ih.T), b_ih), b_hh)
    for t in _order(len(x), reverse):
        before = output[t] + xp.matmul(h, w_hh.T)
        h = xp.maximum(before, 0) if relu else xp.tanh(before)
        output[t] = h
    return output, h


def _states_before(xp: Any, first: Any, output: Any, reverse: bool) -> Any:
    """The state that each step started from: the output one step earlier, ``first`` for the first."""
    if reverse:
        return xp.concatenate([output[1:], first[None]])
    return xp.concatenate([first[None], output[:-1]])


def _weight_gradients(xp: Any, x: Any, before: Any, w_ih: Any, da: Any, db: Any, needs: Any) -> list[Any]:
    """Of the input, of both weights and of both biases, those that are needed."""

    def product(d: Any, y: Any) -> Any:
        return xp.matmul(d.reshape(-1, d.shape[2]).T, y.reshape(-1, y.shape[2]))

    return [
        xp.matmul(da, w_ih) if needs[0] else None,
        product(da, x) if needs[1] else None,
        product(db, before) if needs[2] else None,
        xp.sum(da, axis=(0, 1)) if needs[3] else None,
        xp.sum(db, axis=(0, 1)) if needs[4] else None,
    ]


def _start(xp: Any, g: Any, like: Any) -> Any:
    return xp.zeros_like(like) if g is None else wide(xp, g)


def lstm_backward(xp: Any, grads: Any, args: Any, results: Any, needs: Any) -> Any:
    x, h0, c0, w_ih, w_hh = _wide_all(xp, *args[:5])
    reverse = args[7]
    output = wide(xp, results[0])
    gates, tanh_c, cells = results[3:]
    doutput = None if grads[0] is None else wide(xp, grads[0])
    dh, dc = _start(xp, grads[1], h0), _start(xp, grads[2], c0)
    dgates = xp.empty_like(gates)
    cells_before = _states_before(xp, c0, cells, reverse)
    for t in reversed(_order(len(x), reverse)):
        if doutput is not None:
            dh = dh + doutput[t]
        dgates[t], dc = lstm_step_backward(xp, dh, dc, gates[t], tanh_c[t], cells_before[t])
        dh = xp.matmul(dgates[t], w_hh)
    wanted = (needs[0], *needs[3:7])
    before = _states_before(xp, h0, output, reverse)
    dx, dw_ih, dw_hh, db_ih, db_hh = _weight_gradients(xp, x, before, w_ih, dgates, dgates, wanted)
    return dx, dh, dc, dw_ih, dw_hh, db_ih, db_hh, None


def gru_backward(xp: Any, grads: Any, args: Any, results: Any, needs: Any) -> Any:
    x, h0, w_ih, w_hh = _wide_all(xp, *args[:4])
    reverse = args[6]
    before = _states_before(xp, h0, wide(xp, results[0]), reverse)
    gates, hidden_n = results[2:]
    doutput = None if grads[0] is None else wide(xp, grads[0])
    dh = _start(xp, grads[1], h0)
    da, db = xp.empty_like(gates), xp.empty_like(gates)
    for t in reversed(_order(len(x), reverse)):
        if doutput is not None:
            dh = dh + doutput[t]
        da[t], db[t], dh = gru_step_backward(xp, dh, gates[t], hidden_n[t], before[t])
        dh = dh + xp.matmul(db[t], w_hh)
    dx, *weights = _weight_gradients(xp, x, before, w_ih, da, db, (needs[0], *needs[2:6]))
    return (dx, dh, *weights, None)


def rnn_backward(xp: Any, grads: Any, args: Any, results: Any, needs: Any) -> Any:
    x, h0, w_ih, w_hh = _wide_all(xp, *args[:4])
    relu, reverse = _nonlinearity(args[6]), args[7]
    output = wide(xp, results[0])
    doutput = None if grads[0] is None else wide(xp, grads[0])
    dh = _start(xp, grads[1], h0)
    dgates = xp.empty_like(output)
    for t in reversed(_order(len(x), reverse)):
        if doutput is not None:
            dh = dh + doutput[t]
        y = output[t]
        dgates[t] = xp.where(y > 0, dh, np.float32(0).astype(dh.dtype)) if relu else dh * (1 - y * y)
        dh = xp.matmul(dgates[t], w_hh)
    before = _states_before(xp, h0, output, reverse)
    dx, *weights = _weight_gradients(xp, x, before, w_ih, dgates, dgates, (needs[0], *needs[2:6]))
    return (dx, dh, *weights, None, None)


FORWARD = {"lstm_cell": lstm_cell, "gru_cell": gru_cell, "lstm": lstm, "gru": gru, "rnn": rnn}
BACKWARD = {
    "lstm_cell": lstm_cell_backward, "gru_cell": gru_cell_backward, "lstm": lstm_backward, "gru": gru_backward,
    "rnn": rnn_backward,
}
