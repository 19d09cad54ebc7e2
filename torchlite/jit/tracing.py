"""Tracing a function on Variables into a Lambda."""

from __future__ import annotations

import sys
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


def same_bits(a: Any, b: Any) -> bool:
    """Whether two tensors hold the very same bits. On a device they are compared there: one number moves."""
    if a.size() != b.size() or a.type() != b.type():
        return False
    if not a.is_cuda:
        return a.numpy().tobytes() == b.numpy().tobytes()
    with torchlite.cuda.device_of(a):
        bits = [t.contiguous().cupy().view("u1") if t.numel() else None for t in (a, b)]
        return bits[0] is None or bool((bits[0] == bits[1]).all())


def random_states() -> tuple:
    """The states of all generators: the host's, and those of the devices that have drawn."""
    devices = sys.modules.get("torchlite.cuda._random")
    return torchlite.get_rng_state(), devices.states() if devices else {}


def restore_random(states: tuple) -> None:
    """Puts all generators back into :func:`random_states`."""
    torchlite.set_rng_state(states[0])
    if devices := sys.modules.get("torchlite.cuda._random"):
        devices.restore(states[1])


@contextmanager
def without_effects() -> Iterator[None]:
    """What runs within leaves nothing but its results: random generators and running statistics are as before."""
    states, discarded = random_states(), _C._set_discard_effects(True)
    try:
        yield
    finally:
        _C._set_discard_effects(discarded)
        restore_random(states)


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
