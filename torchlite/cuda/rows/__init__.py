"""The rows of the op table over arrays: one implementation for NumPy's arrays and CuPy's.

``forward`` functions take ``xp``, the array module, and then what the row's signature says, with arrays in place of
tensors; they return an array, or a tuple of them, hidden results included. The row's type rule has accepted the
arguments before, and what they return is cast to the rule's element types and reshaped to its sizes, so they state only
the values. ``backward`` functions take ``xp, grads, args, results, needs``: arrays, constants, and None for what was
not saved or did not arrive; they return one gradient for each argument.

Nothing here waits for the device but ``masked_select``, whose size is in the data, and keys with masks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torchlite.cuda.rows import (
    blas,
    convolution,
    elementwise,
    indexing,
    losses,
    networks,
    normalisation,
    order,
    recurrent,
    reduction,
    shape,
)

# Rows whose own forward serves devices: views, and what is made of copies and fills.
OWN = (
    "view", "reshape", "contiguous", "to_device", "transpose", "t", "permute", "expand", "squeeze", "unsqueeze", "flip",
    "narrow", "select", "unfold", "detach", "index", "clone", "cast", "copy", "fill", "zero", "zeros_of",
    "narrow_backward", "select_backward", "set_index", "diag", "diag_backward", "repeat", "fused_elementwise",
)

FAMILIES = (
    elementwise, reduction, order, shape, indexing, blas, networks, losses, recurrent, convolution, normalisation,
)


# Rows whose function takes an array to write the result into, ``out``; so do the library's own functions.
WITH_OUT = ("add", "sub", "div")


def implementations(xp: Any) -> dict[str, tuple[Callable | None, Callable | None, bool]]:
    """``{row: (forward, backward, whether forward takes out)}`` for the array module ``xp``; None: the row's own."""
    table: dict[str, tuple[Callable | None, Callable | None, bool]] = dict.fromkeys(OWN, (None, None, False))
    for family in FAMILIES:
        for name, forward in family.FORWARD.items():
            function = getattr(xp, forward) if isinstance(forward, str) else partial(forward, xp)
            table[name] = (function, None, isinstance(forward, str) or name in WITH_OUT)
        for name, backward in getattr(family, "BACKWARD", {}).items():
            table[name] = (table[name][0], partial(backward, xp), False)
    return table
