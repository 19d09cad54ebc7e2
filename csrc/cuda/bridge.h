// The one implementation of Cuda (tensor/cuda.h): over CuPy.
#pragma once

#include "utils/py_ref.h"

namespace torchlite {

// Adds `_cuda_connect`, `_from_cupy` ... to the module. CuPy itself is imported by torchlite.cuda, which connects it.
void init_cuda(PyObject* module);

}  // namespace torchlite
