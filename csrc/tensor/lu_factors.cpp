#include "tensor/lu_factors.h"

#include "tensor/kernels/lu.h"
#include "tensor/tensor.h"
#include "utils/errors.h"
#include "utils/gil.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// An argument that has to be a contiguous ndarray of `ndim` dimensions and of type number `type`; -1 stands for either
// of single and double precision.
PyArrayObject* array_argument(const char* function, const char* name, PyObject* o, int ndim, int type) {
  if (!PyArray_Check(o)) type_error("%s: argument '%s' must be an array, not %.100s", function, name, type_name(o));
  auto* a = reinterpret_cast<PyArrayObject*>(o);
  int given = PyArray_TYPE(a);
  bool fits = type >= 0 ? given == type : given == NPY_FLOAT || given == NPY_DOUBLE;
  if (!fits || PyArray_NDIM(a) != ndim || !PyArray_ISCARRAY(a))
    type_error("%s: argument '%s' must be a writable contiguous array of the element type and %d dimensions", function,
               name, ndim);
  return a;
}

template <class T>
T* data(PyArrayObject* a) {
  return static_cast<T*>(PyArray_DATA(a));
}

PyObject* lu_panel(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *matrices_object, *pivots_object;
    long long first, last;
    if (!PyArg_ParseTuple(args, "OOLL:_lu_panel", &matrices_object, &pivots_object, &first, &last)) throw PyError();
    PyArrayObject* matrices = array_argument("_lu_panel", "matrices", matrices_object, 3, -1);
    PyArrayObject* pivots = array_argument("_lu_panel", "pivots", pivots_object, 2, NPY_INT64);
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
    PyArrayObject* lu = array_argument("_lu_solve", "lu", lu_object, 2, -1);
    PyArrayObject* pivots = array_argument("_lu_solve", "pivots", pivots_object, 1, NPY_INT64);
    PyArrayObject* x = array_argument("_lu_solve", "x", x_object, 2, PyArray_TYPE(lu));
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

PyMethodDef functions[] = {
    {"_lu_panel", lu_panel, METH_VARARGS,
     "_lu_panel(matrices, pivots, first, last) -> int\n\nFactors columns first to last of each of `matrices`, an array "
     "of size (count, n, n), with partial pivoting and in\nplace. The rows (from 0) that rows were exchanged with go "
     "to "
     "`pivots`, an int64 array of size (count, n). Gives\nthe first position of a 0 on the diagonal of one, or -1."},
    {"_lu_solve", lu_solve, METH_VARARGS,
     "_lu_solve(lu, pivots, x)\n\nReplaces x, of size (n, k), by the solution of A X = x, from the factors of A."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_lu_factors(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace torchlite
