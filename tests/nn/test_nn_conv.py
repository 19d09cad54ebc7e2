"""Convolution: layers and functions. The values of every dimension are checked with the op table."""

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn
from torchlite.nn import functional as F


def images(*size):
    return Variable(torchlite.from_numpy(np.random.RandomState(0).randn(*size).astype("f4")), requires_grad=True)


def test_conv2d_has_the_parameters_and_result_sizes_of_its_arguments():
    m = nn.Conv2d(4, 6, (3, 2), stride=2, padding=(1, 0), groups=2)
    assert m.weight.size() == (6, 2, 3, 2) and m.bias.size() == (6,)
    assert m(images(5, 4, 7, 8)).size() == (5, 6, 4, 4)


def test_conv2d_without_bias_is_the_function_without_bias():
    m = nn.Conv2d(1, 2, 3, bias=False)
    x = images(1, 1, 4, 4)
    assert m.bias is None
    assert (m(x).data.numpy() == F.conv2d(x, m.weight).data.numpy()).all()


@pytest.mark.parametrize(
    "arguments, message",
    [((3, 4, 2, 1, 0, 1, 2), "in_channels must be divisible"), ((4, 3, 2, 1, 0, 1, 2), "out_channels must be")],
)
def test_channels_that_do_not_divide_into_groups_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        nn.Conv2d(*arguments)


@pytest.mark.parametrize(
    "x, weight, arguments, message",
    [
        ((1, 2, 4, 4), (1, 3, 2, 2), (), r"weight of size \(1, 3, 2, 2\) does not fit input of size \(1, 2, 4, 4\)"),
        ((1, 2, 4, 4), (1, 2, 5, 2), (), "larger than the padded input"),
        ((1, 2, 4, 4), (1, 2, 2, 2), (None, 1, -1), "negative padding is not supported"),
        ((1, 2, 4, 4), (1, 2, 2, 2), (images(3),), r"bias of size \(3,\)"),
    ],
)
def test_sizes_that_do_not_fit_are_named(x, weight, arguments, message):
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(images(*x), images(*weight), *arguments)


def test_types_that_differ_are_named():
    with pytest.raises(RuntimeError, match=r"Input type \(Float\) and weight type \(Double\)"):
        F.conv2d(images(1, 1, 3, 3), Variable(np.ones((1, 1, 2, 2))))


def test_conv2d_adds_a_bias_of_the_inputs_type_and_refuses_others():
    def ones(kind, *size):
        return Variable(torchlite.from_numpy(np.ones(size, kind)))

    half = F.conv2d(ones("f2", 1, 1, 3, 3), ones("f2", 2, 1, 2, 2), ones("f2", 2))
    assert half.data.numpy().dtype == "f2" and (half.data.numpy() == 5).all()
    with pytest.raises(RuntimeError, match=r"Input type \(Float\) and bias type \(Double\)"):
        F.conv2d(ones("f4", 1, 1, 3, 3), ones("f4", 2, 1, 2, 2), ones("f8", 2))


FUNCTIONS = [(1, F.conv1d), (2, F.conv2d), (3, F.conv3d)]
TRANSPOSED = [(1, F.conv_transpose1d), (2, F.conv_transpose2d), (3, F.conv_transpose3d)]
LAYERS = [(1, nn.Conv1d), (2, nn.Conv2d), (3, nn.Conv3d)]
TRANSPOSED_LAYERS = [(1, nn.ConvTranspose1d), (2, nn.ConvTranspose2d), (3, nn.ConvTranspose3d)]


@pytest.mark.parametrize("n, function", FUNCTIONS + TRANSPOSED)
def test_an_input_of_other_dimensions_is_refused(n, function):
    with pytest.raises(ValueError, match=rf"^Expected {n + 2}D tensor as input, got {n + 3}D tensor instead\.$"):
        function(images(1, 2, *(3,) * (n + 1)), images(2, 2, *(2,) * n))


@pytest.mark.parametrize("n, layer", LAYERS)
def test_a_layer_has_a_weight_of_its_dimensions(n, layer):
    m = layer(4, 6, 3, stride=2, padding=1, groups=2)
    assert m.weight.size() == (6, 2, *(3,) * n) and m.kernel_size == (3,) * n
    assert m(images(2, 4, *(7,) * n)).size() == (2, 6, *(4,) * n)


@pytest.mark.parametrize("n, layer", TRANSPOSED_LAYERS)
def test_a_transposed_layer_undoes_the_size_of_a_convolution(n, layer):
    m = layer(6, 4, 3, stride=2, padding=1, output_padding=1, groups=2)
    assert m.weight.size() == (6, 2, *(3,) * n) and m.bias.size() == (4,)
    assert m(images(2, 6, *(4,) * n)).size() == (2, 4, *(8,) * n)


@pytest.mark.parametrize("n, layer", TRANSPOSED_LAYERS)
def test_a_transposed_layer_takes_the_size_of_its_result(n, layer):
    m = layer(2, 3, 3, stride=2, dilation=2, bias=False)
    x = images(1, 2, *(3,) * n)
    for size in ((9,) * n, (1, 3, *(10,) * n)):
        y = m(x, output_size=size)
        assert y.size() == (1, 3, *size[-n:])
    with pytest.raises(ValueError, match=r"requested an output size of .*, but valid sizes range from"):
        m(x, output_size=(11,) * n)
    with pytest.raises(ValueError, match=rf"output_size must have {n} or {n + 2} elements \(got {n + 1}\)"):
        m(x, output_size=(9,) * (n + 1))


@pytest.mark.parametrize("n, layer", LAYERS + TRANSPOSED_LAYERS)
def test_layers_survive_their_state_dict_and_show_their_arguments(n, layer):
    m, other = layer(2, 3, 2, padding=1, bias=True), layer(2, 3, 2, padding=1)
    assert list(m.state_dict()) == ["weight", "bias"]
    other.load_state_dict(m.state_dict())
    x = images(1, 2, *(3,) * n)
    assert (m(x).data == other(x).data).all()
    assert repr(m) == f"{type(m).__name__}(2, 3, kernel_size={(2,) * n}, stride={(1,) * n}, padding={(1,) * n})"


def test_a_transposed_convolution_is_the_gradient_of_a_convolution():
    x, w = images(2, 3, 6, 6), images(4, 3, 3, 2)
    y = F.conv2d(x, w, None, 2, 1)
    g = images(*y.size())
    y.backward(g.data)
    back = F.conv_transpose2d(g, w, None, 2, 1, (1, 0))
    np.testing.assert_allclose(back.data.numpy(), x.grad.data.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((None, 1, 0, -1), RuntimeError, "negative output_padding is not supported"),
        ((None, 2, 0, 2), RuntimeError, "output_padding must be smaller than stride or dilation"),
        ((None, 1, 3), RuntimeError, "lies within the padding"),
        ((None, 0), ValueError, "stride, dilation and groups must be positive"),
        ((None, (1, 1, 1)), ValueError, "argument 'stride' must be an int or 2 ints"),
        ((images(3),), RuntimeError, r"bias of size \(3,\)"),
    ],
)
def test_arguments_of_a_transposed_convolution_are_checked(arguments, error, message):
    with pytest.raises(error, match=message):
        F.conv_transpose2d(images(1, 2, 3, 3), images(2, 2, 2, 2), *arguments)


def test_the_three_dimensional_layers_learn():
    torchlite.manual_seed(0)
    m = nn.Sequential(nn.Conv3d(1, 16, 2), nn.ReLU(), nn.ConvTranspose3d(16, 1, 2))
    optimizer = torchlite.optim.Adam(m.parameters(), lr=0.02)
    x, losses = images(4, 1, 3, 3, 3).detach(), []
    for _ in range(60):
        optimizer.zero_grad()
        loss = F.mse_loss(m(x), x)
        loss.backward()
        optimizer.step()
        losses.append(loss.data[0])
    assert losses[-1] < losses[0] / 3


def test_sizes_are_ints_of_any_kind_or_as_many_as_there_are_dimensions():
    assert nn.Conv2d(1, 1, np.int64(2), stride=[1, 2]).stride == (1, 2)
    with pytest.raises(ValueError, match=r"expected an int or 2 of them, but got \(1, 2, 3\)"):
        nn.Conv2d(1, 1, (1, 2, 3))
