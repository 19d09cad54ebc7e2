#define TORCHLITE_NUMPY_IMPORT
#include "utils/numpy_api.h"

#include <memory>
#include <vector>

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

// NumPy keeps its error state in a context variable. Setting and resetting the variable around a call allocates, so it
// may fail halfway and leave the state switched; entering a context in which it is set already does neither, and takes
// a few nanoseconds. A context can be entered once at a time, so those at rest are kept in a list: a second one is only
// needed by a thread that comes by while another waits inside NumPy, or by a finalizer that runs there.

namespace {

struct QuietContexts {
  PyObject* first = nullptr;  // never entered, only copied; null where this NumPy keeps its error state elsewhere
  std::vector<PyObject*> at_rest;
};

// A context in which NumPy ignores floating-point errors, or null (with no exception set) where there is no such thing.
PyRef<> make_quiet_context() {
  PyRef<> umath = PyRef<>::steal(PyImport_ImportModule("numpy._core.umath"));
  PyRef<> variable, make, ignore;
  if (umath) variable = PyRef<>::steal(PyObject_GetAttrString(umath.get(), "_extobj_contextvar"));
  if (variable) make = PyRef<>::steal(PyObject_GetAttrString(umath.get(), "_make_extobj"));
  if (make && PyContextVar_CheckExact(variable.get())) {
    PyRef<> keywords = check(Py_BuildValue("{s:s}", "all", "ignore"));
    PyRef<> no_arguments = check(PyTuple_New(0));
    ignore = PyRef<>::steal(PyObject_Call(make.get(), no_arguments.get(), keywords.get()));
  }
  if (!ignore) {
    PyErr_Clear();  // a NumPy without these private names
    return {};
  }
  PyRef<> context = check(PyContext_New());
  check(PyContext_Enter(context.get()));
  PyRef<> token = PyRef<>::steal(PyContextVar_Set(variable.get(), ignore.get()));
  check(PyContext_Exit(context.get()));
  if (!token) throw PyError();
  return context;
}

QuietContexts& quiet_contexts() {
  static QuietContexts* const contexts = [] {
    auto made = std::make_unique<QuietContexts>();
    made->first = make_quiet_context().release();
    return made.release();  // for the life of the process
  }();
  return *contexts;
}

}  // namespace

QuietNumpy::QuietNumpy() {
  QuietContexts& contexts = quiet_contexts();
  if (!contexts.first) {
    static PyObject* const errstate = numpy_function("errstate");
    PyRef<> no_arguments = check(PyTuple_New(0));
    PyRef<> keywords = check(Py_BuildValue("{s:s}", "all", "ignore"));
    entered_ = check(PyObject_Call(errstate, no_arguments.get(), keywords.get()));
    check(PyObject_CallMethod(entered_.get(), "__enter__", nullptr));
    return;
  }
  if (contexts.at_rest.empty()) {
    entered_ = check(PyContext_Copy(contexts.first));
    contexts.at_rest.reserve(contexts.at_rest.capacity() + 1);  // so that coming back to rest allocates nothing
  } else {
    entered_ = PyRef<>::steal(contexts.at_rest.back());
    contexts.at_rest.pop_back();
  }
  check(PyContext_Enter(entered_.get()));
}

QuietNumpy::~QuietNumpy() {
  ErrorGuard keep;
  QuietContexts& contexts = quiet_contexts();
  if (contexts.first) {
    // Entered last, by this thread; it fails only if code that ran inside entered a context and never left it.
    if (PyContext_Exit(entered_.get()) < 0) PyErr_WriteUnraisable(entered_.get());
    else contexts.at_rest.push_back(entered_.release());
    return;
  }
  PyRef<> done = PyRef<>::steal(PyObject_CallMethod(entered_.get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
  if (!done) PyErr_Clear();  // a destructor cannot report
}

}  // namespace torchlite
