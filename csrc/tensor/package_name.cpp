// The name of the package that the classes of data belong to. "torchlite", unless the package stands in for another.
//
// These classes have a metaclass of their own for one purpose: their `__module__` can be assigned, although they are
// static types, so that `type()` and reprs say what a program calls the package. Everything else about them is fixed.
#include <cstring>
#include <unordered_set>

#include "tensor/python_tensor.h"
#include "tensor/storage.h"

namespace torchlite {

namespace {

// A type's name is read, and kept by whoever formats a message, as a bare pointer: every name stays for ever.
const char* keep(std::string name) {
  static std::unordered_set<std::string> names;
  return names.insert(std::move(name)).first->c_str();
}

// Static types have no `__module__` of their own: it is what stands before the last dot of the name. The package is what
// stands before the first.
void rename(PyTypeObject* type, const std::string& package) {
  type->tp_name = keep(package + strchr(type->tp_name, '.'));
  PyType_Modified(type);
}

int data_class_tp_setattro(PyObject* cls, PyObject* name, PyObject* value) {
  auto* type = reinterpret_cast<PyTypeObject*>(cls);
  bool is_module = PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, "__module__") == 0;
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !is_module) return PyType_Type.tp_setattro(cls, name, value);
  return guard(-1, [&] {
    if (!value || !PyUnicode_Check(value))
      type_error("%s.__module__ must be a str, not %.100s", type->tp_name, value ? type_name(value) : "nothing");
    const char* module = PyUnicode_AsUTF8(value);
    if (!module) throw PyError();
    type->tp_name = keep(std::string(module) + strrchr(type->tp_name, '.'));
    PyType_Modified(type);
    return 0;
  });
}

}  // namespace

PyTypeObject DataClass_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._DataClass",
    .tp_setattro = data_class_tp_setattro,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Class of the classes of tensors and storages and of Size.",
};

void init_data_class() {
  DataClass_Type.tp_base = &PyType_Type;
  check(PyType_Ready(&DataClass_Type));
}

PyObject* set_package_name(PyObject*, PyObject* name) {
  return guard([&]() -> PyObject* {
    if (!PyUnicode_Check(name)) type_error("_set_package_name: the name must be a str, not %.100s", type_name(name));
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) throw PyError();
    if (!*text || strchr(text, '.')) value_error("_set_package_name: %R is not the name of a package", name);
    for (PyTypeObject& type : TensorTypes) rename(&type, text);
    for (PyTypeObject& type : StorageTypes) rename(&type, text);
    rename(&Size_Type, text);
    return none();
  });
}

}  // namespace torchlite
