"""Common subexpression elimination."""

from __future__ import annotations

from typing import Any

from torchlite import _C
from torchlite.jit.passes.effects import is_pure, rebuilt, substitute
from torchlite.jit.structure import _constant_key


def _key(arg: Any) -> Any:
    if type(arg) is _C.Local:
        return arg
    if type(arg) is tuple:
        return tuple([_key(a) for a in arg])
    value = arg.value
    if isinstance(value, list):
        return list, tuple(map(_constant_key, value))
    if isinstance(value, tuple):
        return tuple, tuple([(type(v), _constant_key(v)) for v in value])
    return type(value), _constant_key(value)


def eliminate_common_subexpressions(lam: Any) -> Any:
    """Computes once what two lets compute from equal arguments; not random operations nor Python Functions."""
    names: dict = {}
    known: dict = {}
    kept = []
    for let in lam.lets:
        args = substitute(let.args, names) if names else let.args
        if is_pure(let):
            key = (let.name, tuple([_key(a) for a in args]))
            try:
                earlier = known.setdefault(key, let)
            except TypeError:  # a constant that can't be hashed
                earlier = let
            if earlier is not let:
                names.update(zip(let.results, earlier.results, strict=True))
                continue
        kept.append(let if args is let.args or args == let.args else _C.Let(let.results, rebuilt(let.rhs, args)))
    if not names:
        return lam
    return _C.Lambda(lam.params, kept, [names.get(a, a) for a in lam.ret.args], lam.captures)
