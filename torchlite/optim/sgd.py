"""Stochastic gradient descent."""

from torchlite import _C
from torchlite.optim.optimizer import Optimizer, check_range, required

__all__ = ["SGD"]

_sgd_step = _C._sgd_step


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum if asked for.

    With weight decay w, momentum m and dampening d, the gradient g of a parameter p:

        g += w p          (into the gradient itself)
        v = m v + (1 - d) g, at first v = g
        p -= lr v         (with `nesterov`: p -= lr (g + m v); without momentum: p -= lr g)

    SGD(params, lr, momentum=0, dampening=0, weight_decay=0, nesterov=False). Nesterov momentum needs a momentum and no
    dampening (ValueError). Source: http://proceedings.mlr.press/v28/sutskever13.html
    (there the learning rate is part of v).
    """

    def __init__(self, params, lr=required, momentum=0, dampening=0, weight_decay=0, nesterov=False):
        check_range("SGD", lr=lr, momentum=momentum, weight_decay=weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay, nesterov=nesterov)
        super().__init__(params, defaults)

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group.setdefault("nesterov", False)

    def step(self, closure=None):
        """Does one update. `closure`, if given, computes the gradients and returns the loss, which is returned."""
        loss = None if closure is None else closure()
        states = self.state
        for group in self.param_groups:
            lr, momentum, dampening = group["lr"], group["momentum"], group["dampening"]
            weight_decay, nesterov = group["weight_decay"], group["nesterov"]
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                data, grad = p.data, grad.data
                if momentum == 0:
                    _sgd_step(data, grad, None, lr, 0, 0, weight_decay, False)
                    continue
                state = states[p]
                buf = state.get("momentum_buffer")
                if buf is not None:
                    _sgd_step(data, grad, buf, lr, momentum, dampening, weight_decay, nesterov)
                    continue
                # The first buffer is the gradient, decayed but not dampened; with it the step is a plain one.
                if weight_decay != 0:
                    grad.add_(weight_decay, data)
                state["momentum_buffer"] = grad.clone()
                _sgd_step(data, grad, None, lr * (1 + momentum) if nesterov else lr, 0, 0, 0, False)
        return loss
