"""The programs of examples/era run under `python -m torchlite run`, and what they print makes sense."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "era"

pytestmark = pytest.mark.no_leak_check(reason="the work is done in another process")


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "torchlite", "run", str(FOLDER / f"{name}.py"), *arguments],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def numbers(text, pattern):
    found = re.search(pattern, text)
    assert found, text
    return [float(group) for group in found.groups()]


def test_every_program_is_tested():
    tested = {"polynomial_regression", "custom_function", "reinforce", "char_rnn", "volatile_inference", "hooks"}
    assert {path.stem for path in FOLDER.glob("*.py")} == tested


def test_polynomial_regression_finds_the_polynomial():
    text = run("polynomial_regression")
    learned, actual = (numbers(text, word + r" +y = (\S+) (\S+) x\^1 (\S+) x\^2 (\S+) x\^3")
                       for word in ("learned", "actual"))
    assert all(abs(a - b) < 0.1 for a, b in zip(learned, actual, strict=True))


def test_custom_functions_train_alike_in_both_styles():
    text = run("custom_function")
    old = numbers(text, r"old style: loss (\S+) -> (\S+)")
    new = numbers(text, r"new style: loss (\S+) -> (\S+)")
    assert old == pytest.approx(new, rel=1e-3) and old[1] < old[0] / 50
    assert "gradcheck: True" in text


def test_reinforce_improves_the_policy():
    first, last = numbers(run("reinforce"), r"first 20: (\S+)  last 20: (\S+)")
    assert last > 2 * first


def test_char_rnn_learns_the_text():
    text = run("char_rnn")
    first, last = numbers(text, r"loss (\S+) -> (\S+)")
    assert last < first / 5
    assert len(set(re.findall(r"[a-z]+", text.rpartition("sample: ")[2])) & {"a", "rose", "is", "the", "sea"}) >= 3


def test_volatile_inference_builds_no_graph():
    text = run("volatile_inference")
    correct, of = numbers(text, r"accuracy (\d+)/(\d+)")
    assert correct > 0.9 * of
    assert "volatile: True  requires_grad: False  grad_fn: None" in text
    assert "backward refused: element 0 of variables tuple is volatile" in text


def test_hooks_see_and_change_gradients():
    text = run("hooks")
    assert numbers(text, r"without clipping: \S+ \.\.\. (\S+)")[0] > 1e5
    assert numbers(text, r"with clipping: +\S+ \.\.\. (\S+)")[0] <= 1.001
    assert "calls of a removed hook: 1\n" in text
    assert "layer: [('forward', (5, 4)), ('backward', (5, 4))]" in text
    assert "node: [1.0, 1.0, 1.0] -> [3.0, 3.0, 3.0]" in text
