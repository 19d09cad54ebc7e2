#include "tensor/kernels/simd.h"

#include "tensor/kernels/factors.h"

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
int64_t solve_triangle(const Strided<T>& a, int64_t n, bool upper, bool unit, T* x, int64_t columns) {
  for (int64_t i = 0; i < n && !unit; ++i)
    if (a(i, i) == 0) return i;
  multiversion([&]() TL_LAMBDA {
    for (int64_t step = 0; step < n; ++step) {
      const int64_t i = upper ? n - 1 - step : step, end = upper ? n : i;
      T* row = x + i * columns;
      for (int64_t j = upper ? i + 1 : 0; j < end; ++j) subtract_multiple(row, a(i, j), x + j * columns, columns);
      if (unit) continue;
      const T pivot = a(i, i);
      for (int64_t c = 0; c < columns; ++c) row[c] /= pivot;
    }
  });
  return -1;
}

template <class T>
void lu_solve(const T* lu, const int64_t* pivots, int64_t n, T* x, int64_t columns) {
  for (int64_t i = 0; i < n; ++i) swap_rows(x + i * columns, x + pivots[i] * columns, columns);
  const Strided<T> factors{lu, n, 1};
  solve_triangle(factors, n, false, true, x, columns);
  solve_triangle(factors, n, true, false, x, columns);
}

template <class T>
void apply_reflectors(const Strided<T>& packed, const T* tau, int64_t k, bool transpose, T* c, int64_t m,
                      int64_t columns, T* work) {
  multiversion([&]() TL_LAMBDA {
    for (int64_t step = 0; step < k; ++step) {
      const int64_t i = transpose ? step : k - 1 - step;
      // work = tau v^T c; c -= v work
      std::copy_n(c + i * columns, columns, work);
      for (int64_t r = i + 1; r < m; ++r) subtract_multiple(work, -packed(r, i), c + r * columns, columns);
      for (int64_t j = 0; j < columns; ++j) work[j] *= tau[i];
      subtract_multiple(c + i * columns, T{1}, work, columns);
      for (int64_t r = i + 1; r < m; ++r) subtract_multiple(c + r * columns, packed(r, i), work, columns);
    }
  });
}

#define TL_INSTANTIATE(T)                                                               \
  template int64_t lu_panel(T*, int64_t, int64_t, int64_t, int64_t*);                   \
  template int64_t solve_triangle(const Strided<T>&, int64_t, bool, bool, T*, int64_t); \
  template void lu_solve(const T*, const int64_t*, int64_t, T*, int64_t);               \
  template void apply_reflectors(const Strided<T>&, const T*, int64_t, bool, T*, int64_t, int64_t, T*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
