"""A package `torch` whose autograd is its own Python code on torchlite's extension; everything else is torchlite's."""

import importlib
import sys

import torchlite
from torchlite import _C

_SHARED = ("_C", "_six", "_utils", "sparse", "utils", "utils.hooks", "utils.backcompat", "backends", "backends.cudnn",
           "_thnn")  # fmt: skip

for _name in _SHARED:
    try:
        sys.modules[f"{__name__}.{_name}"] = importlib.import_module(f"torchlite.{_name}")
    except ModuleNotFoundError as _error:
        if _error.name != f"torchlite.{_name}":
            raise

_C._set_package_name(__name__)


def __getattr__(name):
    return getattr(torchlite, name)


from . import autograd  # noqa: E402, F401
