"""The fused kernels' very source, compiled for the host's processor (emulation.h), behind RawModule's interface."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
KERNEL = re.compile(r'extern "C" __global__ void (\w+)\(([^)]*)\)')
CTYPES = {"long long": ctypes.c_int64, "int": ctypes.c_int32, "unsigned long long": ctypes.c_uint64}


def parameters(text: str) -> list[tuple[str, str]]:
    """(type, name) of each parameter."""
    return [tuple(p.strip().rsplit(" ", 1)) for p in text.replace("\n", " ").split(",")]  # type: ignore[misc]


def compile_source(source: str, folder: Path) -> ctypes.CDLL:
    """A library with ``run_NAME(blocks, threads, arguments...)`` for each kernel."""
    wrappers = []
    for name, text in KERNEL.findall(source):
        named = parameters(text)
        declared = ", ".join(f"{kind} {n}" for kind, n in named)
        wrappers.append(f'extern "C" void run_{name}(int blocks, int threads, {declared}) {{\n'
                        f"  launch(blocks, threads, [=] {{ {name}({', '.join(n for _, n in named)}); }});\n}}\n")
    path = folder / "kernels.cpp"
    path.write_text('#include "emulation.h"\n' + source + "\n" + "".join(wrappers))
    library = folder / "kernels.so"
    subprocess.run(["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-pthread", "-Wall", "-Wno-unused-function",
                    f"-I{HERE}", str(path), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))


class Module:
    """``RawModule`` on the host."""

    def __init__(self, source: str, library: ctypes.CDLL, threads: int) -> None:
        self.kinds = {name: [kind for kind, _ in parameters(text)] for name, text in KERNEL.findall(source)}
        self.source, self.library, self.threads = source, library, threads
        self.real = ctypes.c_double if source.startswith("typedef double") else ctypes.c_float

    def get_function(self, name: str) -> Any:
        kinds = self.kinds[name]

        def run(grid: tuple[int], block: tuple[int], args: tuple) -> None:
            assert len(args) == len(kinds), f"{name} takes {len(kinds)} arguments, but is given {len(args)}"
            given = []
            for value, kind in zip(args, kinds, strict=True):
                if isinstance(value, np.ndarray):
                    assert kind.endswith("*") and value.flags.c_contiguous, (name, kind)
                    pointed = kind.removeprefix("const ").removesuffix("*").strip()
                    expected = {"real": np.dtype(self.real), "long long": np.dtype(np.int64),
                                "unsigned int": np.dtype(np.uint32)}[pointed]
                    assert value.dtype == expected, f"{name}: {value.dtype} for {kind}"
                    given.append(ctypes.c_void_p(value.ctypes.data))
                else:
                    ctype = self.real if kind == "real" else CTYPES[kind]
                    assert isinstance(value, np.generic), f"{name}: {kind} is given as {type(value)}"
                    assert value.dtype == np.dtype(ctype), f"{name}: {value.dtype} for {kind}"
                    given.append(ctype(value.item()))
            threads = min(self.threads, block[0])
            # Fewer threads a block than asked for; where each thread has one element, more blocks make up for it.
            per_element = kinds[-1] == "long long" and "EACH" in self.body(name)
            blocks = -(-grid[0] * block[0] // threads) if per_element else grid[0]
            getattr(self.library, "run_" + name)(ctypes.c_int(blocks), ctypes.c_int(threads), *given)

        return run

    def body(self, name: str) -> str:
        start = self.source.index(f"void {name}(")
        return self.source[start:self.source.index("\n}\n", start)]
