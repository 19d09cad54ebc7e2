"""``parse``: the lambda that a text prints.

    lambda %0 : Float(2, 3), %1 = captured : Float(3,) {
      %2 = Mul %0, %1
      %3, %4 = Max %2, 1, False
      %5 = ^module.Function %3, 'constant' : Float(2,)
      Ret %5, %4
    }

The types of results come from the rules of the operations; they are written only behind a Python Function and where
elements decide a size. A comment behind a let is where it was traced.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn, cast

import numpy as np

from .. import _C

Lambda = _C.Lambda
Local = _C.Local
_TYPES = {cls.__name__.removesuffix("Tensor") for cls in _C._TensorBase.__subclasses__()} | {
    "Byte",
    "Char",
    "Short",
    "Int",
    "Long",
    "Half",
    "Float",
    "Double",
}

_TOKEN = re.compile(
    r"""[ \t]*(?:
      (?P<local>%\d+)
    | (?P<number>[-+]?(?:inf\b|nan\b|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?))
    | (?P<string>[bB]?(?:'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"))
    | (?P<function>\^[^\s,]+)
    | (?P<cls><(?:[^<>\n]|<locals>|<lambda>)+>)
    | (?P<name>[A-Za-z_][\w.]*)
    | (?P<comment>\#[^\n]*)
    | (?P<end>\n\s*)
    | (?P<mark>[\[\](){},:=])
    )""",
    re.VERBOSE,
)


class ParseError(SyntaxError):
    """A text that prints no lambda. ``lineno`` and ``offset`` (the column, from 1) say where."""

    def __str__(self) -> str:
        mark = " " * ((self.offset or 1) - 1) + "^"
        return f"line {self.lineno}, column {self.offset}: {self.msg}\n    {self.text}\n    {mark}"


class _Parser:
    def __init__(self, text: str, functions: Mapping[str, Any]) -> None:
        self.text = text
        self.functions = functions
        self.at = self.start = 0  # behind and at the beginning of the current token
        self.kind = self.token = ""
        self.locals: dict[str, Any] = {}
        self.types: dict[str, Any] = {}  # by what is written
        self.advance()

    # ---- tokens -----------------------------------------------------------------------------------------------------

    def fail(self, message: str, at: int | None = None, cause: BaseException | None = None) -> NoReturn:
        at = self.start if at is None else at
        begin = self.text.rfind("\n", 0, at) + 1
        end = self.text.find("\n", at)
        line = self.text[begin : end if end >= 0 else len(self.text)]
        where = (None, self.text.count("\n", 0, at) + 1, at - begin + 1, line)
        raise ParseError(message, where) from cause

    def advance(self) -> str:
        """Steps to the next token; returns the one left behind."""
        left = self.token
        m = _TOKEN.match(self.text, self.at)
        if m is None:
            rest = self.text[self.at :]
            self.start = self.at + len(rest) - len(rest.lstrip(" \t"))
            if rest.strip():
                self.fail(f"unexpected character {self.text[self.start]!r}")
            self.kind = self.token = ""
            return left
        self.kind = m.lastgroup or ""
        self.start, self.at = m.span(self.kind)
        self.token = m.group(self.kind)
        return left

    def shown(self) -> str:
        return {"": "the end of the text", "end": "the end of the line"}.get(self.kind, repr(self.token))

    def expect(self, token: str) -> None:
        if self.token != token:
            self.fail(f"expected {token!r}, but got {self.shown()}")
        self.advance()

    def accept(self, token: str) -> bool:
        if self.token != token or self.kind in ("string", "comment"):
            return False
        self.advance()
        return True

    def line_end(self) -> str | None:
        """The end of a line, and the comment before it."""
        comment = None
        if self.kind == "comment":
            comment = self.advance()[1:].strip()
        if self.kind != "end":
            self.fail(f"expected the end of the line, but got {self.shown()}")
        self.advance()
        return comment

    # ---- parts ------------------------------------------------------------------------------------------------------

    def bind(self, at: int, name: str, type_: Any) -> Any:
        if name in self.locals:
            self.fail(f"{name} is bound a second time", at)
        local = self.locals[name] = Local(type_)
        return local

    def names(self) -> list[tuple[int, str]]:
        out = []
        while True:
            if self.kind != "local":
                self.fail(f"expected a local such as %0, but got {self.shown()}")
            out.append((self.start, self.advance()))
            if not self.accept(","):
                return out

    def used(self) -> Any:
        local = self.locals.get(self.token)
        if local is None:
            self.fail(f"{self.token} is used before it is bound")
        self.advance()
        return local

    def type(self) -> Any:
        begin = self.start
        device = -1
        if self.token == "cuda":
            self.advance()
            self.expect(":")
            if self.kind != "number" or not self.token.isdigit():
                self.fail(f"expected the number of a device, but got {self.shown()}")
            device = int(self.advance())
        if self.token not in _TYPES:
            self.fail(f"expected an element type such as Float, but got {self.shown()}")
        dtype = self.advance()
        self.expect("(")
        sizes = []
        while self.token != ")":
            if self.kind != "number" or not self.token.lstrip("-").isdigit():
                self.fail(f"expected a size, but got {self.shown()}")
            sizes.append(int(self.advance()))
            if not self.accept(","):
                break
        key = self.text[begin : self.start]
        self.expect(")")
        found = self.types.get(key)
        if found is None:
            found = self.types[key] = _C.TensorType(dtype, sizes, device)
        return found

    def find(self, name: str, at: int) -> Any:
        """The class that prints as ``name``: one of ``functions``, or one in a module that is loaded."""
        if name in self.functions:
            return self.functions[name]
        parts = name.split(".")
        for n in range(len(parts) - 1, 0, -1):
            module = sys.modules.get(".".join(parts[:n]))
            if module is None:
                continue
            value: Any = module
            for part in parts[n:]:
                value = getattr(value, part, None)
            if value is not None:
                return value
        self.fail(f"there is no {name}: import its module, or hand it in as functions={{{name!r}: ...}}", at)

    def items(self, close: str, item: Any) -> tuple[list[Any], bool]:
        """Items up to ``close``, and whether a comma followed the last."""
        out: list[Any] = []
        comma = False
        while not self.accept(close):
            out.append(item())
            comma = self.accept(",")
            if not comma:
                self.expect(close)
                break
        return out, comma

    def constant(self) -> Any:
        kind, at = self.kind, self.start
        if kind == "number":
            token = self.advance()
            digits = token[1:] if token[0] in "+-" else token
            return int(token) if digits.isdigit() else float(token)
        if kind == "string":
            return ast.literal_eval(self.advance())
        if kind == "cls":
            return self.find(self.advance()[1:-1], at)
        if self.accept("("):
            values, comma = self.items(")", self.constant)
            if len(values) == 1 and not comma:
                self.fail("a tuple of one is written with a comma", at)
            return tuple(values)
        if self.accept("["):
            return self.items("]", self.constant)[0]
        if kind == "name":
            return self.named_constant(self.advance(), at)
        self.fail(f"expected a local or a constant, but got {self.shown()}")

    def named_constant(self, name: str, at: int) -> Any:
        simple = {"None": None, "True": True, "False": False, "Ellipsis": Ellipsis, "inf": np.inf, "nan": np.nan}
        if name in simple:
            return simple[name]
        made: Any = None
        if name == "slice":
            made = slice
        elif name == "dtype":
            made = np.dtype
        elif name == "torchlite.Size":
            made = _C.Size
        elif name.startswith("np.") and isinstance(getattr(np, name[3:], None), type):
            made = getattr(np, name[3:])
            if not issubclass(made, np.generic):
                made = None
            elif self.token != "(":  # np.True_
                self.fail(f"{name} is no constant", at)
        elif name in ("np.True_", "np.False_"):
            return getattr(np, name[3:])
        if made is None:
            self.fail(f"{name} is no constant that can be read back", at)
        self.expect("(")
        values, _ = self.items(")", self.constant)
        try:
            return made(*values)
        except MemoryError:
            raise
        except Exception as e:
            self.fail(f"{name}: {e}", at, e)

    def argument(self, is_list: bool) -> Any:
        if self.kind == "local":
            return self.used()
        if is_list:
            self.expect("[")
            return tuple(self.items("]", lambda: self.argument(False))[0])
        return _C.Const(self.constant())

    def arguments(self, list_index: int) -> list[Any]:
        out: list[Any] = []
        if self.kind in ("end", "comment", "") or self.token == ":":
            return out
        while True:
            out.append(self.argument(len(out) == list_index))
            if not self.accept(","):
                return out

    def let(self) -> Any:
        names = self.names()
        self.expect("=")
        at = self.start
        kind: Any
        if self.kind == "function":
            kind, op = _C.PyApply, self.find(self.advance()[1:], at)
            args = self.arguments(-1)
        elif self.kind == "name":
            if self.token not in _ops():
                self.fail(f"there is no operation {self.token}")
            kind, (op, list_index) = _C.CppApply, _ops()[self.advance()]
            args = self.arguments(list_index)
        else:
            self.fail(f"expected an operation, but got {self.shown()}")
        given = None
        if self.accept(":"):
            given = [self.type()]
            while self.accept(","):
                given.append(self.type())
        try:
            rhs = kind(op, args)
            types = given if kind is _C.PyApply or (given and _is_open(args)) else rhs.infer()
        except MemoryError:
            raise
        except Exception as e:
            self.fail(str(e), at, e)
        comment = self.line_end()
        if comment:
            rhs = kind(op, args, comment)
        if types is None:
            self.fail("the types of a Python Function's results have to be written behind it", at)
        if given is not None and len(given) < len(types):
            self.fail(f"{rhs.name} has {len(types)} results, but {len(given)} types are given", at)
        if given is not None:
            types = (*types, *given[len(types) :])  # results that only gradients bind
        if len(names) != len(types):
            self.fail(f"{rhs.name} has {len(types)} results, but {len(names)} locals are bound", at)
        if any(-1 in t.sizes for t in types):
            if given is None:
                self.fail(f"elements decide the size of {rhs.name}'s result: its type has to be written behind it", at)
        if given is not None:
            types = given
        return _C.Let(tuple(self.bind(p, n, t) for (p, n), t in zip(names, types, strict=True)), rhs)

    def parse(self, captures: tuple) -> Any:
        while self.kind == "end":
            self.advance()
        self.expect("lambda")
        params, captured = [], 0
        while self.kind == "local":
            at, name = self.start, self.advance()
            if self.accept("="):
                self.expect("captured")
                captured += 1
            elif captured:
                self.fail("captured parameters come last", at)
            self.expect(":")
            params.append(self.bind(at, name, self.type()))
            if not self.accept(","):
                break
        if captured != len(captures):
            self.fail(f"the lambda has {captured} captured parameters, but {len(captures)} captures are given", 0)
        self.expect("{")
        self.line_end()
        lets = []
        while self.kind == "local":
            lets.append(self.let())
        self.expect("Ret")
        ret = []
        while self.kind == "local":
            ret.append(self.used())
            if not self.accept(","):
                break
        self.line_end()
        self.expect("}")
        while self.kind == "end":
            self.advance()
        if self.kind:
            self.fail(f"expected the end of the text, but got {self.shown()}")
        return Lambda(params, lets, _C.Locals(ret), captures)


_TABLE: dict[str, tuple[str, int]] = {}


def _is_open(args: Any) -> bool:
    """Whether a size of an argument is open, so that no rule can tell the types of the results."""
    return any(_is_open(a) if type(a) in (tuple, list) else type(a) is _C.Local and -1 in a.type.sizes for a in args)


def _ops() -> dict[str, tuple[str, int]]:
    """Name in print -> name of the row, and the position of its list of tensors (-1: none)."""
    if len(_TABLE) != len(_C._ops):  # rows may be declared at any time
        for op in _C._ops:
            lists = re.findall(r"Tensor\[\] (\w+)", op.signature)
            _TABLE[op.display_name] = op.name, op.params.index(lists[0]) if lists else -1
    return _TABLE


def parse(text: str, captures: Iterable[Any] = (), functions: Mapping[str, Any] | Iterable[Any] | None = None) -> Any:
    """The Lambda that ``text`` prints: ``parse(str(x)) == x`` for every Lambda x without captures.

    ``captures``: the Variables or tensors of the captured parameters, in order. ``functions``: classes of Python
    Functions by the names that they print as, or just the classes; others are found in modules that are loaded.

    ParseError, which says the line and the column, for a text that prints none.
    """
    if not isinstance(text, str):
        raise TypeError(f"parse: argument 'text' must be a str, not {type(text).__name__}")
    by_name: Mapping[str, Any] = (
        functions
        if isinstance(functions, Mapping)
        else {f"{f.__module__}.{f.__qualname__}": f for f in cast("Iterable[Any]", functions or ())}
    )
    return _Parser(text, by_name).parse(tuple(captures))
