"""Orders in which the items of a dataset are read: iterables of indices that know their length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torchlite

__all__ = [
    "BatchSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler",
]  # fmt: skip


class Sampler:
    """Base of samplers: override ``__iter__()`` and ``__len__()``. ``data_source`` is the dataset."""

    def __init__(self, data_source: Any):
        pass

    def __iter__(self) -> Iterator:
        raise NotImplementedError(f"{type(self).__name__} must define __iter__")

    def __len__(self) -> int:
        raise NotImplementedError(f"{type(self).__name__} must define __len__")


class SequentialSampler(Sampler):
    """0, 1, 2, ..."""

    def __init__(self, data_source: Any):
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(SequentialSampler):
    """Every index once, in an order that is drawn anew each time."""

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        return iter(torchlite.randperm(n).tolist() if n else [])


class SubsetRandomSampler(Sampler):
    """The given indices, in an order that is drawn anew each time."""

    def __init__(self, indices: Sequence[int]):
        self.indices = indices

    def __iter__(self) -> Iterator[int]:
        n = len(self.indices)
        return (self.indices[i] for i in (torchlite.randperm(n).tolist() if n else []))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler):
    """``num_samples`` indices drawn with probabilities in proportion to ``weights``, with or without replacement.

    Without replacement there must be as many nonzero weights (RuntimeError when it is iterated).
    """

    def __init__(self, weights: Sequence[float], num_samples: int, replacement: bool = True):
        self.weights = torchlite.DoubleTensor(list(weights))
        self.num_samples = num_samples
        self.replacement = replacement

    def __iter__(self) -> Iterator[int]:
        weights: Any = self.weights
        return iter(weights.multinomial(self.num_samples, self.replacement).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler:
    """Lists of ``batch_size`` indices from ``sampler``; the last may be shorter, or is left out with ``drop_last``.

    Raises:
        ValueError: if ``batch_size`` isn't a positive int, or ``drop_last`` isn't a bool.
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool):
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"BatchSampler: batch_size must be a positive int, but got {batch_size!r}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"BatchSampler: drop_last must be a bool, but got {drop_last!r}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        batch: list[int] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)
