"""DataLoader: batches of a dataset, made here or by worker processes."""

from __future__ import annotations

import multiprocessing
import queue
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import torchlite

from ... import _C
from .sampler import BatchSampler, RandomSampler, SequentialSampler

__all__ = ["DataLoader", "default_collate"]

_CHECK_SECONDS = 5.0  # how often a loop that waits for a batch looks whether the workers are alive


def default_collate(batch: Sequence[Any]) -> Any:
    """One object out of the items of a batch.

    Tensors and arrays of one size are stacked along a new first dimension; ints become a LongTensor, floats a
    DoubleTensor, NumPy scalars a tensor of their type; strings stay a list; mappings and sequences are collated key by
    key and place by place.

    Raises:
        TypeError: for items of any other type.
    """
    first = batch[0]
    if isinstance(first, _C._TensorBase):
        return torchlite.stack(list(batch), 0)
    if isinstance(first, np.ndarray):
        return torchlite.stack([torchlite.from_numpy(item) for item in batch], 0)
    if isinstance(first, (np.generic, bool)) and not isinstance(first, (str, bytes)):
        return torchlite.from_numpy(np.array(batch))
    if isinstance(first, int):
        return torchlite.LongTensor(list(batch))
    if isinstance(first, float):
        return torchlite.DoubleTensor(list(batch))
    if isinstance(first, (str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: default_collate([item[key] for item in batch]) for key in first}
    if isinstance(first, Sequence):
        return [default_collate(items) for items in zip(*batch, strict=True)]
    raise TypeError(f"batch must contain tensors, numbers, dicts or lists; found {type(first)}")


def _pinned(batch: Any) -> Any:
    """A batch with its tensors in page-locked memory."""
    if isinstance(batch, _C._TensorBase):
        return batch.pin_memory()
    if isinstance(batch, Mapping):
        return {key: _pinned(item) for key, item in batch.items()}
    if isinstance(batch, Sequence) and not isinstance(batch, (str, bytes)):
        return [_pinned(item) for item in batch]
    return batch


class _Failure:
    """An exception of a worker on its way to the loop."""

    def __init__(self, error: BaseException):
        self.kind = type(error)
        self.text = traceback.format_exc()

    def reraise(self) -> None:
        try:
            error = self.kind(self.text)
        except Exception:
            error = RuntimeError(f"{self.kind.__name__} in a worker of DataLoader:\n{self.text}")
        raise error


def _work(dataset: Any, collate: Callable, tasks: Any, results: Any, seed: int) -> None:
    """The loop of a worker: (number, indices) in, (number, batch) out, until it gets None."""
    torchlite.manual_seed(seed)
    np.random.seed(seed % 2**32)
    while (task := tasks.get()) is not None:
        number, indices = task
        try:
            batch = collate([dataset[i] for i in indices])
        except Exception as error:
            batch = _Failure(error)
        results.put((number, batch))


class _Workers:
    """Processes, and the queues to and from them."""

    def __init__(self, loader: DataLoader):
        context = multiprocessing.get_context()
        self.tasks, self.results = context.SimpleQueue(), context.Queue()
        base = int(torchlite.LongTensor(1).random_()[0])
        arguments = (loader.dataset, loader.collate_fn, self.tasks, self.results)
        self.processes = [
            context.Process(target=_work, args=(*arguments, base + i), daemon=True) for i in range(loader.num_workers)
        ]
        for process in self.processes:
            process.start()

    def get(self) -> Any:
        while True:
            try:
                return self.results.get(timeout=_CHECK_SECONDS)
            except queue.Empty:
                for process in self.processes:
                    if not process.is_alive():
                        raise RuntimeError(
                            f"DataLoader: worker {process.pid} ended with exit code {process.exitcode}"
                        ) from None

    def stop(self) -> None:
        for _ in self.processes:
            self.tasks.put(None)
        for process in self.processes:
            process.join(_CHECK_SECONDS)
            if process.is_alive():
                process.terminate()
                process.join()
        self.results.close()
        self.results.cancel_join_thread()
        self.tasks.close()


class DataLoaderIter:
    """One pass over the batches."""

    def __init__(self, loader: DataLoader):
        self._loader = loader
        self._batches: Iterator = iter(loader.batch_sampler)
        self._pin = loader.pin_memory and torchlite.cuda.is_available()
        self.workers: list[Any] = []
        if not loader.num_workers:
            return
        self._shared = _Workers(loader)
        self.workers = self._shared.processes
        self._stop = weakref.finalize(self, self._shared.stop)
        self._asked = self._given = 0
        self._early: dict[int, Any] = {}  # batches that came before their turn
        for _ in range(2 * loader.num_workers):
            self._ask()

    def _ask(self) -> None:
        indices = next(self._batches, None)
        if indices is not None:
            self._shared.tasks.put((self._asked, indices))
            self._asked += 1

    def __iter__(self) -> DataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self._loader.batch_sampler)

    def __next__(self) -> Any:
        if not self.workers:
            indices = next(self._batches)
            batch = self._loader.collate_fn([self._loader.dataset[i] for i in indices])
        else:
            if self._given == self._asked or not self._stop.alive:
                self._stop()
                raise StopIteration
            while self._given not in self._early:
                number, result = self._shared.get()
                self._early[number] = result
            batch = self._early.pop(self._given)
            self._given += 1
            self._ask()
            if isinstance(batch, _Failure):
                batch.reraise()
        return _pinned(batch) if self._pin else batch


class DataLoader:
    """Iterates over batches of a dataset.

    Args:
        dataset: anything with ``len()`` and ``[index]``.
        batch_size: items a batch (1).
        shuffle: whether the order is drawn anew for each pass.
        sampler: an iterable of indices, in place of ``shuffle``.
        batch_sampler: an iterable of lists of indices, in place of the three above and ``drop_last``.
        num_workers: processes that make the batches; 0 means this one.
        collate_fn: makes a batch out of a list of items.
        pin_memory: whether batches go to page-locked memory, where there is CUDA.
        drop_last: leaves out a last batch that isn't full.

    Raises:
        ValueError: for arguments that exclude each other, or a negative ``num_workers``.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable = default_collate,
        pin_memory: bool = False,
        drop_last: bool = False,
    ):
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: batch_sampler excludes batch_size, shuffle, sampler and drop_last, but got "
                f"batch_size={batch_size}, shuffle={shuffle}, sampler={sampler}, drop_last={drop_last}"
            )
        if sampler is not None and shuffle:
            raise ValueError(f"DataLoader: sampler excludes shuffle, but got sampler={sampler}, shuffle={shuffle}")
        if num_workers < 0:
            raise ValueError(f"DataLoader: num_workers must not be negative, but got {num_workers}")
        self.dataset = dataset
        self.batch_size = batch_size
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        if batch_sampler is None:
            if sampler is None:
                sampler = RandomSampler(dataset) if shuffle else SequentialSampler(dataset)
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler = sampler
        self.batch_sampler = batch_sampler

    def __iter__(self) -> DataLoaderIter:
        return DataLoaderIter(self)

    def __len__(self) -> int:
        return len(self.batch_sampler)
