"""Differentiation in Python on the classes of `torch._C`: Functions with formulas, nothing of torchlite's own layer."""

import warnings

import torch

from .function import Function, NestedIOFunction
from .gradcheck import gradcheck
from .ir import Arg, Expr
from .stochastic_function import StochasticFunction
from .variable import Variable

__all__ = ["Arg", "Expr", "Function", "NestedIOFunction", "StochasticFunction", "Variable", "backward", "grad",
           "gradcheck"]  # fmt: skip


def _start(outputs, gradients, create_graph):
    gradients = (None,) * len(outputs) if gradients is None else _tuple(gradients)
    if create_graph is None:
        create_graph = any(isinstance(g, Variable) and not g.volatile for g in gradients)
    starts = []
    for output, gradient in zip(outputs, gradients, strict=False):
        if isinstance(gradient, Variable):
            if gradient.volatile == create_graph:
                gradient = Variable(gradient.data, volatile=not create_graph)
        elif gradient is not None and torch.is_tensor(gradient):
            gradient = Variable(gradient, volatile=not create_graph)
        elif gradient is not None:
            raise TypeError("gradients can be either Tensors, Variables or None, but got " + type(gradient).__name__)
        elif output.requires_grad:
            if output.data.numel() != 1:
                raise RuntimeError("grad can be implicitly created only for scalar outputs")
            gradient = Variable(output.data.new(output.data.size()).fill_(1), volatile=not create_graph)
        starts.append(gradient)
    starts.extend(gradients[len(outputs):])  # the engine says what is wrong with their number
    return tuple(starts), create_graph


def _tuple(value):
    return (value,) if value is None or isinstance(value, Variable) or torch.is_tensor(value) else tuple(value)


def backward(variables, grad_variables=None, retain_graph=None, create_graph=None, retain_variables=None):
    outputs = _tuple(variables)
    gradients, create_graph = _start(outputs, grad_variables, create_graph)
    if retain_variables is not None:
        if retain_graph is not None:
            raise ValueError("only one of retain_graph and retain_variables can be specified")
        retain_graph = retain_variables
        warnings.warn("retain_variables option is deprecated. Use retain_graph instead.", stacklevel=2)
    if retain_graph is None:
        retain_graph = create_graph
    Variable._execution_engine.run_backward(outputs, gradients, retain_graph)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=None, only_inputs=True):
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    gradients, create_graph = _start(outputs, grad_outputs, create_graph)
    if retain_graph is None:
        retain_graph = create_graph
    return Variable._execution_engine.run_backward(outputs, gradients, retain_graph, inputs, only_inputs)


if not torch._C._autograd_init():
    raise RuntimeError("autograd initialization failed")
