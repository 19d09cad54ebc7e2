// Methods of tensors that are no differentiable operations: metadata, conversions, memory.
#include "tensor/python_tensor.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

PyRef<> integer(int64_t v) { return check(PyLong_FromLongLong(v)); }

// The one optional argument `name` of a method, or nullptr.
PyObject* optional_argument(PyObject* const* args, Py_ssize_t n, PyObject* kwnames, const char* function,
                            const char* name) {
  Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  if (n + keywords > 1) type_error("%s() takes at most 1 argument (%zd given)", function, n + keywords);
  if (keywords && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name) != 0)
    type_error("%s() got an unexpected keyword argument %R", function, PyTuple_GET_ITEM(kwnames, 0));
  return n + keywords ? args[0] : nullptr;
}

int dim_argument(PyObject* o, const Tensor* t) {
  PyRef<> index = check(PyNumber_Index(o));
  long long dim = PyLong_AsLongLong(index.get());
  if (dim == -1 && PyErr_Occurred()) throw PyError();
  return wrap_dim(dim, t->ndim);
}

// ---- metadata -----------------------------------------------------------------------------------------------------

PyObject* tensor_size(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    PyObject* dim = optional_argument(args, n, kwnames, "size", "dim");
    if (!dim || dim == Py_None) return size_tuple(t->sizes()).release();
    int d = dim_argument(dim, t);
    return integer(t->ndim ? t->size(d) : 1).release();
  });
}

PyObject* tensor_stride(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    PyObject* dim = optional_argument(args, n, kwnames, "stride", "dim");
    if (!dim || dim == Py_None) return int_tuple(t->strides()).release();
    int d = dim_argument(dim, t);
    return integer(t->ndim ? t->stride(d) : 1).release();
  });
}

PyObject* tensor_dim(PyObject* o, PyObject*) { return PyLong_FromLong(as_tensor(o)->ndim); }
PyObject* tensor_numel(PyObject* o, PyObject*) { return PyLong_FromLongLong(as_tensor(o)->numel); }
PyObject* tensor_element_size(PyObject* o, PyObject*) { return PyLong_FromLong(itemsize(as_tensor(o)->dtype)); }
PyObject* tensor_storage_offset(PyObject* o, PyObject*) { return PyLong_FromLongLong(as_tensor(o)->offset); }
PyObject* tensor_is_contiguous(PyObject* o, PyObject*) { return PyBool_FromLong(as_tensor(o)->contiguous); }
PyObject* tensor_data_ptr(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(as_tensor(o)->bytes()); }
PyObject* tensor_storage(PyObject* o, PyObject*) { return new_ref(as_tensor(o)->storage.object()); }

// ---- memory -------------------------------------------------------------------------------------------------------

PyObject* tensor_numpy(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* { return new_ref(numpy_view(as_tensor(o))); });
}

}  // namespace

template <class F>
PyCFunction method(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

#define FAST (METH_FASTCALL | METH_KEYWORDS)

PyMethodDef tensor_methods[] = {
    {"size", method(tensor_size), FAST, "size(dim=None)\n--\n\nThe sizes, or that of one dimension."},
    {"stride", method(tensor_stride), FAST, "stride(dim=None)\n--\n\nThe strides in elements, or one of them."},
    {"dim", tensor_dim, METH_NOARGS, "Number of dimensions."},
    {"ndimension", tensor_dim, METH_NOARGS, "Number of dimensions."},
    {"numel", tensor_numel, METH_NOARGS, "Number of elements."},
    {"nelement", tensor_numel, METH_NOARGS, "Number of elements."},
    {"element_size", tensor_element_size, METH_NOARGS, "Bytes of one element."},
    {"storage_offset", tensor_storage_offset, METH_NOARGS, "Position of the first element in the storage."},
    {"is_contiguous", tensor_is_contiguous, METH_NOARGS, "Whether the elements lie row-major without gaps."},
    {"data_ptr", tensor_data_ptr, METH_NOARGS, "Address of the first element."},
    {"storage", tensor_storage, METH_NOARGS, "The memory that this is a view of."},
    {"numpy", tensor_numpy, METH_NOARGS, "An ndarray on the same memory: writes are seen on both sides."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace torchlite
