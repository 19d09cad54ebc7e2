"""Samples of the rows of networks: linear, embedding, dropout, normalisation, softmax and the losses."""

import numpy as np
from samples import exactly, index, op, positive, real, sample


def linear(x, w, b=None):
    y = x @ w.T
    return y if b is None else y + b


def embedding_backward(g, i, rows, padding_idx, scale):
    out = np.zeros((rows, g.shape[-1]), g.dtype)
    weights = np.ones(i.shape, g.dtype)
    if scale:
        weights = (1 / np.bincount(i.reshape(-1), minlength=rows)[i]).astype(g.dtype)
    if padding_idx is not None:
        weights = np.where(i == padding_idx % rows, 0, weights).astype(g.dtype)
    np.add.at(out, i.reshape(-1), (g * weights[..., None]).reshape(-1, g.shape[-1]))
    return out


def embedding_gather(w, i, padding_idx, scale):
    out = w[i]
    if scale:
        out = out / np.bincount(i.reshape(-1), minlength=len(w))[i][..., None].astype(w.dtype)
    return out if padding_idx is None else np.where((i == padding_idx)[..., None], w.dtype.type(0), out)


def class_dim(x, dim):
    return dim if dim is not None else 0 if x.ndim in (1, 3) else 1


def softmax(x, dim=None):
    dim = class_dim(x, dim)
    e = np.exp(x - x.max(dim, keepdims=True))
    return e / e.sum(dim, keepdims=True)


def log_softmax(x, dim=None):
    dim = class_dim(x, dim)
    x = x - x.max(dim, keepdims=True)
    return x - np.log(np.exp(x).sum(dim, keepdims=True))


def nll_loss(x, target, weight=None, size_average=True, ignore_index=-100):
    x = np.moveaxis(x, 1, -1)
    used = target != ignore_index
    t = np.where(used, target, 0)
    w = (np.ones(x.shape[-1], x.dtype) if weight is None else weight)[t] * used
    total = -(w * np.take_along_axis(x, t[..., None], -1)[..., 0]).sum()
    return np.array([total / w.sum() if size_average else total], x.dtype)


def cross_entropy(x, target, *options):
    return nll_loss(log_softmax(x, 1), target, *options)


def class_weights(x, target, weight, size_average, ignore_index):
    used = target != ignore_index
    w = (np.ones(x.shape[1], x.dtype) if weight is None else weight)[np.where(used, target, 0)] * used
    return np.expand_dims((w / w.sum() if size_average else w), 1).astype(x.dtype)


def nll_loss_backward(g, target, weight, sizes, size_average, ignore_index):
    w = class_weights(np.zeros(sizes, g.dtype), target, weight, size_average, ignore_index)
    index = np.expand_dims(np.where(target == ignore_index, 0, target), 1)
    onehot = np.zeros(sizes, g.dtype)
    np.put_along_axis(onehot, index, 1, 1)
    return -g * w * onehot


def cross_entropy_backward(g, x, target, weight, *options):
    softmax = g * class_weights(x, target, weight, *options) * np.exp(log_softmax(x, 1))
    return softmax + nll_loss_backward(g, target, weight, x.shape, *options)


def averaged(f):
    def loss(x, t, size_average=True):
        terms = f(x - t)
        return np.array([terms.mean() if size_average else terms.sum()], x.dtype)

    return loss


def channels(v, x):
    return np.asarray(v, x.dtype).reshape(-1, *(1,) * (x.ndim - 2))


def moments(x, mean, var, training):
    """Mean and variance of each channel, from the batch or as given."""
    axes = (0, *range(2, x.ndim))
    return (x.mean(axes), x.var(axes)) if training else (mean, var)


def batch_norm(x, weight=None, bias=None, mean=None, var=None, training=False, momentum=0.1, eps=1e-5):
    used_mean, used_var = moments(x, mean, var, training)
    y = (x - channels(used_mean, x)) / np.sqrt(channels(used_var, x) + x.dtype.type(eps))
    y = y if weight is None else y * channels(weight, x)
    return y if bias is None else y + channels(bias, x)


def batch_norm_backward(g, x, weight, mean, var, training, eps):
    axes = (0, *range(2, x.ndim))
    used_mean, used_var = moments(x, mean, var, training)
    inverse = 1 / np.sqrt(channels(used_var, x) + x.dtype.type(eps))
    z = (x - channels(used_mean, x)) * inverse
    dx = g
    if training:
        dx = g - g.mean(axes, keepdims=True)[0] - z * (g * z).mean(axes, keepdims=True)[0]
    dx = dx * inverse if weight is None else dx * inverse * channels(weight, x)
    return dx, (g * z).sum(axes), g.sum(axes)


def cross_entropies(terms):
    def loss(x, t, weight=None, size_average=True):
        each = terms(x, t) * (1 if weight is None else np.asarray(weight, x.dtype))
        return np.array([each.mean() if size_average else each.sum()], x.dtype)

    return loss


MEAN, VAR = exactly([0.5, -1.0, 0.25], "float64"), exactly([0.5, 2.0, 1.5], "float64")
CLASSES = exactly([1, 0, 3], "int64")
IGNORED = exactly([1, -1, 3], "int64")
WEIGHT = exactly([0.5, 2.0, 1.0, 1.5], "float64")
LOSSES = [
    sample(real(3, 4), CLASSES),
    sample(real(3, 4), CLASSES, None, False),
    sample(real(3, 4), IGNORED, WEIGHT, True, -1),
    sample(real(3, 4), IGNORED, WEIGHT, False, -1),
    sample(real(2, 4, 3, 2), index(2, 3, 2, high=4)),
]
DIFFERENCES = [sample(real(3, 4), real(3, 4)), sample(real(5), real(5), False), sample(real(), real())]

SAMPLES = [
    op(
        "linear",
        sample(real(5, 3), real(2, 3), real(2)),
        sample(real(5, 3), real(2, 3)),
        sample(real(2, 4, 3), real(2, 3), real(2)),
        sample(real(3), real(2, 3), real(2)),
        sample(real(0, 3), real(2, 3), real(2)),
        reference=linear,
    ),
    op(
        "embedding",
        sample(index(2, 3, high=5), real(5, 4)),
        sample(exactly([0, 3, 3], "int64"), real(4, 2)),
        sample(exactly(2, "int64"), real(4, 2)),
        reference=lambda i, w: w[i],
    ),
    op(
        "embedding_backward",
        sample(real(3, 2), exactly([0, 3, 3], "int64"), 4, None, False),
        sample(real(3, 2), exactly([0, 3, 3], "int64"), 4, 0, True),
        sample(real(2, 2, 3), exactly([[0, 1], [1, 1]], "int64"), 4, 1, False),
        reference=embedding_backward,
    ),
    op(
        "embedding_gather",
        sample(real(4, 2), exactly([0, 3, 3], "int64"), None, True),
        sample(real(4, 2), exactly([0, 3, 3], "int64"), 3, False),
        reference=embedding_gather,
    ),
    op(
        "dropout",
        sample(real(3, 4), 0.5, False),
        sample(real(3, 4), 0, True),
        sample(real(3, 4)),
        reference=lambda x, *_: x,
    ),
    op("dropout_mask", sample(real(3, 4), 0), reference=lambda x, p: np.ones_like(x)),
    op(
        "softmax",
        sample(real(3, 4)),
        sample(real(2, 3, 4)),
        sample(real(2, 3, 4), -1),
        sample(real(2, 3, 2, 2)),
        sample(real(5)),
        reference=softmax,
    ),
    op(
        "log_softmax",
        sample(real(3, 4)),
        sample(real(2, 3, 4), 1),
        sample(real(2, 3, 2, 2)),
        sample(real(5), 0),
        reference=log_softmax,
    ),
    op("nll_loss", *LOSSES, reference=nll_loss),
    op("cross_entropy", *LOSSES, reference=cross_entropy),
    op(
        "nll_loss_backward",
        sample(real(1), CLASSES, None, (3, 4), True, -100),
        sample(real(1), IGNORED, WEIGHT, (3, 4), False, -1),
        reference=nll_loss_backward,
    ),
    op(
        "cross_entropy_backward",
        sample(real(1), real(3, 4), CLASSES, None, True, -100),
        sample(real(1), real(3, 4), IGNORED, WEIGHT, True, -1),
        reference=cross_entropy_backward,
    ),
    op(
        "class_weights",
        sample(real(3, 4), CLASSES, None, True, -100),
        sample(real(3, 4), IGNORED, WEIGHT, False, -1),
        reference=class_weights,
    ),
    op("mse_loss", *DIFFERENCES, reference=averaged(np.square)),
    op("l1_loss", sample(positive(3, 4), real(3, 4, high=0.1)), reference=averaged(np.abs)),
    op(
        "smooth_l1_loss",
        sample(real(3, 4, low=-0.4, high=0.4), real(3, 4, low=-0.4, high=0.4)),
        sample(positive(3, low=2), real(3, high=0.5), False),
        reference=averaged(lambda d: np.where(abs(d) < 1, d * d / 2, abs(d) - 0.5)),
    ),
    op(
        "batch_norm",
        sample(real(5, 3), real(3), real(3), None, None, True),
        sample(real(2, 3, 4), None, None, None, None, True, 0.1, 0.1),
        sample(real(2, 3, 2, 3), real(3), None, None, None, True),
        sample(real(2, 2, 2, 1, 3), real(2), real(2), None, None, True),
        sample(real(4, 3), real(3), real(3), MEAN, VAR),
        sample(real(2, 3, 2, 2), None, None, MEAN, VAR, False, 0.1, 0.01),
        reference=batch_norm,
    ),
    op(
        "batch_norm_backward",
        sample(real(5, 3), real(5, 3), real(3), None, None, True, 1e-5),
        sample(real(2, 3, 4), real(2, 3, 4), None, None, None, True, 0.1),
        sample(real(2, 3, 2, 2), real(2, 3, 2, 2), real(3), None, None, True, 1e-5),
        sample(real(4, 3), real(4, 3), real(3), MEAN, VAR, False, 1e-5),
        sample(real(2, 3, 3), real(2, 3, 3), None, MEAN, VAR, False, 0.1),
        reference=batch_norm_backward,
    ),
    op(
        "binary_cross_entropy",
        sample(real(3, 4, low=0.1, high=0.9), real(3, 4, low=0.1, high=0.9)),
        sample(real(5, low=0.1, high=0.9), real(5, low=0.1, high=0.9), None, False),
        sample(real(3, 4, low=0.1, high=0.9), real(3, 4, low=0.1, high=0.9), WEIGHT),
        reference=cross_entropies(lambda x, t: -t * np.log(x) - (1 - t) * np.log(1 - x)),
    ),
    op(
        "binary_cross_entropy_with_logits",
        sample(real(3, 4, high=3), real(3, 4, low=0.1, high=0.9)),
        sample(real(5), real(5, low=0.1, high=0.9), None, False),
        sample(real(3, 4), real(3, 4, low=0.1, high=0.9), WEIGHT, False),
        reference=cross_entropies(lambda x, t: np.maximum(x, 0) - x * t + np.log1p(np.exp(-abs(x)))),
    ),
]
