// Update steps of the optimisers, one pass over a parameter and its state.
//
// T is float or double; arrays are contiguous, of n elements, and disjoint from each other. Scalars are double and
// rounded to T where they meet an element. Large arrays use several threads with the same result. Thread-safe; touches
// no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

struct SgdOptions {
  double lr;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

// d = grad + weight_decay param; with momentum: buf = momentum buf + (1 - dampening) d (or d on the first step, when
// buf need not be initialised), d = nesterov ? d + momentum buf : buf; then param -= lr d. buf is not touched, and may
// be null, if momentum == 0.
template <class T>
void sgd_step(T* param, const T* grad, T* buf, bool first_step, const SgdOptions& options, int64_t n);

struct AdamOptions {
  double lr;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
};

// Adam (Kingma and Ba, 2015, section 2's efficient form): with d = grad + weight_decay param,
//   avg = beta1 avg + (1 - beta1) d, avg_sq = beta2 avg_sq + (1 - beta2) d^2,
//   param -= lr sqrt(1 - beta2^step) / (1 - beta1^step) avg / (sqrt(avg_sq) + eps).
// step counts from 1. max_avg_sq: null, or AMSGrad's running maximum, which then replaces avg_sq in the last line.
template <class T>
void adam_step(T* param, const T* grad, T* avg, T* avg_sq, T* max_avg_sq, int64_t step, const AdamOptions& options,
               int64_t n);

}  // namespace torchlite::kernels
