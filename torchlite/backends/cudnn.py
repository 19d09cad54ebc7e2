"""cuDNN's switches. torchlite has no kernels of cuDNN: programs may set them, and nothing depends on them."""

from __future__ import annotations

from typing import Any

__all__ = ["benchmark", "enabled", "is_acceptable", "verbose", "version"]

enabled = True
benchmark = False
verbose = False


def is_acceptable(tensor: Any) -> bool:
    """Whether an operation on `tensor` is computed by cuDNN: never."""
    return False


def version() -> int | None:
    """The version of cuDNN in use: None."""
    return None
