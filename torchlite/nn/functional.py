"""Functions of networks: Variables in, Variables out, no state.

Those without anything to add are the operations themselves, so that calling them costs nothing extra.
"""

import warnings

from torchlite import _C
from torchlite.autograd import Variable

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "batch_norm",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "l1_loss",
    "leaky_relu",
    "linear",
    "log_softmax",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "mse_loss",
    "nll_loss",
    "relu",
    "sigmoid",
    "softmax",
    "softplus",
    "tanh",
]

_op = _C._find_op

linear = _op("linear")
sigmoid = _op("sigmoid")
softplus = _op("softplus")
tanh = _op("tanh")
mse_loss = _op("mse_loss")
l1_loss = _op("l1_loss")

_embedding, _dropout = _op("embedding"), _op("dropout")
_conv_nd, _max_pool_nd, _avg_pool_nd = _op("conv_nd"), _op("max_pool_nd"), _op("avg_pool_nd")
_relu, _leaky_relu, _elu = _op("relu"), _op("leaky_relu"), _op("elu")
_softmax, _log_softmax = _op("softmax"), _op("log_softmax")
_cross_entropy, _nll_loss = _op("cross_entropy"), _op("nll_loss")
_bce, _bce_with_logits = _op("binary_cross_entropy"), _op("binary_cross_entropy_with_logits")


# ---- convolution ----


def _require_tensors(function, **arguments):
    """Raises TypeError unless all the arguments are Variables or tensors."""
    for name, value in arguments.items():
        if not isinstance(value, (_C._VariableBase, _C._TensorBase)):
            raise TypeError(f"{function}: '{name}' must be a Variable or a tensor, but is {type(value).__name__}")


def _require_dim(function, input, ndim):
    _require_tensors(function, input=input)
    if input.dim() != ndim:
        raise ValueError(f"Expected {ndim}D tensor as input, got {input.dim()}D tensor instead.")


def conv1d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, L) with a weight (O, C / groups, l), plus bias (O,); see `nn.Conv1d`."""
    _require_dim("conv1d", input, 3)
    return _conv_nd(input, weight, bias, stride, padding, dilation, False, 0, groups)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, H, W) with a weight (O, C / groups, h, w), plus bias (O,); see `nn.Conv2d`."""
    _require_dim("conv2d", input, 4)
    return _conv_nd(input, weight, bias, stride, padding, dilation, False, 0, groups)


def conv3d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation of (N, C, D, H, W) with a weight (O, C / groups, d, h, w), plus bias (O,); see `nn.Conv3d`."""
    _require_dim("conv3d", input, 5)
    return _conv_nd(input, weight, bias, stride, padding, dilation, False, 0, groups)


def conv_transpose1d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of `conv1d` for its input, of (N, C, L) by a weight (C, O / groups, l), plus bias (O,).

    See `nn.ConvTranspose1d`.
    """
    _require_dim("conv_transpose1d", input, 3)
    return _conv_nd(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


def conv_transpose2d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of `conv2d` for its input, of (N, C, H, W) by a weight (C, O / groups, h, w), plus bias (O,).

    See `nn.ConvTranspose2d`.
    """
    _require_dim("conv_transpose2d", input, 4)
    return _conv_nd(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


def conv_transpose3d(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """The gradient of `conv3d` for its input, of (N, C, D, H, W) by a weight (C, O / groups, d, h, w), plus bias (O,).

    See `nn.ConvTranspose3d`.
    """
    _require_dim("conv_transpose3d", input, 5)
    return _conv_nd(input, weight, bias, stride, padding, dilation, True, output_padding, groups)


# ---- pooling ----


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Largest element under a window that moves over each row of (N, C, L); see `nn.MaxPool1d`."""
    _require_dim("max_pool1d", input, 3)
    result = _max_pool_nd(input, kernel_size, stride, padding, dilation, ceil_mode)
    return result if return_indices else result[0]


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Largest element under a window that moves over each plane of (N, C, H, W); see `nn.MaxPool2d`."""
    _require_dim("max_pool2d", input, 4)
    result = _max_pool_nd(input, kernel_size, stride, padding, dilation, ceil_mode)
    return result if return_indices else result[0]


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """Largest element under a window that moves over each volume of (N, C, D, H, W); see `nn.MaxPool3d`."""
    _require_dim("max_pool3d", input, 5)
    result = _max_pool_nd(input, kernel_size, stride, padding, dilation, ceil_mode)
    return result if return_indices else result[0]


def avg_pool1d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Mean under a window that moves over each row of (N, C, L); see `nn.AvgPool1d`."""
    _require_tensors("avg_pool1d", input=input)
    if input.dim() != 3:
        raise ValueError(f"expected 3D input (got {input.dim()} dimensions)")
    return _avg_pool_nd(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Mean under a window that moves over each plane of (N, C, H, W); see `nn.AvgPool2d`."""
    _require_dim("avg_pool2d", input, 4)
    return _avg_pool_nd(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool3d(input, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    """Mean under a window that moves over each volume of (N, C, D, H, W); see `nn.AvgPool3d`."""
    _require_dim("avg_pool3d", input, 5)
    return _avg_pool_nd(input, kernel_size, stride, padding, ceil_mode, count_include_pad)


# ---- normalisation ----


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """(x - mean) / sqrt(var + eps) * weight + bias, for each channel of (N, C), (N, C, L) and so on to 5 dimensions.

    While `training`, mean and variance are those of the batch, and `running_mean` and `running_var`, tensors (C) or
    both None, become (1 - momentum) times themselves plus `momentum` times them (the variance unbiased). Otherwise they
    are the running ones. ValueError for a batch of one value a channel in training.
    """
    return _C._functions.BatchNorm(running_mean, running_var, bool(training), momentum, eps, False)(input, weight, bias)


# ---- activation ----


def relu(input, inplace=False):
    """max(x, 0), elementwise. `inplace` writes the result into `input`, which must not be a leaf that needs grad."""
    if inplace:
        _require_tensors("relu", input=input)
        return input.relu_()
    return _relu(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where x > 0, else `negative_slope` * x, elementwise."""
    if inplace:
        _require_tensors("leaky_relu", input=input)
        return input.leaky_relu_(negative_slope)
    return _leaky_relu(input, negative_slope)


def elu(input, alpha=1.0, inplace=False):
    """x where x > 0, else `alpha` * (exp(x) - 1), elementwise (https://arxiv.org/abs/1511.07289)."""
    if not inplace:
        return _elu(input, alpha)
    _require_tensors("elu", input=input)
    return input.copy_(_elu(input.clone(), alpha))  # the gradient needs the input as it was


def _softmax_dim(name, input):
    """The dimension that softmax normalises where the caller names none: that of the classes."""
    _require_tensors(name, input=input)
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
    _require_tensors("dropout", input=input)
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


def _loss_weight(weight):
    """The weights of a loss, a tensor or a Variable, as a Variable."""
    return weight if weight is None or isinstance(weight, Variable) else Variable(weight)


def nll_loss(input, target, weight=None, size_average=True, ignore_index=-100):
    """Negative log likelihood of the classes `target` (N or N, H, W integers) under log-probabilities `input`.

    `input` is (N, C) or (N, C, H, W). `weight` (C), a tensor or Variable, weighs the classes; targets equal to
    `ignore_index` don't count.
    The result, of shape (1,), is the weighted mean, or the sum with `size_average=False`.
    """
    _require_tensors("nll_loss", input=input)
    ndim = input.dim()
    if ndim not in (2, 4):
        raise ValueError(f"Expected 2 or 4 dimensions (got {ndim})")
    return _nll_loss(input, target, _loss_weight(weight), size_average, ignore_index)


def cross_entropy(input, target, weight=None, size_average=True, ignore_index=-100):
    """`nll_loss(log_softmax(input, 1), target, ...)` in one operation."""
    _require_tensors("cross_entropy", input=input)
    ndim = input.dim()
    if ndim not in (2, 4):
        raise ValueError(f"Expected 2 or 4 dimensions (got {ndim})")
    return _cross_entropy(input, target, _loss_weight(weight), size_average, ignore_index)


def binary_cross_entropy(input, target, weight=None, size_average=True):
    """Mean (or sum) of -(t log(x) + (1 - t) log(1 - x)) for probabilities `input` and targets in [0, 1], of shape (1,).

    `weight`, a tensor or Variable that broadcasts to `input`, weighs the elements. A target of another size with as
    many elements warns; ValueError for another number of elements.
    """
    _require_tensors("binary_cross_entropy", input=input, target=target)
    if target.size() != input.size():
        if target.nelement() != input.nelement():
            raise ValueError(
                f"Target and input must have the same number of elements. target nelement ({target.nelement()}) != "
                f"input nelement ({input.nelement()})"
            )
        warnings.warn(
            f"Using a target size ({tuple(target.size())}) that is different to the input size "
            f"({tuple(input.size())}) is deprecated. Please ensure they have the same size.",
            stacklevel=2,
        )
        target = target.contiguous().view(input.size())
    return _bce(input, target, _loss_weight(weight), size_average)


def binary_cross_entropy_with_logits(input, target, weight=None, size_average=True):
    """`binary_cross_entropy(sigmoid(input), target, ...)` without overflow.

    ValueError if the sizes of `target` and `input` differ.
    """
    _require_tensors("binary_cross_entropy_with_logits", input=input, target=target)
    if target.size() != input.size():
        raise ValueError(
            f"Target size ({tuple(target.size())}) must be the same as input size ({tuple(input.size())})"
        )
    return _bce_with_logits(input, target, _loss_weight(weight), size_average)
