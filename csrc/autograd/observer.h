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
  // Results of the call that `after` was last told of that only its gradient sees (Row::hidden_outputs).
  virtual void hidden_results(const Op& op, const PyRef<Tensor>* tensors, int n) = 0;
  // `copy` has the value that `of` has now: one of the two is about to be written, or became the other in place.
  virtual void same_value(Variable* copy, Variable* of) = 0;
  // `v` was made of a constant of the program, such as an array or a NumPy number among the operands.
  virtual void constant(Variable* v) = 0;
  // Python code asks for the data of a Variable that `is_traced`.
  virtual void data_read(Variable* v) = 0;
  // Python code turns the elements of a Variable that `is_traced` into a value of its own, by `how`. May throw.
  virtual void value_read(Variable* v, const char* how) = 0;

 protected:
  ~CallObserver() = default;
};

// The observer of this thread, or nullptr.
extern thread_local CallObserver* call_observer;

// Nothing is observed within its scope: what runs there counts as one operation.
class Unobserved {
 public:
  Unobserved() : observer_(std::exchange(call_observer, nullptr)) {}
  ~Unobserved() { call_observer = observer_; }
  Unobserved(const Unobserved&) = delete;

 private:
  CallObserver* observer_;
};

// Whether what this thread runs has no effects but its results: a function that is only traced, or run again to compare,
// leaves running statistics alone.
extern thread_local bool discard_effects;

// A leaf for a constant among the operands.
PyRef<Variable> new_constant(PyRef<Tensor> data);

// Called when a Variable with `is_traced` dies; set by the tracer. Must not raise or run Python code.
extern void (*traced_variable_destroyed)(Variable*) noexcept;

}  // namespace torchlite
