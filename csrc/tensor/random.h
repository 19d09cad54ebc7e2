// The generator that all random operations draw from, its Python type `Generator`, and in-place random tensors.
#pragma once

#include "tensor/kernels/random.h"
#include "tensor/tensor.h"

namespace torchlite {

// The state of the default generator. The GIL guards it.
kernels::Generator& default_generator();
// A copy to draw from without the GIL, while the default generator moves on as if it had drawn itself; `draw` is run
// on it. Concurrent users never see the same numbers.

// Fill `self` with random numbers of the default generator; integer tensors take whole numbers where that makes sense.
void fill_uniform(Tensor* self, double low, double high);
void fill_normal(Tensor* self, double mean, double std);
void fill_bernoulli(Tensor* self, double p);
// Whole numbers in [low, high).
void fill_random(Tensor* self, int64_t low, int64_t high);

// Adds `Generator`, `default_generator`, `manual_seed`, `get_rng_state`, `set_rng_state` and `_randperm`.
void init_random(PyObject* module);

}  // namespace torchlite
