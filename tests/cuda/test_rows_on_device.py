"""Every row of the op table on the device: values and gradients of both orders are the host's."""

import numpy as np
import pytest
from test_table import ENTRIES, ROWS, assert_close, call, has_derivative, map_arrays, of

import torchlite
from torchlite.autograd import Variable, backward


def entries(chosen=lambda e: True):
    return [pytest.param(e, id=e.name) for e in ENTRIES if e.name in ROWS and e.name != "to_device" and chosen(e)]


def host(a):
    return torchlite.from_numpy(np.array(a))


def device(a):
    return host(a).cuda()


@pytest.mark.parametrize("entry", entries(lambda e: e.reference is not None))
def test_values_are_the_hosts(entry):
    for s in entry.samples:
        for dtype in entry.dtypes:
            args, kwargs = s.make(dtype)
            with of(entry, s, dtype):
                expected = call(entry.name, map_arrays(lambda a: Variable(host(a)), args), kwargs)
                got = call(entry.name, map_arrays(lambda a: Variable(device(a)), args), kwargs)
                for g, e in zip(got, expected, strict=True):
                    assert g.data.is_cuda
                    # Sums are made in another order, and functions are rounded by another library.
                    assert_close(g.data.cpu().numpy(), e.data.numpy(), 20 * entry.rtol)


def gradients(entry, s, make, order):
    args, kwargs = s.make("float64")
    inputs = []

    def variable(a, takes):
        v = Variable(make(a), requires_grad=takes and a.dtype == np.float64)
        if v.requires_grad:
            inputs.append(v)
        return v

    args = [map_arrays(lambda a, takes=takes: variable(a, takes), value)
            for value, takes in zip(args, s.differentiable(), strict=True)]
    outputs = [o for o in call(entry.name, args, kwargs) if o.requires_grad]
    if not outputs:
        return []
    backward(outputs, [Variable(make(np.cos(np.arange(o.data.numel())).reshape(tuple(o.size())))) for o in outputs],
             create_graph=order == 2)
    first = [x.grad for x in inputs]
    if order == 1:
        return first
    for x in inputs:
        x.grad = None
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        backward(again, [Variable(make(np.sin(np.arange(g.data.numel()) + 1.0).reshape(tuple(g.size()))))
                         for g in again])
    return [x.grad for x in inputs]


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("entry", entries(has_derivative))
def test_gradients_are_the_hosts(entry, order):
    if order == 2 and not entry.second:
        pytest.skip("has no second derivative")
    for s in entry.samples:
        with of(entry, s):
            torchlite.manual_seed(3)
            torchlite.cuda.manual_seed(3)
            expected = gradients(entry, s, host, order)
            for g, e in zip(gradients(entry, s, device, order), expected, strict=True):
                assert (g is None) == (e is None)
                if g is not None:
                    assert_close(g.data.cpu().numpy(), e.data.numpy(), 1e-3)


def test_the_fused_kernels_are_in_use():
    import cupy

    from torchlite.cuda import _kernels

    assert _kernels.compiles(cupy)
