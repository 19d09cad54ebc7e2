"""The base of plugins."""

from __future__ import annotations

from typing import Any

__all__ = ["Plugin"]


class Plugin:
    """`interval`: a list of (interval, queue) that says when the plugin is called; see the Trainer's README.

    A plugin has a method for each of its queues: ``iteration(i, input, target, output, loss)``, ``epoch(i)``,
    ``batch(i, input, target)``, ``update(i, model)``.
    """

    def __init__(self, interval: list[tuple[int, str]] | None = None):
        self.trigger_interval = [] if interval is None else interval

    def register(self, trainer: Any) -> None:
        """Told the Trainer that the plugin joins. To be overridden."""
