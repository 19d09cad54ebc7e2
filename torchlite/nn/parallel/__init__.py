"""Modules run on several devices at once."""

from torchlite.nn.parallel.data_parallel import DataParallel, data_parallel
from torchlite.nn.parallel.parallel_apply import parallel_apply
from torchlite.nn.parallel.replicate import replicate
from torchlite.nn.parallel.scatter_gather import gather, scatter, scatter_kwargs

__all__ = ["DataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]
