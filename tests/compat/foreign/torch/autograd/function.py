"""Function, its metaclass and the context, on `_C._FunctionBase`."""

import functools
from collections import OrderedDict

import torch
import torch._C as _C
import torch.utils.hooks as hooks
from torch._six import with_metaclass


class _Context:
    def save_for_backward(self, *tensors):
        self.to_save = tensors

    def mark_dirty(self, *tensors):
        self.dirty_tensors = tensors

    def mark_shared_storage(self, *pairs):
        self.shared_pairs = pairs

    def mark_non_differentiable(self, *tensors):
        self.non_differentiable = tensors


class _Hooks:
    @staticmethod
    def _register_hook(backward_hooks, hook):
        if backward_hooks is None:
            backward_hooks = OrderedDict()
        handle = hooks.RemovableHandle(backward_hooks)
        backward_hooks[handle.id] = hook
        return backward_hooks, handle


class BackwardCFunction(_C._FunctionBase, _Context, _Hooks):
    _is_legacy = False

    def apply(self, *grads):
        return self._forward_cls.backward(self, *grads)


class FunctionMeta(type):
    def __init__(cls, name, bases, attrs):
        for base in cls.mro():
            forward = base.__dict__.get("forward")
            if forward is not None:
                cls._is_legacy = not isinstance(forward, (staticmethod, classmethod))
                break
        if not cls._is_legacy:
            cls._backward_cls = type(name + "Backward", (BackwardCFunction,), {"_forward_cls": cls})
        super().__init__(name, bases, attrs)


class Function(with_metaclass(FunctionMeta, _C._FunctionBase, _Context, _Hooks)):
    __call__ = _C._FunctionBase._do_forward

    @staticmethod
    def forward(ctx, *args, **kwargs):
        raise NotImplementedError

    @staticmethod
    def backward(ctx, *grad_outputs):
        raise NotImplementedError


class InplaceFunction(Function):
    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


def once_differentiable(fn):
    from .variable import Variable

    @functools.wraps(fn)
    def on_tensors(ctx, *args):
        tensors = [arg.data if isinstance(arg, Variable) else arg for arg in args]
        volatile = any(arg.volatile for arg in args if isinstance(arg, Variable))
        outputs = fn(ctx, *tensors)
        several = isinstance(outputs, tuple)
        outputs = outputs if several else (outputs,)
        if volatile:
            result = tuple(None if o is None else Variable(o, volatile=True) for o in outputs)
        else:
            error = _C._functions.DelayedError(
                b"trying to differentiate twice a function that was markedwith @once_differentiable")
            # Requiring grad here keeps the error in the graph for whoever differentiates it.
            result = error(*[None if o is None else Variable(o, requires_grad=True) for o in outputs])
            result = result if isinstance(result, tuple) else (result,)
        return result if several else result[0]

    return on_tensors


def _leaves(value, kind):
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in _leaves(part, kind)]
    if value is None:
        return []
    if not kind(value):
        raise ValueError("NestedIOFunction doesn't know how to process an input object of type " + type(value).__name__)
    return [value]


def _nest(leaves, like):
    if like is None:
        return None
    if isinstance(like, (list, tuple)):
        return type(like)(_nest(leaves, part) for part in like)
    return leaves.pop(0)


class NestedIOFunction(Function):
    def _do_forward(self, *input):
        self._nested_input = input
        flat = _leaves(input, lambda x: isinstance(x, _C._VariableBase))
        output = super()._do_forward(*flat)
        return _nest(list(output if isinstance(output, tuple) else (output,)), self._nested_output)

    __call__ = _do_forward

    def _do_backward(self, gradients, retain_variables):
        self.retain_variables = retain_variables
        result = super()._do_backward(gradients, retain_variables)
        if not retain_variables:
            del self._nested_output
        return result

    def save_for_backward(self, *nested):
        self.to_save = tuple(_leaves(nested, torch.is_tensor))
        self._nested_saved = _structure(nested)

    @property
    def saved_tensors(self):
        flat = super().saved_tensors
        return _nest(list(flat), self._nested_saved)

    def forward(self, *tensors):
        result = self.forward_extended(*_nest(list(tensors), self._nested_input))
        self._nested_input = _structure(self._nested_input)
        self._nested_output = _structure(result)
        return tuple(_leaves(result, torch.is_tensor))

    def backward(self, *grads):
        nested = _nest(list(grads), self._nested_output)
        result = self.backward_extended(*(nested if isinstance(nested, tuple) else (nested,)))
        return tuple(_leaves(result, lambda x: True))


def _structure(value):
    if isinstance(value, (list, tuple)):
        return type(value)(_structure(part) for part in value)
    return None if value is None else 0
