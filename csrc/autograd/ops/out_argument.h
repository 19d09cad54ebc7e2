// `out=` of function forms: f(..., out=tensor), or a tuple of tensors for several results.
#pragma once

#include "autograd/ops/op.h"

namespace torchlite {

// Where `out` stands among the keywords of a call (METH_FASTCALL | METH_KEYWORDS convention); -1 if it is not given.
Py_ssize_t find_out(PyObject* kwnames);
// The call with its results written into `out`, keyword number `at`; returns what `out` was. Every check comes before
// the first write, so that a refused call changes nothing.
PyObject* call_op_out(const Op& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, Py_ssize_t at);

}  // namespace torchlite
