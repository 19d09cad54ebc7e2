"""What index, gather, scatter and mask operations say of arguments that do not fit; they then change nothing."""

import pytest

import torchlite
from torchlite import ByteTensor, DoubleTensor, FloatTensor, LongTensor, Variable

GRID = [[1, 2, 3], [4, 5, 6]]


def rows(*shape):
    return DoubleTensor(*shape).fill_(1)


CASES = {
    "index_select by a matrix": ("index_select", (0, LongTensor([[0, 1]])), "Index is supposed to be a vector"),
    "index_select beyond": ("index_select", (0, LongTensor([0, 2])),
                            "index out of range: got 2 for dimension 0 of size 2"),
    "index_select far before": ("index_select", (1, LongTensor([-4])), "index out of range: got -4 for dimension 1"),
    "index_select of no dimension": ("index_select", (2, LongTensor([0])), "dimension out of range"),
    "index_add by a matrix": ("index_add", (0, LongTensor([[0]]), rows(1, 3)), "Index is supposed to be a vector"),
    "index_add of too few": ("index_add", (0, LongTensor([0, 1]), rows(1, 3)),
                             r"Number of indices should be equal to source:size\(dim\), but got 2 indices and size 1"),
    "index_add of other rows": ("index_add", (0, LongTensor([0]), rows(1, 2)),
                                r"a source of size \(1, 2\) does not fit self of size \(2, 3\)"),
    "index_add beyond": ("index_add", (0, LongTensor([0, 5]), rows(2, 3)), "index out of range: got 5"),
    "index_copy by a matrix": ("index_copy", (1, LongTensor([[0]]), rows(2, 1)), "Index is supposed to be a vector"),
    "index_copy of too many": ("index_copy", (1, LongTensor([0]), rows(2, 2)),
                               r"Number of indices should be equal to source:size\(dim\), but got 1 indices and size"),
    "index_copy beyond": ("index_copy", (1, LongTensor([0, 3]), rows(2, 2)), "index out of range: got 3"),
    "index_fill by a matrix": ("index_fill", (0, LongTensor([[0]]), 7), "Index is supposed to be a vector"),
    "index_fill beyond": ("index_fill", (0, LongTensor([1, 2]), 7), "index out of range: got 2"),
    "gather of fewer dimensions": ("gather", (0, LongTensor([0])), "Invalid index in gather"),
    "gather of more rows": ("gather", (1, LongTensor([[0], [1], [2]])), "Invalid index in gather"),
    "gather beyond": ("gather", (1, LongTensor([[0], [3]])),
                      "Invalid index in gather: got 3 for dimension 1 of size 3"),
    "scatter of fewer dimensions": ("scatter", (0, LongTensor([0]), 7), "Invalid index in scatter"),
    "scatter beyond": ("scatter", (0, LongTensor([[1, 1, 2]]), 7), "Invalid index in scatter: got 2"),
    "scatter of another source": ("scatter", (0, LongTensor([[0, 1, 0]]), rows(1, 2)),
                                  r"the source of size \(1, 2\) must have the size of the index, \(1, 3\)"),
    "scatter_add of fewer dimensions": ("scatter_add", (0, LongTensor([0]), rows(1)), "Invalid index in scatter_add"),
    "scatter_add beyond": ("scatter_add", (0, LongTensor([[0, 1, -3]]), rows(1, 3)),
                           "Invalid index in scatter_add: got -3"),
    "masked_select of another size": ("masked_select", (ByteTensor([1, 0]),), "broadcast|match"),
    "masked_fill of another size": ("masked_fill", (ByteTensor([1, 0]), 7), "broadcast|match"),
    "masked_scatter of another size": ("masked_scatter", (ByteTensor([1, 0]), rows(6)), "broadcast|match"),
    "masked_scatter of too few": ("masked_scatter", (ByteTensor([[1, 1, 0], [1, 1, 0]]), rows(3)),
                                  "Number of elements of src < number of ones in mask: 3 and 4"),
}
TYPES = {
    "index_select by floats": ("index_select", (0, FloatTensor([0])), "expected an index of type Long, but got Float"),
    "gather by bytes": ("gather", (0, ByteTensor([[0, 0, 0]])), "expected an index of type Long, but got Byte"),
    "index_add of floats": ("index_add", (0, LongTensor([0]), FloatTensor([[1, 1, 1]])),
                            "expected a source of type Double like self, but got Float"),
    "masked_select by longs": ("masked_select", (LongTensor(GRID),), "expected a mask of type Byte, but got Long"),
}


def wrapped(args):
    return tuple(Variable(a) if torchlite.is_tensor(a) else a for a in args)


@pytest.mark.parametrize("kind", ["tensor", "Variable", "in place", "in place on a Variable", "function"])
@pytest.mark.parametrize("error, name, args, message",
                         [pytest.param(RuntimeError, *case, id=key) for key, case in CASES.items()]
                         + [pytest.param(TypeError, *case, id=key) for key, case in TYPES.items()])
def test_what_does_not_fit_is_named_and_nothing_is_written(error, name, args, message, kind):
    t = DoubleTensor(GRID)
    v = Variable(t)
    version = v._version
    call = {
        "tensor": lambda: getattr(t, name)(*args),
        "Variable": lambda: getattr(v, name)(*wrapped(args)),
        "function": lambda: getattr(torchlite, name)(t, *args),
        "in place": lambda: getattr(t, name + "_", None) and getattr(t, name + "_")(*args),
        "in place on a Variable": lambda: getattr(v, name + "_", None) and getattr(v, name + "_")(*wrapped(args)),
    }[kind]
    if kind.startswith("in place") and not hasattr(t, name + "_"):
        call = lambda: getattr(t, name)(*args)  # noqa: E731  (only reads)
    with pytest.raises(error, match=message):
        call()
    assert t.tolist() == GRID and v._version == version


def test_negative_indices_count_from_the_end():
    t = DoubleTensor(GRID)
    assert t.index_select(1, LongTensor([-1, 0])).tolist() == [[3, 1], [6, 4]]
    assert t.gather(1, LongTensor([[-1], [-3]])).tolist() == [[3], [4]]


def test_masks_select_where_they_are_not_zero():
    t = DoubleTensor(GRID)
    assert t.masked_select(ByteTensor([[0, 2, 255], [0, 0, 1]])).tolist() == [2, 3, 6]
    assert t.masked_fill(ByteTensor([0, 5, 0]), 9).tolist() == [[1, 9, 3], [4, 9, 6]]


def test_masked_scatter_takes_the_source_in_order():
    t = DoubleTensor(GRID)
    out = t.masked_scatter(ByteTensor([[1, 0, 1], [0, 1, 0]]), DoubleTensor([10, 20, 30, 40]))
    assert out.tolist() == [[10, 2, 20], [4, 30, 6]]
    assert t.masked_scatter_(ByteTensor([0, 0, 1]), DoubleTensor([7, 8])) is t and t.tolist() == [[1, 2, 7], [4, 5, 8]]


def test_indices_may_repeat():
    t = DoubleTensor([[0, 0], [0, 0]])
    t.index_add_(0, LongTensor([1, 1, 0]), DoubleTensor([[1, 2], [3, 4], [5, 6]]))
    assert t.tolist() == [[5, 6], [4, 6]]
    t.scatter_add_(1, LongTensor([[0, 0], [1, 1]]), DoubleTensor([[1, 1], [1, 1]]))
    assert t.tolist() == [[7, 6], [4, 8]]
