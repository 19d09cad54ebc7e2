"""The kernels by tensor type that the era's autograd layer called."""

import numpy as np
import pytest

import torchlite
from torchlite._thnn import type2backend

TYPES = [torchlite.FloatTensor, torchlite.DoubleTensor]


def tensor(values, cls):
    return torchlite.from_numpy(np.array(values, dtype=np.float64)).type(cls)


@pytest.mark.parametrize("cls", TYPES)
@pytest.mark.parametrize(
    "name, forward, derivative",
    [
        ("Tanh", np.tanh, lambda y: 1 - y**2),
        ("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), lambda y: y * (1 - y)),
    ],
)
def test_a_kernel_writes_its_result_into_an_argument_of_any_size(cls, name, forward, derivative):
    backend = type2backend[cls]
    rng = np.random.default_rng(0)
    x, g = rng.standard_normal((3, 4)), rng.standard_normal((3, 4))
    output, grad_input = cls(), cls(2)
    getattr(backend, f"{name}_updateOutput")(backend.library_state, tensor(x, cls), output)
    getattr(backend, f"{name}_updateGradInput")(backend.library_state, None, tensor(g, cls), grad_input, output)
    assert np.allclose(output.numpy(), forward(x), rtol=1e-5)
    assert grad_input.size() == (3, 4) and np.allclose(grad_input.numpy(), g * derivative(forward(x)), rtol=1e-5)


def test_the_gradient_may_be_written_over_the_incoming_one():
    backend = type2backend[torchlite.DoubleTensor]
    g, y = tensor([2.0, 4.0], torchlite.DoubleTensor), tensor([0.5, 0.0], torchlite.DoubleTensor)
    backend.Tanh_updateGradInput(backend.library_state, None, g, g, y)
    assert g.tolist() == [1.5, 4]


@pytest.mark.parametrize("cls", TYPES)
def test_a_backend_is_found_by_class_and_by_name(cls):
    for key in (cls, tensor([0.0], cls).type()):
        assert type2backend[key].tensor_class is cls
    assert type2backend[cls] is type2backend[cls]


@pytest.mark.parametrize("key", [torchlite.LongTensor, "torchlite.LongTensor", "FloatTensor", int])
def test_other_types_have_no_kernels(key):
    with pytest.raises(KeyError, match="there are no kernels for"):
        type2backend[key]


def test_a_tensor_of_another_type_is_refused_and_nothing_written():
    backend = type2backend[torchlite.DoubleTensor]
    target = tensor([7.0], torchlite.DoubleTensor)
    wrong = tensor([1.0], torchlite.FloatTensor)
    message = "Tanh_updateGradInput: grad_output must be a DoubleTensor, but got FloatTensor"
    with pytest.raises(TypeError, match=message):
        backend.Tanh_updateGradInput(backend.library_state, None, wrong, target, target)
    assert target.tolist() == [7]
