// Subscripts of Variables.
//
// Note [Index keys]
// The rows `index` and `set_index` take a key in canonical form: a tuple of ints, slices of ints, None, Ellipsis and
// the strings "@0", "@1", ..., each of which stands for the tensor at that position of the argument `indices`: Long
// (positions) or Byte (a mask). These tensors are copies: a later change of the user's array does not reach them.
#pragma once

#include "autograd/variable.h"

namespace torchlite {

// v[key]. An int and nothing else of a 1-d Variable gives size (1,). IndexError for a key that is out of range.
PyRef<> variable_getitem(PyObject* self, PyObject* key);
// v[key] = value (a Variable, a number, a tensor or an array), in place. value nullptr (deletion) is a TypeError.
int variable_setitem(PyObject* self, PyObject* key, PyObject* value);

}  // namespace torchlite
