"""Datasets, samplers and loaders."""

import gc

import numpy as np
import pytest

import torchlite
from torchlite.utils.data import ConcatDataset, DataLoader, Dataset, TensorDataset, default_collate
from torchlite.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

DATA = torchlite.from_numpy(np.arange(40.0).reshape(20, 2))
LABELS = torchlite.LongTensor(list(range(20)))


def rows(batches):
    return [row for batch in batches for row in batch.tolist()]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size, drop, sizes", [(1, False, [1] * 20), (6, False, [6, 6, 6, 2]), (6, True, [6, 6, 6])])
def test_batches_come_in_order(workers, size, drop, sizes):
    loader = DataLoader(TensorDataset(DATA, LABELS), batch_size=size, drop_last=drop, num_workers=workers)
    batches = list(loader)
    assert len(loader) == len(batches) == len(sizes)
    assert [tuple(x.size()) for x, _ in batches] == [(n, 2) for n in sizes]
    assert rows(x for x, _ in batches) == DATA.tolist()[: sum(sizes)]
    assert rows(y for _, y in batches) == list(range(sum(sizes)))
    assert all(type(y) is torchlite.LongTensor for _, y in batches)


@pytest.mark.parametrize("workers", [0, 3])
def test_shuffled_batches_hold_every_item_once_and_differ(workers):
    torchlite.manual_seed(0)
    loader = DataLoader(TensorDataset(DATA, LABELS), batch_size=3, shuffle=True, num_workers=workers)
    first, second = (rows(y for _, y in loader) for _ in range(2))
    assert sorted(first) == sorted(second) == list(range(20)) and first != second


def test_a_tensor_is_a_dataset():
    assert rows(DataLoader(DATA, batch_size=8)) == DATA.tolist()


def test_a_sampler_or_batch_sampler_decides():
    assert rows(DataLoader(LABELS, sampler=[3, 1, 2], batch_size=2)) == [3, 1, 2]
    batches = list(DataLoader(LABELS, batch_sampler=[[5, 4], [7]]))
    assert [b.tolist() for b in batches] == [[5, 4], [7]]


class Errors(Dataset):
    """Every third item can't be read."""

    def __len__(self):
        return 9

    def __getitem__(self, index):
        if index % 3 == 2:
            raise NotImplementedError(f"item {index}")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_is_raised_with_its_type_and_the_loop_can_go_on(workers):
    iterator, seen, errors = iter(DataLoader(Errors(), num_workers=workers)), [], 0
    while True:
        try:
            seen += next(iterator).tolist()
        except NotImplementedError as e:
            assert "item" in str(e)
            errors += 1
        except StopIteration:
            break
    assert seen == [0, 1, 3, 4, 6, 7] and errors == 3


class Awkward(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


class Awkwards(Errors):
    def __getitem__(self, index):
        raise Awkward(1, 2)


def test_an_error_that_takes_other_arguments_is_a_runtime_error_with_its_name():
    with pytest.raises(RuntimeError, match="(?s)Awkward in a worker.*__getitem__"):
        next(iter(DataLoader(Awkwards(), num_workers=1)))


@pytest.mark.parametrize("finish", ["break", "exhaust"])
def test_workers_end_with_their_loop(finish):
    iterator = iter(DataLoader(LABELS, num_workers=2))
    workers = iterator.workers
    for i, _ in enumerate(iterator):
        if finish == "break" and i == 3:
            break
    del iterator
    gc.collect()
    assert [w.is_alive() for w in workers] == [False, False]


class Noise(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torchlite.rand(8)


def test_workers_draw_different_numbers():
    torchlite.manual_seed(1)
    a, b = DataLoader(Noise(), batch_sampler=[[0], [1]], num_workers=2)
    assert a.tolist() != b.tolist()


COLLATED = {
    "tensors": ([torchlite.IntTensor([1, 2]), torchlite.IntTensor([3, 4])], torchlite.IntTensor([[1, 2], [3, 4]])),
    "ints": ([1, 2], torchlite.LongTensor([1, 2])),
    "floats": ([1.5, 2.0], torchlite.DoubleTensor([1.5, 2])),
    "bools": ([True, False], torchlite.ByteTensor([1, 0])),
    "arrays": ([np.array([1, 2], np.int16)] * 2, torchlite.ShortTensor([[1, 2], [1, 2]])),
    "float32 scalars": ([np.float32(1), np.float32(2)], torchlite.FloatTensor([1, 2])),
    "uint8 scalars": ([np.uint8(1), np.uint8(2)], torchlite.ByteTensor([1, 2])),
    "float64 scalars": ([np.float64(1), np.float64(2)], torchlite.DoubleTensor([1, 2])),
}


@pytest.mark.parametrize("name", COLLATED)
def test_collated_items(name):
    batch, expected = COLLATED[name]
    result = default_collate(batch)
    assert type(result) is type(expected) and result.tolist() == expected.tolist()


def test_collated_containers():
    result = default_collate([{"a": 1, "b": ("x", 2.0)}, {"a": 3, "b": ("y", 4.0)}])
    assert result["a"].tolist() == [1, 3] and list(result["b"][0]) == ["x", "y"] and result["b"][1].tolist() == [2, 4]
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]


def test_what_cannot_be_collated_is_named():
    with pytest.raises(TypeError, match="batch must contain tensors, numbers, dicts or lists; found <class 'object'>"):
        default_collate([object()])


def test_concatenated_datasets():
    joined = ConcatDataset([[1, 2], [], [3], (4, 5)])
    assert len(joined) == 5 and [joined[i] for i in range(-5, 5)] == [1, 2, 3, 4, 5] * 2
    with pytest.raises(IndexError, match="index 5 is out of range for 5 items"):
        joined[5]
    with pytest.raises(AssertionError, match="empty iterable"):
        ConcatDataset([])


def test_tensor_dataset_needs_equal_lengths():
    with pytest.raises(AssertionError, match="20 items.*3"):
        TensorDataset(DATA, LABELS[:3])


@pytest.mark.parametrize("cls, method", [(Dataset, "__getitem__"), (Dataset, "__len__"), (Sampler, "__iter__")])
def test_bases_ask_for_their_methods(cls, method):
    with pytest.raises(NotImplementedError, match=method):
        getattr(cls() if cls is Dataset else cls(None), method)(*([0] if method == "__getitem__" else []))


def test_samplers():
    torchlite.manual_seed(0)
    assert list(SequentialSampler([7, 8, 9])) == [0, 1, 2]
    drawn = RandomSampler(range(50))
    assert sorted(drawn) == list(range(50)) != list(drawn) and len(drawn) == 50 and list(RandomSampler([])) == []
    subset = SubsetRandomSampler([4, 9, 2])
    assert sorted(subset) == [2, 4, 9] and len(subset) == 3
    batches = BatchSampler(SequentialSampler(range(5)), 2, False)
    assert list(batches) == [[0, 1], [2, 3], [4]] and len(batches) == 3
    batches = BatchSampler(SequentialSampler(range(5)), 2, True)
    assert list(batches) == [[0, 1], [2, 3]] and len(batches) == 2


def test_weighted_sampler_follows_its_weights():
    torchlite.manual_seed(0)
    sampler = WeightedRandomSampler([1, 0, 3], 4000)
    counts = np.bincount(list(sampler), minlength=3)
    assert len(sampler) == counts.sum() == 4000 and counts[1] == 0 and 2.5 < counts[2] / counts[0] < 3.5
    assert sorted(WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]


@pytest.mark.parametrize("arguments, text", [
    (dict(batch_sampler=[[0]], batch_size=2), "batch_sampler excludes .*batch_size=2"),
    (dict(batch_sampler=[[0]], drop_last=True), "batch_sampler excludes .*drop_last=True"),
    (dict(sampler=[0], shuffle=True), "sampler excludes shuffle"),
    (dict(num_workers=-1), "num_workers must not be negative, but got -1"),
    (dict(batch_size=0), "batch_size must be a positive int, but got 0"),
    (dict(drop_last=1), "drop_last must be a bool, but got 1"),
])  # fmt: skip
def test_arguments_that_do_not_go_together(arguments, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(LABELS, **arguments)
