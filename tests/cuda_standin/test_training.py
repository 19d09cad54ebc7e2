"""Optimisers, clipping and modules whose parameters are on a device."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
from devices import leaf, tensor, values, variable

import torchlite
from torchlite import Variable, cuda, nn, optim
from torchlite.nn.utils import clip_grad_norm

pytestmark = pytest.mark.usefixtures("lib")
X = np.random.RandomState(0).randn(5, 4)

OPTIMISERS = {
    "sgd": lambda p: optim.SGD(p, 0.1),
    "sgd decay": lambda p: optim.SGD(p, 0.1, weight_decay=0.01),
    "sgd momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.2, weight_decay=0.01),
    "sgd nesterov": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, 0.01),
    "adam decay": lambda p: optim.Adam(p, 0.01, weight_decay=0.01),
}


def network():
    torchlite.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()


def on_host():
    return Variable(torchlite.from_numpy(X.copy()))


def train(model, optimiser, x, steps):
    for _ in range(steps):
        optimiser.zero_grad()
        (model(x) ** 2).sum().backward()
        optimiser.step()


@pytest.mark.parametrize("name", OPTIMISERS)
def test_steps_are_those_of_the_host_and_move_nothing(name, lib):
    model, reference = network().cuda(), network()
    make = OPTIMISERS[name]
    optimiser, x = make(model.parameters()), variable(X)
    lib.reset()
    train(model, optimiser, x, 3)
    assert lib.to_host == lib.to_device == lib.synchronizations == 0
    train(reference, make(reference.parameters()), on_host(), 3)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        np.testing.assert_allclose(values(p), values(q), rtol=1e-10)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_state_lies_with_its_parameter(name):
    model = network().cuda(1)
    optimiser = OPTIMISERS[name](model.parameters())
    train(model, optimiser, variable(X, 1), 1)
    tensors = [t for state in optimiser.state.values() for t in state.values() if not isinstance(t, int)]
    assert all(t.is_cuda and t.get_device() == 1 for t in tensors)
    again = pickle.loads(pickle.dumps(optimiser.state_dict()))
    other = OPTIMISERS[name](model.parameters())
    other.load_state_dict(again)
    train(model, other, variable(X, 1), 1)


def test_parameters_on_two_devices_take_one_step():
    a, b = leaf([1.0, 2.0], 0), leaf([3.0], 1)
    optimiser = optim.SGD([a, b], 0.5)
    ((a * a).sum().cuda(1) + b * b).backward()
    optimiser.step()
    assert values(a).tolist() == [0, 0] and values(b).tolist() == [0]


# ---- clipping --------------------------------------------------------------------------------------------------------


def with_gradients(grads, device=0):
    parameters = []
    for g in grads:
        p = leaf(np.zeros_like(g), device)
        p.grad = variable(g, device)
        parameters.append(p)
    return parameters


@pytest.mark.parametrize("norm_type", [2, 1, 3, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 100])
def test_clipping_waits_for_no_device(norm_type, max_norm, lib):
    grads = [np.array([3.0, -4.0]), np.array([[1.0], [2.0]])]
    parameters = with_gradients(grads)
    lib.reset()
    norm = clip_grad_norm(parameters, max_norm, norm_type)
    assert lib.to_host == lib.to_device == lib.synchronizations == 0
    host = [Variable(torchlite.DoubleTensor(*g.shape), requires_grad=True) for g in grads]
    for p, g in zip(host, grads, strict=True):
        p.grad = Variable(torchlite.from_numpy(g.copy()))
    assert float(norm) == pytest.approx(clip_grad_norm(host, max_norm, norm_type), rel=1e-12)
    for p, q in zip(parameters, host, strict=True):
        np.testing.assert_allclose(values(p.grad), values(q.grad), rtol=1e-12)


def test_clipping_counts_gradients_of_all_places_together():
    parameters = [*with_gradients([np.array([3.0])], 1), *with_gradients([np.array([4.0])], 0)]
    assert float(clip_grad_norm(parameters, 1)) == pytest.approx(5)
    assert values(parameters[0].grad)[0] == pytest.approx(0.6) and values(parameters[1].grad)[0] == pytest.approx(0.8)
    assert parameters[0].grad.get_device() == 1


def test_clipping_leaves_gradients_alone_where_the_norm_is_no_number():
    parameters = with_gradients([np.array([math.nan]), np.array([2.0])])
    assert math.isnan(float(clip_grad_norm(parameters, 1)))
    assert values(parameters[1].grad).tolist() == [2]


# ---- modules ---------------------------------------------------------------------------------------------------------


def test_a_module_moves_and_its_parameters_stay_the_same_objects():
    model = network()
    before = list(model.parameters())
    (model(on_host()) ** 2).sum().backward()
    assert model.cuda(1) is model
    assert all(p is q for p, q in zip(before, model.parameters(), strict=True))
    assert all(p.get_device() == p.grad.get_device() == 1 for p in model.parameters())
    assert model[2].running_mean.get_device() == 1
    assert type(model.cpu()[0].weight.data) is torchlite.DoubleTensor and not model[2].running_mean.is_cuda


def test_conversions_of_modules_stay_on_the_device(lib):
    model = network().cuda(1)
    lib.reset()
    assert type(model.float()[0].weight.data) is cuda.FloatTensor
    assert type(model.half()[2].running_var) is cuda.HalfTensor
    assert model.type(cuda.DoubleTensor)[0].weight.get_device() == 1
    assert lib.to_host == lib.to_device == 0


def test_conversions_of_variables_stay_on_the_device(lib):
    x = leaf([1.5, 2.5], 1)
    lib.reset()
    y = x.float().double().half().double()
    y.sum().backward()
    assert lib.to_host == lib.to_device == 0
    assert y.get_device() == 1 and x.grad.get_device() == 1 and type(x.long().data) is cuda.LongTensor


def test_training_steps_of_batch_norm_equal_the_hosts():
    model, reference = network().cuda(), network()
    for _ in range(2):
        model(variable(X))
        reference(on_host())
    np.testing.assert_allclose(values(model[2].running_var), values(reference[2].running_var))
    np.testing.assert_allclose(values(model.eval()(variable(X))), values(reference.eval()(on_host())))


def test_a_state_dict_loads_across_places(lib):
    source, target = network().cuda(1), network()
    source[0].weight.data.fill_(2)
    target.load_state_dict(source.state_dict())
    assert not target[0].weight.is_cuda and (values(target[0].weight) == 2).all()
    lib.reset()
    other = network().cuda(0)
    other.load_state_dict(source.state_dict())
    assert lib.to_host == 0 and other[0].weight.get_device() == 0
    back = network().cuda(1)
    back.load_state_dict(target.state_dict())
    assert (values(back[0].weight) == 2).all() and back[0].weight.get_device() == 1


def test_a_copy_of_a_module_lies_where_it_lies():
    model = copy.deepcopy(network().cuda(1))
    assert all(p.get_device() == 1 for p in model.parameters())


# ---- files -----------------------------------------------------------------------------------------------------------


def saved(obj):
    f = io.BytesIO()
    torchlite.save(obj, f)
    f.seek(0)
    return f


def test_a_file_remembers_devices():
    state = torchlite.load(saved(network().cuda(1).state_dict()))
    assert all(t.get_device() == 1 for t in state.values())


def test_a_device_that_there_is_no_more_becomes_the_current_one(lib, monkeypatch):
    f = saved(tensor(np.ones(2), 1))
    monkeypatch.setattr(lib, "devices", 1)
    assert torchlite.load(f).get_device() == 0


@pytest.mark.parametrize(
    ("map_location", "places"),
    [
        ("cpu", [-1, -1]),
        ("cuda:0", [0, 0]),
        ({"cuda:1": "cuda:0"}, [0, -1]),
        ({"cpu": "cuda:1"}, [1, 1]),
        (lambda storage, location: storage, [-1, -1]),
        (lambda storage, location: None, [1, -1]),
        (lambda storage, location: storage.cuda(0) if location == "cuda:1" else storage, [0, -1]),
    ],
)
def test_map_location_decides_where_tensors_come_back(map_location, places):
    loaded = torchlite.load(saved([tensor(np.ones(2), 1), torchlite.DoubleTensor([3])]), map_location=map_location)
    assert [t.get_device() if t.is_cuda else -1 for t in loaded] == places
    assert [values(t).tolist() for t in loaded] == [[1, 1], [3]]


def test_map_location_keeps_the_sharing_of_memory():
    t, host = tensor(np.arange(4.0), 1), torchlite.DoubleTensor([1, 2])
    a, b, c, d = torchlite.load(saved([t, t[1:3], host, host[:1]]), map_location="cuda:0")
    b.fill_(9)
    d.fill_(7)
    assert values(a).tolist() == [0, 9, 9, 3] and values(c).tolist() == [7, 2]


def test_a_module_loads_onto_the_host():
    model = torchlite.load(saved(network().cuda(1)), map_location="cpu")
    assert not any(p.is_cuda for p in model.parameters())
    model(on_host())


def test_without_a_device_the_error_of_load_says_what_to_do(monkeypatch):
    from torchlite.cuda import _library

    f = saved(tensor(np.ones(2), 1))

    def missing():
        raise RuntimeError("torchlite.cuda: there is no CUDA device")

    monkeypatch.setattr(_library, "connect", missing)
    with pytest.raises(RuntimeError, match="no CUDA device. A CUDA tensor is loaded onto the host by load"):
        torchlite.load(f)
    f.seek(0)
    assert not torchlite.load(f, map_location="cpu").is_cuda
