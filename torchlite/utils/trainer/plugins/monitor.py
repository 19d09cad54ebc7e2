"""The base of plugins that measure something in every iteration."""

from __future__ import annotations

from typing import Any

from .plugin import Plugin

__all__ = ["Monitor"]


class Monitor(Plugin):
    """Keeps ``trainer.stats[stat_name]``: the latest value `last`, and with `running_average` (True) its running
    average, into which a value enters with weight ``1 - smoothing`` (0.7); with `epoch_average` (False) also the mean
    over the last epoch. Override `_get_value`, which gets what `iteration` gets.
    """

    stat_name = "value"

    def __init__(
        self,
        running_average: bool = True,
        epoch_average: bool = False,
        smoothing: float = 0.7,
        precision: int | None = None,
        number_format: str | None = None,
        unit: str = "",
    ):
        super().__init__([(1, "iteration"), (1, "epoch")])
        self.smoothing = smoothing
        self.with_running_average = running_average
        self.with_epoch_average = epoch_average
        number = number_format if number_format is not None else f".{4 if precision is None else precision}f"
        self.log_format = [f"{{last:{number}}}{unit}"]
        if running_average:
            self.log_format.append(f"({{running_avg:{number}}}{unit})")
        self.log_epoch_format = [f"{{epoch_mean:{number}}}{unit}"] if epoch_average else []

    def register(self, trainer: Any) -> None:
        self.trainer = trainer
        self.stats = trainer.stats.setdefault(self.stat_name, {})
        self.stats.update(log_format=" ".join(self.log_format), log_epoch_fields=self.log_epoch_format)
        self._total, self._count = 0.0, 0

    def _get_value(self, iteration: int, *args: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define _get_value")

    def iteration(self, *args: Any) -> None:
        value = self._get_value(*args)
        self.stats["last"] = value
        self._total, self._count = self._total + value, self._count + 1
        if self.with_running_average:
            previous = self.stats.get("running_avg", 0)
            self.stats["running_avg"] = previous * self.smoothing + value * (1 - self.smoothing)

    def epoch(self, index: int) -> None:
        if self.with_epoch_average and self._count:
            self.stats["epoch_mean"] = self._total / self._count
        self._total, self._count = 0.0, 0
