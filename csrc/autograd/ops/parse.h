// From Python arguments to the canonical arguments of an operation.
#pragma once

#include "autograd/ops/op.h"

namespace torchlite {

// Canonical arguments, and the temporaries that keep converted ones alive.
struct ParsedArgs {
  PyObject* values[kMaxParams];
  PyRef<> owned[kMaxParams];
};

// Resolves positional and keyword arguments by the signature (METH_FASTCALL | METH_KEYWORDS convention), converts
// ndarrays and NumPy scalars, and checks kinds. `self` is the object of a method call, or nullptr.
void parse_args(const Op& op, PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, ParsedArgs& out);
// What stands in place of a number-like operand: a Variable, Tensor or exact Python number as it is, a NumPy scalar
// or array as a tensor. Empty if `o` is none of these. A NumPy scalar is a number, and so goes where `beside` (a
// Variable, a tensor or neither) lies; an array lies on the host.
PyRef<> as_operand(PyObject* o, PyObject* beside);

}  // namespace torchlite
