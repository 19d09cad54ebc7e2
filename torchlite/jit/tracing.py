"""Tracing a function on Variables into a Lambda."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torchlite
from torchlite import _C
from torchlite.autograd import Variable

__all__ = ["check", "make_lambda"]


def alias(variable: Variable) -> Variable:
    """A leaf of its own on the same memory, with the same flags: one Variable may be passed for two parameters."""
    if variable.volatile:
        return Variable(variable.data, volatile=True)
    return Variable(variable.data, requires_grad=variable.requires_grad)


@contextmanager
def without_effects() -> Iterator[None]:
    """What runs within leaves nothing but its results: the random generator and running statistics are as before."""
    state, discarded = torchlite.get_rng_state(), _C._set_discard_effects(True)
    try:
        yield
    finally:
        _C._set_discard_effects(discarded)
        torchlite.set_rng_state(state)


def record(fn: Callable, inputs: Sequence[Variable], locations: bool = False) -> Any:
    """The lambda of ``fn()``, which returns a tuple of Variables, with the parameters ``inputs``.

    The trace ends whatever happens in it, and has no effects: the first replay is the first run.
    """
    depth = _C._tracer_depth()
    with without_effects():
        _C._tracer_enter(tuple(inputs), capture=True, locations=locations)
        try:
            return _C._tracer_exit(fn())
        finally:
            while _C._tracer_depth() > depth:
                _C._tracer_abort()


def make_lambda(fn: Callable, inputs: Sequence[Variable], locations: bool = False) -> Any:
    """Traces ``fn(*inputs)``, which returns a Variable or a tuple of them, on aliases of the Variables ``inputs``.

    Other Variables that it uses become captured parameters, read at each run. With ``locations`` each let remembers
    its line of Python.
    """
    if isinstance(inputs, Variable):
        raise TypeError("make_lambda: inputs has to be a sequence of Variables, not a Variable")
    for i, v in enumerate(inputs):
        if not isinstance(v, Variable):
            raise TypeError(f"make_lambda: inputs[{i}] has to be a Variable, not {type(v).__name__}")
    aliases = [alias(v) for v in inputs]

    def call():
        result = fn(*aliases)
        return result if isinstance(result, tuple) else (result,)

    return record(call, aliases, locations)


def check(lam: Any) -> None:
    """RuntimeError unless the Lambda ``lam`` is well-formed: each local bound once and before its use, and every type
    what the operation's own rule gives. The message shows the bad line and its neighbours.
    """
    lam.check()
