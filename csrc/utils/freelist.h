// Freelist: recycled memory of one exact static type's instances.
//
// Legal because the objects kept are untracked, hold nothing (their members were destroyed) and belong to a static
// type: a header alone makes one live again. Builds for memory checkers define TORCHLITE_NO_FREELISTS.
#pragma once

#include "utils/errors.h"

namespace torchlite {

// PyObject_Init, which in a usual build is three stores.
inline void revive(PyObject* o, PyTypeObject* type) noexcept {
#if defined(Py_DEBUG) || defined(Py_TRACE_REFS) || defined(Py_GIL_DISABLED)
  PyObject_Init(o, type);
#else
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_INCREF(type);  // refcount: an instance owns its heap type
  Py_SET_TYPE(o, type);
  Py_SET_REFCNT(o, 1);
#endif
}

template <class T, int Capacity>
class Freelist {
 public:
  // Untracked memory with its header set and its members not yet constructed. nullptr with MemoryError on failure.
  T* take(PyTypeObject* type) noexcept {
#ifndef TORCHLITE_NO_FREELISTS
    if (count_ > 0) {
      T* p = items_[--count_];
      revive(p, type);
      return p;
    }
#endif
    return PyObject_GC_New(T, type);
  }
  // Takes back an untracked object whose members were destroyed.
  void put(T* p) noexcept {
#ifndef TORCHLITE_NO_FREELISTS
    if (count_ < Capacity) {
      items_[count_++] = p;
      return;
    }
#endif
    PyObject_GC_Del(p);
  }

 private:
  int count_ = 0;
  T* items_[Capacity];
};

}  // namespace torchlite
