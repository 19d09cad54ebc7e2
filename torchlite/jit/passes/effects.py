"""What passes must know of an operation beyond its arguments."""

from __future__ import annotations

from typing import Any

from torchlite import _C


def is_pure(let: Any) -> bool:
    """Whether the let's results are all that it does, and equal arguments give equal results."""
    if type(let.rhs) is not _C.CppApply:
        return False
    if let.name == "Dropout":  # draws: two calls give two results, and dropping one changes all later ones
        return let.args[2].value is False
    if let.name == "Embedding":  # with max_norm it writes its weight
        return all(a.value is None for a, p in zip(let.args, let.op.params, strict=True) if p == "max_norm")
    if let.name == "BatchNorm":  # in training it writes the running statistics
        arguments = dict(zip(let.op.params, let.args, strict=True))
        mean, training = arguments["running_mean"], arguments["training"]
        return training.value is False or (type(mean) is _C.Const and mean.value is None)
    return let.name != "DropoutMask"


def substitute(args: tuple, names: dict) -> tuple:
    """Arguments with each Local replaced by what ``names`` says, lists included."""
    return tuple(
        [substitute(a, names) if type(a) is tuple else names.get(a, a) if type(a) is _C.Local else a for a in args]
    )


def locals_of(args: tuple) -> list:
    """The Locals among arguments, lists included."""
    found = []
    for a in args:
        if type(a) is _C.Local:
            found.append(a)
        elif type(a) is tuple:
            found += [element for element in a if type(element) is _C.Local]
    return found


def rebuilt(rhs: Any, args: tuple) -> Any:
    """``rhs`` on other arguments."""
    if type(rhs) is _C.CppApply:
        return _C.CppApply(rhs.op.name, args, rhs.location)
    return _C.PyApply(rhs.op, args, rhs.location)
