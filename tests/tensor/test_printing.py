"""How tensors are printed."""

import numpy as np
import pytest

import torchlite
from torchlite import DoubleTensor, FloatTensor, LongTensor


@pytest.fixture(autouse=True)
def default_options():
    yield
    torchlite.set_printoptions(profile="default")


@pytest.mark.parametrize("t, text", [
    (lambda: FloatTensor([[1, 2], [3, 40]]), "\n  1   2\n  3  40\n[torchlite.FloatTensor of size 2x2]"),
    (lambda: FloatTensor([1.5, -2]), "\n  1.5000\n -2.0000\n[torchlite.FloatTensor of size 2]"),
    (lambda: LongTensor([-1, 100]), "\n  -1\n 100\n[torchlite.LongTensor of size 2]"),
    (lambda: FloatTensor(), "[torchlite.FloatTensor with no dimension]"),
    (lambda: FloatTensor(0, 3), "[torchlite.FloatTensor of size 0x3]"),
    (lambda: torchlite.from_numpy(np.array(2.5)), "\n 2.5000\n[torchlite.DoubleTensor of size ()]"),
    (lambda: DoubleTensor([1e-9, 1]), "\n 1.0000e-09\n 1.0000e+00\n[torchlite.DoubleTensor of size 2]"),
    (lambda: FloatTensor([float("nan"), float("inf")]), "\n nan\n inf\n[torchlite.FloatTensor of size 2]"),
    (lambda: FloatTensor([[[1, 2]], [[3, 4]]]),
     "\n(0 ,.,.) = \n  1  2\n\n(1 ,.,.) = \n  3  4\n[torchlite.FloatTensor of size 2x1x2]"),
])
def test_text(t, text):
    assert repr(t()) == str(t()) == text


def test_wide_matrices_are_split_into_blocks_of_columns():
    lines = repr(LongTensor([list(range(100, 130))])).splitlines()
    assert lines[1] == "Columns 0 to 14 " and "Columns 15 to 29 " in lines and max(map(len, lines)) <= 80


@pytest.mark.parametrize("shape", [(2**33,), (2**16, 2**17), (2**11, 2**11, 2**11), (1,) * 5 + (2**33,)])
def test_a_huge_virtual_tensor_prints_its_edges(shape):
    t = torchlite.from_numpy(np.broadcast_to(np.float32(1), shape))
    text = repr(t)
    assert len(text) < 5000 and text.endswith("[torchlite.FloatTensor of size " + "x".join(map(str, shape)) + "]")
    assert "⋮" in text or "..." in text


def test_summaries_show_the_positions_of_what_they_show():
    text = repr(torchlite.from_numpy(np.zeros((20, 10, 10))))
    assert "(0 ,.,.)" in text and "(19,.,.)" in text and "(3 ,.,.)" not in text


def test_options():
    torchlite.set_printoptions(precision=2)
    assert "1.50\n" in repr(FloatTensor([1.5]))
    torchlite.set_printoptions(threshold=2, edgeitems=1)
    assert repr(LongTensor([1, 2, 3])).splitlines()[1:4] == [" 1", " ⋮", " 3"]
    torchlite.set_printoptions(profile="full")
    assert len(repr(LongTensor(2000).zero_()).splitlines()) == 2002
    with pytest.raises(ValueError, match="profile must be one of"):
        torchlite.set_printoptions(profile="none")


def test_a_0d_tensor_takes_a_number_format():
    assert f"{torchlite.from_numpy(np.array(1.5)):.3f}" == "1.500"
    assert f"{FloatTensor([1])}" == str(FloatTensor([1]))


def test_a_subclass_prints_its_own_name():
    class Mine(FloatTensor):
        pass

    assert repr(Mine([1])).endswith(f"[{__name__}.Mine of size 1]")
