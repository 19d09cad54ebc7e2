"""make bench: torchlite beside PyTorch on this machine, in turns, medians, ratios first.

`run.py [--rounds N] [--only NAME ...] [--no-deep]`. PyTorch's interpreter is $BENCH_TORCH, else that of
`make bench-peers`; without one only torchlite is measured. A ratio is how many times less torchlite takes; its goal
stands beside it."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
# workload: (unit, seconds in one unit, threads, goal)
ROWS = {
    "add_1": ("ns", 1e-9, 1, 8), "add_100": ("ns", 1e-9, 1, 8),
    "mul_1": ("ns", 1e-9, 1, 8), "mul_100": ("ns", 1e-9, 1, 8),
    "mul_backward": ("ns", 1e-9, 1, 12), "chain_100_per_op": ("ns", 1e-9, 1, 10), "python_function": ("ns", 1e-9, 1, 4),
    "mlp_step": ("ms", 1e-3, 1, 1.3), "language_model_step": ("ms", 1e-3, 1, 1.15),
    "language_model_step@2": ("ms", 1e-3, 2, 1.0),
    "traced_cell": ("us", 1e-6, 1, 5), "traced_cell_backward": ("us", 1e-6, 1, 8), "tiny_step": ("us", 1e-6, 1, 8),
}
WORDS_A_STEP = 35 * 20


class Worker:
    """A process that measures one backend."""

    def __init__(self, python, backend, threads):
        environment = {**os.environ, "PYTHONPATH": str(ROOT) if backend == "torchlite" else ""}
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "TORCHLITE_NUM_THREADS"):
            environment[name] = str(threads)
        self.process = subprocess.Popen([python, str(HERE / "workloads.py"), backend, str(threads)], text=True, cwd="/",
                                        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def sample(self, workload):
        try:
            self.process.stdin.write(workload + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": "the worker died"}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def import_seconds(python, backend, folder):
    """Seconds to import a package, from a fresh process that imports it alone.

    Byte code is kept in `folder`, so that after the first time the package is as one that pip installed.
    """
    path = str(ROOT) if backend == "torchlite" else ""
    code = f"import time; t = time.perf_counter(); import {backend}; print(time.perf_counter() - t)"
    env = {**os.environ, "PYTHONPATH": path, "PYTHONPYCACHEPREFIX": folder}
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    return float(subprocess.run([python, "-c", code], text=True, capture_output=True, check=True, cwd=folder,
                                env=env).stdout)


def line(name, figures, unit, goal, extra=""):
    """Prints a row: the ratio, its goal, the figures."""
    ours, theirs = figures.get("torchlite"), figures.get("torch")
    ratio = "        -     "
    if ours and theirs:
        ratio = f"{theirs / ours:8.2f}x  {'ok ' if theirs / ours >= goal else 'LOW'}"
    shown = "   ".join(f"{backend} {value:10.1f} {unit}" for backend, value in figures.items() if value)
    print(f"{name:24} {ratio}  goal {goal:>5}x   {shown}{extra}", flush=True)


def measure(pythons, options):
    for threads in (1, 2):
        rows = {name: row for name, row in ROWS.items()
                if row[2] == threads and (not options.only or name in options.only)}
        if not rows:
            continue
        workers = {backend: Worker(python, backend, threads) for backend, python in pythons.items()}
        for name, (unit, scale, _, goal) in rows.items():
            samples = {backend: [] for backend in pythons}
            for _ in range(options.rounds):
                for backend, worker in workers.items():
                    sample = worker.sample(name.split("@")[0])
                    if isinstance(sample, dict):
                        print(f"{name:24} {backend}: {sample['error']}")
                    else:
                        samples[backend].append(sample)
            medians = {backend: statistics.median(taken) / scale for backend, taken in samples.items() if taken}
            extra = "".join(f"   {backend} {WORDS_A_STEP / median * 1e3:,.0f} words/s" for backend, median
                            in medians.items()) if name.startswith("language") else ""
            line(name, medians, unit, goal, extra)
        for worker in workers.values():
            worker.close()


def measure_deep(pythons):
    results = {}
    for backend, python in pythons.items():
        worker = Worker(python, backend, 1)
        results[backend] = worker.sample("deep")
        worker.close()
    for key, unit in (("seconds", "s"), ("megabytes", "MB")):
        line(f"deep_1000000_{key}", {backend: result.get(key) for backend, result in results.items()}, unit, 3)
    for backend, result in results.items():
        if "error" in result:
            print(f"deep: {backend}: {result['error']}")


def measure_import(python, rounds):
    ours, numpys = [], []
    with tempfile.TemporaryDirectory() as folder:
        import_seconds(python, "torchlite", folder)
        for _ in range(2 * rounds):
            ours.append(import_seconds(python, "torchlite", folder))
            numpys.append(import_seconds(python, "numpy", folder))
    ratio = statistics.median(ours) / statistics.median(numpys)
    print(f"import                   {ratio:8.2f} times NumPy's  {'ok ' if ratio <= 1.3 else 'HIGH'}  goal 1.3   "
          f"torchlite {statistics.median(ours) * 1e3:.0f} ms   numpy {statistics.median(numpys) * 1e3:.0f} ms")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help=f"of: {' '.join(ROWS)}")
    parser.add_argument("--no-deep", action="store_true", help="leave out the chain of a million")
    options = parser.parse_args()
    peer = Path(os.environ.get("BENCH_TORCH", ROOT / ".venv-peers" / "bin" / "python"))
    pythons = {"torchlite": sys.executable}
    if peer.exists():
        pythons["torch"] = str(peer)
    else:
        print("PyTorch is not measured: `make bench-peers` makes an environment with it")
    measure(pythons, options)
    if not options.only:
        if not options.no_deep:
            measure_deep(pythons)
        measure_import(sys.executable, options.rounds)


if __name__ == "__main__":
    main()
