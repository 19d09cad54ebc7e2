"""The loop."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from ...autograd import Variable

__all__ = ["Trainer"]


class Trainer:
    """Trains `model` with `optimizer` on `dataset`, an iterable of pairs (input, target) of tensors; the loss is
    `criterion(output, target)`.

    `stats` is where monitors keep their numbers, `iterations` the number of batches so far. A queue holds (time of the
    next call, order of registration, plugin), the earliest first; times are iterations, or epochs in the queue `epoch`.
    """

    def __init__(
        self, model: Any = None, criterion: Callable | None = None, optimizer: Any = None, dataset: Any = None
    ):
        self.model = model
        self.criterion: Any = criterion
        self.optimizer = optimizer
        self.dataset: Any = dataset
        self.iterations = 0
        self.stats: dict[str, Any] = {}
        self.plugin_queues: dict[str, list] = {"iteration": [], "epoch": [], "batch": [], "update": []}

    def register_plugin(self, plugin: Any) -> None:
        """Puts `plugin` into the queues that its `trigger_interval` names, after ``plugin.register(trainer)``.

        Raises:
            KeyError: if there is no queue of that name.
        """
        for _, queue in _triggers(plugin):
            if queue not in self.plugin_queues:
                raise KeyError(f"register_plugin: {type(plugin).__name__} asks for the queue {queue!r}; "
                               f"there are {sorted(self.plugin_queues)}")  # fmt: skip
        plugin.register(self)
        for interval, queue in _triggers(plugin):
            entries = self.plugin_queues[queue]
            entries.append((interval, len(entries), plugin))
            heapq.heapify(entries)

    def call_plugins(self, queue_name: str, time: int, *args: Any) -> None:
        """Calls the method `queue_name` of each plugin whose time has come with (time, *args)."""
        entries = self.plugin_queues[queue_name]
        while entries and entries[0][0] <= time:
            _, order, plugin = entries[0]
            getattr(plugin, queue_name)(time, *args)
            interval = next(interval for interval, queue in _triggers(plugin) if queue == queue_name)
            heapq.heapreplace(entries, (time + interval, order, plugin))

    def run(self, epochs: int = 1) -> None:
        """Trains for `epochs` passes over the dataset."""
        for epoch in range(1, epochs + 1):
            self.train()
            self.call_plugins("epoch", epoch)

    def train(self) -> None:
        """One pass over the dataset."""
        for batch_input, batch_target in self.dataset:
            self.iterations += 1
            i = self.iterations
            self.call_plugins("batch", i, batch_input, batch_target)
            inputs, targets = Variable(batch_input), Variable(batch_target)
            first: list[Any] = []  # output and loss of the first evaluation: an optimizer may ask for several

            def closure() -> Any:
                output = self.model(inputs)
                loss = self.criterion(output, targets)
                loss.backward()
                if not first:
                    first.extend((output.data, loss.data))
                return loss

            self.optimizer.zero_grad()
            self.optimizer.step(closure)
            self.call_plugins("iteration", i, batch_input, batch_target, *first)
            self.call_plugins("update", i, self.model)


def _triggers(plugin: Any) -> list[tuple[int, str]]:
    triggers = plugin.trigger_interval
    return triggers if isinstance(triggers, list) else [triggers]
