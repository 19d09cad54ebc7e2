"""python -m torchlite run: a program runs as python itself would run it, but for the name torch."""

import signal
import subprocess
import sys
import textwrap

import pytest
from child_programs import python, run

import torchlite

pytestmark = pytest.mark.no_leak_check(reason="the work is done in another process")

REPORT = """\
import sys
print(sys.argv, sys.path[0], __name__, __file__, __package__, __spec__ is None)
print(sys.modules["__main__"].__dict__ is globals())
print(sorted(k for k in globals() if k.startswith("__") and "annot" not in k))
"""


def launch(*arguments, **options):
    return python("-m", "torchlite", "run", *arguments, **options)


def test_a_script_sees_what_python_shows_it(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "script.py").write_text(REPORT)
    arguments = ["folder/script.py", "one", "--two", "-c"]
    mine, theirs = launch(*arguments, cwd=tmp_path), python(*arguments, cwd=tmp_path)
    assert mine.stdout.split("\n")[0] == theirs.stdout.split("\n")[0]
    assert mine.stdout.startswith("['folder/script.py', 'one', '--two', '-c']")
    assert mine.stdout.split("\n")[1].startswith("True")


def test_a_module_sees_what_python_shows_it(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("")
    (tmp_path / "package" / "__main__.py").write_text(REPORT + "from . import other\n")
    (tmp_path / "package" / "other.py").write_text("print(__name__)\n")
    arguments = ["-m", "package", "one"]
    assert launch(*arguments, cwd=tmp_path).stdout == python(*arguments, cwd=tmp_path).stdout


def test_code_sees_what_python_shows_it(tmp_path):
    arguments = ["-c", "import sys; print(sys.argv, sys.path[0], __name__)", "one"]
    assert launch(*arguments, cwd=tmp_path).stdout == python(*arguments, cwd=tmp_path).stdout


def test_a_folder_with_a_main_is_a_program(tmp_path):
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "__main__.py").write_text("import beside\nprint(beside.x, __name__)\n")
    (tmp_path / "program" / "beside.py").write_text("x = 3\n")
    assert launch("program", cwd=tmp_path).stdout == "3 __main__\n"


def test_torch_is_torchlite_even_beside_another_torch(tmp_path):
    (tmp_path / "torch.py").write_text("raise AssertionError('the wrong one')\n")
    (tmp_path / "script.py").write_text("import torch\nfrom torch.autograd import Variable\nprint(torch.__name__)\n")
    assert launch("script.py", cwd=tmp_path).stdout == "torchlite\n"


@pytest.mark.parametrize(
    "statement, status",
    [("", 0), ("sys.exit(7)", 7), ("sys.exit('words')", 1), ("sys.exit()", 0), ("1 / 0", 1), ("x = (", 1),
     ("raise KeyboardInterrupt", -signal.SIGINT)],
)  # fmt: skip
def test_exit_status_and_stderr_are_pythons(tmp_path, statement, status):
    (tmp_path / "script.py").write_text(f"import sys\ndef f():\n    {statement or 'pass'}\nf()\n")
    mine, theirs = (command("script.py", cwd=tmp_path, check=False) for command in (launch, python))
    assert mine.returncode == theirs.returncode == status
    assert mine.stderr.replace(str(tmp_path) + "/", "") == theirs.stderr.replace(str(tmp_path) + "/", "")


def test_chained_exceptions_and_errors_in_imports_are_reported_as_pythons(tmp_path):
    (tmp_path / "helper.py").write_text("def f():\n    try:\n        1 / 0\n    except ZeroDivisionError as e:\n"
                                        "        raise ValueError('bad') from e\n")
    (tmp_path / "script.py").write_text("import helper\nhelper.f()\n")
    mine, theirs = (command("script.py", cwd=tmp_path, check=False) for command in (launch, python))
    assert mine.stderr.replace(str(tmp_path) + "/", "") == theirs.stderr.replace(str(tmp_path) + "/", "")


def test_the_programs_own_excepthook_is_called(tmp_path):
    done = run("""
        import sys, traceback
        sys.excepthook = lambda kind, value, tb: print("hook", kind.__name__, len(traceback.extract_tb(tb)))
        raise ValueError
    """, check=False)
    assert done.stdout == "hook ValueError 1\n" and done.stderr == "" and done.returncode == 1


@pytest.mark.parametrize("arguments", [["no_such_file.py"], ["-m", "no_such_module"]], ids=" ".join)
def test_a_missing_program_is_reported_as_python_does(tmp_path, arguments):
    mine, theirs = (command(*arguments, cwd=tmp_path, check=False) for command in (launch, python))
    assert mine.returncode == theirs.returncode
    assert arguments[-1] in mine.stderr and "Traceback" not in mine.stderr


def test_a_program_can_be_run_from_a_pipe_of_output(tmp_path):
    command = f"{sys.executable} -m torchlite run -c 'print(1)' | cat"
    done = subprocess.run(["sh", "-c", f"PYTHONPATH={':'.join(sys.path)} {command}"], capture_output=True, text=True)
    assert done.stdout == "1\n"


def test_pickles_name_the_programs_main(tmp_path):
    (tmp_path / "script.py").write_text(textwrap.dedent("""
        import pickle, torch
        class Net(torch.nn.Module):
            pass
        print(type(pickle.loads(pickle.dumps(Net()))) is Net, Net.__module__)
    """))
    assert launch("script.py", cwd=tmp_path).stdout == "True __main__\n"


@pytest.mark.parametrize("arguments", [[], ["--help"], ["run", "--help"]], ids=" ".join)
def test_help(arguments):
    assert python("-m", "torchlite", *arguments).stdout.startswith("usage: python -m torchlite run SCRIPT")


def test_version():
    assert python("-m", "torchlite", "--version").stdout == f"torchlite {torchlite.__version__}\n"


@pytest.mark.parametrize("arguments", [["walk"], ["run"], ["run", "-m"], ["run", "-x", "f.py"]], ids=" ".join)
def test_wrong_usage_is_status_2(arguments):
    done = python("-m", "torchlite", *arguments, check=False)
    assert done.returncode == 2 and "usage:" in done.stderr and done.stdout == ""


def test_a_program_of_unit_tests_finds_its_tests(tmp_path):
    (tmp_path / "common.py").write_text(textwrap.dedent("""
        import argparse, sys, unittest
        import torch
        torch.set_default_tensor_type('torch.DoubleTensor')
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument('--seed', type=int, default=123)
        args, remaining = parser.parse_known_args()
        torch.manual_seed(args.seed)
        UNITTEST_ARGS = [sys.argv[0]] + remaining

        def run_tests():
            unittest.main(argv=UNITTEST_ARGS)
    """))
    (tmp_path / "test_it.py").write_text(textwrap.dedent("""
        import unittest
        import torch
        from common import run_tests
        from torch.autograd import Variable
        from torch.autograd._functions import *

        class TestIt(unittest.TestCase):
            def test_mul(self):
                x = Variable(torch.ones(2, 2), requires_grad=True)
                y = Mul.apply(x, x)
                self.assertEqual(type(y.grad_fn).__name__, "MulBackward")
                self.assertEqual(y.data.type(), "torch.DoubleTensor")
                self.assertEqual(reduce(lambda a, b: a + b, [1, 2]), 3)

        from functools import reduce
        if __name__ == '__main__':
            run_tests()
    """))
    done = launch("test_it.py", "--seed", "3", "-v", cwd=tmp_path)
    assert "test_mul" in done.stderr and "OK" in done.stderr
    assert launch("test_it.py", "TestIt.test_none", cwd=tmp_path, check=False).returncode == 1
