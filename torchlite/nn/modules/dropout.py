"""Dropout."""

from torchlite.nn import functional as F
from torchlite.nn.modules.module import Module

__all__ = ["Dropout"]


class Dropout(Module):
    """While training, zeroes each element with probability `p` and scales the others by 1 / (1 - p).

    In evaluation the input passes unchanged. `inplace` writes into the input. ValueError if `p` is not between 0 and 1.
    Source: https://arxiv.org/abs/1207.0580
    """

    def __init__(self, p=0.5, inplace=False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input):
        return F.dropout(input, self.p, self.training, self.inplace)

    def __repr__(self):
        return f"{type(self).__name__} (p = {self.p}{', inplace' if self.inplace else ''})"
