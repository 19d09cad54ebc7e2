"""Pooling: layers and functions. The values of every dimension are checked with the op table."""

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn
from torchlite.nn import functional as F

LAYERS = [(1, nn.MaxPool1d), (2, nn.MaxPool2d), (3, nn.MaxPool3d), (1, nn.AvgPool1d), (2, nn.AvgPool2d),
          (3, nn.AvgPool3d)]


def images(*size):
    return Variable(torchlite.from_numpy(np.random.RandomState(0).randn(*size).astype("f4")), requires_grad=True)


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


@pytest.mark.parametrize("n, layer", LAYERS)
def test_a_window_moves_by_its_own_size_unless_told(n, layer):
    x = images(2, 3, *(6,) * n)
    assert layer(2)(x).size() == (2, 3, *(3,) * n)
    assert layer(2, stride=1)(x).size() == (2, 3, *(5,) * n)
    assert layer(4, ceil_mode=True)(x).size() == (2, 3, *(2,) * n)


@pytest.mark.parametrize("n, layer", LAYERS)
def test_an_input_of_other_dimensions_is_refused(n, layer):
    with pytest.raises(ValueError, match=f"(?i)expected {n + 2}D .*{n + 3}"):
        layer(2)(images(1, 2, *(3,) * (n + 1)))


@pytest.mark.parametrize("n, layer", LAYERS)
def test_a_padding_over_half_the_window_is_refused(n, layer):
    with pytest.raises(RuntimeError, match="pad should be smaller than half of kernel size"):
        layer(2, padding=2)(images(1, 1, *(4,) * n))


def test_avg_pool_counts_the_border_or_does_not():
    x = Variable(np.ones((1, 1, 2, 2)))
    assert F.avg_pool2d(x, 2, 2, 1).data.tolist() == [[[[0.25, 0.25], [0.25, 0.25]]]]
    assert F.avg_pool2d(x, 2, 2, 1, count_include_pad=False).data.tolist() == [[[[1.0, 1.0], [1.0, 1.0]]]]


def test_layers_show_their_windows():
    assert repr(nn.AvgPool2d(3, padding=1)) == "AvgPool2d (size=(3, 3), stride=(3, 3), padding=(1, 1))"
    assert repr(nn.MaxPool1d(2)) == "MaxPool1d (size=(2,), stride=(2,), padding=(0,), dilation=(1,))"
