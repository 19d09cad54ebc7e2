"""Rows of the op table that are declared in Python.

``define_op`` makes a row like those of C++: an operation of ``_C._ops`` with a backward type, methods, a function of
the package and its in-place twin, traced under its name and checked by its type rule. The modules of this folder
declare the operations that are not worth C++: NumPy or CuPy does the work, and a call costs a few microseconds more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from .. import _C
from .._C import TensorType

__all__ = ["TensorType", "define_op"]


def define_op(
    signature: str,
    doc: str,
    *,
    forward: Callable[..., Any],
    types: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    uses: Mapping[str, str | Sequence[str]] | None = None,
    outputs: int = 1,
    hidden_outputs: int = 0,
    non_differentiable: Sequence[int] = (),
    no_gradient: Sequence[str] = (),
    in_place: bool = False,
    view: bool = False,
    reduces_to_number: bool = False,
    keep_sizes: bool = False,
    open_sizes: bool = False,
    leaf: bool = False,
    hidden: bool = False,
    method: bool = True,
    function: bool = True,
) -> _C.Op:
    """Adds a row to the op table, for the life of the process, and returns its operation.

    ``signature`` is written as in C++ (csrc/autograd/ops/op.h): ``"cross(Tensor self, Tensor other, int dim=-1)"``.
    The callables get one argument a parameter, in its order:

    - ``forward(*args)`` on tensors and constants returns a tensor, or a tuple of ``outputs + hidden_outputs`` of them.
      Arrays do as well. The last visible results may be left out, or None.
    - ``types(*args)`` on ``TensorType`` and constants returns the ``TensorType`` of the visible result, or a list of
      them. It raises what the forward raises for arguments that do not fit, and sees no elements.
    - ``backward(ctx, *grads)`` gets a Variable for each visible result, None for one without a gradient, and returns a
      gradient for each parameter: a Variable, None, or for ``Tensor[]`` a list of them. It is written in operations on
      Variables, so that it can be differentiated and traced itself. ``ctx.needs(parameter)`` says whether a gradient is
      wanted, ``ctx.value(parameter)`` and ``ctx.output(i)`` give what was saved (not to be written to), and
      ``ctx.sizes(parameter)`` the sizes of a tensor argument if the row has ``keep_sizes``. Gradients of arguments that
      were broadcast or cast are summed and cast back.

    Without ``backward`` the operation is not differentiable.

    ``uses`` says what the gradient of each tensor parameter needs: names of parameters, ``"out"`` or ``"out0"``,
    ``"out1"`` ... for results, counting the hidden ones. Constants are always kept. Without it, everything is kept:
    all arguments and all results, which costs their memory and makes an in-place call copy what it overwrites.

    ``hidden_outputs`` are results that only the backward sees. They come back without a history: where one depends on
    the arguments, the backward computes it from them while ``ctx.recording``, as the second derivative needs it.
    ``non_differentiable`` are positions of results such as indices, ``no_gradient`` names of parameters that no
    gradient flows to. ``in_place`` adds the form that ends in ``_``; ``view`` says that the result lies on the memory
    of the first argument; ``reduces_to_number`` that a full reduction of a tensor (with ``dim`` None) gives a Python
    number; ``open_sizes`` that sizes of the results depend on elements (-1 in their type); ``leaf`` that the graph ends
    here; ``hidden`` that only gradients call it.

    Raises ValueError for a signature that does not parse and for a name that is taken; the table is then unchanged.
    """
    flags = {
        "in_place": in_place, "view": view, "reduces_to_number": reduces_to_number, "keep_sizes": keep_sizes,
        "open_sizes": open_sizes, "leaf": leaf, "hidden": hidden, "no_method": not method,
        "no_function": not function,
    }
    package, name = _exported_to, signature.partition("(")[0].strip()
    if package and function and not hidden and hasattr(package, name):
        raise ValueError(f"operation '{signature}': {package.__name__} already has an attribute '{name}'")
    op = _C._define_op(
        signature, doc, forward, backward, types, None if uses is None else dict(uses), outputs, hidden_outputs,
        tuple(non_differentiable), tuple(no_gradient), tuple(name for name, on in flags.items() if on),
    )
    if package and _is_function(op):
        setattr(package, op.name, op)
    return op


_exported_to: ModuleType | None = None  # the package, once it has the functions of the table


def _is_function(op: _C.Op) -> bool:
    return not (op.hidden or op.method_only or op.inplace_only)


def export(package: str) -> None:
    """Makes the operations of the table functions of the package, and those that are declared from now on."""
    global _exported_to
    _exported_to = sys.modules[package]
    vars(_exported_to).update({op.name: op for op in _C._ops if _is_function(op)})


from . import counts, factors, linalg, products, sampling  # noqa: E402, F401  (declare their rows and methods)
