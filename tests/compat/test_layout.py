"""Small modules that programs of the era import."""

import operator

import pytest

import torchlite
from torchlite import distributed, multiprocessing
from torchlite._six import with_metaclass
from torchlite._utils import _accumulate, _import_dotted_name, _rebuild_tensor
from torchlite.backends import cudnn


def test_with_metaclass_leaves_no_base_behind():
    class Meta(type):
        def __new__(meta, name, bases, namespace):
            namespace["made_by"] = meta
            return super().__new__(meta, name, bases, namespace)

    class Base:
        pass

    class C(with_metaclass(Meta, Base)):
        x = 1

    assert type(C) is Meta and C.__bases__ == (Base,) and C.made_by is Meta and C.x == 1


@pytest.mark.parametrize(
    "items, function, expected",
    [([1, 2, 3], (), [1, 3, 6]), ([], (), []), ([2, 3, 4], (operator.mul,), [2, 6, 24])],
)
def test_accumulate(items, function, expected):
    assert list(_accumulate(items, *function)) == expected


@pytest.mark.parametrize(
    "name, expected",
    [("torchlite.FloatTensor", lambda: torchlite.FloatTensor), ("torchlite", lambda: torchlite),
     ("torchlite.nn.functional.relu", lambda: torchlite.nn.functional.relu),
     ("torchlite.backends.cudnn", lambda: cudnn)],
)  # fmt: skip
def test_import_dotted_name(name, expected):
    assert _import_dotted_name(name) is expected()
    assert torchlite._import_dotted_name is _import_dotted_name


@pytest.mark.parametrize("name, error", [("not_a_package_here.x", ImportError), ("torchlite.nonesuch", AttributeError)])
def test_import_dotted_name_of_what_is_missing(name, error):
    with pytest.raises(error, match=name.split(".")[-1] if error is AttributeError else "not_a_package_here"):
        _import_dotted_name(name)


def test_rebuild_tensor_shares_the_storage():
    storage = torchlite.LongStorage([1, 2, 3, 4, 5, 6])
    a = _rebuild_tensor(storage, 1, torchlite.Size([2, 2]), (2, 1))
    b = _rebuild_tensor(storage, 0, (6,), (1,))
    b[3] = 9
    assert type(a) is torchlite.LongTensor and a.tolist() == [[2, 3], [9, 5]]


def test_cudnn_switches_can_be_set(monkeypatch):
    monkeypatch.setattr(cudnn, "benchmark", True)
    assert torchlite.backends.cudnn.benchmark and cudnn.enabled
    assert cudnn.is_acceptable(torchlite.FloatTensor(2)) is False and cudnn.version() is None


def test_multiprocessing_is_the_standard_one_with_sharing_strategies():
    import multiprocessing as standard

    assert multiprocessing.Process is standard.Process
    multiprocessing.set_sharing_strategy("file_descriptor")
    assert multiprocessing.get_sharing_strategy() in multiprocessing.get_all_sharing_strategies()
    with pytest.raises(ValueError, match=r"set_sharing_strategy: .*'file_descriptor'.*'file_system'"):
        multiprocessing.set_sharing_strategy("file_system")


def test_distributed_says_that_it_is_not_there():
    assert distributed.is_available() is False
    with pytest.raises(RuntimeError, match="backend 'gloo'"):
        distributed.init_process_group("gloo", world_size=2)
    for function in (distributed.get_rank, distributed.get_world_size):
        with pytest.raises(RuntimeError, match=function.__name__):
            function()


T = torchlite.FloatTensor


@pytest.mark.parametrize("other, expected", [
    (T([[1, 2], [3, 4]]), True),
    (T([[1, 3], [2, 4]]).t(), True),
    (T([[1, 2], [3, 5]]), False),
    (T([1, 2, 3, 4]), False),
    (T(), False),
])  # fmt: skip
def test_equal_compares_sizes_and_elements(other, expected):
    tensor = T([[1, 2], [3, 4]])
    assert torchlite.equal(tensor, other) is expected and tensor.equal(other) is expected


def test_equal_at_the_edges():
    nan = T([float("nan")])
    assert torchlite.equal(T(), T()) and not torchlite.equal(nan, nan)
    with pytest.raises(TypeError, match="one type, but got torchlite.FloatTensor and torchlite.DoubleTensor"):
        torchlite.equal(T(2), T(2).double())
    with pytest.raises(TypeError, match="equal: argument 2 must be a tensor, but is a int"):
        torchlite.equal(T(2), 3)


def test_the_module_functional_has_the_packages_functions():
    from torchlite import functional

    for name in functional.__all__:
        assert getattr(functional, name) is getattr(torchlite, name), name
    assert torchlite.numel(T(2, 3)) == torchlite.numel(torchlite.Variable(T(2, 3))) == 6


def test_fatal_error_can_be_caught():
    with pytest.raises(torchlite.FatalError):
        raise torchlite.FatalError


def test_a_star_import_gives_classes_and_functions_only():
    names: dict = {}
    exec("from torchlite import *", names)
    assert {"zeros", "equal", "exp", "add", "FloatTensor", "Variable", "no_grad", "is_tensor"} <= set(names)
    assert not {"nn", "autograd", "tensor", "version", "Any", "annotations", "importlib"} & set(names)
    assert [name for name in names if name.startswith("_")] == ["__builtins__"]
    assert not {"Any", "annotations", "importlib"} & set(dir(torchlite))


def test_names_that_are_loaded_when_used_are_listed():
    assert {"zeros", "nn", "optim", "equal", "exp", "FloatTensor", "manual_seed"} <= set(dir(torchlite))
    assert set(torchlite.jit.__all__) | {"passes"} <= set(dir(torchlite.jit))
    assert {"data", "hooks", "trainer"} <= set(dir(torchlite.utils))


def test_sparse_classes_on_a_device_exist_without_one():
    cls = torchlite.cuda.sparse.DoubleTensor
    assert cls.is_sparse and cls.is_cuda and cls.__module__ == "torchlite.cuda.sparse"
    with pytest.raises(AttributeError, match="'torchlite.cuda' has no attribute 'nonesuch'"):
        torchlite.cuda.nonesuch  # noqa: B018


def test_safe_call_passes_arguments_results_and_exceptions_on():
    assert torchlite._C._safe_call(dict, [(1, 2)], a=3) == {1: 2, "a": 3}
    with pytest.raises(ZeroDivisionError):
        torchlite._C._safe_call(divmod, 1, 0)
    with pytest.raises(TypeError, match="_safe_call: argument 'function' is missing"):
        torchlite._C._safe_call()
