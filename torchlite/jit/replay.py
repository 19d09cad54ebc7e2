"""Replays whose backward is a program too: one node of the graph stands for the whole replay.

The derivative of a lambda is split where the cotangents come in: what doesn't depend on them joins the forward program,
whose further results are kept for the backward program.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import torchlite
from torchlite import _C, autograd
from torchlite.autograd import Function, Variable
from torchlite.jit.differentiate import _reached, is_differentiable, vjp
from torchlite.jit.passes import optimize
from torchlite.jit.passes.effects import is_pure, locals_of
from torchlite.jit.tracing import same_bits

__all__ = ["Replay", "ReplayPlan", "plan_replay"]

# Their gradients are one fused operation only in the engine; as a lambda they would be many.
FUSED = frozenset({"Lstm", "Gru", "Rnn", "LstmCell", "GruCell"})


class ReplayPlan:
    """The programs of one lambda: ``forward`` from all its parameters to its results and what ``backward`` needs."""

    __slots__ = (
        "backward",
        "forward",
        "kept_inputs",
        "kept_outputs",
        "n_inputs",
        "n_outputs",
        "program",
        "types",
        "wrt",
    )

    def __init__(self, lam: Any, wrt: list[int]):
        # Captures are ordinary parameters here.
        lam = _C.Lambda(lam.params, lam.lets, lam.ret)
        derivative = vjp(lam, wrt, values=True)
        n, n_outputs = len(lam.params), len(lam.ret.args)
        first_constant = len(derivative.params) - len(derivative.captures)
        params, constants = derivative.params[:n], derivative.params[first_constant:]
        cotangents = derivative.params[n:first_constant]
        later = set(cotangents)
        before, after = [], []
        for let in derivative.lets:
            if later.isdisjoint(locals_of(let.args)):
                before.append(let)
            else:
                after.append(let)
                later.update(let.results)
        gradients = derivative.ret.args[n_outputs:]
        used = {a for let in after for a in locals_of(let.args)} | set(gradients)
        known = {r for let in before for r in let.results}
        residuals = [r for r in dict.fromkeys([r for let in before for r in let.results]) if r in used]
        outputs = derivative.ret.args[:n_outputs]
        # Whose memory the kept values lie on: an input or a result among them must not be written until backward.
        roots: dict = {}
        for let in before:
            if type(let.rhs) is _C.CppApply and (let.op.is_view or let.name in ("Reshape", "Index")):
                roots.update((r, roots.get(let.args[0], let.args[0])) for r in let.results)
        bases = {roots.get(r, r) for r in used if r in known or r in set(params)}
        self.kept_inputs = [i for i, p in enumerate(params) if p in bases]
        self.kept_outputs = [k for k, o in enumerate(outputs) if o in bases]
        self.n_inputs, self.n_outputs, self.wrt = n, n_outputs, wrt
        self.types = [o.type for o in outputs]
        captures = dict(zip(constants, derivative.captures, strict=True))

        def closed(own: list, lets: list, ret: list) -> Any:
            needed = {a for let in lets for a in locals_of(let.args)} | set(ret)
            bound = [c for c in constants if c in needed]
            return optimize(_C.Lambda([*own, *bound], lets, ret, [captures[c] for c in bound]))

        self.program = _C.Program(lam)
        self.forward = _C.Program(closed([*params], before, [*outputs, *residuals]))
        self.backward = _C.Program(closed([*params, *residuals, *cotangents], after, [*gradients]))


def _zeros(tensor_type: Any) -> Variable:
    sizes = tuple(tensor_type.sizes)
    if tensor_type.device < 0:
        zeros = torchlite.from_numpy(np.zeros(sizes)).type(getattr(torchlite, tensor_type.dtype + "Tensor"))
    else:
        from torchlite import cuda

        zeros = _C._cuda_empty(getattr(cuda, tensor_type.dtype + "Tensor"), sizes, tensor_type.device).zero_()
    return Variable(zeros)


class Replay(Function):
    """``Replay.apply(plan, inputs, *inputs)``: the results of the plan's lambda, a tuple.

    ``backward`` needs some of the tensors, which are saved as usual; a backward that records its own graph goes back
    to the Variables themselves, so these come a second time as a list that nothing unpacks.
    """

    @staticmethod
    def forward(ctx, plan, inputs, *tensors):
        results = [v.data for v in plan.forward.run_plain(*tensors)]
        n = plan.n_outputs
        ctx.plan, ctx.tensors, ctx.residuals = plan, tensors, results[n:]
        ctx.inputs = [(v, v._version) for v in inputs]
        ctx.save_for_backward(*[tensors[i] for i in plan.kept_inputs], *[results[k] for k in plan.kept_outputs])
        return tuple(results[:n])

    @staticmethod
    def backward(ctx, *cotangents):
        plan = ctx.plan
        _ = ctx.saved_variables  # raises if one of them was written since
        seeds = [
            g if g is not None else _zeros(t)
            for g, t in zip(cotangents, plan.types, strict=True)
            if is_differentiable(t)
        ]
        result: list = [None] * (2 + plan.n_inputs)
        if all(g is None or g.volatile for g in cotangents) or not _C._is_grad_enabled():
            found = plan.backward.run_plain(*ctx.tensors, *ctx.residuals, *[g.data for g in seeds])
        else:
            found = Replay.differentiable(plan, ctx.inputs, cotangents)
        for i, g in zip(plan.wrt, found, strict=True):
            result[2 + i] = g
        return tuple(result)

    @staticmethod
    def differentiable(plan, originals, cotangents):
        """Gradients with a graph of their own: by the engine, through a replay of the lambda.

        The replay runs on views of the inputs, so that none of them leads to another.
        """
        for v, version in originals:
            if v._version != version:
                raise RuntimeError(
                    "one of the variables needed for gradient computation has been modified by an inplace operation: a "
                    f"jit function got it at version {version}, it is now at version {v._version}"
                )
        inputs = [v.view_as(v) if v.requires_grad else v for v, _ in originals]
        outputs = plan.program.run(*inputs)
        pairs = [(o, g) for o, g in zip(outputs, cotangents, strict=True) if g is not None and o.requires_grad]
        return autograd.grad(
            [o for o, _ in pairs], [inputs[i] for i in plan.wrt], [g for _, g in pairs], create_graph=True
        )


def plan_replay(lam: Any, inputs: list) -> ReplayPlan | None:
    """A plan for replays of ``lam`` on Variables like ``inputs`` (those of its captures included), or None where the
    ordinary replay is the better one: then its results aren't new tensors, it draws random numbers, it runs Python
    Functions, or its derivative as a lambda would round elsewhere than the engine.
    """
    makers = {r: let for let in lam.lets for r in let.results}
    ret = lam.ret.args
    if len(lam.lets) < 4 or len(set(ret)) != len(ret) or not all(is_pure(let) for let in lam.lets):
        return None
    if any(let.name in FUSED for let in lam.lets) or not all(is_differentiable(r.type) for r in ret):
        return None
    if any(r not in makers or makers[r].op.is_view or makers[r].name in ("Reshape", "Index") for r in ret):
        return None
    wrt = [i for i, v in enumerate(inputs) if v.requires_grad]
    if wrt != _reached(lam, wrt):
        return None
    try:
        plan = ReplayPlan(lam, wrt)
    except RuntimeError:
        return None
    return plan if _agrees(plan, inputs) else None


def _agrees(plan: ReplayPlan, inputs: list) -> bool:
    """Whether gradients are the engine's very bits, all of whose results require grad."""
    found = []
    for call in (lambda *v: Replay.apply(plan, list(v), *v), plan.program.run):
        leaves = [Variable(v.data, requires_grad=v.requires_grad) for v in inputs]
        outputs = call(*leaves)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if not all(o.requires_grad for o in outputs):
            return False
        autograd.backward(list(outputs), [o.data.clone() for o in outputs])
        gradients = [leaves[i].grad for i in plan.wrt]
        if any(g is None for g in gradients):
            return False
        found.append([v.data for v in (*outputs, *gradients) if v is not None])
    return all(same_bits(a, b) for a, b in zip(*found, strict=True))
