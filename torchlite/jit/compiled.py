"""Functions and Modules that trace themselves once for each kind of arguments, and replay."""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from torchlite import _C
from torchlite.jit.passes import optimize
from torchlite.jit.structure import flatten, paths, unflatten
from torchlite.jit.tracing import alias, random_states, record, restore_random, without_effects

__all__ = ["Compiled", "compile", "jit", "trace"]

MAX_TRACES = 64  # of one function; the least recently used goes

_trace_key = _C._trace_key


def _is_module(obj: Any) -> bool:
    return hasattr(type(obj), "named_parameters") and "_modules" in getattr(obj, "__dict__", ())


def _slots(fn: Any, cells: list, names: list, owners: list, seen: set) -> None:
    """Collects where ``fn`` may find Modules: cells of its closure, global names, ``self``; also by the functions that
    it finds in its closure or that are defined beside it.
    """
    owner = getattr(fn, "__self__", None)
    if _is_module(owner):
        owners.append(owner)
    fn = inspect.unwrap(getattr(fn, "__func__", fn))
    if isinstance(fn, functools.partial):
        _slots(fn.func, cells, names, owners, seen)
    if not isinstance(fn, types.FunctionType) or fn in seen:
        return
    seen.add(fn)
    found = []
    for cell in fn.__closure__ or ():
        cells.append(cell)
        with contextlib.suppress(ValueError):  # not bound yet
            found.append(cell.cell_contents)
    for name in fn.__code__.co_names:
        value = fn.__globals__.get(name)
        if _is_module(value):
            names.append((fn.__globals__, name))
        elif isinstance(value, types.FunctionType) and value.__module__ == fn.__module__:
            found.append(value)
    for value in found:
        if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            _slots(value, cells, names, owners, seen)


def _modules_around(fn: Callable) -> Callable[[], list]:
    """A function that lists the Modules that ``fn`` reaches by itself: itself, its ``self``, its closure, its globals.

    It is asked at each call: what a name means may change.
    """
    if _is_module(fn):
        return lambda: [fn]
    cells: list = []
    names: list = []
    owners: list = []
    _slots(fn, cells, names, owners, set())
    if not cells and not names:
        return lambda: owners

    def around() -> list:
        found = list(owners)
        for cell in cells:
            try:
                content = cell.cell_contents
            except ValueError:
                continue
            if _is_module(content):
                found.append(content)
        for namespace, name in names:
            if _is_module(content := namespace.get(name)):
                found.append(content)
        return found

    return around


class _Entry:
    """One trace: its lambda, the program that replays it, and the structure of its results."""

    __slots__ = ("capture", "kept", "lam", "n_arguments", "plan", "program", "single", "spec")

    def __init__(self, lam: Any, program: Any, spec: Any):
        self.lam, self.program, self.spec, self.kept = lam, program, spec, None
        self.plan: Any = None
        self.capture: Any = None
        self.n_arguments = 0
        self.single = spec == ("v",)

    def run(self, inputs: list) -> tuple:
        """The results, a tuple of Variables."""
        if self.plan is None:
            return self.program.run(*inputs)
        from torchlite.jit.replay import Replay

        sources = [*inputs, *self.lam.captures]
        results = Replay.apply(self.plan, sources, *sources)
        return results if type(results) is tuple else (results,)


class Compiled:
    """A function that is replayed from its traces. See :func:`compile`."""

    def __init__(
        self, fn: Callable, check: bool = False, optimize: bool = True, locations: bool = False,
        cuda_graph: bool = False,
    ):
        if not callable(fn):
            raise TypeError(f"jit.compile: argument 'fn' must be callable, not {type(fn).__name__}")
        self._fn, self._check, self._optimize, self._locations = fn, check, optimize, locations
        self._cuda_graph = cuda_graph
        self._around = _modules_around(fn)
        self._cache: OrderedDict[Any, _Entry] = OrderedDict()
        if _is_module(fn):
            self.__doc__ = fn.__doc__
        else:
            functools.update_wrapper(self, fn)

    # ---- calling ----

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if _C._tracer_depth():  # part of another trace: inlined there, and nothing of it is kept here
            return self._fn(*args, **kwargs)
        entry, inputs = self._entry(args, kwargs)
        if self._check:
            state = random_states()
        outputs = self._launch(entry, inputs) if self._cuda_graph else entry.run(inputs)
        if self._check:
            self._compare(entry, outputs, args, kwargs, state)
        return outputs[0] if entry.single else unflatten(entry.spec, iter(outputs))

    def _launch(self, entry: _Entry, inputs: list) -> tuple:
        """The results by one launch of a CUDA graph, where all lies on one device."""
        from torchlite.jit.graphs import replay_on_device

        sources = [*inputs, *entry.lam.captures]
        capture = replay_on_device(entry.capture, entry.lam, sources, entry.n_arguments, self._optimize)
        if capture is None:
            return entry.run(inputs)
        entry.capture = capture
        return capture.run(sources)

    def _entry(self, args: tuple, kwargs: dict) -> tuple[_Entry, list]:
        try:
            key, inputs, kept = _trace_key(self._around(), args, kwargs)
        except TypeError:
            flatten((args, kwargs), [], "arguments of a jit function", True)  # says it better
            raise
        entry = self._cache.get(key)
        if entry is None:
            leaves: list = []
            spec = flatten(args, leaves, "arguments of a jit function", True)
            named = flatten(kwargs, leaves, "arguments of a jit function", True) if kwargs else None
            entry = self._trace(spec, named, inputs, len(leaves))
            entry.kept = kept
            entry.n_arguments = len(leaves)
            if len(self._cache) >= MAX_TRACES:
                name = getattr(self._fn, "__qualname__", type(self._fn).__qualname__)
                warnings.warn(
                    f"{name} was traced for more than {MAX_TRACES} kinds of arguments: if a Python number among them "
                    "or an attribute of a Module changes at each call, pass it as a Variable",
                    stacklevel=3,
                )
                self._cache.popitem(last=False)
            self._cache[key] = entry
        return entry, inputs

    def _trace(self, spec: Any, named: Any, inputs: list, n_arguments: int) -> _Entry:
        aliases = [alias(v) for v in inputs[:n_arguments]]
        versions = [v._version for v in aliases]
        out_spec: Any = None

        def call():
            nonlocal out_spec
            leaves = iter(aliases)
            args = unflatten(spec, leaves)
            kwargs = unflatten(named, leaves) if named is not None else {}
            outputs: list = []
            out_spec = flatten(self._fn(*args, **kwargs), outputs, "results of a jit function")
            return tuple(outputs)

        lam = record(call, [*aliases, *inputs[n_arguments:]], self._locations)
        for i, (v, version) in enumerate(zip(aliases, versions, strict=True)):
            if v._version != version:
                where = (paths(spec) + (paths(named) if named is not None else []))[i]
                raise RuntimeError(
                    f"a jit function may not write its arguments in place, but argument {where} was: return the new "
                    "value instead"
                )
        if not self._optimize:
            return _Entry(lam, _C.Program(lam), out_spec)
        sources = [*inputs, *lam.captures]
        gradients = (
            _C._is_grad_enabled() and any(v.requires_grad for v in sources) and not any(v.volatile for v in sources)
        )
        entry = _Entry(lam, _C.Program(optimize(lam, gradients)), out_spec)
        if gradients:
            from torchlite.jit.replay import plan_replay

            entry.plan = plan_replay(lam, sources)
        return entry

    def _compare(self, entry: _Entry, outputs: tuple, args: tuple, kwargs: dict, state: Any) -> None:
        leaves: list = []
        spec = flatten((args, kwargs), leaves, "arguments of a jit function", True)
        again_args, again_kwargs = unflatten(spec, iter([alias(v) for v in leaves]))
        eager: list = []
        with without_effects():
            restore_random(state)
            eager_spec = flatten(self._fn(*again_args, **again_kwargs), eager, "results of a jit function")
        if eager_spec != entry.spec:
            raise RuntimeError("jit check: run eagerly, the function returns another structure than its trace")
        for path, ours, theirs in zip(paths(entry.spec), outputs, eager, strict=True):
            a, b = ours.data.cpu().numpy(), theirs.data.cpu().numpy()
            same = a.shape == b.shape and a.dtype == b.dtype
            if not same or not ((a == b) | ((a != a) & (b != b))).all():
                raise RuntimeError(
                    f"jit check: result{path} differs from the eager one: the replay gives\n{ours}\n"
                    f"and the function\n{theirs}\nDoes it branch on the value of a Variable, or keep state?"
                )

    # ---- looking ----

    def lambda_for(self, *args: Any, **kwargs: Any) -> Any:
        """The Lambda that a call with these arguments replays, before optimisation; traced if it wasn't yet."""
        return self._entry(args, kwargs)[0].lam

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """The same, to be printed: its text is the trace."""
        return self.lambda_for(*args, **kwargs)

    # ---- standing in for what it wraps ----

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_fn" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._fn, name)

    def __repr__(self) -> str:
        return f"jit of {self._fn!r}"


def compile(
    fn: Callable | None = None, *, check: bool = False, optimize: bool = True, locations: bool = False,
    cuda_graph: bool = False,
) -> Any:
    """A function with the results of ``fn`` that replays traces of it; usable as a decorator.

    The first call with arguments of some kind traces ``fn`` and later ones replay the trace. The kind is: how tuples,
    lists and dicts nest, the value of Python constants, and of each Variable the type, device, sizes, ``requires_grad``
    and ``volatile``; whether gradients are enabled; and of each Module that ``fn`` reaches (it is one, a bound method
    of one, takes one, or has one in its closure or globals) the plain attributes, ``training`` among them. The
    parameters of these Modules are implicit inputs, read at each call, tied ones once. Other Variables from outside are
    captured: each run reads their current data.

    A trace knows no Python: branches go the way that they went while tracing (``float(v)``, ``v.item()``, ``v.numpy()``
    and their like on a traced Variable or its data give a RuntimeWarning that names the line), and what isn't an
    operation on Variables (a print, a write to ``.data``, a NumPy call) happens only then. A Variable that ``fn`` makes
    itself is a constant; one that it makes from the ``.data`` of a traced Variable is an error, as ``detach()`` is what
    is meant. With ``check`` each call also runs ``fn`` itself and raises RuntimeError, naming the first result that
    differs.

    Called while something else is being traced, ``fn`` becomes a part of that. TypeError for arguments or results of
    another kind; RuntimeError if ``fn`` writes an argument in place. Without ``optimize`` the trace is replayed as it
    is; with ``locations`` each line of it knows its line of Python.

    With ``cuda_graph`` a call whose Variables all lie on one CUDA device is captured into a CUDA graph and launched
    as one, and so is its backward; again where a parameter has other memory. Results are new tensors. On the host, or
    where arguments lie in several places, the trace is replayed as usual. RuntimeError for a function that the host
    has to take part in: one that draws random numbers, calls a Python Function or has results whose size is in the
    data.
    """
    if fn is None:
        return functools.partial(
            compile, check=check, optimize=optimize, locations=locations, cuda_graph=cuda_graph)
    return Compiled(fn, check, optimize, locations, cuda_graph)


jit = compile


def trace(
    fn: Callable, *args: Any, check: bool = False, optimize: bool = True, locations: bool = False,
    cuda_graph: bool = False,
) -> Any:
    """:func:`compile`; with example arguments ``args`` the trace for their kind is made at once."""
    compiled = Compiled(fn, check, optimize, locations, cuda_graph)
    if args:
        compiled.lambda_for(*args)
    return compiled
