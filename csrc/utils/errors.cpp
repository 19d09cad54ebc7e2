#include "utils/errors.h"

#include <cxxabi.h>

#include <cstdarg>

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
