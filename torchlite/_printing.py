"""How tensors and storages are printed: as many lines as there are rows, then the class, the sizes and the device.

The functions that begin with an underscore are the classes' methods; `set_printoptions` is the package's.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from torchlite._arrays import vector

__all__ = ["set_printoptions"]

_PROFILES: dict[str, dict[str, float]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}
_options: dict[str, float] = dict(_PROFILES["default"])


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
) -> None:
    """Sets how tensors are printed.

    Args:
        precision: digits after the decimal point (4).
        threshold: number of elements above which only the edges are shown (1000).
        edgeitems: items shown at each edge of a summarised dimension (3).
        linewidth: characters a line, after which columns go to a new block (80).
        profile: "default", "short" or "full": values for all of the above, which the other arguments override.

    Raises:
        ValueError: for a profile of another name.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile must be one of {sorted(_PROFILES)}, but got {profile!r}")
        _options.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    _options.update({name: value for name, value in given.items() if value is not None})


def _number_format(shown: np.ndarray) -> Any:
    """The function that turns one number of `shown` into text of a common width."""
    if shown.dtype.kind != "f":
        texts = [str(shown.min()), str(shown.max())] if shown.size else ["0"]
        width = max(map(len, texts))
        return lambda v: f"{v:>{width}d}"
    precision = int(_options["precision"])
    finite = np.abs(shown[np.isfinite(shown)]).astype(np.float64)
    largest = finite.max(initial=0.0)
    nonzero = finite[finite > 0]
    smallest = nonzero.min() if nonzero.size else 1.0
    if not np.any(finite % 1) and largest < 1e8:
        spec = ".0f"
    elif largest >= 1e5 or smallest < 10.0 ** -(precision + 1) or largest < 1e-3:
        spec = f".{precision}e"
    else:
        spec = f".{precision}f"
    width = max((len(format(float(v), spec)) for v in shown.flat), default=1)
    return lambda v: f"{float(v):>{width}{spec}}"


def _edges(a: np.ndarray) -> tuple[np.ndarray, list[int | None]]:
    """The corners of an array too large to print, and for each dimension where items are left out (None: nowhere)."""
    edge = int(_options["edgeitems"])
    gaps: list[int | None] = [None] * a.ndim
    if a.size <= _options["threshold"]:
        return a, gaps
    for d, size in enumerate(a.shape):
        if size > 2 * edge:
            lead = (slice(None),) * d
            first, last = lead + (slice(0, edge),), lead + (slice(size - edge, size),)
            a = np.concatenate([a[first], a[last]], axis=d)
            gaps[d] = edge
    return a, gaps


def _matrix_lines(a: np.ndarray, number: Any, gaps: list[int | None]) -> list[str]:
    """The lines of a 2-d array, its columns in blocks that fit the line."""
    rows, columns = a.shape
    texts = [[number(v) for v in row] for row in a]
    if gaps[1] is not None:
        texts = [[*row[: gaps[1]], "...", *row[gaps[1] :]] for row in texts]
        columns += 1
    if gaps[0] is not None:
        width = max(map(len, texts[0])) if texts and texts[0] else 3
        texts.insert(gaps[0], [" " * (width - 1) + "⋮" if c != "..." else "⋱  " for c in texts[0]])
    width = max((len(t) for row in texts for t in row), default=1)
    each = max(1, int((_options["linewidth"] - 1) // (width + 2)))
    lines: list[str] = []
    for first in range(0, columns, each):
        last = min(first + each, columns)
        if columns > each:
            lines += ([""] if first else []) + [f"Columns {first} to {last - 1} "]
        lines += [" " + "  ".join(t.rjust(width) for t in row[first:last]) for row in texts]
    return lines


def _tensor_lines(a: np.ndarray) -> list[str]:
    if a.size == 0:
        return []
    shown, gaps = _edges(a)
    number = _number_format(shown)
    if a.ndim == 0:
        return [f" {number(a[()])}"]
    if a.ndim == 1:
        lines = [f" {number(v)}" for v in shown]
        if gaps[0] is not None:
            lines.insert(gaps[0], "⋮".rjust(len(lines[0])))
        return lines
    if a.ndim == 2:
        return _matrix_lines(shown, number, gaps)
    lines = []
    for index in np.ndindex(shown.shape[:-2]):
        # Positions in the whole array: behind a gap they count from its end.
        place = [i if gap is None or i < gap else a.shape[d] - shown.shape[d] + i
                 for d, (i, gap) in enumerate(zip(index, gaps, strict=False))]
        if any(gap is not None and i == gap for i, gap in zip(index, gaps, strict=False)) and lines[-1] != "...":
            lines += ["...", ""]
        lines.append("(" + ",".join(f"{i:<2d}" for i in place) + ",.,.) = ")
        lines += [" " + line for line in _matrix_lines(shown[index], number, gaps[-2:])]
        lines.append("")
    return lines[:-1]


def _describe(self: Any) -> str:
    if self.numel() == 0 and self.dim() <= 1:
        size = "with no dimension"
    elif self.dim() == 0:
        size = "of size ()"
    else:
        size = "of size " + "x".join(map(str, self.size()))
        if self.dim() == 1:
            size = f"of size {self.size(0)}"
    device = f" (GPU {self.get_device()})" if self.is_cuda else ""
    return f"[{self.type()} {size}{device}]"


def _format(self: Any) -> str:
    lines = _tensor_lines((self.cpu() if self.is_cuda else self)._numpy())
    return "\n".join(["", *lines, _describe(self)]) if lines else _describe(self)


def _format_storage(self: Any) -> str:
    on_host = self.cpu() if self.is_cuda else self
    lines = _tensor_lines(vector(on_host)._numpy())
    return "\n".join([*lines, f"[{self.type()} of size {len(self)}]"])


def __format__(self: Any, spec: str) -> str:
    if spec and self.numel() == 1:
        return format(self.item(), spec)
    return object.__format__(self, spec)
