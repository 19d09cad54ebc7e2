"""Initial values."""

import math

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn
from torchlite.nn import init


def tensor(*size):
    return torchlite.from_numpy(np.full(size, 7, "f4"))


@pytest.mark.parametrize(
    ("name", "param", "gain"),
    [
        ("linear", None, 1),
        ("conv1d", None, 1),
        ("conv_transpose3d", None, 1),
        ("sigmoid", None, 1),
        ("tanh", None, 5 / 3),
        ("relu", None, math.sqrt(2)),
        ("leaky_relu", None, math.sqrt(2 / (1 + 0.01**2))),
        ("leaky_relu", 0.5, math.sqrt(2 / 1.25)),
    ],
)
def test_gain(name, param, gain):
    assert init.calculate_gain(name, param) == pytest.approx(gain)


@pytest.mark.parametrize("slope", [True, "0.5", [1]])
def test_a_slope_that_is_no_number_is_refused(slope):
    with pytest.raises(ValueError, match="not a valid number"):
        init.calculate_gain("leaky_relu", slope)


def test_an_unknown_nonlinearity_is_refused():
    with pytest.raises(ValueError, match="Unsupported nonlinearity swish"):
        init.calculate_gain("swish")


FILLS = [
    (lambda t: init.uniform(t, 1, 3), 2, 2 / math.sqrt(12)),
    (lambda t: init.normal(t, 5, 2), 5, 2),
    (lambda t: init.xavier_uniform(t, 2), 0, 2 * math.sqrt(2 / 500)),
    (lambda t: init.xavier_normal(t, 2), 0, 2 * math.sqrt(2 / 500)),
    (lambda t: init.kaiming_uniform(t), 0, math.sqrt(2 / 200)),
    (lambda t: init.kaiming_normal(t, mode="fan_out"), 0, math.sqrt(2 / 300)),
    (lambda t: init.kaiming_normal(t, a=1), 0, math.sqrt(1 / 200)),
]


@pytest.mark.parametrize(("fill", "mean", "std"), FILLS)
@pytest.mark.parametrize("wrap", [lambda t: t, Variable, nn.Parameter])
def test_distribution(fill, mean, std, wrap):
    torchlite.manual_seed(0)
    t = tensor(300, 200)
    argument = wrap(t)
    assert fill(argument) is argument
    values = t.numpy()
    assert values.mean() == pytest.approx(mean, abs=5 * std / math.sqrt(values.size))
    assert values.std() == pytest.approx(std, rel=0.02)


def test_fans_count_the_receptive_field():
    assert init._fans(tensor(6, 4, 3, 2)) == (24, 36)


def test_constant_and_eye():
    t = tensor(2, 3)
    np.testing.assert_array_equal(init.constant(t, 2).numpy(), np.full((2, 3), 2))
    np.testing.assert_array_equal(init.eye(t).numpy(), np.eye(2, 3))


@pytest.mark.parametrize("field", [(3,), (3, 3), (3, 3, 3)])
def test_dirac_passes_channels_through(field):
    expected = np.zeros((4, 2, *field), "f4")
    for i in range(2):
        expected[(i, i) + (1,) * len(field)] = 1
    np.testing.assert_array_equal(init.dirac(tensor(4, 2, *field)).numpy(), expected)


@pytest.mark.parametrize("size", [(4, 6), (6, 4), (4, 3, 2)])
def test_orthogonal(size):
    a = init.orthogonal(tensor(*size), gain=2).numpy().reshape(size[0], -1).astype("f8")
    small = a @ a.T if a.shape[0] <= a.shape[1] else a.T @ a
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_sparse_zeroes_a_fraction_of_each_column():
    t = init.sparse(tensor(50, 20), 0.25, std=2).numpy()
    assert ((t == 0).sum(0) == math.ceil(50 * 0.25)).all()
    assert t[t != 0].std() == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize(
    ("fill", "size", "message"),
    [
        (init.eye, (2, 2, 2), "Only tensors with 2 dimensions are supported"),
        (init.dirac, (2, 2), "Only tensors with 3, 4, or 5 dimensions are supported"),
        (init.xavier_uniform, (2,), "Fan in and fan out can not be computed for tensor with less than 2 dimensions"),
        (init.kaiming_normal, (2,), "Fan in and fan out can not be computed"),
        (init.orthogonal, (2,), "Only tensors with 2 or more dimensions are supported"),
        (lambda t: init.sparse(t, 0.5), (2, 2, 2), "Only tensors with 2 dimensions are supported"),
        (lambda t: init.kaiming_uniform(t, mode="fan"), (2, 2), r"Mode fan not supported, please use one of"),
    ],
)
def test_wrong_tensors_are_refused_and_left_alone(fill, size, message):
    t = tensor(*size)
    with pytest.raises(ValueError, match=message):
        fill(t)
    np.testing.assert_array_equal(t.numpy(), np.full(size, 7))


def test_values_repeat_from_a_seed():
    torchlite.manual_seed(3)
    first = init.normal(tensor(5, 5)).numpy().copy()
    torchlite.manual_seed(3)
    np.testing.assert_array_equal(init.normal(tensor(5, 5)).numpy(), first)
