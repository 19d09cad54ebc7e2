"""A stand-in for CuPy over NumPy's memory, with pretend devices, addresses, pools, streams and events.

It is stricter than CuPy where that finds faults:

- Addresses lie where no memory is mapped, so C++ code that follows one of them crashes.
- An ndarray among the arguments is refused, and an array becomes an ndarray only by ``get``, which is counted.
- An array is used on its own device only, while that is current.
- Each stream has a clock of what it comes after. Reading what another stream has written, or writing what it has read
  or written, without an event in between raises ``Race``.
- Every call is noted with the device and the stream that were current.
- A solver that fails says so only under ``cupyx.errstate(linalg="raise")``; else its result is zeros.
- While a stream is captured, calls are recorded and do nothing: what they write holds no results before a launch.
  Transfers, waiting, other streams and events from outside are refused meanwhile. A launch refuses memory that has gone
  back to a pool that others draw from.

``make(devices)`` gives a module that can stand as ``cupy`` in ``sys.modules``.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import types
import weakref
from typing import Any, NamedTuple

import numpy as np
from standin_streams import Captured, Event, Graph, Stream


class Race(AssertionError):
    """Two streams use the same memory and nothing orders them."""


class Call(NamedTuple):
    name: str
    device: int
    stream: int


# Functions that CuPy does not have, or that wait for the device.
ABSENT = {"RawKernel", "RawModule", "ElementwiseKernel", "ReductionKernel", "__path__", "__file__", "__spec__"}
WAITING = {"nonzero", "bincount", "unique"}


class MemoryPool:
    def __init__(self, library: Library) -> None:
        self.library, self.used = library, 0

    def malloc(self, size: int) -> MemoryPointer:
        return MemoryPointer(Memory(self.library, size, self), 0)


class Memory:
    """A block of a device's pool, the default one or ``pool``."""

    def __init__(self, library: Library, size: int, pool: MemoryPool | None = None) -> None:
        self.library, self.size = library, size
        self.device_id = library.current_device()
        self.buffer = np.empty(max(size, 1) + 64, np.uint8)
        self.ptr = library.allocate(self.device_id, size) if size else 0
        self.writes: dict[tuple[int, int], int] = {}
        self.reads: dict[tuple[int, int], int] = {}
        if size:
            library.blocks[self.ptr] = self
        self.pool = None if pool is None else weakref.ref(pool)
        if pool is None:
            library.used[self.device_id] += size
        else:
            pool.used += size
        if (captured := library.captured()) is not None and size:
            captured.own.add(self.ptr)
            captured.buffers.append(self.buffer)

    @property
    def block(self) -> Memory:
        return self

    def __del__(self) -> None:
        if self.pool is None:
            self.library.used[self.device_id] -= self.size
        elif (pool := self.pool()) is not None:
            pool.used -= self.size


class UnownedMemory:
    def __init__(self, library: Library, ptr: int, size: int, owner: Any, device_id: int = -1) -> None:
        self.library, self.ptr, self.size, self._owner = library, ptr, size, owner
        self.device_id = library.current_device() if device_id < 0 else device_id

    @property
    def block(self) -> Any:
        return self.library.block_at(self.ptr)


class MemoryPointer:
    def __init__(self, mem: Any, offset: int) -> None:
        self.mem, self.ptr, self.device_id = mem, mem.ptr + offset, mem.device_id

    def copy_from_device_async(self, src: MemoryPointer, size: int, stream: Stream | None = None) -> None:
        """The bytes of another device."""
        library = self.mem.library
        if library.captured() is not None:
            raise RuntimeError("a copy between devices is not captured here")
        library.peer_copies += 1
        stream = stream or library.current_stream()
        library.launched("copy_from_device_async", stream, [src.mem.block], [self.mem.block])
        target, source = library.bytes_at(self, size), library.bytes_at(src, size)
        target[...] = source


class Device:
    def __init__(self, library: Library, device: int | None = None) -> None:
        self.library = library
        self.id = library.current_device() if device is None else int(device)
        self.previous: list[int] = []

    def __enter__(self) -> Device:
        self.previous.append(self.library.current_device())
        return self.use()

    def __exit__(self, *exc: object) -> None:
        self.library.set_device(self.previous.pop())

    def use(self) -> Device:
        self.library.set_device(self.id)
        return self

    def synchronize(self) -> None:
        self.library.waits()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self) -> int:
        return self.id


class Exported:
    """What stands for a DLPack capsule."""

    def __init__(self, array: Any, options: dict) -> None:
        self.array, self.options = array, options


class ndarray:  # noqa: N801 (CuPy's name)
    library: Library
    __array_priority__ = 100
    __array_ufunc__ = None

    def __init__(self, shape: Any, dtype: Any = float, memptr: MemoryPointer | None = None, strides: Any = None,
                 order: str = "C") -> None:
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.dtype = np.dtype(dtype)
        size = int(np.prod(shape, dtype=int)) * self.dtype.itemsize
        self.data = memptr or self.library.malloc(size)
        if strides is None:
            strides = np.lib.stride_tricks.as_strided(np.empty(0, self.dtype), shape).strides if 0 else _row_major(
                shape, self.dtype.itemsize)
        buffer, offset = self.library.locate(self.data)
        self.host = np.ndarray(shape, self.dtype, buffer, offset, strides)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy "
                        "array explicitly.")

    shape = property(lambda self: self.host.shape)
    strides = property(lambda self: self.host.strides)
    ndim = property(lambda self: self.host.ndim)
    size = property(lambda self: self.host.size)
    nbytes = property(lambda self: self.host.nbytes)
    itemsize = property(lambda self: self.host.itemsize)
    flags = property(lambda self: self.host.flags)
    device = property(lambda self: Device(self.library, self.data.device_id))
    T = property(lambda self: self.library.method("T", lambda a: a.T, self))

    @property
    def __cuda_array_interface__(self) -> dict:
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.data.ptr if self.size else 0, False),
                "version": 3, "strides": self.strides, "stream": self.library.current_stream().ptr or 1}

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self.data.device_id

    def __dlpack__(self, **options: Any) -> Any:
        return Exported(self, options)

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        self.library.to_host += 1
        self.library.launched("get", stream or self.library.current_stream(), [self.data.mem.block], [])
        if out is None:
            return self.host.copy()
        if not (out.flags.c_contiguous and out.dtype == self.dtype and out.shape == self.shape):
            raise ValueError("out does not fit")
        out[...] = self.host
        return out

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        if arr.dtype != self.dtype or arr.shape != self.shape or not self.flags.c_contiguous:
            raise ValueError("array does not fit")
        self.library.to_device += 1
        self.library.launched("set", stream or self.library.current_stream(), [], [self.data.mem.block])
        self.host[...] = arr

    def item(self) -> Any:
        self.library.to_host += 1
        self.library.require_here([self])
        self.library.launched("item", self.library.current_stream(), [self.data.mem.block], [])
        return self.host.item()

    def __bool__(self) -> bool:
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return self.item().__index__()

    def __len__(self) -> int:
        return len(self.host)

    def __iter__(self) -> Any:
        return iter([self[i] for i in range(len(self))])

    def __getitem__(self, key: Any) -> Any:
        return self.library.method("__getitem__", lambda a, k: a[k], self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(value, ndarray) and value.dtype.kind == "b" and self.dtype.kind == "b":
            pass
        self.library.write("__setitem__", np.ndarray.__setitem__, self, key, value)

    def fill(self, value: Any) -> None:
        self.library.write("fill", lambda a, v: a.fill(v), self, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not hasattr(np.ndarray, name) or name in ("tolist", "tobytes", "dump", "data"):
            raise AttributeError(name)
        method = getattr(np.ndarray, name)
        if not callable(method):  # real, imag
            return self.library.method(name, lambda a: getattr(a, name), self)
        return lambda *args, **kwargs: self.library.method(name, method, self, *args, **kwargs)


def _row_major(shape: tuple[int, ...], item: int) -> tuple[int, ...]:
    strides, step = [], item
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def _operator(name: str) -> Any:
    method = getattr(np.ndarray, name)
    in_place = name.startswith("__i") and name not in ("__invert__",)

    def operate(self: ndarray, *others: Any) -> Any:
        if in_place:
            self.library.write(name, method, self, *others)
            return self
        return self.library.method(name, method, self, *others)

    return operate


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift",
              "rshift"):
    for _form in ("__%s__", "__r%s__", "__i%s__"):
        if hasattr(np.ndarray, _form % _name):
            setattr(ndarray, _form % _name, _operator(_form % _name))
for _name in ("lt", "le", "gt", "ge", "eq", "ne", "neg", "abs", "invert", "pos"):
    setattr(ndarray, f"__{_name}__", _operator(f"__{_name}__"))
ndarray.__hash__ = object.__hash__  # type: ignore[method-assign]


class UFunc:
    """A universal function, with ``at`` and ``reduce``."""

    def __init__(self, library: Library, name: str) -> None:
        self.library, self.name, self.ufunc = library, name, getattr(np, name)

    def __call__(self, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if out is None:
            return self.library.method(self.name, self.ufunc, *args, **kwargs)
        self.library.write(self.name, lambda o, *a: self.ufunc(*a, out=o, **kwargs), out, *args)
        return out

    def at(self, a: ndarray, *args: Any) -> None:
        if a.dtype in (np.float16, np.int8, np.int16, np.uint8):
            raise TypeError(f"{self.name}.at: there are no atomics for {a.dtype}")
        self.library.write(self.name + ".at", self.ufunc.at, a, *args)


class Library:
    """What the module is made of, and what it has seen."""

    def __init__(self, devices: int) -> None:
        self.devices = devices
        self.local = threading.local()
        self.local.device, self.local.streams = 0, {}
        self.next_address = [0x1000_0000_0000 + (d << 36) for d in range(devices)]
        self.next_pointer = 0
        self.blocks: weakref.WeakValueDictionary[int, Memory] = weakref.WeakValueDictionary()
        self.used = [0] * devices
        self.streams: weakref.WeakSet[Stream] = weakref.WeakSet()
        self.solvers_raise = False  # as cupyx.errstate says
        self.names: set[str] = set()  # of the module's functions and array methods that were used
        self.ndarray = type("ndarray", (ndarray,), {"library": self})
        self.null = [self._null(d) for d in range(devices)]
        self.reset()

    def reset(self) -> None:
        self.calls: list[Call] = []
        self.to_host = self.to_device = self.peer_copies = self.synchronizations = 0

    def _null(self, device: int) -> Stream:
        self.local.device = device
        stream = Stream(self, null=True)
        self.local.device = 0
        return stream

    # ---- devices and streams -----------------------------------------------------------------------------------------

    def current_device(self) -> int:
        return getattr(self.local, "device", 0)

    def set_device(self, device: int) -> None:
        if not 0 <= device < self.devices:
            raise RuntimeError("cudaErrorInvalidDevice: invalid device ordinal")
        self.local.device = device

    def current_stream(self, device_id: int | None = None) -> Stream:
        if not hasattr(self.local, "streams"):
            self.local.streams = {}
        device = self.current_device() if device_id is None else device_id
        return self.local.streams.get(device, self.null[device])

    def next_stream(self) -> int:
        self.next_pointer += 0x10
        return 0x5000 + self.next_pointer

    # ---- capture -----------------------------------------------------------------------------------------------------

    def captured(self) -> Captured | None:
        """What is being captured on this thread."""
        return getattr(self.local, "captured", None)

    def waits(self) -> None:
        self.synchronizations += 1
        self.refuse_in_capture("waiting for a device")

    def refuse_in_capture(self, what: str) -> None:
        if self.captured() is not None:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported: operation not permitted when stream is capturing "
                               f"({what})")

    # ---- memory ------------------------------------------------------------------------------------------------------

    def malloc(self, size: int) -> MemoryPointer:
        allocator = getattr(self.local, "allocator", None)
        return allocator(size) if allocator else MemoryPointer(Memory(self, size), 0)

    @contextlib.contextmanager
    def using_allocator(self, allocator: Any = None) -> Any:
        former = getattr(self.local, "allocator", None)
        self.local.allocator = allocator
        try:
            yield
        finally:
            self.local.allocator = former

    def allocate(self, device: int, size: int) -> int:
        address = self.next_address[device]
        self.next_address[device] += (size + 511) // 512 * 512
        return address

    def block_at(self, address: int) -> Any:
        for start, memory in self.blocks.items():
            if start <= address < start + max(memory.size, 1):
                return memory
        return Memory(self, 0)

    def locate(self, pointer: MemoryPointer) -> tuple[np.ndarray, int]:
        memory = pointer.mem.block
        return memory.buffer, pointer.ptr - memory.ptr if memory.size else 0

    def bytes_at(self, pointer: MemoryPointer, size: int) -> np.ndarray:
        buffer, offset = self.locate(pointer)
        return buffer[offset:offset + size]

    # ---- calls -------------------------------------------------------------------------------------------------------

    def note(self, name: str, stream: Stream) -> None:
        self.calls.append(Call(name, self.current_device(), stream.ptr))

    def launched(self, name: str, stream: Stream, reads: list[Any], writes: list[Any]) -> None:
        """Notes work on a stream; Race where it is not ordered behind what the blocks' last users did."""
        self.note(name, stream)
        captured = self.captured()
        if captured is not None:
            if name in ("get", "set", "item"):
                self.refuse_in_capture(name)
            if stream is not captured.stream:
                raise RuntimeError(f"cudaErrorStreamCaptureImplicit: {name} on stream {stream.key} while "
                                   f"{captured.stream.key} is captured")
            for used, blocks in ((captured.reads, reads), (captured.writes, writes)):
                used.update({b.ptr: (weakref.ref(b), b.pool) for b in blocks if b.ptr})
        step = stream.begin_work()

        def ordered(users: dict, what: str) -> None:
            for key, n in users.items():
                if stream.clock.get(key, 0) < n:
                    raise Race(f"{name} on stream {stream.key} {what} stream {key} and is not ordered behind it")

        for block in reads:
            ordered(block.writes, "reads what was written on")
            block.reads[stream.key] = step
        for block in writes:
            ordered(block.writes, "writes what was written on")
            ordered(block.reads, "writes what was read on")
            block.writes[stream.key] = step

    def require_here(self, arrays: list[ndarray]) -> None:
        for a in arrays:
            if a.data.device_id != self.current_device():
                raise RuntimeError(f"an array on device {a.data.device_id} is used while device "
                                   f"{self.current_device()} is current")

    def unwrap(self, value: Any, arrays: list[ndarray]) -> Any:
        if isinstance(value, ndarray):
            arrays.append(value)
            return value.host
        if isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
        if isinstance(value, (list, tuple)):
            return type(value)(self.unwrap(v, arrays) for v in value)
        return value

    def wrap(self, result: Any, arrays: list[ndarray]) -> Any:
        if isinstance(result, (list, tuple)):
            items = [self.wrap(r, arrays) for r in result]
            return items if type(result) is list else tuple(items)
        if not isinstance(result, (np.ndarray, np.generic)):
            return result
        host = np.asarray(result)
        if host.dtype.kind not in "biufc":
            raise TypeError(f"no array on a device has the type {host.dtype}")
        address = host.__array_interface__["data"][0]
        for a in arrays:
            block = a.data.mem.block
            start = block.buffer.__array_interface__["data"][0]
            if start <= address < start + block.size:  # a view
                pointer = MemoryPointer(a.data.mem, block.ptr + (address - start) - a.data.mem.ptr)
                return self.ndarray(host.shape, host.dtype, pointer, host.strides)
        out = self.ndarray(host.shape, host.dtype)
        out.host[...] = host
        stream = self.current_stream()
        out.data.mem.block.writes[stream.key] = stream.clock.get(stream.key, 0)
        return out

    def method(self, name: str, f: Any, *args: Any, **kwargs: Any) -> Any:
        self.names.add(name)
        arrays: list[ndarray] = []
        host_args = self.unwrap(args, arrays)
        host_kwargs = {k: self.unwrap(v, arrays) for k, v in kwargs.items()}
        self.require_here(arrays)
        self.launched(name, self.current_stream(), [a.data.mem.block for a in arrays], [])
        if name in WAITING:
            self.waits()
        with np.errstate(all="ignore"):
            result = self.wrap(f(*host_args, **host_kwargs), arrays)
        if (captured := self.captured()) is not None:
            made = result if isinstance(result, (tuple, list)) else [result]
            fresh = [(k, r) for k, r in enumerate(made) if isinstance(r, ndarray) and not any(
                r.data.mem.block is a.data.mem.block for a in arrays)]
            # A step must not keep blocks alive.
            hosts, several = [(k, r.host) for k, r in fresh], made is result

            def again() -> None:
                values = f(*host_args, **host_kwargs)
                for k, host in hosts:
                    host[...] = values[k] if several else values

            if fresh:
                captured.steps.append(again)
                blocks = [r.data.mem.block for _, r in fresh]
                captured.writes.update({b.ptr: (weakref.ref(b), b.pool) for b in blocks if b.ptr})
        return result

    def write(self, name: str, f: Any, target: ndarray, *args: Any) -> None:
        self.names.add(name)
        arrays: list[ndarray] = []
        host_args = self.unwrap(args, arrays)
        self.require_here([target, *arrays])
        self.launched(name, self.current_stream(), [a.data.mem.block for a in arrays], [target.data.mem.block])
        captured = self.captured()
        if captured is not None:
            host = target.host
            captured.steps.append(lambda: f(host, *host_args))
            if target.data.mem.block.ptr not in captured.own:
                return  # nothing is done yet; in memory of the capture's own it gives the shapes of what follows
        with np.errstate(all="ignore"):
            f(target.host, *host_args)

    def function(self, name: str) -> Any:
        f = getattr(np, name)
        if isinstance(f, np.ufunc):
            return UFunc(self, name)
        return lambda *args, **kwargs: self.method(name, f, *args, **kwargs)


def make(devices: int = 2) -> types.ModuleType:
    """A module that stands for ``cupy``; ``module.library`` is what the tests look at."""
    library = Library(devices)
    module = types.ModuleType("cupy")
    functions: dict[str, Any] = {}

    def getattr_(name: str) -> Any:
        if name in ABSENT or not callable(getattr(np, name, None)):
            raise AttributeError(f"module 'cupy' has no attribute {name!r}")
        return functions.setdefault(name, library.function(name))

    def asarray(a: Any, dtype: Any = None) -> Any:
        if isinstance(a, ndarray):
            return a if dtype in (None, a.dtype) else a.astype(dtype)
        host = np.asarray(a, dtype)
        library.refuse_in_capture("asarray")
        library.to_device += 1
        return library.wrap(host.copy(), [])

    def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = None) -> None:
        library.write("copyto", lambda d, s: np.copyto(d, s, casting=casting), dst, src)

    def empty(shape: Any, dtype: Any = float, order: str = "C") -> Any:
        return library.ndarray(shape, dtype)

    def from_dlpack(producer: Any) -> Any:
        a = producer.__dlpack__().array
        if a.data.device_id != library.current_device():
            raise RuntimeError("from_dlpack: the array's device is not current")
        return library.ndarray(a.shape, a.dtype, a.data, a.strides)

    runtime = types.SimpleNamespace(
        getDeviceCount=lambda: library.devices, getDevice=library.current_device, setDevice=library.set_device,
    )
    pool = types.SimpleNamespace(
        used_bytes=lambda: library.used[library.current_device()],
        total_bytes=lambda: library.used[library.current_device()],
        free_all_blocks=lambda: None,
    )
    library.pool = pool  # type: ignore[attr-defined]

    class PinnedMemoryPointer:
        def __init__(self, size: int) -> None:
            self.buffer = bytearray(size)

        def __buffer__(self, flags: int) -> memoryview:
            return memoryview(self.buffer)

    cuda = types.SimpleNamespace(
        runtime=runtime, UnownedMemory=lambda *a: UnownedMemory(library, *a), MemoryPointer=MemoryPointer,
        Device=lambda device=None: Device(library, device), get_current_stream=library.current_stream,
        Event=lambda *a, **k: Event(library, *a, **k), get_elapsed_time=lambda a, b: 1.0,
        is_available=lambda: True,
        MemoryPool=lambda: MemoryPool(library), using_allocator=library.using_allocator, Graph=Graph,
        alloc_pinned_memory=lambda size: memoryview(bytearray(size)),
    )
    meta = type("StreamType", (type,), {"null": property(lambda cls: library.null[library.current_device()])})
    cuda.Stream = meta("Stream", (Stream,), {
        "__init__": lambda self, null=False, non_blocking=False, ptds=False, priority=None: Stream.__init__(
            self, library, null, non_blocking)})
    cuda.UnownedMemory = type("UnownedMemory", (UnownedMemory,), {
        "__init__": lambda self, *a: UnownedMemory.__init__(self, library, *a)})
    stride_tricks = types.SimpleNamespace(
        as_strided=lambda x, shape=None, strides=None: library.method(
            "as_strided", np.lib.stride_tricks.as_strided, x, shape, strides))
    def solver(f: Any) -> Any:
        def solve(*args: Any, **kwargs: Any) -> Any:
            try:
                return f(*args, **kwargs)
            except np.linalg.LinAlgError:
                if library.solvers_raise:
                    raise
                return np.zeros_like(args[-1])

        return solve

    linalg = types.SimpleNamespace(**{
        name: lambda *a, f=f, name=name, **k: library.method("linalg." + name, solver(f), *a, **k)
        for name, f in vars(np.linalg).items() if callable(f) and not isinstance(f, type)
    }, LinAlgError=np.linalg.LinAlgError)
    module.__dict__.update(
        linalg=linalg,
        __getattr__=getattr_, __version__="stand-in", library=library, ndarray=library.ndarray, cuda=cuda,
        asarray=asarray, copyto=copyto, empty=empty, from_dlpack=from_dlpack,
        lib=types.SimpleNamespace(stride_tricks=stride_tricks),
        empty_like=lambda x, dtype=None: library.ndarray(x.shape, dtype or x.dtype),
        get_default_memory_pool=lambda: pool,
        get_default_pinned_memory_pool=lambda: types.SimpleNamespace(free_all_blocks=lambda: None),
    )
    return module


def make_cupyx(library: Library) -> types.ModuleType:
    """A module that stands for ``cupyx``."""
    module = types.ModuleType("cupyx")

    @contextlib.contextmanager
    def errstate(*, linalg: str) -> Any:
        former, library.solvers_raise = library.solvers_raise, {"raise": True, "ignore": False}[linalg]
        try:
            yield
        finally:
            library.solvers_raise = former

    module.errstate = errstate  # type: ignore[attr-defined]
    return module


@contextlib.contextmanager
def installed(devices: int = 2) -> Any:
    """The stand-in as ``cupy`` and ``cupyx``, and torchlite connected to it; yields its library."""
    from torchlite.cuda import _library

    former = {name: sys.modules.get(name) for name in ("cupy", "cupyx")}
    module = sys.modules["cupy"] = make(devices)
    sys.modules["cupyx"] = make_cupyx(module.library)  # type: ignore[attr-defined]
    try:
        _library.connect()
        yield module.library  # type: ignore[attr-defined]
    finally:
        _library.disconnect()
        for name, was in former.items():
            if was is None:
                del sys.modules[name]
            else:
                sys.modules[name] = was
