// What the files of the operations' Python face share.
#pragma once

#include "autograd/ops/parse.h"

namespace torchlite {

// The result of a call as Python gets it: a full reduction of a tensor is a number, of a Variable a Variable.
PyObject* to_python(const Op& op, const ParsedArgs& a, PyRef<> result);
// Gives an operation of the table its Python face; returns its Op object.
PyRef<> bind_op(Op& op);

}  // namespace torchlite
