"""The C API, through a small extension that is built against the installed header alone."""

import importlib.util
import shlex
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import torchlite
from torchlite import Function, Variable


@pytest.fixture(scope="session")
def client(tmp_path_factory):
    target = tmp_path_factory.mktemp("capi") / ("client" + sysconfig.get_config_var("EXT_SUFFIX"))
    compiler = shlex.split(sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I", torchlite.get_include(),
               "-I", sysconfig.get_paths()["include"], str(Path(__file__).with_name("client.c")), "-o", str(target)]
    subprocess.run(command, check=True)
    spec = importlib.util.spec_from_file_location("client", target)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def float_tensor(*values):
    return torchlite.from_numpy(np.array(values, dtype=np.float32))


def test_checks_tell_variables_and_tensors_apart(client):
    t = float_tensor(1.0)
    v = Variable(t)
    assert [client.is_variable(o) for o in (v, t, None, 3)] == [True, False, False, False]
    assert [client.is_tensor(o) for o in (v, t, None, 3)] == [False, True, False, False]


def test_raw_memory_is_read_through_strides_and_written(client):
    t = torchlite.from_numpy(np.arange(6, dtype=np.float32)[::2])
    assert client.scale(t, 2.0).numpy().tolist() == [0.0, 4.0, 8.0]


def test_wrap_hands_out_the_variable_itself(client):
    v = Variable(float_tensor(1.0))
    assert client.wrap(v) is v
    assert client.wrap_null() is None


def test_new_leaf_wraps_the_very_tensor(client):
    t = float_tensor(1.0)
    v = client.leaf(t)
    assert (v.data is t, v.is_leaf, v.requires_grad, v.volatile) == (True, True, False, False)
    assert type(v) is Variable


def test_new_parameter_requires_grad(client):
    v = client.parameter(float_tensor(1.0, 2.0))
    (v * 3).backward(float_tensor(1.0, 1.0))
    assert client.grad(v).data.numpy().tolist() == [3.0, 3.0]


def test_new_volatile_makes_results_volatile(client):
    v = client.new_volatile(float_tensor(1.0))
    assert v.volatile and (v + 1).volatile


def test_new_with_function_is_the_next_output_of_it(client):
    class Twice(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    function = Twice.apply(Variable(float_tensor(1.0), requires_grad=True)).grad_fn
    v = client.with_function(float_tensor(5.0), function)
    assert v.grad_fn is function and v.output_nr == 1 and v.requires_grad


def test_data_and_grad_are_the_variables_own(client):
    v = Variable(float_tensor(1.0))
    assert client.data(v) is v.data
    assert client.grad(v) is None


def test_arrays_share_memory_both_ways(client):
    a = np.zeros(3, dtype=np.float64)
    t = client.from_array(a)
    b = client.as_array(t)
    a[1] = 7
    assert t.tolist() == [0.0, 7.0, 0.0] and np.shares_memory(a, b)


def test_new_tensor_has_the_asked_type_and_size(client):
    assert client.new_tensor(4, 3).type() == "torchlite.LongTensor"
    assert client.new_tensor(7, 0).size() == (0,)


MISUSE = [
    ("leaf", (3,), TypeError, "THPVariable_NewLeaf: argument 'data' must be a tensor or an ndarray, not int"),
    ("new_volatile", (None,), TypeError, "THPVariable_NewVolatile"),
    ("with_function", (float_tensor(1.0), 3), TypeError, "argument 'grad_fn' must be a Function, not int"),
    ("wrap", (3,), TypeError, "THPVariable_Wrap: argument 'variable' must be a Variable, not int"),
    ("data", (3,), TypeError, "TorchliteVariable_Data"),
    ("grad", (3,), TypeError, "TorchliteVariable_Grad"),
    ("from_array", ([1],), TypeError, "argument 'array' must be an ndarray, not list"),
    ("as_array", (3,), TypeError, "argument 'tensor' must be a tensor, not int"),
    ("new_tensor", (8, 1), ValueError, "there is no element type 8"),
    ("new_tensor", (6, -1), ValueError, "size 0 must not be negative, but got -1"),
]


@pytest.mark.parametrize("name, args, error, message", MISUSE)
def test_misuse_names_function_and_value(client, name, args, error, message):
    with pytest.raises(error, match=message):
        getattr(client, name)(*args)


def test_an_integer_parameter_is_refused(client):
    with pytest.raises(RuntimeError, match="floating point type"):
        client.parameter(torchlite.LongTensor([1]))
