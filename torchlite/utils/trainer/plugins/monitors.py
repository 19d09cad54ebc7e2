"""What can be monitored."""

from __future__ import annotations

import time
from typing import Any

from .monitor import Monitor
from .plugin import Plugin

__all__ = ["AccuracyMonitor", "LossMonitor", "ProgressMonitor", "TimeMonitor"]


class LossMonitor(Monitor):
    """``stats["loss"]``: the loss of each batch."""

    stat_name = "loss"

    def _get_value(self, iteration: int, *args: Any) -> Any:
        _, _, _, loss = args
        return loss[0]


class AccuracyMonitor(Monitor):
    """``stats["accuracy"]``: the percentage of a batch whose largest output is at the target."""

    stat_name = "accuracy"

    def __init__(self, *args: Any, **kwargs: Any):
        kwargs.setdefault("unit", "%")
        kwargs.setdefault("precision", 2)
        super().__init__(*args, **kwargs)

    def _get_value(self, iteration: int, *args: Any) -> Any:
        _, target, output, _ = args
        return output.max(1)[1].view(-1).eq(target.view(-1)).sum() * 100.0 / target.numel()


class TimeMonitor(Monitor):
    """``stats["time"]``: seconds from one batch to the next."""

    stat_name = "time"

    def __init__(self, *args: Any, **kwargs: Any):
        kwargs.setdefault("unit", "ms")
        super().__init__(*args, **kwargs)
        self.last_time: float | None = None

    def _get_value(self, iteration: int, *args: Any) -> float:
        now = time.perf_counter()
        spent = 0.0 if self.last_time is None else (now - self.last_time) * 1000
        self.last_time = now
        return spent


class ProgressMonitor(Plugin):
    """``stats["progress"]``: how many samples and batches of the epoch are done."""

    stat_name = "progress"

    def __init__(self) -> None:
        super().__init__([(1, "iteration"), (1, "epoch")])

    def register(self, trainer: Any) -> None:
        self.trainer = trainer
        self.stats = trainer.stats.setdefault(self.stat_name, {})
        self.stats.update(
            samples_used=0, epoch_size=len(trainer.dataset), batches_used=0,
            log_format="{batches_used}/{epoch_size} ({percent:.2f}%)", log_epoch_fields=[],
            percent=0.0,
        )  # fmt: skip

    def iteration(self, iteration: int, input: Any, *args: Any) -> None:
        self.stats["samples_used"] += input.size(0)
        self.stats["batches_used"] += 1
        self.stats["percent"] = 100.0 * self.stats["batches_used"] / self.stats["epoch_size"]

    def epoch(self, index: int) -> None:
        self.stats.update(samples_used=0, batches_used=0, percent=0.0)
