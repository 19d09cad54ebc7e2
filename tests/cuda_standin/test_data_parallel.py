"""One module over both devices: results and gradients are those of one."""

from collections import namedtuple

import numpy as np
import pytest
from devices import leaf, tensor, values, variable

import torchlite
from torchlite import Variable, autograd, cuda, jit, nn, optim
from torchlite.cuda import comm
from torchlite.nn.parallel import data_parallel, gather, parallel_apply, replicate, scatter

pytestmark = pytest.mark.usefixtures("lib")
A = np.arange(12.0).reshape(6, 2)
X = np.random.RandomState(0).randn(5, 4)


# ---- comm ------------------------------------------------------------------------------------------------------------


def test_broadcast_copies_to_each_device_but_its_own(lib):
    t = tensor(A, 1)
    lib.reset()
    here, there = comm.broadcast(t, (1, 0))
    assert lib.peer_copies == 1 and lib.to_host == lib.to_device == 0
    assert here is t and there.get_device() == 0 and values(there).tolist() == A.tolist()


def test_coalesced_broadcasts_travel_together(lib):
    tensors = [tensor([1.0, 2.0]), tensor(A), tensor([3]), tensor(np.zeros((0, 2)))]
    lib.reset()
    own, moved = comm.broadcast_coalesced(tensors, (0, 1))
    assert own == tuple(tensors) and lib.peer_copies == 2  # one for Double, one for Long
    assert [values(m).tolist() for m in moved] == [values(t).tolist() for t in tensors]
    assert all(m.get_device() == 1 and type(m) is type(t) for m, t in zip(moved, tensors, strict=True))
    lib.reset()
    comm.broadcast_coalesced(tensors[:2], (1,), buffer_size=16)
    assert lib.peer_copies == 2


def test_reduce_add_sums_on_the_destination():
    a, b = tensor([1.0, 2.0]), tensor([3.0, 4.0], 1)
    assert values(comm.reduce_add([a, b], 1)).tolist() == [4, 6]
    total = comm.reduce_add([a, b])
    assert total.get_device() == 0 and values(a).tolist() == [1, 2]
    with pytest.raises(ValueError, match=r"inputs\[1\] has size \(1,\), but inputs\[0\] has \(2,\)"):
        comm.reduce_add([a, tensor([1.0])])
    with pytest.raises(ValueError, match="at least one tensor"):
        comm.reduce_add([])


def test_scatter_and_gather_are_each_others_inverse():
    for source in (tensor(A), torchlite.from_numpy(A.copy())):
        chunks = comm.scatter(source, (0, 1))
        assert [c.get_device() for c in chunks] == [0, 1] and [c.size(0) for c in chunks] == [3, 3]
        assert values(comm.gather(chunks, destination=1)).tolist() == A.tolist()
        host = comm.gather(chunks, 0, -1)
        assert not host.is_cuda and host.numpy().tolist() == A.tolist()


def test_scatter_takes_sizes_dimensions_and_streams():
    chunks = comm.scatter(tensor(A), (0, 1), chunk_sizes=(1, 5))
    assert [c.size(0) for c in chunks] == [1, 5]
    assert [tuple(c.size()) for c in comm.scatter(tensor(A), (0, 1), dim=1)] == [(6, 1), (6, 1)]
    assert len(comm.scatter(tensor(A[:1]), (0, 1))) == 1
    side = cuda.Stream(1)
    comm.scatter(torchlite.from_numpy(A.copy()), (1,), streams=[side])
    with pytest.raises(ValueError, match="add up to 6, but is"):
        comm.scatter(tensor(A), (0, 1), chunk_sizes=(1, 2))
    with pytest.raises(ValueError, match="devices is empty"):
        comm.scatter(tensor(A), ())


# ---- the parts -------------------------------------------------------------------------------------------------------


def test_scatter_splits_nested_variables_and_repeats_the_rest():
    Pair = namedtuple("Pair", "x y")
    first, second = scatter((variable(A), {"a": [variable(A), 3]}, None, Pair(variable(A), "s")), (0, 1))
    assert second[0].get_device() == 1 and second[1]["a"][1] == 3 and second[2] is None
    assert values(first[3].x).tolist() == A[:3].tolist() and second[3].y == "s"
    with pytest.raises(TypeError, match="only Variables"):
        scatter(tensor(A), (0, 1))


def test_gather_joins_nested_results():
    parts = [{"a": (variable([1.0], d), None)} for d in (0, 1)]
    joined = gather(parts, 1)
    assert joined["a"][0].get_device() == 1 and values(joined["a"][0]).tolist() == [1, 1] and joined["a"][1] is None
    assert not gather([variable([1.0]), variable([2.0], 1)], -1).is_cuda
    with pytest.raises(TypeError, match="have to be Variables"):
        gather([1, 2], 0)


def test_gradients_flow_back_through_scatter_and_gather():
    x = leaf(A)
    parts = scatter(x, (0, 1))
    (gather([parts[0] * 2, parts[1] * 3], 0) ** 2).sum().backward()
    expected = 2 * A * np.array([[4.0]] * 3 + [[9.0]] * 3)
    assert x.grad.get_device() == 0
    np.testing.assert_allclose(values(x.grad), expected)
    g, = autograd.grad((gather(scatter(x, (0, 1)), 1) ** 3).sum(), x, create_graph=True)
    np.testing.assert_allclose(values(autograd.grad(g.sum(), x)[0]), 6 * A)


def test_replicas_compute_with_the_modules_parameters():
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).double().cuda()
    own, other = replicate(model, (0, 1))
    assert own[0].weight is model[0].weight and own[1].running_mean is model[1].running_mean
    assert other[0].weight.get_device() == 1 and other[1].running_mean.get_device() == 1
    assert type(other) is nn.Sequential and not other[0].weight.is_leaf
    (other(variable(X, 1)) ** 2).sum().backward()
    assert model[0].weight.grad.get_device() == 0


def test_a_module_that_is_used_twice_is_one_in_the_replica():
    shared = nn.Linear(2, 2)
    model = nn.Sequential(shared, nn.ReLU(), shared).cuda()
    replica = replicate(model, (1,))[0]
    assert replica[0] is replica[2]


def test_parallel_apply_makes_each_device_current():
    seen = []

    class Look(nn.Module):
        def forward(self, x, k=0):
            seen.append((cuda.current_device(), k))
            return x

    parallel_apply([Look(), Look()], [variable(A, 1), (variable(A, 0),)], [{"k": 1}, {}])
    parallel_apply([Look()], [(variable(A, 0),)], devices=[1])
    assert seen == [(1, 1), (0, 0), (1, 0)] and cuda.current_device() == 0
    with pytest.raises(ValueError, match="there are 1 modules, but inputs has 2 entries"):
        parallel_apply([Look()], [1, 2])


# ---- data_parallel ---------------------------------------------------------------------------------------------------

NETWORKS = {
    "perceptron": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)), X, 0),
    "convolution": (lambda: nn.Conv2d(1, 2, 3), np.arange(120.0).reshape(3, 1, 8, 5) / 100, 0),
    "embedding": (lambda: nn.Embedding(5, 3), np.array([[1, 2], [3, 1], [0, 4]]), 0),
    "lstm": (lambda: nn.LSTM(4, 3), np.random.RandomState(1).randn(5, 3, 4), 1),
}


@pytest.mark.parametrize("devices", [(0, 1), (1, 0), (1,)])
@pytest.mark.parametrize("name", NETWORKS)
def test_results_and_gradients_are_those_of_one_device(name, devices, lib):
    make, data, dim = NETWORKS[name]
    models = []
    for _ in range(2):
        torchlite.manual_seed(0)
        models.append(make().double())
    model, reference = models[0].cuda(devices[0]), models[1].cuda(devices[0])
    x, again = variable(data, devices[0]), variable(data, devices[0])
    if data.dtype.kind == "f":
        x, again = leaf(data, devices[0]), leaf(data, devices[0])
    lib.reset()
    out = data_parallel(model, x, devices, dim=dim)
    expected = reference(again)
    if isinstance(out, tuple):
        out, expected = out[0], expected[0]
    (out**2).sum().backward()
    (expected**2).sum().backward()
    assert lib.to_host == lib.to_device == lib.synchronizations == 0
    assert out.get_device() == devices[0]
    np.testing.assert_allclose(values(out), values(expected), rtol=1e-10)
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        assert p.grad.get_device() == devices[0]
        np.testing.assert_allclose(values(p.grad), values(q.grad), rtol=1e-9)
    if data.dtype.kind == "f":
        np.testing.assert_allclose(values(x.grad), values(again.grad), rtol=1e-9)


def test_a_whole_training_run_is_that_of_one_device():
    losses = []
    for devices in ((0, 1), (0,)):
        torchlite.manual_seed(0)
        model = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double(), devices)
        optimiser = optim.Adam(model.parameters(), 0.05)
        target = variable(np.array([0, 1, 2, 0, 1]))
        for _ in range(4):
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(variable(X)), target)
            loss.backward()
            optimiser.step()
        losses.append(values(loss)[0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-10)


def test_the_result_comes_to_the_output_device():
    model = nn.Linear(4, 3).double().cuda()
    assert data_parallel(model, variable(X), (0, 1), output_device=1).get_device() == 1
    assert not data_parallel(model, variable(X), (0, 1), output_device=-1).is_cuda
    host = Variable(torchlite.from_numpy(X.copy()))
    assert data_parallel(model, host, (0, 1)).get_device() == 0


def test_a_batch_smaller_than_the_devices_uses_fewer():
    class Scaled(nn.Linear):
        def forward(self, x, factor=1.0):
            return super().forward(x) * factor

    model = Scaled(4, 3).double().cuda()
    out = data_parallel(model, variable(X[:1]), (0, 1), module_kwargs={"factor": 2.0})
    np.testing.assert_allclose(values(out), values(model(variable(X[:1]))) * 2)


def test_a_module_elsewhere_is_refused_by_name():
    with pytest.raises(RuntimeError, match="lie on the first device, 0, but 'weight' lies on the host"):
        data_parallel(nn.Linear(4, 3).double(), variable(X), (0, 1))
    with pytest.raises(RuntimeError, match="'weight' lies on device 0"):
        data_parallel(nn.Linear(4, 3).double().cuda(0), variable(X, 1), (1, 0))


def test_running_statistics_of_the_first_device_stay():
    model = nn.DataParallel(nn.BatchNorm1d(4).double())
    assert model.device_ids == [0, 1] and model.module.weight.get_device() == 0
    model(variable(X))
    np.testing.assert_allclose(values(model.module.running_mean), 0.1 * X[:3].mean(0))
    assert list(model.state_dict()) == [f"module.{n}" for n in ("weight", "bias", "running_mean", "running_var")]


def test_without_a_device_the_module_runs_where_it_is(monkeypatch):
    monkeypatch.setattr(cuda, "device_count", lambda: 0)
    model = nn.DataParallel(nn.Linear(4, 3).double())
    out = model(Variable(torchlite.from_numpy(X.copy())))
    assert tuple(out.size()) == (5, 3) and not out.is_cuda


def test_the_functions_have_the_eras_names():
    from torchlite.nn.parallel._functions import Broadcast

    x = leaf([1.0, 2.0])
    a, b = Broadcast.apply((0, 1), x)
    (a.sum() + (b * 3).sum().cuda(0)).backward()
    assert values(x.grad).tolist() == [4, 4]


def test_a_parallel_module_is_traced_with_its_moves(lib):
    torchlite.manual_seed(0)
    model = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double())
    step = jit.compile_step(lambda x: (model(x) ** 2).sum(), None, optim.SGD(model.parameters(), 0.01))
    torchlite.manual_seed(0)
    reference = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double().cuda()
    expected = jit.compile_step(lambda x: (reference(x) ** 2).sum(), None, optim.SGD(reference.parameters(), 0.01))
    assert {r.type.device for let in jit.compile(model).lambda_for(variable(X)).lets for r in let.results} == {0, 1}
    for _ in range(3):
        np.testing.assert_allclose(values(step(variable(X))), values(expected(variable(X))), rtol=1e-10)
    lib.reset()
    step(variable(X[:, ::-1].copy(), 0))
    assert lib.to_host == 0


def test_a_parallel_step_is_no_cuda_graph():
    model = nn.DataParallel(nn.Linear(4, 3).double())
    step = jit.compile_step(lambda x: (model(x) ** 2).sum(), None, optim.SGD(model.parameters(), 0.1), cuda_graph=True)
    with pytest.raises(RuntimeError, match="a CUDA graph cannot hold this function: ToDevice leads to another place"):
        step(variable(X))
