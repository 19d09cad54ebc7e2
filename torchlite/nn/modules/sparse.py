"""Embedding."""

import torchlite
from torchlite import _C
from torchlite.nn.modules.module import Module
from torchlite.nn.parameter import Parameter

__all__ = ["Embedding"]

_embedding = _C._find_op("embedding")


class Embedding(Module):
    """A table of `num_embeddings` vectors of size `embedding_dim`; looks up the rows that integers name.

    Input: a LongTensor Variable of any size; output: that size x embedding_dim. `weight` (num_embeddings,
    embedding_dim) starts normal(0, 1). The row `padding_idx` starts at zero and gets no gradient. With `max_norm`, rows
    that are used are first scaled in place to have at most this `norm_type`-norm. `scale_grad_by_freq` divides a row's
    gradient by how often it was used in the input; `sparse` makes the gradient of `weight` sparse.
    """

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx=None,
        max_norm=None,
        norm_type=2,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        super().__init__()
        if padding_idx is not None:
            if not -num_embeddings <= padding_idx < num_embeddings:
                raise ValueError(
                    f"Embedding: padding_idx has to be within num_embeddings, but is {padding_idx} "
                    f"for num_embeddings {num_embeddings}"
                )
            padding_idx %= num_embeddings
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = padding_idx
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self.weight = Parameter(torchlite.Tensor(num_embeddings, embedding_dim))
        self.reset_parameters()

    def reset_parameters(self):
        """Draws new initial values."""
        self.weight.data.normal_(0, 1)
        if self.padding_idx is not None:
            self.weight.data[self.padding_idx] = 0

    def forward(self, input):
        return _embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def __repr__(self):
        options = [f"{self.num_embeddings}, {self.embedding_dim}"]
        if self.padding_idx is not None:
            options.append(f"padding_idx={self.padding_idx}")
        if self.max_norm is not None:
            options.append(f"max_norm={self.max_norm}")
        if self.norm_type != 2:
            options.append(f"norm_type={self.norm_type}")
        if self.scale_grad_by_freq:
            options.append("scale_grad_by_freq=True")
        if self.sparse:
            options.append("sparse=True")
        return f"{type(self).__name__}({', '.join(options)})"
