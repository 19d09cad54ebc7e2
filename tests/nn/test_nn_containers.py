"""Sequential, ModuleList, ParameterList, Container."""

from collections import OrderedDict

import numpy as np
import pytest

from torchlite import Variable, nn


def modules(n=3):
    return [nn.Linear(2, 2) for _ in range(n)]


def parameters(n=3):
    return [nn.Parameter(np.full(2, i, "f4")) for i in range(n)]


LISTS = [(nn.ModuleList, modules), (nn.ParameterList, parameters)]


def test_sequential_runs_its_modules_in_order():
    a, b = modules(2)
    x = Variable(np.ones((1, 2), "f4"))
    np.testing.assert_array_equal(nn.Sequential(a, b)(x).data.numpy(), b(a(x)).data.numpy())


def test_an_empty_sequential_is_the_identity():
    x = Variable(np.ones(2, "f4"))
    assert nn.Sequential()(x) is x


def test_sequential_takes_named_modules():
    a, b = modules(2)
    net = nn.Sequential(OrderedDict([("in", a), ("out", b)]))
    assert net.out is b
    assert list(net.state_dict()) == ["in.weight", "in.bias", "out.weight", "out.bias"]


def test_sequential_indexes_from_both_ends():
    a, b, c = modules()
    net = nn.Sequential(a, b, c)
    assert len(net) == 3
    assert (net[0], net[2], net[-1], net[-3]) == (a, c, c, a)
    assert list(net) == [a, b, c]
    assert list(net[1:]) == [b, c] and isinstance(net[1:], nn.Sequential)


@pytest.mark.parametrize("index", [3, -4])
@pytest.mark.parametrize("container", [lambda: nn.Sequential(*modules()), lambda: nn.ModuleList(modules())])
def test_an_index_out_of_range_is_an_index_error(container, index):
    with pytest.raises(IndexError, match=f"index {index} is out of range"):
        container()[index]


@pytest.mark.parametrize(("cls", "items"), LISTS)
def test_lists_index_assign_and_iterate(cls, items):
    first, new = items(), items(1)[0]
    container = cls(first)
    assert len(container) == 3
    assert all(a is b for a, b in zip(container, first, strict=True))
    assert container[-1] is first[2]
    container[-1] = new
    assert container[2] is new
    assert [a is b for a, b in zip(container[1:], [first[1], new], strict=True)] == [True, True]


@pytest.mark.parametrize(("cls", "items"), LISTS)
def test_lists_grow(cls, items):
    more = items(4)
    container = cls()
    assert container.append(more[0]) is container
    assert container.extend(more[1:2]) is container
    container += more[2:]
    assert all(a is b for a, b in zip(container, more, strict=True))


@pytest.mark.parametrize(("cls", "items"), LISTS)
def test_lists_take_any_iterable(cls, items):
    assert len(cls(item for item in items(2))) == 2


@pytest.mark.parametrize(("cls", "items"), LISTS)
def test_a_refused_extension_changes_nothing(cls, items):
    container = cls(items(1))
    with pytest.raises(TypeError, match=f"{cls.__name__}.extend: item 1 has to be a .*, but is a int"):
        container.extend([items(1)[0], 3])
    with pytest.raises(TypeError, match=f"{cls.__name__}.extend should be called with an iterable, but got int"):
        container.extend(3)
    assert len(container) == 1


@pytest.mark.parametrize(("cls", "items"), LISTS)
def test_what_is_in_a_list_is_registered(cls, items):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = cls(items(2))

    assert all(name.startswith("parts.") for name in Net().state_dict())
    assert len(list(Net().parameters())) == (4 if cls is nn.ModuleList else 2)


def test_container_is_deprecated():
    with pytest.warns(DeprecationWarning, match="nn.Container is deprecated"):
        net = nn.Container(a=nn.ReLU())
    assert list(net._modules) == ["a"]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (lambda: nn.Sequential(nn.ReLU()), "Sequential (\n  (0): ReLU ()\n)"),
        (lambda: nn.ModuleList([nn.Tanh()]), "ModuleList (\n  (0): Tanh ()\n)"),
        (lambda: nn.ParameterList(parameters(1)), "ParameterList (\n  (0): Parameter of size 2\n)"),
    ],
)
def test_repr(module, text):
    assert repr(module()) == text
