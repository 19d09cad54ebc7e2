"""The tracer's first program: the word language model, traced and replayed by the original's own calls."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import torchlite
import torchlite.autograd.function as F
from torchlite import _C, jit
from torchlite.autograd import Variable

EXAMPLE = Path(__file__).parents[2] / "examples" / "word_language_model"


@pytest.fixture
def make_model(monkeypatch):
    monkeypatch.delitem(sys.modules, "model", raising=False)
    monkeypatch.syspath_prepend(str(EXAMPLE))
    module = importlib.import_module("model")
    yield lambda kind="LSTM", tied=True: module.RNNModel(kind, 20, 6, 6, 2, 0.5, tied)
    sys.modules.pop("model", None)


class Runner:
    """Runs `fn` on nested Variables, and from the second call on the trace of the first one."""

    def __init__(self, fn, parameters):
        self.fn, self.parameters, self.trace = fn, tuple(parameters), None

    def __call__(self, *args):
        inputs = tuple(F._iter_variables(args)) + self.parameters
        if self.trace is None:
            _C._tracer_enter(inputs)
            self.structure = self.fn(*args)
            self.trace = _C._tracer_exit(tuple(F._iter_variables(self.structure)))
            return self.structure
        return F._unflatten(Variable._execution_engine.run_forward(self.trace, inputs), self.structure)


def words(seed, volatile=False):
    return Variable(np.random.RandomState(seed).randint(0, 20, (5, 3)), volatile=volatile)


def leaves(result):
    return [v.data.numpy().tobytes() for v in F._iter_variables(result)]


def unique(parameters):
    return list(dict.fromkeys(parameters))


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN_TANH"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_the_original_runner_replays_the_model_on_unseen_words(make_model, kind, training, tied):
    model = make_model(kind, tied).train(training)
    runner = Runner(model, unique(model.parameters()))
    hidden = model.init_hidden(3)
    runner(words(0), hidden)
    for seed in (1, 2):
        torchlite.manual_seed(seed)
        replayed = runner(words(seed), hidden)
        torchlite.manual_seed(seed)
        eager = model(words(seed), hidden)
        assert leaves(replayed) == leaves(eager)
        hidden = tuple(Variable(h.data) for h in eager[1]) if kind == "LSTM" else Variable(eager[1].data)


def test_gradients_through_the_replay_are_the_eager_ones(make_model):
    model = make_model()
    runner = Runner(model, unique(model.parameters()))
    hidden = model.init_hidden(3)
    runner(words(0), hidden)
    found = []
    for call in (runner, model):
        torchlite.manual_seed(5)
        for p in model.parameters():
            p.grad = None
        call(words(1), hidden)[0].sum().backward()
        found.append([p.grad.data.numpy().tobytes() for p in unique(model.parameters())])
    assert found[0] == found[1]


def test_the_trace_prints_the_operations_of_the_model(make_model):
    model = make_model()
    traced = jit.trace(model, words(0), model.init_hidden(3))
    lines = str(traced.graph_for(words(0), model.init_hidden(3))).splitlines()
    names = [line.split(" = ")[1].split()[0] for line in lines if line.startswith("  %")]
    assert names[:2] == ["Embedding", "Dropout"] and names[-1] == "Linear"
    assert "Lstm" in names or "LstmLayer" in names
    assert any(" = Dropout %" in line and line.endswith(", 0.5, True") for line in lines)


def test_iter_variables_walks_lists_and_tuples_and_skips_None():
    a, b, c = (Variable(torchlite.ones(1)) for _ in range(3))
    found = list(F._iter_variables([a, (None, [b]), c]))
    assert [v is w for v, w in zip(found, [a, b, c], strict=True)] == [True] * 3


def test_unflatten_takes_any_iterable():
    a, b = (Variable(torchlite.ones(1)) for _ in range(2))
    nested = F._unflatten([a, b], (None, [a, (b,)]))
    assert nested[0] is None and nested[1][0] is a and nested[1][1][0] is b
