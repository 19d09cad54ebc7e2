// Which tensors are sparse: instances of a Python class (torchlite/sparse) over a Tensor struct that has their type and
// size, but no elements to read.
#pragma once

#include "tensor/tensor.h"

namespace torchlite {

// The base of all sparse classes (owned for the life of the process), or nullptr: then no tensor is sparse.
extern PyTypeObject* sparse_class;

inline bool is_sparse(const Tensor* t) {
  return sparse_class && !is_plain_tensor_type(Py_TYPE(t)) && PyType_IsSubtype(Py_TYPE(t), sparse_class);
}

// Throws if `function` was about to read or write the elements of a sparse tensor.
void require_elements(const Tensor* t, const char* function);

}  // namespace torchlite
