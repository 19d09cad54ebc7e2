"""Functions that are operations of the table.

A class here says how the arguments of its ``apply`` become those of a row; forward, gradient and the in-place form are
the row's. So ``apply`` records the row's own node, which has no Python in it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import _C
from ..engine import grad
from ..function import Function, InplaceFunction
from ..grad_mode import enable_grad, no_grad
from ..variable import Variable

_SAVED = object()  # stands for a saved Variable among the arguments that a context keeps


def _as_variable(value: Any) -> Any:
    return _C._constant(value) if isinstance(value, _C._TensorBase) else value


def _as_tensor(value: Any) -> Any:
    return value.data if isinstance(value, _C._VariableBase) else value


def _map(f: Callable, result: Any) -> Any:
    return tuple(map(f, result)) if isinstance(result, tuple) else f(result)


def _doc(name: str, arguments: Any, inplace: bool, text: str) -> str:
    """The docstring of a class from the parameters of its ``arguments`` and the row's text."""
    code = arguments.__code__
    names = list(code.co_varnames[: code.co_argcount])
    defaults = arguments.__defaults__ or ()
    for i, default in enumerate(defaults, len(names) - len(defaults)):
        names[i] += f"={default!r}"
    if code.co_flags & 0x04:  # *args
        names.append("*" + code.co_varnames[code.co_argcount])
    if inplace:
        names.append("inplace=False")
    return f"{name}.apply({', '.join(names)})\n\n{text}"


class OpFunction(Function):
    """Base of the Functions that are operations: ``class Log(OpFunction, op="log")``.

    ``arguments`` maps the arguments of ``apply`` to those of the operation; a class without an operation overrides
    ``call`` instead. Tensors among the arguments count as constants. A subclass with a ``forward`` or ``backward`` of
    its own is a Function like any other and may call the ones that it inherits.
    """

    _op: Any = None
    _overrides = False  # whether it has a forward or backward that `apply` must go through

    def __init_subclass__(cls, op: str | None = None, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        own = cls.__dict__
        if op is not None:
            cls._op = _C._find_op(op)
            if "__doc__" not in own or own["__doc__"] is None:
                text = cls._op.__doc__.partition("\n\n")[2]
                cls.__doc__ = _doc(cls.__name__, cls.arguments, issubclass(cls, InplaceFunction), text)
        if "forward" in own or "backward" in own:
            cls._overrides = True
            cls.apply = _C._FunctionBase.__dict__["apply"]  # type: ignore[method-assign]
        elif cls._op is not None and not cls._overrides:
            # The row's node, in place of the context class that a Function usually has.
            node = getattr(_C._functions, f"{cls.__name__}Backward", None)
            cls._backward_cls = node or getattr(_C._functions, f"{cls._op.display_name}Backward")

    @staticmethod
    def arguments(*args: Any) -> tuple:
        """The arguments of the operation from those of ``apply``."""
        return args

    @classmethod
    def call(cls, *args: Any, **kwargs: Any) -> Any:
        """The results of ``apply`` for Variables and constants."""
        return cls._op(*cls.arguments(*args, **kwargs))

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """The results as Variables. Tensors among the arguments count as constants.

        TypeError if there is neither a Variable nor a tensor.
        """
        args = tuple(map(_as_variable, args))
        kwargs = {name: _as_variable(value) for name, value in kwargs.items()}
        given = (*args, *kwargs.values())
        if given and not any(isinstance(a, _C._VariableBase) for a in given):
            raise TypeError(f"{cls.__name__}.apply: none of the arguments is a Variable or a tensor")
        return cls.call(*args, **kwargs)

    @classmethod
    def forward(cls, ctx: Any, *args: Any) -> Any:
        """The results for tensors. ``ctx`` keeps what :meth:`backward` needs, and what was written in place."""
        ctx._arguments = tuple(_SAVED if isinstance(a, _C._TensorBase) else a for a in args)
        ctx.save_for_backward(*(a for a in args if isinstance(a, _C._TensorBase)))
        with no_grad():
            result = _map(_as_tensor, cls.call(*map(_as_variable, args)))
        ctx._written = issubclass(cls, InplaceFunction) and any(result is a for a in args)
        if ctx._written:
            ctx.mark_dirty(result)
        if cls._op is not None and isinstance(result, tuple):
            ctx.mark_non_differentiable(*(result[k] for k in cls._op.non_differentiable))
        return result

    @classmethod
    def backward(cls, ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments, from the operation on what ``forward`` has saved.

        RuntimeError if ``forward`` wrote its argument in place: the value that the gradient needs is gone.
        """
        if ctx._written:
            raise RuntimeError(
                f"{cls.__name__}: the inherited backward cannot differentiate an in-place call; "
                "the subclass needs a backward of its own"
            )
        saved = iter(ctx.saved_variables)
        args = [next(saved) if a is _SAVED else a for a in ctx._arguments]
        record = any(g is not None and not g.volatile for g in grad_outputs)
        with enable_grad():
            for i, (a, needed) in enumerate(zip(args, ctx.needs_input_grad, strict=True)):
                if needed:
                    # An interior Variable of its own: the gradient stops there, and the second one goes on.
                    args[i] = a.view_as(a) if record else Variable(a.data, requires_grad=True)
            results = cls.call(*args)
            results = results if isinstance(results, tuple) else (results,)
            roots = [(r, g) for r, g in zip(results, grad_outputs, strict=True) if r.requires_grad and g is not None]
            wanted = [a for a, needed in zip(args, ctx.needs_input_grad, strict=True) if needed]
            outputs, gradients = zip(*roots, strict=True)
            found = iter(grad(outputs, wanted, gradients, create_graph=record))
        return tuple(next(found) if needed else None for needed in ctx.needs_input_grad)


class InplaceOpFunction(OpFunction, InplaceFunction):
    """The same with a last argument ``inplace``: the result is then written into the tensor argument ``self``."""

    @classmethod
    def call(cls, *args: Any, **kwargs: Any) -> Any:
        inplace = kwargs.pop("inplace", False)
        if len(args) > cls.arguments.__code__.co_argcount:
            *args, inplace = args  # type: ignore[assignment]
        values = cls.arguments(*args, **kwargs)
        return cls.call_in_place(*values) if inplace else cls._op(*values)

    @classmethod
    def call_in_place(cls, *values: Any) -> Any:
        """Writes the result into the operation's ``self``, which is returned."""
        target = cls._op.params.index("self")
        method = getattr(_C._VariableBase, cls._op.name + "_")
        return method(values[target], *values[:target], *values[target + 1 :])


# ---- how many families are called ----------------------------------------------------------------------------


class Unary(OpFunction):
    @staticmethod
    def arguments(i):
        return (i,)


class InplaceUnary(InplaceOpFunction):
    @staticmethod
    def arguments(i):
        return (i,)


class Binary(OpFunction):
    @staticmethod
    def arguments(a, b):
        return a, b


class InplaceBinary(InplaceOpFunction):
    @staticmethod
    def arguments(a, b):
        return a, b
