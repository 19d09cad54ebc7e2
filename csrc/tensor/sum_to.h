// sum_to: the reverse of a broadcast.
#pragma once

#include "tensor/tensor.h"

namespace torchlite {

// The sum of `t` over all that a broadcast from `sizes` to the size of `t` repeats; same element type, a new tensor
// (`t` itself where there is nothing to sum). RuntimeError where `sizes` does not broadcast to the size of `t`.
PyRef<Tensor> sum_to(Tensor* t, Dims sizes);

}  // namespace torchlite
