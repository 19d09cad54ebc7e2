"""The package under the name ``torch``.

Every module of torchlite keeps its one entry ``torchlite.x`` in ``sys.modules``; ``torch.x`` is a second entry of the
same module object, made when it is first asked for. Nothing is executed twice, so classes and states exist once.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torchlite

from . import former_names

__all__ = ["install_as_torch"]

OURS, THEIRS = torchlite.__name__, "torch"


class _Keeper(ModuleType):
    """Stands in ``sys.modules`` for a package while the import system binds a module to its name in it.

    A package may have given that name to something else (``autograd.gradcheck`` is a function), which stays. The
    binding is the one assignment that a keeper sees; then the package is back in its place.
    """

    def __init__(self, name: str, package: ModuleType):
        super().__init__(name)
        self.__dict__["_package"] = package

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_package"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        sys.modules[self.__name__] = self.__dict__["_package"]


class _Alias(importlib.machinery.SourceFileLoader):
    """Loads ``torch.x`` by handing out ``torchlite.x``.

    A file loader, so that what asks a spec for its source (tracebacks, ``inspect``) finds it.
    """

    def __init__(self, name: str, path: str, module: ModuleType):
        super().__init__(name, path)
        self._module = module

    def create_module(self, spec: Any) -> ModuleType:
        self._own_spec = self._module.__spec__
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has just given the module the alias's spec; the name it imports itself by is its own.
        module.__spec__ = self._own_spec
        parent, _, child = self.name.rpartition(".")
        package = sys.modules[parent]
        if vars(package).get(child, module) is not module:
            sys.modules[parent] = _Keeper(parent, package)


class _Finder:
    """Answers for every module of torchlite under its name in ``torch``, before anyone searches the package's path and
    finds the same file a second time."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if not name.startswith(THEIRS + "."):
            return None
        own = OURS + name[len(THEIRS):]
        parent = name.rpartition(".")[0]
        if sys.modules.get(parent) is not sys.modules.get(OURS + parent[len(THEIRS):]):
            return None  # below a package of someone else's, put in the place of one of ours
        try:
            module = importlib.import_module(own)
        except ModuleNotFoundError as e:
            if e.name != own:
                raise  # the module is there, but something that it imports isn't
            return None
        origin = getattr(module, "__file__", None)
        loader = _Alias(name, origin or "", module)
        return importlib.machinery.ModuleSpec(name, loader, origin=origin, is_package=hasattr(module, "__path__"))


def _foreign_torch() -> ModuleType | None:
    """A module ``torch`` in this process that isn't torchlite."""
    module = sys.modules.get(THEIRS)
    return module if module is not None and module is not torchlite else None


def install_as_torch() -> None:
    """Makes ``import torch`` and ``import torch.x`` give torchlite, for the rest of the process.

    The classes of tensors and storages and ``Size`` take the name: ``torch.FloatTensor().type()`` is
    ``'torch.FloatTensor'``. Names that programs of 2017 use and that Python or NumPy have dropped since
    (``collections.Iterable``, ``numpy.float``) are restored. A repeated call does nothing.

    Raises:
        RuntimeError: if a PyTorch is imported already.
    """
    other = _foreign_torch()
    if other is not None:
        where = getattr(other, "__file__", None) or "no file"
        raise RuntimeError(
            f"install_as_torch: another package named 'torch' is imported already ({where}); "
            "call install_as_torch() before anything imports it, or use 'import torchlite as torch'"
        )
    if THEIRS in sys.modules:
        return
    former_names.restore()
    torchlite._C._set_package_name(THEIRS)
    sparse = sys.modules.get(OURS + ".sparse")
    for cls in sparse.tensor.CLASSES.values() if sparse else ():
        cls.__module__ = THEIRS + cls.__module__[len(OURS):]
    sys.meta_path.insert(0, _Finder())  # type: ignore[arg-type]
    # What lies deeper is found when it is asked for, unless another package has taken the place of its parent by then.
    for name, module in list(sys.modules.items()):
        if name == OURS or (name.startswith(OURS + ".") and name.count(".") == 1):
            sys.modules[THEIRS + name[len(OURS):]] = module
