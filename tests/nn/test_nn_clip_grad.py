"""clip_grad_norm."""

import math

import numpy as np
import pytest

from torchlite import Variable, nn
from torchlite.nn.utils import clip_grad_norm

GRADS = [np.array([3.0, -4.0]), np.array([[12.0]])]


def parameters():
    params = [nn.Parameter(np.zeros_like(g)) for g in GRADS]
    for p, g in zip(params, GRADS, strict=True):
        p.grad = Variable(g.copy(), volatile=True)
    return params


def norm(grads, p):
    return np.linalg.norm(np.concatenate([g.ravel() for g in grads]), p)


@pytest.mark.parametrize("p", [1, 2, 3, 0.5, math.inf])
def test_gradients_are_scaled_to_the_norm(p):
    params = parameters()
    total = clip_grad_norm(params, 1, p)
    assert isinstance(total, float) and total == pytest.approx(norm(GRADS, p))
    clipped = [q.grad.data.numpy() for q in params]
    assert norm(clipped, p) == pytest.approx(1, rel=1e-4)
    np.testing.assert_allclose(clipped[0] / clipped[1][0], GRADS[0] / 12, rtol=1e-6)


def test_small_gradients_stay_as_they_are():
    params = parameters()
    assert clip_grad_norm(params, 100) == pytest.approx(13)
    np.testing.assert_array_equal(params[0].grad.data.numpy(), GRADS[0])


def test_clipping_works_in_place():
    params = parameters()
    memory = params[0].grad.data.numpy()
    clip_grad_norm(params, 1)
    assert memory[0] == pytest.approx(3 / 13, rel=1e-4)


def test_parameters_without_a_gradient_do_not_count():
    params = parameters()
    params[1].grad = None
    assert clip_grad_norm((p for p in params), 1) == pytest.approx(5)


def test_a_single_variable_will_do():
    assert clip_grad_norm(parameters()[0], 1) == pytest.approx(5)


@pytest.mark.parametrize("p", [1, 2, math.inf])
def test_nothing_to_clip(p):
    assert clip_grad_norm([], 1, p) == 0
