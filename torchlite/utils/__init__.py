"""Helpers that the rest of the package shares, and those for programs: loading data, training, compatibility."""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["backcompat", "data", "hooks", "serialization", "trainer", "typename"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
