"""Dead code elimination."""

from __future__ import annotations

from typing import Any

from torchlite import _C
from torchlite.jit.passes.effects import is_pure, locals_of


def eliminate_dead_code(lam: Any) -> Any:
    """Without the lets whose results nothing needs. Random operations and Python Functions stay."""
    needed = set(lam.ret.args)
    kept = []
    for let in reversed(tuple(lam.lets)):
        if is_pure(let) and needed.isdisjoint(let.results):
            continue
        needed.update(locals_of(let.args))
        kept.append(let)
    if len(kept) == len(lam.lets):
        return lam
    return _C.Lambda(lam.params, kept[::-1], lam.ret, lam.captures)
