"""The update of one tensor, in the library's tensor operations.

These are what the formulas mean and what works on any device and element type. On the CPU the extension does the same
in one pass over memory (`_C._sgd_step`, `_C._adam_step`), which is tested against these.
"""

import math

__all__ = ["adam_step", "sgd_step"]


def sgd_step(p, grad, buf, lr, momentum, dampening, weight_decay, nesterov):
    """One step of SGD on the tensor `p`; `buf` is its momentum buffer, None without momentum.

    Weight decay is added into `grad`, which the caller can see.
    """
    if weight_decay != 0:
        grad.add_(weight_decay, p)
    if buf is None:
        p.add_(-lr, grad)
        return
    buf.mul_(momentum).add_(1 - dampening, grad)
    if nesterov:
        p.add_(-lr, grad).add_(-lr * momentum, buf)
    else:
        p.add_(-lr, buf)


def adam_step(p, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay):
    """One step of Adam on the tensor `p`; `exp_avg` and `exp_avg_sq` are its running moments, `step` counts from 1.

    `eps` is added to the square root of the uncorrected moment; the correction of the bias is in the step size.
    Weight decay does not change `grad`.
    """
    if weight_decay != 0:
        grad = grad.add(weight_decay, p)
    exp_avg.mul_(beta1).add_(1 - beta1, grad)
    exp_avg_sq.mul_(beta2).addcmul_(1 - beta2, grad, grad)
    size = lr * math.sqrt(1 - beta2**step) / (1 - beta1**step)
    p.addcdiv_(-size, exp_avg, exp_avg_sq.sqrt().add_(eps))
