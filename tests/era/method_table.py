"""Every method of Variable that has a twin on tensors, with sample arguments: the table that test_methods.py walks.

    method("narrow", real(2, 3, 4), 1, 0, 2, dims=(0,))

is `x.narrow(1, 0, 2)` for an x of size (2, 3, 4), and because `dims` says that argument 0 is a dimension, also
`x.narrow(-2, 0, 2)`. `real` and its like draw an argument; everything else is passed as it is.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from era_package import Variable, torch

# ---- arguments -----------------------------------------------------------------------------------------------------


class Drawn(NamedTuple):
    """A Variable argument: `build(rng)` is its array. Indices and masks are not `differentiable`."""

    sizes: tuple[int, ...]
    build: Callable[[np.random.Generator], np.ndarray]
    differentiable: bool = True


def between(low: float, high: float, *sizes: int) -> Drawn:
    """Numbers in [low, high], none closer to another than a little, so that differences never cross a tie."""

    def build(rng):
        n = int(np.prod(sizes, dtype=int))
        return (low + (high - low) * (rng.permutation(n) + rng.uniform(0.3, 0.7, n)) / n).reshape(sizes)

    return Drawn(sizes, build)


def positive(*sizes: int) -> Drawn:
    return between(0.3, 2.5, *sizes)


def unit(*sizes: int) -> Drawn:
    """Numbers in (-1, 1), not at the ends."""
    return between(-0.9, 0.9, *sizes)


def real(*sizes: int) -> Drawn:
    """Numbers of both signs, none within 0.05 of an integer or of a half: no kink of abs, floor or round is near."""

    def build(rng):
        x = between(-2.4, 2.4, *sizes).build(rng)
        away = np.abs(x * 2 - np.round(x * 2)) < 0.1
        return np.where(away, x + 0.1, x)

    return Drawn(sizes, build)


def exactly(values: Any) -> Drawn:
    array = np.array(values, float)
    return Drawn(array.shape, lambda rng: array.copy())


def spread(*sizes: int) -> Drawn:
    """A matrix that is well away from a singular one; batches of them, too."""

    def build(rng):
        return rng.uniform(-1, 1, sizes) + 3 * np.eye(sizes[-1])

    return Drawn(sizes, build)


def definite(n: int) -> Drawn:
    """A matrix that is symmetric and positive definite."""

    def build(rng):
        a = rng.uniform(-1, 1, (n, n))
        return a @ a.T + n * np.eye(n)

    return Drawn((n, n), build)


def below(high: int, *sizes: int) -> Drawn:
    """Indices in [0, high), repeats among them."""
    return Drawn(sizes, lambda rng: rng.integers(0, high, sizes), False)


def distinct(high: int, n: int) -> Drawn:
    """`n` different indices in [0, high)."""
    return Drawn((n,), lambda rng: rng.permutation(high)[:n].copy(), False)


def permuted(axis: int, *sizes: int) -> Drawn:
    """Indices that differ along `axis`: a scatter of them never writes twice to one place."""

    def build(rng):
        numbers = np.broadcast_to(np.expand_dims(np.arange(sizes[axis]), [d for d in range(len(sizes)) if d != axis]),
                                  sizes)
        return rng.permuted(numbers, axis=axis)

    return Drawn(sizes, build, False)


def mask(*sizes: int) -> Drawn:
    """A ByteTensor with ones and zeros, at least one of each where there is room."""

    def build(rng):
        bits = np.arange(int(np.prod(sizes, dtype=int))) % 2 == 0
        return rng.permutation(bits).reshape(sizes).astype(np.uint8)

    return Drawn(sizes, build, False)


# ---- entries -------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    name: str
    self: Drawn
    args: tuple[Any, ...]
    variant: str
    in_place: bool  # whether the in-place twin, if there is one, takes these arguments

    @property
    def id(self) -> str:
        return f"{self.name}-{self.variant}" if self.variant else self.name

    def draw(self) -> list[Any]:
        """Arrays for the object and the drawn arguments; the same at each call."""
        rng = np.random.default_rng(zlib.crc32(self.id.encode()))
        return [a.build(rng) if isinstance(a, Drawn) else a for a in (self.self, *self.args)]

    def tensors(self, layout: str = "contiguous") -> list[Any]:
        return [LAYOUTS[layout](a) if isinstance(s, Drawn) else a
                for s, a in zip((self.self, *self.args), self.draw(), strict=True)]

    def variables(self, layout: str = "contiguous", requires_grad: bool = False) -> list[Any]:
        return [Variable(t, requires_grad=requires_grad and s.differentiable) if isinstance(s, Drawn) else t
                for s, t in zip((self.self, *self.args), self.tensors(layout), strict=True)]


def _strided(array: np.ndarray) -> Any:
    base = np.zeros((*array.shape, 2), array.dtype)
    base[..., 0] = array
    return torch.from_numpy(base).select(array.ndim, 0)


def _transposed(array: np.ndarray) -> Any:
    tensor = torch.from_numpy(np.ascontiguousarray(array.T))
    return tensor.permute(*reversed(range(array.ndim))) if array.ndim > 1 else tensor


LAYOUTS = {
    "contiguous": lambda array: torch.from_numpy(np.array(array)),
    "strided": _strided,
    "transposed": _transposed,
}


def method(
    name: str,
    on: Drawn,
    *args: Any,
    variant: str = "",
    dims: Iterable[int] = (),
    ndim: int | None = None,
    in_place: bool = True,
) -> list[Entry]:
    """The entry, and for the arguments number `dims` (dimensions) each combination of negative ones.

    `ndim`: the number of dimensions they count in, if it isn't that of the object."""
    entries = [Entry(name, on, args, variant, in_place)]
    for position in dims:
        negative = list(args)
        negative[position] -= len(on.sizes) if ndim is None else ndim
        entries.append(Entry(name, on, tuple(negative), "_".join(filter(None, (variant, f"neg{position}"))),
                             in_place))
    return entries


class Flavour(NamedTuple):
    variant: str
    left: tuple[int, ...]
    right: tuple[int, ...]
    in_place: bool


FLAVOURS = [
    Flavour("", (2, 3, 4), (2, 3, 4), True),
    Flavour("1d", (3,), (3,), True),
    Flavour("broadcast_rhs", (2, 3, 4), (3, 4), True),
    Flavour("broadcast_rhs_inner", (2, 3, 4), (2, 3, 1), True),
    Flavour("broadcast_lhs", (3, 4), (2, 3, 4), False),
    Flavour("broadcast_all", (2, 1, 4), (3, 1), False),
    Flavour("scalar_broadcast_rhs", (2, 3, 4), (1,), True),
    Flavour("scalar_broadcast_lhs", (1,), (2, 3, 4), False),
]
TERNARY_FLAVOURS = [
    ("", (2, 3), (2, 3), (2, 3), True),
    ("broadcast_rhs", (2, 3, 2), (3, 1), (2, 1, 2), True),
    ("broadcast_lhs", (3, 1), (2, 3, 2), (2, 3, 2), False),
    ("broadcast_all", (3, 1), (2, 3, 1), (2, 1, 2), False),
    ("scalar_broadcast", (2, 3), (1,), (1,), True),
]


def binary(name: str, left: Callable = real, right: Callable = real, *rest: Any, prefix: str = "") -> list[Entry]:
    """A method of two Variables in every broadcasting flavour."""
    return [entry for f in FLAVOURS for entry in
            method(name, left(*f.left), right(*f.right), *rest, variant="_".join(filter(None, (prefix, f.variant))),
                   in_place=f.in_place)]


def with_number(name: str, number: Any, on: Callable = real, **kwargs: Any) -> list[Entry]:
    kind = "constant" if number == abs(number) else "negative_constant"
    kind += "_int" if isinstance(number, int) else ""
    return method(name, on(2, 3, 4), number, variant=kind, **kwargs) + method(
        name, on(3), number, variant=f"{kind}_1d", **kwargs)


def reduction(name: str, on: Callable = real, before: tuple[Any, ...] = (), between: tuple[Any, ...] = (),
              full: bool = True, prefix: str = "", **kwargs: Any) -> list[Entry]:
    """A reduction of everything and of each dimension, with and without keepdim, negative dims and 1-d objects.

    `before` are arguments in front of the dim, `between` those between it and keepdim."""
    at = len(before)
    entries = []

    def add(variant, *args):
        variant = "_".join(filter(None, (prefix, variant)))
        entries.extend(method(name, *args[:1], *before, *args[1:], variant=variant,
                              dims=(at,) if len(args) > 1 else (), **kwargs))

    if full:
        add("", on(2, 3, 4))
        add("1d", on(3))
        add("one_element", on(1))
    for dim in range(3):
        add(f"dim{dim}", on(2, 3, 4), dim)
        add(f"keepdim{dim}", on(2, 3, 4), dim, *between, True)
    add("dim_1d", on(3), 0)
    add("keepdim_1d", on(3), 0, *between, True)
    return entries


# ---- the table -----------------------------------------------------------------------------------------------------


def arithmetic() -> list[Entry]:
    entries = []
    for name in ("add", "sub", "mul"):
        entries += binary(name) + with_number(name, 3.14) + with_number(name, 2) + with_number(name, -1.5)
    entries += binary("div", real, positive) + with_number("div", 3.14) + with_number("div", 2)
    entries += binary("pow", positive, real)
    for number in (2, 3.14, -1.5, 1, 0, 0.5):
        entries += method("pow", positive(2, 3), number, variant=f"constant_{number}")
    entries += method("pow", real(2, 3), 3, variant="constant_3_of_both_signs")
    for name in ("fmod", "remainder"):
        entries += with_number(name, 1.5) + with_number(name, -1.7)
        entries += [e._replace(args=(e.args[0]._replace(differentiable=False),))
                    for e in binary(name, real, lambda *sizes: between(1.1, 1.7, *sizes))]
    entries += binary("atan2", real, positive)
    entries += binary("lerp", real, real, 0.4)
    entries += binary("max", real, unit, prefix="elementwise") + binary("min", real, unit, prefix="elementwise")
    entries += binary("dist") + binary("dist", real, real, 3, prefix="3_norm")
    entries += method("dist", real(2, 3), real(2, 3), 1, variant="1_norm")
    for name in ("eq", "ne", "gt", "ge", "lt", "le"):
        entries += binary(name, lambda *sizes: exactly(np.arange(np.prod(sizes)).reshape(sizes) % 3), unit)
        entries += method(name, exactly([[0, 1, 2], [2, 1, 0]]), 1, variant="constant")
        entries += method(name, exactly([[0, 1, 2], [2, 1, 0]]), exactly([[0, 2, 1], [2, 1, 1]]), variant="ties")
    for name, right in (("addcmul", real), ("addcdiv", positive)):
        for variant, first, second, third, in_place in TERNARY_FLAVOURS:
            entries += method(name, real(*first), real(*second), right(*third), variant=variant, in_place=in_place)
            scaled = "_".join(filter(None, ("scaled", variant)))
            entries += method(name, real(*first), 0.5, real(*second), right(*third), variant=scaled, in_place=in_place)
    return entries


def operators() -> list[Entry]:
    entries = []
    for name in ("__add__", "__sub__", "__mul__"):
        entries += binary(name) + with_number(name, 3.14) + with_number(name, 2)
    entries += binary("__truediv__", real, positive) + with_number("__truediv__", 3.14)
    for name in ("__radd__", "__rsub__", "__rmul__"):
        entries += with_number(name, 3.14) + with_number(name, 2)
    entries += binary("__div__", real, positive)
    for name in ("__rtruediv__", "__rdiv__"):
        entries += with_number(name, 3.14, positive)
    entries += binary("__pow__", positive, real) + with_number("__pow__", 3.14, positive)
    entries += with_number("__mod__", 1.5)
    entries += method("__neg__", real(2, 3, 4)) + method("__matmul__", real(2, 3), real(3, 2))
    for name in ("__eq__", "__ne__", "__gt__", "__ge__", "__lt__", "__le__"):
        entries += method(name, real(2, 3), real(2, 3)) + method(name, real(2, 3), 0.5, variant="constant")
    return entries


def pointwise() -> list[Entry]:
    domains = {
        real: "neg exp sin cos sinh cosh tanh sigmoid atan abs sign floor ceil round trunc frac",
        unit: "tan asin acos log1p",
        positive: "log sqrt rsqrt reciprocal",
    }
    entries = [entry for domain, names in domains.items() for name in names.split()
               for sizes, variant in (((2, 3, 4), ""), ((3,), "1d")) for entry in method(name, domain(*sizes),
                                                                                         variant=variant)]
    entries += method("sqrt", exactly([1e-3, 4.0, 9.0]), variant="near_zero")
    entries += method("log1p", positive(2, 3), variant="positive")
    entries += method("clamp", real(2, 3, 4), -0.9, 0.9)
    entries += method("clamp", real(2, 3, 4), -0.9, variant="min")
    entries += method("clamp", real(3), 0, 1, variant="ints_1d")
    entries += method("clone", real(2, 3, 4)) + method("contiguous", real(2, 3, 4))
    return entries


def reductions() -> list[Entry]:
    entries = reduction("sum") + reduction("mean") + reduction("prod")
    for zeros, values in {"no_zeros": [[1, 2, 3], [4, 5, 6]], "one_zero": [[1, 0, 3], [4, 5, 6]],
                          "zero_in_each_row": [[1, 0, 3], [0, 5, 6]], "two_zeros_in_a_row": [[1, 0, 0], [4, 5, 6]],
                          "all_zeros": [[0, 0], [0, 0]]}.items():
        entries += method("prod", exactly(values), variant=zeros)
        entries += method("prod", exactly(values), 1, variant=f"{zeros}_dim", dims=(0,))
        entries += method("prod", exactly(values), 0, True, variant=f"{zeros}_keepdim", dims=(0,))
        entries += method("cumprod", exactly(values), 1, variant=zeros, dims=(0,))
    for name in ("max", "min", "median"):
        entries += reduction(name)
    entries += reduction("mode", full=False) + method("mode", real(2, 3, 4), variant="default_dim")
    # A repeated element that moves is no mode any more, so there is no derivative there.
    repeats = exactly([[3, 1, 3, 2], [5, 5, 4, 4]])._replace(differentiable=False)
    entries += method("mode", repeats, 1, variant="repeats")
    for k in (1, 2):
        entries += method("kthvalue", real(2, 3, 4), k, variant=f"{k}_default_dim")
        for dim in range(3):
            entries += method("kthvalue", real(2, 3, 4), k, dim, variant=f"{k}_dim{dim}", dims=(1,))
            entries += method("kthvalue", real(2, 3, 4), k, dim, True, variant=f"{k}_keepdim{dim}", dims=(1,))
        entries += method("kthvalue", real(3), k, 0, variant=f"{k}_dim_1d", dims=(1,))
        entries += method("kthvalue", real(3), k, 0, True, variant=f"{k}_keepdim_1d", dims=(1,))
    for name in ("var", "std"):
        entries += [e for e in reduction(name, between=(True,)) if "one_element" not in e.id]
        entries += method(name, real(2, 3, 4), 1, False, False, variant="biased_dim", dims=(0,))
    for p in (2, 1, 3, 0.5, 1.5):
        entries += method("norm", real(2, 3, 4), p, variant=f"{p}") + method("norm", real(3), p, variant=f"{p}_1d")
        entries += [e for e in reduction("norm", before=(p,), full=False, prefix=f"{p}")
                    if p in (2, 3) or "dim1" in e.id or "1d" in e.id]
    entries += method("norm", positive(2, 3), 0.5, variant="0.5_positive") + method("norm", real(2, 3))
    for name in ("cumsum", "cumprod"):
        for dim in range(3):
            entries += method(name, real(2, 3, 4), dim, variant=f"dim{dim}", dims=(0,))
        entries += method(name, real(3), 0, variant="dim_1d", dims=(0,))
    entries += method("renorm", real(2, 3, 4), 2, 1, 0.5, dims=(1,))
    entries += method("renorm", real(2, 3, 4), 1, 2, 3, variant="1_norm", dims=(1,))
    entries += method("renorm", real(2, 3), 1.5, 0, 2, variant="1.5_norm", dims=(1,))
    entries += method("renorm", unit(2, 3), 2, 0, 9, variant="nothing_above", dims=(1,))
    return entries


def ordering() -> list[Entry]:
    entries = method("sort", real(2, 3, 4)) + method("sort", real(3), variant="1d")
    entries += method("topk", real(2, 3, 4), 2) + method("topk", real(4), 3, variant="1d")
    for dim in range(3):
        entries += method("sort", real(2, 3, 4), dim, variant=f"dim{dim}", dims=(0,))
        entries += method("sort", real(2, 3, 4), dim, True, variant=f"dim{dim}_descending", dims=(0,))
        entries += method("topk", real(2, 3, 4), 2, dim, variant=f"dim{dim}", dims=(1,))
        entries += method("topk", real(2, 3, 4), 2, dim, False, variant=f"dim{dim}_smallest", dims=(1,))
    entries += method("topk", real(2, 3, 4), 2, 1, True, True, variant="sorted", dims=(1,))
    return entries


def products() -> list[Entry]:
    entries = method("mm", real(2, 3), real(3, 4)) + method("bmm", real(2, 3, 4), real(2, 4, 2))
    entries += method("mv", real(2, 3), real(3)) + method("ger", real(3), real(4)) + method("dot", real(3), real(3))
    for left, right in [((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((3,), (2, 3, 4)),
                        ((2, 3, 4), (4,)), ((3, 4), (2, 4, 2)), ((2, 3, 4), (4, 2)), ((2, 3, 4), (2, 4, 2)),
                        ((2, 1, 2, 3), (1, 2, 3, 2)), ((3,), (2, 2, 3, 2)), ((2, 2, 2, 3), (3,))]:
        entries += method("matmul", real(*left), real(*right), variant=f"{len(left)}d_{len(right)}d_{len(entries)}")
    families = {
        "addmm": ((2, 4), (2, 3), (3, 4)),
        "addbmm": ((2, 4), (3, 2, 3), (3, 3, 4)),
        "baddbmm": ((3, 2, 4), (3, 2, 3), (3, 3, 4)),
        "addmv": ((2,), (2, 3), (3,)),
        "addr": ((3, 4), (3,), (4,)),
    }
    for name, (out, left, right) in families.items():
        smaller = [(1,)] + [out[:-1] + (1,), out[1:], (1,) * (len(out) - 1) + out[-1:]] * (len(out) > 1)
        for variant, coefficients in {"": (), "coef": (0.5,), "two_coefs": (0.2, 0.6), "int_coefs": (2, 3)}.items():
            entries += method(name, real(*out), *coefficients, real(*left), real(*right), variant=variant)
            for sizes in smaller:
                text = "_".join(filter(None, ("broadcast_lhs", "x".join(map(str, sizes)), variant)))
                entries += method(name, real(*sizes), *coefficients, real(*left), real(*right), variant=text,
                                  in_place=False)
    entries += method("trace", real(3, 3)) + method("trace", real(2, 4), variant="wide")
    for k in (0, 1, -1):
        entries += method("diag", real(3, 4), k, variant=f"2d_{k}") + method("diag", real(3), k, variant=f"1d_{k}")
        entries += method("tril", real(3, 4), k, variant=f"{k}") + method("triu", real(3, 4), k, variant=f"{k}")
    for name in ("diag", "tril", "triu"):
        entries += method(name, real(3, 3))
    entries += method("diag", real(3), variant="1d")
    entries += method("cross", real(3, 2), real(3, 2)) + method("cross", real(2, 3), real(2, 3), 1, variant="dim",
                                                                dims=(1,))
    entries += method("cross", real(2, 3, 3), real(2, 3, 3), 1, variant="dim1_of_3", dims=(1,))
    entries += method("inverse", spread(3, 3))
    entries += method("potrf", definite(3)) + method("potrf", definite(3), False, variant="lower")
    entries += method("gesv", real(3, 2), spread(3, 3)) + method("gesv", real(3, 1), spread(3, 3), variant="column")
    return entries


def shapes() -> list[Entry]:
    entries = []
    for variant, args in {"ints": (4, 6), "size": (torch.Size([4, 6]),), "tuple": ((6, 4),), "inferred": (-1, 12),
                          "flat": (-1,), "wider": (2, 3, 2, 2)}.items():
        # A view needs memory in order, so these are views of an ordered copy.
        entries += method("view", real(2, 3, 4), *args, variant=variant)
    entries += method("view_as", real(2, 3, 4), exactly(np.zeros((6, 4)))._replace(differentiable=False))
    for variant, sizes, args in [("ints", (3, 1), (3, 4)), ("more_dims", (3, 1), (2, 3, 4)), ("keeps", (3, 1), (-1, 4)),
                                 ("size", (1, 3), (torch.Size([2, 3]),)), ("tuple", (1, 3), ((2, 3),)),
                                 ("one", (1,), (2, 2, 3)), ("same", (2, 3), (2, 3)), ("1d", (3,), (2, 3))]:
        entries += method("expand", real(*sizes), *args, variant=variant)
    entries += method("expand_as", real(3, 1), exactly(np.zeros((2, 3, 4)))._replace(differentiable=False))
    entries += method("t", real(2, 3))
    for a, b in ((0, 1), (2, 0), (1, 1)):
        entries += method("transpose", real(2, 3, 4), a, b, variant=f"{a}_{b}", dims=(0, 1))
    entries += method("transpose", real(2, 3), 0, 1, variant="2d", dims=(0, 1))
    entries += method("permute", real(2, 3, 4), 2, 0, 1, variant="ints", dims=(0, 1, 2))
    entries += method("permute", real(2, 3, 4), -1, -3, -2, variant="all_negative")
    entries += method("permute", real(2, 3), 1, 0, variant="2d")
    for dim in range(3):
        entries += method("select", real(2, 3, 4), dim, 1, variant=f"dim{dim}", dims=(0,))
        entries += method("narrow", real(2, 3, 4), dim, 1, 1, variant=f"dim{dim}", dims=(0,))
        entries += method("unfold", real(2, 3, 4), dim, 2, 1, variant=f"dim{dim}", dims=(0,))
        entries += method("split", real(2, 3, 4), 2, dim, variant=f"dim{dim}", dims=(1,))
        entries += method("chunk", real(2, 3, 4), 2, dim, variant=f"dim{dim}", dims=(1,))
        entries += method("squeeze", real(*[1 if d == dim else 2 for d in range(3)]), dim, variant=f"dim{dim}",
                          dims=(0,))
    entries += method("narrow", real(3), 0, 1, 2, variant="1d", dims=(0,))
    entries += method("select", real(3), 0, 1, variant="1d", dims=(0,))
    entries += method("unfold", real(6), 0, 3, 2, variant="1d", dims=(0,))
    entries += method("unfold", real(5, 2), 0, 2, 2, variant="remainder", dims=(0,))
    entries += method("split", real(5, 2), 2) + method("chunk", real(5, 2), 3)
    entries += method("squeeze", real(1, 2, 1)) + method("squeeze", real(1, 1), variant="all_ones")
    entries += method("squeeze", real(2, 3), 1, variant="nothing", dims=(0,))
    for dim in range(4):
        entries += method("unsqueeze", real(2, 3, 4), dim, variant=f"dim{dim}", dims=(0,), ndim=4)
    entries += method("unsqueeze", real(3), 0, variant="1d", dims=(0,), ndim=2)
    for variant, args in {"ints": (2, 1, 2), "more_dims": (2, 2, 1, 1), "size": (torch.Size([1, 3, 1]),),
                          "tuple": ((2, 1, 1),)}.items():
        entries += method("repeat", real(2, 1, 2), *args, variant=variant)
    return entries


def indexing() -> list[Entry]:
    entries = []
    for dim, size in enumerate((2, 3, 4)):
        entries += method("index_select", real(2, 3, 4), dim, below(size, 3), variant=f"dim{dim}", dims=(0,))
        source = [2, 3, 4]
        source[dim] = 2
        entries += method("index_add", real(2, 3, 4), dim, below(size, 2), real(*source), variant=f"dim{dim}",
                          dims=(0,))
        entries += method("index_copy", real(2, 3, 4), dim, distinct(size, 2), real(*source), variant=f"dim{dim}",
                          dims=(0,))
        entries += method("index_fill", real(2, 3, 4), dim, distinct(size, 2), 1.5, variant=f"dim{dim}", dims=(0,))
    entries += method("index_select", real(3), 0, below(3, 4), variant="1d", dims=(0,))
    entries += method("index_fill", real(4), 0, distinct(4, 2), 2, variant="1d", dims=(0,))
    for dim, size in enumerate((4, 3)):
        index = [4, 3]
        index[dim] = 2
        entries += method("gather", real(4, 3), dim, below(size, *index), variant=f"dim{dim}", dims=(0,))
        entries += method("scatter", real(4, 3), dim, permuted(dim, *index), real(*index), variant=f"dim{dim}",
                          dims=(0,))
        entries += method("scatter_add", real(4, 3), dim, below(size, *index), real(*index), variant=f"dim{dim}",
                          dims=(0,))
    entries += method("gather", real(4), 0, below(4, 3), variant="1d", dims=(0,))
    entries += method("scatter", real(4), 0, permuted(0, 3), real(3), variant="1d", dims=(0,))
    entries += method("scatter_add", real(4), 0, below(4, 3), real(3), variant="1d", dims=(0,))
    for variant, sizes in {"": (2, 3, 4), "broadcast_rhs": (3, 4), "scalar_broadcast": (1,)}.items():
        entries += method("masked_fill", real(2, 3, 4), mask(*sizes), 10, variant=variant)
        entries += method("masked_scatter", real(2, 3, 4), mask(*sizes), real(2, 3, 4), variant=variant)
        entries += method("masked_select", real(2, 3, 4), mask(*sizes), variant=variant)
    entries += method("masked_select", real(3, 1), mask(2, 1, 2), variant="broadcast_all")
    entries += method("masked_select", real(3, 4), mask(2, 3, 4), variant="broadcast_lhs")
    keys = {
        "int": 1, "negative_int": -1, "slice": slice(1, 3), "open_slice": slice(1, None), "step": slice(0, 3, 2),
        "ellipsis": Ellipsis, "none": None, "tuple": (1, 2), "tuple_with_slice": (slice(0, 2), 1),
        "tuple_with_ellipsis": (Ellipsis, 1), "tuple_with_none": (1, None, slice(1, 3)), "all_ints": (1, 2, 0),
        "long_tensor": torch.LongTensor([2, 0]), "repeated_long_tensor": torch.LongTensor([1, 1, 0]),
        "list": [0, 2], "repeated_list": [1, 1], "lists": [[0, 2], [1, 1], [0, 1]],
        "list_then_slices": ([0, 2], slice(None), slice(None)), "slice_then_lists": (slice(None), [0, 2], [1, 0]),
        "list_then_ellipsis": ([1, 2], Ellipsis), "broadcast_lists": (slice(None), [[0], [2]], [0, 1]),
    }
    for variant, key in keys.items():
        entries += method("__getitem__", real(3, 3, 2), key, variant=variant)
    entries += method("__getitem__", real(3, 4), mask(3, 4), variant="mask")
    return entries


TABLE: list[Entry] = [entry for family in (arithmetic, operators, pointwise, reductions, ordering, products, shapes,
                                           indexing) for entry in family()]
