#include "tensor/sparse.h"

#include "utils/errors.h"

namespace torchlite {

PyTypeObject* sparse_class = nullptr;

void require_elements(const Tensor* t, const char* function) {
  if (is_sparse(t))
    type_error("%s: a sparse tensor of size %s stores no elements in order; use to_dense()", function,
               format_dims(t->sizes()).c_str());
}

}  // namespace torchlite
