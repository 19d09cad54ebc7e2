// Factors of matrices in arrays, as functions of the module that torchlite._ops calls.
#pragma once

#include "utils/py_ref.h"

namespace torchlite {

// Adds `_lu_panel`, `_lu_solve`, `_solve_triangle` and `_apply_reflectors`.
void init_factors(PyObject* module);

}  // namespace torchlite
