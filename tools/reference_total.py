"""Runs the programs of tests/nomem over and over on a debug CPython: its reference total has to stay where it is."""

import gc
import sys
from pathlib import Path

import numpy as np
import numpy._core._multiarray_umath as umath

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "nomem"))

ROUNDS = 50


# np.empty and all that calls it leave a reference to the dtype behind: these are not counted.
DTYPES = [np.dtype(code) for code in "?bBhHiIlLqQefdgFDGOSUV"]


def total():
    gc.collect()
    return sys.gettotalrefcount() - sum(map(sys.getrefcount, DTYPES))


def drift(program):
    """References gained per run of `program`."""
    def once():
        state = program.setup()
        program.body(state)
        program.check(state, True)

    for _ in range(10):
        once()
    before = total()
    for _ in range(ROUNDS):
        once()
    return (total() - before) / ROUNDS


def main():
    if not hasattr(sys, "gettotalrefcount"):
        sys.exit("reference_total.py needs a debug build of CPython")
    if f"cpython-3{sys.version_info[1]}d" not in umath.__file__:
        print("reference total not checked: this NumPy was compiled for a release build")
        return 0
    from programs_networks import PROGRAMS

    # Less than one reference a run is a cache that still fills.
    gained = {name: drift(program) for name, program in PROGRAMS.items()}
    for name, per_run in gained.items():
        print(f"{name:40} {per_run:+.2f} references a run{'   LEAK' if abs(per_run) >= 1 else ''}")
    return any(abs(per_run) >= 1 for per_run in gained.values())


if __name__ == "__main__":
    sys.exit(main())
