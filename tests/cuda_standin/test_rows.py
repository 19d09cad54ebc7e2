"""Every row of the op table on a device gives what it gives on the host: values, in place, gradients of both orders."""

import numpy as np
import pytest
from devices import tensor
from test_table import ENTRIES, LAYOUTS, ROWS, assert_close, call, has_derivative, map_arrays, of, self_position

import torchlite
from torchlite.autograd import Variable, backward
from torchlite.cuda.rows import OWN, implementations

pytestmark = pytest.mark.usefixtures("lib")
# What the host has to know before it goes on is in the data: sizes of results.
DATA_DEPENDENT = {"masked_select", "index", "index_backward"}


def may_wait(entry):
    """Rows in Python may look at what they compute: linear algebra says which matrix is singular."""
    return entry.name in DATA_DEPENDENT or ROWS[entry.name].in_python


def entries(chosen=lambda e: True):
    """Those of the table but to_device, which is there to move tensors."""
    return [pytest.param(e, id=e.name) for e in ENTRIES if e.name in ROWS and e.name != "to_device" and chosen(e)]


def test_every_row_of_the_extension_has_an_implementation():
    assert sorted(set(ROWS) - set(implementations(np)) - {name for name, row in ROWS.items() if row.in_python}) == []
    assert sorted(set(implementations(np)) - set(ROWS)) == []
    assert set(OWN) <= set(ROWS)


@pytest.mark.parametrize("layout", ["contiguous", "transposed", "sliced"])
@pytest.mark.parametrize("entry", entries(lambda e: e.reference is not None))
def test_values_are_the_hosts_and_nothing_is_transferred(entry, layout, lib):
    for s in entry.samples:
        for dtype in entry.dtypes:
            args, kwargs = s.make(dtype)
            args = map_arrays(LAYOUTS[layout], args)
            with of(entry, s, dtype):
                expected = call(entry.name, map_arrays(lambda a: Variable(host(a.copy())), args), kwargs)
                on_device = map_arrays(lambda a: Variable(strided(a)), args)
                lib.reset()
                got = call(entry.name, on_device, kwargs)
                if not may_wait(entry):
                    assert (lib.to_host, lib.to_device) == (0, 0), "a hidden transfer"
                    assert lib.synchronizations == 0, "the host waited"
                for g, e in zip(got, expected, strict=True):
                    assert g.data.is_cuda and type(g.data).__module__ == "torchlite.cuda"
                    assert_close(g.data.cpu().numpy(), e.data.numpy(), entry.rtol)


def strided(a):
    """A tensor on the device with the strides of an array."""
    whole = tensor(np.ascontiguousarray(a) if a.ndim else a)
    if a.ndim and a.size and not a.flags.c_contiguous:
        order = np.argsort([-abs(step) for step in a.strides], kind="stable")
        moved = tensor(np.ascontiguousarray(a.transpose(order)))
        return moved.permute(*(int(i) for i in np.argsort(order)))
    return whole


@pytest.mark.parametrize("entry", entries(lambda e: e.reference is not None and ROWS[e.name].inplace))
def test_in_place_forms_write_the_same_values(entry):
    for s in entry.samples:
        for dtype in entry.dtypes:
            args, kwargs = s.make(dtype)
            at = self_position(args)
            if at != 0 and ROWS[entry.name].params[0] == "self":
                continue  # a number on the left
            host = map_arrays(lambda a: torchlite.from_numpy(a.copy()), args)
            device = map_arrays(tensor, args)
            try:
                getattr(host[at], entry.name + "_")(*host[:at], *host[at + 1:], **kwargs)
            except (RuntimeError, TypeError):
                continue  # the result does not fit self
            with of(entry, s, dtype):
                got = getattr(device[at], entry.name + "_")(*device[:at], *device[at + 1:], **kwargs)
                assert got is device[at]
                assert_close(got.cpu().numpy(), host[at].numpy(), entry.rtol)


def gradients(entry, s, make, create_graph):
    """The gradients of everything differentiable for cotangents that depend on the result alone."""
    args, kwargs = s.make("float64")
    inputs = []

    def variable(a, takes):
        v = Variable(make(a.copy()), requires_grad=takes and a.dtype == np.float64)
        if v.requires_grad:
            inputs.append(v)
        return v

    args = [map_arrays(lambda a, takes=takes: variable(a, takes), value)
            for value, takes in zip(args, s.differentiable(), strict=True)]
    outputs = [o for o in call(entry.name, args, map_arrays(lambda a: variable(a, False), kwargs)) if o.requires_grad]
    if not outputs:
        return []
    seeds = [Variable(make(np.cos(np.arange(o.data.numel())).reshape(tuple(o.size())))) for o in outputs]
    backward(outputs, seeds, create_graph=create_graph)
    first = [x.grad for x in inputs]
    if not create_graph:
        return first
    for x in inputs:
        x.grad = None
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        seeds = [Variable(make(np.sin(np.arange(g.data.numel()) + 1.0).reshape(tuple(g.size())))) for g in again]
        backward(again, seeds)
    return [x.grad for x in inputs]


def host(a):
    return torchlite.from_numpy(np.asarray(a))


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("entry", entries(has_derivative))
def test_gradients_are_the_hosts_and_nothing_is_transferred(entry, order, lib):
    if order == 2 and not entry.second:
        pytest.skip("has no second derivative")
    random = entry.name.startswith("dropout")
    for s in entry.samples:
        with of(entry, s):
            torchlite.manual_seed(3)
            torchlite.cuda.manual_seed(3)
            expected = gradients(entry, s, host, order == 2)
            lib.reset()
            got = gradients(entry, s, tensor, order == 2)
            assert lib.to_host == 0 or may_wait(entry), "a hidden transfer"
            assert len(got) == len(expected)
            for g, e in zip(got, expected, strict=True):
                assert (g is None) == (e is None)
                if g is not None:
                    assert g.data.is_cuda
                    assert random or may_wait(entry) or lib.synchronizations == 0, "the host waited"
                    assert_close(g.data.cpu().numpy(), e.data.numpy(), 1e-5)
