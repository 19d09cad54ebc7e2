// What the type objects of the IR share.
#pragma once

#include "ir/ir.h"

namespace torchlite::ir {

template <class T>
PyObject* property(const PyRef<T>& member) {
  return new_ref(member ? member.object() : Py_None);
}

inline void refuse_keywords(const char* name, PyObject* kwargs) {
  if (kwargs && PyDict_GET_SIZE(kwargs)) type_error("%s() takes no keyword arguments", name);
}

// Like tuples, objects of the IR have no tp_clear: they are immutable, and a cycle through one passes through a
// mutable object that a constant or a Function class leads to.
inline int ir_tp_clear(PyObject*) { return 0; }

inline constexpr unsigned long kIrFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC;

}  // namespace torchlite::ir
