"""``backward`` and ``grad``: they prepare the arguments of the engine's ``run_backward``."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .. import _C
from .grad_mode import no_grad
from .variable import Variable


def seed(output: Variable, gradient: Any, volatile: bool) -> Variable | None:
    """The gradient that backward starts from at ``output``: a Variable of ``gradient`` or, if that is None, of a one.

    That it has the output's size and type is checked by the engine.
    """
    tracing = _C._is_tracing()
    if gradient is None:
        if not output.requires_grad:
            return None  # the engine says what is wrong with that
        data = output.data
        if data.numel() != 1:
            raise RuntimeError("grad can be implicitly created only for scalar outputs")
        if tracing:
            return _C._ops.fill(output.detach(), 1)
        # Not a copy: the loss may still be in the making on another stream of a device.
        return Variable(data.new(data.size()).fill_(1), volatile=volatile)
    if isinstance(gradient, Variable):
        if gradient.volatile != volatile and not tracing:
            gradient = Variable(gradient.data, volatile=volatile)
    elif isinstance(gradient, (_C._TensorBase, np.ndarray)) or hasattr(gradient, "__cuda_array_interface__"):
        gradient = Variable(gradient, volatile=volatile)
    else:
        raise TypeError("gradients can be either Tensors, Variables or None, but got " + type(gradient).__name__)
    return gradient


def _as_tuple(value: Any) -> tuple:
    """A single Variable, tensor, array or None as a tuple of one; a sequence as a tuple."""
    if isinstance(value, (tuple, list)):
        return tuple(value)
    if value is None or isinstance(value, (_C._VariableBase, _C._TensorBase, np.ndarray, str, bytes)):
        return (value,)
    if hasattr(value, "__cuda_array_interface__") or not hasattr(value, "__iter__"):
        return (value,)
    return tuple(value)


def _prepare(outputs: tuple, gradients: Any, create_graph: bool | None) -> tuple[tuple, bool]:
    gradients = (None,) * len(outputs) if gradients is None else _as_tuple(gradients)
    if len(gradients) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} variables and {len(gradients)} gradients")
    for i, output in enumerate(outputs):
        if not isinstance(output, Variable):
            raise RuntimeError(f"element {i} of variables tuple is not a Variable")
    if create_graph is None:
        create_graph = any(isinstance(g, Variable) and not g.volatile for g in gradients)
    create_graph = bool(create_graph)
    return tuple(seed(o, g, not create_graph) for o, g in zip(outputs, gradients, strict=True)), create_graph


def _run(create_graph: bool, *args: Any) -> Any:
    """The engine's run. A trace sees operations on Variables only, so there a plain backward runs on them as well,
    without a graph of its own."""
    if _C._is_tracing() and not create_graph:
        with no_grad():
            return Variable._execution_engine.run_backward(*args)
    return Variable._execution_engine.run_backward(*args)


def backward(
    variables: Any,
    grad_variables: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool | None = None,
    retain_variables: bool | None = None,
) -> None:
    """Adds the sum of the gradients of ``variables`` to ``grad`` of every leaf that they depend on.

    ``variables``: a Variable or a sequence of them. ``grad_variables``: for each of them a tensor, array or Variable of
    its size, or None for one of a single element. The other arguments are those of :meth:`Variable.backward`.
    """
    if retain_variables is not None:
        if retain_graph is not None:
            raise ValueError("only one of retain_graph and retain_variables can be specified")
        retain_graph = retain_variables
        warnings.warn("retain_variables option is deprecated. Use retain_graph instead.", stacklevel=2)
    outputs = _as_tuple(variables)
    gradients, create_graph = _prepare(outputs, grad_variables, create_graph)
    if retain_graph is None:
        retain_graph = create_graph
    _run(create_graph, outputs, gradients, bool(retain_graph))


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool | None = None,
    only_inputs: bool = True,
) -> tuple:
    """The gradients of the sum of ``outputs`` with respect to each of ``inputs``, as a tuple of Variables.

    ``outputs`` and ``inputs``: a Variable or a sequence of them; ``grad_outputs`` as in :func:`backward`. No ``grad``
    is changed, unless ``only_inputs`` is False: then leaves that aren't among ``inputs`` accumulate theirs.
    ``create_graph`` makes the results differentiable (default: whether some gradient is a Variable that isn't
    volatile).

    RuntimeError if an input isn't part of the graph of the outputs.
    """
    outputs = _as_tuple(outputs)
    gradients, create_graph = _prepare(outputs, grad_outputs, create_graph)
    if retain_graph is None:
        retain_graph = create_graph
    return _run(create_graph, outputs, gradients, bool(retain_graph), _as_tuple(inputs), bool(only_inputs))


