"""torchlite: a small, exact autograd over NumPy and CuPy memory."""

import importlib as _importlib
from typing import Any as _Any

from . import (
    _C,
    _ops,  # noqa: F401  (declares rows of the op table)
    tensor,  # noqa: F401  (adds the tensors' Python methods)
)
from ._C import (  # noqa: F401
    ByteStorage,
    ByteTensor,
    CharStorage,
    CharTensor,
    DoubleStorage,
    DoubleTensor,
    FloatStorage,
    FloatTensor,
    Generator,
    HalfStorage,
    HalfTensor,
    IntStorage,
    IntTensor,
    LongStorage,
    LongTensor,
    ShortStorage,
    ShortTensor,
    Size,
    _storage_classes,
    _tensor_classes,
    chunk,
    from_dlpack,
    from_numpy,
    get_num_threads,
    set_num_threads,
    split,
    unbind,
)
from .autograd import (  # noqa: F401
    Function,
    Variable,
    enable_grad,
    is_grad_enabled,
    no_grad,
    set_grad_enabled,
)
from .tensor import set_printoptions  # noqa: F401  (the import adds the tensors' Python methods)
from .version import __version__  # noqa: F401

Tensor, Storage = FloatTensor, FloatStorage  # see set_default_tensor_type

_ops.export(__name__)

# Loaded when first used, so that importing the package costs little more than importing NumPy.
_LAZY = {
    "nn", "optim", "utils", "jit", "cuda", "autograd", "serialization", "random", "compat", "sparse", "backends",
    "multiprocessing", "distributed", "_six", "_utils", "functional", "_thnn",
}
_LAZY_NAMES = {
    "_factories": (
        "arange", "eye", "full", "linspace", "logspace", "ones", "ones_like", "rand", "randn", "randperm", "range",
        "set_default_tensor_type", "zeros", "zeros_like",
    ),
    "serialization": ("load", "save"),
    "random": ("default_generator", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"),
    "utils.typename": ("typename",),
    "_ops.factors": ("btriunpack",),
    "_ops.sampling": ("bernoulli", "multinomial", "normal"),
    "_utils": ("FatalError", "_import_dotted_name"),
    "functional": ("equal", "numel"),
}


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return _importlib.import_module(f"{__name__}.{name}")
    for module, names in _LAZY_NAMES.items():
        if name in names:
            found = getattr(_importlib.import_module(f"{__name__}.{module}"), name)
            globals()[name] = found  # so that the next look-up costs nothing
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *(name for names in _LAZY_NAMES.values() for name in names)})


def get_include() -> str:
    """The folder of the header ``torchlite.h`` for C extensions."""
    import os

    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "include")


def is_tensor(obj: _Any) -> bool:
    """Whether ``obj`` is a tensor (not a Variable)."""
    return isinstance(obj, _C._TensorBase)


def is_storage(obj: _Any) -> bool:
    """Whether ``obj`` is a storage."""
    return isinstance(obj, _C._StorageBase)


# `from torchlite import *` gives classes and functions, also those that are loaded when first used, and no modules.
__all__ = sorted(
    {name for name, value in globals().items() if not name.startswith("_") and not isinstance(value, type(_C))}.union(
        *_LAZY_NAMES.values()
    ) - {"_import_dotted_name"}
)  # noqa: PLE0605
