"""Samples of the convolution and pooling rows. The references walk the window with plain NumPy."""

import itertools

import numpy as np
from samples import FLOATING, op, real, sample


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def conv2d(x, w, b=None, stride=1, padding=0, dilation=1, groups=1):
    (sy, sx), (py, px), (dy, dx) = pair(stride), pair(padding), pair(dilation)
    n, _, height, width = x.shape
    out, per_group, kh, kw = w.shape
    padded = np.pad(x, ((0, 0), (0, 0), (py, py), (px, px)))
    oh, ow = (height + 2 * py - dy * (kh - 1) - 1) // sy + 1, (width + 2 * px - dx * (kw - 1) - 1) // sx + 1
    y = np.zeros((n, out, oh, ow), x.dtype)
    for o, i, j in itertools.product(range(out), range(kh), range(kw)):
        first = o // (out // groups) * per_group
        patch = padded[:, first : first + per_group, i * dy : i * dy + oh * sy : sy, j * dx : j * dx + ow * sx : sx]
        y[:, o] += np.einsum("nchw,c->nhw", patch[:, :, :oh, :ow], w[o, :, i, j])
    return y if b is None else y + b[:, None, None]


def linear_gradient(forward, size):
    """The gradient of a linear function, column by column, at g."""

    def gradient(g):
        result = np.zeros(size, g.dtype)
        for at in np.ndindex(*size):
            one = np.zeros(size, g.dtype)
            one[at] = 1
            result[at] = (forward(one) * g).sum()
        return result

    return gradient


def conv2d_input(g, w, sizes, *geometry):
    return linear_gradient(lambda x: conv2d(x, w, None, *geometry), sizes)(g)


def conv2d_weight(x, g, sizes, *geometry):
    return linear_gradient(lambda w: conv2d(x, w, None, *geometry), sizes)(g)


def max_pool2d(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    (kh, kw), (sy, sx) = pair(kernel_size), pair(kernel_size if stride is None else stride)
    (py, px), (dy, dx) = pair(padding), pair(dilation)
    n, c, height, width = x.shape

    def positions(size, pad, k, s, d):
        span = size + 2 * pad - d * (k - 1) - 1
        count = (span + (s - 1 if ceil_mode else 0)) // s + 1
        return count - 1 if ceil_mode and (count - 1) * s >= size + pad else count

    oh, ow = positions(height, py, kh, sy, dy), positions(width, px, kw, sx, dx)
    y, index = np.empty((n, c, oh, ow), x.dtype), np.empty((n, c, oh, ow), np.int64)
    for at in np.ndindex(n, c, oh, ow):
        points = [
            (at[2] * sy - py + i * dy, at[3] * sx - px + j * dx) for i, j in itertools.product(range(kh), range(kw))
        ]
        inside = [(r, q) for r, q in points if 0 <= r < height and 0 <= q < width]
        best = max(inside, key=lambda p: x[at[0], at[1], p[0], p[1]])
        y[at], index[at] = x[at[0], at[1], best[0], best[1]], best[0] * width + best[1]
    return y, index


SAMPLES = [
    op(
        "conv2d",
        sample(real(2, 3, 5, 4), real(2, 3, 3, 2), real(2)),
        sample(real(1, 4, 6, 5), real(6, 2, 3, 2), real(6), (2, 1), (1, 0), (1, 2), 2),
        sample(real(2, 1, 3, 3), real(1, 1, 3, 3), None, 1, 1),
        reference=conv2d,
        dtypes=FLOATING,
    ),
    op(
        "conv2d_input",
        sample(real(1, 2, 2, 4), real(2, 2, 2, 2), (1, 2, 5, 3), (2, 1), (0, 1), 1, 1),
        sample(real(1, 2, 3, 3), real(2, 1, 2, 2), (1, 2, 4, 4), 1, 0, 1, 2),
        reference=conv2d_input,
        dtypes=FLOATING,
    ),
    op(
        "conv2d_weight",
        sample(real(1, 2, 5, 3), real(1, 2, 2, 4), (2, 2, 2, 2), (2, 1), (0, 1), 1, 1),
        sample(real(2, 2, 4, 4), real(2, 2, 3, 3), (2, 1, 2, 2), 1, 0, 1, 2),
        reference=conv2d_weight,
        dtypes=FLOATING,
    ),
    op(
        "max_pool2d",
        sample(real(2, 2, 4, 6), 2),
        sample(real(1, 2, 5, 5), (3, 2), (2, 1), (1, 0), (1, 2), False),
        sample(real(1, 1, 5, 4), 2, None, 0, 1, True),
        reference=max_pool2d,
        dtypes=FLOATING,
    ),
]
