"""Tensors and Variables on devices: types, places, moves between places, and the errors of mixing them."""

import copy
import pickle

import numpy as np
import pytest
from devices import leaf, tensor, values, variable

import torchlite
from torchlite import Variable, cuda
from torchlite.autograd import Function

pytestmark = pytest.mark.usefixtures("lib")
A = np.arange(6.0, dtype=np.float32).reshape(2, 3)


# ---- types and attributes --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Byte", "Char", "Short", "Int", "Long", "Half", "Float", "Double"])
def test_a_class_of_a_device_has_its_name_and_type(name):
    host = getattr(torchlite, name + "Tensor")(2, 3).zero_()
    t = host.cuda()
    cls = getattr(cuda, name + "Tensor")
    assert type(t) is cls and t.type() == f"torchlite.cuda.{name}Tensor" and t.is_cuda and not host.is_cuda
    assert t.get_device() == 0 and t.dtype == host.dtype and t.size() == host.size()
    assert type(t.storage()) is getattr(cuda, name + "Storage") and t.storage().is_cuda


def test_conversions_stay_on_the_device(lib):
    t = tensor(A, 1)
    lib.reset()
    assert type(t.double()) is cuda.DoubleTensor and t.double().get_device() == 1
    assert t.float() is t and t.type("torchlite.cuda.FloatTensor") is t
    assert lib.to_host == lib.to_device == 0


def test_types_of_the_other_place_move():
    t = tensor(A)
    assert type(t.type("torchlite.DoubleTensor")) is torchlite.DoubleTensor
    with cuda.device(1):
        moved = torchlite.from_numpy(A.copy()).type(cuda.LongTensor)
    assert type(moved) is cuda.LongTensor and moved.get_device() == 1
    assert torchlite.FloatTensor(2).type_as(moved).get_device() == 1


def test_constructors_take_sizes_sequences_arrays_and_a_device():
    assert cuda.FloatTensor(2, 3).size() == (2, 3)
    assert values(cuda.LongTensor([[1, 2], [3, 4]], device=1)).tolist() == [[1, 2], [3, 4]]
    assert cuda.LongTensor([1], device=1).get_device() == 1
    assert values(cuda.FloatTensor(A)).tolist() == A.tolist()
    t = tensor(A)
    assert cuda.FloatTensor(t).data_ptr() == t.data_ptr()
    assert cuda.FloatTensor(t.storage()).size() == (6,)
    with pytest.raises(TypeError, match=r"FloatTensor, which lies on the host: cuda\(\) copies it"):
        cuda.FloatTensor(torchlite.FloatTensor(2))
    with pytest.raises(TypeError, match=r"FloatTensor, which lies on a CUDA device: cpu\(\) copies it"):
        torchlite.FloatTensor(t)


def test_new_makes_the_class_on_the_same_device():
    t = tensor(A, 1)
    assert t.new(4).get_device() == 1 and type(t.new([1, 2])) is cuda.FloatTensor
    assert values(t.new([1, 2])).tolist() == [1, 2]


def test_cuda_and_cpu_return_what_is_there_already():
    host, t = torchlite.from_numpy(A.copy()), tensor(A)
    assert host.cpu() is host and t.cuda() is t and t.cuda(0) is t and t.cuda(1) is not t
    assert t.cuda(1).get_device() == 1 and values(t.cuda(1)).tolist() == A.tolist()


def test_a_device_that_is_missing_is_named():
    with pytest.raises(RuntimeError, match="there is no CUDA device 2: 2 can be used"):
        torchlite.FloatTensor(1).cuda(2)
    with pytest.raises(RuntimeError, match="there is no CUDA device 7"):
        cuda.set_device(7)
    with pytest.raises(TypeError, match="a device is an int"):
        torchlite.FloatTensor(1).cuda("gpu")


def test_printing_names_the_device():
    assert repr(tensor(A, 1)).endswith("[torchlite.cuda.FloatTensor of size 2x3 (GPU 1)]")


def test_numbers_and_lists():
    t = tensor(A)
    assert t.sum() == 15.0 and t[1, 2] == 5.0 and float(tensor([2.5])) == 2.5 and t.tolist() == A.tolist()
    assert tensor([3]).item() == 3 and int(tensor(np.array([7]))) == 7


def test_numpy_asks_for_a_copy():
    t = tensor(A)
    for convert in (lambda: t.numpy(), lambda: np.asarray(t), lambda: variable(A).numpy()):
        with pytest.raises(TypeError, match=r"can't convert CUDA tensor to numpy .*\.cpu\(\)"):
            convert()
    with pytest.raises(AttributeError, match="lies on a CUDA device"):
        t.__array_interface__  # noqa: B018


# ---- views, indexing, writing ----------------------------------------------------------------------------------------


def test_views_share_memory_and_move_nothing(lib):
    t = tensor(A)
    lib.reset()
    t.t()[0].fill_(9)
    t.narrow(1, 1, 1).zero_()
    assert lib.to_host == lib.to_device == 0
    assert values(t).tolist() == [[9, 0, 2], [9, 0, 5]]


@pytest.mark.parametrize("key", [1, (0, slice(1, None)), (Ellipsis, 1), None, [0, 1, 1], ([0, 1], [2, 0])])
def test_keys_mean_what_they_mean_on_the_host(key):
    for make in (tensor, variable):
        assert values(make(A)[key]).tolist() == np.atleast_1d(A[key]).tolist()


def test_index_and_mask_tensors_of_the_device():
    t, index, mask = tensor(A), tensor(np.array([1, 0])), tensor((A > 2).astype(np.uint8))
    assert values(t[index]).tolist() == A[[1, 0]].tolist()
    assert values(t[mask]).tolist() == A[A > 2].tolist()
    assert values(Variable(t)[Variable(index)]).tolist() == A[[1, 0]].tolist()


def test_an_index_of_another_place_is_an_error_that_names_both():
    with pytest.raises(TypeError, match="on device 0 is indexed with a torchlite.LongTensor on the host"):
        tensor(A)[torchlite.LongTensor([0])]
    with pytest.raises(TypeError, match="on device 0 is indexed with a torchlite.cuda.LongTensor on device 1"):
        tensor(A)[tensor(np.array([0]), 1)]


@pytest.mark.parametrize("index", [torchlite.LongTensor([0]), torchlite.ByteTensor([1, 0])], ids=["index", "mask"])
def test_an_index_of_a_variable_is_not_moved(index, lib):
    v = variable(A)
    lib.reset()
    for key in (index, Variable(index), (Variable(index),)):
        with pytest.raises(TypeError, match=r"on device 0 is indexed with a torchlite.\w+Tensor on the host"):
            v[key]
    assert lib.to_device == 0


@pytest.mark.parametrize("make", [tensor, variable])
def test_sequences_and_arrays_of_the_host_can_be_assigned(make):
    t = make(A)
    t[0] = [4.0, 5.0, 6.0]
    t[[1], [0]] = np.array([7.0])
    assert values(t).tolist() == [[4, 5, 6], [7, 4, 5]]


def test_assignment():
    t = tensor(A)
    t[0] = 7
    t[1, 1] = 8
    t[:, 2] = tensor([1.0, 2.0])
    t[[1, 0], [0, 0]] = 3
    assert values(t).tolist() == [[3, 7, 1], [3, 8, 2]]
    t[0] = [4.0, 5.0, 6.0]
    assert values(t[0]).tolist() == [4, 5, 6]
    t[tensor((values(t) > 5).astype(np.uint8))] = 0
    assert values(t).tolist() == [[4, 5, 0], [3, 0, 2]]


def test_copy_goes_between_all_places_and_casts():
    source = np.arange(6.0).reshape(3, 2)
    for make in (lambda a: torchlite.from_numpy(a.copy()), tensor, lambda a: tensor(a, 1)):
        for target in (lambda: torchlite.FloatTensor(3, 2), lambda: cuda.FloatTensor(3, 2),
                       lambda: cuda.FloatTensor(2, 3, device=1).t()):
            t = target()
            assert t.copy_(make(source)) is t
            assert values(t).tolist() == source.tolist()


def test_a_copy_between_devices_does_not_pass_through_the_host(lib):
    t = tensor(A)
    lib.reset()
    t.cuda(1)
    assert lib.peer_copies == 1 and lib.to_host == lib.to_device == 0


def test_resize_keeps_the_elements():
    t = tensor([1.0, 2.0])
    t.resize_(2, 2)
    assert values(t)[0].tolist() == [1, 2] and t.get_device() == 0


def test_pickles_and_deep_copies_share_storages_again():
    t = tensor(A, 1)
    both = [t, t[0]]
    for again in (pickle.loads(pickle.dumps(both)), copy.deepcopy(both)):
        assert again[0].get_device() == 1 and values(again[0]).tolist() == A.tolist()
        assert again[0].data_ptr() == again[1].data_ptr() != t.data_ptr()


# ---- the current device ----------------------------------------------------------------------------------------------


def test_device_is_a_context_that_restores_on_every_exit():
    assert cuda.current_device() == 0
    with pytest.raises(ZeroDivisionError), cuda.device(1):
        assert cuda.current_device() == 1
        raise ZeroDivisionError
    assert cuda.current_device() == 0
    with cuda.device(-1), cuda.device_of(torchlite.FloatTensor(1)):
        assert cuda.current_device() == 0
    with cuda.device_of(tensor(A, 1)):
        assert cuda.current_device() == 1 and cuda.FloatTensor(1).get_device() == 1


def test_an_operation_runs_on_the_device_of_its_arguments(lib):
    t = tensor(A, 1)
    lib.reset()
    assert t.exp().add(1).get_device() == 1
    assert {call.device for call in lib.calls} == {1} and cuda.current_device() == 0


def test_an_operation_that_fails_restores_the_device():
    with pytest.raises(RuntimeError):
        tensor(A, 1).mm(tensor(A, 1))
    assert cuda.current_device() == 0


# ---- mixing ----------------------------------------------------------------------------------------------------------

HOST = r"torchlite\.FloatTensor on the host"
FIRST = r"torchlite\.cuda\.FloatTensor on device 0"
SECOND = r"torchlite\.cuda\.FloatTensor on device 1"
MIXTURES = {
    "host": (lambda: torchlite.from_numpy(A.copy()), TypeError, HOST),
    "other device": (lambda: tensor(A, 1), RuntimeError, SECOND),
}


@pytest.mark.parametrize("where", MIXTURES)
@pytest.mark.parametrize("operation", [
    lambda a, b: a + b, lambda a, b: b * a, lambda a, b: a.add_(b), lambda a, b: torchlite.cat([a, b]),
    lambda a, b: a.mm(b.t()), lambda a, b: torchlite.max(a, b), lambda a, b: torchlite.gesv(a, b.t().mm(b)),
    lambda a, b: torchlite.cross(a.expand(3, 2, 3), b.expand(3, 2, 3)),
])
def test_operands_in_two_places_are_an_error_that_names_both(operation, where, lib):
    make, error, name = MIXTURES[where]
    for wrap in (lambda t: t, Variable):
        a, b = wrap(tensor(A)), wrap(make())
        lib.reset()
        with pytest.raises(error, match="(?s)(" + FIRST + ".*" + name + ")|(" + name + ".*" + FIRST + ")"):
            operation(a, b)
        assert lib.to_host == lib.to_device == lib.peer_copies == 0
        assert values(a).tolist() == A.tolist()


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, np.bool_])
def test_a_scalar_of_numpy_is_a_number(kind, lib):
    number = kind(1)
    for wrap in (lambda t: t, Variable):
        host, device = wrap(torchlite.from_numpy(A.copy())), wrap(tensor(A))
        lib.reset()
        for operation in (
            lambda x: number * x, lambda x: x / number, lambda x: x.add(number), lambda x: torchlite.add(x, number),
            lambda x: x < number, lambda x: (x + 0).add_(number),
        ):
            got, expected = operation(device), operation(host)
            assert (lib.to_host, lib.to_device, lib.synchronizations) == (0, 0, 0)
            expected = expected.data if wrap is Variable else expected
            assert (values(got).dtype, values(got).tolist()) == (expected.dtype, expected.tolist())
            lib.reset()


def test_one_element_arrays_of_the_host_are_no_numbers():
    assert values(tensor(A) * 2).tolist() == (A * 2).tolist()
    with pytest.raises(TypeError, match="all tensors must be in one place"):
        tensor(A) * torchlite.FloatTensor([2])


@pytest.mark.parametrize(("make", "text"), [
    (lambda: Variable(torchlite.from_numpy(A.copy())), "assigned grad has data of a different type"),
    (lambda: variable(A.astype(np.float64)), "assigned grad has data of a different type"),
    (lambda: variable(A, 1), "assigned grad has data located on a different device"),
    (lambda: variable(A.T), "assigned grad has data of a different size"),
])
def test_grad_assignment_checks_type_device_and_size(make, text):
    x = variable(A, 0, True)
    with pytest.raises(RuntimeError, match=text):
        x.grad = make()
    assert x.grad is None
    x.grad = variable(A)
    assert values(x.grad).tolist() == A.tolist()


def test_a_seed_of_another_place_is_an_error():
    for seed, error in ((Variable(torchlite.DoubleTensor([1])), "type|CUDA"), (variable(np.ones(1), 1), "device")):
        y = (leaf([1.0, 2.0]) * 2).sum()
        with pytest.raises((RuntimeError, TypeError), match=error):
            y.backward(seed)


@pytest.mark.parametrize(("make", "text"), [
    (lambda g: g.cpu(), r"hook 'move' has changed the type of value \(was .*CUDA.* got .*"),
    (lambda g: g.cuda(1), r"hook 'move' has changed the device of value \(was CUDA device 0 got CUDA device 1\)"),
])
def test_a_hook_that_moves_a_gradient_is_an_error(make, text):
    def move(g):
        return make(g)

    x = leaf([1.0])
    y = x * 2
    y.register_hook(move)
    with pytest.raises(RuntimeError, match=text):
        y.backward()
    assert x.grad is None


class Moves(Function):
    """A Function whose gradient is in the wrong place."""

    @staticmethod
    def forward(ctx, x):
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return g.cuda(1)


def test_a_gradient_of_a_function_has_to_lie_where_its_input_lies():
    x = leaf([1.0])
    with pytest.raises(RuntimeError, match="on CUDA device 1 at position 1, but .* input is on CUDA device 0"):
        Moves.apply(x).backward()
    assert x.grad is None
