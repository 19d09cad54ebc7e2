"""Things with a length and items."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from typing import Any

__all__ = ["ConcatDataset", "Dataset", "TensorDataset"]


class Dataset:
    """Base of datasets: override ``__getitem__(index)`` and ``__len__()``."""

    def __getitem__(self, index: int) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __getitem__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")


class TensorDataset(Dataset):
    """Pairs ``(data_tensor[i], target_tensor[i])``.

    Raises:
        AssertionError: if the tensors have different first sizes.
    """

    def __init__(self, data_tensor: Any, target_tensor: Any):
        assert data_tensor.size(0) == target_tensor.size(0), (
            f"TensorDataset: data_tensor has {data_tensor.size(0)} items, but target_tensor has {target_tensor.size(0)}"
        )
        self.data_tensor = data_tensor
        self.target_tensor = target_tensor

    def __getitem__(self, index: int) -> tuple:
        return self.data_tensor[index], self.target_tensor[index]

    def __len__(self) -> int:
        return self.data_tensor.size(0)


class ConcatDataset(Dataset):
    """The items of several datasets, one after the other.

    Raises:
        AssertionError: if there are no datasets.
    """

    def __init__(self, datasets: Iterable[Any]):
        self.datasets = list(datasets)
        assert self.datasets, "ConcatDataset: datasets should not be an empty iterable"
        self.cumulative_sizes = list(itertools.accumulate(len(d) for d in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        n = len(self)
        if not -n <= index < n:
            raise IndexError(f"ConcatDataset: index {index} is out of range for {n} items")
        index %= n
        which = bisect.bisect_right(self.cumulative_sizes, index)
        start = self.cumulative_sizes[which - 1] if which else 0
        return self.datasets[which][index - start]
