"""A whole training step: forward, backward and update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torchlite import _C, autograd
from torchlite.autograd import Variable
from torchlite.jit.compiled import Compiled, _Entry
from torchlite.jit.differentiate import _reached, grad
from torchlite.jit.passes import optimize
from torchlite.jit.replay import FUSED
from torchlite.jit.tracing import make_lambda, same_bits, without_effects
from torchlite.optim import SGD, Adam

__all__ = ["CompiledStep", "compile_step"]


class _Plan:
    """How the steps for one kind of batch are run."""

    __slots__ = ("capture", "derivative", "forward", "missing", "places", "program")

    def __init__(self, entry: _Entry, inputs: list, optimizer: Any):
        self.capture: Any = None
        chosen = {id(p) for group in optimizer.param_groups for p in group["params"]}
        wrt = [i for i, v in enumerate(inputs) if id(v) in chosen]
        self.places = _reached(entry.lam, wrt)
        self.missing = [i for i in wrt if i not in self.places]
        self.forward = entry.program
        self.derivative = self.program = None
        if any(let.name in FUSED for let in entry.lam.lets):
            return
        try:
            self.derivative = grad(entry.lam, self.places, values=True)
        except RuntimeError:
            return  # a Function whose gradient is no operation: the engine runs it
        program = _C.Program(optimize(self.derivative))
        # Some fused operations have a fused gradient that isn't an operation itself. Their derivative as a lambda is
        # as right but rounds elsewhere and takes longer, so the engine runs these.
        with without_effects():
            ours = program.run_plain(*inputs)
        with without_effects():
            theirs = self._engine(inputs)
        if all(same_bits(a.data, b.data) for a, b in zip(ours, theirs, strict=True)):
            self.program = program

    def _engine(self, inputs: list) -> tuple:
        (loss,) = self.forward.run(*inputs)
        gradients = autograd.grad([loss], [inputs[i] for i in self.places], retain_graph=False)
        return (Variable(loss.data), *gradients)

    def run(self, inputs: list) -> tuple:
        """The loss, then the gradients of the parameters at ``places``."""
        return self._engine(inputs) if self.program is None else self.program.run_plain(*inputs)


class CompiledStep:
    """Steps of training by a replayed trace. See :func:`compile_step`."""

    def __init__(self, model: Callable, loss: Callable | None, optimizer: Any, cuda_graph: bool = False):
        self.model, self.loss, self.optimizer, self._cuda_graph = model, loss, optimizer, cuda_graph

        def forward(*batch):
            if loss is None:
                result = model(*batch)
            else:
                result = loss(model(*batch[:-1]), batch[-1])
            if not isinstance(result, Variable) or result.data.numel() != 1:
                raise ValueError(
                    "jit.compile_step: the loss has to be a Variable with one element, but is "
                    + (f"one of size {tuple(result.size())}" if isinstance(result, Variable) else repr(type(result)))
                )
            return result

        self._compiled = Compiled(forward)
        self._plans: dict[_Entry, _Plan] = {}

    def _plan(self, batch: tuple) -> tuple[_Plan, list, _Entry]:
        entry, inputs = self._compiled._entry(batch, {})
        plan = self._plans.get(entry)
        if plan is None:
            known = set(self._compiled._cache.values())
            self._plans = {e: p for e, p in self._plans.items() if e in known}
            plan = self._plans[entry] = _Plan(entry, inputs, self.optimizer)
        return plan, inputs, entry

    def __call__(self, *batch: Any) -> Variable:
        if not _C._is_grad_enabled():
            raise RuntimeError("jit.compile_step: a step needs gradients, but they are disabled here")
        plan, inputs, entry = self._plan(batch)
        loss, *gradients = self._launch(plan, inputs, entry) if self._cuda_graph else plan.run(inputs)
        for i, g in zip(plan.places, gradients, strict=True):
            inputs[i].grad = g
        for i in plan.missing:
            inputs[i].grad = None
        self.optimizer.step()
        return loss

    def _launch(self, plan: _Plan, inputs: list, entry: _Entry) -> tuple:
        from torchlite.jit.graphs import step_on_device

        capture = step_on_device(plan.capture, plan.run, entry.lam, inputs, entry.n_arguments)
        if capture is None:
            return plan.run(inputs)
        plan.capture = capture
        return capture.launch(inputs)

    def lambda_for(self, *batch: Any) -> Any:
        """The step for such a batch as one Lambda: from the inputs of the forward, the tensors of the optimizer's
        state and, of Adam, one step size for each parameter, to the loss, the new parameters and the new state.

        Made for SGD and Adam with the options that they have now; the state of SGD without momentum is empty.
        TypeError for other optimisers, RuntimeError if some gradient isn't made of operations.
        """
        plan, inputs, entry = self._plan(batch)
        derivative = grad(entry.lam, plan.places, values=True) if plan.derivative is None else plan.derivative
        return _whole_step(derivative, inputs, plan.places, self.optimizer)


def _options(optimizer: Any, parameters: list) -> list[dict]:
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    return [groups[id(p)] for p in parameters]


def _sgd(p, g, buffers, option):
    """The new parameter and buffers, in operations on Variables."""
    if option["weight_decay"] != 0:
        g = g.add(option["weight_decay"], p)
    if not buffers:
        return p.add(-option["lr"], g), []
    momentum = option["momentum"]
    (buf,) = buffers
    buf = (buf * momentum).add(1 - option["dampening"], g)
    if option["nesterov"]:
        return p.add(-option["lr"], g).add(-option["lr"] * momentum, buf), [buf]
    return p.add(-option["lr"], buf), [buf]


def _adam(p, g, buffers, option):
    average, square, size = buffers
    beta1, beta2 = option["betas"]
    if option["weight_decay"] != 0:
        g = g.add(option["weight_decay"], p)
    average = (average * beta1).add(1 - beta1, g)
    square = (square * beta2).addcmul(1 - beta2, g, g)
    return p - size * (average / (square.sqrt() + option["eps"])), [average, square]


def _whole_step(derivative: Any, inputs: list, places: list[int], optimizer: Any) -> Any:
    update = {SGD: _sgd, Adam: _adam}.get(type(optimizer))
    if update is None:
        raise TypeError(f"jit.compile_step: the lambda of a step of {type(optimizer).__name__} is not known")
    parameters = [inputs[i] for i in places]
    options = _options(optimizer, parameters)
    state: list[list] = []
    for p, option in zip(parameters, options, strict=True):
        like = [Variable(p.data.clone().zero_()) for _ in range(2)]
        if update is _adam:
            state.append([*like, Variable(p.data.new(1).fill_(option["lr"]))])
        else:
            state.append(like[:1] if option["momentum"] else [])
    program, n = _C.Program(derivative), len(inputs)

    def step(*variables):
        loss, *gradients = program.run(*variables[:n])
        rest = iter(variables[n:])
        new, kept = [], []
        for i, g, own, option in zip(places, gradients, state, options, strict=True):
            p, buffers = update(variables[i], g, [next(rest) for _ in own], option)
            new.append(p)
            kept += buffers
        return (loss, *new, *kept)

    with autograd.no_grad():
        return optimize(make_lambda(step, [*inputs, *[v for own in state for v in own]]))


def compile_step(
    model: Callable, loss: Callable | None, optimizer: Any, *, cuda_graph: bool = False
) -> CompiledStep:
    """A callable ``step(*batch)`` that trains ``model`` on a batch and returns the loss, a Variable of one element.

    The batch is the model's arguments followed by the target: ``loss(model(*batch[:-1]), batch[-1])``; without a
    ``loss`` the model is called with all of it and returns the loss itself. A step does what ``optimizer.zero_grad()``,
    the backward of the loss and ``optimizer.step()`` do, bit by bit: parameters and the optimizer's state are written
    in place, and each ``grad`` is the gradient of this batch. The options and the state of the optimizer can be read,
    changed, saved and loaded between steps.

    Forward and backward are traced once for each kind of batch, as by :func:`torchlite.jit.compile`, and replayed as
    one program where that gives the engine's very bits; else the forward is replayed and the engine runs the backward.
    Hooks on parameters are not called. ``step.lambda_for(*batch)`` is the whole step as one lambda.

    With ``cuda_graph``, forward and backward of a step whose Variables all lie on one CUDA device are captured and
    launched as one CUDA graph, as by :func:`torchlite.jit.compile`, and the optimizer's kernels follow; each ``grad``
    is then the same tensor at each step.

    ValueError if the loss has more than one element, RuntimeError while gradients are disabled or for what a CUDA graph
    cannot hold.
    """
    return CompiledStep(model, loss, optimizer, cuda_graph)
