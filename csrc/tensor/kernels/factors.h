// Factors of matrices in LAPACK's layout: LU with partial pivoting, triangles, reflectors.
//
// L has ones on its diagonal and lies below that of the packed matrix, U on and above it. Pivots are rows, from 0, each
// exchanged with the row of its position in turn. Written matrices are row-major. T is float or double. Thread-safe;
// touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// Factors columns [first, last) of a[n, n] below row `first`, and exchanges whole rows accordingly; pivots[first, last)
// are written. The columns from `last` on are otherwise left as they are. A column of zeros is passed over. Returns the
// first position of a 0 on the diagonal, or -1.
template <class T>
int64_t lu_panel(T* a, int64_t n, int64_t first, int64_t last, int64_t* pivots);

// A matrix with element (i, j) at data[i * row + j * column].
template <class T>
struct Strided {
  const T* data;
  int64_t row, column;
  const T& operator()(int64_t i, int64_t j) const { return data[i * row + j * column]; }
};

// x[n, columns] = the solution of A X = x, for the triangle A of a matrix of size n; with `unit` its diagonal counts as
// ones. Returns the position of a 0 on the diagonal, x being left alone, or -1.
template <class T>
int64_t solve_triangle(const Strided<T>& a, int64_t n, bool upper, bool unit, T* x, int64_t columns);

// The solution of A X = x from the factors of A, which have no 0 on the diagonal.
template <class T>
void lu_solve(const T* lu, const int64_t* pivots, int64_t n, T* x, int64_t columns);

// c[m, columns] = Q c, or its transpose times c. Q is the product of the reflectors 1 - tau[i] v v^T, i < k; v is the
// column i of `packed`[m, k] below the diagonal, 1 on it and 0 above. `work` has `columns` elements.
template <class T>
void apply_reflectors(const Strided<T>& packed, const T* tau, int64_t k, bool transpose, T* c, int64_t m,
                      int64_t columns, T* work);

}  // namespace torchlite::kernels
