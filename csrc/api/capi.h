// The C API for other extensions (torchlite/include/torchlite.h).
#pragma once

#include "utils/py_ref.h"

namespace torchlite {

// Adds the capsule `_C_API` to the module.
void init_capi(PyObject* module);

}  // namespace torchlite
