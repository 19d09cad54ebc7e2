"""Module: the base class of everything in `torchlite.nn`."""

import functools
from collections import OrderedDict
from collections.abc import Mapping

from torchlite import _C
from torchlite.autograd import Variable
from torchlite.nn.parameter import Parameter
from torchlite.utils.hooks import RemovableHandle
from torchlite.utils.typename import typename

__all__ = ["Module"]


def indent(text, spaces=2):
    """`text` with every line but the first moved to the right."""
    return text.replace("\n", "\n" + " " * spaces)


def _tensor_of(name, value):
    """The tensor in a state dict's `value`, which may also be a Variable or an array."""
    if isinstance(value, _C._TensorBase):
        return value
    if isinstance(value, _C._VariableBase):
        return value.data
    if hasattr(value, "__array_interface__"):
        return _C.from_numpy(value)
    raise TypeError(f"load_state_dict: the value of '{name}' has to be a tensor, but is a {typename(value)}")


class Module:
    """A piece of a network: parameters, buffers, child modules and a `forward` that uses them.

    A subclass calls `super().__init__()` first, assigns its Parameters and child modules to attributes, which
    registers them, and defines `forward`. Calling the module runs `forward` and the hooks.

    `training` says whether the module trains (dropout and the like are active); `train()` and `eval()` set it here and
    in all descendants.

    Registered objects live in the ordered dictionaries `_parameters`, `_buffers` and `_modules`, never in the
    instance's `__dict__`, so that each has one place that decides; `__getattr__` finds them in this order.
    """

    dump_patches = False

    def __init__(self):
        self._backend = None
        self._parameters = OrderedDict()
        self._buffers = OrderedDict()
        self._backward_hooks = OrderedDict()
        self._forward_hooks = OrderedDict()
        self._forward_pre_hooks = OrderedDict()
        self._modules = OrderedDict()
        self.training = True

    def forward(self, *input):
        """The computation; every subclass defines it. Takes and returns Variables."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define forward()")

    # ---- registration ----

    def _check_name(self, method, name, registry):
        """Refuses a `name` that `registry` can't take; the caller has made sure that `registry` exists."""
        if not isinstance(name, str):
            raise TypeError(f"{method}: the name has to be a string, but is a {typename(name)}")
        if name == "" or "." in name:
            raise KeyError(f"{method}: the name can't be empty or contain '.', but is '{name}'")
        if name not in registry and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_buffer(self, name, tensor):
        """Adds a tensor that is part of the state but isn't trained; it is an attribute and in `state_dict()`.

        None reserves the name. KeyError if the module has another attribute of this name.
        """
        if "_buffers" not in self.__dict__:
            raise AttributeError("cannot assign buffer before Module.__init__() call")
        self._check_name("register_buffer", name, self._buffers)
        self._buffers[name] = tensor

    def register_parameter(self, name, param):
        """Adds a Parameter, as assigning it to the attribute does. None reserves the name.

        KeyError if the module has another attribute of this name, TypeError if `param` is no Parameter, ValueError if
        it is not a leaf.
        """
        if "_parameters" not in self.__dict__:
            raise AttributeError("cannot assign parameters before Module.__init__() call")
        self._check_name("register_parameter", name, self._parameters)
        if param is not None:
            if not isinstance(param, Parameter):
                raise TypeError(
                    f"cannot assign '{typename(param)}' object to parameter '{name}' "
                    "(torch.nn.Parameter or None required)"
                )
            if param.grad_fn is not None:
                raise ValueError(
                    f"Cannot assign non-leaf Variable to parameter '{name}'. A parameter is created by the user; "
                    f"to make '{name}' a function of another Variable, compute it in forward()"
                )
        self._parameters[name] = param

    def add_module(self, name, module):
        """Adds a child module, as assigning it to the attribute does. None reserves the name.

        KeyError if the module has another attribute of this name, TypeError if `module` is no Module.
        """
        if not isinstance(module, Module) and module is not None:
            raise TypeError(f"{typename(module)} is not a Module subclass")
        if "_modules" not in self.__dict__:
            raise AttributeError("cannot assign module before Module.__init__() call")
        self._check_name("add_module", name, self._modules)
        self._modules[name] = module

    # ---- attributes ----

    def __getattr__(self, name):
        # Reached only where the ordinary lookup found nothing.
        own = self.__dict__
        if "_parameters" in own:
            found = own["_parameters"]
            if name in found:
                return found[name]
        if "_buffers" in own:
            found = own["_buffers"]
            if name in found:
                return found[name]
        if "_modules" in own:
            found = own["_modules"]
            if name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __setattr__(self, name, value):
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError("cannot assign parameters before Module.__init__() call")
            _forget(name, own, own["_buffers"], own["_modules"])
            self.register_parameter(name, value)
            return
        if isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError("cannot assign module before Module.__init__() call")
            if value is not own["_modules"].get(name):
                _forget(name, own, own["_parameters"], own["_buffers"])
            own["_modules"][name] = value
            return
        if name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as parameter '{name}' (torch.nn.Parameter or None expected)"
                )
            own["_parameters"][name] = None
        elif name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(
                    f"cannot assign '{typename(value)}' as child module '{name}' (torch.nn.Module or None expected)"
                )
            own["_modules"][name] = None
        elif name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, _C._TensorBase):
                raise TypeError(f"cannot assign '{typename(value)}' as buffer '{name}' (torch.Tensor or None expected)")
            own["_buffers"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        own = self.__dict__
        for registry in ("_parameters", "_buffers", "_modules"):
            if name in own.get(registry, ()):
                del own[registry][name]
                return
        object.__delattr__(self, name)

    def __dir__(self):
        names = set(super().__dir__())
        names.update(self._parameters, self._buffers, self._modules)
        return sorted(name for name in names if name.isidentifier())

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.__dict__.setdefault("_forward_pre_hooks", OrderedDict())

    # ---- calling ----

    def __call__(self, *input, **kwargs):
        if not (self._forward_pre_hooks or self._forward_hooks or self._backward_hooks):
            return self.forward(*input, **kwargs)
        return self._call_with_hooks(input, kwargs)

    def _call_with_hooks(self, input, kwargs):
        for hook in tuple(self._forward_pre_hooks.values()):
            hook(self, input)
        output = self.forward(*input, **kwargs)
        for hook in tuple(self._forward_hooks.values()):
            if hook(self, input, output) is not None:
                raise RuntimeError(f"forward hooks should never return any values, but '{hook}'didn't return None")
        if self._backward_hooks:
            variable = output
            while not isinstance(variable, Variable):
                variable = next(iter(variable.values())) if isinstance(variable, dict) else variable[0]
            if variable.grad_fn is not None:
                for hook in self._backward_hooks.values():
                    variable.grad_fn.register_hook(functools.partial(hook, self))
        return output

    def register_forward_pre_hook(self, hook):
        """Calls `hook(module, input)` with the tuple of arguments before each `forward`. Returns a RemovableHandle."""
        return self._register_hook(self._forward_pre_hooks, hook)

    def register_forward_hook(self, hook):
        """Calls `hook(module, input, output)`, which must return None, after `forward`. Returns a RemovableHandle."""
        return self._register_hook(self._forward_hooks, hook)

    def register_backward_hook(self, hook):
        """Calls `hook(module, grad_input, grad_output)` when the last operation of `forward` has run backward.

        Both gradients are tuples, of the operation that made the first Variable of the output. The hook may return
        a tuple that replaces `grad_input`. Returns a RemovableHandle, which affects later calls of the module.
        """
        return self._register_hook(self._backward_hooks, hook)

    @staticmethod
    def _register_hook(hooks, hook):
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        return handle

    # ---- traversal ----

    def parameters(self):
        """Iterates over the parameters of this module and its descendants, each once."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self, memo=None, prefix=""):
        """Like `parameters()`, as pairs of a dotted name and the parameter. What is in the set `memo` is left out."""
        if memo is None:
            memo = set()
        for name, parameter in self._parameters.items():
            if parameter is not None and parameter not in memo:
                memo.add(parameter)
                yield prefix + name, parameter
        for name, module in self.named_children():
            yield from module.named_parameters(memo, prefix + name + ".")

    def children(self):
        """Iterates over the direct child modules, each once."""
        for _, module in self.named_children():
            yield module

    def named_children(self):
        """Iterates over the direct child modules, each once, as pairs of its name and the module."""
        memo = set()
        for name, module in self._modules.items():
            if module is not None and module not in memo:
                memo.add(module)
                yield name, module

    def modules(self):
        """Iterates over this module and its descendants, each once."""
        for _, module in self.named_modules():
            yield module

    def named_modules(self, memo=None, prefix=""):
        """Like `modules()`, as pairs of a dotted name ('' for this module) and the module."""
        if memo is None:
            memo = set()
        if self not in memo:
            memo.add(self)
            yield prefix, self
            for name, module in self._modules.items():
                if module is not None:
                    yield from module.named_modules(memo, prefix + ("." if prefix else "") + name)

    def apply(self, fn):
        """Calls `fn(module)` for every descendant, then for this module, which is returned."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    # ---- state ----

    def state_dict(self, destination=None, prefix=""):
        """The parameters and buffers by dotted name: an OrderedDict of the tensors themselves, not of copies.

        With `destination` they are added to that dictionary, under names that start with `prefix`.
        """
        if destination is None:
            destination = OrderedDict()
        for name, parameter in self._parameters.items():
            if parameter is not None:
                destination[prefix + name] = parameter.data
        for name, buffer in self._buffers.items():
            if buffer is not None:
                destination[prefix + name] = buffer
        for name, module in self._modules.items():
            if module is not None:
                module.state_dict(destination, prefix + name + ".")
        return destination

    def load_state_dict(self, state_dict, strict=True):
        """Copies tensors (or Variables, or arrays) from `state_dict` into the parameters and buffers of the same name.

        TypeError if it is no dictionary, KeyError if a name is unknown or missing (not with `strict=False`),
        RuntimeError if sizes differ. Everything is checked before anything is copied.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: state_dict has to be a dictionary, but got {typename(state_dict)}")
        own = self.state_dict()
        unexpected = [name for name in state_dict if name not in own]
        if strict and unexpected:
            raise KeyError(f'unexpected key "{unexpected[0]}" in state_dict')
        missing = [name for name in own if name not in state_dict]
        if strict and missing:
            raise KeyError(f'missing keys in state_dict: "{missing}"')
        loaded = {name: _tensor_of(name, value) for name, value in state_dict.items() if name in own}
        for name, tensor in loaded.items():
            if tensor.size() != own[name].size():
                raise RuntimeError(
                    f"load_state_dict: '{name}' has size {tuple(tensor.size())} in state_dict, "
                    f"but {tuple(own[name].size())} in the module"
                )
        for name, tensor in loaded.items():
            own[name].copy_(tensor)

    def train(self, mode=True):
        """Sets `training` here and in all descendants. Returns self."""
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self):
        """`train(False)`."""
        return self.train(False)

    def zero_grad(self):
        """Sets the gradients of all parameters to zero; one that is None stays None."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if grad.volatile:
                grad.data.zero_()
            else:  # it may be part of a graph: leave its memory as it is
                parameter.grad = Variable(grad.data.clone().zero_())

    # ---- conversion ----

    def _apply(self, fn):
        """Replaces every tensor of the parameters, their gradients and the buffers by `fn(tensor)`. Returns self."""
        for module in self.children():
            module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                # A tensor is replaced inside its Parameter, which optimisers and ties refer to.
                parameter.data = fn(parameter.data)
                if parameter._grad is not None:
                    parameter._grad.data = fn(parameter._grad.data)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def cuda(self, device_id=None):
        """Moves parameters and buffers to a GPU (the current one by default). Returns self."""
        return self._apply(lambda tensor: tensor.cuda(device_id))

    def cpu(self):
        """Moves parameters and buffers to the CPU. Returns self."""
        return self._apply(lambda tensor: tensor.cpu())

    def type(self, dst_type):
        """Converts parameters and buffers to the tensor class `dst_type` (a class or its name). Returns self."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self):
        """Converts parameters and buffers to float32. Returns self."""
        return self._apply(lambda tensor: tensor.float())

    def double(self):
        """Converts parameters and buffers to float64. Returns self."""
        return self._apply(lambda tensor: tensor.double())

    def half(self):
        """Converts parameters and buffers to float16. Returns self."""
        return self._apply(lambda tensor: tensor.half())

    def share_memory(self):
        """Moves parameters and buffers to memory that other processes can share. Returns self."""
        return self._apply(lambda tensor: tensor.share_memory_())

    def __repr__(self):
        lines = [f"  ({name}): {indent(repr(module))}\n" for name, module in self._modules.items()]
        return f"{type(self).__name__} (\n{''.join(lines)})"


def _forget(name, *registries):
    for registry in registries:
        registry.pop(name, None)
