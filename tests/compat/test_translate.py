"""Sources with async as a name."""

import pytest
from child_programs import python

from torchlite.compat.translate import compile_source, translate

CASES = {
    "x.cuda(async=True)": "x.cuda(async_=True)",
    "def f(async=False, *, b=1): return async": "def f(async_=False, *, b=1): return async_",
    "self.async = other.async": "self.async_ = other.async_",
    "f(async)": "f(async_)",
    "f(1, async = True, b=async)": "f(1, async_ = True, b=async_)",
    "'async'  # async=1": "'async'  # async=1",
    "async def g():\n    async with h() as i:\n        async for j in i: pass\n    k(async=1)": (
        "async def g():\n    async with h() as i:\n        async for j in i: pass\n    k(async_=1)"),
    "é = f(async=1); g(async=2)": "é = f(async_=1); g(async_=2)",
    "f(\n  a,\n  async=1,\n)\n": "f(\n  a,\n  async_=1,\n)\n",
    "asynchronous = my_async": "asynchronous = my_async",
    "if a:\n\tf(async=1)\n": "if a:\n\tf(async_=1)\n",
}  # fmt: skip


@pytest.mark.parametrize("source", CASES, ids=range(len(CASES)))
def test_names_are_translated_and_nothing_else(source):
    assert translate(source) == CASES[source]
    assert translate(source).count("\n") == source.count("\n")


def test_a_source_that_compiles_is_not_touched():
    assert compile_source(b"async def f():\n    return [x async for x in y]\n", "f.py")[1] is False


@pytest.mark.parametrize("source", ["x = (", "f(async=1", "async = ="])
def test_the_original_error_is_reported(source):
    with pytest.raises(SyntaxError) as caught:
        compile_source(source.encode(), "file.py")
    with pytest.raises(SyntaxError) as expected:
        compile(source, "file.py", "exec")
    assert caught.value.args == expected.value.args and caught.value.__cause__ is None


def test_the_declared_encoding_is_respected():
    code, translated = compile_source("# coding: latin-1\nx = 'é'; y = dict(async=1)\n".encode("latin-1"), "f.py")
    namespace = {}
    exec(code, namespace)
    assert translated and namespace["x"] == "é" and namespace["y"] == {"async_": 1}


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_local_imports_are_translated_with_their_line_numbers(tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("from .part import move\n")
    (tmp_path / "package" / "part.py").write_text("def move(async=False):\n    if async:\n        raise ValueError\n")
    (tmp_path / "script.py").write_text("import package\npackage.move()\n\npackage.move(async=True)\n")
    done = python("-m", "torchlite", "run", "script.py", cwd=tmp_path, check=False)
    assert 'script.py", line 4' in done.stderr and 'part.py", line 3' in done.stderr
    assert "    package.move(async=True)" in done.stderr
    # The next plain import still fails: no translated code is left in the cache.
    assert "SyntaxError" in python("-c", "import package", cwd=tmp_path, check=False).stderr


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_methods_take_the_translated_keyword(tmp_path):
    python("-m", "torchlite", "run", "-c", "import torch\nt = torch.ones(2).type('torch.DoubleTensor', async=True)\n"
           "print(t.float(async=True).type(), torch.ones(2).copy_(t, async=True).sum())")


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_modules_elsewhere_are_not_translated(tmp_path):
    (tmp_path / "library").mkdir()
    (tmp_path / "program").mkdir()
    (tmp_path / "library" / "foreign.py").write_text("def f(async=1): pass\n")
    (tmp_path / "program" / "script.py").write_text(
        f"import sys\nsys.path.append({str(tmp_path / 'library')!r})\nimport foreign\n")
    done = python("-m", "torchlite", "run", "program/script.py", cwd=tmp_path, check=False)
    assert "SyntaxError" in done.stderr and "foreign.py" in done.stderr


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_a_local_file_does_not_hide_a_module_that_is_built_in(tmp_path):
    (tmp_path / "time.py").write_text("x = 1\n")
    (tmp_path / "script.py").write_text("import time\nprint(hasattr(time, 'x'))\n")
    assert python("-m", "torchlite", "run", "script.py", cwd=tmp_path).stdout == "False\n"
