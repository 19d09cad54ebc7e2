"""What is measured, written once for torchlite and for PyTorch, and a worker that measures it on request.

`workloads.py BACKEND THREADS` reads the name of a workload a line and answers each with one sample as JSON. The worker
lives for the whole run so that samples of several backends can be taken in turns, each of them warm."""

import json
import os
import resource
import sys
import time
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

Sample = Callable[[], float]
WORKLOADS: dict[str, Callable[["Library"], Sample]] = {}


class Library:
    """A backend behind the few names that differ."""

    def __init__(self, name: str, threads: int):
        self.name = name
        if name == "torch":
            import torch
            from torch import nn, optim
            from torch.nn import functional

            torch.set_num_threads(threads)
            self.Function, self.clip = torch.autograd.Function, nn.utils.clip_grad_norm_
        else:
            import torchlite as torch
            from torchlite import nn, optim
            from torchlite.nn import functional

            self.Function, self.clip = torch.autograd.Function, nn.utils.clip_grad_norm
        self.module, self.nn, self.optim, self.functional = torch, nn, optim, functional

    def tensor(self, array):
        return self.module.from_numpy(array)

    def variable(self, array, requires_grad=False):
        if self.name == "torch":
            return self.tensor(array).requires_grad_(requires_grad)
        return self.module.Variable(self.tensor(array), requires_grad=requires_grad)


def workload(function):
    WORKLOADS[function.__name__] = function
    return function


def seconds(statement, scope, at_least=0.02) -> Sample:
    """Samples of the seconds that `statement` takes; each sample repeats it for at least that long."""
    timer = timeit.Timer(statement, setup="import gc; gc.enable()", globals=scope)
    count = 1
    while (taken := timer.timeit(count)) < at_least:
        count = max(2 * count, int(1.2 * count * at_least / max(taken, 1e-7)))
    return lambda: timer.timeit(count) / count


def pair(library, size=1):
    ones = np.ones(size, "f4")
    return library.variable(ones, True), library.variable(ones.copy(), True)


def tiny(operator, size):
    def make(library):
        x, y = pair(library, size)
        return seconds(f"x {operator} y", {"x": x, "y": y})

    return make


for operator, title in (("+", "add"), ("*", "mul")):
    for size in (1, 100):
        WORKLOADS[f"{title}_{size}"] = tiny(operator, size)


@workload
def mul_backward(library):
    x, y = pair(library)
    return seconds("(x * y).backward(g)", {"x": x, "y": y, "g": library.tensor(np.ones(1, "f4"))})


@workload
def chain_100_per_op(library):
    x, y = pair(library)
    gradient = library.tensor(np.ones(1, "f4"))

    def chain():
        z = x
        for _ in range(100):
            z = z * y
        z.backward(gradient)

    sample = seconds("chain()", {"chain": chain})
    return lambda: sample() / 100


@workload
def python_function(library):
    class Multiply(library.Function):
        @staticmethod
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a * b

    x, y = pair(library)
    return seconds("multiply(x, y)", {"multiply": Multiply.apply, "x": x, "y": y})


@workload
def mlp_step(library):
    nn, functional = library.nn, library.functional
    random = np.random.RandomState(0)

    class Perceptron(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.third = nn.Linear(784, 256), nn.Linear(256, 128), nn.Linear(128, 10)

        def forward(self, x):
            return self.third(functional.relu(self.second(functional.relu(self.first(x)))))

    model = Perceptron()
    optimiser = library.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    x = library.variable(random.randn(64, 784).astype("f4"))
    y = library.variable(random.randint(0, 10, 64))

    def step():
        optimiser.zero_grad()
        functional.cross_entropy(model(x), y).backward()
        optimiser.step()

    return seconds("step()", {"step": step}, at_least=0.1)


@workload
def language_model_step(library):
    nn, functional = library.nn, library.functional
    random = np.random.RandomState(0)
    vocabulary, units, layers, bptt, batch = 10_000, 200, 2, 35, 20

    class LanguageModel(nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = nn.Dropout(0.2)
            self.encoder = nn.Embedding(vocabulary, units)
            self.lstm = nn.LSTM(units, units, layers, dropout=0.2)
            self.decoder = nn.Linear(units, vocabulary)

        def forward(self, words, state):
            output, state = self.lstm(self.dropout(self.encoder(words)), state)
            return self.decoder(self.dropout(output).view(-1, units)), state

    model = LanguageModel()
    parameters = list(model.parameters())
    words = library.variable(random.randint(0, vocabulary, (bptt, batch)))
    targets = library.variable(random.randint(0, vocabulary, bptt * batch))
    state = [library.variable(np.zeros((layers, batch, units), "f4")) for _ in range(2)]

    def step():
        for parameter in parameters:
            parameter.grad = None
        output, last = model(words, tuple(state))
        functional.cross_entropy(output, targets).backward()
        library.clip(parameters, 0.25)
        for parameter in parameters:
            parameter.data.add_(parameter.grad.data, alpha=-1.0) if library.name == "torch" else (
                parameter.data.add_(-1.0, parameter.grad.data))
        state[:] = [part.detach() for part in last]

    step()
    return seconds("step()", {"step": step}, at_least=0.5)


class Cell:
    """An LSTM cell of 32 units unrolled over 35 steps at batch 1, as a trace of each library's own."""

    def __init__(self, library):
        nn = library.nn

        class Unrolled(nn.Module):
            def __init__(self):
                super().__init__()
                self.cell = nn.LSTMCell(32, 32)

            def forward(self, x, h, c):
                for t in range(35):
                    h, c = self.cell(x[t], (h, c))
                return h

        self.model, random = Unrolled(), np.random.RandomState(0)
        self.arrays = [random.randn(35, 1, 32).astype("f4"), np.zeros((1, 32), "f4"), np.zeros((1, 32), "f4")]
        self.library = library

    def traced(self, args):
        if self.library.name == "torch":
            return self.library.module.jit.trace(self.model, args, check_trace=False)
        return self.library.module.jit.trace(self.model, *args)


@workload
def traced_cell(library):
    cell = Cell(library)
    volatile = {} if library.name == "torch" else {"volatile": True}
    args = [library.module.Variable(library.tensor(a), **volatile) if volatile else library.variable(a)
            for a in cell.arrays]
    with library.module.no_grad():
        traced = cell.traced(args)
        for _ in range(5):
            traced(*args)

    def many():
        with library.module.no_grad():
            for _ in range(20):
                traced(*args)

    sample = seconds("many()", {"many": many})
    return lambda: sample() / 20


@workload
def traced_cell_backward(library):
    cell = Cell(library)
    args = [library.variable(a) for a in cell.arrays]
    traced = cell.traced(args)
    for _ in range(5):
        traced(*args).sum().backward()
    return seconds("traced(*args).sum().backward()", {"traced": traced, "args": args})


@workload
def tiny_step(library):
    """16-16-1, batch 8: eager in PyTorch, compiled here."""
    nn, loss = library.nn, library.functional.mse_loss
    random = np.random.RandomState(0)
    model = nn.Sequential(nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
    optimiser = library.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    x, y = (library.variable(random.randn(8, n).astype("f4")) for n in (16, 1))

    def eager():
        optimiser.zero_grad()
        loss(model(x), y).backward()
        optimiser.step()

    if library.name == "torch":
        return seconds("eager()", {"eager": eager})
    step = library.module.jit.compile_step(model, loss, optimiser)
    return seconds("step(x, y)", {"step": step, "x": x, "y": y})


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def deep(library, length=1_000_000) -> dict[str, float]:
    """Builds, runs backward and frees a chain of `length` additions, once; run it in a process of its own."""
    x = library.variable(np.ones(1, "f4"), True)
    (x + x).backward(library.tensor(np.ones(1, "f4")))
    before, start = peak_megabytes(), time.perf_counter()
    z = x
    for _ in range(length):
        z = z + 1.0
    z.backward(library.tensor(np.ones(1, "f4")))
    del z
    return {"seconds": time.perf_counter() - start, "megabytes": peak_megabytes() - before}


def answer(library: Library, request: str, made: dict[str, Sample]) -> Any:
    if request == "deep":
        return deep(library)
    if request not in made:
        made[request] = WORKLOADS[request](library)
        made[request]()
    return made[request]()


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    library = Library(name, threads)
    made: dict[str, Sample] = {}
    for line in sys.stdin:
        try:
            print(json.dumps(answer(library, line.strip(), made)), flush=True)
        except Exception as error:  # the caller prints it beside the workload and goes on
            print(json.dumps({"error": f"{type(error).__name__}: {error}"}), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
