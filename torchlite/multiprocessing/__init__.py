"""The standard library's ``multiprocessing`` under the name that programs of the era import.

Tensors pass through queues and pipes by value: the other process gets a copy, not the same memory.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

__all__ = [*multiprocessing.__all__, "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy"]

_STRATEGIES = {"copy"}


def get_all_sharing_strategies() -> set[str]:
    """The ways in which tensors reach another process: only by copy."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """The way in use."""
    return "copy"


def set_sharing_strategy(new_strategy: str) -> None:
    """Takes one of :func:`get_all_sharing_strategies`.

    Raises:
        ValueError: for any other, as for the era's 'file_descriptor' and 'file_system'.
    """
    if new_strategy not in _STRATEGIES:
        raise ValueError(
            f"set_sharing_strategy: new_strategy must be one of {sorted(_STRATEGIES)}, but got {new_strategy!r}"
        )
