// The generator that all random operations draw from, its Python type `Generator`, and in-place random tensors.
#pragma once

#include "tensor/kernels/random.h"
#include "tensor/tensor.h"

namespace torchlite {

// A Generator of Python: nothing but 16 bytes of state. The GIL guards it.
struct GeneratorObject : PyObject {
  kernels::Generator state;
};
extern PyTypeObject Generator_Type;

// The state that is drawn from where no generator is given.
kernels::Generator& default_generator();

// Adds `Generator`, `default_generator`, `manual_seed`, `get_rng_state`, `set_rng_state`, and to tensors `uniform_`,
// `normal_`, `bernoulli_`, `random_`, `exponential_`, `log_normal_`, `cauchy_` and `geometric_`.
void init_random(PyObject* module);

}  // namespace torchlite
