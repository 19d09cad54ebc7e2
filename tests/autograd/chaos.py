"""A random program against the engine: ``python chaos.py SEED STEPS THREADS SIZE``.

Graphs of operations and Functions are built and run while hooks, forwards, backwards and finalizers do what they
please in the middle: they assign data, grads, flags and hooks, cut and write Variables, run backward again, collect
garbage, drop the last references or raise. Errors are fine; a crash, a SystemError, a hang, or an object that is left
when all is over is a fault. The last line of output is the number of objects and of blocks of memory that are left.
"""

import gc
import random
import sys
import threading
import weakref

import numpy as np

import torchlite
from torchlite import _C
from torchlite.autograd import Function, Variable, backward, grad, no_grad, once_differentiable

ERRORS = (RuntimeError, TypeError, ValueError, IndexError, AttributeError, AssertionError)
local = threading.local()


class Planned(Exception):
    pass


class World:
    """What one thread works on: a random stream, a pool of Variables and things that it keeps alive."""

    def __init__(self, seed, size, pool=None):
        self.random, self.size, self.depth, self.kept = random.Random(seed), size, 0, []
        self.pool = [self.new() for _ in range(5)] if pool is None else pool

    def new(self):
        cls = Derived if self.random.random() < 0.3 else Variable
        return cls(np.full(self.size, self.random.uniform(-1, 1)), requires_grad=self.random.random() < 0.8)

    def pick(self):
        return self.random.choice(self.pool)

    def put(self, v):
        if isinstance(v, Variable) and tuple(v.size()) == (self.size,):
            self.pool[self.random.randrange(len(self.pool))] = v

    def ones(self):
        return np.ones(self.size)

    def interfere(self):
        if self.depth > 3:
            return
        self.depth += 1
        try:
            for _ in range(self.random.randrange(3)):
                try:
                    self.random.choice(ACTIONS)(self, self.pick())
                except ERRORS:
                    pass
        finally:
            self.depth -= 1


class Derived(Variable):
    def __del__(self):
        pass


class Dying:
    """Interferes when it is freed."""

    def __init__(self, world):
        self.world = weakref.ref(world)

    def __del__(self):
        world = self.world()
        if world is not None:
            try:
                world.interfere()
            except Planned:
                pass


def hook(world):
    def run(gradient):
        world.interfere()
        choice = world.random.random()
        if choice < 0.1:
            world.put(gradient)
        return gradient * 2 if gradient is not None and 0.1 < choice < 0.3 else None

    return run


def function_hook(world):
    def run(inputs, outputs):
        world.interfere()
        if world.random.random() < 0.2:
            return tuple(None if g is None else g * 1 for g in inputs)

    return run


def leaf_below(v):
    f = v.grad_fn
    while f.next_functions and f.next_functions[0][0] is not None:
        f = f.next_functions[0][0]
    return [f, getattr(f, "variable", None)]


def planned(world, v):
    raise Planned


def written_without_history(world, v):
    with no_grad():
        v.sub_(0.1)


ACTIONS = [
    planned,
    written_without_history,
    lambda w, v: setattr(v, "grad", None),
    lambda w, v: setattr(v, "grad", w.pick()),
    lambda w, v: setattr(v, "data", torchlite.DoubleTensor(w.size).fill_(1)),
    lambda w, v: setattr(v, "requires_grad", w.random.random() < 0.5),
    lambda w, v: setattr(v, "volatile", w.random.random() < 0.5),
    lambda w, v: setattr(v, "_grad_fn", None),
    lambda w, v: setattr(v, "_backward_hooks", w.random.choice([None, {0: hook(w)}])),
    lambda w, v: setattr(v, "ring", [v, w.pick(), Dying(w)]),
    lambda w, v: setattr(v.grad_fn, "requires_grad", w.random.random() < 0.5),
    lambda w, v: setattr(v.grad_fn, "ring", [v, Dying(w)]),
    lambda w, v: v.detach_(),
    lambda w, v: v.add_(1),
    lambda w, v: v.mul_(w.pick()),
    lambda w, v: v.__setitem__(0, 1.0),
    lambda w, v: v.register_hook(hook(w)),
    lambda w, v: v.retain_grad(),
    lambda w, v: v.grad_fn.register_hook(function_hook(w)),
    lambda w, v: v.grad_fn.saved_variables,
    lambda w, v: v.backward(w.ones(), retain_graph=w.random.random() < 0.5),
    lambda w, v: v.backward(Variable(w.ones()), create_graph=True),
    lambda w, v: backward([v, w.pick()], [w.ones()] * 2, retain_graph=True),
    lambda w, v: grad(v, w.pick(), w.ones(), retain_graph=w.random.random() < 0.5),
    lambda w, v: grad(v, w.pick(), w.ones(), create_graph=True, only_inputs=False),
    lambda w, v: Variable._execution_engine.queue_callback(w.interfere),
    lambda w, v: Variable(v.data, _grad_fn=v.grad_fn),
    lambda w, v: gc.collect(w.random.randrange(3)),
    lambda w, v: w.kept.append(v),
    lambda w, v: w.kept.extend(leaf_below(v)),
    lambda w, v: w.kept.clear(),
    lambda w, v: w.put(w.new()),
    lambda w, v: w.put(v.grad),
    lambda w, v: w.put(v.detach()),
    lambda w, v: w.put(w.random.choice(OPERATIONS)(w.pick(), w.pick())),
]


class Product(Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        local.world.interfere()
        return a * b

    @staticmethod
    def backward(ctx, g, *others):
        local.world.interfere()
        a, b = ctx.saved_variables
        local.world.interfere()
        return g * b, g * a


class Exponential(Function):
    @staticmethod
    def forward(ctx, a):
        y = a.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, g, *others):
        local.world.interfere()
        return g * ctx.saved_tensors[0]


class Increment(Function):
    @staticmethod
    def forward(ctx, a):
        a.add_(1)
        local.world.interfere()
        ctx.mark_dirty(a)
        ctx.save_for_backward(a)
        return a

    @staticmethod
    def backward(ctx, g, *others):
        local.world.interfere()
        return g


class Three(Function):
    @staticmethod
    def forward(ctx, a):
        ctx.save_for_backward(a)
        return a * 1, a * 2, a

    @staticmethod
    def backward(ctx, f, g, h, *others):
        local.world.interfere()
        return f + g * 2 + h


class OldProduct(Function):
    def forward(self, a, b):
        self.save_for_backward(a, b)
        local.world.interfere()
        return a * b

    def backward(self, g, *others):
        local.world.interfere()
        a, b = self.saved_tensors
        return g * b, g * a


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: a * b,
    lambda a, b: a * a * a,
    lambda a, b: a / (b * b + 1),
    lambda a, b: (a * 0.3) ** 2,
    lambda a, b: a.tanh(),
    lambda a, b: (a * 2).tanh_().add_(b),
    lambda a, b: a.view(-1, 1).expand(a.numel(), 2).sum(1),
    lambda a, b: torchlite.cat([a, b])[: a.numel()],
    lambda a, b: torchlite.stack([a, b]).max(0)[0],
    lambda a, b: Product.apply(a, b),
    lambda a, b: Exponential.apply(a * 0.1),
    lambda a, b: Increment.apply(a),
    lambda a, b: Three.apply(a)[0],
    lambda a, b: Three.apply(a)[2],
    lambda a, b: OldProduct()(a, b),
    lambda a, b: _C._functions.DelayedError("delayed")(a),
]


def run(world, steps, refresh):
    local.world = world
    r = world.random
    for i in range(steps):
        try:
            v = r.choice(OPERATIONS)(world.pick(), world.pick())
            world.put(v)
            world.interfere()
            if r.random() < 0.4:
                v.backward(world.ones(), retain_graph=r.random() < 0.6)
        except (Planned, *ERRORS):
            pass
        if refresh and i % 25 == 0:
            world.pool[:] = [world.new() for _ in range(5)]
    local.world = None


def main(seed, steps, threads, size):
    if seed % 2:
        gc.set_threshold(5, 2, 2)
    sys.setrecursionlimit(500)
    if threads == 1:
        run(World(seed, size), steps, True)
    else:
        sys.setswitchinterval(1e-5)
        shared = World(seed, size).pool
        workers = [threading.Thread(target=run, args=(World(seed * 100 + t, size, shared), steps, False))
                   for t in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        del workers, worker, shared
    for _ in range(3):
        gc.collect()
    kinds = (_C._VariableBase, _C._FunctionBase, _C._functions.Node)
    print(sum(isinstance(o, kinds) for o in gc.get_objects()), _C._memory_stats()["allocated_blocks"])


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
