#include "tensor/index_key.h"

#include <algorithm>

#include "tensor/cuda.h"
#include "tensor/python_tensor.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

PyArrayObject* as_array(PyObject* o) { return reinterpret_cast<PyArrayObject*>(o); }

bool is_truth(PyObject* o) { return PyBool_Check(o) || PyArray_IsScalar(o, Bool); }
bool is_text(PyObject* o) { return PyUnicode_Check(o) || PyBytes_Check(o) || PyByteArray_Check(o); }

}  // namespace

bool is_basic_item(PyObject* o) { return is_int(o) || PySlice_Check(o) || o == Py_None || o == Py_Ellipsis; }

bool is_index_sequence(PyObject* o) {
  if (PyList_Check(o) || PyTuple_Check(o) || is_tensor(o) || PyArray_Check(o)) return true;
  if (is_text(o) || PyDict_Check(o) || is_basic_item(o) || is_truth(o)) return false;
  return PySequence_Check(o) || PyMapping_Check(o);  // a Variable is the latter
}

bool list_means_tuple(PyObject* key, int ndim) {
  if (!PyList_Check(key)) return false;
  Py_ssize_t n = PyList_GET_SIZE(key), sequences = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyList_GET_ITEM(key, i);
    if (PySlice_Check(item) || item == Py_None || item == Py_Ellipsis) return true;
    sequences += is_index_sequence(item);
  }
  return n > 0 && sequences == n && n <= ndim;
}

bool is_advanced_key(PyObject* key, int ndim) {
  if (is_tensor(key) || !is_index_sequence(key)) return false;
  if (!PyTuple_Check(key) && !list_means_tuple(key, ndim)) return true;
  PyRef<> items = check(PySequence_Tuple(key));
  PyObject* const* item = reinterpret_cast<PyTupleObject*>(items.get())->ob_item;
  return std::any_of(item, item + PyTuple_GET_SIZE(items.get()), is_index_sequence);
}

void refuse_index_item(size_t position, PyObject* item) {
  type_error(
      "Performing basic indexing on a tensor and encountered an error indexing dim %zu with an object of type "
      "%.100s. The only supported types are integers, slices, None, Ellipsis, sequences of integers, "
      "LongTensors, and ByteTensor masks",
      position, type_name(item));
}

void require_index_place(const Tensor* index, Device device) {
  if (index->device() != device)
    type_error("a tensor on %s is indexed with a %s: both must lie in one place", place_name(device).c_str(),
               place_of(index->dtype, index->device()).c_str());
}

namespace {

// An index tensor on a device as CuPy's array.
PyRef<> cuda_index_array(Tensor* t) {
  PyRef<> array = PyRef<>::borrow(cuda->array(t));
  if (t->dtype != DType::Byte) return array;
  return check(PyObject_RichCompare(array.get(), check(PyLong_FromLong(0)).get(), Py_NE));
}

}  // namespace

PyRef<> index_array(PyObject* item, size_t position, Device device) {
  if (device != kCPU && !is_tensor(item)) {
    PyRef<> on_host = index_array(item, position, kCPU);
    return PyArray_Check(on_host.get()) ? cuda->as_array(on_host.get()) : std::move(on_host);
  }
  if (is_truth(item)) return PyRef<>::borrow(item);
  if (!is_index_sequence(item)) refuse_index_item(position, item);
  if (is_tensor(item)) {
    Tensor* t = as_tensor(item);
    if (is_floating(t->dtype)) refuse_index_item(position, item);
    require_index_place(t, device);
    if (device != kCPU) return cuda_index_array(t);
    PyRef<> array = PyRef<>::borrow(numpy_view(t));
    if (t->dtype != DType::Byte) return array;
    return check(PyArray_CastToType(as_array(array.get()), PyArray_DescrFromType(NPY_BOOL), 0));
  }
  PyRef<> array = PyRef<>::steal(PyArray_FromAny(item, nullptr, 0, 0, NPY_ARRAY_ENSUREARRAY, nullptr));
  if (!array) {
    if (!PyErr_ExceptionMatches(PyExc_ValueError)) throw PyError();
    PyErr_Clear();  // a ragged list, replaced by the error that names its place
    refuse_index_item(position, item);
  }
  int type = PyArray_TYPE(as_array(array.get()));
  if (PyTypeNum_ISBOOL(type) || PyTypeNum_ISINTEGER(type)) return array;
  // An empty list is an array of floats to NumPy.
  if (PyArray_SIZE(as_array(array.get())) || PyArray_Check(item)) refuse_index_item(position, item);
  return check(PyArray_CastToType(as_array(array.get()), PyArray_DescrFromType(NPY_INT64), 0));
}

PyRef<> numpy_key(PyObject* key, int ndim, Device device) {
  PyRef<> tuple;
  if (PyTuple_Check(key)) tuple = PyRef<>::borrow(key);
  else if (list_means_tuple(key, ndim)) tuple = check(PyList_AsTuple(key));
  else return is_basic_item(key) ? PyRef<>::borrow(key) : index_array(key, 0, device);
  Py_ssize_t n = PyTuple_GET_SIZE(tuple.get());
  PyRef<> out = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(tuple.get(), i);
    PyRef<> resolved = is_basic_item(item) ? PyRef<>::borrow(item) : index_array(item, static_cast<size_t>(i), device);
    PyTuple_SET_ITEM(out.get(), i, resolved.release());
  }
  return out;
}

// ---- errors -------------------------------------------------------------------------------------------------------

namespace {

// An index array of a key and the dimension that it indexes.
struct IndexArray {
  PyArrayObject* array;
  int dim;
};

// The index arrays of integers in `key`, a NumPy key.
std::vector<IndexArray> index_arrays(PyObject* key, int ndim) {
  PyObject* const* items = PyTuple_Check(key) ? reinterpret_cast<PyTupleObject*>(key)->ob_item : &key;
  Py_ssize_t n = PyTuple_Check(key) ? PyTuple_GET_SIZE(key) : 1;
  auto dims_of = [](PyObject* o) {
    if (o == Py_None || o == Py_Ellipsis || is_truth(o)) return 0;
    return PyArray_Check(o) && PyTypeNum_ISBOOL(PyArray_TYPE(as_array(o))) ? PyArray_NDIM(as_array(o)) : 1;
  };
  int used = 0, dim = 0;
  for (Py_ssize_t i = 0; i < n; ++i) used += dims_of(items[i]);
  std::vector<IndexArray> out;
  if (used > ndim) return out;  // too many: the dimensions mean nothing
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = items[i];
    if (PyArray_Check(o) && PyTypeNum_ISINTEGER(PyArray_TYPE(as_array(o)))) out.push_back({as_array(o), dim});
    dim += o == Py_Ellipsis ? ndim - used : dims_of(o);
  }
  return out;
}

// Throws if the index arrays don't broadcast together or one names a position that does not exist.
void explain_index_error(PyArrayObject* array, PyObject* key) {
  std::vector<IndexArray> indices = index_arrays(key, PyArray_NDIM(array));
  std::vector<int64_t> joint;
  for (const IndexArray& index : indices) {
    int n = PyArray_NDIM(index.array);
    if (static_cast<size_t>(n) > joint.size()) joint.insert(joint.begin(), static_cast<size_t>(n) - joint.size(), 1);
    for (int d = 1; d <= n; ++d) {
      int64_t size = PyArray_DIM(index.array, n - d), &known = joint[joint.size() - static_cast<size_t>(d)];
      if (size != known && size != 1 && known != 1)
        index_error("The advanced indexing objects could not be broadcast: sizes %lld and %lld differ",
                    static_cast<long long>(known), static_cast<long long>(size));
      if (known == 1) known = size;
    }
  }
  for (const IndexArray& index : indices) {
    if (index.dim >= PyArray_NDIM(array)) continue;
    PyRef<> wide = check(PyArray_FROMANY(reinterpret_cast<PyObject*>(index.array), NPY_INT64, 0, 0,
                                         NPY_ARRAY_CARRAY_RO | NPY_ARRAY_FORCECAST));
    auto* p = static_cast<const int64_t*>(PyArray_DATA(as_array(wide.get())));
    int64_t size = PyArray_DIM(array, index.dim);
    for (npy_intp i = 0, n = PyArray_SIZE(as_array(wide.get())); i < n; ++i)
      if (p[i] < -size || p[i] >= size)
        index_error("index %lld from broadcast indexer is out of range for dimension %d (of size %lld)",
                    static_cast<long long>(p[i]), index.dim, static_cast<long long>(size));
  }
}

}  // namespace

void rethrow_index_error(PyObject* array, PyObject* key) {
  if (!PyErr_ExceptionMatches(PyExc_IndexError)) throw PyError();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyRef<> owners[] = {PyRef<>::steal(type), PyRef<>::steal(value), PyRef<>::steal(traceback)};
  explain_index_error(as_array(array), key);
  PyErr_Restore(owners[0].release(), owners[1].release(), owners[2].release());
  throw PyError();
}

}  // namespace torchlite
