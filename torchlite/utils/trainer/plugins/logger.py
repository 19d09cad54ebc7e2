"""Prints what monitors have measured."""

from __future__ import annotations

from typing import Any

from .plugin import Plugin

__all__ = ["Logger"]


class Logger(Plugin):
    """Prints the `fields` of ``trainer.stats``, each by its ``log_format``, one line a call.

    A field is the name of a monitor's entry ("loss") or of one value in it ("loss.last"). `interval` defaults to every
    iteration and epoch.

    Raises:
        KeyError: when a field isn't in the stats.
    """

    def __init__(self, fields: list[str], interval: list[tuple[int, str]] | None = None):
        super().__init__([(1, "iteration"), (1, "epoch")] if interval is None else interval)
        self.fields = fields

    def register(self, trainer: Any) -> None:
        self.trainer = trainer

    def _text(self, field: str, epoch: bool) -> str:
        name, _, part = field.partition(".")
        if name not in self.trainer.stats:
            raise KeyError(f"Logger: there are no stats of {name!r}; there are {sorted(self.trainer.stats)}")
        stats = self.trainer.stats[name]
        if part:
            return f"{field}: {stats[part]}"
        formats = " ".join(stats["log_epoch_fields"]) if epoch else stats["log_format"]
        return f"{name}: {formats.format(**stats)}" if formats else ""

    def _log(self, epoch: bool, prefix: str) -> None:
        texts = [text for field in self.fields if (text := self._text(field, epoch))]
        if texts:
            print(prefix + "\t".join(texts))

    def iteration(self, *args: Any) -> None:
        self._log(False, "")

    def epoch(self, index: int) -> None:
        self._log(True, f"epoch {index}\t")
