"""Constant folding."""

from __future__ import annotations

from typing import Any

from torchlite import _C
from torchlite.jit.passes.effects import is_pure, locals_of

_LARGEST = 1 << 14  # elements of a result: larger ones cost more to keep than to compute


def fold_constants(lam: Any) -> Any:
    """Computes now what depends on constants alone: on captures that are tensors.

    A captured Variable is no constant, as a run reads its current data.
    """
    first = len(lam.params) - len(lam.captures)
    known = {p: c for p, c in zip(lam.params[first:], lam.captures, strict=True) if isinstance(c, _C._TensorBase)}
    if not known:
        return lam
    folded: list = []
    kept = []
    for let in lam.lets:
        args = locals_of(let.args)
        small = all(_elements(r.type) <= _LARGEST for r in let.results)
        if args and small and is_pure(let) and all(a in known for a in args):
            args = list(dict.fromkeys(args))
            results = _C.Program(_C.Lambda(args, [let], let.results)).run_plain(*[known[a] for a in args])
            for local, value in zip(let.results, results, strict=True):
                known[local] = value.data
                folded.append(local)
        else:
            kept.append(let)
    if not folded:
        return lam
    used = set(lam.ret.args)
    for let in kept:
        used.update(locals_of(let.args))
    captures = [(p, c) for p, c in zip(lam.params[first:], lam.captures, strict=True) if p in used or p not in known]
    captures += [(local, known[local]) for local in folded if local in used]
    params = [*lam.params[:first], *[p for p, _ in captures]]
    return _C.Lambda(params, kept, lam.ret, [c for _, c in captures])


def _elements(tensor_type: Any) -> int:
    n = 1
    for size in tensor_type.sizes:
        n *= size
    return n
