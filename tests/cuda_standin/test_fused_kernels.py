"""The fused kernels: compiled by nvcc, and run on the host's processor against the composites that state them."""

import shutil
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
from emulation import KERNEL, Module, compile_source

import torchlite
from torchlite.cuda import _kernels, _random
from torchlite.cuda.rows import losses, networks, recurrent
from torchlite.optim import steps

KINDS = ["float32", "float64"]
each_kind = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    return {kind: compile_source(_kernels.source(kind), tmp_path_factory.mktemp(kind)) for kind in KINDS}


class WithKernels:
    """NumPy with a compiler of kernels. The number of threads a block is no matter of a kernel's result."""

    def __init__(self, compiled, threads):
        self.compiled, self.threads = compiled, threads
        self.cuda = SimpleNamespace(runtime=SimpleNamespace(getDevice=lambda: 0))

    def RawModule(self, code, options):  # noqa: N802 (CuPy's name)
        kind = "float64" if code.startswith("typedef double") else "float32"
        return Module(code, self.compiled[kind], self.threads)

    def __getattr__(self, name):
        return getattr(np, name)


@pytest.fixture(params=[1, 8])
def xp(request, compiled):
    yield WithKernels(compiled, request.param)
    _kernels._module.cache_clear()


def random(*shape, kind, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def assert_same(got, expected):
    got, expected = (x if isinstance(x, tuple) else (x,) for x in (got, expected))
    for g, e in zip(got, expected, strict=True):
        if g is None or e is None:
            assert g is e
            continue
        assert g.dtype == e.dtype and g.shape == e.shape
        np.testing.assert_allclose(g, e, rtol=1e-5 if g.dtype == np.float32 else 1e-12, atol=1e-6)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@each_kind
@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_nvcc_compiles_every_kernel(kind, arch, tmp_path):
    if shutil.which("nvcc") is None:
        pytest.skip("needs nvcc")
    path = tmp_path / "kernels.cu"
    path.write_text(_kernels.source(kind))
    flags = ["-std=c++14", "-Werror=all-warnings", "-cubin"]
    subprocess.run(["nvcc", f"-arch={arch}", *flags, "-o", str(tmp_path / "out"), str(path)], check=True)


@each_kind
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("log", [False, True])
def test_softmax(xp, kind, dim, log):
    x = random(3, 5, 4, kind=kind) * 20
    y = networks._softmax(log)(np, x, dim)
    assert_same(networks._softmax(log)(xp, x, dim), y)
    g = random(3, 5, 4, kind=kind, seed=1)
    args = ((g,), (None, dim), (y,), None)
    assert_same(networks._softmax_backward(log)(xp, *args), networks._softmax_backward(log)(np, *args))


def test_softmax_of_a_long_row_and_of_nan(xp):
    x = random(2, 1000, kind="float64")
    assert_same(networks._softmax(True)(xp, x, 1), networks._softmax(True)(np, x, 1))
    x[0, 3] = np.nan
    y = networks._softmax(False)(xp, x, 1)
    assert np.isnan(y[0]).all() and not np.isnan(y[1]).any()


@each_kind
@pytest.mark.parametrize("average", [False, True])
def test_cross_entropy(xp, kind, average):
    x, target = random(4, 7, kind=kind), np.array([0, 3, -1, 6])
    weight = np.arange(1, 8).astype(kind)
    args = (x, target, weight, average, -1)
    assert_same(losses.cross_entropy(xp, *args), losses.cross_entropy(np, *args))
    g = np.array([1.5], kind)
    assert_same(losses.cross_entropy_backward(xp, g, *args), losses.cross_entropy_backward(np, g, *args))
    images = random(2, 3, 2, 2, kind=kind), np.array([[[0, 1], [2, 0]], [[1, 1], [0, 2]]]), None, average, -1
    assert_same(losses.cross_entropy(xp, *images), losses.cross_entropy(np, *images))
    assert_same(losses.cross_entropy_backward(xp, g, *images), losses.cross_entropy_backward(np, g, *images))


@each_kind
@pytest.mark.parametrize("scale", [False, True])
def test_the_gradient_of_an_embedding(xp, kind, scale):
    index = np.array([[1, 4, 1], [0, 2, 4]])
    args = (random(2, 3, 5, kind=kind), index, 6, 2, scale)
    assert_same(networks.embedding_backward(xp, *args), networks.embedding_backward(np, *args))


def test_a_row_out_of_range_is_not_written(xp):
    out = np.zeros((3, 2))
    _kernels.add_rows(xp, out, np.array([0, 7, -1, -9]), np.ones((4, 2)))
    assert out.tolist() == [[1, 1], [0, 0], [1, 1]]


@each_kind
def test_recurrent_cells(xp, kind):
    gates, c = random(3, 8, kind=kind), random(3, 2, kind=kind, seed=1)
    made = recurrent.lstm_step(np, gates, c)
    assert_same(recurrent.lstm_step(xp, gates, c), made)
    dh, dc = random(3, 2, kind=kind, seed=2), random(3, 2, kind=kind, seed=3)
    for both in ((dh, dc), (dh, None), (None, dc)):
        args = (*both, made[2], made[3], c)
        assert_same(recurrent.lstm_step_backward(xp, *args), recurrent.lstm_step_backward(np, *args))
    a, b = random(3, 6, kind=kind), random(3, 6, kind=kind, seed=1)
    made = recurrent.gru_step(np, a, b, c)
    assert_same(recurrent.gru_step(xp, a, b, c), made)
    assert_same(recurrent.gru_step_backward(xp, dh, made[1], made[2], c),
                recurrent.gru_step_backward(np, dh, made[1], made[2], c))


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 12345])
def test_random_words(xp, seed):
    first, second = _random.Generator(seed), _random.Generator(seed)
    for groups in (1, 3):
        assert (_random.words(xp, groups, first) == _random.words(np, groups, second)).all()
    assert first.counter == second.counter == 64


@each_kind
@pytest.mark.parametrize(("mu", "dampening", "nesterov"), [(0, 0, False), (0.9, 0.1, False), (0.9, 0, True)])
def test_sgd(xp, kind, mu, dampening, nesterov):
    p, g, buffer = (random(10, kind=kind, seed=seed) for seed in range(3))
    expected = [torchlite.from_numpy(a.copy()) for a in (p, g, buffer)]
    for decay in (0.01, 0):
        steps.sgd_step(*expected[:2], expected[2] if mu else None, 0.1, mu, dampening, decay, nesterov)
        _kernels.sgd_step(xp, p, g, buffer if mu else p, 0.1, decay, mu, dampening, nesterov, bool(mu))
    for got, e in zip((p, g, buffer), expected, strict=True):
        np.testing.assert_allclose(got, e.numpy(), rtol=1e-5, atol=1e-6)


@each_kind
def test_adam(xp, kind):
    p, g = random(10, kind=kind), random(10, kind=kind, seed=1)
    mean, square = np.zeros(10, kind), np.zeros(10, kind)
    expected, m, s = p.astype(float), 0.0, 0.0
    for _ in range(2):
        d = g + 0.1 * expected
        m, s = 0.9 * m + 0.1 * d, 0.99 * s + 0.01 * d * d
        expected = expected - 0.05 * m / (np.sqrt(s) + 1e-8)
        _kernels.adam_step(xp, p, g, mean, square, 0.05, 0.9, 0.99, 1e-8, 0.1)
    np.testing.assert_allclose(p, expected, rtol=1e-4)


def test_every_kernel_is_launched_with_what_it_takes(compiled):
    names = {name for name, _ in KERNEL.findall(_kernels.SOURCE)}
    assert names == {"softmax", "softmax_backward", "cross_entropy", "cross_entropy_backward", "add_rows", "lstm_cell",
                     "lstm_cell_backward", "gru_cell", "gru_cell_backward", "words", "sgd", "adam"}


@pytest.fixture(scope="module")
def wrong(compiled, tmp_path_factory):
    source = _kernels.source("float64").replace("exp(d) / sum", "exp(d) / (sum * 1.001)")
    return compile_source(source, tmp_path_factory.mktemp("wrong"))


def test_a_wrong_kernel_is_found(wrong):
    xp = WithKernels({"float64": wrong}, 1)
    try:
        with pytest.raises(AssertionError):
            x = random(2, 5, kind="float64")
            assert_same(networks._softmax(False)(xp, x, 1), networks._softmax(False)(np, x, 1))
    finally:
        _kernels._module.cache_clear()
