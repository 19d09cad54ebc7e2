"""Training steps as one call, against the same steps run eagerly, bit by bit."""

import copy

import numpy as np
import pytest

import torchlite
import torchlite.nn.functional as F
from torchlite import autograd, jit, nn, optim
from torchlite.autograd import Variable

OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, 0.1),
    "SGD with weight decay": lambda p: optim.SGD(p, 0.1, weight_decay=0.1),
    "SGD with momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.1),
    "SGD with Nesterov momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True),
    "Adam": lambda p: optim.Adam(p, 0.01),
    "Adam with weight decay": lambda p: optim.Adam(p, 0.01, weight_decay=0.1),
}


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.LSTM(4, 5), nn.Linear(5, 1)

    def forward(self, x):
        return self.out(self.rnn(x.unsqueeze(0))[0][0])


MODELS = {
    "perceptron": lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)),
    "dropout": lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)),
    "LSTM": Recurrent,
}


def batch(seed, rows=6):
    r = np.random.RandomState(seed)
    return Variable(r.randn(rows, 4).astype("f4")), Variable(r.randn(rows, 1).astype("f4"))


def eager_step(model, loss, optimizer, *args):
    optimizer.zero_grad()
    value = loss(model(*args[:-1]), args[-1])
    value.backward()
    optimizer.step()
    return value


def state(model, optimizer):
    def numbers(entry):
        return {k: v.numpy().tobytes() if hasattr(v, "numpy") else v for k, v in entry.items()}

    return [
        (p.data.numpy().tobytes(), p.grad.data.numpy().tobytes(), numbers(optimizer.state[p]))
        for p in model.parameters()
    ]


@pytest.mark.parametrize("make_model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("make_optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_steps_are_the_eager_steps_bit_by_bit(make_model, make_optimizer):
    torchlite.manual_seed(0)
    model = make_model()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = make_optimizer(model.parameters()), make_optimizer(other.parameters())
    step = jit.compile_step(model, F.mse_loss, optimizer)
    for i in range(4):
        torchlite.manual_seed(i)
        ours = step(*batch(i))
        torchlite.manual_seed(i)
        theirs = eager_step(other, F.mse_loss, other_optimizer, *batch(i))
        assert ours.data[0] == theirs.data[0]
        assert state(model, optimizer) == state(other, other_optimizer)


def test_options_and_state_may_change_between_steps():
    model = MODELS["perceptron"]()
    other = copy.deepcopy(model)
    pairs = [(m, optim.SGD(m.parameters(), 0.1, momentum=0.9)) for m in (model, other)]
    step = jit.compile_step(model, F.mse_loss, pairs[0][1])
    for i in range(4):
        step(*batch(i))
        eager_step(other, F.mse_loss, pairs[1][1], *batch(i))
        for _, optimizer in pairs:
            optimizer.param_groups[0]["lr"] *= 0.5
            if i == 2:
                optimizer.load_state_dict(optimizer.state_dict())
    assert state(*pairs[0]) == state(*pairs[1])


def test_other_sizes_of_batch_and_evaluation_mode_have_their_own_trace():
    torchlite.manual_seed(0)
    model = MODELS["dropout"]()
    other = copy.deepcopy(model)
    optimizer, other_optimizer = (optim.SGD(m.parameters(), 0.1) for m in (model, other))
    step = jit.compile_step(model, F.mse_loss, optimizer)
    for rows, training in ((6, True), (3, True), (6, False), (6, True)):
        model.train(training)
        other.train(training)
        torchlite.manual_seed(rows)
        step(*batch(1, rows))
        torchlite.manual_seed(rows)
        eager_step(other, F.mse_loss, other_optimizer, *batch(1, rows))
    assert state(model, optimizer) == state(other, other_optimizer)


def test_a_model_may_return_its_loss():
    model = MODELS["perceptron"]()
    x, y = batch(0)
    step = jit.compile_step(lambda x, y: F.mse_loss(model(x), y), None, optim.SGD(model.parameters(), 0.1))
    losses = [step(x, y).data[0] for _ in range(20)]
    assert losses[-1] < losses[0]


def test_parameters_that_the_loss_does_not_use_stay():
    model = MODELS["perceptron"]()
    unused = nn.Parameter(torchlite.ones(2))
    step = jit.compile_step(model, F.mse_loss, optim.SGD([*model.parameters(), unused], 0.1, weight_decay=0.1))
    step(*batch(0))
    assert unused.data.tolist() == [1, 1] and unused.grad is None


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_the_whole_step_is_one_lambda(name):
    model = MODELS["perceptron"]()
    optimizer = OPTIMIZERS[name](model.parameters())
    step = jit.compile_step(model, F.mse_loss, optimizer)
    args = batch(0)
    step(*args)  # afterwards the momentum buffers exist
    lam = step.lambda_for(*args)
    jit.check(lam)
    parameters = list(model.parameters())
    buffers = []
    for p in parameters:
        s = optimizer.state[p]
        if "step" in s:
            group = optimizer.param_groups[0]
            beta1, beta2 = group["betas"]
            t = s["step"] + 1
            size = group["lr"] * np.sqrt(1 - beta2**t) / (1 - beta1**t)
            buffers += [s["exp_avg"].clone(), s["exp_avg_sq"].clone(), torchlite.FloatTensor([size])]
        elif s:
            buffers.append(s["momentum_buffer"].clone())
    results = Variable._execution_engine.run_forward(lam, (*args, *parameters, *map(Variable, buffers)))
    loss = step(*args)
    assert results[0].data[0] == loss.data[0]
    for new, p in zip(results[1:], parameters, strict=False):
        np.testing.assert_allclose(new.data.numpy(), p.data.numpy(), rtol=1e-5, atol=1e-7)


def test_wrong_uses_are_named():
    model = MODELS["perceptron"]()
    optimizer = optim.SGD(model.parameters(), 0.1)
    with pytest.raises(ValueError, match="one element, but is one of size"):
        jit.compile_step(model, lambda y, t: y - t, optimizer)(*batch(0))
    with autograd.no_grad(), pytest.raises(RuntimeError, match="needs gradients"):
        jit.compile_step(model, F.mse_loss, optimizer)(*batch(0))
