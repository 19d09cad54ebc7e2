"""Optimisers: they update parameters from their gradients."""

from torchlite.optim.adam import Adam
from torchlite.optim.optimizer import Optimizer
from torchlite.optim.sgd import SGD

__all__ = ["Adam", "Optimizer", "SGD"]
