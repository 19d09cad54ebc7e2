"""Runs programs in child processes."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(*arguments, cwd=None, check=True, stdin=None):
    """The finished process of this Python with warnings as errors; an AssertionError with its output if it failed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        capture_output=True, text=True, cwd=cwd, env=environment, timeout=120, input=stdin,
    )
    if check:
        assert done.returncode == 0, done.stdout + done.stderr
    return done


def run(source, *arguments, cwd=None, check=True):
    """`source` as a program under `python -m torchlite run -c`."""
    return python("-m", "torchlite", "run", "-c", textwrap.dedent(source), *arguments, cwd=cwd, check=check)


def installed(source, check=True):
    """`source` in a process that has called install_as_torch."""
    head = "from torchlite.compat import install_as_torch\ninstall_as_torch()\n"
    return python("-c", head + textwrap.dedent(source), check=check)
