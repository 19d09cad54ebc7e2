"""Brings the type stubs up to date with the op table.

`python tools/stubs.py` rewrites the parts of torchlite/_C.pyi and torchlite/__init__.pyi between `# ops:`,
`# operators:` or `# internals:` and their ends. `--check` only says whether that would change them. Everything else
in them is written by hand; tests/test_stubs.py compares both with the module.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).parent.parent / "torchlite"
sys.path.insert(0, str(PACKAGE.parent))

from torchlite import _C  # noqa: E402

PART = re.compile(r"^([ ]*)# (ops|operators|internals): (\w+)\n(?:.*\n)*?\1# end of \2\n", re.MULTILINE)

# What a caller may pass for a parameter of each kind. The names are aliases at the head of the stubs: a method named
# `float` hides the class of that name from the methods beside it.
KINDS = {
    "Tensor": "{data}", "Tensor?": "{data} | None", "Tensor|Scalar": "{data} | _float",
    "Tensor|Scalar?": "{data} | _float | None", "Tensor[]": "Sequence[{element}]", "Scalar": "_float",
    "Scalar?": "_float | None", "int": "_int", "int?": "_int | None", "ints": "_int | Sequence[_int]",
    "ints?": "_int | Sequence[_int] | None", "int...": "_int | Sequence[_int]", "bool": "_bool", "str": "_str",
    "any": "Any",
}
OPERATORS = "add sub mul truediv mod pow matmul and or xor lshift rshift".split()
# Results of tensor methods that are LongTensors whatever self is.
TENSOR_RESULTS = {
    **dict.fromkeys(("sort", "topk", "kthvalue", "mode"), "tuple[Self, LongTensor]"), "nonzero": "LongTensor",
}
COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge", "all", "any"}


def parameters(signature: str) -> list[tuple[str, str, str | None]]:
    """(kind, name, default) of each parameter of a row."""
    inside = signature[signature.index("(") + 1 : -1]
    return [
        (m[1], m[2], m[3]) for m in re.finditer(r"([A-Za-z]\S*) (\w+)(?:=('[^']*'|[^,]+))?(?:, |$)", inside)
    ]


def arguments(op: Any, data: str, element: str, method: bool) -> str:
    """The parameters as the stub writes them, without those that the receiver of a method stands for."""
    written = []
    rows = parameters(op.signature)
    if any(default is None and before[2] is not None for before, (_, _, default) in zip(rows, rows[1:], strict=False)):
        # The era's leading optional arguments, which Python has no notation for.
        scalars = [f"{name}: _float = ..." for kind, name, _ in rows if kind == "Scalar"]
        return ", ".join([f"*args: {data} | _float", *scalars])
    for kind, name, default in rows:
        if method and name == "self":
            continue
        annotation = KINDS[kind].format(data=data, element=element)
        if kind == "int...":
            written.append(f"*{name}: {annotation}")
        elif default is None:
            written.append(f"{name}: {annotation}")
        else:
            written.append(f"{name}: {annotation} = ...")
    return ", ".join(written)


def result_type(op: Any, one: str, known_number: bool) -> str:
    if known_number and op.reduces_to_number:
        return "Any"
    if one == "_TensorBase" and op.name in TENSOR_RESULTS:
        return TENSOR_RESULTS[op.name]
    if op.name in ("max", "min", "median"):  # with `dim` a pair, without a single result
        return "Any"
    return one if op.outputs == 1 else "tuple[" + ", ".join([one] * op.outputs) + "]"


def methods(type_name: str, indent: str) -> list[str]:
    """Methods that rows give to a type of the extension."""
    of_variable = type_name == "_VariableBase"
    present = set(getattr(_C, type_name).__dict__)
    data = "_VariableData" if of_variable else "_Data"
    element = "Variable" if of_variable else "_TensorBase"
    lines = []
    for op in _C._ops:
        if op.name in present and not op.inplace_only and not op.hidden:
            one = "Variable" if of_variable else "Self" if op.is_view else (
                "ByteTensor" if op.name in COMPARISONS else "_TensorBase")
            result = result_type(op, one, not of_variable)
            lines.append(f"def {op.name}({separated(op, data, element)}) -> {result}: ...")
        if op.name + "_" in present and (op.inplace or not op.hidden):
            lines.append(f"def {op.name}_({separated(op, data, element)}) -> Self: ...")
    return [indent + line for line in lines]


def operators(type_name: str, indent: str) -> list[str]:
    """The binary operators of a type of the extension."""
    present = getattr(_C, type_name).__dict__
    operand, result, truth = {
        "_VariableBase": ("_VariableData | _float", "Variable", "Variable"),
        "_TensorBase": ("_Data | _float", "_TensorBase", "ByteTensor"),
    }[type_name]
    lines = [f"def __{name}__(self, other: object) -> {truth}: ...  # type: ignore[override]" for name in ("eq", "ne")]
    lines += [f"def __{name}__(self, other: {operand}) -> {truth}: ...  # type: ignore[misc]"
              for name in ("lt", "le", "gt", "ge")]
    for prefix in ("", "r", "i"):
        lines += [
            f"def __{prefix}{name}__(self, other: {operand}) -> {'Self' if prefix == 'i' else result}: ..."
            for name in OPERATORS if f"__{prefix}{name}__" in present
        ]
    return [indent + line for line in lines]


def internals() -> list[str]:
    """The module's functions with a leading underscore, whose signatures are nobody's promise."""
    return [f"def {name}(*args: Any, **kwargs: Any) -> Any: ..." for name, value in vars(_C).items()
            if name[0] == "_" and isinstance(value, type(_C.from_numpy))]


def separated(op: Any, data: str, element: str) -> str:
    rest = arguments(op, data, element, method=True)
    return f"self, {rest}" if rest else "self"


def functions(indent: str) -> list[str]:
    """Rows that are functions of the package: Variables among the arguments make the result a Variable."""
    lines = []
    for op in _C._ops:
        if op.hidden or op.method_only or op.inplace_only:
            continue
        written = arguments(op, "_X | _Array", "_X", method=False)
        out = "_TensorBase" if op.outputs == 1 else "_TensorBase | Sequence[_TensorBase]"
        written += ("" if "*" in written else ", *") + f", out: {out} | None = ..."
        lines.append(f"def {op.name}({written}) -> {result_type(op, '_X', True)}: ...")
    return [indent + line for line in lines]


def updated(text: str) -> str:
    def part(match: re.Match[str]) -> str:
        indent, kind, what = match.groups()
        if kind == "internals":
            lines = internals()
        elif what == "functions":
            lines = functions(indent)
        else:
            lines = (methods if kind == "ops" else operators)(what, indent)
        return "\n".join([f"{indent}# {kind}: {what}", *map(wrapped, lines), f"{indent}# end of {kind}\n"])

    return PART.sub(part, text)


def wrapped(line: str) -> str:
    """Long lines broken at the parentheses of the parameters."""
    if len(line) <= 120:
        return line
    indent = line[: len(line) - len(line.lstrip())]
    head, rest = line.split("(", 1)
    inside, tail = rest.rsplit(") -> ", 1)
    inside = textwrap.fill(inside, 116, initial_indent=indent + "    ", subsequent_indent=indent + "    ")
    return f"{head}(\n{inside}\n{indent}) -> {tail}"


def main() -> int:
    changed = []
    for path in (PACKAGE / "_C.pyi", PACKAGE / "__init__.pyi"):
        old = path.read_text()
        new = updated(old)
        if new != old:
            changed.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(new)
    print("changed: " + ", ".join(changed) if changed else "the stubs are current")
    return int(bool(changed) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
