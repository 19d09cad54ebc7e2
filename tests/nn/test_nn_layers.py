"""Linear, Embedding, Dropout, activations and losses, as modules and as functions, against NumPy."""

import pickle

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn
from torchlite.autograd import gradcheck, gradgradcheck
from torchlite.nn import functional as F


def array(*size, dtype="f8"):
    return np.random.default_rng(sum(size)).standard_normal(size).astype(dtype)


def var(a, **flags):
    return Variable(np.array(a), **flags)


def close(result, expected, rtol=1e-5):
    np.testing.assert_allclose(result.data.numpy(), expected, rtol=rtol, atol=1e-6)


def softmax_of(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


# ---- Linear ----


@pytest.mark.parametrize("leading", [(), (4,), (4, 5)])
@pytest.mark.parametrize("bias", [True, False])
def test_linear(leading, bias):
    layer, x = nn.Linear(3, 2, bias=bias).double(), array(*leading, 3)
    expected = x @ layer.weight.data.numpy().T + (layer.bias.data.numpy() if bias else 0)
    close(layer(var(x)), expected)


def test_linear_gradients():
    layer, x = nn.Linear(3, 2).double(), var(array(2, 2, 3), requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        assert check(lambda x, *_: layer(x), [x, *layer.parameters()])


def test_linear_without_bias_has_none():
    layer = nn.Linear(3, 2, bias=False)
    assert layer.bias is None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


def test_linear_starts_within_its_bound():
    layer = nn.Linear(100, 50)
    for parameter in layer.parameters():
        values = parameter.data.numpy()
        assert np.abs(values).max() <= 0.1 and values.std() > 0.04


def test_linear_uses_a_weight_that_replaced_the_parameter():
    layer, x = nn.Linear(3, 2, bias=False), var(np.ones((1, 3), "f4"))
    del layer.weight
    layer.weight = var(np.ones((2, 3), "f4"))
    close(layer(x), [[3, 3]])


def test_linear_refuses_input_of_another_width():
    with pytest.raises(RuntimeError, match="linear"):
        nn.Linear(3, 2)(var(np.ones((2, 4), "f4")))


# ---- Embedding ----


def test_embedding_looks_rows_up():
    layer, index = nn.Embedding(10, 3), np.array([[1, 2, 1], [9, 0, 5]])
    close(layer(var(index)), layer.weight.data.numpy()[index])


def test_embedding_gradients_add_up():
    layer = nn.Embedding(4, 2)
    layer(var(np.array([1, 1, 3]))).sum().backward()
    close(layer.weight.grad, [[0, 0], [2, 2], [0, 0], [1, 1]])


@pytest.mark.parametrize("padding_idx", [1, -3])
def test_the_padding_row_is_zero_and_gets_no_gradient(padding_idx):
    layer = nn.Embedding(4, 2, padding_idx=padding_idx)
    output = layer(var(np.array([1, 2])))
    close(output[0], [0, 0])
    output.sum().backward()
    close(layer.weight.grad, [[0, 0], [0, 0], [1, 1], [0, 0]])


def test_embedding_refuses_a_padding_row_outside():
    with pytest.raises(ValueError, match="padding_idx has to be within num_embeddings, but is 4 for num_embeddings 4"):
        nn.Embedding(4, 2, padding_idx=4)


def test_max_norm_scales_used_rows_in_place():
    layer = nn.Embedding(3, 2, max_norm=1)
    layer.weight.data.copy_(torchlite.from_numpy(np.array([[3, 4], [0.3, 0.4], [6, 8]], "f4")))
    close(layer(var(np.array([0, 1]))), [[0.6, 0.8], [0.3, 0.4]], rtol=1e-3)
    close(layer.weight, [[0.6, 0.8], [0.3, 0.4], [6, 8]], rtol=1e-3)


def test_scale_grad_by_freq_divides_by_the_count():
    layer = nn.Embedding(3, 2, scale_grad_by_freq=True)
    layer(var(np.array([1, 1, 2]))).sum().backward()
    close(layer.weight.grad, [[0, 0], [1, 1], [1, 1]])


def test_functional_embedding_agrees_with_the_module():
    layer, index = nn.Embedding(10, 3), var(np.array([1, 2]))
    close(F.embedding(index, layer.weight), layer(index).data.numpy())


def test_embedding_refuses_an_index_outside():
    with pytest.raises(IndexError, match="10"):
        nn.Embedding(10, 3)(var(np.array([10])))


# ---- Dropout ----


def test_dropout_zeroes_or_scales_while_training():
    torchlite.manual_seed(1)
    layer, x = nn.Dropout(0.25), var(np.ones((100, 100), "f4"), requires_grad=True)
    y = layer(x)
    values = y.data.numpy()
    assert set(np.unique(values)) == {np.float32(0), np.float32(1 / 0.75)}
    assert 0.72 < (values != 0).mean() < 0.78
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.data.numpy(), values)


def test_dropout_passes_values_on_in_evaluation():
    x = array(3, 3)
    close(nn.Dropout(0.5).eval()(var(x)), x)


@pytest.mark.parametrize(("p", "expected"), [(0, 1), (1, 0)])
def test_dropout_at_the_ends(p, expected):
    close(nn.Dropout(p)(var(np.ones(5, "f4"))), np.full(5, expected))


def test_dropout_in_place_writes_into_its_input():
    torchlite.manual_seed(1)
    x = var(np.ones(100, "f4"))
    assert F.dropout(x, 0.5, training=True, inplace=True) is x
    assert set(np.unique(x.data.numpy())) == {0, 2}


@pytest.mark.parametrize("make", [nn.Dropout, lambda p: F.dropout(var(np.ones(2)), p)])
@pytest.mark.parametrize("p", [-0.1, 1.1])
def test_dropout_refuses_what_is_no_probability(make, p):
    with pytest.raises(ValueError, match=f"dropout probability has to be between 0 and 1, but got {p}"):
        make(p)


def test_dropout_repeats_from_a_seed():
    layer, x = nn.Dropout(0.5), var(np.ones(50, "f4"))
    torchlite.manual_seed(5)
    first = layer(x).data.numpy().copy()
    torchlite.manual_seed(5)
    np.testing.assert_array_equal(layer(x).data.numpy(), first)


# ---- activations ----

X = np.array([[-2.0, -0.5, 0.5], [1.0, 3.0, -1.0]])
ACTIVATIONS = [
    (nn.ReLU(), np.maximum(X, 0)),
    (nn.LeakyReLU(0.1), np.where(X > 0, X, 0.1 * X)),
    (nn.ELU(0.5), np.where(X > 0, X, 0.5 * np.expm1(X))),
    (nn.Sigmoid(), 1 / (1 + np.exp(-X))),
    (nn.Tanh(), np.tanh(X)),
    (nn.Softplus(2), np.log1p(np.exp(2 * X)) / 2),
    (nn.Softplus(1, 2), np.where(X > 2, X, np.log1p(np.exp(X)))),
    (nn.Softmax(), softmax_of(X, 1)),
    (nn.Softmax(0), softmax_of(X, 0)),
    (nn.LogSoftmax(), np.log(softmax_of(X, 1))),
]


@pytest.mark.parametrize(("module", "expected"), ACTIVATIONS, ids=[repr(m) for m, _ in ACTIVATIONS])
def test_activation(module, expected):
    close(module(var(X)), expected)
    assert gradcheck(module, [var(X, requires_grad=True)])
    assert gradgradcheck(module, [var(X, requires_grad=True)])


@pytest.mark.parametrize("module", [nn.ReLU(inplace=True), nn.LeakyReLU(inplace=True), nn.ELU(inplace=True)])
def test_an_activation_in_place_writes_into_its_input(module):
    x, leaf = var(X), var(X, requires_grad=True)
    before = x._version
    y = module(x)
    assert y is x and x._version == before + 1
    close(x, type(module)()(var(X)).data.numpy())
    module(leaf * 1).sum().backward()
    plain = var(X, requires_grad=True)
    type(module)()(plain).sum().backward()
    close(leaf.grad, plain.grad.data.numpy())


@pytest.mark.parametrize(("size", "axis"), [((3,), 0), ((3, 4), 1), ((3, 4, 2), 0), ((3, 4, 2, 2), 1)])
def test_softmax_without_dim_takes_the_classes(size, axis):
    close(F.softmax(var(array(*size))), softmax_of(array(*size), axis))
    close(F.log_softmax(var(array(*size))), np.log(softmax_of(array(*size), axis)))


def test_softmax_without_dim_refuses_five_dimensions():
    with pytest.raises(ValueError, match="softmax: without dim, input has to have 1 to 4 dimensions, but has 5"):
        F.softmax(var(array(1, 1, 1, 1, 2)))


# ---- losses ----


def nll(log_p, target, weight=None, size_average=True, ignore=-100):
    keep = target != ignore
    w = (np.ones(log_p.shape[1]) if weight is None else weight)[np.where(keep, target, 0)] * keep
    total = -(w * log_p[np.arange(len(target)), np.where(keep, target, 0)]).sum()
    return [total / w.sum() if size_average else total]


@pytest.mark.parametrize("size_average", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("ignore", [-100, 2])
def test_cross_entropy_and_nll(size_average, weighted, ignore):
    x, target = array(6, 4), np.array([0, 3, 2, 1, 2, 0])
    weight = np.array([0.5, 1.0, 2.0, 3.0]) if weighted else None
    tensor = torchlite.from_numpy(weight) if weighted else None
    expected = nll(np.log(softmax_of(x, 1)), target, weight, size_average, ignore)
    close(nn.CrossEntropyLoss(tensor, size_average, ignore)(var(x), var(target)), expected)
    close(nn.NLLLoss(tensor, size_average, ignore)(F.log_softmax(var(x)), var(target)), expected)


@pytest.mark.parametrize("size_average", [True, False])
def test_mse_and_l1(size_average):
    x, t = array(3, 4), array(4, 3).T.copy()
    reduce = np.mean if size_average else np.sum
    close(nn.MSELoss(size_average)(var(x), var(t)), [reduce((x - t) ** 2)])
    close(nn.L1Loss(size_average)(var(x), var(t)), [reduce(abs(x - t))])


LOSSES = [(nn.MSELoss(), array(3, 4)), (nn.L1Loss(), array(3, 4) + np.linspace(-1, 1, 12).reshape(3, 4))]
CLASS_LOSSES = [(nn.CrossEntropyLoss(), np.array([1, 0, 3])), (nn.NLLLoss(), np.array([1, 0, 3]))]


@pytest.mark.parametrize(("loss", "target"), LOSSES + CLASS_LOSSES)
def test_loss_gradients(loss, target):
    for check in (gradcheck, gradgradcheck):
        assert check(lambda x: loss(x, var(target)), [var(array(3, 4), requires_grad=True)])


@pytest.mark.parametrize(("loss", "target"), LOSSES + CLASS_LOSSES)
def test_losses_have_one_element(loss, target):
    assert loss(var(array(3, 4)), var(target)).size() == (1,)


@pytest.mark.parametrize(("loss", "target"), LOSSES)
def test_a_target_that_requires_grad_is_refused(loss, target):
    with pytest.raises(AssertionError, match="nn criterions don't compute the gradient w.r.t. targets"):
        loss(var(array(3, 4)), var(target, requires_grad=True))


@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy])
def test_class_losses_refuse_other_dimensions(loss):
    with pytest.raises(ValueError, match=r"Expected 2 or 4 dimensions \(got 3\)"):
        loss(var(array(1, 2, 3)), var(np.array([1])))


def test_the_weight_of_a_loss_is_a_buffer():
    loss = nn.NLLLoss(torchlite.FloatTensor([1.0, 2.0]))
    assert list(loss.state_dict()) == ["weight"]
    assert nn.NLLLoss().weight is None


# ---- every module ----

MODULES = [
    (nn.Linear(3, 4), "Linear (3 -> 4)"),
    (nn.Embedding(5, 3), "Embedding(5, 3)"),
    (
        nn.Embedding(5, 3, padding_idx=1, max_norm=2, sparse=True),
        "Embedding(5, 3, padding_idx=1, max_norm=2, sparse=True)",
    ),
    (nn.Dropout(0.5), "Dropout (p = 0.5)"),
    (nn.Dropout(0.5, inplace=True), "Dropout (p = 0.5, inplace)"),
    (nn.ReLU(inplace=True), "ReLU (inplace)"),
    (nn.LeakyReLU(0.2), "LeakyReLU (negative_slope=0.2)"),
    (nn.MSELoss(), "MSELoss ()"),
    (nn.LSTM(3, 4, 2, dropout=0.5), "LSTM(3, 4, num_layers=2, dropout=0.5)"),
    (nn.GRUCell(3, 4, bias=False), "GRUCell(3, 4, bias=False)"),
]


@pytest.mark.parametrize(("module", "text"), MODULES, ids=[text for _, text in MODULES])
def test_modules_show_their_options_and_pickle(module, text):
    assert repr(module) == text
    copied = pickle.loads(pickle.dumps(module))
    assert repr(copied) == text
    for name, tensor in module.state_dict().items():
        np.testing.assert_array_equal(copied.state_dict()[name].numpy(), tensor.numpy())


@pytest.mark.parametrize("name, args", [
    ("conv1d", (None,)), ("conv_transpose2d", (None,)), ("max_pool2d", (2,)), ("avg_pool1d", (2,)), ("softmax", ()),
    ("nll_loss", (None,)), ("cross_entropy", (None,)), ("binary_cross_entropy", (3,)), ("elu", (1.0, True)),
    ("binary_cross_entropy_with_logits", (3,)), ("relu", (True,)), ("leaky_relu", (0.01, True)),
    ("dropout", (0.5, False, True)),
])
def test_an_input_that_is_no_tensor_is_named(name, args):
    with pytest.raises(TypeError, match=f"{name}: 'input' must be a Variable or a tensor, but is list"):
        getattr(F, name)([1], *args)
