// Note [Direct BLAS]
// NumPy's wheels carry OpenBLAS with 64-bit integers, under names that end in 64_. Where such a library is loaded its
// products are called directly, which for a matrix of a few dozen numbers takes a third of the time: no ndarrays are
// made around the memory. Everywhere else NumPy's own product is the way to whatever BLAS it was built with.
#include "tensor/gemm.h"

#if defined(__linux__)
#include <dlfcn.h>
#include <link.h>
#endif

#include <cstring>
#include <string>

#include "utils/errors.h"
#include "utils/gil.h"
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

// ---- OpenBLAS -----------------------------------------------------------------------------------------------------

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;  // of cblas.h

template <class T>
struct Blas {
  using Gemm = void (*)(int order, int trans_a, int trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
                        int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc);
  using Gemv = void (*)(int order, int trans, int64_t m, int64_t n, T alpha, const T* a, int64_t lda, const T* x,
                        int64_t incx, T beta, T* y, int64_t incy);
  Gemm gemm = nullptr;
  Gemv gemv = nullptr;
};

struct Library {
  Blas<float> single;
  Blas<double> twice;
};

template <class F>
F symbol([[maybe_unused]] void* handle, [[maybe_unused]] const char* name) {
#if defined(__linux__)
  for (const char* prefix : {"scipy_cblas_", "cblas_"}) {
    std::string full = std::string(prefix) + name + "64_";
    if (void* address = dlsym(handle, full.c_str())) return reinterpret_cast<F>(address);
  }
#endif
  return nullptr;
}

Library find_library() {
  Library found;
#if defined(__linux__)
  std::string path;
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* out) {
        if (!object->dlpi_name || !std::strstr(object->dlpi_name, "openblas64")) return 0;
        *static_cast<std::string*>(out) = object->dlpi_name;
        return 1;
      },
      &path);
  // The handle is kept: the library stays loaded for as long as NumPy does.
  void* handle = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (!handle) return found;
  found.single = {symbol<Blas<float>::Gemm>(handle, "sgemm"), symbol<Blas<float>::Gemv>(handle, "sgemv")};
  found.twice = {symbol<Blas<double>::Gemm>(handle, "dgemm"), symbol<Blas<double>::Gemv>(handle, "dgemv")};
#endif
  return found;
}

template <class T>
bool multiply(const Blas<T>& blas, const MatrixRef& a, const MatrixRef& b, const MatrixRef& out) {
  if (!blas.gemm || !blas.gemv) return false;
  const T *x = static_cast<const T*>(a.data), *y = static_cast<const T*>(b.data);
  T* z = static_cast<T*>(out.data);
  int64_t inner = a.transposed ? a.rows : a.columns;
  GilRelease unlocked(out.rows * out.columns * inner);
  if (out.rows == 1 || out.columns == 1) {
    // The row times b is the transpose of b times the row.
    const MatrixRef& matrix = out.rows == 1 ? b : a;
    bool transposed = out.rows == 1 ? !b.transposed : a.transposed;
    std::memset(z, 0, static_cast<size_t>(out.rows * out.columns) * sizeof(T));
    blas.gemv(kRowMajor, transposed ? kTrans : kNoTrans, matrix.rows, matrix.columns, T(1), out.rows == 1 ? y : x,
              matrix.columns, out.rows == 1 ? x : y, 1, T(0), z, 1);
    return true;
  }
  blas.gemm(kRowMajor, a.transposed ? kTrans : kNoTrans, b.transposed ? kTrans : kNoTrans, out.rows, out.columns, inner,
            T(1), x, a.columns, y, b.columns, T(0), z, out.columns);
  return true;
}

}  // namespace

void gemm(const MatrixRef& a, const MatrixRef& b, const MatrixRef& out) {
  if (out.rows * out.columns == 0) return;
  if (a.rows * a.columns == 0) {
    std::memset(out.data, 0, static_cast<size_t>(out.rows * out.columns * itemsize(out.dtype)));
    return;
  }
  static const Library library = find_library();
  if (out.dtype == DType::Float && multiply(library.single, a, b, out)) return;
  if (out.dtype == DType::Double && multiply(library.twice, a, b, out)) return;
  PyRef<> left = array_of(a), right = array_of(b), result = array_of(out);
  check(PyArray_MatrixProduct2(left.get(), right.get(), reinterpret_cast<PyArrayObject*>(result.get())));
}

}  // namespace torchlite
