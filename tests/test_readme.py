"""The Python snippets of README.md and docs/ run, and give what they say.

The ```python blocks of a page share a namespace. A line `expression  # => text` states the repr of the expression.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import torchlite

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class _Statements(ast.NodeTransformer):
    """Turns each expression statement whose line states a result into a comparison."""

    def __init__(self, lines):
        self.lines = lines

    def visit_Expr(self, node):
        _, arrow, stated = self.lines[node.end_lineno - 1].partition("# => ")
        if not arrow:
            return node
        call = ast.parse(f"_state(None, {stated.strip()!r}, {node.lineno})", mode="eval").body
        call.args[0] = node.value
        return ast.copy_location(ast.Expr(call), node)


def run_page(text, name):
    def state(value, stated, line):
        assert repr(value) == stated, f"{name}, line {line}"

    namespace = {"__name__": "snippet", "_state": state}
    for block in BLOCK.finditer(text):
        first_line = text.count("\n", 0, block.start(1))
        tree = ast.parse("\n" * first_line + block[1], name)
        tree = ast.fix_missing_locations(_Statements(text.split("\n")).visit(tree))
        exec(compile(tree, name, "exec"), namespace)


# What these declare stays for the life of a process, so that is another one.
DECLARING = [page for page in PAGES if "define_op(" in page.read_text()]


@pytest.mark.parametrize("page", [page for page in PAGES if page not in DECLARING], ids=lambda page: page.name)
def test_snippets_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_page(page.read_text(), page.name)


@pytest.mark.no_leak_check(reason="the work is done in a child process")
@pytest.mark.parametrize("page", DECLARING, ids=lambda page: page.name)
def test_snippets_that_declare_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    program = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_readme\n"
    program += f"test_readme.run_page({text!r}, {page.name!r})"
    path = os.pathsep.join([str(Path(torchlite.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    child = subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": path}, capture_output=True,
                           text=True, timeout=60)
    assert child.returncode == 0, child.stderr


def test_a_wrong_statement_is_found():
    with pytest.raises(AssertionError, match="page, line 2"):
        run_page("```python\n1 + 1  # => 3\n```\n", "page")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#:]+)\)", prose)
    assert [link for link in links if not (page.parent / link).exists()] == []
