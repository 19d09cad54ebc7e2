"""Runs a program of 2017 as ``python`` would: ``sys.argv``, ``sys.path[0]``, ``__main__``, exit status, tracebacks."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any

from .install import install_as_torch
from .translate import LocalImports, compile_source

__all__ = ["run_code", "run_module", "run_script"]


def _program_part(error: BaseException, traceback: Any) -> Any:
    """The part of a traceback that begins in the program. An error in its syntax has none."""
    program = vars(sys.modules["__main__"])
    part = traceback
    while part is not None and part.tb_frame.f_globals is not program:
        part = part.tb_next
    return part if part is not None or isinstance(error, SyntaxError) else traceback


def _report_as_python_does(error: BaseException) -> None:
    """Lets the hook that prints `error` see only the program's own frames.

    The error itself goes on to the interpreter, which knows the right exit status of each kind.
    """
    hook = sys.excepthook

    def excepthook(kind: type[BaseException], value: BaseException, traceback: Any) -> None:
        if value is error:
            traceback = _program_part(value, traceback)
            value.__traceback__ = traceback
        hook(kind, value, traceback)

    sys.excepthook = excepthook


def _run(prepare: Callable[[], tuple[CodeType, dict[str, Any]]]) -> None:
    """Executes the code that `prepare` returns as the module ``__main__`` with these attributes."""
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    vars(main)["__builtins__"] = __builtins__
    try:
        install_as_torch()
        code, attributes = prepare()
        vars(main).update(attributes)
        exec(code, vars(main))
    except BaseException as error:
        _report_as_python_does(error)
        raise


def _search_from(folder: str) -> None:
    if not getattr(sys.flags, "safe_path", False):  # else Python has left the first place to others
        sys.path[0] = folder
    # Before the finder that it asks, and behind those of modules that no file can stand in for.
    place = sys.meta_path.index(importlib.machinery.PathFinder)
    sys.meta_path.insert(place, LocalImports(folder))  # type: ignore[arg-type]


def run_script(path: str, arguments: list[str]) -> None:
    """Runs the file `path`, or `path/__main__.py` of a folder, with ``sys.argv = [path, *arguments]``."""

    def prepare() -> tuple[CodeType, dict[str, Any]]:
        file = path
        if os.path.isdir(path):
            file = os.path.join(path, "__main__.py")
            _search_from(path)
        else:
            _search_from(os.path.dirname(os.path.realpath(path)))
        sys.argv = [path, *arguments]
        file = os.path.abspath(file)
        try:
            with io.open_code(file) as f:
                source = f.read()
        except OSError as e:
            print(f"{sys.executable}: can't open file {file!r}: [Errno {e.errno}] {e.strerror}", file=sys.stderr)
            raise SystemExit(2) from None
        code, _ = compile_source(source, file)
        return code, {"__file__": file, "__spec__": None, "__loader__": None, "__package__": None, "__cached__": None}

    _run(prepare)


def run_module(name: str, arguments: list[str]) -> None:
    """Runs the module `name`, or `name.__main__` of a package, as ``python -m name`` does."""

    def prepare() -> tuple[CodeType, dict[str, Any]]:
        _search_from(os.getcwd())
        sys.argv = ["-m", *arguments]  # what a package that is imported on the way finds there
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(name + ".__main__")
        get_code = getattr(spec and spec.loader, "get_code", None)
        code = get_code(spec.name) if spec and get_code else None
        if spec is None or code is None:
            raise SystemExit(f"{sys.executable}: No module named {name}")
        sys.argv[0] = spec.origin or name
        return code, {
            "__file__": spec.origin, "__spec__": spec, "__loader__": spec.loader, "__package__": spec.parent,
            "__cached__": spec.cached,
        }

    _run(prepare)


def run_code(source: str, arguments: list[str]) -> None:
    """Runs `source` as ``python -c source`` does."""

    def prepare() -> tuple[CodeType, dict[str, Any]]:
        _search_from("")
        sys.argv = ["-c", *arguments]
        code, _ = compile_source(source.encode(), "<string>")
        return code, {"__spec__": None, "__loader__": None, "__package__": None}

    _run(prepare)
