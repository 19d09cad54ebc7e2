"""Binary cross entropy. Values and derivatives are checked with the op table."""

import numpy as np
import pytest

import torchlite
from torchlite import Variable, nn
from torchlite.nn import functional as F

P, T = np.array([[0.1, 0.8], [0.5, 0.3]]), np.array([[0.0, 1.0], [1.0, 0.25]])
TERMS = -T * np.log(P) - (1 - T) * np.log(1 - P)
LOGITS = np.log(P / (1 - P))
LOSSES = [(nn.BCELoss, P), (nn.BCEWithLogitsLoss, LOGITS)]


@pytest.mark.parametrize("loss, x", LOSSES)
def test_the_loss_is_the_mean_or_sum_of_the_terms(loss, x):
    assert loss()(Variable(x), Variable(T)).data.tolist() == pytest.approx([TERMS.mean()])
    assert loss(size_average=False)(Variable(x), Variable(T)).data.tolist() == pytest.approx([TERMS.sum()])


@pytest.mark.parametrize("loss, x", LOSSES)
def test_weights_broadcast_to_the_input(loss, x):
    weight = torchlite.DoubleTensor([0.5, 2])
    m = loss(weight)
    assert list(m.state_dict()) == ["weight"]
    assert m(Variable(x), Variable(T)).data.tolist() == pytest.approx([(TERMS * [0.5, 2]).mean()])
    with pytest.raises(RuntimeError, match=r"weight of size \(3,\) does not broadcast to an input of size \(2, 2\)"):
        loss(torchlite.DoubleTensor(3))(Variable(x), Variable(T))


@pytest.mark.parametrize("loss, x", LOSSES)
def test_targets_that_require_grad_are_refused(loss, x):
    with pytest.raises(AssertionError, match="don't compute the gradient w.r.t. targets"):
        loss()(Variable(x), Variable(T, requires_grad=True))


def test_certain_answers_have_finite_losses_and_gradients():
    x = Variable(np.array([0.0, 1.0, 0.0, 1.0], "f4"), requires_grad=True)
    loss = F.binary_cross_entropy(x, Variable(np.array([0.0, 1.0, 1.0, 0.0], "f4")), size_average=False)
    loss.backward()
    assert loss.data[0] == pytest.approx(-2 * np.log(1e-12), rel=1e-6)
    assert np.isfinite(x.grad.data.numpy()).all() and x.grad.data[0] == 1 and x.grad.data[1] == -1


def test_large_logits_do_not_overflow():
    x = Variable(np.array([-1000.0, 1000.0, 1000.0], "f4"), requires_grad=True)
    loss = F.binary_cross_entropy_with_logits(x, Variable(np.array([0.0, 1.0, 0.0], "f4")), size_average=False)
    loss.backward()
    assert loss.data.tolist() == [1000.0] and x.grad.data.tolist() == [0.0, 0.0, 1.0]


def test_a_target_of_another_size_warns_where_the_elements_fit():
    with pytest.warns(UserWarning, match=r"target size \(\(4,\)\) that is different to the input size \(\(2, 2\)\)"):
        y = F.binary_cross_entropy(Variable(P), Variable(T.reshape(-1)))
    assert y.data.tolist() == pytest.approx([TERMS.mean()])
    with pytest.raises(ValueError, match=r"target nelement \(3\) != input nelement \(4\)"):
        F.binary_cross_entropy(Variable(P), Variable(T.reshape(-1)[:3].copy()))


def test_logits_need_a_target_of_their_size():
    with pytest.raises(ValueError, match=r"Target size \(\(4,\)\) must be the same as input size \(\(2, 2\)\)"):
        F.binary_cross_entropy_with_logits(Variable(LOGITS), Variable(T.reshape(-1)))
