#include "tensor/factors.h"

#include <vector>

#include "tensor/kernels/factors.h"
#include "tensor/tensor.h"
#include "utils/errors.h"
#include "utils/gil.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// An argument that has to be a contiguous ndarray of `ndim` dimensions and of type number `type`; -1 stands for either
// of single and double precision.
PyArrayObject* array_argument(const char* function, const char* name, PyObject* o, int ndim, int type, bool written) {
  if (!PyArray_Check(o)) type_error("%s: argument '%s' must be an array, not %.100s", function, name, type_name(o));
  auto* a = reinterpret_cast<PyArrayObject*>(o);
  int given = PyArray_TYPE(a);
  bool fits = type >= 0 ? given == type : given == NPY_FLOAT || given == NPY_DOUBLE;
  if (!fits || PyArray_NDIM(a) != ndim || !PyArray_ISCARRAY_RO(a) || (written && !PyArray_ISWRITEABLE(a)))
    type_error("%s: argument '%s' must be a %scontiguous array of the element type and %d dimensions", function, name,
               written ? "writable " : "", ndim);
  return a;
}

template <class T>
T* data(PyArrayObject* a) {
  return static_cast<T*>(PyArray_DATA(a));
}

// A matrix of any strides.
PyArrayObject* strided_argument(const char* function, const char* name, PyObject* o, int type) {
  if (!PyArray_Check(o)) type_error("%s: argument '%s' must be an array, not %.100s", function, name, type_name(o));
  auto* a = reinterpret_cast<PyArrayObject*>(o);
  if (PyArray_TYPE(a) != type || PyArray_NDIM(a) != 2 || !PyArray_ISBEHAVED_RO(a) ||
      PyArray_STRIDE(a, 0) % PyArray_ITEMSIZE(a) || PyArray_STRIDE(a, 1) % PyArray_ITEMSIZE(a))
    type_error("%s: argument '%s' must be a matrix of the element type in its own byte order", function, name);
  return a;
}

template <class T>
kernels::Strided<T> strided(PyArrayObject* a) {
  constexpr npy_intp item = sizeof(T);
  return {data<const T>(a), PyArray_STRIDE(a, 0) / item, PyArray_STRIDE(a, 1) / item};
}

PyObject* lu_panel(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *matrices_object, *pivots_object;
    long long first, last;
    if (!PyArg_ParseTuple(args, "OOLL:_lu_panel", &matrices_object, &pivots_object, &first, &last)) throw PyError();
    PyArrayObject* matrices = array_argument("_lu_panel", "matrices", matrices_object, 3, -1, true);
    PyArrayObject* pivots = array_argument("_lu_panel", "pivots", pivots_object, 2, NPY_INT64, true);
    const int64_t count = PyArray_DIM(matrices, 0), n = PyArray_DIM(matrices, 1);
    if (PyArray_DIM(matrices, 2) != n || PyArray_DIM(pivots, 0) != count || PyArray_DIM(pivots, 1) != n || first < 0 ||
        first > last || last > n)
      value_error(
          "_lu_panel: columns %lld to %lld of %lld matrices of size (%lld, %lld) with pivots of size (%lld, "
          "%lld)",
          first, last, static_cast<long long>(count), static_cast<long long>(n),
          static_cast<long long>(PyArray_DIM(matrices, 2)), static_cast<long long>(PyArray_DIM(pivots, 0)),
          static_cast<long long>(PyArray_DIM(pivots, 1)));
    int64_t singular = -1;
    auto factor = [&]<class T>(T* a) {
      GilRelease unlocked(count * (n - first) * (last - first));
      for (int64_t i = 0; i < count; ++i) {
        int64_t zero = kernels::lu_panel(a + i * n * n, n, first, last, data<int64_t>(pivots) + i * n);
        if (singular < 0) singular = zero;
      }
    };
    if (PyArray_TYPE(matrices) == NPY_FLOAT) factor(data<float>(matrices));
    else factor(data<double>(matrices));
    return PyLong_FromLongLong(singular);
  });
}

PyObject* lu_solve(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *lu_object, *pivots_object, *x_object;
    if (!PyArg_ParseTuple(args, "OOO:_lu_solve", &lu_object, &pivots_object, &x_object)) throw PyError();
    PyArrayObject* lu = array_argument("_lu_solve", "lu", lu_object, 2, -1, false);
    PyArrayObject* pivots = array_argument("_lu_solve", "pivots", pivots_object, 1, NPY_INT64, false);
    PyArrayObject* x = array_argument("_lu_solve", "x", x_object, 2, PyArray_TYPE(lu), true);
    const int64_t n = PyArray_DIM(lu, 0), columns = PyArray_DIM(x, 1);
    if (PyArray_DIM(lu, 1) != n || PyArray_DIM(pivots, 0) != n || PyArray_DIM(x, 0) != n)
      value_error("_lu_solve: factors of size (%lld, %lld) with %lld pivots and %lld rows", static_cast<long long>(n),
                  static_cast<long long>(PyArray_DIM(lu, 1)), static_cast<long long>(PyArray_DIM(pivots, 0)),
                  static_cast<long long>(PyArray_DIM(x, 0)));
    const int64_t* rows = data<int64_t>(pivots);
    for (int64_t i = 0; i < n; ++i)
      if (rows[i] < 0 || rows[i] >= n)
        index_error("_lu_solve: pivot %lld is out of range for %lld rows", static_cast<long long>(rows[i]),
                    static_cast<long long>(n));
    auto solve = [&]<class T>(T* y) {
      GilRelease unlocked(n * n * columns);
      kernels::lu_solve(data<T>(lu), rows, n, y, columns);
    };
    if (PyArray_TYPE(lu) == NPY_FLOAT) solve(data<float>(x));
    else solve(data<double>(x));
    return none();
  });
}

PyObject* solve_triangle(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *a_object, *x_object;
    int upper, unit;
    if (!PyArg_ParseTuple(args, "OOpp:_solve_triangle", &a_object, &x_object, &upper, &unit)) throw PyError();
    PyArrayObject* x = array_argument("_solve_triangle", "x", x_object, 2, -1, true);
    PyArrayObject* a = strided_argument("_solve_triangle", "a", a_object, PyArray_TYPE(x));
    const int64_t n = PyArray_DIM(x, 0), columns = PyArray_DIM(x, 1);
    if (PyArray_DIM(a, 0) != n || PyArray_DIM(a, 1) != n)
      value_error("_solve_triangle: a matrix of size (%lld, %lld) and %lld rows",
                  static_cast<long long>(PyArray_DIM(a, 0)), static_cast<long long>(PyArray_DIM(a, 1)),
                  static_cast<long long>(n));
    auto solve = [&]<class T>(T* y) {
      GilRelease unlocked(n * n * columns);
      return kernels::solve_triangle(strided<T>(a), n, upper != 0, unit != 0, y, columns);
    };
    return PyLong_FromLongLong(PyArray_TYPE(x) == NPY_FLOAT ? solve(data<float>(x)) : solve(data<double>(x)));
  });
}

PyObject* apply_reflectors(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *packed_object, *tau_object, *c_object;
    int transpose;
    if (!PyArg_ParseTuple(args, "OOOp:_apply_reflectors", &packed_object, &tau_object, &c_object, &transpose))
      throw PyError();
    PyArrayObject* c = array_argument("_apply_reflectors", "c", c_object, 2, -1, true);
    PyArrayObject* packed = strided_argument("_apply_reflectors", "packed", packed_object, PyArray_TYPE(c));
    PyArrayObject* tau = array_argument("_apply_reflectors", "tau", tau_object, 1, PyArray_TYPE(c), false);
    const int64_t m = PyArray_DIM(c, 0), columns = PyArray_DIM(c, 1), k = PyArray_DIM(tau, 0);
    if (PyArray_DIM(packed, 0) != m || k > m || k > PyArray_DIM(packed, 1))
      value_error("_apply_reflectors: %lld reflectors in a matrix of size (%lld, %lld) for %lld rows",
                  static_cast<long long>(k), static_cast<long long>(PyArray_DIM(packed, 0)),
                  static_cast<long long>(PyArray_DIM(packed, 1)), static_cast<long long>(m));
    auto apply = [&]<class T>(T* y) {
      std::vector<T> work(static_cast<size_t>(columns));
      GilRelease unlocked(k * m * columns);
      kernels::apply_reflectors(strided<T>(packed), data<T>(tau), k, transpose != 0, y, m, columns, work.data());
    };
    if (PyArray_TYPE(c) == NPY_FLOAT) apply(data<float>(c));
    else apply(data<double>(c));
    return none();
  });
}

PyMethodDef functions[] = {
    {"_lu_panel", lu_panel, METH_VARARGS,
     "_lu_panel(matrices, pivots, first, last) -> int\n\nFactors columns first to last of each of `matrices`, an array "
     "of size (count, n, n), with partial pivoting and in\nplace. The rows (from 0) that rows were exchanged with go "
     "to `pivots`, an int64 array of size (count, n). Gives\nthe first position of a 0 on the diagonal of one, or -1."},
    {"_lu_solve", lu_solve, METH_VARARGS,
     "_lu_solve(lu, pivots, x)\n\nReplaces x, of size (n, k), by the solution of A X = x, from the factors of A."},
    {"_solve_triangle", solve_triangle, METH_VARARGS,
     "_solve_triangle(a, x, upper, unit) -> int\n\nReplaces x, of size (n, k), by the solution of A X = x, where A is "
     "a triangle of `a`; with `unit` its diagonal\ncounts as ones. Gives the position of a 0 on the diagonal, x being "
     "left alone, or -1."},
    {"_apply_reflectors", apply_reflectors, METH_VARARGS,
     "_apply_reflectors(packed, tau, c, transpose)\n\nReplaces c, of size (m, k), by Q c or the product of Q's "
     "transpose. Q is that of the reflectors below the\ndiagonal of `packed`, with the coefficients `tau`."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_factors(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace torchlite
