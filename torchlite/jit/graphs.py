"""Replays that are launched as CUDA graphs.

Arguments are copied into fixed tensors before a launch, and results are copied out of theirs after it. Parameters and
captures are read, and running statistics written, where they lie: a graph holds their memory, and `fits` says whether
they still lie there.
"""

from __future__ import annotations

import threading
from typing import Any

from torchlite import _C, autograd
from torchlite.autograd import Function, Variable
from torchlite.cuda import _random
from torchlite.cuda._graph import Graphs, device_of, why_not
from torchlite.jit.passes import optimize
from torchlite.jit.replay import Replay
from torchlite.jit.tracing import without_effects

__all__ = ["GraphReplay", "GraphStep", "records_gradients"]


def records_gradients(sources: list) -> bool:
    """Whether a call with these Variables is one that the engine can go back through."""
    return (
        _C._is_grad_enabled() and any(v.requires_grad for v in sources) and not any(v.volatile for v in sources)
    )


def _place(v: Variable) -> tuple:
    t = v.data
    return t.data_ptr(), t.size(), t.stride(), t.type(), v.requires_grad, v.volatile


class _Captured:
    """What replays and steps have in common: fixed inputs, and captures that have been tried before."""

    def __init__(self, name: str, lam: Any, sources: list, n_arguments: int, device: int):
        reason = why_not(lam, device)
        if reason is not None:
            raise RuntimeError(f"{name}: a CUDA graph cannot hold this function: {reason}")
        self.name, self.n_arguments = name, n_arguments
        self.lock = threading.RLock()
        self.graphs = Graphs(device)
        tensors = [v.data for v in sources]
        self.arguments = [t.clone() for t in tensors[:n_arguments]]
        self.fixed = [*self.arguments, *tensors[n_arguments:]]
        self.places = [_place(v) for v in sources[n_arguments:]]

    def fits(self, sources: list) -> bool:
        """Whether all but the arguments lie where they lay."""
        return [_place(v) for v in sources[self.n_arguments:]] == self.places

    def tried(self, work: Any) -> Any:
        """The results of ``work()``, done for the first time and without effects. RuntimeError if it draws numbers."""
        with without_effects():
            before = _random.states()
            results = work()
            if _random.states() != before:
                raise RuntimeError(f"{self.name}: a CUDA graph cannot hold this function: it draws random numbers")
        return results

    def captured(self, work: Any) -> tuple[Any, Any]:
        try:
            return self.graphs.capture(work)
        except Exception as e:
            raise RuntimeError(f"{self.name}: a CUDA graph cannot hold this function: {e}") from e

    def take(self, sources: list) -> None:
        for fixed, v in zip(self.arguments, sources, strict=False):
            fixed.copy_(v.data)


class GraphReplay(_Captured):
    """The replay of one trace on sources (its inputs and captures) of one kind, and its backward where one is recorded.

    What the backward needs lies in the graphs' memory until the next launch. A backward that comes later replays the
    forward first.
    """

    def __init__(self, lam: Any, sources: list, n_arguments: int, device: int, optimized: bool):
        super().__init__("jit.compile", lam, sources, n_arguments, device)
        self.records = records_gradients(sources)
        closed = _C.Lambda(lam.params, lam.lets, lam.ret)  # captures are ordinary parameters
        self.program = _C.Program(optimize(closed, self.records) if optimized else closed)
        self.generation = 0
        self.volatile = any(v.volatile for v in sources)
        leaves = self.leaves(self.fixed, sources)
        run = self.program.run if self.records else self.program.run_plain
        with self.graphs.aside():
            self.tried(lambda: self._try_gradients(leaves) if self.records else run(*leaves))
            self.forward, self.graph_of_outputs = self.captured(lambda: run(*leaves))
            self.outputs = [v.data for v in self.graph_of_outputs]
            self.backward = None
            if self.records and self.wrt:
                self.backward, gradients = self.captured(
                    lambda: self.gradients(self.graph_of_outputs, leaves, self.wrt, self.seeds)
                )
                self.found = [g.data for g in gradients]

    def _try_gradients(self, leaves: list) -> None:
        """Forward and backward once, which tells where gradients flow."""
        outputs = self.program.run(*leaves)
        self.flowing = [k for k, o in enumerate(outputs) if o.requires_grad]
        self.seeds = [outputs[k].data.clone().zero_() for k in self.flowing]
        self.wrt = self.reached(outputs, leaves, [i for i, v in enumerate(leaves) if v.requires_grad])

    def leaves(self, tensors: list, sources: list) -> list:
        return [
            Variable(t, requires_grad=self.records and v.requires_grad) for t, v in zip(tensors, sources, strict=True)
        ]

    def gradients(self, outputs: Any, leaves: list, wrt: list, seeds: list) -> Any:
        return autograd.grad(
            [outputs[k] for k in self.flowing],
            [leaves[i] for i in wrt],
            [Variable(s) for s in seeds],
            create_graph=False,
            retain_graph=True,
        )

    def reached(self, outputs: Any, leaves: list, wrt: list) -> list:
        """Those of ``wrt`` that gradients arrive at."""
        if not wrt or not self.flowing:
            return []
        try:
            self.gradients(outputs, leaves, wrt, self.seeds)
            return wrt
        except RuntimeError as e:
            if "not have been used" not in str(e):
                raise
        if len(wrt) == 1:
            return []
        middle = len(wrt) // 2
        return self.reached(outputs, leaves, wrt[:middle]) + self.reached(outputs, leaves, wrt[middle:])

    def run(self, sources: list) -> tuple:
        """The results, a tuple of new Variables."""
        if self.records:
            results = GraphCall.apply(self, sources, *sources)
            return results if type(results) is tuple else (results,)
        return tuple([Variable(t, volatile=self.volatile) for t in self.launch(sources)[0]])

    def launch(self, sources: list) -> tuple[list, int]:
        """The tensors of the results, and the number of the launch."""
        with self.lock, self.graphs.launching() as stream:
            self.take(sources)
            self.forward.launch(stream)
            self.generation += 1
            return [t.clone() for t in self.outputs], self.generation

    def launch_backward(self, generation: int, cotangents: tuple) -> list | None:
        """The gradients of the launch ``generation``; None if there has been another since."""
        with self.lock, self.graphs.launching() as stream:
            if generation != self.generation or self.backward is None:
                return None
            for seed, k in zip(self.seeds, self.flowing, strict=True):
                seed.zero_() if cotangents[k] is None else seed.copy_(cotangents[k].data)
            self.backward.launch(stream)
            return [Variable(t.clone()) for t in self.found]

    def again(self, sources: list, cotangents: tuple) -> Any:
        """The gradients by the engine, from the sources as they are."""
        leaves = self.leaves([v.data for v in sources], sources)
        seeds = [
            o.clone().zero_() if cotangents[k] is None else cotangents[k].data
            for k, o in ((k, self.outputs[k]) for k in self.flowing)
        ]
        with without_effects(), autograd.enable_grad():
            return self.gradients(self.program.run(*leaves), leaves, self.wrt, seeds)


class GraphCall(Function):
    """``GraphCall.apply(replay, sources, *sources)``: the results of a launch, a tuple.

    The sources come a second time as a list that nothing unpacks, for a backward that records its own graph.
    """

    @staticmethod
    def forward(ctx, replay, sources, *tensors):
        ctx.replay, ctx.sources = replay, [(v, v._version) for v in sources]
        results, ctx.generation = replay.launch(sources)
        flowing = set(replay.flowing)
        ctx.mark_non_differentiable(*[r for k, r in enumerate(results) if k not in flowing])
        return tuple(results)

    @staticmethod
    def backward(ctx, *cotangents):
        replay, sources = ctx.replay, [v for v, _ in ctx.sources]
        result: list = [None] * (2 + len(sources))
        if not replay.wrt:
            return tuple(result)
        for v, version in ctx.sources[replay.n_arguments:]:
            _require_version(v, version)
        if not all(g is None or g.volatile for g in cotangents) and _C._is_grad_enabled():
            with without_effects():
                found = Replay.differentiable(replay, ctx.sources, cotangents)
        else:
            found = replay.launch_backward(ctx.generation, cotangents)
            if found is None:
                for v, version in ctx.sources:
                    _require_version(v, version)
                found = replay.again(sources, cotangents)
        for i, g in zip(replay.wrt, found, strict=True):
            result[2 + i] = g
        return tuple(result)


def _require_version(v: Variable, version: int) -> None:
    if v._version != version:
        raise RuntimeError(
            "one of the variables needed for gradient computation has been modified by an inplace operation: a jit "
            f"function got it at version {version}, it is now at version {v._version}"
        )


class GraphStep(_Captured):
    """The loss and the gradients of one step of training, as one launch.

    ``run`` computes them from the inputs. The gradients lie in the graph's memory: each launch writes the same tensors.
    """

    def __init__(self, run: Any, lam: Any, inputs: list, n_arguments: int, device: int):
        super().__init__("jit.compile_step", lam, [*inputs, *lam.captures], n_arguments, device)
        leaves = [
            Variable(t, requires_grad=v.requires_grad) for t, v in zip(self.fixed[:len(inputs)], inputs, strict=True)
        ]
        with self.graphs.aside():
            self.tried(lambda: run(leaves))
            self.graph, (loss, *gradients) = self.captured(lambda: run(leaves))
        self.loss, self.gradients = loss.data, [g.data for g in gradients]

    def launch(self, inputs: list) -> tuple:
        """The loss, a new Variable, and the gradients."""
        with self.lock, self.graphs.launching() as stream:
            self.take(inputs)
            self.graph.launch(stream)
            return (Variable(self.loss.clone()), *[Variable(g) for g in self.gradients])


def replay_on_device(capture: Any, lam: Any, sources: list, n_arguments: int, optimized: bool) -> GraphReplay | None:
    """``capture`` if it still fits, else a new one; None where the sources do not lie on one device."""
    device = device_of(sources) if sources else None
    if device is None:
        return None
    if capture is None or not capture.fits(sources):
        capture = GraphReplay(lam, sources, n_arguments, device, optimized)
    return capture


def step_on_device(capture: Any, run: Any, lam: Any, inputs: list, n_arguments: int) -> GraphStep | None:
    """The same for a step."""
    sources = [*inputs, *lam.captures]
    device = device_of(sources) if sources else None
    if device is None:
        return None
    if capture is None or not capture.fits(sources):
        capture = GraphStep(run, lam, inputs, n_arguments, device)
    return capture
