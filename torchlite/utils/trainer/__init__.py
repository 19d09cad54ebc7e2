"""A loop of training that plugins take part in."""

from . import plugins
from .trainer import Trainer

__all__ = ["Trainer", "plugins"]
