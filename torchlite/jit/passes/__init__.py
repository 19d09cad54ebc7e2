"""Passes: functions from a Lambda to a Lambda of the same meaning.

Each rebuilds what it changes (the objects of the IR are immutable) and keeps the order of the rest.
"""

from __future__ import annotations

from typing import Any

from torchlite.jit.passes.common import eliminate_common_subexpressions
from torchlite.jit.passes.dead_code import eliminate_dead_code

__all__ = ["eliminate_common_subexpressions", "eliminate_dead_code", "optimize"]


def optimize(lam: Any) -> Any:
    """The passes in their usual order."""
    for each in (eliminate_common_subexpressions, eliminate_dead_code):
        lam = each(lam)
    return lam
