"""What training needs around modules: gradient clipping, and `rnn` for sequences of different lengths."""

from torchlite.nn.utils import rnn
from torchlite.nn.utils.clip_grad import clip_grad_norm

__all__ = ["clip_grad_norm", "rnn"]
