"""Losses as modules. Each takes (input, target) and gives a Variable of shape (1,)."""

from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module

__all__ = ["BCELoss", "BCEWithLogitsLoss", "CrossEntropyLoss", "L1Loss", "MSELoss", "NLLLoss"]


class _Loss(Module):
    """A loss that averages over the elements (`size_average`) or sums."""

    def __init__(self, size_average=True):
        super().__init__()
        self.size_average = size_average

    def _check_target(self, target):
        if target.requires_grad:
            raise AssertionError(
                "nn criterions don't compute the gradient w.r.t. targets - please make the target volatile or one "
                f"that doesn't require grad ({type(self).__name__})"
            )

    def __repr__(self):
        return f"{type(self).__name__} ()"


class _WeightedLoss(_Loss):
    """A loss whose terms the buffer `weight`, a tensor or None, weighs."""

    def __init__(self, weight=None, size_average=True):
        super().__init__(size_average)
        self.register_buffer("weight", weight)


class _ClassLoss(_WeightedLoss):
    """A loss of classes: `weight` (C) weighs them; targets equal to `ignore_index` don't count."""

    def __init__(self, weight=None, size_average=True, ignore_index=-100):
        super().__init__(weight, size_average)
        self.ignore_index = ignore_index


class L1Loss(_Loss):
    """Mean (or sum) of |input - target|, both of the same size."""

    def forward(self, input, target):
        self._check_target(target)
        return F.l1_loss(input, target, self.size_average)


class MSELoss(_Loss):
    """Mean (or sum) of (input - target)^2, both of the same size."""

    def forward(self, input, target):
        self._check_target(target)
        return F.mse_loss(input, target, self.size_average)


class NLLLoss(_ClassLoss):
    """Negative log likelihood of classes under log-probabilities; see `functional.nll_loss` for sizes.

    `weight`: a tensor (C) of weights of the classes. Targets equal to `ignore_index` don't count.
    """

    def forward(self, input, target):
        self._check_target(target)
        return F.nll_loss(input, target, self.weight, self.size_average, self.ignore_index)


class CrossEntropyLoss(_ClassLoss):
    """Negative log likelihood of classes under the softmax of scores `input`; see `functional.nll_loss` for sizes.

    `weight`: a tensor (C) of weights of the classes. Targets equal to `ignore_index` don't count.
    """

    def forward(self, input, target):
        self._check_target(target)
        return F.cross_entropy(input, target, self.weight, self.size_average, self.ignore_index)


class BCELoss(_WeightedLoss):
    """Mean (or sum) of -(t log(x) + (1 - t) log(1 - x)) for probabilities and targets in [0, 1] of one size.

    `weight`: a tensor that broadcasts to the input and weighs its elements.
    """

    def forward(self, input, target):
        self._check_target(target)
        return F.binary_cross_entropy(input, target, self.weight, self.size_average)


class BCEWithLogitsLoss(_WeightedLoss):
    """`BCELoss` of the sigmoid of the input, without overflow."""

    def forward(self, input, target):
        self._check_target(target)
        return F.binary_cross_entropy_with_logits(input, target, self.weight, self.size_average)
