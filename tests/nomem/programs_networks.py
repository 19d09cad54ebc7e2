"""Further programs in the manner of programs.py: networks, optimizers, and traces."""

import numpy as np
from programs import PROGRAMS, leaves_unchanged, matrix, matrix_unchanged, program, two_leaves

from torchlite import _C, DoubleTensor, FloatTensor, LongTensor, Variable, cat, jit, nn, optim, sort, stack
from torchlite.autograd import grad

__all__ = ["PROGRAMS"]


@program(matrix, matrix_unchanged)
def tensor_arithmetic(t):
    t.t() + t.double().float()
    LongTensor([1, 2]) * LongTensor([3, 4])
    t.sum(0), t.max(1), t.sort(1)


@program(lambda: DoubleTensor([1e300]))
def conversion_that_overflows(t):
    t.float()


# ---- networks -----------------------------------------------------------------------------------------------------


@program(two_leaves, leaves_unchanged)
def variable_index(state):
    x, y = state
    x[LongTensor([0, 2])]
    x[Variable(LongTensor([1]))]
    y[y > 4.5]
    z = x * 1.0
    z[1:] = 7.0
    z[LongTensor([0])] = y[:1]


@program(two_leaves)
def join(state):
    x, y = state
    cat([x, y, x], 0).sum().backward()
    stack([x, y], 1).t().sum().backward()


@program(two_leaves)
def higher_gradient(state):
    x, y = state
    (g,) = grad((x * x * y).sum(), x, create_graph=True)
    g.sum().backward()


def training(optimizer):
    def setup():
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 2))
        for i, p in enumerate(model.parameters()):
            p.data.fill_(0.1 * (i + 1))
        return model, optimizer(model.parameters()), Variable(FloatTensor([[1, 2, 3]])), Variable(LongTensor([1]))

    return setup


def parameters_finite(state, done):
    assert all(np.isfinite(np.asarray(p.data)).all() for p in state[0].parameters())


def train(state):
    model, optimizer, x, target = state
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(x), target).backward()
    optimizer.step()


@program(training(lambda p: optim.SGD(p, lr=0.1, momentum=0.9)), parameters_finite)
def train_by_sgd(state):
    train(state)


@program(training(lambda p: optim.Adam(p, lr=0.1)), parameters_finite)
def train_by_adam(state):
    train(state)


def recurrent():
    inputs = Variable(DoubleTensor(2, 1, 3).fill_(0.5), requires_grad=True)
    return nn.LSTM(3, 2).double(), inputs


@program(recurrent)
def recurrent_layer(state):
    layer, x = state
    output, _ = layer(x)
    output.sum().backward()


@program(lambda: Variable(FloatTensor(1, 1, 4, 4).fill_(1), requires_grad=True))
def convolution(x):
    weight = Variable(FloatTensor(1, 1, 2, 2).fill_(1), requires_grad=True)
    nn.functional.max_pool2d(nn.functional.conv2d(x, weight), 2).sum().backward()


@program(lambda: Variable(FloatTensor(1, 1, 3).fill_(1), requires_grad=True))
def transposed_convolution(x):
    weight = Variable(FloatTensor(1, 1, 2).fill_(1), requires_grad=True)
    bias = Variable(FloatTensor(1).fill_(1), requires_grad=True)
    f = _C._functions.ConvNd((1,), (0,), (1,), True, (0,), 1, False, False)
    nn.functional.avg_pool1d(f(x, weight, bias), 2).sum().backward()


def batch_and_statistics():
    return Variable(FloatTensor([[1, 2], [3, 5]]), requires_grad=True), FloatTensor(2).fill_(0), FloatTensor(2).fill_(1)


def statistics_of_one_time(state, done):
    _, mean, var = state
    assert (mean.tolist() == [0, 0]) == (var.tolist() == [1, 1])


@program(batch_and_statistics, statistics_of_one_time)
def batch_norm(state):
    x, mean, var = state
    weight = Variable(FloatTensor(2).fill_(1), requires_grad=True)
    y = nn.functional.batch_norm(x, mean, var, weight, None, True)
    (g,) = grad([y.pow(2).sum()], [x], create_graph=True)
    g.sum().backward()


@program(lambda: Variable(FloatTensor([0.5, 0.25]), requires_grad=True))
def binary_cross_entropy(x):
    target = Variable(FloatTensor([0, 1]))
    nn.functional.binary_cross_entropy(x, target).backward()


@program(lambda: Variable(LongTensor([0, 1, 0])))
def embedding(indices):
    weight = Variable(FloatTensor(3, 2).fill_(1), requires_grad=True)
    nn.functional.embedding(indices, weight).sum().backward()


# ---- traces -------------------------------------------------------------------------------------------------------


def product(x, y):
    return (x * y + 2.0).tanh()


def no_trace_left_open(state, done):
    assert _C._tracer_depth() == 0


@program(two_leaves, no_trace_left_open)
def make_a_lambda(state):
    jit.make_lambda(product, state)


def traced():
    state = two_leaves()
    return [*state, jit.make_lambda(product, state)]


@program(traced, no_trace_left_open)
def replay(state):
    x, y, lam = state
    for v in Variable._execution_engine.run_forward(lam, (x, y)):
        v.sum().backward()


@program(traced, no_trace_left_open)
def lambda_text(state):
    lam = state[-1]
    lam.check()
    assert jit.parse(str(lam)) == lam


@program(traced, no_trace_left_open)
def passes(state):
    lam = state[-1]
    jit.optimize(lam)
    jit.vjp(lam)


@program(lambda: [*two_leaves(), jit.compile(product)], no_trace_left_open)
def compiled(state):
    x, y, fn = state
    fn(x, y)
    fn(x, y).sum().backward()


def results_and_targets():
    a = FloatTensor([[3, 1, 2], [6, 5, 4]])
    return a, FloatTensor([7]), LongTensor([8])


def targets_whole(state, done):
    a, values, order = state
    assert a.tolist() == [[3, 1, 2], [6, 5, 4]]
    whole = [[1, 2, 3], [4, 5, 6]], [[1, 2, 0], [2, 1, 0]]
    assert (values.tolist(), order.tolist()) in (whole, ([7], [8])[: 0 if done else 2])


@program(results_and_targets, targets_whole)
def results_into_targets(state):
    a, values, order = state
    sort(a, 1, out=(values, order))
