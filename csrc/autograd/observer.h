// CallObserver: what a tracer sees of the operations that this thread runs on Variables.
//
// autograd knows nothing of the IR: the tracer installs an observer, and dispatch calls it before an operation runs
// (so that it can refuse before anything is written) and after it.
#pragma once

#include "autograd/variable.h"

namespace torchlite {

struct Op;

struct CallObserver {
  // Before: throws to refuse. `args` are the canonical arguments. What it returns is handed to `after`: an in-place
  // operation changes what its arguments stand for.
  virtual PyRef<> before(const Op& op, PyObject* const* args) = 0;
  // After: `results` are the Variables made (or, in place, the Variable written).
  virtual void after(const Op& op, PyRef<> noted, PyObject* const* results, Py_ssize_t n) = 0;
  // The same for a Python Function: `cls.apply(*args)`.
  virtual PyRef<> before_function(PyObject* cls, PyObject* const* args, Py_ssize_t n) = 0;
  virtual void after_function(PyObject* cls, PyRef<> noted, PyObject* const* results, Py_ssize_t n) = 0;

 protected:
  ~CallObserver() = default;
};

// The observer of this thread, or nullptr.
extern thread_local CallObserver* call_observer;

// Called when a Variable with `is_traced` dies; set by the tracer. Must not raise or run Python code.
extern void (*traced_variable_destroyed)(Variable*) noexcept;

}  // namespace torchlite
