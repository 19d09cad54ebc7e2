"""CUDA tensors over CuPy.

Nothing here imports CuPy before a device is asked for. Tensors take their memory from CuPy's pools and are computed by
its functions, on its current device and stream.
"""

from __future__ import annotations

import importlib
from typing import Any

from torchlite import _C
from torchlite.cuda import _library
from torchlite.cuda._random import (
    get_rng_state,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
)
from torchlite.cuda._streams import (
    Event,
    Stream,
    current_device,
    current_stream,
    device,
    device_count,
    device_of,
    empty_cache,
    is_available,
    memory_allocated,
    memory_cached,
    set_device,
    stream,
    synchronize,
)
from torchlite.cuda._transfer import from_cupy

(ByteTensor, CharTensor, ShortTensor, IntTensor, LongTensor, HalfTensor, FloatTensor, DoubleTensor) = (
    _C._cuda_tensor_classes
)
(ByteStorage, CharStorage, ShortStorage, IntStorage, LongStorage, HalfStorage, FloatStorage, DoubleStorage) = (
    _C._cuda_storage_classes
)

__all__ = [
    "ByteStorage", "ByteTensor", "CharStorage", "CharTensor", "DoubleStorage", "DoubleTensor", "Event", "FloatStorage",
    "FloatTensor", "HalfStorage", "HalfTensor", "IntStorage", "IntTensor", "LongStorage", "LongTensor", "ShortStorage",
    "ShortTensor", "Stream", "current_device", "current_stream", "device", "device_count", "device_of", "empty_cache",
    "from_cupy", "get_rng_state", "initial_seed", "is_available", "manual_seed", "manual_seed_all", "memory_allocated",
    "memory_cached", "seed", "seed_all", "set_device", "set_rng_state", "stream", "synchronize",
]


def __getattr__(name: str) -> Any:
    if name in ("comm", "sparse"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _connect() -> None:
    _library.connect()
