"""The leak harness turns red on planted leaks and stays green on what merely looks like one."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import torchlite

pytestmark = pytest.mark.no_leak_check(reason="looks at a pytest session that ran once, in another process")

LEAKS = {
    "tracked objects": "kept = []\ndef test_it():\n    kept.append([])\n",
    "untracked blocks": "kept = []\ndef test_it():\n    kept.append(b'x' * (300 + len(kept)))\n",
    "a reference to a lasting object": """
        import ctypes
        import numpy as np
        def test_it():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(np.add))
        """,
    "in a fixture": """
        import pytest
        kept = []
        @pytest.fixture
        def thing():
            kept.append([])
            yield 1
        def test_it(thing):
            assert thing == 1
        """,
    "one of several parameters": """
        import pytest
        kept = []
        @pytest.mark.parametrize("leaks", [False, True])
        def test_it(leaks):
            if leaks:
                kept.append([leaks])
        """,
    "objects of the extension": """
        import numpy as np
        from torchlite import Variable
        kept = []
        def test_it():
            kept.append(Variable(np.ones(3)))
        """,
    "a hypothesis test": """
        import numpy as np
        from hypothesis import given, strategies as st
        from torchlite import Variable
        kept = []
        @given(st.integers())
        def test_it(x):
            kept.append(Variable(np.ones(3)))
        """,
    "a function of a graph": """
        import numpy as np
        from torchlite import Variable
        from torchlite.autograd import Function
        class Keeping(Function):
            kept = []
            @staticmethod
            def forward(ctx, x):
                Keeping.kept.append(ctx)
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g * 2
        def test_it():
            Keeping.apply(Variable(np.ones(3), requires_grad=True)).sum().backward()
        """,
    "bytes of the allocator": """
        import numpy as np
        from torchlite import Variable
        class Hook:
            kept = np.ones(0)
            def __call__(self, gradient):
                Hook.kept = np.concatenate([Hook.kept, gradient.data.numpy()])
        x = Variable(np.ones(3), requires_grad=True)
        x.register_hook(Hook())
        total = []
        def test_it():
            (x * 2).sum().backward()
            total.append((x * 2).data)
        """,
    "a callback that holds its graph": """
        import numpy as np
        from torchlite import Variable
        x = Variable(np.ones(3), requires_grad=True)
        def test_it():
            y = x * 2
            x.register_hook(lambda g, y=y: None)
        """,
    "a reference that traverse does not know": """
        import ctypes
        import numpy as np
        from torchlite import Variable
        def test_it():
            y = Variable(np.ones(3), requires_grad=True) * 2
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(y.grad_fn))
        """,
    "in a method": """
        kept = []
        class TestIt:
            def setup_method(self):
                self.x = []
            def test_it(self):
                kept.append(self.x + [1])
        """,
}


CLEAN = {
    "nothing": "def test_it():\n    assert [1]\n",
    "a cycle": "def test_it():\n    x = []\n    x.append(x)\n",
    "a cache that fills once": """
        import functools
        @functools.lru_cache
        def f(x):
            return [x]
        def test_it():
            f(1)
        """,
    "fresh fixtures each run": """
        def test_it(tmp_path, monkeypatch):
            (tmp_path / "made").mkdir()
            monkeypatch.setenv("X", "1")
        """,
    "a fixture that must be new": """
        import pytest
        @pytest.fixture
        def things():
            made = []
            yield made
            made.clear()
        @pytest.mark.parametrize("n", [1, 2])
        def test_it(things, n):
            things.append(n)
            assert things == [n]
        """,
    "a fixture that uses a wider one": """
        import pytest
        @pytest.fixture(scope="module")
        def wide():
            return 1
        @pytest.fixture
        def narrow(wide):
            yield wide
        def test_it(narrow, request):
            request.addfinalizer(lambda: None)
        """,
    "hypothesis": """
        from hypothesis import given, strategies as st
        @given(st.integers())
        def test_it(x):
            assert x == x
        """,
}


OTHER = {
    "exempt": """
        import pytest
        runs = []
        @pytest.mark.no_leak_check(reason="counts its runs")
        def test_it():
            runs.append(1)
        def test_count():
            assert runs == [1]
        """,
    "exempt without a reason": """
        import pytest
        @pytest.mark.no_leak_check
        def test_it():
            pass
        """,
    "failing and skipped": """
        import pytest
        runs = []
        def test_fails():
            runs.append(1)
            assert False
        def test_skips():
            runs.append(1)
            pytest.skip("no")
        def test_count():
            assert runs == [1, 1]
        """,
}


def file_name(case):
    return "test_" + re.sub(r"\W", "_", case) + ".py"


def run_pytest(folder, *options):
    """Runs the tests of `folder` under the harness; its output, a line for each outcome included."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = no_leak_check(reason): exempt\n")
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(torchlite.__file__).parents[1])])
    environment = {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
    command = [sys.executable, "-m", "pytest", "-p", "leak_harness", "-p", "no:cacheprovider",
               "-rA", *options]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False).stdout


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    """The report of one session over every case below, and a look-up of the outcomes in it by case."""
    folder = tmp_path_factory.mktemp("cases")
    for case, source in (LEAKS | CLEAN | OTHER).items():
        (folder / file_name(case)).write_text(textwrap.dedent(source))
    report = run_pytest(folder)

    def outcome(case):
        lines = re.findall(rf"^(PASSED|FAILED|ERROR) {re.escape(file_name(case))}::(.*)$", report, re.MULTILINE)
        assert lines, report
        return lines

    return outcome


@pytest.mark.parametrize("case", LEAKS)
def test_planted_leak_fails(outcome, case):
    failed = [line for state, line in outcome(case) if state == "FAILED"]
    assert len(failed) == 1 and "leak: the test passes" in failed[0]


@pytest.mark.parametrize("case", CLEAN)
def test_clean_test_passes(outcome, case):
    assert {state for state, _ in outcome(case)} == {"PASSED"}


def test_exempt_test_runs_once(outcome):
    assert [state for state, _ in outcome("exempt")] == ["PASSED", "PASSED"]


def test_exemption_needs_a_reason(outcome):
    assert [state for state, _ in outcome("exempt without a reason")] == ["ERROR"]


def test_failing_and_skipped_tests_are_not_run_again(outcome):
    assert sorted(state for state, _ in outcome("failing and skipped")) == ["FAILED", "PASSED"]


def test_option_switches_the_harness_off(tmp_path):
    (tmp_path / "test_it.py").write_text(LEAKS["tracked objects"])
    assert "1 passed" in run_pytest(tmp_path, "--no-leak-check")
