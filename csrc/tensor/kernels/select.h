// Choices by masks over contiguous arrays.
//
// T is float or double; n >= 0. Large arrays use several threads. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// y = a where mask is nonzero, else b. An operand with step 0 is a single element that stands for all, one with step 1
// an array; y is one of the arrays exactly or disjoint from them.
template <class T>
void select(const uint8_t* mask, const T* a, int a_step, const T* b, int b_step, T* y, int64_t n);

}  // namespace torchlite::kernels
