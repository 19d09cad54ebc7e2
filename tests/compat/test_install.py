"""install_as_torch: the package and its modules under the name torch. In child processes, for it lasts."""

from pathlib import Path

import pytest
from child_programs import installed, python

pytestmark = pytest.mark.no_leak_check(reason="the work is done in another process")

MODULES = [
    "autograd", "autograd.variable", "autograd.function", "autograd.gradcheck", "autograd.ir", "nn", "nn.functional",
    "nn.init", "optim", "utils", "utils.hooks", "utils.data", "backends", "backends.cudnn", "multiprocessing",
    "distributed", "sparse", "cuda", "_C", "_six", "_utils", "jit",
]  # fmt: skip


def test_every_module_is_one_object_whichever_name_comes_first():
    installed(f"""
        import importlib, sys
        for i, name in enumerate({MODULES}):
            names = ["torch." + name, "torchlite." + name]
            first, second = names if i % 2 else reversed(names)
            module = importlib.import_module(first)
            assert importlib.import_module(second) is module, name
            assert module.__name__ == "torchlite." + name
            assert module.__spec__ is None or module.__spec__.name == module.__name__
            assert sys.modules["torch." + name] is sys.modules["torchlite." + name]
        import torch, torchlite
        assert torch is torchlite
    """)


def test_no_file_is_executed_under_two_names():
    installed("""
        import sys
        import torch.nn.functional, torch.optim, torch.jit, torch.utils.data
        files = [m.__file__ for m in {id(m): m for n, m in sys.modules.items() if n.startswith("torch")}.values()
                 if getattr(m, "__file__", None)]
        assert len(files) == len(set(files))
    """)


def test_the_forms_of_import():
    installed("""
        import torch
        assert torch.nn.functional.relu and torch.optim.SGD and torch.backends.cudnn.enabled is True
        from torch.autograd import Variable
        import torch.nn.functional as F
        import torch.backends.cudnn as cudnn
        from torch.autograd.function import once_differentiable
        from torch import nn, optim
        cudnn.benchmark = True
        v = Variable(torch.ones(2, 3), requires_grad=True)
        F.relu(v).sum().backward()
        assert v.grad.data.sum() == 6
    """)


def test_names_of_classes_are_those_of_torch():
    done = installed("""
        import torch
        print(torch.FloatTensor(2, 3).zero_())
        print(torch.FloatTensor().type(), torch.DoubleStorage().type(), torch.Size([2, 3]))
        print(torch.typename(torch.IntTensor))
        print(torch.FloatTensor(2).type('torch.DoubleTensor').type(), torch.LongTensor.__module__)
        for call in (lambda: torch.Size(['a']), lambda: bool(torch.ByteTensor(2)), lambda: torch.FloatTensor(x=1)):
            try:
                call()
            except Exception as e:
                print(type(e).__name__, e)
    """)
    lines = done.stdout.split("\n")
    assert lines[3] == "[torch.FloatTensor of size 2x3]"
    assert lines[4:7] == [
        "torch.FloatTensor torch.DoubleStorage torch.Size([2, 3])", "torch.IntTensor", "torch.DoubleTensor torch"
    ]
    assert lines[7].startswith("TypeError torch.Size() takes an iterable of 'int'")
    assert "non-empty torch.ByteTensor objects" in lines[8]
    assert lines[9].startswith("TypeError torch.FloatTensor")


@pytest.mark.parametrize("before", ["", "import torchlite.sparse\n"])
def test_sparse_classes_have_the_name_too(before):
    python("-c", before + """if True:
        from torchlite.compat import install_as_torch
        install_as_torch()
        import pickle, torch, torch.sparse
        s = torch.sparse.FloatTensor(2, 3)
        assert s.type() == torch.typename(type(s)) == "torch.sparse.FloatTensor"
        assert s.type("torch.sparse.DoubleTensor").type() == "torch.sparse.DoubleTensor"
        assert type(pickle.loads(pickle.dumps(s))) is type(s)
    """)


def test_cuda_classes_have_the_name_too():
    installed("""
        import torch, torch.cuda
        assert torch.typename(torch.cuda.FloatTensor) == "torch.cuda.FloatTensor"
        assert repr(torch.cuda.LongStorage) == "<class 'torch.cuda.LongStorage'>"
    """)


def test_without_it_the_names_are_torchlites():
    import torchlite

    assert torchlite.FloatTensor().type() == "torchlite.FloatTensor"
    assert repr(torchlite.Size([2])) == "torchlite.Size([2])"


def test_a_module_does_not_take_the_place_of_a_function_of_its_name():
    installed("""
        import sys
        from torch.autograd.gradcheck import gradgradcheck
        from torch.autograd import gradcheck, Variable
        import torch, torchlite.autograd
        assert gradcheck is torchlite.autograd.gradcheck is sys.modules["torch.autograd.gradcheck"].gradcheck
        assert sys.modules["torch.autograd"] is torch.autograd is torchlite.autograd
        import torch.autograd.gradcheck as again
        assert again in (gradcheck, sys.modules["torch.autograd.gradcheck"])
        x = Variable(torch.ones(2).double(), requires_grad=True)
        assert gradcheck(lambda v: v * v, (x,)) and callable(gradgradcheck)
    """)


def test_what_was_imported_before_stays_the_same_object():
    python("-c", """if True:
        import torchlite
        from torchlite.nn import functional
        from torchlite import Variable
        from torchlite.compat import install_as_torch
        install_as_torch()
        import torch.nn.functional
        from torch.autograd import Variable as V
        assert torch.nn.functional is functional and V is Variable
    """)


def test_a_second_call_changes_nothing():
    installed("""
        import sys
        before = list(sys.meta_path)
        install_as_torch()
        assert sys.meta_path == before
    """)


def test_a_real_torch_is_refused_and_left_alone(tmp_path):
    (tmp_path / "torch.py").write_text("mine = True\n")
    done = python("-c", f"""if True:
        import sys
        sys.path.insert(0, {str(tmp_path)!r})
        import torch
        from torchlite.compat import install_as_torch
        before = list(sys.meta_path)
        try:
            install_as_torch()
        except RuntimeError as e:
            print(e)
        assert sys.meta_path == before and torch.mine
        import torchlite
        assert torchlite.FloatTensor().type() == "torchlite.FloatTensor"
    """)
    assert "another package named 'torch'" in done.stdout and "torch.py" in done.stdout


def test_a_package_can_be_put_in_the_place_of_one_of_ours():
    folder = Path(__file__).parent / "foreign" / "torch" / "autograd"
    installed(f"""
        import importlib.util, sys
        import torch, torchlite.autograd
        spec = importlib.util.spec_from_file_location("torch.autograd", {str(folder / "__init__.py")!r},
                                                      submodule_search_locations=[{str(folder)!r}])
        module = torch.autograd = sys.modules["torch.autograd"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        from torch.autograd import Variable
        from torch.autograd._functions.basic_ops import Mul
        import torch.nn
        assert Variable is not sys.modules["torchlite.autograd"].Variable
        assert Variable.__module__ == "torch.autograd.variable"
        x = Variable(torch.ones(2), requires_grad=True)
        y = Mul.apply(x, x)
        torch.cat([y, y * 2], 0).sum().backward()
        assert type(y) is type(y * 2) is Variable and x.grad.data.tolist() == [6, 6]
    """)


@pytest.mark.parametrize("name", ["onnx", "nn.nonesuch", "autograd.variable.deep"])
def test_a_missing_module_is_named(name):
    done = installed(f"""
        import importlib.util
        try:
            import torch.{name}
        except ModuleNotFoundError as e:
            print(e.name, e)
        if "deep" not in "{name}":
            assert importlib.util.find_spec("torch.{name}") is None
            assert importlib.util.find_spec("torch.nn") is not None
    """)
    assert done.stdout.startswith(f"torch.{name} No module named 'torch.{name}'")


def test_an_error_inside_a_module_is_not_mistaken_for_a_missing_module(tmp_path):
    done = installed(f"""
        import torchlite
        torchlite.__path__.append({str(tmp_path)!r})
        open({str(tmp_path / "broken.py")!r}, "w").write("import not_there_at_all")
        try:
            import torch.broken
        except ModuleNotFoundError as e:
            print(e.name)
    """)
    assert done.stdout.strip() == "not_there_at_all"


def test_pickles_have_the_name_and_are_read_under_both(tmp_path):
    path = tmp_path / "tensor.pkl"
    installed(f"""
        import pickle, torch
        with open({str(path)!r}, "wb") as f:
            pickle.dump({{"w": torch.ones(2, 2)}}, f, protocol=2)
    """)
    assert b"torch\nFloatTensor" in path.read_bytes()
    installed(f"""
        import pickle
        with open({str(path)!r}, "rb") as f:
            assert pickle.load(f)["w"].sum() == 4
    """)


def test_a_pickle_in_the_manner_of_the_era_is_read():
    installed("""
        import pickle, torch
        class Rebuild:
            def __reduce__(self):
                return torch._utils._rebuild_tensor, (torch.DoubleStorage([1, 2, 3, 4]), 1, torch.Size([3]), (1,))
        import torch._utils
        text = pickle.dumps(Rebuild(), 2)
        t = pickle.loads(text.replace(b"ctorchlite._utils", b"ctorch._utils"))
        assert t.type() == "torch.DoubleTensor" and t.tolist() == [2, 3, 4]
    """)


def test_former_names_are_back():
    installed("""
        import collections, inspect, unittest, warnings
        import numpy as np
        assert isinstance([], collections.Iterable) and isinstance({}, collections.Mapping)
        assert np.float is float and np.int is int and np.bool8 is np.bool_ and np.product([2, 3]) == 6
        warnings.simplefilter("ignore", DeprecationWarning)  # of what Python itself still has
        assert inspect.getargspec(lambda a, b=1, *c: 0).varargs == "c"
        class Case(unittest.TestCase):
            def test(self):
                self.assertEquals(1, 1)
        result = unittest.TestResult()
        Case("test").run(result)
        assert result.wasSuccessful() and result.testsRun == 1
    """)


def test_names_that_exist_keep_their_meaning():
    installed("""
        import collections, numpy as np
        assert collections.OrderedDict.__module__ == "collections"
        assert np.prod([2]) == 2 and np.bool is np.bool_
    """)
def test_set_default_tensor_type_takes_the_name():
    installed("""
        import torch
        torch.set_default_tensor_type('torch.DoubleTensor')
        assert torch.Tensor is torch.DoubleTensor and torch.ones(2).type() == 'torch.DoubleTensor'
    """)


@pytest.mark.parametrize("name", ["FloatTensor", "FloatStorage", "Size"])
def test_a_program_may_assign_the_module_of_a_class(name):
    done = python("-c", f"""if True:
        import torchlite
        cls = torchlite.{name}
        cls.__module__ = "other.package"
        instance = cls([1]) if cls is torchlite.Size else cls(1)
        print(cls.__module__, repr(cls), repr(instance) if cls is torchlite.Size else instance.type())
        for assign in (lambda: setattr(cls, "__module__", 3), lambda: delattr(cls, "__module__"),
                       lambda: setattr(cls, "attribute", 1)):
            try:
                assign()
            except TypeError as e:
                print(e)
    """)
    first, *errors = done.stdout.strip().split("\n")
    assert first.startswith(f"other.package <class 'other.package.{name}'> other.package.{name}")
    assert len(errors) == 3 and all("other.package" in e or "immutable" in e for e in errors)
