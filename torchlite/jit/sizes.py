"""Lambdas that are run on inputs of several sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torchlite import _C
from torchlite.jit.passes.effects import locals_of, rebuilt, substitute

__all__ = ["open_sizes"]


def _opened(kind: Any, dims: Iterable[int] | None = None) -> Any:
    sizes = list(kind.sizes)
    for d in range(len(sizes)) if dims is None else dims:
        sizes[d] = -1
    return _C.TensorType(kind.dtype, sizes, kind.device)


def open_sizes(lam: Any, dims: Mapping[int, Iterable[int]]) -> Any:
    """``lam`` with sizes of its parameters left open: ``dims`` maps the number of a parameter to its dimensions.

    ``run_forward`` takes inputs of any size there, and asks each operation's own rule for the sizes of all results; it
    raises RuntimeError where a rule refuses. Numbers that Python made of sizes while tracing, and sizes among the
    constants (of a ``View``), stay what they were. ``vjp`` and ``Program`` want known sizes.

    ValueError if a Python Function is among what depends on an open size: only running it tells the size of its
    results. IndexError for a parameter or dimension that there isn't.
    """
    inputs = len(lam.params) - len(lam.captures)
    names: dict = {}
    params = list(lam.params)
    for i, which in dims.items():
        if not 0 <= i < inputs:
            raise IndexError(f"jit.open_sizes: the lambda has {inputs} inputs, so there is no parameter {i}")
        ndim, which = len(params[i].type.sizes), tuple(which)
        if bad := [d for d in which if not -ndim <= d < ndim]:
            raise IndexError(f"jit.open_sizes: parameter {i} has {ndim} dimensions, so there is no dimension {bad[0]}")
        params[i] = names[lam.params[i]] = _C.Local(_opened(lam.params[i].type, which))
    lets = []
    for let in lam.lets:
        if not any(a in names for a in locals_of(let.args)):
            lets.append(let)
            continue
        if type(let.rhs) is _C.PyApply:
            raise ValueError(f"jit.open_sizes: {let.name} is a Python Function, whose results have sizes of its own")
        results = [_C.Local(_opened(r.type)) for r in let.results]
        lets.append(_C.Let(results, rebuilt(let.rhs, substitute(let.args, names))))
        names.update(zip(let.results, results, strict=True))
    return _C.Lambda(params, lets, [names.get(a, a) for a in lam.ret.args], lam.captures)
