#include "tensor/kernels/simd.h"

#include "tensor/kernels/lu.h"

#include <algorithm>
#include <cmath>

namespace torchlite::kernels {

namespace {

// y -= factor * x, disjoint.
template <class T>
TL_INLINE void subtract_multiple(T* y, T factor, const T* x, int64_t n) {
  TL_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) y[i] -= factor * x[i];
}

template <class T>
TL_INLINE void swap_rows(T* a, T* b, int64_t n) {
  if (a != b) std::swap_ranges(a, a + n, b);
}

// The row from `j` on with the largest element in column j; NaN is larger than every number.
template <class T>
TL_INLINE int64_t pivot_row(const T* a, int64_t n, int64_t j) {
  int64_t best = j;
  T largest = -1;
  for (int64_t i = j; i < n; ++i) {
    T size = std::abs(a[i * n + j]);
    if (std::isnan(size)) return i;
    if (size > largest) {
      largest = size;
      best = i;
    }
  }
  return best;
}

}  // namespace

template <class T>
int64_t lu_panel(T* a, int64_t n, int64_t first, int64_t last, int64_t* pivots) {
  int64_t singular = -1;
  multiversion([&]() TL_LAMBDA {
    for (int64_t j = first; j < last; ++j) {
      const int64_t p = pivots[j] = pivot_row(a, n, j);
      swap_rows(a + j * n, a + p * n, n);
      const T* row = a + j * n;
      const T pivot = row[j];
      if (pivot == 0) {
        if (singular < 0) singular = j;
        continue;
      }
      for (int64_t i = j + 1; i < n; ++i) {
        T* below = a + i * n;
        below[j] /= pivot;
        subtract_multiple(below + j + 1, below[j], row + j + 1, last - j - 1);
      }
    }
  });
  return singular;
}

template <class T>
void lu_solve(const T* lu, const int64_t* pivots, int64_t n, T* x, int64_t columns) {
  multiversion([&]() TL_LAMBDA {
    for (int64_t i = 0; i < n; ++i) swap_rows(x + i * columns, x + pivots[i] * columns, columns);
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < i; ++k) subtract_multiple(x + i * columns, lu[i * n + k], x + k * columns, columns);
    for (int64_t i = n - 1; i >= 0; --i) {
      T* row = x + i * columns;
      for (int64_t k = i + 1; k < n; ++k) subtract_multiple(row, lu[i * n + k], x + k * columns, columns);
      const T pivot = lu[i * n + i];
      for (int64_t c = 0; c < columns; ++c) row[c] /= pivot;
    }
  });
}

#define TL_INSTANTIATE(T)                                             \
  template int64_t lu_panel(T*, int64_t, int64_t, int64_t, int64_t*); \
  template void lu_solve(const T*, const int64_t*, int64_t, T*, int64_t);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
