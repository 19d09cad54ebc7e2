// The name of the package that the classes of data belong to. "torchlite", unless the package stands in for another.
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

}  // namespace

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
