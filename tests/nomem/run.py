"""Runs each program of programs.py with its n-th allocation failing, for every n. `run.py [NAME ...]`

Each program runs in a child process with nomem.cpp preloaded, twice: once the n-th allocation alone fails, once every
one from the n-th on. The answer must be MemoryError or success; the program's own check then looks at the state, and
the live objects of the extension must be as many as before."""

import ctypes
import gc
import os
import subprocess
import sys
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
CACHE = HERE.parent.parent / ".cache"
LIBRARY = CACHE / "libnomem.so"
MOST = 20_000
SECONDS = 300


def build():
    CACHE.mkdir(exist_ok=True)
    source = HERE / "nomem.cpp"
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < source.stat().st_mtime:
        compiler = os.environ.get("CXX") or sysconfig.get_config_var("CXX") or "g++"
        flags = ["-std=c++20", "-O1", "-g", "-shared", "-fPIC"]
        subprocess.run([*compiler.split(), *flags, source, "-o", LIBRARY, "-ldl"], check=True)


def live(module):
    """Objects of torchlite by type, and the bytes that its allocator has handed out."""
    gc.collect()
    counts = Counter(type(o).__qualname__ for o in gc.get_objects() if str(type(o).__module__).startswith("torchlite"))
    return {**counts, "allocated bytes": module._memory_stats()["allocated_bytes"]}


def drain(ballast, count):
    """Takes what the free lists of the extension hold, so that the next objects have to be allocated."""
    import torchlite._C as module
    from torchlite import Variable

    x = Variable(np.ones(1), requires_grad=True)
    ballast.extend(x * x for _ in range(count))
    module._empty_cache()
    gc.collect()
    gc.freeze()  # neither counted as live nor looked at again


def run_program(program, every, start):
    """Fails allocation `start`, `start` + 1, ... of `program`; yields a line for each fault, last the count."""
    import torchlite._C as module

    library = ctypes.PyDLL(str(LIBRARY))
    library.nomem_disarm.restype = ctypes.c_long
    if library.nomem_install():
        raise RuntimeError("the extension or the interpreter's allocator was not found")
    warm = program.setup()
    program.body(warm)
    program.check(warm, True)
    del warm
    ballast = []
    drain(ballast, 1500)
    before = live(module)
    for n in range(start, MOST):
        print(n, end="\r", flush=True)
        state, problem, done = program.setup(), None, False
        module._empty_cache()
        library.nomem_arm(ctypes.c_long(n), every)
        try:
            program.body(state)
            done = True
        except MemoryError:
            pass
        except BaseException as error:
            library.nomem_disarm()
            # NumPy's ufuncs forget to set MemoryError in a few places; the interpreter then says so for them.
            if not (isinstance(error, SystemError) and "ufunc" in str(error).split(" returned NULL")[0]):
                problem = f"{type(error).__name__}: {error}"
        seen = library.nomem_disarm()
        if problem is None:
            try:
                program.check(state, done)
            except Exception as error:
                problem = f"the state afterwards is wrong ({'success' if done else 'MemoryError'}): {error!r}"
        del state
        after = live(module)
        drain(ballast, 100)
        if problem is None and after != before:
            problem = f"live objects went from {before} to {after}"
            before = after
        if problem:
            yield f"n={n}: {problem}"
        if done and seen < n:
            yield n - 1
            return
    yield f"still failing after {MOST} allocations"


def child(name, every, start):
    from programs_networks import PROGRAMS

    problems = 0
    for line in run_program(PROGRAMS[name], every, start):
        if isinstance(line, int):
            print(f"\rDONE {line}", flush=True)
        else:
            problems += 1
            print(f"\rPROBLEM {line}", flush=True)
            if problems == 10:
                break
    return problems > 0


def run_child(name, every, start=1):
    """True if the program came through; prints what happened."""
    command = [sys.executable, "-X", "faulthandler", __file__, "--child", name, str(every), str(start)]
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    try:
        result = subprocess.run(command, env=environment, capture_output=True, text=True, errors="replace",
                                timeout=SECONDS, check=False)
        output, errors, code = result.stdout, result.stderr, result.returncode
    except subprocess.TimeoutExpired as expired:
        output, errors, code = (expired.stdout or b"").decode(), "", "timeout"
    parts = [part for part in output.replace("\r", "\n").split("\n") if part.strip()]
    problems = [part[8:] for part in parts if part.startswith("PROBLEM ")]
    counts = [part[5:] for part in parts if part.startswith("DONE ")]
    last = next((part for part in reversed(parts) if part.isdigit()), "0")
    if code not in (0, 1) or (code and not problems):
        problems.append(f"n={last}: exit {code}\n{errors[-3000:]}")
    mode = "every one from the n-th on" if every else "the n-th alone"
    count = counts[0] if counts else "?"
    print(f"{'FAILED' if problems else 'ok    '} {name} ({mode}): {count} allocations", flush=True)
    for problem in problems:
        print(f"       {problem}", flush=True)
    return not problems


def main(names):
    if names[:1] == ["--child"]:
        return child(names[1], int(names[2]), int(names[3]))
    build()
    from programs_networks import PROGRAMS

    outcomes = [run_child(name, every) for name in (names or PROGRAMS) for every in (0, 1)]
    print(f"{sum(outcomes)} passed, {len(outcomes) - sum(outcomes)} failed")
    return not all(outcomes)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
