// Matrix products on plain memory, by NumPy's BLAS.
#pragma once

#include "tensor/tensor.h"

namespace torchlite {

// A row-major matrix in memory that someone else keeps alive, possibly read as its transpose.
struct MatrixRef {
  DType dtype;
  void* data;
  int64_t rows, columns;  // as stored
  bool transposed = false;

  MatrixRef t() const { return {dtype, data, rows, columns, !transposed}; }
};

// A contiguous tensor as [numel / columns, columns].
inline MatrixRef matrix_of(const Tensor* t, int64_t columns) {
  return {t->dtype, t->bytes(), columns ? t->numel / columns : 0, columns, false};
}

// out = a b. All of one element type; `out` is stored as it is and overlaps neither a nor b. The GIL is released
// inside; no operand is copied for being a transpose.
void gemm(const MatrixRef& a, const MatrixRef& b, const MatrixRef& out);

}  // namespace torchlite
