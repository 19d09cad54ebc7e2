// Sums over contiguous arrays. T is float or double. The order of additions depends on the shape alone: the same bits
// for any number of threads and on every processor. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// Sum of x and of x^2, accumulated in double; 0 for n == 0.
template <class T>
double sum(const T* x, int64_t n);
template <class T>
double sum_squares(const T* x, int64_t n);

// y[j] = sum over rows of x[i, j], or y[j] += it with accumulate. x: [rows, cols], y: [cols], disjoint. Added in T, in
// blocks of rows, so the error grows with the square root of rows at worst.
template <class T>
void sum_rows(const T* x, int64_t rows, int64_t cols, bool accumulate, T* y);

// y[i] = sum over columns of x[i, j], accumulated in double. x: [rows, cols], y: [rows], disjoint.
template <class T>
void sum_cols(const T* x, int64_t rows, int64_t cols, T* y);

}  // namespace torchlite::kernels
