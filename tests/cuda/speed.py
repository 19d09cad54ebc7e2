"""The host's cost of a tiny operation beside CuPy's own call, and of a training step: prints lines ``what | value``."""

from __future__ import annotations

import time
from collections.abc import Callable

import cupy
import numpy as np

import torchlite
from torchlite import Variable, cuda, nn, optim


def microseconds(f: Callable[[], object], n: int = 2000) -> float:
    """The least of five means of the host's time; the device is waited for in between."""
    for _ in range(50):
        f()
    best = float("inf")
    for _ in range(5):
        cuda.synchronize()
        start = time.perf_counter()
        for _ in range(n):
            f()
        best = min(best, (time.perf_counter() - start) / n)
        cuda.synchronize()
    return best * 1e6


def tiny_operations() -> None:
    a, b = cupy.ones(8, np.float32), cupy.ones(8, np.float32)
    x, y = cuda.from_cupy(a), cuda.from_cupy(b)
    v, w = Variable(x, requires_grad=True), Variable(y)
    for name, bare, ours in (
        ("multiply", lambda: cupy.multiply(a, b), lambda: v * w),
        ("exp", lambda: cupy.exp(a), lambda: v.exp()),
        ("add", lambda: cupy.add(a, b), lambda: v + w),
    ):
        theirs, mine = microseconds(bare), microseconds(ours)
        print(f"{name}: CuPy {theirs:.2f} us, Variable {mine:.2f} us, more by | {mine - theirs:.2f} us (goal: 2)")


def training_step() -> None:
    model = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 10)).cuda()
    optimiser = optim.Adam(model.parameters(), lr=1e-3)
    x = Variable(cuda.FloatTensor(128, 256).normal_())
    target = Variable(cuda.LongTensor(128).random_(0, 10))
    criterion = nn.CrossEntropyLoss()

    def step() -> None:
        optimiser.zero_grad()
        criterion(model(x), target).backward()
        optimiser.step()

    for _ in range(20):
        step()
    start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
    start.record()
    begun = time.perf_counter()
    for _ in range(100):
        step()
    queued = time.perf_counter() - begun
    end.record()
    end.synchronize()
    print(f"training step: host | {queued * 1e4:.1f} us")
    print(f"training step: device, first to last kernel | {start.elapsed_time(end) * 10:.1f} us")


if __name__ == "__main__":
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    print(f"device | {properties['name'].decode()}")
    print(f"CuPy | {cupy.__version__}")
    print(f"torchlite | {torchlite.__version__}")
    tiny_operations()
    training_step()
