// LU factors with partial pivoting of row-major matrices, and substitution with them.
//
// L has ones on its diagonal and lies below that of the packed matrix, U on and above it. Pivots are rows, from 0, each
// exchanged with the row of its position in turn. T is float or double. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// Factors columns [first, last) of a[n, n] below row `first`, and exchanges whole rows accordingly; pivots[first, last)
// are written. The columns from `last` on are otherwise left as they are. A column of zeros is passed over. Returns the
// first position of a 0 on the diagonal, or -1.
template <class T>
int64_t lu_panel(T* a, int64_t n, int64_t first, int64_t last, int64_t* pivots);

// x[n, columns] = the solution of A X = x, from the factors of A.
template <class T>
void lu_solve(const T* lu, const int64_t* pivots, int64_t n, T* x, int64_t columns);

}  // namespace torchlite::kernels
