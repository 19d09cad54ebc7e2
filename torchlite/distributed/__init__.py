"""Importable, so that programs can ask whether they may use it: torchlite has no communication between processes."""

from __future__ import annotations

from typing import Any

__all__ = ["get_rank", "get_world_size", "init_process_group", "is_available"]


def is_available() -> bool:
    """Whether processes can be connected: False."""
    return False


def init_process_group(backend: str, init_method: str = "env://", **kwargs: Any) -> None:
    """Would connect this process with others.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(f"init_process_group: backend {backend!r} is not available: torchlite runs in one process")


def _not_initialized(name: str) -> RuntimeError:
    return RuntimeError(f"{name}: no process group has been initialized, and torchlite has none")


def get_rank() -> int:
    """The number of this process in its group. RuntimeError: there is none."""
    raise _not_initialized("get_rank")


def get_world_size() -> int:
    """The number of processes in the group. RuntimeError: there is none."""
    raise _not_initialized("get_world_size")
