"""Sizes of gradients: what was broadcast is summed back."""

from __future__ import annotations

import math
from typing import Any

from ... import _C

_sum_to = _C._find_op("sum_to")


def _is_expansion(size: Any, old_size: Any) -> bool:
    """Whether ``size`` is what ``old_size`` broadcasts to."""
    extra = len(size) - len(old_size)
    return extra >= 0 and all(old in (1, new) for old, new in zip(old_size, size[extra:], strict=True))


def maybe_unexpand(variable: Any, old_size: Any, check_same_size: bool = True) -> Any:
    """The gradient of an operand of ``old_size`` from that of its broadcast: the repeated elements are summed.

    With ``check_same_size`` a gradient that already has the size is returned itself. RuntimeError if ``old_size``
    does not broadcast to the size of ``variable``.
    """
    size = variable.size()
    if check_same_size and tuple(size) == tuple(old_size):
        return variable
    if not _is_expansion(size, old_size):
        raise RuntimeError(
            f"maybe_unexpand: size {'x'.join(map(str, old_size))} does not broadcast to {'x'.join(map(str, size))}"
        )
    return _sum_to(variable, *old_size)


def maybe_unexpand_or_view(variable: Any, old_size: Any) -> Any:
    """The same, except that an operand of as many elements that was paired in order gets its gradient reshaped."""
    size = variable.size()
    if not _is_expansion(size, old_size) and math.prod(size) == math.prod(old_size):
        return variable.contiguous().view(old_size)
    return maybe_unexpand(variable, old_size)
