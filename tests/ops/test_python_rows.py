"""Rows that are declared in Python: python_rows.py in a process of its own, since its rows stay in the table."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import torchlite

TESTS = Path(__file__).parent


@pytest.mark.no_leak_check(reason="the tests in the other process are re-run there")
def test_rows_declared_in_python():
    packages = Path(torchlite.__file__).parents[1]
    child = subprocess.run(
        [sys.executable, "-m", "pytest", "-x", "-q", str(TESTS / "python_rows.py")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert child.returncode == 0, child.stdout[-5000:] + child.stderr[-3000:]
