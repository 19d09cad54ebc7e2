"""Lambdas on disk."""

from __future__ import annotations

from typing import Any

import torchlite
from torchlite import _C

__all__ = ["load", "save"]

FORMAT = "torchlite.jit lambda 1"


def _encode(args: tuple, numbers: dict) -> list:
    """Arguments as data: the number of a Local, a list for a list, a 1-tuple around a constant."""
    return [
        numbers[a] if type(a) is _C.Local else _encode(a, numbers) if type(a) is tuple else (a.value,) for a in args
    ]


def _decode(args: list, known: list) -> tuple:
    return tuple(
        [
            known[a] if type(a) is int else _decode(a, known) if type(a) is list else _C.Const(a[0])  # noqa: E721
            for a in args
        ]
    )


def save(lam: Any, f: Any) -> None:
    """Writes a Lambda, with its constants and the data of its captures, to the path or file ``f``.

    A Python Function in it is written by name, as pickle writes classes. TypeError if ``lam`` is no Lambda.
    """
    if type(lam) is not _C.Lambda:
        raise TypeError(f"jit.save: argument 'lam' must be a Lambda, not {type(lam).__name__}")
    numbers = {p: i for i, p in enumerate(lam.params)}
    lets = []
    for let in lam.lets:
        what = let.op.name if type(let.rhs) is _C.CppApply else let.op
        lets.append((what, _encode(let.args, numbers), [r.type for r in let.results], let.location))
        for result in let.results:
            numbers[result] = len(numbers)
    torchlite.save(
        {
            "format": FORMAT,
            "params": [p.type for p in lam.params],
            "captures": list(lam.captures),
            "lets": lets,
            "ret": [numbers[a] for a in lam.ret.args],
        },
        f,
    )


def load(f: Any) -> Any:
    """The Lambda that :func:`save` wrote to the path or file ``f``, checked.

    It is read with pickle: load only what you trust. RuntimeError if the file holds something else.
    """
    data = torchlite.load(f)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise RuntimeError("jit.load: the file holds no lambda that jit.save of this version has written")
    params = [_C.Local(t) for t in data["params"]]
    known = list(params)
    lets = []
    for what, encoded, types, location in data["lets"]:
        make = _C.CppApply if isinstance(what, str) else _C.PyApply
        results = [_C.Local(t) for t in types]
        lets.append(_C.Let(results, make(what, _decode(encoded, known), location)))
        known += results
    lam = _C.Lambda(params, lets, [known[i] for i in data["ret"]], data["captures"])
    lam.check()
    return lam
