"""Skips everything here without CuPy and a CUDA device."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent
sys.path.insert(0, str(ROOT.parent / "ops"))


def devices() -> int:
    if importlib.util.find_spec("cupy") is None:
        return 0
    import torchlite

    return torchlite.cuda.device_count()


COUNT = devices()


def pytest_collection_modifyitems(items):
    for item in items:
        if not item.path.is_relative_to(ROOT):
            continue
        # Pools, kernels and contexts grow when they are first used; the pool's own figures are compared instead.
        item.add_marker(pytest.mark.no_leak_check(reason="CuPy keeps what it has compiled and allocated"))
        if COUNT == 0:
            item.add_marker(pytest.mark.skip(reason="needs CuPy and a CUDA device"))
        elif COUNT < 2 and item.get_closest_marker("two_devices"):
            item.add_marker(pytest.mark.skip(reason="needs two CUDA devices"))
