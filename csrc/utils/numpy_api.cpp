#define TORCHLITE_NUMPY_IMPORT
#include "utils/numpy_api.h"

#include "utils/errors.h"

namespace torchlite {

void import_numpy() {
  if (_import_array() < 0) throw PyError();
}

PyObject* numpy_function(const char* name) {
  PyRef<> module = check(PyImport_ImportModule("numpy"));
  // Kept for good: the result lives in a function-local static of the caller.
  return check(PyObject_GetAttrString(module.get(), name)).release();
}

// ---- floating-point warnings ----------------------------------------------------------------------------------------

namespace {

// NumPy keeps its error state in a context variable. Setting the variable is ten times cheaper than np.errstate; where
// a NumPy does not have it under this name, np.errstate does the same.
struct ErrorState {
  PyObject* variable = nullptr;
  PyObject* ignore = nullptr;
  PyObject* errstate = nullptr;
  PyObject* keywords = nullptr;

  ErrorState() {
    keywords = check(Py_BuildValue("{s:s}", "all", "ignore")).release();
    PyRef<> no_arguments = check(PyTuple_New(0));
    PyRef<> umath = PyRef<>::steal(PyImport_ImportModule("numpy._core.umath"));
    PyRef<> var, make;
    if (umath) var = PyRef<>::steal(PyObject_GetAttrString(umath.get(), "_extobj_contextvar"));
    if (var) make = PyRef<>::steal(PyObject_GetAttrString(umath.get(), "_make_extobj"));
    if (make && PyContextVar_CheckExact(var.get())) ignore = PyObject_Call(make.get(), no_arguments.get(), keywords);
    if (ignore) {
      variable = var.release();
    } else {
      PyErr_Clear();  // a NumPy without these private names: the public way does the same, slower
      errstate = numpy_function("errstate");
    }
  }
};

const ErrorState& error_state() {
  static const ErrorState state;
  return state;
}

}  // namespace

QuietNumpy::QuietNumpy() {
  const ErrorState& s = error_state();
  if (s.variable) {
    token_ = check(PyContextVar_Set(s.variable, s.ignore));
  } else {
    PyRef<> no_arguments = check(PyTuple_New(0));
    token_ = check(PyObject_Call(s.errstate, no_arguments.get(), s.keywords));
    check(PyObject_CallMethod(token_.get(), "__enter__", nullptr));
  }
}

QuietNumpy::~QuietNumpy() {
  ErrorGuard keep;
  const ErrorState& s = error_state();
  if (s.variable) {
    if (PyContextVar_Reset(s.variable, token_.get()) < 0) PyErr_Clear();  // a destructor cannot report
  } else {
    PyRef<> done = PyRef<>::steal(PyObject_CallMethod(token_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    if (!done) PyErr_Clear();  // a destructor cannot report
  }
}

}  // namespace torchlite
