// Sparse tensors in operations: the one place where operations reach the elements of their operands (call.cpp) hands
// calls with a sparse operand to the function that the Python side has registered.
#pragma once

#include "autograd/ops/op.h"
#include "tensor/sparse.h"

namespace torchlite {

// Whether some of the tensors among the arguments is sparse.
bool any_sparse(const Op& op, PyObject* const* raw);
// The results by the registered function; those of an in-place call on a sparse tensor are in `out` itself.
Outputs forward_sparse(const Op& op, PyObject* const* raw, Tensor* out);

// `_set_sparse(cls, function)`: `cls` is a base of all sparse classes; `function(name, arguments, out)` computes an
// operation on canonical arguments (tensors and constants), `out` being the tensor of an in-place call or None, and
// returns its result.
PyObject* set_sparse(PyObject* module, PyObject* const* args, Py_ssize_t n);

}  // namespace torchlite
