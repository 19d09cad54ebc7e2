"""tools/capi_lint.py finds nothing in csrc/, and finds each fault that is planted in a snippet."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
spec = importlib.util.spec_from_file_location("capi_lint", ROOT / "tools" / "capi_lint.py")
capi_lint = importlib.util.module_from_spec(spec)
spec.loader.exec_module(capi_lint)


@pytest.mark.no_leak_check(reason="the linter is no part of torchlite")
def test_csrc_is_clean(capsys):
    assert capi_lint.main([]) == 0, capsys.readouterr().out


TYPE = """
void node_tp_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_TRASHCAN_BEGIN(self, node_tp_dealloc)
  PyObject_ClearWeakRefs(self);
  node_tp_clear(self);
  Py_TYPE(self)->tp_free(self);
  Py_TRASHCAN_END
}
PyTypeObject NodeType = {
    .tp_dealloc = node_tp_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
};
"""

FAULTS = {
    "no traverse": ("gc-trio", TYPE.replace(".tp_traverse = node_tp_traverse,", "")),
    "no clear": ("gc-trio", TYPE.replace(".tp_clear = node_tp_clear,", "")),
    "never untracked": ("untrack", TYPE.replace("PyObject_GC_UnTrack(self);", "")),
    "untracked in a comment only": ("untrack", TYPE.replace("PyObject_GC_UnTrack(self);", "// PyObject_GC_UnTrack")),
    "untracked too late": ("untrack", TYPE.replace("  PyObject_GC_UnTrack(self);\n", "").replace(
        "node_tp_clear(self);\n", "node_tp_clear(self);\n  PyObject_GC_UnTrack(self);\n")),
    "trashcan not closed": ("trashcan", TYPE.replace("Py_TRASHCAN_END", "")),
    "trashcan not opened": ("trashcan", TYPE.replace("Py_TRASHCAN_BEGIN(self, node_tp_dealloc)", "")),
    "incref by hand": ("refcount", "void f(PyObject* x) { Py_INCREF(x); }"),
    "decref with another comment": ("refcount", "void f(PyObject* x) { Py_XDECREF(x); }  // done"),
    "traverse that counts": ("pure", "int a_tp_traverse(PyObject* s, visitproc v, void* a) { auto r = borrow(s); }"),
    "swallowed error": ("swallow", "void f() {\n\n  PyErr_Clear();\n}"),
    "macro": ("macro", "#define TWICE(x) ((x) * 2)"),
    "goto": ("goto", "void f() { goto done; done:; }"),
}


@pytest.mark.parametrize("rule, source", FAULTS.values(), ids=FAULTS.keys())
def test_planted_fault_is_found(rule, source):
    assert {finding.rule for finding in capi_lint.lint_text("x.cpp", source)} == {rule}


CLEAN = {
    "a collected type": TYPE,
    "a dealloc that delegates": TYPE.replace("node_tp_dealloc", "base_dealloc")
    + "void leaf_tp_dealloc(PyObject* self) { base_dealloc(self); }"
    + "PyTypeObject LeafType{.tp_dealloc = leaf_tp_dealloc, .tp_flags = Py_TPFLAGS_HAVE_GC, .tp_traverse = t,"
    + " .tp_clear = c};",
    "an uncollected type": "void a_tp_dealloc(PyObject* s) { tp_free(s); }\n"
    + "PyTypeObject A = {.tp_dealloc = a_tp_dealloc};",
    "a reasoned incref": "// refcount: tp_alloc's reference to a static type is not counted\nPy_INCREF(type);",
    "a reasoned clear": "PyErr_Clear();  // an absent attribute means the default",
    "a clear of one kind of error": "if (!PyErr_ExceptionMatches(PyExc_KeyError)) throw PyError();\nPyErr_Clear();",
    "an object-like macro": "#define PY_SSIZE_T_CLEAN",
    "names in literals": 'const char* doc = "goto Py_INCREF(x) PyErr_Clear()"; char c = \'"\';',
}


@pytest.mark.parametrize("source", CLEAN.values(), ids=CLEAN.keys())
def test_sound_code_passes(source):
    assert capi_lint.lint_text("x.cpp", source) == []


@pytest.mark.parametrize("file, include, found", [
    ("csrc/tensor/a.cpp", "autograd/variable.h", True),
    ("csrc/tensor/a.cpp", "utils/py_ref.h", False),
    ("csrc/autograd/ops/a.cpp", "tensor/tensor.h", False),
    ("csrc/autograd/a.cpp", "ir/ir.h", True),
    ("csrc/cuda/a.cpp", "autograd/variable.h", True),
    ("csrc/module.cpp", "ir/ir.h", False),
])
def test_includes_point_downwards(file, include, found):
    assert bool(capi_lint.lint_text(file, f'#include "{include}"\n')) == found
