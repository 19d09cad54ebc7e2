// NumPy's C-API, imported once for the whole extension (numpy_api.cpp holds the table).
#pragma once

#include "utils/py_ref.h"

#ifndef TORCHLITE_NUMPY_IMPORT
#define NO_IMPORT_ARRAY
#endif
#define PY_ARRAY_UNIQUE_SYMBOL torchlite_numpy_api
#include <numpy/arrayobject.h>

namespace torchlite {

// Imports NumPy's C-API; throws PyError.
void import_numpy();

// A function of the numpy module by name, for the life of the process (a borrowed reference; throws PyError).
// Meant for function-local statics: `static PyObject* f = numpy_function("add");`
PyObject* numpy_function(const char* name);

// NumPy's floating-point warnings are off while one lives: results are inf and NaN without comment.
class QuietNumpy {
 public:
  QuietNumpy();
  ~QuietNumpy();
  QuietNumpy(const QuietNumpy&) = delete;
  QuietNumpy& operator=(const QuietNumpy&) = delete;

 private:
  PyRef<> entered_;  // a context, or an np.errstate
};

}  // namespace torchlite
