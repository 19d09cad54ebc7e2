// PyRef: an owning reference to a Python object, typed by its C struct.
//
// Every struct of this library that is a Python object derives from PyObject, so a PyRef<Tensor> converts to a
// PyRef<> without a cast. A PyRef says on construction who owned the reference before: `steal` takes over a new
// reference, `borrow` adds one. The GIL is held whenever one is copied, assigned or destroyed.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <type_traits>
#include <utility>

namespace torchlite {

template <class T = PyObject>
class PyRef {
 public:
  PyRef() noexcept = default;
  PyRef(std::nullptr_t) noexcept {}
  static PyRef steal(T* p) noexcept { return PyRef(p); }
  static PyRef borrow(T* p) noexcept {
    Py_XINCREF(reinterpret_cast<PyObject*>(p));
    return PyRef(p);
  }

  template <class U>
  requires(std::is_convertible_v<U*, T*>) PyRef(PyRef<U>&& other)
  noexcept : p_(other.release()) {}
  PyRef(PyRef&& other) noexcept : p_(std::exchange(other.p_, nullptr)) {}
  PyRef& operator=(PyRef&& other) noexcept {
    // The member holds its new value before the old one dies: a finalizer may look at the owner.
    T* old = std::exchange(p_, std::exchange(other.p_, nullptr));
    Py_XDECREF(reinterpret_cast<PyObject*>(old));
    return *this;
  }
  PyRef(const PyRef&) = delete;
  PyRef& operator=(const PyRef&) = delete;
  ~PyRef() { Py_XDECREF(reinterpret_cast<PyObject*>(p_)); }

  T* get() const noexcept { return p_; }
  PyObject* object() const noexcept { return reinterpret_cast<PyObject*>(p_); }
  T* operator->() const noexcept { return p_; }
  T& operator*() const noexcept { return *p_; }
  explicit operator bool() const noexcept { return p_ != nullptr; }

  // Gives the reference to the caller.
  T* release() noexcept { return std::exchange(p_, nullptr); }
  PyObject* release_object() noexcept { return reinterpret_cast<PyObject*>(release()); }
  PyRef copy() const noexcept { return borrow(p_); }
  void reset() noexcept { *this = PyRef(); }

  // The same reference under a derived type that the caller has checked.
  template <class U>
  PyRef<U> cast() && noexcept {
    return PyRef<U>::steal(static_cast<U*>(release()));
  }

 private:
  explicit PyRef(T* p) noexcept : p_(p) {}
  T* p_ = nullptr;
};

// A new reference to `p` for the caller of a slot.
template <class T>
inline PyObject* new_ref(T* p) noexcept {
  Py_INCREF(reinterpret_cast<PyObject*>(p));
  return reinterpret_cast<PyObject*>(p);
}
// The object of a weak reference, or an empty reference once that is gone.
inline PyRef<> weak_target(PyObject* weak) noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject* o = nullptr;
  (void)PyWeakref_GetRef(weak, &o);  // fails only for what is no weak reference
  return PyRef<>::steal(o);
#else
  PyObject* o = PyWeakref_GetObject(weak);
  return o == Py_None ? PyRef<>() : PyRef<>::borrow(o);
#endif
}
inline PyObject* none() noexcept { return new_ref(Py_None); }
inline PyRef<> none_ref() noexcept { return PyRef<>::borrow(Py_None); }

}  // namespace torchlite
