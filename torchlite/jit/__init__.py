"""Functions traced into lambdas of the IR: seen, checked, optimised, differentiated and replayed.

===================================  =================================================================================
``trace(fn_or_module, *args)``       a callable that replays what it traced, one trace for each kind of arguments
``compile(fn)``, ``jit(model)``      the same under its other names; ``compile`` also as a decorator
``compile_step(model, loss, opt)``   a training step (forward, backward, update) as one program
``make_lambda(fn, inputs)``          the bare trace of a function on Variables, a ``Lambda``
``vjp(lambda)``, ``grad(lambda)``    its derivative, again a ``Lambda``
``optimize(lambda)``                 the passes of ``torchlite.jit.passes`` in their usual order
``open_sizes(lambda, dims)``         the lambda for inputs of several sizes
``check(lambda)``, ``parse(text)``   well-formedness; the lambda that a text prints
``save(lambda, f)``, ``load(f)``     on disk, with constants and captures
===================================  =================================================================================
"""

from __future__ import annotations

import importlib
from typing import Any

_PLACES = {
    "ArgVisitor": "visitors",
    "ExprVisitor": "visitors",
    "ParseError": "parser",
    "check": "tracing",
    "compile": "compiled",
    "compile_step": "step",
    "grad": "differentiate",
    "jit": "compiled",
    "load": "storage",
    "make_lambda": "tracing",
    "open_sizes": "sizes",
    "optimize": "passes",
    "parse": "parser",
    "save": "storage",
    "trace": "compiled",
    "vjp": "differentiate",
}
_MODULES = {"passes", "parser", "visitors"}
__all__ = [*_PLACES]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *_MODULES})
