"""Switching the recording of graphs off and on: per thread, as context managers or decorators.

Unlike ``volatile``, which spreads from one input, the mode is that of the code being run: what is computed under
``no_grad`` does not require grad, whatever its inputs are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .. import _C


def is_grad_enabled() -> bool:
    """Whether operations on this thread record a graph."""
    return _C._is_grad_enabled()


def _run_generator(generator, mode):
    """Drives ``generator`` so that ``mode`` holds exactly while its own code runs."""
    step, argument = generator.send, None
    while True:
        previous = _C._set_grad_enabled(mode)
        try:
            item = step(argument)
        except StopIteration as stop:
            return stop.value
        finally:
            _C._set_grad_enabled(previous)
        try:
            argument = yield item
            step = generator.send
        except GeneratorExit:
            previous = _C._set_grad_enabled(mode)
            try:
                generator.close()
            finally:
                _C._set_grad_enabled(previous)
            raise
        except BaseException as error:
            step, argument = generator.throw, error


def _decorate(function: Callable, mode: bool, name: str) -> Callable:
    if isinstance(function, type) or not callable(function):
        raise TypeError(f"{name} can only decorate functions, but got {function!r}")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        # Other tasks would run in the same mode while this one waits.
        raise TypeError(f"{name} cannot decorate the asynchronous function {function.__name__}")

    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            return (yield from _run_generator(function(*args, **kwargs), mode))
    else:

        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            previous = _C._set_grad_enabled(mode)
            try:
                return function(*args, **kwargs)
            finally:
                _C._set_grad_enabled(previous)

    return wrapper


class _GradMode:
    _mode: bool

    def __new__(cls, function: Callable | None = None) -> Any:
        return super().__new__(cls) if function is None else _decorate(function, cls._mode, cls.__name__)

    def __init__(self) -> None:
        self._previous: list[bool] = []  # one for each time that this object has been entered

    def __enter__(self) -> None:
        self._previous.append(_C._set_grad_enabled(self._mode))

    def __exit__(self, *exception: Any) -> None:
        _C._set_grad_enabled(self._previous.pop())

    def __call__(self, function: Callable) -> Callable:
        return _decorate(function, self._mode, type(self).__name__)


class no_grad(_GradMode):
    """``with no_grad():`` or ``@no_grad()``: operations record no graph, and their results don't require grad."""

    _mode = False


class enable_grad(_GradMode):
    """``with enable_grad():`` or ``@enable_grad()``: operations record a graph again, inside of :class:`no_grad`."""

    _mode = True


class set_grad_enabled:
    """Switches recording on or off at once; as a context manager or decorator, until its end.

    TypeError if ``mode`` isn't a bool.
    """

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(f"set_grad_enabled: mode must be a bool, not {type(mode).__name__}")
        self.mode = mode
        self._previous = _C._set_grad_enabled(mode)

    def __enter__(self) -> None:
        _C._set_grad_enabled(self.mode)

    def __exit__(self, *exception: Any) -> None:
        _C._set_grad_enabled(self._previous)

    def __call__(self, function: Callable) -> Callable:
        _C._set_grad_enabled(self._previous)
        return _decorate(function, self.mode, "set_grad_enabled")
