"""Calls every row's implementation with arrays of the real CuPy on made-up addresses, where there is no driver.

A call goes as far as its first kernel, so that CuPy refuses the argument types, layouts and keywords that it does not
take. Prints the refusals, and at the end the number of rows that came as far as a kernel.
"""

import ast
import re
import sys
import warnings
from pathlib import Path

import cupy
import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "ops"), str(ROOT)]
warnings.simplefilter("ignore")


class Device:
    """The only device, without a driver."""

    def __init__(self, device=0):
        self.id = device

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass


def allocate(size):
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0x10000, max(size, 1), None, 0), 0)


def on_device(value):
    if isinstance(value, np.ndarray):
        return cupy.ndarray(value.shape, value.dtype, allocate(value.nbytes))
    return type(value)(map(on_device, value)) if isinstance(value, (list, tuple)) else value


def bound(signature, args, kwargs):
    """One argument for each parameter. Those without a default come first where just they are given: add(x, y)."""
    parameters = re.findall(r"(\w+)(?:=([^,]+))?(?:, |$)", signature.partition("(")[2].rpartition(")")[0])
    given = {name: ast.literal_eval(default) for name, default in parameters if default}
    required = [name for name, default in parameters if not default]
    if signature.startswith(("add", "badd")) and len(args) == len(required) + 1:
        required = [parameters[0][0], *required]  # addmm(beta, x, a, b)
    names = required if len(args) == len(required) else [name for name, _ in parameters]
    given.update(zip(names, args, strict=False), **kwargs)
    return [given[name] for name, _ in parameters]


cupy.cuda.runtime.getDevice = lambda: 0
cupy.cuda.Device = Device
cupy.cuda.set_allocator(allocate)

from test_table import ENTRIES, ROWS  # noqa: E402

from torchlite.cuda.rows import implementations  # noqa: E402

table = implementations(cupy)
reached = set()
for entry in ENTRIES:
    forward = table.get(entry.name, (None,))[0]
    for sample in entry.samples if forward else ():
        for dtype in entry.dtypes:
            try:
                forward(*map(on_device, bound(ROWS[entry.name].signature, *sample.make(dtype))))
            except cupy.cuda.runtime.CUDARuntimeError:
                reached.add(entry.name)
            except ImportError as e:  # of the toolkit's libraries
                assert "libcublas" in str(e), e
                reached.add(entry.name)
            except Exception as e:
                print(f"{entry.name} of {dtype}: {type(e).__name__}: {e}")
print(len(reached))
