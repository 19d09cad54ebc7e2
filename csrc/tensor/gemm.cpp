#include "tensor/gemm.h"

#include <cstring>

#include "utils/errors.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// An ndarray on the matrix that lives no longer than the call.
PyRef<> array_of(const MatrixRef& m) {
  npy_intp item = itemsize(m.dtype);
  npy_intp sizes[2] = {m.rows, m.columns}, strides[2] = {m.columns * item, item};
  if (m.transposed) {
    std::swap(sizes[0], sizes[1]);
    std::swap(strides[0], strides[1]);
  }
  return check(
      PyArray_New(&PyArray_Type, 2, sizes, info(m.dtype).numpy_type, strides, m.data, 0, NPY_ARRAY_WRITEABLE, nullptr));
}

}  // namespace

void gemm(const MatrixRef& a, const MatrixRef& b, const MatrixRef& out) {
  if (out.rows * out.columns == 0) return;
  if (a.rows * a.columns == 0) {
    std::memset(out.data, 0, static_cast<size_t>(out.rows * out.columns * itemsize(out.dtype)));
    return;
  }
  PyRef<> left = array_of(a), right = array_of(b), result = array_of(out);
  check(PyArray_MatrixProduct2(left.get(), right.get(), reinterpret_cast<PyArrayObject*>(result.get())));
}

}  // namespace torchlite
