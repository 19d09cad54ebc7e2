"""Optimizer: the base class of the optimisers."""

import copy
import numbers
from collections import defaultdict
from itertools import chain

import numpy as np

from torchlite import _C
from torchlite.autograd import Variable
from torchlite.utils.typename import typename

__all__ = ["Optimizer", "check_range", "required"]


def check_range(optimizer, end=float("inf"), **options):
    """TypeError, ValueError unless every option is a number in [0, end), or `required`."""
    for name, value in options.items():
        if value is not required and not isinstance(value, (numbers.Real, np.generic)):
            raise TypeError(f"{optimizer}: {name} has to be a number, but is {value!r} ({typename(value)})")
        if value is not required and not 0 <= value < end:
            raise ValueError(f"{optimizer}: {name} has to be in [0, {end:g}), but is {value}")


class _Required:
    """The type of `required`; a singleton, pickles included."""

    def __repr__(self):
        return "<required parameter>"

    def __reduce__(self):
        return "required"


required = _Required()


class Optimizer:
    """Updates parameters from their gradients.

    Optimizer(params, defaults): `params` is an iterable of Variables, or of dictionaries, each a group: its Variables
    under 'params' and options that differ from `defaults`. `param_groups` is the list of groups, `state` what the
    algorithm remembers of each parameter (a dictionary keyed by the Variable).

    Parameters are leaves that require grad; those without a gradient are skipped by `step()`, which writes into the
    tensors of the others.
    """

    def __init__(self, params, defaults):
        if isinstance(params, (_C._VariableBase, _C._TensorBase)):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Variables or dicts, "
                f"but got {typename(params)}"
            )
        if isinstance(params, (set, frozenset)):
            raise TypeError("params argument given to the optimizer has to have an order, but is a set")
        try:
            groups = list(params)
        except TypeError:
            hint = "; pass its parameters()" if hasattr(params, "parameters") else ""
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Variables or dicts, "
                f"but got {typename(params)}{hint}"
            ) from None
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.state = defaultdict(dict)
        self.param_groups = []
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        """Adds a group, a dictionary as in the constructor; options that it leaves out have their defaults.

        TypeError, ValueError, and no change, if one of its Variables can't be optimised or is in another group already.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param group must be a dict, but got {typename(param_group)}")
        group = dict(param_group)
        if "params" not in group:
            raise KeyError(f"param group must have its Variables under 'params', but has {sorted(map(str, group))}")
        params = group["params"]
        if isinstance(params, (set, frozenset)):
            raise TypeError("params of a group have to have an order, but are a set")
        params = [params] if isinstance(params, (_C._VariableBase, _C._TensorBase)) else list(params)
        for p in params:
            if not isinstance(p, _C._VariableBase):
                raise TypeError(f"optimizer can only optimize Variables, but one of the params is {typename(p)}")
            if not p.requires_grad:
                raise ValueError("optimizing a parameter that doesn't require gradients")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Variable")
        for name, default in self.defaults.items():
            if default is required and name not in group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            group.setdefault(name, default)
        known = set(chain.from_iterable(g["params"] for g in self.param_groups))
        if len(set(params)) != len(params) or not known.isdisjoint(params):
            raise ValueError("some parameters appear in more than one parameter group")
        # The caller's own dictionary becomes the group, so that options changed there later take effect.
        param_group.update(group, params=params)
        self.param_groups.append(param_group)

    def zero_grad(self):
        """Sets the gradients of all parameters to zero; one that is None stays None."""
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if grad.volatile:
                    grad.data.zero_()
                else:  # it may be part of a graph: leave its memory as it is
                    p.grad = Variable(grad.data.clone().zero_())

    def step(self, closure=None):
        """Does one update. `closure`, if given, computes the gradients and returns the loss, which is returned."""
        raise NotImplementedError(f"{type(self).__name__} doesn't define step()")

    # ---- state ----

    def state_dict(self):
        """The state and the options, as a dictionary in which ids stand for the parameters: tensors, not copies."""
        groups = []
        for group in self.param_groups:
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [id(p) for p in group["params"]]
            groups.append(packed)
        state = {id(key) if isinstance(key, _C._VariableBase) else key: value for key, value in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Takes over a copy of the state and options of `state_dict`, whose parameters match these one by one.

        Options that it lacks stay as they are.

        KeyError, ValueError, and no change, if it is no optimizer's or groups differ in number or size.
        """
        for key in ("param_groups", "state"):
            if key not in state_dict:
                raise KeyError(f"load_state_dict: an optimizer's state dict has a key '{key}', but this one lacks it")
        state_dict = copy.deepcopy(state_dict)
        saved, own = state_dict["param_groups"], self.param_groups
        if len(saved) != len(own):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups: {len(saved)} instead of {len(own)}"
            )
        for i, (s, o) in enumerate(zip(saved, own, strict=True)):
            if len(s["params"]) != len(o["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"group {i} has {len(s['params'])} parameters instead of {len(o['params'])}"
                )
        parameters = dict(
            zip(
                chain.from_iterable(group["params"] for group in saved),
                chain.from_iterable(group["params"] for group in own),
                strict=True,
            )
        )
        state = defaultdict(dict, {parameters.get(key, key): value for key, value in state_dict["state"].items()})
        groups = [{**o, **s, "params": o["params"]} for s, o in zip(saved, own, strict=True)]
        self.__setstate__({"state": state, "param_groups": groups})

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])
