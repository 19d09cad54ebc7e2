"""The standard library's ``multiprocessing``, which then shares the memory of tensors that it sends.

Importing this module is enough: tensors and Variables that pass through queues and pipes, or are pickled as arguments
of a new process, are the same memory on both sides, see :mod:`torchlite.multiprocessing.reductions`. What a process
is to inherit by a fork has to be shared before, with `share_memory_()`.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403
from multiprocessing import reduction

__all__ = [*multiprocessing.__all__, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]

_STRATEGY = "file_descriptor" if hasattr(reduction, "DupFd") else "copy"

if _STRATEGY == "file_descriptor":
    from . import reductions

    reductions.register()


def get_all_sharing_strategies() -> set[str]:
    """The ways in which tensors reach another process: by the descriptor of their memory, or else by copy."""
    return {_STRATEGY}


def get_sharing_strategy() -> str:
    """The way in use."""
    return _STRATEGY


def set_sharing_strategy(new_strategy: str) -> None:
    """Takes one of :func:`get_all_sharing_strategies`.

    Raises:
        ValueError: for any other, as for the era's 'file_system'.
    """
    if new_strategy != _STRATEGY:
        raise ValueError(f"set_sharing_strategy: new_strategy must be {_STRATEGY!r}, but got {new_strategy!r}")
