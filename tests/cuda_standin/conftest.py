"""Every test of this folder gets the stand-in as `cupy`, with two devices."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "ops"))

import standin  # noqa: E402


@pytest.fixture(scope="module")
def installed():
    with standin.installed() as library:
        yield library


@pytest.fixture
def lib(installed):
    """What the stand-in has seen during the test."""
    installed.reset()
    yield installed
    installed.set_device(0)
    installed.local.streams.clear()
