"""Programs written for the PyTorch of June 2017, run by torchlite: :func:`install_as_torch` and
``python -m torchlite run script.py``."""

from .install import install_as_torch

__all__ = ["install_as_torch"]
