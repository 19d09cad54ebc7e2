"""Streams, events and captured graphs of the stand-in.

A stream has a clock of what it comes after: how far it, and those that it waited for, have come. While it is captured,
calls are recorded instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from standin import Library, Memory


class Stream:
    def __init__(self, library: Library, null: bool = False, non_blocking: bool = False) -> None:
        self.library = library
        self.device_id = library.current_device()
        self.non_blocking = non_blocking
        self.ptr = 0 if null else library.next_stream()
        # How far this stream and those that it waited for have come.
        self.clock: dict[tuple[int, int], int] = {}
        self.previous: list[Stream] = []
        self.captured: Captured | None = None
        library.streams.add(self)

    @property
    def key(self) -> tuple[int, int]:
        return self.device_id, self.ptr

    def __del__(self) -> None:
        # CUDA finishes the work of a stream that is destroyed; here all of it is done.
        for stream in list(self.library.streams):
            stream.clock.pop(self.key, None)
        for block in list(self.library.blocks.values()):
            block.writes.pop(self.key, None)
            block.reads.pop(self.key, None)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __enter__(self) -> Stream:
        self.previous.append(self.library.current_stream())
        return self.use()

    def __exit__(self, *exc: object) -> None:
        self.previous.pop().use()

    def use(self) -> Stream:
        self.library.local.streams[self.device_id] = self
        return self

    def record(self, event: Event | None = None) -> Event:
        event = event or Event(self.library)
        event.clock = dict(self.clock)
        event.captured = self.captured
        self.library.note("Stream.record", self)
        return event

    def wait_event(self, event: Event) -> None:
        if event.captured is not self.captured:
            raise RuntimeError("cudaErrorStreamCaptureIsolation: an event of a capture is used outside of it, or one "
                               "from outside in it")
        merge(self.clock, event.clock)
        self.library.note("Stream.wait_event", self)

    def synchronize(self) -> None:
        self.library.note("Stream.synchronize", self)
        self.library.waits()

    @property
    def done(self) -> bool:
        return True

    def begin_capture(self, mode: Any = None) -> None:
        if not self.ptr:
            raise RuntimeError("cudaErrorStreamCaptureUnsupported: the default stream cannot be captured")
        if self.captured is not None:
            raise RuntimeError("cudaErrorIllegalState: the stream is captured already")
        self.captured = self.library.local.captured = Captured(self)

    def end_capture(self) -> Graph:
        captured, self.captured = self.captured, None
        self.library.local.captured = None
        for buffer in captured.buffers:
            buffer.fill(0xFF)
        return Graph(self.library, captured)

    def is_capturing(self) -> bool:
        return self.captured is not None

    def begin_work(self) -> int:
        """A new step of this stream. The default stream and blocking ones come after each other."""
        for other in list(self.library.streams):
            blocking = not (self.non_blocking or other.non_blocking)
            if other.device_id == self.device_id and other is not self and blocking:
                if self.ptr == 0 or other.ptr == 0:
                    merge(self.clock, other.clock)
        self.clock[self.key] = self.clock.get(self.key, 0) + 1
        return self.clock[self.key]


class Event:
    def __init__(self, library: Library, block: bool = False, disable_timing: bool = False,
                 interprocess: bool = False) -> None:
        self.library = library
        self.clock: dict[tuple[int, int], int] = {}
        self.captured: Captured | None = None

    def record(self, stream: Stream | None = None) -> None:
        (stream or self.library.current_stream()).record(self)

    def synchronize(self) -> None:
        self.library.waits()

    @property
    def done(self) -> bool:
        return True


def merge(clock: dict, other: dict) -> None:
    for key, n in other.items():
        clock[key] = max(clock.get(key, 0), n)


class Captured:
    """What a stream has recorded: the steps, and the memory that they use."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.steps = stream, []
        self.reads: dict[int, Any] = {}  # by address: how to find the block, and the pool that it is of
        self.writes: dict[int, Any] = {}
        self.own: set[int] = set()  # addresses that were allocated meanwhile
        self.buffers: list[np.ndarray] = []


class Graph:
    """Steps that run again on the same memory."""

    def __init__(self, library: Library, captured: Captured) -> None:
        self.library, self.steps, self.device_id = library, captured.steps, captured.stream.device_id
        self.reads, self.writes = captured.reads, captured.writes

    def blocks(self, used: dict[int, Any]) -> list[Memory]:
        found = []
        for block, pool in used.values():
            if block() is not None:
                found.append(block())
            elif pool is None or pool() is None:
                raise RuntimeError("the graph uses memory that has been freed")
        return found

    def launch(self, stream: Stream | None = None) -> None:
        stream = stream or self.library.current_stream()
        if stream.device_id != self.device_id:
            raise RuntimeError("a graph is launched on a stream of another device")
        self.library.launched("Graph.launch", stream, self.blocks(self.reads), self.blocks(self.writes))
        with np.errstate(all="ignore"):
            for step in self.steps:
                step()
