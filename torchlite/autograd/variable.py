"""Variable: a tensor with its gradient and its place in the graph.

Properties, operators and methods come from ``_C._VariableBase``; this class adds what is rare enough for Python.
"""

from __future__ import annotations

import copy
import math
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

from .. import _C, tensor
from .._arrays import require_tensor
from .._copying import filled_slots
from ..utils.hooks import RemovableHandle

_cast = _C._find_op("cast")
# The classes of tensors by the number that `cast` has for their element type.
_CLASSES = [
    _C.ByteTensor,
    _C.CharTensor,
    _C.ShortTensor,
    _C.IntTensor,
    _C.LongTensor,
    _C.HalfTensor,
    _C.FloatTensor,
    _C.DoubleTensor,
]


def _in_type(variable: Variable, number: int) -> Variable:
    """A copy in the element type with this number, in the same place; of the same type the Variable itself."""
    classes = _C._cuda_tensor_classes if variable.data.is_cuda else _CLASSES
    return variable if type(variable.data) is classes[number] else _cast(variable, number)


def _attributes(variable: Variable) -> dict[str, Any]:
    """Everything that a user has set on ``variable``: its ``__dict__`` and the filled ``__slots__`` of its class."""
    return {**filled_slots(variable), **getattr(variable, "__dict__", {})}


def _rebuild(cls: type, data: Any) -> Any:
    """A leaf of class ``cls``, made without calling the constructor of a subclass."""
    return _C._VariableBase.__new__(cls, data)


def _data_of(operand: Any) -> Any:
    """The tensor of a Variable; everything else as it is."""
    return operand.data if isinstance(operand, _C._VariableBase) else operand


def _only_async(method: str, keywords: dict[str, Any]) -> None:
    """Refuses keywords other than ``async``, a name that Python reserves now, so that it can't be a parameter's."""
    for name in keywords:
        if name != "async":
            raise TypeError(f"{method}() got an unexpected keyword argument {name!r}")


class _RetainGrad:
    """The hook of ``retain_grad``: adds up the gradients of an interior Variable, which it does not keep alive."""

    def __init__(self, variable: Variable):
        self.variable = weakref.ref(variable)

    def __call__(self, gradient: Variable) -> None:
        v = self.variable()
        if v is None:
            return
        if v.grad is None:
            v.grad = gradient.clone()
        elif v.grad.volatile:
            v.grad.data.add_(gradient.data)
        else:
            v.grad = v.grad + (Variable(gradient.data) if gradient.volatile else gradient)


class _StaticMethods:
    """Functions of the same names as the methods of Variable, which they call: ``Variable._torch.exp(variable)``."""

    def __dir__(self):
        methods = [name for name in dir(Variable) if not name.startswith("_") and not name.endswith("_")]
        return ["cat", "normal", *(name for name in methods if callable(getattr(Variable, name)))]

    @staticmethod
    def cat(iterable: Iterable, dim: int = 0) -> Variable:
        """The Variables of ``iterable`` one after the other along ``dim``."""
        return _C._find_op("cat")(tuple(iterable), dim)

    @staticmethod
    def normal(means: Variable, std: Any = 1) -> Variable:
        """Normal random numbers around ``means``; ``std``: a number, or a Variable of the same size."""
        from ._functions.stochastic import Normal

        return Normal()(means, std) if isinstance(std, _C._VariableBase) else Normal(std)(means)

    def __getattr__(self, name: str) -> Callable:
        if name in ("addmm", "addbmm", "baddbmm", "addmv", "addr"):
            return _C._find_op(name)  # the coefficients stand elsewhere than in the method
        method = None if name.startswith("_") or name.endswith("_") else getattr(Variable, name, None)
        if not callable(method):
            raise AttributeError(f"Variable has no method {name!r}")
        return method


class Variable(_C._VariableBase):
    """Variable(data, requires_grad=False, volatile=False)

    A tensor that takes part in automatic differentiation. ``data`` is a tensor or an array, whose memory is shared.

    ``requires_grad`` asks for a gradient: ``backward`` of a result then adds it to ``grad``. ``volatile`` marks an
    input of pure inference: whatever is computed from it is volatile and has no graph. Both at once are a RuntimeError.
    """

    __slots__ = ()

    _execution_engine = _C._ImperativeEngine()
    _torch = _StaticMethods()

    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool | None = None,
        retain_variables: bool | None = None,
    ) -> None:
        """Adds the gradient of this Variable to ``grad`` of every leaf that it depends on.

        ``gradient``: a tensor, array or Variable of this Variable's size; may be left out if it has one element.
        ``retain_graph`` keeps what the graph has saved, so that backward can run through it again (default:
        ``create_graph``). ``create_graph`` makes the gradients differentiable (default: whether ``gradient`` is a
        Variable that isn't volatile). ``retain_variables`` is the former name of ``retain_graph``.

        RuntimeError if this Variable doesn't require grad, if a gradient is needed or has a different size, or if the
        graph has been freed.
        """
        if retain_variables is None and create_graph is None:
            given = isinstance(gradient, _C._VariableBase)
            if (not given or gradient.volatile) and not _C._is_tracing():
                gradient = gradient if given else engine.seed(self, gradient, True)
                Variable._execution_engine.run_backward((self,), (gradient,), bool(retain_graph))
                return
        engine.backward(self, gradient, retain_graph, create_graph, retain_variables)

    def register_hook(self, hook: Callable) -> Any:
        """Calls ``hook(gradient)`` whenever a gradient of this Variable has been computed.

        Hooks run in the order of registration. One that returns a Variable replaces the gradient; it must not write
        into its argument. Returns a handle with a method ``remove()``.

        RuntimeError if the Variable doesn't require grad, TypeError if the hook can't be called.
        """
        if self.volatile:
            raise RuntimeError("cannot register a hook on a volatile variable")
        if not self.requires_grad:
            raise RuntimeError("cannot register a hook on a variable that doesn't require gradient")
        if not callable(hook):
            raise TypeError(f"register_hook: the hook must be callable, but got {type(hook).__name__}")
        hooks: Any = self._backward_hooks  # type: ignore[has-type]  # a getset of the base class
        if hooks is None:
            hooks = self._backward_hooks = OrderedDict()  # type: ignore[misc, var-annotated]
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    def retain_grad(self) -> None:
        """Makes backward store the gradient of this interior Variable in ``grad`` too, as it does for leaves.

        Does nothing on leaves and when repeated. RuntimeError if the Variable doesn't require grad.
        """
        if self.is_leaf:
            return
        if not self.requires_grad:
            raise RuntimeError("can't retain_grad on Variable that has requires_grad=False")
        hooks = self._backward_hooks
        if hooks is None or not any(isinstance(hook, _RetainGrad) for hook in hooks.values()):
            self.register_hook(_RetainGrad(self))

    def multinomial(self, num_samples: int = 1, replacement: bool = False) -> Variable:
        """Draws ``num_samples`` indices of each row, which holds their weights; see :meth:`reinforce`."""
        from ._functions.stochastic import Multinomial

        return Multinomial(num_samples, replacement)(self)

    def bernoulli(self) -> Variable:
        """Draws ones with the probabilities that this Variable holds, else zeros; see :meth:`reinforce`."""
        from ._functions.stochastic import Bernoulli

        return Bernoulli()(self)

    def reinforce(self, reward: Any) -> None:
        """Gives the stochastic Function that made this Variable its reward: a tensor of this size, or a number.

        ``backward`` then follows the gradient of ``-reward * log p(sample)`` into the parameters of the distribution.
        """
        from .stochastic_function import StochasticFunction

        if not isinstance(self.grad_fn, StochasticFunction):
            raise RuntimeError("reinforce() can be only called on outputs of stochastic functions")
        self.grad_fn._reinforce(reward)

    # ---- types and devices ----

    def is_same_size(self, other: Any) -> bool:
        """Whether the Variable or tensor ``other`` has the same size."""
        return self.data.is_same_size(_data_of(other))

    def is_set_to(self, other: Any) -> bool:
        """Whether the Variable or tensor ``other`` has the same memory, offset, size and strides."""
        return self.data.is_set_to(_data_of(other))

    def type(self, t: Any, async_: Any = False, **kwargs: Any) -> Variable:
        """A copy in the type ``t``, a tensor class, its dotted name or a dtype; of the same type the Variable itself.

        The gradient is cast back. A copy in an integer type doesn't require grad. ``async_``, which may also be given
        under the era's name ``async``, only matters between devices.
        """
        _only_async("type", kwargs)
        cls = type(self.data.new().type(t))
        if cls is type(self.data):
            return self
        if cls in _C._cuda_tensor_classes:
            here = self if self.data.is_cuda else self.cuda()
            number = _C._cuda_tensor_classes.index(cls)
        else:
            here, number = self.cpu(), _CLASSES.index(cls)
        return _in_type(here, number)

    def type_as(self, other: Any) -> Variable:
        """A copy in the type of ``other``, a Variable or a tensor; see :meth:`type`. TypeError if it is neither."""
        data = _data_of(other)
        require_tensor("type_as", "other", data, "a Variable or a tensor")
        return self.type(type(data))

    def double(self) -> Variable:
        """A copy in the type Double, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.DoubleTensor))

    def half(self) -> Variable:
        """A copy in the type Half, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.HalfTensor))

    def float(self) -> Variable:
        """A copy in the type Float, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.FloatTensor))

    def long(self) -> Variable:
        """A copy in the type Long, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.LongTensor))

    def int(self) -> Variable:
        """A copy in the type Int, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.IntTensor))

    def short(self) -> Variable:
        """A copy in the type Short, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.ShortTensor))

    def char(self) -> Variable:
        """A copy in the type Char, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.CharTensor))

    def byte(self) -> Variable:
        """A copy in the type Byte, where the Variable lies; see :meth:`type`."""
        return _in_type(self, _CLASSES.index(_C.ByteTensor))

    def cpu(self) -> Variable:
        """A copy in host memory, to which the gradient flows; the Variable itself if it is there."""
        return _C._ops.to_device(self, -1) if self.data.is_cuda else self

    def cuda(self, device_id: Any = None, async_: Any = False, **kwargs: Any) -> Variable:
        """A copy on a CUDA device (the current one by default), to which the gradient flows; itself if it is there.

        Raises:
            RuntimeError: CuPy, the driver or the device is missing; the message says which.
        """
        _only_async("cuda", kwargs)
        from torchlite.cuda._transfer import device_index

        index = device_index(device_id)
        return self if self.data.is_cuda and self.get_device() == index else _C._ops.to_device(self, index)

    @property
    def __cuda_array_interface__(self) -> dict:
        """The memory as CUDA libraries describe it; AttributeError for a Variable in host memory.

        Raises:
            RuntimeError: the Variable requires grad.
        """
        if self.requires_grad and self.is_cuda:
            raise RuntimeError(
                "can't convert a Variable that requires grad to an array: use its .data (no gradient will flow)")
        return self.data.__cuda_array_interface__

    @property
    def trace_local(self) -> Any:
        """The ``Local`` that stands for this Variable in the innermost trace of this thread, or None."""
        return _C._trace_local(self)

    def resize(self, *sizes: Any) -> Variable:
        """The elements in another shape, as ``view`` gives it. RuntimeError if that has another number of elements."""
        try:
            size = _C.Size(sizes[0] if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes)
        except TypeError as e:
            raise TypeError(f"resize: argument 'sizes': {e}") from None
        numel = math.prod(size)
        if numel != self.numel():
            raise RuntimeError(
                f"requested resize to {'x'.join(map(str, size))} ({numel} elements in total), but the Variable has "
                f"size {'x'.join(map(str, self.size()))} ({self.numel()} elements): resize() of a Variable only "
                "changes the shape"
            )
        return self.contiguous().view(size)

    def resize_as(self, other: Any) -> Variable:
        """``resize(other.size())``; TypeError if other is neither a Variable nor a tensor."""
        require_tensor("resize_as", "other", _data_of(other), "a Variable or a tensor")
        return self.resize(other.size())

    # The names that programs which also ran under Python 2 give to division.
    __div__ = _C._VariableBase.__truediv__
    __rdiv__ = _C._VariableBase.__rtruediv__

    masked_copy = tensor.masked_copy
    masked_copy_ = tensor.masked_copy_

    # ---- protocols ----

    def __iter__(self):
        return map(self.__getitem__, range(len(self)))

    def __format__(self, spec):
        return format(self.item(), spec) if spec and self.numel() == 1 else object.__format__(self, spec)

    def __repr__(self):
        return "Variable containing:\n" + repr(self.data).lstrip("\n")

    def __deepcopy__(self, memo):
        if not self.is_leaf:
            raise RuntimeError(
                "Only Variables created explicitly by the user (graph leaves) "
                "support the deepcopy protocol at the moment"
            )
        if id(self) in memo:
            return memo[id(self)]
        result = _C._VariableBase.__new__(
            type(self), self.data.clone(), requires_grad=self.requires_grad, volatile=self.volatile
        )
        memo[id(self)] = result  # before the attributes, which may refer to this Variable
        for name, value in _attributes(self).items():
            setattr(result, name, copy.deepcopy(value, memo))
        return result

    def __reduce_ex__(self, protocol):
        state: tuple = (self.requires_grad, self.volatile, self._backward_hooks)
        attributes = _attributes(self)
        if attributes:
            state += (attributes,)
        return _rebuild, (type(self), self.data), state

    def __setstate__(self, state):
        if not self.is_leaf:
            raise RuntimeError("__setstate__ can be only called on leaf variables")
        requires_grad, volatile, hooks, *attributes = state
        self.requires_grad = requires_grad
        self.volatile = volatile
        self._backward_hooks = hooks
        for name, value in attributes[0].items() if attributes else ():
            setattr(self, name, value)


from . import engine  # noqa: E402  (it needs Variable)
