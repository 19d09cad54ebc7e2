// The classes Expr and Arg of the Python package on top, as `_autograd_init` finds them.
//
// Objects of the IR are made by C++ and have types of their own. To a package that derives Expr from `_ExprBase` they
// nevertheless are Exprs: the class that it registers gets a metaclass that counts every object of the base as an
// instance. A package whose Expr is `_ExprBase` itself needs none of this.
#include "autograd/python_function.h"
#include "ir/ir.h"
#include "utils/errors.h"

namespace torchlite::ir {

namespace {

struct Registered {
  PyTypeObject* base;
  PyTypeObject* cls;  // owned; nullptr if none, or the base itself
};

Registered registered[] = {{&ExprBase_Type, nullptr}, {&ArgBase_Type, nullptr}};

PyTypeObject* base_of_registered(PyObject* cls) {
  for (const Registered& r : registered)
    if (reinterpret_cast<PyObject*>(r.cls) == cls) return r.base;
  return nullptr;
}

PyObject* instance_check(PyObject* cls, PyObject* object) {
  PyTypeObject* base = base_of_registered(cls);
  return PyBool_FromLong(PyObject_TypeCheck(object, base ? base : reinterpret_cast<PyTypeObject*>(cls)));
}

PyObject* subclass_check(PyObject* cls, PyObject* type) {
  return guard([&]() -> PyObject* {
    if (!PyType_Check(type)) type_error("issubclass() arg 1 must be a class, not %.100s", type_name(type));
    PyTypeObject* base = base_of_registered(cls);
    return PyBool_FromLong(
        PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), base ? base : reinterpret_cast<PyTypeObject*>(cls)));
  });
}

PyMethodDef class_methods[] = {
    {"__instancecheck__", instance_check, METH_O, nullptr},
    {"__subclasscheck__", subclass_check, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyTypeObject RegisteredClass_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._RegisteredClass",
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "Class of the Expr and Arg that a package has registered.",
    .tp_methods = class_methods,
};

template <int I>
void take(PyObject* cls) {
  Registered& r = registered[I];
  if (cls == reinterpret_cast<PyObject*>(r.base)) cls = nullptr;
  // A metaclass of the package's own is left alone. Both types of class are static or have no storage of their own.
  if (cls && Py_TYPE(cls) == &PyType_Type) {
    Py_SET_TYPE(cls, &RegisteredClass_Type);
    PyType_Modified(reinterpret_cast<PyTypeObject*>(cls));
  }
  auto held = PyRef<>::borrow(cls);
  auto old = PyRef<>::steal(
      reinterpret_cast<PyObject*>(std::exchange(r.cls, reinterpret_cast<PyTypeObject*>(held.release()))));
}

}  // namespace

void init_registered_classes() {
  RegisteredClass_Type.tp_base = &PyType_Type;
  check(PyType_Ready(&RegisteredClass_Type));
  add_registered_class("Expr", &ExprBase_Type, take<0>);
  add_registered_class("Arg", &ArgBase_Type, take<1>);
}

}  // namespace torchlite::ir
