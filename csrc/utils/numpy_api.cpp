#define TORCHLITE_NUMPY_IMPORT
#include "utils/numpy_api.h"

#include "utils/errors.h"

namespace torchlite {

void import_numpy() {
  if (_import_array() < 0) throw PyError();
}

PyObject* numpy_function(const char* name) {
  PyRef<> module = check(PyImport_ImportModule("numpy"));
  // Kept for good: the result lives in a function-local static of the caller.
  return check(PyObject_GetAttrString(module.get(), name)).release();
}

}  // namespace torchlite
