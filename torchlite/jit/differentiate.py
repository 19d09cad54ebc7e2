"""Derivatives of lambdas, as lambdas.

A lambda is replayed and differentiated by the engine with ``create_graph``, and all of that is traced: the gradients of
the op table are written in the table's own operations, so the result is a lambda like any other, which can be
differentiated again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import torchlite
from torchlite import _C, autograd
from torchlite._arrays import array, module_of
from torchlite.autograd import Variable
from torchlite.jit.passes import eliminate_common_subexpressions, eliminate_dead_code
from torchlite.jit.passes.effects import locals_of
from torchlite.jit.tracing import record

__all__ = ["grad", "vjp"]


def is_differentiable(tensor_type: Any) -> bool:
    """Whether gradients flow to tensors of this type."""
    return tensor_type.dtype in ("Float", "Double", "Half")


def _example(tensor_type: Any, generator: Any, requires_grad: bool = False) -> Variable:
    """A Variable of a type: numbers in (0, 0.9), or zeros, which are valid indices.

    Square matrices are symmetric with a dominant diagonal, hence positive definite: they have an inverse and factors.
    """
    sizes = tuple(tensor_type.sizes)
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"jit.vjp: {tensor_type} has an open size")
    if tensor_type.device >= 0:
        from torchlite.cuda import _library, _random

        data = _C._cuda_empty(getattr(torchlite.cuda, tensor_type.dtype + "Tensor"), sizes, tensor_type.device)
        if not is_differentiable(tensor_type):
            return Variable(data.zero_())
        cupy = _library.connect()
        with cupy.cuda.Device(tensor_type.device):
            drawn = _random.uniform(cupy, sizes, data.dtype, 0.1, 0.9, _random.Generator())
            data.copy_(_C._from_cupy(_dominant(drawn)))
        return Variable(data, requires_grad=requires_grad)
    kind = getattr(torchlite, tensor_type.dtype + "Tensor")
    if not is_differentiable(tensor_type):
        return Variable(torchlite.from_numpy(np.zeros(sizes)).type(kind))
    values = _dominant(generator.uniform(0.1, 0.9, sizes))
    return Variable(torchlite.from_numpy(values).type(kind), requires_grad=requires_grad)


def _dominant(values: Any) -> Any:
    """The numbers; those of square matrices made symmetric, with a dominant diagonal."""
    if values.ndim < 2 or values.shape[-1] != values.shape[-2]:
        return values
    n = values.shape[-1]
    return (values + values.swapaxes(-1, -2)) / (4 * n) + 0.45 * module_of(values).eye(n)


def _wrt(lam: Any, wrt: Sequence[int] | None, name: str) -> list[int]:
    """The numbers of the parameters to differentiate by."""
    first_capture = len(lam.params) - len(lam.captures)
    if wrt is None:
        return [
            i
            for i, p in enumerate(lam.params)
            if is_differentiable(p.type)
            and (i < first_capture or getattr(lam.captures[i - first_capture], "requires_grad", False))
        ]
    for i in wrt:
        if not 0 <= i < len(lam.params):
            raise IndexError(f"{name}: wrt names parameter {i}, but the lambda has {len(lam.params)}")
        if not is_differentiable(lam.params[i].type):
            raise ValueError(f"{name}: parameter {i} has type {lam.params[i].type}, which has no gradients")
    return list(wrt)


def _with_masks(lam: Any) -> Any:
    """``lam`` with each dropout as a product with a mask: the derivative needs the mask by name."""
    lets = []
    for let in lam.lets:
        if let.name == "Dropout" and let.args[2].value:
            x, p, _ = let.args
            mask = _C.Local(x.type)
            lets.append(_C.Let([mask], _C.CppApply("dropout_mask", (x, p), let.location)))
            lets.append(_C.Let(let.results, _C.CppApply("mul", (x, mask), let.location)))
        else:
            lets.append(let)
    return _C.Lambda(lam.params, lets, lam.ret, lam.captures)


def _gradients(pairs: list, inputs: list) -> list:
    """Gradients by the engine, traced; None where nothing leads to an input."""
    if not pairs or not inputs:
        return [None] * len(inputs)
    outputs, seeds = [o for o, _ in pairs], [s for _, s in pairs]
    try:
        return list(autograd.grad(outputs, inputs, seeds, create_graph=True, retain_graph=True))
    except RuntimeError as e:
        if "not have been used" not in str(e):
            raise
        if len(inputs) == 1:
            return [None]
    middle = len(inputs) // 2
    return _gradients(pairs, inputs[:middle]) + _gradients(pairs, inputs[middle:])


def _reached(lam: Any, wrt: list[int]) -> list[int]:
    """Those of ``wrt`` that some floating result depends on."""
    needed = {a for a in lam.ret.args if is_differentiable(a.type)}
    for let in reversed(tuple(lam.lets)):
        if not needed.isdisjoint(let.results):
            needed.update(locals_of(let.args))
    return [i for i in wrt if lam.params[i] in needed]


def _derivative(lam: Any, wrt: list[int], values: bool, ones: bool) -> Any:
    """Common part of :func:`vjp` and, with ``ones`` for the cotangents, :func:`grad`."""
    lam = _with_masks(lam)
    reached = _reached(lam, wrt)
    n_inputs = len(lam.params) - len(lam.captures)
    program = _C.Program(_C.Lambda(lam.params, lam.lets, lam.ret))  # captures are ordinary parameters meanwhile
    generator = np.random.default_rng(0)
    chosen = set(wrt)
    inputs = [_example(p.type, generator, i in chosen) for i, p in enumerate(lam.params)]
    floating = [is_differentiable(a.type) for a in lam.ret.args]
    cotangents = [] if ones else [_example(a.type, generator) for a in lam.ret.args if is_differentiable(a.type)]

    def call():
        outputs = program.run(*inputs)
        seeds = iter(cotangents)
        pairs = []
        for output, is_floating in zip(outputs, floating, strict=True):
            if is_floating:
                seed = Variable(output.data.new(output.size()).fill_(1)) if ones else next(seeds)
                if output.requires_grad:
                    pairs.append((output, seed))
        found = dict(zip(reached, _gradients(pairs, [inputs[i] for i in reached]), strict=True))
        results = []
        for i in wrt:
            g = found.get(i)
            results.append(Variable(inputs[i].data.new(inputs[i].size()).zero_()) if g is None else g)
        return (*outputs, *results) if values else tuple(results)

    with autograd.enable_grad():
        traced = record(call, [*inputs, *cotangents])
    # What backward made itself may depend on sizes, never on data: zeros, ones, and masks.
    for constant in traced.captures:
        elements = array(constant.data)
        if elements.dtype.kind == "f" and elements.size and not (elements == elements.reshape(-1)[0]).all():
            raise RuntimeError(
                "jit.vjp: the gradient of an operation in the lambda isn't made of traced operations, so it would be "
                "a constant of the derivative. Is there a Function whose backward is once_differentiable?"
            )
    params = list(traced.params)
    n, m = len(inputs), len(inputs) + len(cotangents)
    ordered = params[:n_inputs] + params[n:m] + params[n_inputs:n] + params[m:]
    constants = [c.data for c in traced.captures]
    result = _C.Lambda(ordered, traced.lets, traced.ret, [*lam.captures, *constants])
    return _without_unused_captures(eliminate_dead_code(eliminate_common_subexpressions(result)), len(lam.captures))


def _without_unused_captures(lam: Any, keep: int) -> Any:
    """Without the captures behind the first ``keep`` that nothing uses."""
    used = set(lam.ret.args)
    for let in lam.lets:
        used.update(locals_of(let.args))
    first = len(lam.params) - len(lam.captures)
    kept = [i for i in range(len(lam.captures)) if i < keep or lam.params[first + i] in used]
    params = [*lam.params[:first], *[lam.params[first + i] for i in kept]]
    return _C.Lambda(params, lam.lets, lam.ret, [lam.captures[i] for i in kept])


def vjp(lam: Any, wrt: Sequence[int] | None = None, values: bool = False) -> Any:
    """The product of a vector with the Jacobian of a lambda, as a lambda.

    Its parameters are those of ``lam`` that are not captured, then a cotangent for each floating result of ``lam``, in
    the type of that result. It returns the gradients of the parameters ``wrt`` (numbers among ``lam.params``; all
    floating ones by default, of the captures those that require grad), zeros for one that nothing depends on; with
    ``values`` the results of ``lam`` come first.

    The derivative is a lambda again: ``vjp(vjp(lam))`` is one too. IndexError or ValueError for a wrong ``wrt``,
    RuntimeError if some gradient isn't made of operations.
    """
    return _derivative(lam, _wrt(lam, wrt, "jit.vjp"), values, ones=False)


def grad(lam: Any, wrt: Sequence[int] | None = None, values: bool = False) -> Any:
    """The gradients of a lambda whose one floating result has one element, as a lambda.

    Its parameters are those of ``lam``; ``wrt``, ``values`` and the errors are those of :func:`vjp`. ValueError if
    ``lam`` returns something else.
    """
    sizes = [tuple(a.type.sizes) for a in lam.ret.args]
    if len(sizes) != 1 or int(np.prod(sizes[0])) != 1 or not is_differentiable(lam.ret.args[0].type):
        raise ValueError(f"jit.grad: the lambda has to return one floating number, but returns {sizes}; see jit.vjp")
    return _derivative(lam, _wrt(lam, wrt, "jit.grad"), values, ones=True)
