"""RNN, LSTM, GRU and their cells against step-by-step NumPy."""

import copy
import pickle

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn
from torchlite.autograd import gradcheck, gradgradcheck
from torchlite.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

T, B, N, H = 5, 3, 4, 6
KINDS = [
    ("RNN", {}),
    ("RNN", {"nonlinearity": "relu"}),
    ("LSTM", {}),
    ("GRU", {}),
]
IDS = ["RNN-tanh", "RNN-relu", "LSTM", "GRU"]


def array(*size):
    return np.random.default_rng(sum(size)).standard_normal(size)


def var(a, **flags):
    return Variable(np.array(a), **flags)


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def step(kind, options, x, state, w_ih, w_hh, b_ih=0, b_hh=0):
    """One time step, as the docstrings give it; `state` is a tuple."""
    gi, gh = x @ w_ih.T + b_ih, state[0] @ w_hh.T + b_hh
    if kind == "RNN":
        return (np.tanh(gi + gh) if options.get("nonlinearity", "tanh") == "tanh" else np.maximum(gi + gh, 0),)
    if kind == "LSTM":
        i, f, g, o = np.split(gi + gh, 4, axis=-1)
        c = sigmoid(f) * state[1] + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    (ir, iz, i_n), (hr, hz, hn) = np.split(gi, 3, axis=-1), np.split(gh, 3, axis=-1)
    r, z = sigmoid(ir + hr), sigmoid(iz + hz)
    n = np.tanh(i_n + r * hn)
    return ((1 - z) * n + z * state[0],)


def reference(net, kind, options, x, state):
    """Output and last state of a whole network; `x` (T, B, N), `state` a tuple of (layers * directions, B, H)."""
    ends, directions = [], 2 if net.bidirectional else 1
    for layer in range(net.num_layers):
        outputs = []
        for direction in range(directions):
            k = layer * directions + direction
            weights = [w.data.numpy() for w in net.all_weights[k]]
            s, ys = tuple(part[k] for part in state), []
            for xt in x[::-1] if direction else x:
                s = step(kind, options, xt, s, *weights)
                ys.append(s[0])
            outputs.append(np.stack(ys[::-1] if direction else ys))
            ends.append(s)
        x = np.concatenate(outputs, -1)
    return x, tuple(np.stack(parts) for parts in zip(*ends, strict=True))


def make(kind, options, *args, **more):
    return getattr(nn, kind)(*args, **options, **more).double()


def as_tuple(state):
    return state if isinstance(state, tuple) else (state,)


def initial(kind, n):
    states = tuple(array(n, B, H + i)[..., :H] for i in range(2 if kind == "LSTM" else 1))
    variables = tuple(var(s) for s in states)
    return states, variables if kind == "LSTM" else variables[0]


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [False, True])
def test_network(kind, options, bidirectional, layers, bias, batch_first):
    net = make(kind, options, N, H, layers, bias=bias, bidirectional=bidirectional, batch_first=batch_first)
    states, hx = initial(kind, layers * (2 if bidirectional else 1))
    x = array(T, B, N)
    y, ends = net(var(x.swapaxes(0, 1)) if batch_first else var(x), hx)
    expected, expected_ends = reference(net, kind, options, x, states)
    np.testing.assert_allclose(y.data.numpy(), expected.swapaxes(0, 1) if batch_first else expected, rtol=1e-6)
    for end, expected_end in zip(as_tuple(ends), expected_ends, strict=True):
        assert end.size() == expected_end.shape
        np.testing.assert_allclose(end.data.numpy(), expected_end, rtol=1e-6)


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_the_hidden_state_is_zero_by_default(kind, options):
    net, x = make(kind, options, N, H, 2), var(array(T, B, N))
    zero = var(np.zeros((2, B, H)))
    y, _ = net(x)
    expected, _ = net(x, (zero, zero) if kind == "LSTM" else zero)
    np.testing.assert_array_equal(y.data.numpy(), expected.data.numpy())


@pytest.mark.parametrize(("kind", "options"), [KINDS[0], KINDS[2], KINDS[3]])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_network_gradients(kind, options, bidirectional):
    net = make(kind, options, 2, 2, 2, bidirectional=bidirectional)
    n = 4 if bidirectional else 2
    hx = [var(array(n, 2, 2), requires_grad=True) for _ in range(2 if kind == "LSTM" else 1)]

    def run(x, *rest):
        y, ends = net(x, tuple(hx) if kind == "LSTM" else hx[0])
        return (y, *as_tuple(ends))

    assert gradcheck(run, [var(array(2, 2, 2), requires_grad=True), *hx, *net.parameters()])


@pytest.mark.parametrize(("kind", "options"), [KINDS[0], KINDS[2], KINDS[3]])
def test_network_second_gradients(kind, options):
    net = make(kind, options, 2, 2)

    def run(x, *rest):
        return net(x)[0]

    assert gradgradcheck(run, [var(array(2, 1, 2), requires_grad=True), *net.parameters()])


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
@pytest.mark.parametrize("bias", [True, False])
def test_cell(kind, options, bias):
    cell = make(kind + "Cell", options, N, H, bias=bias)
    states, _ = initial(kind, 1)
    x, states = array(B, N), tuple(s[0] for s in states)
    hx = tuple(var(s) for s in states)
    out = as_tuple(cell(var(x), hx if kind == "LSTM" else hx[0]))
    weights = [p.data.numpy() for p in cell.parameters()]
    for result, expected in zip(out, step(kind, options, x, states, *weights), strict=True):
        np.testing.assert_allclose(result.data.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize(("kind", "options"), [KINDS[0], KINDS[2], KINDS[3]])
def test_cell_gradients(kind, options):
    cell = make(kind + "Cell", options, 2, 3)
    hx = [var(array(2, 3), requires_grad=True) for _ in range(2 if kind == "LSTM" else 1)]

    def run(x, *rest):
        return cell(x, tuple(hx) if kind == "LSTM" else hx[0])

    for check in (gradcheck, gradgradcheck):
        assert check(run, [var(array(2, 2), requires_grad=True), *hx, *cell.parameters()])


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_the_state_of_a_cell_is_zero_by_default(kind, options):
    cell, x = make(kind + "Cell", options, N, H), var(array(B, N))
    zero = var(np.zeros((B, H)))
    out, expected = as_tuple(cell(x)), as_tuple(cell(x, (zero, zero) if kind == "LSTM" else zero))
    np.testing.assert_array_equal(out[0].data.numpy(), expected[0].data.numpy())


# ---- parameters ----


def test_parameter_names_and_sizes():
    net = nn.LSTM(N, H, 2, bidirectional=True)
    sizes = {name: tuple(p.size()) for name, p in net.named_parameters()}
    assert list(sizes)[:8] == [
        "weight_ih_l0",
        "weight_hh_l0",
        "bias_ih_l0",
        "bias_hh_l0",
        "weight_ih_l0_reverse",
        "weight_hh_l0_reverse",
        "bias_ih_l0_reverse",
        "bias_hh_l0_reverse",
    ]
    assert sizes["weight_ih_l0"] == (4 * H, N)
    assert sizes["weight_ih_l1_reverse"] == (4 * H, 2 * H)
    assert sizes["weight_hh_l1"] == (4 * H, H) and sizes["bias_hh_l1"] == (4 * H,)


def test_parameters_start_within_their_bound():
    for parameter in nn.GRU(50, 100).parameters():
        values = parameter.data.numpy()
        assert np.abs(values).max() <= 0.1 and values.std() > 0.04


def test_a_copied_network_uses_its_own_parameters():
    net = nn.LSTM(N, H)
    for copied in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert copied.all_weights[0][0] is copied.weight_ih_l0
        assert copied.all_weights[0][0] is not net.weight_ih_l0
    net.flatten_parameters()


# ---- dropout between layers ----


def test_dropout_acts_between_layers_while_training():
    torchlite.manual_seed(0)
    net, x = nn.LSTM(N, H, 2, dropout=0.5), Variable(array(T, B, N).astype("f4"))
    one, other = net(x)[0].data.numpy(), net(x)[0].data.numpy()
    assert not np.array_equal(one, other)
    net.eval()
    np.testing.assert_array_equal(net(x)[0].data.numpy(), net(x)[0].data.numpy())


def test_dropout_spares_the_last_layer():
    net, x = nn.LSTM(N, H, 1, dropout=0.9), Variable(array(T, B, N).astype("f4"))
    np.testing.assert_array_equal(net(x)[0].data.numpy(), net.eval()(x)[0].data.numpy())


# ---- errors ----


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
@pytest.mark.parametrize(
    ("x", "h", "message"),
    [
        ((T, B, N + 1), (2, B, H), r"expected input of size \(T, B, I\) with I = 4, but got \(5, 3, 5\)"),
        ((T, N), (2, B, H), r"expected input of size \(T, B, I\) with I = 4, but got \(5, 4\)"),
        ((T, B, N), (2, B + 1, H), r"expected h0 of size \(2, 3, 6\), but got \(2, 4, 6\)"),
        ((T, B, N), (1, B, H), r"expected h0 of size \(2, 3, 6\), but got \(1, 3, 6\)"),
        ((T, B, N), (2, B, 1), r"expected h0 of size \(2, 3, 6\), but got \(2, 3, 1\)"),
    ],
)
def test_wrong_sizes_are_refused(kind, options, x, h, message):
    net, hidden = make(kind, options, N, H, 2), var(np.zeros(h))
    with pytest.raises(RuntimeError, match=f"{kind}: {message}"):
        net(var(np.zeros(x)), (hidden, hidden) if kind == "LSTM" else hidden)


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
@pytest.mark.parametrize(
    ("x", "h", "message"),
    [
        ((B, N + 1), (B, H), r"expected input of size \(B, 4\), but got \(3, 5\)"),
        ((B, N), (B + 1, H), r"expected h of size \(3, 6\), but got \(4, 6\)"),
        ((B, N), (1, H), r"expected h of size \(3, 6\), but got \(1, 6\)"),
        ((B, N), (B, 1), r"expected h of size \(3, 6\), but got \(3, 1\)"),
    ],
)
def test_cells_refuse_wrong_sizes(kind, options, x, h, message):
    cell, hidden = make(kind + "Cell", options, N, H), var(np.zeros(h))
    with pytest.raises(RuntimeError, match=f"{kind}Cell: {message}"):
        cell(var(np.zeros(x)), (hidden, hidden) if kind == "LSTM" else hidden)


def test_an_lstm_needs_two_states():
    with pytest.raises(TypeError, match=r"LSTM: the hidden state has to be a tuple \(h0, c0\)"):
        nn.LSTM(N, H)(var(np.zeros((T, B, N), "f4")), var(np.zeros((1, B, H), "f4")))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: nn.RNN(1, 1, nonlinearity="sin"), "RNN: nonlinearity has to be 'tanh' or 'relu', but is 'sin'"),
        (lambda: nn.RNNCell(1, 1, nonlinearity="sin"), "RNNCell: nonlinearity has to be"),
        (lambda: nn.LSTM(1, 1, dropout=2), "LSTM: dropout has to be between 0 and 1, but is 2"),
        (lambda: nn.GRU(1, 0), "GRU: hidden_size has to be at least 1, but is 0"),
        (lambda: nn.GRU(1, 1, 0), "GRU: num_layers has to be at least 1, but is 0"),
    ],
)
def test_wrong_options_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# ---- packed sequences ----

LENGTHS = [5, 3, 1]


def test_packing_and_padding_undo_each_other():
    x = array(T, B, N)
    for i, n in enumerate(LENGTHS):
        x[n:, i] = 0
    packed = pack_padded_sequence(var(x), LENGTHS)
    assert packed.batch_sizes == [3, 2, 2, 1, 1]
    assert packed.data.size() == (9, N)
    padded, lengths = pad_packed_sequence(packed)
    np.testing.assert_array_equal(padded.data.numpy(), x)
    assert lengths == LENGTHS


def test_packing_batch_first():
    x = array(B, T, N)
    packed = pack_padded_sequence(var(x), [5, 5, 5], batch_first=True)
    padded, _ = pad_packed_sequence(packed, batch_first=True)
    np.testing.assert_array_equal(padded.data.numpy(), x)


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ([5, 3, 0], "lengths have to be positive"),
        ([], "lengths have to be positive"),
        ([5, 3], "expected 3 lengths for input of 3 sequences, but got 2"),
        ([3, 5, 1], "lengths have to be sorted in decreasing order"),
        ([6, 3, 1], "a length of 6 is more than the 5 steps of input"),
    ],
)
def test_wrong_lengths_are_refused(lengths, message):
    with pytest.raises(ValueError, match=message):
        pack_padded_sequence(var(array(T, B, N)), lengths)


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_packed_batch_gives_what_each_sequence_gives_alone(kind, options, bidirectional):
    n = 4 if bidirectional else 2
    net = make(kind, options, N, H, 2, bidirectional=bidirectional)
    states, hx = initial(kind, n)
    x = array(T, B, N)
    packed, ends = net(pack_padded_sequence(var(x), LENGTHS), hx)
    assert isinstance(packed, PackedSequence)
    y, _ = pad_packed_sequence(packed)
    for i, length in enumerate(LENGTHS):
        alone = tuple(s[:, i : i + 1] for s in states)
        expected, expected_ends = reference(net, kind, options, x[:length, i : i + 1], alone)
        np.testing.assert_allclose(y.data.numpy()[:length, i : i + 1], expected, rtol=1e-6)
        for end, expected_end in zip(as_tuple(ends), expected_ends, strict=True):
            np.testing.assert_allclose(end.data.numpy()[:, i : i + 1], expected_end, rtol=1e-6)
