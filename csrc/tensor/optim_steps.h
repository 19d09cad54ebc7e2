// The optimisers' updates and the sums of gradient clipping, as functions of the module.
#pragma once

#include "utils/py_ref.h"

namespace torchlite {

// Adds `_sgd_step`, `_adam_step`, `_sum_squares` and `_scale_`.
void init_optim_steps(PyObject* module);

}  // namespace torchlite
