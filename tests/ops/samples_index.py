"""Samples of the rows that read and write parts named by keys, index tensors and masks."""

import numpy as np
from samples import NUMERIC, exactly, index, mask, op, real, sample

FULL = slice(None)


def resolve(key, indices):
    """The key as NumPy takes it: index arrays in place of their names, masks as bool."""

    def item(k):
        if not isinstance(k, str):
            return k
        array = indices[int(k[1:])]
        return array.astype(bool) if array.dtype == np.uint8 else array

    return tuple(item(k) for k in key)


def read(a, key, indices):
    part = a[resolve(key, indices)]
    return part.reshape(1) if part.ndim == 0 and a.ndim else part


def add_at(a, sizes, key, indices):
    out = np.zeros(sizes, a.dtype)
    key = resolve(key, indices)
    np.add.at(out, key, a.reshape(out[key].shape))
    return out


def write(a, key, indices, value):
    out = a.copy()
    out[resolve(key, indices)] = value.reshape(()) if np.size(value) == 1 and not np.isscalar(value) else value
    return out


def along(dim, positions):
    return (FULL,) * dim + (positions,)


def index_add(a, dim, positions, source):
    out = a.copy()
    np.add.at(out, along(dim, positions), source)
    return out


def index_write(a, dim, positions, source):
    out = a.copy()
    out[along(dim, positions)] = source
    return out


def elements(positions, dim):
    key = list(np.indices(positions.shape))
    key[dim] = positions
    return tuple(key)


def scatter(a, dim, positions, source):
    out = a.copy()
    out[elements(positions, dim)] = source
    return out


def scatter_add(a, dim, positions, source):
    out = a.copy()
    np.add.at(out, elements(positions, dim), source)
    return out


def masked_select(a, m):
    a, m = np.broadcast_arrays(a, m)
    return a[m.astype(bool)]


def masked_scatter(a, m, source):
    out = a.copy()
    chosen = np.broadcast_to(m, a.shape).astype(bool)
    out[chosen] = source.reshape(-1)[: chosen.sum()]
    return out


KEYS = [
    ((1,), []),
    ((slice(0, 2), None, 2), []),
    ((Ellipsis, slice(None, None, 2)), []),
    ((-1, 3), []),
    (("@0",), [index(2, 3, low=-3, high=3)]),
    (("@0", "@1"), [exactly([0, 2, 0], "int64"), exactly([1, 3, 1], "int64")]),
    ((slice(0, 3, 2), "@0"), [exactly([3, 3, 0], "int64")]),
    (("@0", 1), [exactly([2, 2], "int64")]),
    (("@0",), [mask(3, 4)]),
    ((FULL, "@0"), [exactly([1, 0, 1, 0], "uint8")]),
    (("@0",), [exactly([], "int64")]),
]

SAMPLES = [
    op(
        "index",
        *[sample(real(3, 4), key, indices) for key, indices in KEYS],
        sample(real(3), (2,), []),
        sample(real(), (), []),
        reference=read,
        dtypes=NUMERIC,
    ),
    op(
        "index_backward",
        sample(real(3), (3, 4), ("@0", "@1"), [exactly([0, 2, 0], "int64"), exactly([1, 3, 1], "int64")]),
        sample(real(2, 3, 4), (3, 4), ("@0",), [index(2, 3, low=-3, high=3)]),
        sample(real(2, 4), (3, 4), ("@0",), [exactly([1, 0, 1], "uint8")]),
        sample(real(1), (3,), (1,), []),
        reference=add_at,
        dtypes=NUMERIC,
    ),
    op(
        "set_index",
        sample(real(3, 4), (1,), [], real(4)),
        sample(real(3, 4), (1,), [], real(1, 4)),
        sample(real(3, 4), (slice(0, 2), slice(1, 4)), [], real(2, 1)),
        sample(real(3, 4), (1, 2), [], real(1)),
        sample(real(3, 4), ("@0",), [exactly([2, 0], "int64")], real(2, 4)),
        sample(real(3, 4), ("@0",), [exactly([[1, 0, 1, 0]] * 3, "uint8")], 3),
        sample(real(3, 4), ("@0", "@1"), [exactly([0, 2], "int64"), exactly([1, 1], "int64")], real()),
        reference=write,
        dtypes=NUMERIC,
    ),
    op(
        "index_select",
        sample(real(3, 4), 0, index(5, low=-3, high=3)),
        sample(real(3, 4, 2), -2, index(2, high=4)),
        sample(real(3), 0, exactly([], "int64")),
        reference=lambda a, dim, positions: np.take(a, positions, dim),
        dtypes=NUMERIC,
    ),
    op(
        "index_add",
        sample(real(3, 4), 0, exactly([0, 2, 0], "int64"), real(3, 4)),
        sample(real(3, 4, 2), 1, exactly([-1, 0], "int64"), real(3, 2, 2)),
        reference=index_add,
        dtypes=NUMERIC,
    ),
    op(
        "index_copy",
        sample(real(3, 4), 0, exactly([2, 0], "int64"), real(2, 4)),
        sample(real(3, 4), 1, exactly([1], "int64"), real(3, 1)),
        reference=index_write,
        dtypes=NUMERIC,
    ),
    op(
        "index_fill",
        sample(real(3, 4), 0, exactly([2, 0], "int64"), 3),
        sample(real(3, 4), 1, exactly([-1], "int64"), -1),
        reference=index_write,
        dtypes=NUMERIC,
    ),
    op(
        "gather",
        sample(real(3, 4), 0, index(2, 4, high=3)),
        sample(real(3, 4), 1, index(2, 5, low=-4, high=4)),
        sample(real(2, 3, 4), 1, index(1, 2, 3, high=3)),
        reference=lambda a, dim, positions: a[elements(positions, dim)],
        dtypes=NUMERIC,
    ),
    op(
        "scatter",
        sample(real(3, 4), 0, exactly([[0, 2, 1, 0]], "int64"), real(1, 4)),
        sample(real(3, 4), 1, exactly([[0, 2], [3, 1]], "int64"), real(2, 2)),
        sample(real(3, 4), 0, exactly([[0, 2], [1, 0]], "int64"), 2),
        reference=scatter,
        dtypes=NUMERIC,
    ),
    op(
        "scatter_add",
        sample(real(3, 4), 0, exactly([[0, 2, 1, 0], [0, 1, 1, 0]], "int64"), real(2, 4)),
        sample(real(3, 4), -1, exactly([[1, 1, 1]], "int64"), real(1, 3)),
        reference=lambda a, dim, positions, source: scatter_add(a, dim % a.ndim, positions, source),
        dtypes=NUMERIC,
    ),
    op(
        "masked_select",
        sample(real(3, 4), mask(3, 4)),
        sample(real(3, 4), mask(4)),
        sample(real(4), mask(3, 4)),
        sample(real(3), exactly([0, 0, 0], "uint8")),
        reference=masked_select,
        dtypes=NUMERIC,
    ),
    op(
        "masked_scatter",
        sample(real(3, 4), mask(3, 4), real(3, 4)),
        sample(real(3, 4), exactly([1, 0, 0, 1], "uint8"), real(6)),
        reference=masked_scatter,
        dtypes=NUMERIC,
    ),
]
