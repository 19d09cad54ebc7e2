"""Passes: functions from a Lambda to a Lambda of the same meaning.

Each rebuilds what it changes (the objects of the IR are immutable) and keeps the order of the rest.
"""

from __future__ import annotations

from typing import Any

from torchlite.jit.passes.common import eliminate_common_subexpressions
from torchlite.jit.passes.constants import fold_constants
from torchlite.jit.passes.dead_code import eliminate_dead_code
from torchlite.jit.passes.fuse import fuse_elementwise

__all__ = [
    "eliminate_common_subexpressions",
    "eliminate_dead_code",
    "fold_constants",
    "fuse_elementwise",
    "optimize",
]


def optimize(lam: Any, gradients: bool = False) -> Any:
    """The passes in their usual order.

    With ``gradients`` only those that leave gradients through the replay as they are, to the last bit: a fused
    operation has none, and two subexpressions that became one add up their gradients in another order.
    """
    lam = eliminate_dead_code(fold_constants(lam))
    return lam if gradients else fuse_elementwise(eliminate_common_subexpressions(lam))
