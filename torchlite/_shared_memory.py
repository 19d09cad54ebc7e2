"""Memory that several processes see.

A block is a mapping of a file without a name, so it is freed when the last process has dropped its descriptor and its
mapping, however that process ends. Forked children inherit the mapping; others are sent the descriptor.
"""

from __future__ import annotations

import mmap
import os
import tempfile

__all__ = ["SharedMemory", "allocate", "attach"]


class SharedMemory(mmap.mmap):
    """A shared mapping that keeps the descriptor of its file: :attr:`fd`, an int."""

    fd: int = -1

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def attach(fd: int, nbytes: int) -> SharedMemory:
    """The first `nbytes` of the file behind a descriptor, which becomes the mapping's own."""
    try:
        memory = SharedMemory(fd, nbytes)
    except BaseException:
        os.close(fd)
        raise
    memory.fd = fd
    return memory


def allocate(nbytes: int) -> SharedMemory:
    """A new block of at least one byte, zeroed.

    Raises:
        OSError: the system has no more memory or descriptors.
    """
    nbytes = max(nbytes, 1)  # there is no empty mapping
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("torchlite", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        os.ftruncate(fd, nbytes)
    except BaseException:
        os.close(fd)
        raise
    return attach(fd, nbytes)
