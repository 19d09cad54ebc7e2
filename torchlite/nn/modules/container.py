"""Modules and parameters in order: Sequential, ModuleList, ParameterList."""

import warnings
from collections import OrderedDict
from collections.abc import Iterable

from torchlite.nn.modules.module import Module
from torchlite.nn.parameter import Parameter
from torchlite.utils.typename import typename

__all__ = ["Container", "ModuleList", "ParameterList", "Sequential"]


def _position(container, index):
    """`index` of `container` as a number from 0; IndexError if there is no such item."""
    index = index.__index__()
    if not -len(container) <= index < len(container):
        raise IndexError(f"index {index} is out of range")
    return index % len(container)


class Container(Module):
    """Deprecated: a Module whose children are the keyword arguments. Use Module or Sequential."""

    def __init__(self, **kwargs):
        super().__init__()
        warnings.warn("nn.Container is deprecated: use nn.Module or nn.Sequential", DeprecationWarning, stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


class Sequential(Module):
    """Runs its modules one after the other, each on the result of the one before.

    Takes the modules as arguments, named '0', '1' and so on, or one OrderedDict of names and modules. `seq[i]` is the
    i-th module (negative counts from the end), a slice is a Sequential of the same modules.
    """

    def __init__(self, *args):
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for i, module in enumerate(args):
                self.add_module(str(i), module)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return Sequential(OrderedDict(list(self._modules.items())[index]))
        return list(self._modules.values())[_position(self, index)]

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input


class ModuleList(Module):
    """A list of modules, all of which are registered. It has no `forward`.

    ModuleList(modules=None) takes an iterable of modules. Supports indexing, assignment, iteration, `len`, `+=`,
    `append` and `extend`.
    """

    def __init__(self, modules=None):
        super().__init__()
        if modules is not None:
            self += modules

    def __getitem__(self, index):
        if isinstance(index, slice):
            return ModuleList(list(self)[index])
        return self._modules[str(_position(self, index))]

    def __setitem__(self, index, module):
        setattr(self, str(_position(self, index)), module)

    def __len__(self):
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def __iadd__(self, modules):
        return self.extend(modules)

    def append(self, module):
        """Adds `module` at the end. Returns self."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules):
        """Adds every module of an iterable at the end. Returns self. TypeError, and no change, if one is no Module."""
        modules = _items("ModuleList", modules, Module)
        for module in modules:
            self.append(module)
        return self


class ParameterList(Module):
    """A list of Parameters, all of which are registered. It has no `forward`.

    ParameterList(parameters=None) takes an iterable of Parameters. Supports indexing, assignment, iteration, `len`,
    `+=`, `append` and `extend`.
    """

    def __init__(self, parameters=None):
        super().__init__()
        if parameters is not None:
            self += parameters

    def __getitem__(self, index):
        if isinstance(index, slice):
            return ParameterList(list(self)[index])
        return self._parameters[str(_position(self, index))]

    def __setitem__(self, index, parameter):
        self.register_parameter(str(_position(self, index)), parameter)

    def __len__(self):
        return len(self._parameters)

    def __iter__(self):
        return iter(self._parameters.values())

    def __iadd__(self, parameters):
        return self.extend(parameters)

    def append(self, parameter):
        """Adds `parameter` at the end. Returns self."""
        self.register_parameter(str(len(self)), parameter)
        return self

    def extend(self, parameters):
        """Adds every Parameter of an iterable at the end. Returns self. TypeError, and no change, if one is none."""
        parameters = _items("ParameterList", parameters, Parameter)
        for parameter in parameters:
            self.append(parameter)
        return self

    def __repr__(self):
        lines = [f"  ({name}): {_describe(parameter)}\n" for name, parameter in self._parameters.items()]
        return f"{type(self).__name__} (\n{''.join(lines)})"


def _items(owner, items, kind):
    """`items` as a list of `kind`s, checked before any of them is used."""
    if not isinstance(items, Iterable):
        raise TypeError(f"{owner}.extend should be called with an iterable, but got {typename(items)}")
    items = list(items)
    for i, item in enumerate(items):
        if not isinstance(item, kind) and item is not None:
            raise TypeError(f"{owner}.extend: item {i} has to be a {kind.__name__}, but is a {typename(item)}")
    return items


def _describe(parameter):
    if parameter is None:
        return "None"
    return f"Parameter of size {'x'.join(map(str, parameter.size()))}"
