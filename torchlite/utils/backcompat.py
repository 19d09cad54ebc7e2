"""Switches of warnings for programs that are older than the era.

``broadcast_warning.enabled = True`` warns where operands broadcast that once were paired element by element;
``keepdim_warning.enabled = True`` where a reduction along a dimension is called without ``keepdim``, whose default was
True once.
"""

from __future__ import annotations

from collections.abc import Callable

from .. import _C


class Warning:
    """A warning that can be switched on and off. ``enabled`` takes a bool; RuntimeError for anything else."""

    def __init__(self, getter: Callable[[], bool], setter: Callable[[bool], None]) -> None:
        self._getter = getter
        self._setter = setter

    @property
    def enabled(self) -> bool:
        """Whether the warning is given."""
        return self._getter()

    @enabled.setter
    def enabled(self, value: bool) -> None:
        self._setter(value)


broadcast_warning = Warning(_C._get_backcompat_broadcast_warn, _C._set_backcompat_broadcast_warn)
keepdim_warning = Warning(_C._get_backcompat_keepdim_warn, _C._set_backcompat_keepdim_warn)
