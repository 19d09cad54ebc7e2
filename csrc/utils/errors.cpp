#include "utils/errors.h"

#include <cxxabi.h>

#include <cstdarg>
#include <cstring>

#include "utils/gil.h"

namespace torchlite {

namespace {
[[noreturn]] void raise_v(PyObject* type, const char* format, va_list args) {
  PyErr_FormatV(type, format, args);
  throw PyError();
}
}  // namespace

void raise(PyObject* type, const char* format, ...) {
  va_list args;
  va_start(args, format);
  raise_v(type, format, args);
}
void runtime_error(const char* format, ...) {
  va_list args;
  va_start(args, format);
  raise_v(PyExc_RuntimeError, format, args);
}
void type_error(const char* format, ...) {
  va_list args;
  va_start(args, format);
  raise_v(PyExc_TypeError, format, args);
}
void value_error(const char* format, ...) {
  va_list args;
  va_start(args, format);
  raise_v(PyExc_ValueError, format, args);
}
void index_error(const char* format, ...) {
  va_list args;
  va_start(args, format);
  raise_v(PyExc_IndexError, format, args);
}

void name_error(const char* function, const char* argument) noexcept {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_OverflowError)) return;
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  PyRef<> text = PyRef<>::steal(traceback ? nullptr : PyObject_Str(value));
  const char* message = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!message || std::strstr(message, function)) {
    PyErr_Restore(type, value, traceback);  // which drops the error of a text that cannot be made
    return;
  }
  PyRef<> held_type = PyRef<>::steal(type), held_value = PyRef<>::steal(value);
  if (argument) {
    PyErr_Format(type, "%s: argument '%s': %s", function, argument, message);
  } else {
    PyErr_Format(type, "%s: %s", function, message);
  }
}

void translate_exception() noexcept {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    hang_thread();  // the interpreter ends (see restore_gil)
  } catch (const PyError&) {
    // NumPy fails without an exception in places where memory runs out.
    if (!PyErr_Occurred()) PyErr_NoMemory();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_SystemError, "unknown C++ exception");
  }
}

}  // namespace torchlite
