// Errors: C++ exceptions inside, Python exceptions at the slot boundary.
#pragma once

#include <exception>
#include <new>

#include "utils/py_ref.h"

namespace torchlite {

// Thrown when a Python exception is already set.
struct PyError final : std::exception {
  const char* what() const noexcept override { return "a Python exception is set"; }
};

// Sets a Python exception with a PyErr_Format message, then throws PyError.
[[noreturn]] void raise(PyObject* type, const char* format, ...);
[[noreturn]] void runtime_error(const char* format, ...);
[[noreturn]] void type_error(const char* format, ...);
[[noreturn]] void value_error(const char* format, ...);
[[noreturn]] void index_error(const char* format, ...);

// A new reference or a thrown PyError.
inline PyRef<> check(PyObject* p) {
  if (!p) throw PyError();
  return PyRef<>::steal(p);
}
// For C-API calls that report failure as a negative number.
inline int check(int status) {
  if (status < 0) throw PyError();
  return status;
}

// Turns the C++ exception being handled into a Python one.
void translate_exception() noexcept;

// Runs `body` at a slot boundary: nothing but a Python exception leaves it.
template <class R, class F>
inline R guard(R failure, F&& body) noexcept {
  try {
    return std::forward<F>(body)();
  } catch (...) {
    translate_exception();
    return failure;
  }
}
template <class F>
inline PyObject* guard(F&& body) noexcept {
  return guard(static_cast<PyObject*>(nullptr), std::forward<F>(body));
}

// Puts the function, and perhaps the argument, in front of the TypeError or OverflowError that is set, unless it names
// the function already or comes from Python code.
void name_error(const char* function, const char* argument = nullptr) noexcept;

// guard whose errors of conversion name the function.
template <class F>
inline PyObject* guard_named(const char* function, F&& body) noexcept {
  PyObject* result = guard(std::forward<F>(body));
  if (!result) name_error(function);
  return result;
}

// Keeps the exception that is set, if any, across code that may set or clear another; restores it at the end.
class ErrorGuard {
 public:
  ErrorGuard() noexcept { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~ErrorGuard() { PyErr_Restore(type_, value_, traceback_); }
  ErrorGuard(const ErrorGuard&) = delete;
  ErrorGuard& operator=(const ErrorGuard&) = delete;

 private:
  PyObject *type_, *value_, *traceback_;
};

// Short name of an object's type for a message.
inline const char* type_name(PyObject* o) { return Py_TYPE(o)->tp_name; }

}  // namespace torchlite
