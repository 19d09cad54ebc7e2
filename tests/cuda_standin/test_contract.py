"""What the package uses of CuPy, held against the real one, which imports without a driver.

Names and keywords are collected from the sources; what can be made without a device is made.
"""

import ast
import gc
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from torchlite.cuda import _kernels
from torchlite.cuda.rows import FAMILIES

if importlib.util.find_spec("cupy") is None:
    pytest.skip("needs CuPy: pip install cupy-cuda13x", allow_module_level=True)

cupy = pytest.importorskip("cupy")
ROOT = Path(__file__).parent.parent.parent
SOURCES = [*(ROOT / "torchlite" / "cuda").rglob("*.py"), *(ROOT / "torchlite" / "_ops").rglob("*.py")]
MODULES = {"xp", "cupy"}  # the variables that stand for the array module
# Names that the sources ask for before they use them.
OPTIONAL = {"RawModule"}


def chain(node):
    """``xp.cuda.Device`` as ["xp", "cuda", "Device"]; None for what is no chain of names."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return [node.id, *reversed(names)] if isinstance(node, ast.Name) else None


def uses():
    """{dotted name: keywords of the calls of it} over the sources."""
    found = {}
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            names = chain(node) if isinstance(node, ast.Attribute) else None
            if names and (names[0] in MODULES):
                found.setdefault(".".join(names[1:]), set())
            if isinstance(node, ast.Call) and (names := chain(node.func)) and names[0] in MODULES:
                found.setdefault(".".join(names[1:]), set()).update(k.arg for k in node.keywords if k.arg)
    for family in FAMILIES:
        for function in family.FORWARD.values():
            if isinstance(function, str):
                found.setdefault(function, set())
    for names in re.findall(r"dotted\(cupy, \{([^}]*)\}\)", (ROOT / "csrc/cuda/bridge.cpp").read_text()):
        found.setdefault(".".join(re.findall(r'"(\w+)"', names)), set())
    return found


USES = uses()


def resolve(name):
    value = cupy
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("name", sorted(set(USES) - OPTIONAL))
def test_the_name_exists(name):
    resolve(name)


@pytest.mark.parametrize("name", sorted(n for n, keywords in USES.items() if keywords))
def test_the_function_takes_the_keywords(name):
    function = resolve(name)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        # Of what is written in Cython the documentation begins with the signature.
        text = (function.__doc__ or "") + (function.__init__.__doc__ or "")
        assert [k for k in USES[name] if not re.search(rf"\b{k}\b", text)] == []
        return
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    assert USES[name] <= set(parameters)


METHODS = {
    "get": {"stream", "out", "blocking"}, "set": {"stream"}, "astype": {"order", "copy"}, "fill": set(), "item": set(),
    "copy": set(), "reshape": set(), "swapaxes": set(), "view": set(), "__dlpack__": set(),
}


@pytest.mark.parametrize("name", METHODS)
def test_arrays_have_the_method(name):
    method = getattr(cupy.ndarray, name)
    assert [k for k in METHODS[name] if not re.search(rf"\b{k}\b", method.__doc__ or "")] == []


def method_calls():
    """(name, keyword) of the calls, with keywords, of what arrays of NumPy have as methods."""
    found = set()
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            names = chain(node.func) or [None]
            if names[0] not in {*MODULES, "np", "numpy", "torchlite"} and hasattr(np.ndarray, node.func.attr):
                found.update((node.func.attr, k.arg) for k in node.keywords if k.arg)
    return sorted(found)


@pytest.mark.parametrize(("name", "keyword"), method_calls())
def test_a_method_of_arrays_takes_the_keyword(name, keyword):
    assert re.search(rf"\b{keyword}\b", getattr(cupy.ndarray, name).__doc__ or "")


def test_solvers_report_only_where_they_are_asked_to():
    import cupyx

    assert cupyx.geterr()["linalg"] == "ignore"
    with cupyx.errstate(linalg="raise"):
        assert cupyx.geterr()["linalg"] == "raise"
    assert cupyx.geterr()["linalg"] == "ignore"


ATTRIBUTES = ["data", "shape", "strides", "dtype", "device", "flags", "nbytes", "ndim", "size", "T"]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_arrays_have_the_attribute(name):
    assert hasattr(cupy.ndarray, name)


@pytest.mark.parametrize(("owner", "names"), [
    ("cuda.Stream", ["use", "record", "wait_event", "synchronize", "done", "null", "begin_capture",
                     "end_capture", "__enter__", "__exit__"]),
    ("cuda.Event", ["record", "synchronize", "done"]),
    ("cuda.Device", ["id", "use", "synchronize", "__enter__", "__exit__"]),
    ("cuda.MemoryPointer", ["ptr", "mem", "device_id", "copy_from_device_async"]),
    ("cuda.MemoryPool", ["used_bytes", "total_bytes", "free_all_blocks"]),
    ("cuda.PinnedMemoryPool", ["free_all_blocks"]),
    ("cuda.Graph", ["launch"]),
    ("RawModule", ["get_function"]),
])
def test_objects_have_the_attributes(owner, names):
    assert [n for n in names if not hasattr(resolve(owner), n)] == []


def test_the_default_stream_has_the_address_0():
    assert cupy.cuda.Stream.null.ptr == 0


# ---- without a device ------------------------------------------------------------------------------------------------


class Owner:
    """Whoever owns the memory."""


def unowned(owner, sizes=(2, 3), dtype="float32", strides=(12, 4), address=0x10000):
    memory = cupy.cuda.UnownedMemory(address, 24, owner, 0)
    return cupy.ndarray(sizes, np.dtype(dtype), cupy.cuda.MemoryPointer(memory, 0), strides)


def test_an_array_on_lent_memory_says_what_the_bridge_reads():
    owner = Owner()
    a = unowned(owner)
    assert a.shape == (2, 3) and a.strides == (12, 4) and isinstance(a.dtype, np.dtype)
    assert a.data.ptr == 0x10000 and a.data.device_id == 0 and type(a.data.mem) is cupy.cuda.UnownedMemory
    assert a.data.mem._owner is owner
    assert cupy.ndarray((3, 2), np.dtype("float32"), a.data, (4, 12)).flags.f_contiguous


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_cupy_takes_the_arguments_of_every_row_as_far_as_its_first_kernel():
    if cupy.is_available():
        pytest.skip("there is a device, on which the addresses would be read")
    program = Path(__file__).parent / "first_launches.py"
    found = subprocess.run([sys.executable, program], check=True, cwd=ROOT, capture_output=True, text=True)
    *refusals, reached = found.stdout.splitlines()
    assert refusals == [] and int(reached) > 100


def test_arrays_are_known_to_the_collector():
    assert gc.is_tracked(unowned(Owner())) and gc.is_tracked(cupy.cuda.UnownedMemory(0x10000, 24, None, 0))


PROGRAM = """
import sys
import numpy as np
import cupy
cupy.cuda.runtime.getDeviceCount = lambda: 1
import torchlite
from torchlite import cuda, _C
from torchlite.cuda import _library
_library.connect()
memory = cupy.cuda.UnownedMemory(0x10000, 24, None, 0)
a = cupy.ndarray((2, 3), np.dtype("float32"), cupy.cuda.MemoryPointer(memory, 0), (12, 4))
t = cuda.from_cupy(a)
assert type(t) is cuda.FloatTensor and t.get_device() == 0 and t.data_ptr() == 0x10000, t
v = t.t()[1:]
assert v.size() == (2, 2) and v.stride() == (1, 3) and v.data_ptr() == 0x10004
b = v.cupy()
assert b.shape == (2, 2) and b.strides == (4, 12) and b.data.ptr == 0x10004 and b.dtype == np.float32
assert cuda.from_cupy(b).storage() is t.storage() and b.data.mem._owner is t.storage()
assert t.__dlpack_device__() == (2, 0)
try:
    t + torchlite.FloatTensor(2, 3)
except TypeError as e:
    assert "torchlite.cuda.FloatTensor on device 0" in str(e), e
else:
    raise AssertionError
print("fits")
"""


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_the_bridge_takes_and_makes_real_arrays():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "fits", done.stderr


def has_device():
    try:
        return cupy.cuda.runtime.getDeviceCount() > 0
    except Exception:
        return False


@pytest.mark.skipif(has_device(), reason="there is a device")
@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_without_a_driver_the_runtimes_own_reason_is_given():
    program = ("import torchlite\nassert torchlite.cuda.is_available() is False\n"
               "try:\n    torchlite.FloatTensor(1).cuda()\nexcept RuntimeError as e:\n    print(e)\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert "no CUDA device can be used: cudaError" in done.stdout, done.stderr


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_importing_the_package_does_not_import_cupy():
    program = ("import sys, torchlite, torchlite.cuda\nassert 'cupy' not in sys.modules\n"
               "torchlite.FloatTensor(2).add(1)\nassert 'cupy' not in sys.modules\n")
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)


@pytest.mark.parametrize("arch", ["80", "90"])
@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.no_leak_check(reason="the compiler's library keeps what it has loaded")
def test_cupys_compiler_takes_the_kernels(kind, arch):
    nvrtc = cupy.cuda.nvrtc
    try:
        nvrtc.getVersion()
    except Exception as e:
        pytest.skip(f"CuPy's compiler cannot be loaded here: {e}")
    program = nvrtc.createProgram(_kernels.source(kind), "kernels.cu", (), ())
    try:
        nvrtc.compileProgram(program, ("--std=c++14", f"--gpu-architecture=compute_{arch}"))
        assert all(name.encode() in nvrtc.getPTX(program) for name in ("softmax_backward", "gru_cell", "adam"))
    finally:
        nvrtc.destroyProgram(program)
