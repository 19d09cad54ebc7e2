"""Functions of networks: Variables in, Variables out, no state.

Those without anything to add are the operations themselves, so that calling them costs nothing extra.
"""

from torchlite import _C
from torchlite.autograd import Variable

__all__ = [
    "conv2d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "l1_loss",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool2d",
    "mse_loss",
    "nll_loss",
    "relu",
    "sigmoid",
    "softmax",
    "softplus",
    "tanh",
]

_op = _C._find_op

conv2d = _op("conv2d")
linear = _op("linear")
sigmoid = _op("sigmoid")
softplus = _op("softplus")
tanh = _op("tanh")
mse_loss = _op("mse_loss")
l1_loss = _op("l1_loss")

_embedding, _dropout = _op("embedding"), _op("dropout")
_max_pool2d = _op("max_pool2d")
_relu, _leaky_relu, _elu = _op("relu"), _op("leaky_relu"), _op("elu")
_softmax, _log_softmax = _op("softmax"), _op("log_softmax")
_cross_entropy, _nll_loss = _op("cross_entropy"), _op("nll_loss")


# ---- pooling ----


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Largest element under a window that moves over each plane of (N, C, H, W); see `nn.MaxPool2d`."""
    result = _max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode)
    return result if return_indices else result[0]


# ---- activation ----


def relu(input, inplace=False):
    """max(x, 0), elementwise. `inplace` writes the result into `input`, which must not be a leaf that needs grad."""
    return input.relu_() if inplace else _relu(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where x > 0, else `negative_slope` * x, elementwise."""
    return input.leaky_relu_(negative_slope) if inplace else _leaky_relu(input, negative_slope)


def elu(input, alpha=1.0, inplace=False):
    """x where x > 0, else `alpha` * (exp(x) - 1), elementwise (https://arxiv.org/abs/1511.07289)."""
    if not inplace:
        return _elu(input, alpha)
    return input.copy_(_elu(input.clone(), alpha))  # the gradient needs the input as it was


def _softmax_dim(name, input):
    """The dimension that softmax normalises where the caller names none: that of the classes."""
    ndim = input.dim()
    if ndim in (1, 3):
        return 0
    if ndim in (2, 4):
        return 1
    raise ValueError(f"{name}: without dim, input has to have 1 to 4 dimensions, but has {ndim}")


def softmax(input, dim=None):
    """exp(x) / sum(exp(x)) along `dim`, by default dimension 0 of a 1-d or 3-d input and 1 of a 2-d or 4-d one."""
    return _softmax(input, _softmax_dim("softmax", input) if dim is None else dim)


def log_softmax(input, dim=None):
    """The logarithm of `softmax(input, dim)`, computed without overflow."""
    return _log_softmax(input, _softmax_dim("log_softmax", input) if dim is None else dim)


# ---- dropout and embedding ----


def dropout(input, p=0.5, training=False, inplace=False):
    """While `training`: zeroes each element with probability `p` and scales the others by 1 / (1 - p).

    Otherwise the values of `input`. ValueError if `p` is not between 0 and 1.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not inplace:
        return _dropout(input, p, training)
    if not training or p == 0:
        return input
    return input.mul_(Variable(_dropout(input.data.clone().fill_(1), p, True)))


def embedding(input, embedding_matrix, max_norm=None, norm_type=2, scale_grad_by_freq=False, sparse=False):
    """The rows of `embedding_matrix` (V, E) that the integers in `input` name: size of `input` x E.

    With `max_norm`, the used rows are first scaled in place to have at most this `norm_type`-norm.
    `scale_grad_by_freq` divides a row's gradient by how often it was used, `sparse` makes the gradient sparse.
    """
    return _embedding(input, embedding_matrix, None, max_norm, norm_type, scale_grad_by_freq, sparse)


# ---- losses ----


def nll_loss(input, target, weight=None, size_average=True, ignore_index=-100):
    """Negative log likelihood of the classes `target` (N or N, H, W integers) under log-probabilities `input`.

    `input` is (N, C) or (N, C, H, W). `weight` (C), a tensor or Variable, weighs the classes; targets equal to
    `ignore_index` don't count.
    The result, of shape (1,), is the weighted mean, or the sum with `size_average=False`.
    """
    ndim = input.dim()
    if ndim not in (2, 4):
        raise ValueError(f"Expected 2 or 4 dimensions (got {ndim})")
    if weight is not None and not isinstance(weight, Variable):
        weight = Variable(weight)
    return _nll_loss(input, target, weight, size_average, ignore_index)


def cross_entropy(input, target, weight=None, size_average=True, ignore_index=-100):
    """`nll_loss(log_softmax(input, 1), target, ...)` in one operation."""
    ndim = input.dim()
    if ndim not in (2, 4):
        raise ValueError(f"Expected 2 or 4 dimensions (got {ndim})")
    if weight is not None and not isinstance(weight, Variable):
        weight = Variable(weight)
    return _cross_entropy(input, target, weight, size_average, ignore_index)
