"""How an entry of the function table says its arguments: recipes, from which every test makes fresh Variables."""

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from torchlite.autograd import Variable

S, M = 3, 4


@dataclass(frozen=True)
class Recipe:
    """An argument that is a Variable: ``make(rng)`` gives its values."""

    make: Any
    requires_grad: bool = True


def V(*size, low=-1.0, high=1.0):
    """Random numbers between ``low`` and ``high``."""
    return Recipe(lambda rng: rng.uniform(low, high, size))


def away(*size, zero=0.25, high=1.5):
    """Random numbers of both signs that keep a distance from 0."""
    return Recipe(lambda rng: rng.uniform(zero, high, size) * rng.choice([-1.0, 1.0], size))


def distinct(*size, step=0.1):
    """Different numbers in random order, at least ``step`` apart."""
    return Recipe(lambda rng: (rng.permutation(int(np.prod(size))).reshape(size) - np.prod(size) / 2) * step + 0.03)


def between_steps(*size):
    """Numbers that are not near an integer or a half."""
    return Recipe(lambda rng: rng.integers(-3, 3, size) + rng.choice([0.2, 0.3, 0.7, 0.8], size))


def fixed(values, requires_grad=True):
    """These values."""
    return Recipe(lambda rng: np.array(values, dtype=np.float64), requires_grad)


def mask(*size):
    """A ByteTensor of zeros and ones, with at least one of each if there is room."""

    def make(rng):
        flat = rng.integers(0, 2, int(np.prod(size))).astype(np.uint8)
        flat[0], flat[-1] = 0, 1
        return flat.reshape(size)

    return Recipe(make, False)


def longs(values):
    """A LongTensor."""
    return Recipe(lambda rng: np.array(values, dtype=np.int64), False)


def indices(*size, below, distinct_along=None):
    """A LongTensor of random indices; different ones along the dimension ``distinct_along``."""

    def make(rng):
        if distinct_along is None:
            return rng.integers(0, below, size)
        full = [below if d == distinct_along else n for d, n in enumerate(size)]
        order = np.argsort(rng.random(full), distinct_along)
        return np.ascontiguousarray(np.take(order, range(size[distinct_along]), distinct_along))

    return Recipe(make, False)


def invertible(n):
    return Recipe(lambda rng: rng.uniform(-1, 1, (n, n)) + 2 * np.eye(n))


def positive_definite(n):
    """A symmetric matrix. Functions of it look at one triangle alone."""

    def make(rng):
        a = rng.uniform(-1, 1, (n, n))
        return a @ a.T + n * np.eye(n)

    return Recipe(make)


@dataclass(frozen=True)
class Entry:
    cls: type
    args: tuple
    suffix: str
    in_place: bool  # whether the result fits into the argument that it would be written to
    contiguous: bool  # whether the arguments must be contiguous

    @property
    def id(self):
        return self.cls.__name__ + (f"_{self.suffix}" if self.suffix else "")


def entry(cls, *args, suffix="", in_place=True, contiguous=False):
    return Entry(cls, args, suffix, in_place, contiguous)


def _strided(array):
    """The same values with gaps between them."""
    if array.ndim == 0 or array.size == 1:
        return array
    holder = np.zeros(array.shape[:-1] + (2 * array.shape[-1],), dtype=array.dtype)
    view = holder[..., ::2]
    view[...] = array
    return view


def make_inputs(entry, strided=True):
    """The arguments of an entry, always the same numbers, on memory with gaps unless ``strided`` is false."""
    rng = np.random.default_rng(zlib.crc32(entry.id.encode()))
    inputs = []
    for arg in entry.args:
        if isinstance(arg, Recipe):
            array = arg.make(rng)
            array = _strided(array) if strided and not entry.contiguous else array
            inputs.append(Variable(array, requires_grad=arg.requires_grad))
        else:
            inputs.append(arg)
    return tuple(inputs)
