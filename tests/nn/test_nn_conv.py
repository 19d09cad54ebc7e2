"""Modules of convolution and pooling."""

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
        ((1, 2, 4), (1, 2, 2, 2), (), "expected a 4D input"),
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


def test_max_pool2d_gives_indices_when_asked():
    x = Variable(np.array([[[[1.0, 2.0], [4.0, 3.0]]]]))
    y, index = nn.MaxPool2d(2, return_indices=True)(x)
    assert y.data.tolist() == [[[[4.0]]]] and index.data.tolist() == [[[[2]]]]


def test_overlapping_windows_add_up_in_the_gradient_of_max_pool2d():
    x = Variable(np.array([[[[0.0, 5.0, 0.0]]]]), requires_grad=True)
    F.max_pool2d(x, (1, 2), 1).sum().backward()
    assert x.grad.data.tolist() == [[[[0.0, 2.0, 0.0]]]]


def test_max_pool2d_lets_nan_through():
    x = Variable(np.array([[[[1.0, np.nan], [2.0, 3.0]]]]))
    assert np.isnan(F.max_pool2d(x, 2).data.numpy()).all()


def test_conv2d_adds_a_bias_of_the_inputs_type_and_refuses_others():
    def ones(kind, *size):
        return Variable(torchlite.from_numpy(np.ones(size, kind)))

    half = torchlite.conv2d(ones("f2", 1, 1, 3, 3), ones("f2", 2, 1, 2, 2), ones("f2", 2))
    assert half.data.numpy().dtype == "f2" and (half.data.numpy() == 5).all()
    with pytest.raises(RuntimeError, match=r"Input type \(Float\) and bias type \(Double\)"):
        torchlite.conv2d(ones("f4", 1, 1, 3, 3), ones("f4", 2, 1, 2, 2), ones("f8", 2))
