"""The type stubs name exactly what the package and its extension hold, and a typed program passes mypy."""

import ast
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import torchlite
from torchlite import _C

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "torchlite"
# Whether these appear on a class depends on the version of Python or says nothing to a type checker.
NOT_IN_STUBS = re.compile(
    r"__(doc|dict|weakref|module|slots|new|init|repr|str|format|reduce|reduce_ex|setattr|delattr|getattribute|hash|"
    r"delitem|eq|ne|lt|le|gt|ge|match_args|getnewargs|static_attributes|firstlineno|buffer|release_buffer)__$"
)


def names_in(body):
    """Names that the statements of a stub bind."""
    names = set()
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign):
            names.add(node.target.id)
        elif isinstance(node, ast.Assign):
            names.update(target.id for target in node.targets)
    return names


def stub(name):
    return ast.parse((PACKAGE / name).read_text())


CLASSES = {node.name: node for node in stub("_C.pyi").body if isinstance(node, ast.ClassDef)}
TYPES = {name: value for name, value in vars(_C).items() if isinstance(value, type)}


def test_the_stub_of_the_extension_names_what_the_extension_holds():
    helpers = {"_Array", "_Data", "_VariableData", "_Node", "_OpTable", "_bool", "_float", "_int", "_str", "_type"}
    real = {name for name in vars(_C) if not name.startswith("__")}
    assert names_in(stub("_C.pyi").body) - helpers == real


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_class_in_the_stub_has_the_members_of_the_type(name):
    real = {member for member in vars(TYPES[name]) if not NOT_IN_STUBS.match(member)}
    in_stub = {member for member in names_in(CLASSES[name].body) if not NOT_IN_STUBS.match(member)}
    if name == "Size":  # a tuple, with the results of its own operators narrowed
        real = {member for member in real if not member.startswith("__")}
    assert sorted(real - in_stub) == [], "missing in the stub"
    assert sorted(in_stub - real) == [], "only in the stub"


@pytest.mark.parametrize("name", sorted(TYPES))
def test_a_class_in_the_stub_has_the_base_of_the_type(name):
    base = TYPES[name].__base__
    bases = [ast.unparse(b).partition("[")[0] for b in CLASSES[name].bases]
    assert bases == ([] if base is object else ["_Node" if base is _C._functions.Node else base.__name__])


def test_the_stub_of_the_package_names_what_the_package_holds():
    tree = stub("__init__.pyi")
    names = names_in(tree.body)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            names.update(alias.asname for alias in node.names if alias.asname)
    lazy = torchlite._LAZY | {name for names in torchlite._LAZY_NAMES.values() for name in names}
    helpers = {"_Array", "_bool", "_float", "_int", "_str", "_X"}
    private = {"_LAZY", "_LAZY_NAMES", "_Any", "version"}
    private |= {name for name, value in vars(torchlite).items() if name[0] == "_" and isinstance(value, ModuleType)}
    real = {name for name in vars(torchlite) if not name.startswith("__")} | lazy | {"__version__"}
    assert sorted(names - helpers - real) == [], "only in the stub"
    assert sorted(real - names - private) == [], "missing in the stub"


def test_the_parts_from_the_op_table_are_current():
    spec = importlib.util.spec_from_file_location("stubs", ROOT / "tools" / "stubs.py")
    stubs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(stubs)
    stale = [name for name in ("_C.pyi", "__init__.pyi")
             if stubs.updated((PACKAGE / name).read_text()) != (PACKAGE / name).read_text()]
    assert stale == [], "run tools/stubs.py"


@pytest.mark.no_leak_check(reason="the work is done in another process")
def test_a_typed_program_passes_mypy(tmp_path):
    pytest.importorskip("mypy")
    command = [sys.executable, "-m", "mypy", "--check-untyped-defs", "--disallow-untyped-defs", "--warn-unused-ignores",
               "--follow-imports=silent", "--no-incremental", f"--cache-dir={tmp_path}",
               str(Path(__file__).with_name("typed_program.py"))]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert result.returncode == 0, result.stdout + result.stderr
