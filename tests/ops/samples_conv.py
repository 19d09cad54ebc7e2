"""Samples of the convolution and pooling rows. The references walk the window with plain NumPy."""

import itertools

import numpy as np
from samples import FLOATING, op, real, sample


def spread(value, n):
    return (value,) * n if isinstance(value, int) else tuple(value) * (n if len(value) == 1 else 1)


def correlate(x, w, stride, padding, dilation, groups):
    """The sum over the points of the kernel, each a shifted and strided part of the padded input."""
    n = x.ndim - 2
    stride, padding, dilation = spread(stride, n), spread(padding, n), spread(dilation, n)
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    kernel, per_group = w.shape[2:], w.shape[1]
    out = [(s - d * (k - 1) - 1) // step + 1
           for s, k, step, d in zip(padded.shape[2:], kernel, stride, dilation, strict=True)]
    y = np.zeros((x.shape[0], w.shape[0], *out), x.dtype)
    for o, point in itertools.product(range(w.shape[0]), np.ndindex(*kernel)):
        first = o // (w.shape[0] // groups) * per_group
        part = padded[(slice(None), slice(first, first + per_group),
                       *(slice(i * d, i * d + (m - 1) * step + 1, step)
                         for i, d, m, step in zip(point, dilation, out, stride, strict=True)))]
        y[:, o] += np.einsum("nc...,c->n...", part, w[(o, slice(None), *point)])
    return y


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


def conv_nd(x, w, b=None, stride=1, padding=0, dilation=1, transposed=False, output_padding=0, groups=1):
    n = x.ndim - 2
    if not transposed:
        y = correlate(x, w, stride, padding, dilation, groups)
    else:
        constants = (spread(v, n) for v in (stride, padding, dilation, output_padding))
        size = [(s - 1) * step - 2 * p + d * (k - 1) + 1 + more
                for s, k, step, p, d, more in zip(x.shape[2:], w.shape[2:], *constants, strict=True)]
        shape = (x.shape[0], w.shape[1] * groups, *size)
        places = (..., *map(slice, x.shape[2:]))  # output padding may leave room for further ones
        y = linear_gradient(lambda y: correlate(y, w, stride, padding, dilation, groups)[places], shape)(x)
    return y if b is None else y + b.reshape(-1, *(1,) * n)


def conv_nd_backward(g, other, argument, sizes, stride, padding, dilation, transposed, groups):
    def forward(unknown):
        x, w = (unknown, other) if argument == 0 else (other, unknown)
        if not transposed:
            return correlate(x, w, stride, padding, dilation, groups)
        n = x.ndim - 2
        constants = (spread(v, n) for v in (stride, padding, dilation))
        least = [(s - 1) * step - 2 * p + d * (k - 1) + 1
                 for s, k, step, p, d in zip(x.shape[2:], w.shape[2:], *constants, strict=True)]
        more = tuple(size - low for size, low in zip(g.shape[2:], least, strict=True))
        return conv_nd(x, w, None, stride, padding, dilation, True, more, groups)

    return linear_gradient(forward, sizes)(g)


def windows(x, kernel_size, stride, padding, dilation, ceil_mode):
    """(index of a result, [points under its window], the same without those in the border) for every window."""
    n = x.ndim - 2
    kernel, padding, dilation = spread(kernel_size, n), spread(padding, n), spread(dilation, n)
    stride = kernel if stride is None else spread(stride, n)

    def positions(size, pad, k, s, d):
        span = size + 2 * pad - d * (k - 1) - 1
        count = (span + (s - 1 if ceil_mode else 0)) // s + 1
        return count - 1 if ceil_mode and (count - 1) * s >= size + pad else count

    out = [positions(*v) for v in zip(x.shape[2:], padding, kernel, stride, dilation, strict=True)]
    for at in np.ndindex(*out):
        corner = [a * s - p for a, s, p in zip(at, stride, padding, strict=True)]
        points = [tuple(c + i * d for c, i, d in zip(corner, point, dilation, strict=True))
                  for point in np.ndindex(*kernel)]
        yield at, points, [p for p in points if all(0 <= i < s for i, s in zip(p, x.shape[2:], strict=True))]


def max_pool_nd(x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    found = list(windows(x, kernel_size, stride, padding, dilation, ceil_mode))
    size = (*x.shape[:2], *(i + 1 for i in found[-1][0]))
    y, index = np.empty(size, x.dtype), np.empty(size, np.int64)
    for (image, channel), (at, _, inside) in itertools.product(np.ndindex(*x.shape[:2]), found):
        volume = x[image, channel]
        best = max(inside, key=lambda p, volume=volume: volume[p])
        y[(image, channel, *at)] = volume[best]
        index[(image, channel, *at)] = np.ravel_multi_index(best, volume.shape)
    return y, index


def avg_pool_nd(x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True):
    found = list(windows(x, kernel_size, stride, padding, 1, ceil_mode))
    y = np.empty((*x.shape[:2], *(i + 1 for i in found[-1][0])), x.dtype)
    border = spread(padding, x.ndim - 2)
    for (image, channel), (at, points, inside) in itertools.product(np.ndindex(*x.shape[:2]), found):
        counted = [p for p in points
                   if all(-b <= i < s + b for i, s, b in zip(p, x.shape[2:], border, strict=True))]
        total = sum(x[(image, channel, *p)] for p in inside)
        y[(image, channel, *at)] = total / len(counted if count_include_pad else inside)
    return y


def avg_pool_nd_backward(g, sizes, *constants):
    return linear_gradient(lambda x: avg_pool_nd(x, *constants), sizes)(g)


SAMPLES = [
    op(
        "conv_nd",
        sample(real(2, 3, 5, 4), real(2, 3, 3, 2), real(2)),
        sample(real(1, 4, 6, 5), real(6, 2, 3, 2), real(6), (2, 1), (1, 0), (1, 2), False, 0, 2),
        sample(real(2, 1, 3, 3), real(1, 1, 3, 3), None, 1, 1),
        sample(real(2, 3, 4, 3), real(2, 3, 1, 1), real(2)),
        sample(real(2, 4, 7), real(6, 2, 3), real(6), 2, 1, (2,), False, 0, 2),
        sample(real(1, 2, 3, 4, 3), real(2, 2, 2, 3, 1), None, (1, 2, 1), (1, 1, 0)),
        sample(real(2, 3, 3, 2), real(3, 2, 2, 2), real(2), 1, 0, 1, True),
        sample(real(1, 4, 3, 2), real(4, 1, 3, 2), real(2), (2, 1), (1, 0), (1, 2), True, (1, 0), 2),
        sample(real(2, 2, 4), real(2, 3, 3), None, 3, 1, 1, True, 2),
        sample(real(2, 2, 3), real(2, 3, 2), None, 1, 0, 3, True, 2),
        sample(real(1, 2, 2, 2, 1), real(2, 2, 1, 2, 2), real(2), (1, 2, 1), 0, 1, True, (0, 1, 0)),
        sample(real(0, 2, 4), real(3, 2, 2), real(3)),
        reference=conv_nd,
        dtypes=FLOATING,
    ),
    op(
        "conv_nd_backward",
        sample(real(1, 2, 2, 4), real(2, 2, 2, 2), 0, (1, 2, 5, 3), (2, 1), (0, 1), 1, False, 1),
        sample(real(1, 2, 3, 3), real(2, 1, 2, 2), 0, (1, 2, 4, 4), 1, 0, 1, False, 2),
        sample(real(1, 2, 2, 4), real(1, 2, 5, 3), 1, (2, 2, 2, 2), (2, 1), (0, 1), 1, False, 1),
        sample(real(2, 2, 3, 3), real(2, 2, 4, 4), 1, (2, 1, 2, 2), 1, 0, 1, False, 2),
        sample(real(2, 3, 3, 2), real(2, 3, 1, 1), 0, (2, 2, 3, 2), 1, 0, 1, True, 1),
        sample(real(1, 2, 10), real(2, 2, 3), 0, (1, 2, 4), (3,), 1, 1, True, 1),
        sample(real(1, 2, 10), real(1, 2, 4), 1, (2, 2, 3), 3, 1, 1, True, 1),
        sample(real(1, 2, 2, 3, 2), real(1, 2, 2, 4, 2), 1, (2, 2, 1, 2, 1), 1, 0, 1, False, 1),
        reference=conv_nd_backward,
        dtypes=FLOATING,
    ),
    op(
        "max_pool_nd",
        sample(real(2, 2, 4, 6), 2),
        sample(real(1, 2, 5, 5), (3, 2), (2, 1), (1, 0), (1, 2), False),
        sample(real(1, 1, 5, 4), 2, None, 0, 1, True),
        sample(real(2, 2, 6), 3, 2, 1),
        sample(real(1, 2, 3, 4, 3), (2, 2, 1), (1, 2, 1), (1, 0, 0)),
        reference=max_pool_nd,
        dtypes=FLOATING,
    ),
    op(
        "avg_pool_nd",
        sample(real(2, 2, 4, 6), 2),
        sample(real(1, 2, 5, 5), (3, 2), (2, 1), (1, 0)),
        sample(real(1, 2, 5, 5), (3, 2), (2, 1), (1, 0), False, False),
        sample(real(1, 1, 5, 4), 2, None, 1, True),
        sample(real(1, 1, 5, 4), 2, None, 1, True, False),
        sample(real(2, 2, 6), 3, 2, 1),
        sample(real(1, 2, 3, 4, 3), (2, 2, 1), (1, 2, 1), (1, 0, 0), True),
        reference=avg_pool_nd,
        dtypes=FLOATING,
    ),
    op(
        "avg_pool_nd_backward",
        sample(real(1, 2, 3, 2), (1, 2, 5, 4), (3, 2), 2, (1, 0), False, False),
        sample(real(2, 1, 4), (2, 1, 7), 2, None, 0, True, True),
        reference=avg_pool_nd_backward,
        dtypes=FLOATING,
    ),
]
