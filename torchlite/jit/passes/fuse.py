"""Fusion of elementwise operations.

Neighbours that work element by element on tensors of one type become one ``FusedElementwise``, which goes through
memory once, block by block (csrc/autograd/ops/fused.cpp has the language of its code). It runs the kernels of the
operations it stands for, so the results have the same bits; it has no gradient, so fusion is for programs that are run
without one.
"""

from __future__ import annotations

from typing import Any

from torchlite import _C
from torchlite.jit.passes.effects import locals_of

_UNARY = {"Negate": "neg", "Abs": "abs", "Sqrt": "sqrt", "Square": "square", "Exp": "exp", "Log": "log", "Tanh": "tanh",
          "Sigmoid": "sigmoid", "Relu": "relu"}  # fmt: skip
_GRADIENTS = {"TanhBackward": "tanh_backward", "SigmoidBackward": "sigmoid_backward", "ReluBackward": "relu_backward"}
_MAX_INPUTS, _MAX_STEPS, _MAX_OUTPUTS = 64, 64, 6


def _number(arg: Any) -> float | None:
    """The value of a constant that is a number which the kernels take exactly."""
    if type(arg) is not _C.Const or type(arg.value) not in (int, float):
        return None
    try:
        number = float(arg.value)
    except OverflowError:
        return None
    return number if number == arg.value or number != number else None


def _encode(let: Any) -> tuple | None:
    """(name, operands): operands are Locals of the result's type or numbers. None if the let can't be fused."""
    if type(let.rhs) is not _C.CppApply or len(let.results) != 1:
        return None
    kind = let.results[0].type
    if kind.dtype not in ("Float", "Double") or kind.device >= 0 or any(n < 0 for n in kind.sizes):
        return None
    name, args = let.name, let.args
    scale = 1.0
    if name in _UNARY:
        name, operands = _UNARY[name], args[:1]
    elif name == "Pow" and _number(args[1]) == 2:
        name, operands = "square", args[:1]
    elif name in _GRADIENTS:
        name, operands = _GRADIENTS[name], args[:2]
    elif name in ("Mul", "Div"):
        name, operands = name.lower(), args
    elif name in ("Add", "Sub"):
        name, operands = name.lower(), (args[0], args[2])
        factor = _number(args[1])
        if factor is None:
            return None
        scale = factor
    else:
        return None
    result: list = []
    for arg in operands:
        if type(arg) is _C.Local and arg.type == kind:
            result.append(arg)
        else:
            number = _number(arg)
            if number is None or name.endswith("_backward"):
                return None
            result.append(number)
    n_locals = sum(type(o) is _C.Local for o in result)
    if n_locals == 0 or (scale != 1 and n_locals < 2):
        return None
    return (name, result) if scale == 1 else (name + "_scaled", [*result, scale])


class _Group:
    """Lets to be fused, in order; open while none of their results is used outside."""

    def __init__(self) -> None:
        self.lets: list = []
        self.steps: list = []

    def inputs(self) -> list:
        own = {let.results[0] for let in self.lets}
        found: dict = {}
        for _, operands in self.steps:
            found.update((o, None) for o in operands if type(o) is _C.Local and o not in own)
        return list(found)

    def halves(self) -> list[_Group]:
        middle = len(self.lets) // 2
        parts = []
        for where in (slice(None, middle), slice(middle, None)):
            part = _Group()
            part.lets, part.steps = self.lets[where], self.steps[where]
            parts.append(part)
        return parts

    def emit(self, users: dict) -> list:
        """The fused let, or the lets themselves where fusion doesn't pay or doesn't fit."""
        if len(self.lets) < 2:
            return self.lets
        inputs = self.inputs()
        members = set(map(id, self.lets))
        outputs = [let.results[0] for let in self.lets if any(id(u) not in members for u in users[let.results[0]])]
        if 2 * len(outputs) > len(self.lets) > 2:
            return self.lets  # most results have to be written anyway
        if len(outputs) > _MAX_OUTPUTS or len(inputs) > _MAX_INPUTS:
            return [let for half in self.halves() for let in half.emit(users)]
        if not outputs:
            return self.lets
        registers = {local: i for i, local in enumerate([*inputs, *[let.results[0] for let in self.lets]])}
        code = "".join(
            " ".join([name, *[str(registers[o]) if type(o) is _C.Local else f"#{o!r}" for o in operands]]) + "; "
            for name, operands in self.steps
        )
        code += "-> " + ", ".join(str(registers[o]) for o in outputs)
        return [_C.Let(outputs, _C.CppApply("fused_elementwise", (inputs, _C.Const(code)), self.lets[-1].location))]


def fuse_elementwise(lam: Any) -> Any:
    """Joins elementwise operations on tensors of one type into single passes over memory."""
    users: dict = {local: [lam.ret] for local in lam.ret.args}
    for let in lam.lets:
        for local in locals_of(let.args):
            users.setdefault(local, []).append(let)
        for result in let.results:
            users.setdefault(result, [])
    kept: list = []
    open_groups: dict = {}  # by result: the open group that makes it

    def close(group: _Group) -> None:
        kept.extend(group.emit(users))
        for let in group.lets:
            open_groups.pop(let.results[0], None)

    for let in lam.lets:
        step = _encode(let)
        groups = list(dict.fromkeys(open_groups[a] for a in locals_of(let.args) if a in open_groups))
        if step is None:
            for group in groups:
                close(group)
            kept.append(let)
            continue
        kind = let.results[0].type
        joined = [g for g in groups if g.lets[0].results[0].type == kind]
        for group in groups:
            if group not in joined:
                close(group)
        if sum(len(g.lets) for g in joined) >= _MAX_STEPS:
            for group in joined:
                close(group)
            joined = []
        target = joined[0] if joined else _Group()
        for other in joined[1:]:
            target.lets += other.lets
            target.steps += other.steps
        target.lets.append(let)
        target.steps.append(step)
        for member in target.lets:
            open_groups[member.results[0]] = target
    for group in dict.fromkeys(open_groups.values()):
        close(group)
    if len(kept) == len(lam.lets):
        return lam
    return _C.Lambda(lam.params, kept, lam.ret, lam.captures)
