"""Functions defined in Python: the classes that users derive from.

A Function whose ``forward`` is a static method is *new style*: each ``apply`` makes a fresh context, an instance of the
class's own ``<Name>Backward``, which is also the node of the graph. One whose ``forward`` is an instance method is
*old style*: the instance is the node, and is called once. The metaclass tells them apart when the class is made.

Running, saving and checking is done by ``_C._FunctionBase``; the classes here only give it its Python face.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import _C
from ..utils.hooks import RemovableHandle

DOUBLE_BACKWARD_ERROR = "trying to differentiate twice a function that was markedwith @once_differentiable"


class _ContextMethodMixin:
    """What ``forward`` may tell the graph. Each call replaces what an earlier call of the same method said."""

    __slots__ = ()

    def save_for_backward(self, *tensors):
        """Keeps inputs or outputs of ``forward`` (or None) for ``backward``: it finds them in ``saved_variables``."""
        self.to_save = tensors

    def mark_dirty(self, *tensors):
        """Declares the inputs that ``forward`` has changed in place."""
        self.dirty_tensors = tensors

    def mark_shared_storage(self, *pairs):
        """Declares pairs ``(input, output)`` that lie on the same memory."""
        self.shared_pairs = pairs

    def mark_non_differentiable(self, *tensors):
        """Declares outputs that no gradient flows through; they do not require grad."""
        self.non_differentiable = tensors


class _HookMixin:
    __slots__ = ()

    @staticmethod
    def _register_hook(backward_hooks, hook):
        if backward_hooks is None:
            backward_hooks = OrderedDict()
        handle = RemovableHandle(backward_hooks)
        backward_hooks[handle.id] = hook
        return backward_hooks, handle


class BackwardCFunction(_C._FunctionBase, _ContextMethodMixin, _HookMixin):
    """Base of the contexts of new-style Functions; ``_forward_cls`` is the Function that a context belongs to."""

    _is_legacy = False
    _forward_cls: type

    def apply(self, *grad_outputs):
        return self._forward_cls.backward(self, *grad_outputs)


class FunctionMeta(type):
    """Sets ``_is_legacy`` and ``_backward_cls``, the class of a new-style Function's contexts (else None).

    A new-style class that has set its own ``_backward_cls`` keeps it.
    """

    def __init__(cls, name, bases, namespace, **kwargs):
        super().__init__(name, bases, namespace, **kwargs)
        forward = next((base.__dict__["forward"] for base in cls.__mro__ if "forward" in base.__dict__), None)
        cls._is_legacy = not isinstance(forward, (staticmethod, classmethod))
        if cls._is_legacy:
            cls._backward_cls = None
        elif "_backward_cls" not in cls.__dict__:
            cls._backward_cls = type(
                name + "Backward",
                (BackwardCFunction,),
                {
                    "_forward_cls": cls,
                    "__module__": cls.__module__,
                    "__qualname__": cls.__qualname__ + "Backward",
                    "__doc__": f"Context and graph node of {name}.",
                },
            )


class Function(_C._FunctionBase, _ContextMethodMixin, _HookMixin, metaclass=FunctionMeta):
    """A differentiable operation.

    Derive from it and give two static methods::

        class Exp(Function):
            @staticmethod
            def forward(ctx, x):            # tensors in, tensors out
                y = x.exp()
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, grad_y):      # Variables in, Variables out: one per argument of forward
                y, = ctx.saved_variables
                return grad_y * y

        y = Exp.apply(x)

    ``forward`` gets the tensors of the Variables among its arguments; all other arguments pass unchanged, and
    ``backward`` returns None for them. As ``backward`` computes on Variables it can itself be differentiated, unless it
    is decorated with :func:`once_differentiable`.
    """

    __call__ = _C._FunctionBase._do_forward

    @staticmethod
    def forward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        """Computes the outputs, a tensor or a tuple of tensors. To be overridden."""
        raise NotImplementedError("a Function must implement forward")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Computes the gradient of every argument from one gradient per output. To be overridden."""
        function = getattr(type(ctx), "_forward_cls", type(ctx))
        raise NotImplementedError(f"{function.__name__}: a Function must implement backward to be differentiated")


class InplaceFunction(Function):
    """An old-style Function with a switch ``inplace``."""

    def __init__(self, inplace: bool = False):
        super().__init__()
        self.inplace = inplace


def once_differentiable(backward: Callable) -> Callable:
    """Decorates a ``backward`` that computes on tensors and so cannot be differentiated.

    It gets tensors in place of Variables and returns tensors (or None). Using its results in a graph works; running
    backward through them raises RuntimeError. Write ``@staticmethod`` above it.
    """

    @functools.wraps(backward)
    def wrapper(ctx, *grad_outputs):
        from .variable import Variable

        volatile = False
        args = []
        for arg in grad_outputs:
            if isinstance(arg, Variable):
                volatile = volatile or arg.volatile
                arg = arg.data
            args.append(arg)
        results = backward(ctx, *args)
        single = not isinstance(results, tuple)
        if single:
            results = (results,)
        if volatile or not _C._is_grad_enabled():
            wrapped = tuple(None if r is None else Variable(r, volatile=volatile) for r in results)
        else:
            # The result may depend on anything that the context has saved, so it always counts as differentiable.
            wrapped = _C._functions.DelayedError(DOUBLE_BACKWARD_ERROR)(
                *[None if r is None else Variable(r, requires_grad=True) for r in results]
            )
            if not isinstance(wrapped, tuple):
                wrapped = (wrapped,)
        return wrapped[0] if single else wrapped

    return wrapper


# ---- nested inputs and outputs -------------------------------------------------------------------------------------


def _flatten(obj: Any, leaf_type: type, keep_none: bool = False) -> Iterator[Any]:
    """The leaves of nested lists and tuples, in order; None is skipped unless ``keep_none``."""
    if isinstance(obj, leaf_type) or (obj is None and keep_none):
        yield obj
    elif isinstance(obj, (list, tuple)):
        for element in obj:
            yield from _flatten(element, leaf_type, keep_none)
    elif obj is not None:
        raise ValueError(
            "NestedIOFunction doesn't know how to process an input object of type "
            f"{type(obj).__module__}.{type(obj).__qualname__}"
        )


def _flatten_like(obj: Any, structure: Any) -> Iterator[Any]:
    """The leaves of ``obj`` that stand where ``structure`` has leaves; None in place of a part is None for each of its
    leaves. ValueError if ``obj`` is nested differently.
    """
    if structure is None:
        return
    if not isinstance(structure, (list, tuple)):
        yield obj
    elif obj is None:
        for element in structure:
            yield from _flatten_like(None, element)
    elif isinstance(obj, (list, tuple)):
        for part, element in zip(obj, structure, strict=True):
            yield from _flatten_like(part, element)
    else:
        raise ValueError("nested differently")


def _iter_variables(obj: Any) -> Iterator[Any]:
    """The Variables in nested lists and tuples, in order; None is skipped."""
    return _flatten(obj, _C._VariableBase)


def _unflatten(leaves: Iterable[Any], structure: Any) -> Any:
    """Nests ``leaves`` as the leaves of ``structure`` are; a None there stays None."""
    leaves = iter(leaves)
    if structure is None:
        return None
    if isinstance(structure, (list, tuple)):
        return type(structure)([_unflatten(leaves, element) for element in structure])
    return next(leaves)


class NestedIOFunction(Function):
    """An old-style Function on nested lists and tuples of Variables and None.

    Override ``forward_extended(*nested_tensors)``, which returns nested tensors, and
    ``backward_extended(*nested_gradients)``, which returns gradients nested as the inputs were, or flat.
    ``save_for_backward`` takes nested tensors and ``saved_tensors`` gives them back in the same nesting.
    """

    def _do_forward(self, *inputs):
        from .variable import Variable

        flat = tuple(_flatten(inputs, Variable))
        # Here and below only the nesting is kept, with numbers for leaves.
        self._nested_input = _unflatten(iter(range(len(flat))), inputs)
        outputs = super()._do_forward(*flat)
        if not isinstance(outputs, tuple):
            outputs = (outputs,)
        return _unflatten(iter(outputs), self._nested_output)

    __call__ = _do_forward

    def _do_backward(self, gradients, retain_variables):
        self.retain_variables = retain_variables
        return super()._do_backward(gradients, retain_variables)

    def forward(self, *tensors: Any) -> Any:  # type: ignore[override]  # old style: on instances
        nested = _unflatten(iter(tensors), self._nested_input)
        result = self.forward_extended(*nested)
        flat = tuple(_flatten(result, _C._TensorBase))
        self._nested_output = _unflatten(iter(range(len(flat))), result)
        return flat

    def backward(self, *gradients: Any) -> Any:  # type: ignore[override]
        nested = _unflatten(iter(gradients), self._nested_output)
        if not isinstance(nested, (list, tuple)):
            nested = (nested,)
        result = self.backward_extended(*nested)
        if not isinstance(result, tuple):
            result = (result,)
        try:
            return tuple(_flatten_like(result, self._nested_input))
        except ValueError:
            # One gradient per input in some other nesting.
            return tuple(_flatten(result, _C._TensorBase, keep_none=True))

    def save_for_backward(self, *nested_tensors):
        flat = tuple(_flatten(nested_tensors, _C._TensorBase))
        self.to_save = flat
        self._to_save_nested = _unflatten(iter(range(len(flat))), nested_tensors)

    @property
    def saved_tensors(self):
        flat = super().saved_tensors
        return _unflatten(iter(flat), self._to_save_nested) if "_to_save_nested" in self.__dict__ else flat

    def mark_dirty(self, *nested_tensors):
        self.dirty_tensors = tuple(_flatten(nested_tensors, _C._TensorBase))

    def mark_non_differentiable(self, *nested_tensors):
        self.non_differentiable = tuple(_flatten(nested_tensors, _C._TensorBase))

    def forward_extended(self, *nested_tensors: Any) -> Any:
        """Computes nested outputs from nested inputs. To be overridden."""
        raise NotImplementedError("a NestedIOFunction must implement forward_extended")

    def backward_extended(self, *nested_gradients: Any) -> Any:
        """Computes the nested gradients of the inputs. To be overridden."""
        raise NotImplementedError("a NestedIOFunction must implement backward_extended to be differentiated")
