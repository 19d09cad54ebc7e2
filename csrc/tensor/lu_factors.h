// LU factors of arrays, as functions of the module that torchlite._ops calls.
#pragma once

#include "utils/py_ref.h"

namespace torchlite {

// Adds `_lu_panel` and `_lu_solve`.
void init_lu_factors(PyObject* module);

}  // namespace torchlite
