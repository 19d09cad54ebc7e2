// Rows that are declared in Python: `_C._define_op`.
//
// Such a row is a row like any other. Its three functions hand on to Python callables, which live as long as the row
// does, that is for the life of the process; the collector sees them through the row's Op object.
#pragma once

#include "autograd/ops/op.h"

namespace torchlite {

struct PythonRow {
  std::string signature, doc;  // what `row` points to
  Row row;
  // forward(*args) on tensors and constants -> result(s)
  // backward(ctx, *grads) on Variables -> one gradient a parameter; empty if the row is not differentiable
  // types(*args) on TensorTypes and constants -> TensorType(s)
  PyRef<> forward, backward, types;
};

// _define_op(signature, doc, forward, backward, types, uses, outputs, hidden_outputs, non_differentiable,
//            no_gradient, flags) -> Op
PyObject* define_op(PyObject* module, PyObject* args);
void init_python_rows(PyObject* module);

}  // namespace torchlite
