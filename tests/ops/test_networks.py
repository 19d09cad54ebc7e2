"""Rows of networks beyond their values: random masks, options, half precision and what is refused."""

import numpy as np
import pytest
from samples_nn import cross_entropy, embedding_backward
from samples_rnn import gru, lstm

import torchlite
from torchlite import _C, Variable

ops = _C._ops


def tensor(a, dtype="float64"):
    return torchlite.from_numpy(np.array(a, dtype=dtype))


def variable(a, dtype="float64", requires_grad=False):
    return Variable(tensor(a, dtype), requires_grad=requires_grad)


def random(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape)


# ---- dropout ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dropout_zeroes_about_p_and_scales_the_rest(dtype):
    torchlite.manual_seed(0)
    x = variable(np.ones(10000), dtype, requires_grad=True)
    y = ops.dropout(x, 0.2, True)
    values = y.data.numpy()
    assert values.dtype == dtype
    assert set(np.unique(values)) == {0, np.dtype(dtype).type(1.25)}
    assert 0.17 < (values == 0).mean() < 0.23
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy(), values)


def test_gradient_of_dropout_is_linear():
    x = variable(random(50), requires_grad=True)
    g = variable(np.ones(50), requires_grad=True)
    y = ops.dropout(x, 0.5, True)
    (first,) = torchlite.autograd.grad([y], [x], [g], create_graph=True)
    (second,) = torchlite.autograd.grad([first], [g], [variable(np.ones(50))])
    np.testing.assert_array_equal(second.data.numpy(), first.data.numpy())


def test_dropout_follows_the_seed():
    x = variable(np.ones(100))
    torchlite.manual_seed(5)
    first = ops.dropout(x, 0.5, True).data.numpy()
    assert not np.array_equal(ops.dropout(x, 0.5, True).data.numpy(), first)
    torchlite.manual_seed(5)
    np.testing.assert_array_equal(ops.dropout(x, 0.5, True).data.numpy(), first)


def test_dropout_of_everything():
    x = variable(np.ones(5), requires_grad=True)
    y = ops.dropout(x, 1, True)
    y.sum().backward()
    assert not y.data.numpy().any()
    assert not x.grad.data.numpy().any()


def test_dropout_without_training_is_a_copy():
    x = variable([1.0, 2.0])
    y = ops.dropout(x, 0.5, False)
    x.add_(1)
    np.testing.assert_array_equal(y.data.numpy(), [1, 2])


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_dropout_refuses_what_is_no_probability(p):
    with pytest.raises(ValueError, match=f"dropout probability has to be between 0 and 1, but got {p}"):
        ops.dropout(variable([1.0]), p, True)


# ---- embedding -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("padding_idx", [None, 1, -1])
@pytest.mark.parametrize("scale", [False, True])
def test_gradient_of_embedding_options(padding_idx, scale):
    index = np.array([[1, 3], [3, 0]])
    weight = variable(random(4, 2), requires_grad=True)
    y = ops.embedding(variable(index, "int64"), weight, padding_idx, None, 2, scale)
    np.testing.assert_array_equal(y.data.numpy(), weight.data.numpy()[index])
    g = random(2, 2, 2, seed=1)
    y.backward(tensor(g))
    np.testing.assert_allclose(weight.grad.data.numpy(), embedding_backward(g, index, 4, padding_idx, scale))


def test_embedding_scales_used_rows_to_the_largest_norm():
    weight = tensor([[3, 4], [0.3, 0.4], [30, 40]])
    y = ops.embedding(tensor([0, 1], "int64"), weight, None, 1.0)
    np.testing.assert_allclose(y.numpy(), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(weight.numpy(), [[0.6, 0.8], [0.3, 0.4], [30, 40]], rtol=1e-6)


def test_embedding_names_a_bad_index_and_the_number_of_rows():
    weight = tensor([[3.0, 4.0]])
    for bad in (1, -1):
        with pytest.raises(IndexError, match=f"index {bad} at position 1 is out of range for a weight of 1 rows"):
            ops.embedding(tensor([0, bad], "int64"), weight, None, 1.0)
    np.testing.assert_array_equal(weight.numpy(), [[3, 4]])


def test_embedding_refuses_other_indices_and_sparse_gradients():
    weight = tensor([[3.0, 4.0]])
    with pytest.raises(TypeError, match="expected an index of type Long, but got Double"):
        ops.embedding(tensor([0.0]), weight)
    with pytest.raises(RuntimeError, match="sparse gradients are not supported"):
        ops.embedding(tensor([0], "int64"), weight, sparse=True)


def test_half_embedding_adds_up_in_single_precision():
    weight = variable(np.ones((2, 1)), "float16", requires_grad=True)
    ops.embedding(variable(np.zeros(3000), "int64"), weight).sum().backward()
    np.testing.assert_array_equal(weight.grad.data.numpy(), np.array([[3000], [0]], "float16"))


# ---- losses ----------------------------------------------------------------------------------------------------------

TARGETS = {
    "cross_entropy": ops.cross_entropy,
    "nll_loss": ops.nll_loss,
}


@pytest.mark.parametrize("loss", TARGETS.values(), ids=TARGETS)
def test_class_losses_name_a_bad_target(loss):
    with pytest.raises(IndexError, match="target 3 at position 1 is out of range for 3 classes"):
        loss(tensor(random(2, 3)), tensor([0, 3], "int64"))
    with pytest.raises(IndexError, match="target -1"):
        loss(tensor(random(2, 3)), tensor([0, -1], "int64"))


@pytest.mark.parametrize("loss", TARGETS.values(), ids=TARGETS)
def test_class_losses_name_sizes_that_do_not_fit(loss):
    with pytest.raises(RuntimeError, match=r"target of size \(3,\) does not fit an input of size \(2, 3\)"):
        loss(tensor(random(2, 3)), tensor([0, 1, 1], "int64"))
    with pytest.raises(ValueError, match=r"Expected 2 or 4 dimensions \(got 3\)"):
        loss(tensor(random(2, 3, 4)), tensor([[0]], "int64"))
    with pytest.raises(RuntimeError, match=r"weight of size \(2,\) does not fit 3 classes"):
        loss(tensor(random(2, 3)), tensor([0, 1], "int64"), tensor([1, 1]))


@pytest.mark.parametrize("loss", TARGETS.values(), ids=TARGETS)
def test_class_losses_refuse_other_types(loss):
    with pytest.raises(TypeError, match="expected an index of type Long, but got Double"):
        loss(tensor(random(2, 3)), tensor([0, 1]))
    with pytest.raises(TypeError, match="'input' must be a Float, Double or HalfTensor, but is a LongTensor"):
        loss(tensor([[0, 1], [1, 2]], "int64"), tensor([0, 1], "int64"))


@pytest.mark.parametrize("loss", TARGETS.values(), ids=TARGETS)
def test_class_losses_refuse_weights_that_require_grad(loss):
    x, target = variable(random(2, 3), requires_grad=True), variable([0, 1], "int64")
    weight = variable([1, 2, 3], requires_grad=True)
    with pytest.raises(RuntimeError, match="argument 'weight' requires grad, but no gradient flows to it"):
        loss(x, target, weight)
    loss(x, target, weight.detach()).backward()
    assert weight.grad is None and x.grad is not None


def test_cross_entropy_of_large_logits_is_finite():
    x = variable([[1000.0, -1000.0]], "float32", requires_grad=True)
    loss = ops.cross_entropy(x, variable([1], "int64"))
    loss.backward()
    np.testing.assert_allclose(loss.data.numpy(), [2000])
    np.testing.assert_allclose(x.grad.data.numpy(), [[1, -1]])


def test_cross_entropy_in_half_precision():
    x, target = random(3, 4).astype("float16"), np.array([0, 3, 1])
    v = variable(x, "float16", requires_grad=True)
    loss = ops.cross_entropy(v, variable(target, "int64"))
    loss.backward()
    np.testing.assert_allclose(loss.data.numpy(), cross_entropy(x.astype("float64"), target), rtol=2e-3)
    assert loss.data.numpy().dtype == v.grad.data.numpy().dtype == np.float16


@pytest.mark.parametrize("loss", [ops.mse_loss, ops.l1_loss, ops.smooth_l1_loss], ids=lambda op: op.name)
def test_differences_need_one_size_and_type(loss):
    with pytest.raises(RuntimeError, match=r"input of size \(2, 3\) and target of size \(3,\) must have one size"):
        loss(tensor(random(2, 3)), tensor(random(3)))
    with pytest.raises(TypeError, match="input is Double and target is Float"):
        loss(tensor(random(2)), tensor(random(2), "float32"))


# ---- linear ----------------------------------------------------------------------------------------------------------


def test_linear_names_sizes_that_do_not_fit():
    x, w = tensor(random(5, 3)), tensor(random(2, 4))
    with pytest.raises(RuntimeError, match=r"input of size \(5, 3\) does not fit weight of size \(2, 4\)"):
        ops.linear(x, w)
    with pytest.raises(RuntimeError, match=r"bias of size \(3,\) does not fit weight of size \(2, 4\)"):
        ops.linear(tensor(random(5, 4)), w, tensor(random(3)))
    with pytest.raises(TypeError, match="input is Double and weight is Float"):
        ops.linear(x, tensor(random(2, 3), "float32"))


def test_linear_of_a_transposed_weight():
    x, w, b = random(5, 3), random(3, 2), random(2)
    y = ops.linear(tensor(x), tensor(w).t(), tensor(b))
    np.testing.assert_allclose(y.numpy(), x @ w + b)


@pytest.mark.parametrize("dtype", ["float16", "int64"])
def test_linear_of_other_types(dtype):
    x, w, b = (np.round(4 * random(*shape)).astype(dtype) for shape in ((5, 3), (2, 3), (2,)))
    np.testing.assert_array_equal(ops.linear(tensor(x, dtype), tensor(w, dtype), tensor(b, dtype)).numpy(), x @ w.T + b)


# ---- recurrent -------------------------------------------------------------------------------------------------------


def test_gradients_of_last_states_alone():
    # Only h_n and c_n lead to the loss, not the output.
    args = [random(3, 2, 4), random(2, 3), random(2, 3, seed=1), random(12, 4), random(12, 3)]
    inputs = [variable(a, requires_grad=True) for a in args]
    _, h, c = ops.lstm(*inputs)
    (h.sum() + 2 * c.sum()).backward()

    def loss(x):
        _, h, c = lstm(x, *args[1:])
        return h.sum() + 2 * c.sum()

    d = random(3, 2, 4, seed=2)
    slope = (loss(args[0] + 1e-6 * d) - loss(args[0] - 1e-6 * d)) / 2e-6
    assert (inputs[0].grad.data.numpy() * d).sum() == pytest.approx(slope, rel=1e-6)


def test_second_gradient_keeps_arguments_apart():
    # h0 and the weight come from one Variable; each argument's gradient must be its own alone.
    z = variable(random(3, 3), requires_grad=True)
    x = variable(random(2, 3, 3, seed=1))

    def loss(z):
        output, h = ops.rnn(x, z * 2, z, z.t())
        return (output.sum() + h.sum(),)

    assert torchlite.autograd.gradcheck(lambda z: loss(z)[0], (z,), eps=1e-6, atol=1e-5)
    plain = torchlite.autograd.grad(loss(z), [z])[0]
    recorded = torchlite.autograd.grad(loss(z), [z], create_graph=True)[0]
    np.testing.assert_allclose(recorded.data.numpy(), plain.data.numpy(), rtol=1e-12)


def test_backward_twice_with_the_graph_kept():
    x = variable(random(3, 2, 4), requires_grad=True)
    args = [variable(a) for a in (random(2, 3), random(9, 4), random(9, 3))]
    output, _ = ops.gru(x, *args)
    output.sum().backward(retain_graph=True)
    first = x.grad.data.numpy().copy()
    output.sum().backward()
    np.testing.assert_allclose(x.grad.data.numpy(), 2 * first)


def test_layer_in_half_precision():
    args = [random(3, 2, 4), random(2, 3), random(9, 4), random(9, 3), random(9), random(9)]
    inputs = [variable(a, "float16", requires_grad=True) for a in args]
    output, h = ops.gru(*inputs)
    expected, _ = gru(*(a.astype("float16").astype("float64") for a in args))
    np.testing.assert_allclose(output.data.numpy(), expected, atol=2e-3)
    (output.sum() + h.sum()).backward()
    assert all(v.grad.data.numpy().dtype == np.float16 for v in inputs)


def test_recurrent_rows_name_sizes_that_do_not_fit():
    x, h, w_ih, w_hh = (tensor(a) for a in (random(3, 2, 4), random(2, 3), random(12, 4), random(12, 3)))
    with pytest.raises(RuntimeError, match=r"lstm: 'c0' must have size \(2, 3\).*but has size \(2, 4\)"):
        ops.lstm(x, h, tensor(random(2, 4)), w_ih, w_hh)
    with pytest.raises(RuntimeError, match=r"gru: 'w_ih' must have size \(9, 4\).*but has size \(12, 4\)"):
        ops.gru(x, h, w_ih, w_hh)
    with pytest.raises(RuntimeError, match=r"the input has no steps: its size is \(0, 2, 4\)"):
        ops.lstm(tensor(random(0, 2, 4)), h, h, w_ih, w_hh)
    with pytest.raises(RuntimeError, match=r"'hidden_gates' must have size \(2, 12\), but has size \(2, 9\)"):
        ops.lstm_cell(tensor(random(2, 12)), tensor(random(2, 9)), None, None, h)
    with pytest.raises(TypeError, match="all tensors must have one type, but got Double and Float"):
        ops.lstm(x, h, tensor(random(2, 3), "float32"), w_ih, w_hh)
    with pytest.raises(ValueError, match="nonlinearity must be 'tanh' or 'relu', but is 'sigmoid'"):
        ops.rnn(x, h, tensor(random(3, 4)), tensor(random(3, 3)), None, None, "sigmoid")


def test_softmax_is_a_method_too():
    x = variable(random(2, 3))
    np.testing.assert_array_equal(x.softmax(1).data.numpy(), ops.softmax(x, 1).data.numpy())
    np.testing.assert_array_equal(x.data.log_softmax(dim=0).numpy(), ops.log_softmax(x.data, 0).numpy())


@pytest.mark.parametrize("softmax", [ops.softmax, ops.log_softmax], ids=lambda op: op.name)
def test_softmax_of_a_single_element_is_constant(softmax):
    x = variable(3.0, requires_grad=True)
    y = softmax(x, 0)
    y.backward(variable(1.0))
    assert x.grad.data.numpy() == 0 and x.grad.data.numpy().shape == ()
