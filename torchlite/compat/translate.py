"""Sources that use ``async`` as a name, which is a keyword since Python 3.7.

``tensor.cuda(async=True)`` becomes ``tensor.cuda(async_=True)``: the methods that had the argument take it by this
name. Only sources that do not compile are touched, and no line moves, so tracebacks point at the original.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import tokenize
from collections.abc import Sequence
from types import CodeType
from typing import Any

__all__ = ["compile_source", "LocalImports", "translate"]

_SKIPPED = {tokenize.NL, tokenize.COMMENT}
_OF_COROUTINES = {"def", "for", "with"}  # behind them `async` is the keyword


def translate(source: str) -> str:
    """``source`` with every ``async`` that stands where a name does spelled ``async_``.

    Raises:
        SyntaxError, tokenize.TokenError: if the source can't be split into tokens.
    """
    tokens = [t for t in tokenize.generate_tokens(io.StringIO(source).readline) if t.type not in _SKIPPED]
    lines = source.splitlines(keepends=True)
    places = [
        token.end
        for token, following in zip(tokens, tokens[1:], strict=False)
        if token.string == "async" and token.type == tokenize.NAME and following.string not in _OF_COROUTINES
    ]
    for row, column in reversed(places):  # from the right, so that earlier columns stay valid
        line = lines[row - 1]
        lines[row - 1] = line[:column] + "_" + line[column:]
    return "".join(lines)


def compile_source(source: bytes, path: str) -> tuple[CodeType, bool]:
    """The code of a source file, and whether it had to be translated.

    Raises:
        SyntaxError: of the file as it stands, if the translation doesn't compile either.
    """
    try:
        return compile(source, path, "exec", dont_inherit=True), False
    except SyntaxError as original:
        try:
            text = importlib.util.decode_source(source)
            translated = translate(text)
            if translated == text:
                raise original
            return compile(translated, path, "exec", dont_inherit=True), True
        except (SyntaxError, tokenize.TokenError):
            raise original from None


class _Loader(importlib.machinery.SourceFileLoader):
    _translated = False

    def source_to_code(self, data: Any, path: Any, *args: Any, **options: Any) -> CodeType:  # type: ignore[override]
        code, self._translated = compile_source(bytes(data), os.fsdecode(path))
        return code

    def set_data(self, path: Any, data: Any, **options: Any) -> None:  # type: ignore[override]
        # A cached file of a translated source would make the module importable without the translation.
        if not self._translated:
            super().set_data(path, data, **options)


class LocalImports:
    """A finder on ``sys.meta_path`` that translates the modules below ``folder``, as the import system finds them."""

    def __init__(self, folder: str):
        self.folder = os.path.join(os.path.realpath(folder), "")

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or type(spec.loader) is not importlib.machinery.SourceFileLoader:
            return None
        if not os.path.realpath(spec.loader.path).startswith(self.folder):
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec
