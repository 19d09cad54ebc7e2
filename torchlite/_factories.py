"""New tensors: of one value, in a sequence, random.

They have the default class (`torchlite.Tensor`, a FloatTensor unless :func:`set_default_tensor_type` changed it). Sizes
are ints or one sequence of ints. `out`, a tensor, is resized, filled and returned instead.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

import torchlite
from torchlite import _C
from torchlite._arrays import write_out
from torchlite._utils import _import_dotted_name

__all__ = [
    "arange",
    "eye",
    "full",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "rand",
    "randn",
    "randperm",
    "range",
    "set_default_tensor_type",
    "zeros",
    "zeros_like",
]


def set_default_tensor_type(t: Any) -> None:
    """Makes `t`, a class of tensors or its name such as ``'torch.DoubleTensor'``, the class of what factories make.

    ``torchlite.Tensor`` and ``torchlite.Storage`` become that class and the class of its storages.

    Raises:
        TypeError: `t` is neither, or a class of sparse tensors.
        AttributeError, ImportError: there is nothing of that name.
    """
    cls = _import_dotted_name(t) if isinstance(t, str) else t
    _C._set_default_tensor_type(cls)
    torchlite.Tensor = cls  # type: ignore[misc]
    torchlite.Storage = cls.storage_type()  # type: ignore[misc]


def _like(input: Any, out: Any, function: str, value: int) -> Any:
    """A tensor of the size and type of `input`, or `out` resized, full of `value`; for a Variable a Variable."""
    if isinstance(input, _C._VariableBase):
        return torchlite.Variable(_like(input.data, out, function, value))
    if not isinstance(input, _C._TensorBase):
        raise TypeError(f"{function}: expected a tensor or Variable, but got {type(input).__name__}")
    return write_out(function, out, input.new(input.size()).fill_(value))


def _of(values: np.ndarray, out: Any) -> Any:
    return _C._sized(values.shape, out).copy_(values)


def _steps(start: float, step: float, count: int, out: Any) -> Any:
    values: Any = np.arange(count)
    if step != 1:
        values = values * step
    return _of(values + start if start else values, out)


def zeros(*sizes: Any, out: Any = None) -> Any:
    """A tensor of zeros."""
    return _C._sized(sizes, out).zero_()


def ones(*sizes: Any, out: Any = None) -> Any:
    """A tensor of ones."""
    return _C._sized(sizes, out).fill_(1)


def full(size: Any, value: float, out: Any = None) -> Any:
    """A tensor of `size`, every element of it `value`."""
    if isinstance(out, _C._TensorBase):
        out.new(1).fill_(value)  # refuses the value while `out` is as it was
    return _C._sized((size,), out).fill_(value)


def zeros_like(input: Any, out: Any = None) -> Any:
    """Zeros of the size and type of a tensor or Variable."""
    return _like(input, out, "zeros_like", 0)


def ones_like(input: Any, out: Any = None) -> Any:
    """Ones of the size and type of a tensor or Variable."""
    return _like(input, out, "ones_like", 1)


def eye(n: int, m: int | None = None, out: Any = None) -> Any:
    """The (n, m) matrix with ones on the diagonal; m is n by default."""
    m = n if m is None else m
    out = _C._sized((n, m), out).zero_()
    if out.numel():
        out.view(-1)[: n * m : m + 1].narrow(0, 0, min(n, m)).fill_(1)
    return out


def arange(start: float, end: float | None = None, step: float = 1, out: Any = None) -> Any:
    """start, start + step ... up to, not including, end. One argument is the end, from 0."""
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"arange: the step {step} does not lead from {start} to {end}")
    return _steps(start, step, math.ceil((end - start) / step), out)


def range(start: float, end: float, step: float = 1, out: Any = None) -> Any:
    """start, start + step ... up to and including end. Deprecated: `arange` leaves out the end, as Python does."""
    warnings.warn(
        "torchlite.range is deprecated in favor of torchlite.arange, which generates values in [start; end), "
        "not [start; end]",
        stacklevel=2,
    )
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"range: the step {step} does not lead from {start} to {end}")
    return _steps(start, step, math.floor((end - start) / step) + 1, out)


def linspace(start: float, end: float, steps: int = 100, out: Any = None) -> Any:
    """`steps` numbers, evenly spaced from start to end, both included."""
    return _of(np.linspace(start, end, steps), out)


def logspace(start: float, end: float, steps: int = 100, out: Any = None) -> Any:
    """10 to the power of each number of linspace(start, end, steps)."""
    return _of(np.logspace(start, end, steps), out)


def _random(sizes: tuple, out: Any, generator: Any, fill: str) -> Any:
    if sizes and isinstance(sizes[0], _C.Generator):
        generator, *sizes = sizes  # type: ignore[assignment]
    _require_generator(generator)
    if isinstance(out, _C._TensorBase):
        getattr(out.new(0), fill)()  # refuses the type while `out` is as it was
    return getattr(_C._sized(tuple(sizes), out), fill)(generator=generator)


def _require_generator(generator: Any) -> None:
    if generator is not None and not isinstance(generator, _C.Generator):
        raise TypeError(f"generator must be a torchlite.Generator, not {type(generator).__name__}")


def rand(*sizes: Any, out: Any = None, generator: Any = None) -> Any:
    """Uniform random numbers in [0, 1), drawn from `generator`, which may also stand before the sizes."""
    return _random(sizes, out, generator, "uniform_")


def randn(*sizes: Any, out: Any = None, generator: Any = None) -> Any:
    """Random numbers of the standard normal distribution, drawn from `generator`, which may stand before the sizes."""
    return _random(sizes, out, generator, "normal_")


def randperm(n: int, out: Any = None, generator: Any = None) -> Any:
    """The ints from 0 to n - 1 in random order, a LongTensor."""
    _require_generator(generator)
    if not hasattr(type(n), "__index__"):
        raise TypeError(f"randperm: 'n' must be an int, but got {n!r}")
    if n < 0:
        raise RuntimeError(f"randperm: expected a number that is not negative, but got {n}")
    # Distinct keys in random order; equal ones would not favour any permutation by more than 2 ** -53.
    order = np.argsort(_C.DoubleTensor(n).uniform_(generator=generator).numpy(), kind="stable") if n else np.empty(0)
    return write_out("randperm", out, _C.from_numpy(order.astype(np.int64)))
