"""Operations that only gradients use refuse arguments that make no sense: an edited program may hold any."""

import numpy as np
import pytest

import torchlite
from torchlite import _C


def tensor(*shape, dtype=np.float64):
    return torchlite.from_numpy(np.ones(shape, dtype))


def index(*shape, value=0):
    return torchlite.from_numpy(np.full(shape, value))


CALLS = {
    "put_along: index of another type": ("put_along", tensor(1, 3), tensor(1, 3), 0, 2),
    "put_along: index out of range": ("put_along", tensor(1, 3), index(1, 3, value=2), 0, 2),
    "put_along: negative index": ("put_along", tensor(1, 3), index(1, 3, value=-1), 0, 2),
    "put_along: index of another size": ("put_along", tensor(1, 3), index(1, 2), 0, 2),
    "put_along: negative size": ("put_along", tensor(1, 3), index(1, 3), 0, -2),
    "put_along: self with several slices": ("put_along", tensor(2, 3), index(2, 3), 0, 2),
    "put_along: 0-d": ("put_along", tensor(), index(), 0, 2),
    "take_along: index of another type": ("take_along", tensor(2, 3), tensor(1, 3), 0),
    "take_along: index out of range": ("take_along", tensor(2, 3), index(1, 3, value=2), 0),
    "take_along: index of another size": ("take_along", tensor(2, 3), index(3), 0),
    "take_along: 0-d": ("take_along", tensor(), index(), 0),
    "narrow_backward: 0-d": ("narrow_backward", tensor(), (6,), 0, 0),
    "narrow_backward: beyond the end": ("narrow_backward", tensor(3), (4,), 0, 2),
    "narrow_backward: other dimensions": ("narrow_backward", tensor(3), (4, 3), 0, 0),
    "select_backward: negative size": ("select_backward", tensor(3), (-1, 2), 0, 0),
    "select_backward: index out of range": ("select_backward", tensor(3), (2, 3), 0, 2**62),
    "diag_backward: negative size": ("diag_backward", tensor(3), (-1, 2), 0),
    "unfold_backward: negative size": ("unfold_backward", tensor(3), (-1,), 0, 2, 1),
    "index_backward: negative size": ("index_backward", tensor(3), (-1, 2), ("@0",), [index(3)]),
    "index_backward: missing index": ("index_backward", tensor(3), (3, 2), ("@1", 0), [index(3)]),
    "prod_backward: 0-d": ("prod_backward", tensor(1), tensor(), -1),
    "embedding_backward: other number of rows": ("embedding_backward", tensor(2, 3), index(4), 5, None, False),
    "embedding_backward: negative rows": ("embedding_backward", tensor(2, 3), index(2), -5, None, False),
    "embedding_backward: 0-d": ("embedding_backward", tensor(), index(1), 5, None, False),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_arguments_that_make_no_sense_are_refused(call):
    name, *arguments = call
    with pytest.raises((RuntimeError, IndexError, ValueError, TypeError)):
        _C._find_op(name)(*arguments)


@pytest.mark.parametrize("argument", [None, 1, "text", ()], ids=repr)
def test_a_constant_in_place_of_a_tensor_is_refused(argument):
    with pytest.raises(TypeError):
        _C._find_op("take_along")(tensor(2), argument, 0)
