"""Programs that may crash or hang: they run in an interpreter of their own."""

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import torchlite

TESTS = Path(__file__).parent
PACKAGES = Path(torchlite.__file__).parents[1]  # of the build under test

PRELUDE = """
import gc, os, signal, sys, threading, time, weakref
import numpy as np
import torchlite
from torchlite import _C, Variable
from torchlite.autograd import Function, backward, grad
from leaves import constant, leaf, values
from python_functions import Mul, Scale
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts without one
"""


def run(program, seconds=60):
    """Runs ``program`` after PRELUDE and returns what it printed; a crash, an exception or a hang fails the test."""
    path = os.pathsep.join([str(PACKAGES), str(TESTS), os.environ.get("PYTHONPATH", "")])
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", PRELUDE + textwrap.dedent(program)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    code = child.returncode
    if code != 0:
        how = signal.Signals(-code).name if code < 0 else f"exit status {code}"
        raise AssertionError(f"the program ended with {how}:\n{child.stderr[-3000:]}")
    return child.stdout.split()
