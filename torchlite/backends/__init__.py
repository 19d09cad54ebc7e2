"""Libraries that computations may be handed to. There is only the name of one: see :mod:`torchlite.backends.cudnn`."""

from . import cudnn

__all__ = ["cudnn"]
