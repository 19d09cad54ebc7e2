"""Random samples with parameters in tensors: multinomial, bernoulli, normal. They are no rows: they have no gradient.

Tensors get `multinomial` and `bernoulli` as methods here; Variables have stochastic ones of their own, which the
functions call. Everything is drawn from the default generator or from `generator`.
"""

from __future__ import annotations

import math
import operator
from typing import Any

from .. import _C
from .._arrays import array, module_of, require_tensor, write_out


def _is_variable(obj: Any) -> bool:
    """Whether `obj` is a Variable of torchlite or of another package on its extension."""
    return isinstance(obj, _C._VariableBase)


def _refuse_generator(function: str, generator: Any) -> None:
    if generator is not None:
        raise TypeError(f"{function}: samples of Variables come from the default generator; draw from their data")


# ---- multinomial ----------------------------------------------------------------------------------------------------


def _checked_weights(weights: Any, num_samples: int, replacement: bool) -> Any:
    """The weights in double precision, once they are known to be good."""
    if weights.dim() not in (1, 2):
        raise RuntimeError(f"multinomial: weights must have 1 or 2 dimensions, but have size {tuple(weights.size())}")
    try:
        number = None if isinstance(num_samples, bool) else operator.index(num_samples)
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"multinomial: 'num_samples' must be an int, but is {type(num_samples).__name__}")
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot draw {num_samples} samples: expected a number above 0")
    w = weights.double()
    low, high = (w.min(), w.max()) if w.numel() else (0.0, 0.0)  # NaN if there is one
    if not (-math.inf < low and high < math.inf):
        raise RuntimeError("multinomial: weights must be finite, but some are NaN or infinite")
    if low < 0:
        raise RuntimeError(f"multinomial: weights must not be negative, but the smallest is {low}")
    fewest = w.size(-1) if low > 0 else int(w.gt(0).sum(-1).min()) if w.numel() else 0
    if fewest == 0:
        raise RuntimeError("multinomial: the sum of the weights of each row must be above 0, but one is 0")
    if not replacement and num_samples > fewest:
        raise RuntimeError(
            f"multinomial: cannot draw {num_samples} samples without replacement from {fewest} weights above 0"
        )
    return w


def _with_replacement(w: Any, uniform: Any) -> Any:
    """For each row of weights the classes that numbers in [0, 1) fall into."""
    xp = module_of(w)
    # Scaled first, so that the sum of large weights is finite.
    edges = (w / w.max(-1, keepdims=True)).cumsum(-1)
    drawn = xp.empty(uniform.shape, dtype="int64")
    for row, (edge, u) in enumerate(zip(edges, uniform, strict=True)):
        # Never beyond the last class with a weight, even if u times the sum is rounded up.
        last = int(xp.nonzero(w[row])[0][-1])
        drawn[row] = xp.minimum(xp.searchsorted(edge, u * edge[-1], side="right"), last)
    return drawn


def _without_replacement(w: Any, uniform: Any, num_samples: int) -> Any:
    """The classes in the order of exponential waiting times with the weights as their rates (Efraimidis and Spirakis).

    The first is each class with its share of the weights, and so is the next one among those that are left.
    """
    # The logarithm of the time, which is finite for weights of every size, and infinite for a weight of 0.
    times = uniform.neg().log1p().neg().log() - w.log()
    return times.topk(num_samples, -1, False)[1]


def _multinomial(self: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Any:
    """multinomial(num_samples, replacement=False, *, generator=None) -> LongTensor

    Draws `num_samples` classes for each row of this tensor, which holds their weights, of size (k,) or (n, k). The
    weights need not sum to 1. The result has size (num_samples,) or (n, num_samples). Without replacement no class is
    drawn twice in a row, and they stand in the order in which they were drawn.

    Raises:
        RuntimeError: for weights that are negative or not finite, a row without a positive one, or fewer positive
            weights than samples without replacement.
    """
    w = _checked_weights(self, num_samples, replacement)
    if not replacement:
        return _without_replacement(w, w.new(w.size()).uniform_(generator=generator), num_samples)
    rows = array(w).reshape(-1, w.size(-1))
    uniform = array(w.new(len(rows), num_samples).uniform_(generator=generator))
    result = self.new(*w.size()[:-1], num_samples).long()
    array(result)[...] = _with_replacement(rows, uniform).reshape(result.size())
    return result


def multinomial(
    input: Any, num_samples: int, replacement: bool = False, out: Any = None, *, generator: Any = None
) -> Any:
    """Draws `num_samples` classes for each row of `input`, their weights; see the method of tensors.

    `out`, a LongTensor, is resized, filled and returned. For a Variable it is the Variable's stochastic method.
    """
    if _is_variable(input):
        _refuse_generator("multinomial", generator)
        return input.multinomial(num_samples, replacement)
    require_tensor("multinomial", "input", input, "a tensor or Variable")
    if out is not None and (not isinstance(out, _C._TensorBase) or out.dtype != "int64"):
        raise TypeError(f"multinomial: 'out' must be a LongTensor, but is {type(out).__name__}")
    return write_out("multinomial", out, _multinomial(input, num_samples, replacement, generator=generator))


# ---- bernoulli ------------------------------------------------------------------------------------------------------


def _bernoulli(self: Any, *, generator: Any = None) -> Any:
    """bernoulli(*, generator=None) -> tensor

    Ones with the probabilities that this tensor holds, else zeros, of its type and size.

    Raises:
        RuntimeError: if one isn't between 0 and 1.
    """
    return self.new(self.size()).bernoulli_(self, generator=generator)


def bernoulli(input: Any, out: Any = None, *, generator: Any = None) -> Any:
    """Ones with the probabilities that `input` holds, else zeros, of its type, or that of `out`, and its size.

    For a Variable it is the Variable's stochastic method.
    """
    if _is_variable(input):
        _refuse_generator("bernoulli", generator)
        return input.bernoulli()
    require_tensor("bernoulli", "input", input, "a tensor or Variable")
    if out is None:
        return _bernoulli(input, generator=generator)
    require_tensor("bernoulli", "out", out)
    return write_out("bernoulli", out, out.new(input.size()).bernoulli_(input, generator=generator))


# ---- normal ---------------------------------------------------------------------------------------------------------


def normal(means: Any = 0.0, std: Any = 1.0, out: Any = None, *, mean: Any = None, generator: Any = None) -> Any:
    """Normal random numbers: normal(means, std=1.0), normal(mean=0.0, std) or normal(means, std).

    `means` and `std` are tensors, or one of them a number; `mean` is another name of the first. Two tensors have one
    type and as many elements; the result has the size of `means`. `out` is resized, filled and returned. With a
    Variable for the means the result is a Variable of a stochastic Function.

    Raises:
        TypeError: if neither is a tensor, or their types differ.
        RuntimeError: for a negative standard deviation, or other numbers of elements.
    """
    if mean is not None:
        means = mean
    if _is_variable(means) or _is_variable(std):
        _refuse_generator("normal", generator)
        if not _is_variable(means):
            means = type(std)(std.data.new(std.size()).fill_(means))
        return type(means)._torch.normal(means, std)
    tensors = [t for t in (means, std) if isinstance(t, _C._TensorBase)]
    if not tensors:
        raise TypeError(
            "normal: 'means' or 'std' must be a tensor or Variable, but they are "
            f"{type(means).__name__} and {type(std).__name__}"
        )
    if len(tensors) == 2:
        if type(means) is not type(std):
            raise TypeError(
                f"normal: 'means' and 'std' must have one type, but are {means.type()} and {std.type()}"
            )
        if means.numel() != std.numel():
            raise RuntimeError(
                f"normal: 'means' of size {tuple(means.size())} and 'std' of size {tuple(std.size())} must have as "
                "many elements"
            )
        std = std.contiguous().view(means.size())
    smallest = std if len(tensors) == 1 and tensors[0] is means else std.min() if std.numel() else 0.0
    if not smallest >= 0:
        raise RuntimeError(f"normal: 'std' must not be negative, but the smallest is {smallest}")
    like = tensors[0]
    drawn = like.new(like.size()).normal_(generator=generator).mul_(std).add_(means)
    return write_out("normal", out, drawn)


_multinomial.__name__, _bernoulli.__name__ = "multinomial", "bernoulli"
_C._add_tensor_methods({"multinomial": _multinomial, "bernoulli": _bernoulli})
