"""Adam."""

from torchlite import _C
from torchlite.optim.optimizer import Optimizer, check_range

__all__ = ["Adam"]

_adam_step = _C._adam_step


class Adam(Optimizer):
    """Adaptive moment estimation.

    With the gradient g (plus weight_decay times p) of a parameter p at step t:

        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
        p -= lr sqrt(1 - beta2^t) / (1 - beta1^t) m / (sqrt(v) + eps)

    Adam(params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0). Source: https://arxiv.org/abs/1412.6980,
    in its faster form: eps is added to the uncorrected square root.
    """

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0):
        check_range("Adam", lr=lr, eps=eps, weight_decay=weight_decay)
        if not isinstance(betas, (tuple, list)) or len(betas) != 2:
            raise TypeError(f"Adam: betas has to be a pair of numbers, but is {betas!r}")
        check_range("Adam", end=1, beta1=betas[0], beta2=betas[1])
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    def step(self, closure=None):
        """Does one update. `closure`, if given, computes the gradients and returns the loss, which is returned."""
        loss = None if closure is None else closure()
        states = self.state
        for group in self.param_groups:
            lr, (beta1, beta2), eps, weight_decay = group["lr"], group["betas"], group["eps"], group["weight_decay"]
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                data, grad = p.data, grad.data
                state = states[p]
                if not state:
                    state["step"] = 0
                    state["exp_avg"] = data.clone().zero_()
                    state["exp_avg_sq"] = data.clone().zero_()
                state["step"] += 1
                _adam_step(
                    data,
                    grad,
                    state["exp_avg"],
                    state["exp_avg_sq"],
                    state["step"],
                    lr,
                    beta1,
                    beta2,
                    eps,
                    weight_decay,
                )
        return loss
