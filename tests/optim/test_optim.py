"""SGD and Adam against NumPy, and what all optimisers share."""

import copy
import pickle
import sys

import numpy as np
import pytest

import torchlite
from torchlite import _C, Variable, nn, optim
from torchlite.optim import steps
from torchlite.optim.optimizer import required

SIZES = [(3,), (2, 4), (1, 5, 2)]


def parameters(dtype="f8", seed=0):
    rng = np.random.default_rng(seed)
    return [nn.Parameter(rng.standard_normal(size).astype(dtype)) for size in SIZES]


def gradient(step, size, dtype="f8"):
    return np.random.default_rng(step).standard_normal(size).astype(dtype)


def set_gradients(params, step):
    for p in params:
        g = gradient(step, tuple(p.size()), p.data.numpy().dtype)
        if p.grad is None:
            p.grad = Variable(g, volatile=True)
        else:
            p.grad.data.copy_(torchlite.from_numpy(g))


def run(optimizer, params, n, start=0):
    for step in range(start, start + n):
        set_gradients(params, step)
        optimizer.step()


# ---- the formulas ----


def numpy_sgd(p, n, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False):
    v = None
    for step in range(n):
        g = gradient(step, p.shape) + weight_decay * p
        v = g if v is None else momentum * v + (1 - dampening) * g
        p = p - lr * ((g + momentum * v if nesterov else v) if momentum else g)
    return p


def numpy_adam(p, n, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
    m = v = np.zeros_like(p)
    for t in range(1, n + 1):
        g = gradient(t - 1, p.shape) + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g * g
        p = p - lr * np.sqrt(1 - betas[1] ** t) / (1 - betas[0] ** t) * m / (np.sqrt(v) + eps)
    return p


SGD_OPTIONS = [
    {"lr": 0.1},
    {"lr": 0.1, "weight_decay": 0.01},
    {"lr": 0.1, "momentum": 0.9},
    {"lr": 0.1, "momentum": 0.9, "dampening": 0.5},
    {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.1},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True},
    {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
]
ADAM_OPTIONS = [{}, {"lr": 0.1, "betas": (0.5, 0.9)}, {"eps": 0.1}, {"lr": 0.1, "weight_decay": 0.1}]
CASES = [(optim.SGD, numpy_sgd, o) for o in SGD_OPTIONS] + [(optim.Adam, numpy_adam, o) for o in ADAM_OPTIONS]
IDS = [f"{cls.__name__}-{','.join(f'{k}={v}' for k, v in o.items())}" for cls, _, o in CASES]


@pytest.mark.parametrize(("cls", "reference", "options"), CASES, ids=IDS)
def test_update(cls, reference, options):
    params = parameters()
    start = [p.data.numpy().copy() for p in params]
    run(cls(params, **options), params, 5)
    for p, s in zip(params, start, strict=True):
        np.testing.assert_allclose(p.data.numpy(), reference(s, 5, **options), rtol=1e-10)


@pytest.mark.parametrize(("cls", "reference", "options"), CASES, ids=IDS)
def test_the_fused_step_is_that_of_the_tensor_operations(monkeypatch, cls, reference, options):
    name, module = cls.__name__.lower(), sys.modules[cls.__module__]
    fused, plain = parameters("f4"), parameters("f4")
    run(cls(fused, **options), fused, 3)
    monkeypatch.setattr(module, f"_{name}_step", getattr(steps, f"{name}_step"))
    run(cls(plain, **options), plain, 3)
    for a, b in zip(fused, plain, strict=True):
        np.testing.assert_allclose(a.data.numpy(), b.data.numpy(), rtol=2e-6)
        np.testing.assert_allclose(a.grad.data.numpy(), b.grad.data.numpy(), rtol=2e-6)


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam])
def test_the_step_handles_parameters_that_are_not_contiguous(cls):
    base = np.random.default_rng(0).standard_normal((4, 6))
    strided, plain = nn.Parameter(base.copy().T), nn.Parameter(base.T.copy())
    for p in (strided, plain):
        optimizer = cls([p], lr=0.1, **({"momentum": 0.9} if cls is optim.SGD else {}))
        run(optimizer, [p], 3)
    np.testing.assert_allclose(strided.data.numpy(), plain.data.numpy(), rtol=1e-12)


def test_sgd_adds_weight_decay_into_the_gradient():
    p = nn.Parameter(np.array([2.0]))
    p.grad = Variable(np.array([1.0]), volatile=True)
    optim.SGD([p], lr=0.1, weight_decay=0.5).step()
    assert p.grad.data.numpy()[0] == 2


def test_the_first_momentum_buffer_is_a_copy_of_the_gradient():
    p = nn.Parameter(np.array([2.0]))
    p.grad = Variable(np.array([1.0]), volatile=True)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9, dampening=0.5)
    optimizer.step()
    buf = optimizer.state[p]["momentum_buffer"]
    assert buf is not p.grad.data and buf.numpy()[0] == 1


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam])
def test_a_step_writes_into_the_parameters_own_memory(cls):
    a = np.ones(3)
    p = nn.Parameter(a)
    run(cls([p], lr=0.1), [p], 1)
    assert not np.array_equal(a, np.ones(3))


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam])
def test_parameters_without_a_gradient_are_skipped(cls):
    p, q = parameters()[:2]
    before = q.data.numpy().copy()
    optimizer = cls([p, q], lr=0.1)
    run(optimizer, [p], 2)
    np.testing.assert_array_equal(q.data.numpy(), before)
    assert q not in optimizer.state


@pytest.mark.parametrize("cls", [optim.SGD, optim.Adam])
def test_training_reaches_the_minimum(cls):
    x = nn.Parameter(np.array([1.5, -1.5]))
    optimizer = cls([x], lr=0.05)
    for _ in range(400):
        optimizer.zero_grad()
        ((x - 1) ** 2).sum().backward()
        optimizer.step()
    np.testing.assert_allclose(x.data.numpy(), [1, 1], atol=1e-3)


def test_step_returns_what_the_closure_returns():
    x = nn.Parameter(np.array([3.0]))
    optimizer = optim.SGD([x], lr=0.5)

    def closure():
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).data.numpy()[0] == 9
    assert x.data.numpy()[0] == 0
    assert optim.SGD([x], lr=0.5).step() is None


# ---- zero_grad ----


def test_zero_grad_zeroes_a_volatile_gradient_in_place():
    params = parameters()
    optimizer = optim.SGD(params, lr=0.1)
    set_gradients(params, 0)
    grad = params[0].grad
    optimizer.zero_grad()
    assert params[0].grad is grad and not grad.data.numpy().any()


def test_zero_grad_replaces_a_gradient_that_has_a_graph():
    x = nn.Parameter(np.array([3.0]))
    (x * x).sum().backward(create_graph=True)
    grad = x.grad
    optim.SGD([x], lr=0.1).zero_grad()
    assert x.grad is not grad and grad.data.numpy()[0] == 6 and x.grad.data.numpy()[0] == 0


def test_zero_grad_leaves_none():
    params = parameters()
    optim.SGD(params, lr=0.1).zero_grad()
    assert params[0].grad is None


# ---- construction ----


def leaf_without_grad():
    return Variable(np.ones(2))


def non_leaf():
    return Variable(np.ones(2), requires_grad=True) * 2


def make(params, **options):
    return optim.SGD(params, **{"lr": 0.1, **options})


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: make(parameters()[0]), TypeError, "should be an iterable of Variables or dicts, but got .*Parameter"),
        (lambda: make(torchlite.FloatTensor([1.0])), TypeError, "but got .*FloatTensor"),
        (lambda: make(set(parameters())), TypeError, "has to have an order"),
        (lambda: make([]), ValueError, "optimizer got an empty parameter list"),
        (lambda: make([3]), TypeError, "optimizer can only optimize Variables, but one of the params is int"),
        (lambda: make([leaf_without_grad()]), ValueError, "optimizing a parameter that doesn't require gradients"),
        (lambda: make([non_leaf()]), ValueError, "can't optimize a non-leaf Variable"),
        (lambda: make(parameters()[:1] * 2), ValueError, "some parameters appear in more than one parameter group"),
        (
            lambda: optim.SGD(parameters()),
            ValueError,
            "parameter group didn't specify a value of required optimization parameter lr",
        ),
        (lambda: make(parameters(), nesterov=True), ValueError, "Nesterov momentum requires a momentum and zero damp"),
        (
            lambda: make(parameters(), nesterov=True, momentum=0.9, dampening=0.1),
            ValueError,
            "Nesterov momentum requires a momentum and zero dampening",
        ),
    ],
)
def test_wrong_arguments_are_refused(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("cls", "options", "message"),
    [
        (optim.SGD, {"lr": -1}, r"SGD: lr has to be in \[0, inf\), but is -1"),
        (optim.SGD, {"lr": 1, "momentum": -0.5}, "SGD: momentum has to be in"),
        (optim.Adam, {"eps": -1}, "Adam: eps has to be in"),
        (optim.Adam, {"betas": (0.9, 1)}, r"Adam: beta2 has to be in \[0, 1\), but is 1"),
        (optim.Adam, {"weight_decay": float("nan")}, "Adam: weight_decay has to be in"),
    ],
)
def test_options_out_of_range_are_refused(cls, options, message):
    with pytest.raises(ValueError, match=message):
        cls(parameters(), **options)


def test_groups_have_their_own_options():
    a, b, c = parameters()
    optimizer = optim.SGD([{"params": a}, {"params": [b, c], "lr": 1}], lr=0.1, momentum=0.5)
    assert [(len(g["params"]), g["lr"], g["momentum"]) for g in optimizer.param_groups] == [(1, 0.1, 0.5), (2, 1, 0.5)]


def test_params_may_be_a_generator():
    assert len(optim.SGD((p for p in parameters()), lr=0.1).param_groups[0]["params"]) == 3


def test_a_refused_group_changes_nothing():
    a, b, _ = parameters()
    optimizer, group = optim.SGD([a], lr=0.1), {"params": [b, a]}
    with pytest.raises(ValueError, match="more than one parameter group"):
        optimizer.add_param_group(group)
    assert len(optimizer.param_groups) == 1 and list(group) == ["params"]
    with pytest.raises(TypeError, match="param group must be a dict, but got list"):
        optimizer.add_param_group([b])


def test_changed_options_take_effect():
    p = nn.Parameter(np.array([1.0]))
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.param_groups[0]["lr"] = 0.5
    p.grad = Variable(np.array([1.0]), volatile=True)
    optimizer.step()
    assert p.data.numpy()[0] == 0.5


# ---- state ----


@pytest.mark.parametrize(("cls", "options"), [(optim.SGD, {"lr": 0.1, "momentum": 0.9}), (optim.Adam, {"lr": 0.1})])
@pytest.mark.parametrize("through", [copy.deepcopy, lambda state: pickle.loads(pickle.dumps(state))])
def test_a_loaded_state_continues_bit_for_bit(cls, options, through):
    params, others = parameters(), parameters(seed=1)
    optimizer = cls(params, **options)
    run(optimizer, params, 3)
    for p, q in zip(params, others, strict=True):
        q.data.copy_(p.data)
    other = cls(others, lr=123)
    other.load_state_dict(through(optimizer.state_dict()))
    run(optimizer, params, 3, start=3)
    run(other, others, 3, start=3)
    for p, q in zip(params, others, strict=True):
        np.testing.assert_array_equal(p.data.numpy(), q.data.numpy())


def test_loading_copies_the_state():
    params = parameters()
    optimizer, other = (optim.SGD(params, lr=0.1, momentum=0.9) for _ in range(2))
    run(optimizer, params, 1)
    other.load_state_dict(optimizer.state_dict())
    one, two = (o.state[params[0]]["momentum_buffer"] for o in (optimizer, other))
    assert one is not two
    one.fill_(7)
    assert two.numpy()[0] != 7


def test_options_that_a_state_lacks_stay():
    params = parameters()
    optimizer = optim.SGD(params, lr=0.1, momentum=0.9)
    state = optimizer.state_dict()
    del state["param_groups"][0]["momentum"]
    state["param_groups"][0]["lr"] = 5
    optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["momentum"] == 0.9 and optimizer.param_groups[0]["lr"] == 5


def test_state_dict_names_parameters_by_id():
    params = parameters()
    optimizer = optim.Adam(params)
    run(optimizer, params, 1)
    state = optimizer.state_dict()
    assert state["param_groups"][0]["params"] == [id(p) for p in params]
    assert set(state["state"]) == {id(p) for p in params}
    assert set(state["state"][id(params[0])]) == {"step", "exp_avg", "exp_avg_sq"}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (lambda a, b, c: [{"params": [a]}, {"params": [b, c]}], "a different number of parameter groups"),
        (lambda a, b, c: [a, b], "doesn't match the size of optimizer's group"),
    ],
)
def test_a_state_of_other_groups_is_refused(groups, message):
    optimizer = optim.SGD(parameters(), lr=0.1)
    with pytest.raises(ValueError, match=message):
        optimizer.load_state_dict(optim.SGD(groups(*parameters()), lr=5).state_dict())
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_an_optimizer_pickles_with_its_parameters():
    params = parameters()
    optimizer = optim.SGD(params, lr=0.1, momentum=0.9)
    run(optimizer, params, 2)
    copied, copied_params = pickle.loads(pickle.dumps((optimizer, params)))
    assert copied.param_groups[0]["params"][0] is copied_params[0]
    run(optimizer, params, 2, start=2)
    run(copied, copied_params, 2, start=2)
    for p, q in zip(params, copied_params, strict=True):
        np.testing.assert_array_equal(p.data.numpy(), q.data.numpy())


def test_required_is_one_object_through_copies():
    assert copy.deepcopy(required) is required
    assert pickle.loads(pickle.dumps(required)) is required


def test_repr_lists_the_options():
    text = repr(optim.SGD(parameters(), lr=0.1))
    assert text.startswith("SGD (\nParameter Group 0\n") and "    lr: 0.1\n" in text


def test_step_is_for_subclasses():
    with pytest.raises(NotImplementedError, match="Optimizer"):
        optim.Optimizer(parameters(), {}).step()


# ---- errors of the fused steps ----


@pytest.mark.parametrize(
    "call",
    [
        lambda p, g: _C._sgd_step(p, g, None, 0.1, 0, 0, 0, False),
        lambda p, g: _C._adam_step(p, g, p.clone(), p.clone(), 1, 0.1, 0.9, 0.999, 1e-8, 0),
    ],
)
def test_a_gradient_of_another_size_is_refused(call):
    p = torchlite.FloatTensor([1.0, 2.0])
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        call(p, torchlite.FloatTensor([1.0]))
    np.testing.assert_array_equal(p.numpy(), [1, 2])
