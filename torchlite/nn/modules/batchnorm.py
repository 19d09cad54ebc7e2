"""Batch normalisation."""

import torchlite
from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module
from torchlite.nn.parameter import Parameter

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d"]


class _BatchNorm(Module):
    """`functional.batch_norm` with its statistics and parameters; `_ndims` are the dimensions that it takes."""

    _ndims: tuple[int, ...]

    def __init__(self, num_features, eps=1e-5, momentum=0.1, affine=True):
        super().__init__()
        self.num_features = num_features
        self.affine = affine
        self.eps = eps
        self.momentum = momentum
        self.register_parameter("weight", Parameter(torchlite.Tensor(num_features)) if affine else None)
        self.register_parameter("bias", Parameter(torchlite.Tensor(num_features)) if affine else None)
        self.register_buffer("running_mean", torchlite.zeros(num_features))
        self.register_buffer("running_var", torchlite.ones(num_features))
        self.reset_parameters()

    def reset_parameters(self):
        """Forgets the statistics and draws new initial values."""
        self.running_mean.zero_()
        self.running_var.fill_(1)
        if self.affine:
            self.weight.data.uniform_()
            self.bias.data.zero_()

    def forward(self, input):
        if input.dim() not in self._ndims:
            expected = " or ".join(f"{n}D" for n in self._ndims)
            raise ValueError(f"expected {expected} input (got {input.dim()}D input)")
        return F.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, self.training, self.momentum, self.eps
        )

    def __repr__(self):
        return (
            f"{type(self).__name__}({self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine})"
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalisation (https://arxiv.org/abs/1502.03167) of (N, num_features) or (N, num_features, L).

    In training each channel is normalised by its mean and variance in the batch, else by the buffers `running_mean` and
    `running_var` (num_features,), into which training mixes those with the weight `momentum`. With `affine`, the result
    is scaled by `weight` and shifted by `bias` (num_features,), which start uniform in [0, 1) and 0.

    ValueError for an input with other dimensions, or with one value a channel in training.
    """

    _ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation of (N, num_features, H, W). See `BatchNorm1d`."""

    _ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation of (N, num_features, D, H, W). See `BatchNorm1d`."""

    _ndims = (5,)
