"""A textual linter for what the compiler cannot see in C-API code. `capi_lint.py [FILE ...]`; csrc/ by default.

Rules, each with the name that its findings carry:
  gc-trio     a type with Py_TPFLAGS_HAVE_GC sets tp_traverse, tp_clear and tp_dealloc
  untrack     the tp_dealloc of such a type calls PyObject_GC_UnTrack before it touches a member
  trashcan    Py_TRASHCAN_BEGIN and Py_TRASHCAN_END alternate within a function
  refcount    no Py_INCREF or Py_DECREF outside utils/py_ref.h, unless a `// refcount: why` stands beside it
  pure        a tp_traverse changes no reference count
  swallow     PyErr_Clear() follows PyErr_ExceptionMatches, or has a comment that says why any error may be dropped
  macro       no function-like macro outside ALLOWED_MACROS
  goto        no goto
  layers      includes point downwards: utils <- tensor <- autograd <- ir; cuda includes utils and tensor only
"""

import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
# Explicit instantiations of one template, undefined after its last use; and the trashcan, as CPython spells it.
ALLOWED_MACROS = {"TL_INSTANTIATE", "TRASHCAN_BEGIN"}
LAYERS = ["utils", "tensor", "autograd", "ir"]
TEARDOWN = re.compile(r"_tp_clear\s*\(|\bPy_CLEAR\b|(?:->|\.)~|\btp_free\b|PyObject_GC_Del\b|PyObject_ClearWeakRefs\b"
                      r"|\bdestroy_at\b|TRASHCAN_BEGIN\b")
REFCOUNT = re.compile(r"\bPy_X?(?:INCREF|DECREF)\b")


class Finding(NamedTuple):
    file: str
    line: int
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: [{self.rule}] {self.message}"


def without_comments(text: str) -> tuple[str, dict[int, str]]:
    """`text` with comments and literals blanked, each line where it was; and the comment text of each line."""
    comments: dict[int, str] = {}
    token = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        if found.startswith(("//", "/*")):
            first = text.count("\n", 0, match.start()) + 1
            for number, line in enumerate(found.split("\n"), first):
                comments[number] = comments.get(number, "") + line.strip("/* ")
        return re.sub(r"[^\n]", " ", found)

    def keep_includes(match: re.Match[str]) -> str:
        start = text.rfind("\n", 0, match.start()) + 1
        if text[start:match.start()].lstrip().startswith("#include") or re.search(r"\d$", text[start:match.start()]):
            return match.group() if match.group()[0] != "'" else " " * len(match.group())
        return blank(match)

    return token.sub(keep_includes, text), comments


def block(code: str, start: int) -> str:
    """The text from the brace at or after `start` to the one that closes it."""
    start = code.index("{", start)
    depth = 0
    for match in re.compile(r"[{}]").finditer(code, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return code[start:match.end()]
    return code[start:]


def functions(code: str, name: str) -> list[tuple[int, str]]:
    """Offset and body of each function definition whose name matches the pattern `name`."""
    found = []
    for match in re.finditer(rf"\b(?:{name})\s*\([^()]*\)\s*(?:noexcept\s*)?(?={{)", code):
        body = block(code, match.end())
        found.append((match.end(), body))
    return found


def lint_text(file: str, text: str, definitions: str | None = None) -> list[Finding]:
    """Findings in `text`; `definitions` is code that may hold the functions which its type objects name."""
    code, comments = without_comments(text)
    findings: list[Finding] = []

    def line_of(offset: int) -> int:
        return code.count("\n", 0, offset) + 1

    def report(offset: int, rule: str, message: str) -> None:
        findings.append(Finding(file, line_of(offset), rule, message))

    def commented(offset: int, prefix: str = "") -> bool:
        line = line_of(offset)
        return any(comments.get(n, "").startswith(prefix) and comments.get(n) for n in (line, line - 1))

    for match in re.finditer(r"\bPyTypeObject\s+(\w+)\s*=?\s*(?={)", code):
        body = block(code, match.end())
        if "Py_TPFLAGS_HAVE_GC" not in body:
            continue
        missing = [slot for slot in ("tp_traverse", "tp_clear", "tp_dealloc") if slot not in body]
        if missing:
            report(match.start(), "gc-trio", f"{match.group(1)} has Py_TPFLAGS_HAVE_GC but no {', '.join(missing)}")
        dealloc = re.search(r"\.\s*tp_dealloc\s*=\s*(?:\([^)]*\)\s*)?(\w+)", body)
        if dealloc:
            for offset, function in functions(code, dealloc.group(1)):
                check_untrack(offset, function, dealloc.group(1), report)
    for match in re.finditer(r"\btp_flags\s*\|?=[^;,]*Py_TPFLAGS_HAVE_GC[^;,]*;", code):
        around = code[max(0, match.start() - 3000):match.end() + 3000]
        missing = [slot for slot in ("tp_traverse", "tp_clear", "tp_dealloc") if slot not in around]
        if missing:
            report(match.start(), "gc-trio", f"a type is given Py_TPFLAGS_HAVE_GC but no {', '.join(missing)}")

    open_trashcan = False
    for match in re.finditer(r"(?<!#define )\b(?:Py_)?TRASHCAN_(BEGIN|END)\b", code):
        if (match.group(1) == "BEGIN") == open_trashcan:
            report(match.start(), "trashcan", f"Py_TRASHCAN_{match.group(1)} without its counterpart before it")
        open_trashcan = match.group(1) == "BEGIN"
    if open_trashcan:
        report(len(code) - 1, "trashcan", "Py_TRASHCAN_BEGIN is never closed")

    if not file.endswith("utils/py_ref.h"):
        for match in REFCOUNT.finditer(code):
            if not commented(match.start(), "refcount:"):
                report(match.start(), "refcount", f"{match.group()} by hand; use PyRef, or say why: // refcount: ...")
    for offset, function in functions(code, r"\w+_tp_traverse"):
        impure = re.search(r"\bPy_X?(?:INCREF|DECREF|NewRef)\b|\bborrow\s*\(|\bPyErr_Set", function)
        if impure:
            report(offset + impure.start(), "pure", f"tp_traverse calls {impure.group().strip('( ')}")
    for match in re.finditer(r"\bPyErr_Clear\s*\(\s*\)", code):
        before = code[:match.start()].split("\n")[-4:]
        if not commented(match.start()) and not any("PyErr_ExceptionMatches" in line for line in before):
            report(match.start(), "swallow", "PyErr_Clear() without a comment that says why")
    for match in re.finditer(r"^[ \t]*#[ \t]*define[ \t]+(\w+)\(", code, re.MULTILINE):
        if match.group(1) not in ALLOWED_MACROS:
            report(match.start(), "macro", f"function-like macro {match.group(1)}")
    for match in re.finditer(r"\bgoto\b", code):
        report(match.start(), "goto", "goto; use PyRef and a return")
    check_layers(file, code, report)
    return sorted(findings)


def check_untrack(offset: int, body: str, name: str, report) -> None:
    """Reports a dealloc that tears members down while the collector can still see the object."""
    untrack = body.find("PyObject_GC_UnTrack")
    teardown = TEARDOWN.search(body)
    delegate = re.search(r"\w+_dealloc\s*\(", body)
    if untrack < 0:
        if teardown or not delegate:
            report(offset, "untrack", f"{name} frees an object of a collected type without PyObject_GC_UnTrack")
    elif teardown and teardown.start() < untrack:
        early = teardown.group().strip("( ")
        report(offset + teardown.start(), "untrack", f"{name}: {early} before PyObject_GC_UnTrack")


def check_layers(file: str, code: str, report) -> None:
    parts = Path(file).parts
    folder = parts[parts.index("csrc") + 1] if "csrc" in parts and len(parts) > parts.index("csrc") + 2 else ""
    above = {"cuda": ["autograd", "ir"]} | {name: LAYERS[i + 1:] + ["cuda"] for i, name in enumerate(LAYERS)}
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*"(\w+)/', code, re.MULTILINE):
        if match.group(1) in above.get(folder, []):
            report(match.start(), "layers", f"{folder}/ includes {match.group(1)}/, which stands above it")


def main(arguments: list[str]) -> int:
    csrc = ROOT / "csrc"
    files = [Path(a) for a in arguments] or sorted(p for p in csrc.rglob("*") if p.suffix in (".cpp", ".h"))
    findings = [finding for file in files for finding in lint_text(str(file), file.read_text())]
    print(*findings, f"{len(files)} files, {len(findings)} findings", sep="\n")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
