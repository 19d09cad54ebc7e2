"""Initial values. Each function fills a tensor, or the tensor of a Variable, in place and returns its argument."""

import math

import numpy as np

from torchlite import _C

__all__ = [
    "calculate_gain",
    "constant",
    "dirac",
    "eye",
    "kaiming_normal",
    "kaiming_uniform",
    "normal",
    "orthogonal",
    "sparse",
    "uniform",
    "xavier_normal",
    "xavier_uniform",
]

_LINEAR = {"linear", "sigmoid"} | {f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)}


def calculate_gain(nonlinearity, param=None):
    """The recommended gain of a nonlinearity's name ('linear', 'conv2d', 'tanh', 'relu', 'leaky_relu' ...).

    `param`: the slope of leaky_relu, 0.01 by default. ValueError for another name or a slope that is no number.
    """
    if nonlinearity in _LINEAR:
        return 1
    if nonlinearity == "tanh":
        return 5.0 / 3
    if nonlinearity == "relu":
        return math.sqrt(2.0)
    if nonlinearity == "leaky_relu":
        if param is None:
            param = 0.01
        elif isinstance(param, bool) or not isinstance(param, (int, float)):
            raise ValueError(f"negative_slope {param} not a valid number")
        return math.sqrt(2.0 / (1 + param**2))
    raise ValueError(f"Unsupported nonlinearity {nonlinearity}")


def _data(tensor):
    return tensor.data if isinstance(tensor, _C._VariableBase) else tensor


def uniform(tensor, a=0, b=1):
    """Draws from the uniform distribution on [a, b)."""
    _data(tensor).uniform_(a, b)
    return tensor


def normal(tensor, mean=0, std=1):
    """Draws from the normal distribution."""
    _data(tensor).normal_(mean, std)
    return tensor


def constant(tensor, val):
    """Fills with the number `val`."""
    _data(tensor).fill_(val)
    return tensor


def eye(tensor):
    """Makes a 2-d tensor the identity matrix: ones on the diagonal, zeros elsewhere."""
    data = _data(tensor)
    if data.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    data.zero_()
    for i in range(min(data.size())):
        data[i, i] = 1
    return tensor


def dirac(tensor):
    """Makes the weight of a convolution (3, 4 or 5 dimensions) pass its first channels through unchanged."""
    data = _data(tensor)
    if data.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    size = tuple(data.size())
    center = tuple(n // 2 for n in size[2:])
    data.zero_()
    for i in range(min(size[:2])):
        position = (i, i, *center)
        data[position] = 1
    return tensor


def _fans(tensor):
    """How many inputs one output of a weight depends on, and how many outputs one input has an effect on."""
    size = tuple(tensor.size())
    if len(size) < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with less than 2 dimensions")
    field = math.prod(size[2:])
    return size[1] * field, size[0] * field


def xavier_uniform(tensor, gain=1):
    """Uniform in +-gain * sqrt(6 / (fan_in + fan_out)).

    Source: http://proceedings.mlr.press/v9/glorot10a.html
    """
    fan_in, fan_out = _fans(tensor)
    bound = gain * math.sqrt(6.0 / (fan_in + fan_out))
    return uniform(tensor, -bound, bound)


def xavier_normal(tensor, gain=1):
    """Normal with standard deviation gain * sqrt(2 / (fan_in + fan_out)).

    Source: http://proceedings.mlr.press/v9/glorot10a.html
    """
    fan_in, fan_out = _fans(tensor)
    return normal(tensor, 0, gain * math.sqrt(2.0 / (fan_in + fan_out)))


def _kaiming_std(tensor, a, mode):
    modes = ["fan_in", "fan_out"]
    if not isinstance(mode, str) or mode.lower() not in modes:
        raise ValueError(f"Mode {mode} not supported, please use one of {modes}")
    return calculate_gain("leaky_relu", a) / math.sqrt(_fans(tensor)[modes.index(mode.lower())])


def kaiming_uniform(tensor, a=0, mode="fan_in"):
    """Uniform in +-sqrt(6 / ((1 + a^2) fan)); `a` is the slope of the leaky relu that follows, `mode` names the fan.

    Source: https://arxiv.org/abs/1502.01852
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode)
    return uniform(tensor, -bound, bound)


def kaiming_normal(tensor, a=0, mode="fan_in"):
    """Normal with standard deviation sqrt(2 / ((1 + a^2) fan)); arguments as in `kaiming_uniform`.

    Source: https://arxiv.org/abs/1502.01852
    """
    return normal(tensor, 0, _kaiming_std(tensor, a, mode))


def orthogonal(tensor, gain=1):
    """Makes a tensor, seen as a matrix (first dimension x the others), orthogonal times `gain`.

    Rows are orthonormal if there are at most as many as columns, else columns. Uniform over all such matrices.
    Source: https://arxiv.org/abs/1312.6120
    """
    data = _data(tensor)
    if data.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    size = tuple(data.size())
    rows, columns = size[0], math.prod(size[1:])
    drawn = data.new(max(rows, columns), min(rows, columns)).normal_(0, 1)
    q, r = np.linalg.qr(drawn.numpy())
    q *= np.sign(np.diag(r))  # without this the distribution depends on the algorithm
    if rows < columns:
        q = q.T
    data.copy_(_C.from_numpy(np.ascontiguousarray(q * gain, dtype=drawn.numpy().dtype).reshape(size)))
    return tensor


def sparse(tensor, sparsity, std=0.01):
    """Normal with standard deviation `std`, then zeroes a fraction `sparsity` of each column of a 2-d tensor.

    The number of zeros in a column is rounded up. Source: https://dl.acm.org/doi/10.5555/3104482.3104574
    """
    data = _data(tensor)
    if data.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    rows, columns = data.size()
    zeros = math.ceil(rows * sparsity)
    data.normal_(0, std)
    # The rows with the smallest of some random numbers are a random choice, drawn from the library's own generator.
    order = np.argsort(data.new(rows, columns).uniform_(0, 1).numpy(), axis=0)[:zeros]
    values = data.cpu().numpy().copy()
    np.put_along_axis(values, order, 0, axis=0)
    data.copy_(_C.from_numpy(values))
    return tensor
