// Vectorised transcendental functions over contiguous arrays.
//
// T is float or double. y is x itself or disjoint from it; n >= 0. Within 2 ulp of the correctly rounded value for
// every input: NaN propagates, log of a negative number is NaN, log(0) is -inf, denormal inputs and results are kept.
// An element's result depends on its value alone. Arrays beyond the parallel grain use several threads. Thread-safe;
// touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

template <class T>
void exp(const T* x, T* y, int64_t n);
template <class T>
void log(const T* x, T* y, int64_t n);
template <class T>
void tanh(const T* x, T* y, int64_t n);
template <class T>
void sigmoid(const T* x, T* y, int64_t n);

}  // namespace torchlite::kernels
