"""The samples of the op table, which the tests of the IR run over as well."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import torchlite
from torchlite import _C

OPS = Path(__file__).parent.parent / "ops"
if str(OPS) not in sys.path:
    sys.path.append(str(OPS))

ENTRIES = [e for path in sorted(OPS.glob("samples_*.py")) for e in importlib.import_module(path.stem).SAMPLES]
ROWS = {row.name: row for row in _C._ops}


def map_arrays(f: Callable[[np.ndarray], Any], value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return f(value)
    return [map_arrays(f, v) for v in value] if isinstance(value, list) else value


def tensor(a: np.ndarray) -> Any:
    return torchlite.from_numpy(np.asarray(a))
