"""Trainer and its plugins."""

import pytest

import torchlite
from torchlite import nn, optim
from torchlite.utils.trainer import Trainer
from torchlite.utils.trainer.plugins import AccuracyMonitor, Logger, LossMonitor, Monitor, ProgressMonitor, TimeMonitor
from torchlite.utils.trainer.plugins.plugin import Plugin

BATCHES = [(torchlite.FloatTensor([[1, 0], [0, 1]]), torchlite.LongTensor([0, 1]))] * 3


class Counter(Plugin):
    """Notes when it is called."""

    def __init__(self, interval):
        super().__init__(interval)
        self.calls = []

    def register(self, trainer):
        self.trainer = trainer

    def iteration(self, i, input, target, output, loss):
        assert (input.size(), output.size(), loss.numel()) == ((2, 2), (2, 2), 1)
        self.calls.append(("iteration", i))

    def batch(self, i, input, target):
        self.calls.append(("batch", i))

    def update(self, i, model):
        assert model is self.trainer.model
        self.calls.append(("update", i))

    def epoch(self, i):
        self.calls.append(("epoch", i))


@pytest.fixture
def trainer():
    torchlite.manual_seed(0)
    model = nn.Linear(2, 2)
    return Trainer(model, nn.CrossEntropyLoss(), optim.SGD(model.parameters(), lr=0.5), BATCHES)


@pytest.mark.parametrize("interval, expected", [
    ([(1, "iteration")], [("iteration", i) for i in range(1, 7)]),
    ([(2, "iteration")], [("iteration", i) for i in (2, 4, 6)]),
    ([(1, "epoch")], [("epoch", 1), ("epoch", 2)]),
    ((2, "epoch"), [("epoch", 2)]),
    ([(3, "batch"), (3, "update")], [("batch", 3), ("update", 3), ("batch", 6), ("update", 6)]),
    ([], []),
])  # fmt: skip
def test_a_plugin_is_called_at_its_intervals(trainer, interval, expected):
    counter = Counter(interval)
    trainer.register_plugin(counter)
    trainer.run(epochs=2)
    assert counter.calls == expected and trainer.iterations == 6


def test_plugins_of_one_queue_are_called_in_the_order_of_registration(trainer):
    first, second = Counter([(1, "epoch")]), Counter([(1, "epoch")])
    first.calls = second.calls = []
    first.epoch = lambda i: first.calls.append("first")
    second.epoch = lambda i: first.calls.append("second")
    trainer.register_plugin(first)
    trainer.register_plugin(second)
    trainer.run(epochs=2)
    assert first.calls == ["first", "second"] * 2


def test_an_unknown_queue_is_refused(trainer):
    with pytest.raises(KeyError, match="Counter asks for the queue 'step'"):
        trainer.register_plugin(Counter([(1, "step")]))


def test_training_lowers_the_loss_and_monitors_see_it(trainer):
    for monitor in (LossMonitor(epoch_average=True), AccuracyMonitor(), TimeMonitor(), ProgressMonitor()):
        trainer.register_plugin(monitor)
    trainer.run()
    first = trainer.stats["loss"]["epoch_mean"]
    trainer.run(epochs=9)
    assert trainer.stats["loss"]["epoch_mean"] < first / 2
    assert trainer.stats["loss"]["last"] < trainer.stats["loss"]["running_avg"]
    assert trainer.stats["accuracy"]["last"] == 100 and trainer.stats["time"]["last"] > 0
    assert trainer.stats["progress"]["samples_used"] == 0 and trainer.stats["progress"]["epoch_size"] == 3


def test_an_optimizer_that_evaluates_several_times_reports_the_first(trainer):
    class Twice(optim.SGD):
        def step(self, closure):
            closure()
            self.zero_grad()
            return super().step(closure)

    losses = []
    trainer.optimizer = Twice(trainer.model.parameters(), lr=0.5)
    counter = Counter([(1, "iteration")])
    counter.iteration = lambda i, input, target, output, loss: losses.append((output.size(), loss[0]))
    trainer.register_plugin(counter)
    trainer.run()
    assert len(losses) == 3 and losses[2][1] < losses[0][1]


def test_the_logger_prints_its_fields(trainer, capsys):
    trainer.register_plugin(LossMonitor(epoch_average=True, precision=2))
    trainer.register_plugin(ProgressMonitor())
    trainer.register_plugin(Logger(["loss", "progress", "progress.samples_used"], [(2, "iteration"), (1, "epoch")]))
    trainer.run()
    iteration, epoch = capsys.readouterr().out.strip().split("\n")
    assert iteration.startswith("loss: 0.") and "progress: 2/3 (66.67%)\tprogress.samples_used: 4" in iteration
    assert epoch.startswith("epoch 1\tloss: 0.")


def test_a_field_without_stats_is_named(trainer):
    trainer.register_plugin(Logger(["nothing"]))
    with pytest.raises(KeyError, match="no stats of 'nothing'"):
        trainer.run()


def test_a_monitor_needs_its_value(trainer):
    trainer.register_plugin(Monitor())
    with pytest.raises(NotImplementedError, match="Monitor must define _get_value"):
        trainer.run()
