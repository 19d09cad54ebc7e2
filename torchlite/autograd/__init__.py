"""Automatic differentiation: Variable, Function and the functions that run the engine."""

from .. import _C
from .engine import backward, grad
from .function import Function, InplaceFunction, NestedIOFunction, once_differentiable
from .grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .gradcheck import gradcheck, gradgradcheck
from .ir import Arg, Expr
from .stochastic_function import StochasticFunction
from .variable import Variable

__all__ = [
    "Arg",
    "Expr",
    "Function",
    "InplaceFunction",
    "NestedIOFunction",
    "StochasticFunction",
    "Variable",
    "backward",
    "enable_grad",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "is_grad_enabled",
    "no_grad",
    "once_differentiable",
    "set_grad_enabled",
]


def __getattr__(name):
    # A hundred classes that new code does without.
    if name == "_functions":
        import importlib

        return importlib.import_module(f"{__name__}._functions")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Tells the extension the classes above, which it finds in this module.
if not _C._autograd_init():
    raise RuntimeError("autograd initialization failed")
