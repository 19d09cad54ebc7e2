"""Samples of the rows that change sizes and strides, and of those that put tensors together."""

import numpy as np
from samples import NUMERIC, op, real, sample


def view(a, *sizes):
    return a.reshape(sizes[0] if isinstance(sizes[0], tuple) else sizes)


def squeeze(a, dim=None):
    if a.ndim <= 1 or (dim is not None and a.shape[dim] != 1):
        return a
    return np.atleast_1d(np.squeeze(a, dim))


def expand(a, *sizes):
    added = len(sizes) - a.ndim
    return np.broadcast_to(a, [a.shape[d - added] if n == -1 else n for d, n in enumerate(sizes)])


def sum_to(a, *sizes):
    if len(sizes) == 1 and isinstance(sizes[0], tuple):
        sizes = sizes[0]
    added = a.ndim - len(sizes)
    axes = tuple(d for d in range(a.ndim) if d < added or sizes[d - added] != a.shape[d])
    return a.sum(axes, keepdims=True, dtype=a.dtype).reshape(sizes)


def narrow(a, dim, start, length):
    return np.take(a, range(start, start + length), dim)


def narrow_backward(a, sizes, dim, start):
    out = np.zeros(sizes, a.dtype)
    part = [slice(None)] * out.ndim
    part[dim] = slice(start, start + a.shape[dim])
    out[tuple(part)] = a
    return out


def select(a, dim, index):
    return np.atleast_1d(np.take(a, index, dim))


def select_backward(a, sizes, dim, index):
    out = np.zeros(sizes, a.dtype)
    part = [slice(None)] * out.ndim
    part[dim] = index
    out[tuple(part)] = a.reshape(out[tuple(part)].shape)
    return out


def diag_backward(a, sizes, k):
    out = np.zeros(sizes, a.dtype)
    rows = np.arange(a.size)
    out[rows + max(0, -k), rows + max(0, k)] = a
    return out


def unfold(a, dim, size, step):
    windows = np.lib.stride_tricks.sliding_window_view(a, size, dim)
    return np.take(windows, range(0, windows.shape[dim], step), dim)


def unfold_backward(a, sizes, dim, size, step):
    out = np.zeros(sizes, a.dtype)
    for i in range(a.shape[dim]):
        part = np.moveaxis(out, dim, -1)[..., i * step : i * step + size]
        part += np.take(a, i, dim)
    return out


def cat(arrays, dim=0):
    n = max(a.ndim for a in arrays)
    return np.concatenate([a for a in arrays if a.ndim == n], dim)


SAMPLES = [
    op(
        "view",
        sample(real(4, 6), 2, 2, 6),
        sample(real(4, 6), 4, -1, 2),
        sample(real(6), (2, 3)),
        sample(real(), 1, 1),
        sample(real(0, 3), 3, 0),
        reference=view,
        dtypes=NUMERIC,
    ),
    op(
        "reshape",
        sample(real(4, 6), 3, 8),
        sample(real(2, 3, 4), -1),
        sample(real(1), ()),
        sample(real(0, 3), 0),
        reference=view,
        dtypes=NUMERIC,
    ),
    op("contiguous", sample(real(3, 4)), sample(real()), reference=lambda a: a, dtypes=NUMERIC),
    op(
        "transpose",
        sample(real(3, 4), 0, 1),
        sample(real(2, 3, 4), -1, 0),
        sample(real(3), 0, 0),
        reference=np.swapaxes,
        dtypes=NUMERIC,
    ),
    op("t", sample(real(3, 4)), sample(real(0, 2)), reference=np.transpose, dtypes=NUMERIC),
    op(
        "permute",
        sample(real(2, 3, 4), 2, 0, 1),
        sample(real(2, 3, 4), (0, -1, 1)),
        reference=lambda a, *dims: a.transpose(*dims),
        dtypes=NUMERIC,
    ),
    op(
        "expand",
        sample(real(3, 1), 3, 4),
        sample(real(3, 1), 2, -1, 4),
        sample(real(), 2, 3),
        sample(real(3), 3),
        reference=expand,
        dtypes=NUMERIC,
    ),
    op(
        "sum_to",
        sample(real(5, 3), 3),
        sample(real(2, 3, 4), 3, 1),
        sample(real(2, 3), ()),
        sample(real(2, 3), (2, 3)),
        sample(real(2, 0), 2, 1),
        sample(real(100, 7), 1, 7),
        sample(real(2, 3), 1),
        reference=sum_to,
        dtypes=NUMERIC,
    ),
    op(
        "squeeze",
        sample(real(1, 3, 1)),
        sample(real(1, 3, 1), 0),
        sample(real(1, 3), 1),
        sample(real(1, 1)),
        sample(real(1)),
        reference=squeeze,
        dtypes=NUMERIC,
    ),
    op(
        "unsqueeze",
        sample(real(2, 3), 0),
        sample(real(2, 3), -1),
        sample(real(2, 3), 1),
        sample(real(), 0),
        reference=np.expand_dims,
        dtypes=NUMERIC,
    ),
    op(
        "flip",
        sample(real(2, 3), 0),
        sample(real(2, 3, 4), 0, -1),
        reference=lambda a, *dims: np.flip(a, dims),
        dtypes=NUMERIC,
    ),
    op(
        "narrow",
        sample(real(4, 5), 0, 1, 2),
        sample(real(4, 5), -1, 0, 5),
        sample(real(4, 5), 1, 2, 0),
        reference=narrow,
        dtypes=NUMERIC,
    ),
    op(
        "narrow_backward",
        sample(real(2, 5), (4, 5), 0, 1),
        sample(real(3), (5,), -1, 2),
        reference=narrow_backward,
        dtypes=NUMERIC,
    ),
    op(
        "select",
        sample(real(3, 4), 0, 1),
        sample(real(3, 4, 2), 1, -1),
        sample(real(3), 0, 2),
        reference=select,
        dtypes=NUMERIC,
    ),
    op(
        "select_backward",
        sample(real(4), (3, 4), 0, 1),
        sample(real(1), (3,), 0, -1),
        reference=select_backward,
        dtypes=NUMERIC,
    ),
    op(
        "unfold",
        sample(real(7), 0, 3, 2),
        sample(real(2, 6), 1, 2, 1),
        sample(real(5, 2), -2, 5, 1),
        reference=unfold,
        dtypes=NUMERIC,
    ),
    op(
        "unfold_backward",
        sample(real(3, 3), (7,), 0, 3, 2),
        sample(real(2, 5, 2), (2, 6), 1, 2, 1),
        sample(real(1, 2, 5), (5, 2), -2, 5, 1),
        reference=lambda a, sizes, dim, size, step: unfold_backward(a, sizes, dim % len(sizes), size, step),
        dtypes=NUMERIC,
    ),
    op(
        "repeat",
        sample(real(2, 3), 2, 3),
        sample(real(3), 2, 1, 2),
        sample(real(2, 1), (1, 4)),
        sample(real(2), 0),
        reference=lambda a, *times: np.tile(a, times[0] if isinstance(times[0], tuple) else times),
        dtypes=NUMERIC,
    ),
    op(
        "cat",
        sample([real(2, 3), real(1, 3)]),
        sample([real(2, 3), real(2, 1), real(2, 2)], -1),
        sample([real(0), real(2, 3)], 1),
        sample([real(3)], 0),
        reference=cat,
        dtypes=NUMERIC,
    ),
    op(
        "stack",
        sample([real(2, 3), real(2, 3)]),
        sample([real(2, 3), real(2, 3), real(2, 3)], -1),
        sample([real(), real()]),
        reference=np.stack,
        dtypes=NUMERIC,
    ),
    op("tril", sample(real(3, 4)), sample(real(4, 3), 1), sample(real(3, 3), -5), reference=np.tril, dtypes=NUMERIC),
    op("triu", sample(real(3, 4)), sample(real(4, 3), -1), sample(real(3, 3), 5), reference=np.triu, dtypes=NUMERIC),
    op(
        "diag",
        sample(real(3)),
        sample(real(3), -1),
        sample(real(3, 4), 1),
        sample(real(4, 3)),
        sample(real(3, 3), 3),
        reference=np.diag,
        dtypes=NUMERIC,
    ),
    op(
        "trace",
        sample(real(3, 3)),
        sample(real(2, 4)),
        reference=lambda a: np.trace(a, dtype=a.dtype).reshape(1),
        dtypes=NUMERIC,
    ),
    op(
        "diag_backward",
        sample(real(3), (3, 4), 1),
        sample(real(2), (3, 3), -1),
        reference=diag_backward,
        dtypes=NUMERIC,
    ),
]
