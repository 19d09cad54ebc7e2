// Bounds how deep deallocators nest, whatever the stack: TRASHCAN_BEGIN(o, dealloc) ... TRASHCAN_END around a body.
//
// Up to Python 3.12 the interpreter's own trashcan does, at 50 levels. That of 3.13 lets deallocators nest as deep as
// C calls may, ten thousand levels, which is more than the stack of a small thread holds. There an object that is
// found at 50 levels waits in a list of its thread until the outermost deallocator is done, and goes on with the
// deallocator that found it. Its type is kept for as long: subtype_dealloc, where that called ours, drops it before.
#pragma once

#include "utils/py_ref.h"

#if PY_VERSION_HEX < 0x030D0000

#define TRASHCAN_BEGIN(o, dealloc) Py_TRASHCAN_BEGIN(o, dealloc)
#define TRASHCAN_END Py_TRASHCAN_END

#else

#include <new>
#include <vector>

namespace torchlite {

class Trashcan {
 public:
  Trashcan(PyObject* o, destructor dealloc) : postponed_(depth_ >= 50 && postpone(o, dealloc)) { ++depth_; }
  ~Trashcan() {
    if (depth_ == 1) empty();
    --depth_;
  }
  Trashcan(const Trashcan&) = delete;
  Trashcan& operator=(const Trashcan&) = delete;
  bool postponed() const { return postponed_; }

 private:
  struct Waiting {
    PyObject* object;
    destructor dealloc;
  };

  static bool postpone(PyObject* o, destructor dealloc) {
    try {
      waiting_.push_back({o, dealloc});
    } catch (const std::bad_alloc&) {
      return false;  // deeper, then
    }
    Py_INCREF(Py_TYPE(o));  // refcount: the list owns the type, until empty()
    return true;
  }
  static void empty() {
    while (!waiting_.empty()) {
      Waiting next = waiting_.back();
      waiting_.pop_back();
      PyTypeObject* type = Py_TYPE(next.object);
      next.dealloc(next.object);
      Py_DECREF(type);  // refcount: taken by postpone()
    }
  }

  static inline thread_local int depth_ = 0;
  static inline thread_local std::vector<Waiting> waiting_;
  bool postponed_;
};

}  // namespace torchlite

#define TRASHCAN_BEGIN(o, dealloc)                            \
  do {                                                        \
    [[maybe_unused]] ::torchlite::Trashcan trash(o, dealloc); \
    if (trash.postponed()) break;
#define TRASHCAN_END \
  }                  \
  while (0)          \
    ;

#endif
