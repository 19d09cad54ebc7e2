"""What holds for the tree as a whole: a README a folder, files of readable length, one version, a small extension."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TOPS = ["csrc", "torchlite", "tests", "tools", "examples"]
SUFFIXES = {".py", ".pyi", ".cpp", ".h", ".md", ".sh"}
MAX_LINES = 700
MAX_EXTENSION_MB = 5


def sources():
    skip = {"__pycache__", ".mypy_cache", ".hypothesis"}
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*")):
            if path.is_file() and path.suffix in SUFFIXES and not skip & set(path.parts):
                yield path


def test_every_folder_has_a_readme():
    folders = {path.parent for path in sources()}
    assert [str(f.relative_to(ROOT)) for f in sorted(folders) if not (f / "README.md").exists()] == []


def test_every_readme_opens_with_a_heading():
    readmes = [path for path in sources() if path.name == "README.md"]
    assert [str(p.relative_to(ROOT)) for p in readmes if not p.read_text().startswith("# ")] == []


def test_no_file_is_too_long():
    read = [path for path in sources() if path.suffix != ".pyi"]  # stubs are lists, most of them generated
    long = {str(p.relative_to(ROOT)): n for p in read if (n := p.read_text().count("\n")) > MAX_LINES}
    assert long == {}


def test_the_version_is_the_same_everywhere():
    import torchlite

    assert re.search(r'^version = "(.*)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)[1] == (
        torchlite.__version__)


def test_the_extension_is_small():
    import torchlite._C

    path = Path(torchlite._C.__file__)
    if "asan" in path.parts:
        pytest.skip("a sanitizer's instrumentation is not the extension's size")
    assert path.stat().st_size < MAX_EXTENSION_MB * 1e6


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_import_leaves_the_optional_packages_alone():
    script = ("import sys, torchlite; wanted = {'cupy', 'torch', 'tqdm', 'safetensors', 'scipy'} & set(sys.modules);"
              "print(sorted(wanted))")
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
