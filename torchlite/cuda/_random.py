"""Random numbers on devices: Philox4x32-10, the very numbers that the host's generator draws for the same seed.

A device has one generator: a seed and a count of blocks, both on the host, so that drawing needs no transfer. A block
is four words; words are used in groups of 16 blocks, word w of block b of a group at [16 w + b].
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np

from torchlite import _C
from torchlite.cuda import _kernels, _library

LANES = 16
GROUP_WORDS = 4 * LANES


class Generator:
    """The state of one device's generator."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.counter = 0  # blocks of 128 bits consumed

    def advance(self, groups: int) -> int:
        """Uses up ``groups`` groups; returns the first block of them."""
        first = self.counter
        self.counter = (first + groups * LANES) % 2**64
        return first


_generators: dict[int, Generator] = {}
_first_seed = 0


def generator(device: int) -> Generator:
    return _generators.setdefault(device, Generator(_first_seed))


def _generator_of(xp: Any) -> Generator:
    return generator(xp.cuda.runtime.getDevice())


def states() -> dict[int, tuple[int, int]]:
    """The states of the generators that have been used, by device."""
    return {device: (g.seed, g.counter) for device, g in _generators.items()}


def restore(states: dict[int, tuple[int, int]]) -> None:
    """Puts all generators back into :func:`states`; one that was new then is new again."""
    for device in set(_generators) - set(states):
        del _generators[device]
    for device, (seed, counter) in states.items():
        g = generator(device)
        g.seed, g.counter = seed, counter


# ---- the package's functions -----------------------------------------------------------------------------------------


def _current(device: int = -1) -> Generator:
    return generator(_library.connect().cuda.runtime.getDevice() if device < 0 else device)


def manual_seed(seed: int) -> None:
    """Makes what is drawn on the current device from now on depend on ``seed`` alone; ignored without CUDA."""
    if not _usable():
        return
    g = _current()
    g.seed, g.counter = int(seed) % 2**64, 0


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices; ignored without CUDA."""
    global _first_seed
    if not _usable():
        return
    _first_seed = int(seed) % 2**64
    _generators.clear()


def seed() -> None:
    """Seeds the generator of the current device from the system's entropy."""
    manual_seed(int.from_bytes(os.urandom(8), "little"))


def seed_all() -> None:
    """Seeds the generators of all devices from the system's entropy, alike."""
    manual_seed_all(int.from_bytes(os.urandom(8), "little"))


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _current().seed


def get_rng_state(device: int = -1) -> Any:
    """The state of a device's generator (-1: the current device), a ByteTensor of 16 bytes on the host."""
    g = _current(device)
    return _C.from_numpy(np.array([g.seed, g.counter], np.uint64).view(np.uint8))


def set_rng_state(new_state: Any, device: int = -1) -> None:
    """Puts a device's generator into a state that :func:`get_rng_state` returned."""
    if new_state.numel() != 16:
        raise ValueError(f"set_rng_state: a state has 16 bytes, but got {new_state.numel()}")
    g = _current(device)
    g.seed, g.counter = (int(v) for v in new_state.contiguous().numpy().view(np.uint64))


def _usable() -> bool:
    from torchlite.cuda._streams import is_available

    return is_available()


# ---- words -----------------------------------------------------------------------------------------------------------


def words(xp: Any, groups: int, source: Generator) -> Any:
    """(groups, 64) words, uint32."""
    first = source.advance(groups)
    if _kernels.compiles(xp):
        return _kernels.words(xp, groups, source.seed, first)
    low_mask = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    block = xp.arange(groups * LANES, dtype=np.uint64) + np.uint64(first)
    x0, x1 = block & low_mask, block >> shift
    x2 = x3 = xp.zeros_like(x0)
    k0, k1 = source.seed & 0xFFFFFFFF, source.seed >> 32 & 0xFFFFFFFF
    for _ in range(10):
        a, b = x0 * np.uint64(0xD2511F53), x2 * np.uint64(0xCD9E8D57)
        x0, x1, x2, x3 = (
            (b >> shift) ^ x1 ^ np.uint64(k0), b & low_mask, (a >> shift) ^ x3 ^ np.uint64(k1), a & low_mask
        )
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    grouped = [x.reshape(groups, LANES) for x in (x0, x1, x2, x3)]
    return xp.concatenate(grouped, axis=1).astype(np.uint32)


def _groups(n: int, each: int) -> int:
    return (n + each - 1) // each


def _one_to_two(xp: Any, high: Any, low: Any) -> Any:
    bits = (high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)) >> np.uint64(12)
    return (bits | np.uint64(0x3FF0000000000000)).view(np.float64)


def _unit(xp: Any, w: Any) -> Any:
    return (w >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)


def _wide(kind: Any) -> Any:
    return np.float32 if np.dtype(kind) in (np.float16, np.float32) else np.float64


def uniform(
    xp: Any, shape: tuple[int, ...], kind: Any, low: float, high: float, source: Generator | None = None
) -> Any:
    """Uniform in [low, high)."""
    n = math.prod(shape)
    kind = _wide(kind)
    source = source or _generator_of(xp)
    if kind is np.float32:
        u = _unit(xp, words(xp, _groups(n, GROUP_WORDS), source)).reshape(-1)[:n]
    else:
        w = words(xp, _groups(n, GROUP_WORDS // 2), source)
        u = (_one_to_two(xp, w[:, :GROUP_WORDS // 2], w[:, GROUP_WORDS // 2:]) - 1.0).reshape(-1)[:n]
    low, high = kind(low), kind(high)
    v = low + (high - low) * u
    return xp.where(v < high, v, low).astype(kind).reshape(shape)


def normal(xp: Any, shape: tuple[int, ...], kind: Any, mean: float, std: float, source: Generator | None = None) -> Any:
    """Normal numbers by Box and Muller's transform."""
    n = math.prod(shape)
    kind = _wide(kind)
    source = source or _generator_of(xp)
    if kind is np.float32:
        w = words(xp, _groups(n, GROUP_WORDS), source)
        half = GROUP_WORDS // 2
        u = (w[:, :half] >> np.uint32(1) | np.uint32(1)).astype(np.float32) * np.float32(2**-31)
        t = _unit(xp, w[:, half:])
    else:
        w = words(xp, _groups(n, GROUP_WORDS // 2), source)
        parts = [w[:, k * LANES:(k + 1) * LANES] for k in range(4)]
        u = 2.0 - _one_to_two(xp, parts[0], parts[1])
        t = _one_to_two(xp, parts[2], parts[3]) - 1.0
    radius = xp.sqrt(kind(-2) * xp.log(u))
    angle = kind(2 * math.pi) * t
    z = xp.concatenate([radius * xp.cos(angle), radius * xp.sin(angle)], axis=1).reshape(-1)[:n]
    return (kind(mean) + kind(std) * z).astype(kind).reshape(shape)


def bernoulli(
    xp: Any, shape: tuple[int, ...], kind: Any, p: float, value: float, source: Generator | None = None
) -> Any:
    """``value`` with probability p, else 0; p is resolved to 2^-32."""
    n = math.prod(shape)
    source = source or _generator_of(xp)
    w = words(xp, _groups(n, GROUP_WORDS), source).reshape(-1)[:n]
    hits = min(int(min(max(p, 0.0), 1.0) * 2.0**32 + 0.5), 2**32)
    kind = _wide(kind)
    if hits == 0:
        return xp.zeros(shape, kind)
    return xp.where(w <= np.uint32(hits - 1), kind(value), kind(0)).astype(kind).reshape(shape)


def dropout_mask(xp: Any, shape: tuple[int, ...], kind: Any, p: float) -> Any:
    """0 with probability p, else 1 / (1 - p)."""
    kept = 1.0 - p
    return bernoulli(xp, shape, kind, kept, 1.0 / kept if kept else 0.0).astype(kind)


# ---- tensors' methods ------------------------------------------------------------------------------------------------


# The extension calls them with parameters that it has checked.


def _fill(tensor: Any, draw: Any) -> Any:
    """``tensor`` with the array ``draw(xp, shape, dtype)`` in it."""
    cupy = _library.connect()
    with cupy.cuda.Device(tensor.get_device()):
        drawn = draw(cupy, tuple(tensor.size()), tensor.dtype)
        return tensor.copy_(_C._from_cupy(drawn.astype(tensor.dtype)))


def uniform_(self: Any, low: float, high: float) -> Any:
    return _fill(self, lambda xp, shape, kind: uniform(xp, shape, kind, low, high))


def normal_(self: Any, mean: float, std: float) -> Any:
    return _fill(self, lambda xp, shape, kind: normal(xp, shape, kind, mean, std))


def log_normal_(self: Any, mean: float, std: float) -> Any:
    return _fill(self, lambda xp, shape, kind: xp.exp(normal(xp, shape, kind, mean, std)))


def bernoulli_(self: Any, p: Any) -> Any:
    """``p`` is a number, or a tensor on the device, whose elements are not looked at: the host would wait."""
    if isinstance(p, _C._TensorBase):
        each = p.contiguous().cupy()
        return _fill(self, lambda xp, shape, kind: uniform(xp, shape, kind, 0, 1) < each.reshape(shape))
    return _fill(self, lambda xp, shape, kind: bernoulli(xp, shape, kind, p, 1))


def _open_unit(xp: Any, shape: tuple[int, ...], kind: Any) -> Any:
    """u in (0, 1]: its logarithm is finite."""
    return 1 - uniform(xp, shape, kind, 0, 1)


def exponential_(self: Any, lambd: float) -> Any:
    return _fill(self, lambda xp, shape, kind: -xp.log(_open_unit(xp, shape, kind)) / lambd)


def cauchy_(self: Any, median: float, sigma: float) -> Any:
    return _fill(self, lambda xp, shape, kind: median + sigma * xp.tan(math.pi * (_open_unit(xp, shape, kind) - 0.5)))


def geometric_(self: Any, p: float) -> Any:
    return _fill(self, lambda xp, shape, kind: xp.floor(xp.log(_open_unit(xp, shape, kind)) / math.log1p(-p)) + 1)


def random_(self: Any, low: int, span: int) -> Any:
    """Whole numbers in [low, low + span)."""

    def draw(xp: Any, shape: tuple[int, ...], kind: Any) -> Any:
        n = math.prod(shape)
        w = words(xp, _groups(n, GROUP_WORDS // 2), _generator_of(xp))
        bits = w[:, :GROUP_WORDS // 2].astype(np.uint64) << np.uint64(32) | w[:, GROUP_WORDS // 2:].astype(np.uint64)
        # 63 bits modulo the span: for spans far below 2^63 no result is noticeably likelier than another.
        below = (bits.reshape(-1)[:n] >> np.uint64(1)) % np.uint64(span)
        return (below.astype(np.int64) + low).reshape(shape)

    return _fill(self, draw)
