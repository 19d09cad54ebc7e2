"""An autograd package of its own, in Python, on the extension (see foreign/README.md)."""

import functools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from child_programs import ROOT, python

FOLDER = Path(__file__).parent / "foreign"
PATHS = [str(FOLDER), str(ROOT)]

pytestmark = pytest.mark.no_leak_check(reason="the work is done in another process")


def child(program, *arguments):
    code = f"import sys, runpy; sys.path[:0] = {PATHS!r}; sys.argv = {[program, *arguments]!r}; "
    return python("-c", code + f"runpy.run_path({str(FOLDER / program)!r}, run_name='__main__')").stdout


@functools.cache
def results():
    return json.loads(child("checks.py"))


@pytest.mark.parametrize("name", child("checks.py", "--list").split())
def test_it_runs(name):
    assert results()[name] == "", results()[name]


def test_its_functions_pass_the_table_of_torchlites():
    outcome = json.loads(child("function_table.py"))
    assert outcome["failures"] == {} and outcome["entries"] > 400


# In-place forms that this package lacks come from the extension's base class, whose steps have no second derivative.
NOT_ITS_OWN = [f"test_in_place_form_has_the_gradients_of_the_method[{name}"
               for name in ("pow-constant_0", "sign", "floor", "ceil", "round", "trunc")]  # fmt: skip


def test_the_tests_of_the_era_pass_on_it():
    environment = {**os.environ, "TORCHLITE_ERA_PACKAGE": "torch", "PYTHONPATH": os.pathsep.join(PATHS)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/era", "-q", "--no-leak-check", "-p", "no:cacheprovider"],
        capture_output=True, text=True, env=environment, cwd=ROOT,
    )  # fmt: skip
    failed = [line for line in done.stdout.split("\n") if line.startswith(("FAILED", "ERROR"))]
    assert [line for line in failed if not any(name in line for name in NOT_ITS_OWN)] == [], done.stdout[-3000:]
    assert "[100%]" in done.stdout


def test_a_wrong_formula_would_be_found():
    """The checks can fail: with a wrong derivative planted its check fails, and no other."""
    planted = "import torch.autograd._functions.pointwise as p; p.Atan.derivative = staticmethod(lambda g, i: g * i)"
    code = f"import sys; sys.path[:0] = {PATHS!r}; {planted}; import checks; "
    failed = python("-c", code + "checks.main([n for n in checks.CHECKS if n[4:] in ('Asin', 'Atan')])").stdout
    outcome = json.loads(failed)
    assert [name[4:] for name, text in outcome.items() if text] == ["Atan"] and len(outcome) == 2
