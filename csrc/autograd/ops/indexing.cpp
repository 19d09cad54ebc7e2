#include "autograd/ops/indexing.h"

#include "autograd/observer.h"
#include "autograd/ops/op.h"
#include "tensor/index_key.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// A key being brought into the form of Note [Index keys].
struct Key {
  std::vector<PyRef<>> items;
  std::vector<PyRef<>> indices;  // Variables
  Device device = kCPU;          // where what is indexed lies: there go the sequences that are given as such

  void add_index(PyRef<Tensor> t) {
    items.push_back(check(PyUnicode_FromFormat("@%zu", indices.size())));
    indices.push_back(new_constant(std::move(t)));
  }
  // While a trace is recorded the Variable itself is the argument: a copy would be nobody the trace knows.
  void add_index(Variable* v) {
    require_index_place(v->data.get(), device);
    static const Op& cast = find_op("cast");
    items.push_back(check(PyUnicode_FromFormat("@%zu", indices.size())));
    if (v->data->dtype == DType::Byte || v->data->dtype == DType::Long) {
      indices.push_back(PyRef<>::borrow(v));
      return;
    }
    Value number(static_cast<int64_t>(DType::Long));
    PyObject* args[] = {v, number.object()};
    indices.push_back(call_op(cast, args));
  }
};

PyRef<> to_tuple(std::vector<PyRef<>>& items) {
  PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i) PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), items[i].release());
  return out;
}

// A copy of an index tensor as Long or Byte.
PyRef<Tensor> index_copy_of(Tensor* t, size_t position, PyObject* item, Device device) {
  require_index_place(t, device);
  if (t->dtype == DType::Byte || t->dtype == DType::Long) return clone(t);
  if (is_floating(t->dtype)) refuse_index_item(position, item);
  return to_dtype(t, DType::Long);
}

void add_array(Key& key, PyObject* item) {
  PyRef<> array = index_array(item, key.items.size());
  int type = PyArray_CheckScalar(array.get()) || PyBool_Check(array.get())
                 ? NPY_BOOL
                 : PyArray_TYPE(reinterpret_cast<PyArrayObject*>(array.get()));
  // A copy: the graph must not see later changes of the caller's array.
  PyRef<> own = check(PyArray_FROMANY(array.get(), type == NPY_BOOL ? NPY_BOOL : NPY_INT64, 0, 0,
                                      NPY_ARRAY_CARRAY | NPY_ARRAY_ENSURECOPY | NPY_ARRAY_FORCECAST));
  PyRef<Tensor> index = tensor_from_numpy(own.get());
  if (key.device != kCPU) {
    PyRef<Tensor> moved = new_tensor(index->dtype, index->sizes(), key.device);
    copy_into(moved.get(), index.get());
    index = std::move(moved);
  }
  key.add_index(std::move(index));
}

void add_item(Key& key, PyObject* item) {
  if (PyBool_Check(item) || PyArray_IsScalar(item, Bool)) return add_array(key, item);
  if (PyLong_Check(item) || item == Py_None || item == Py_Ellipsis) {
    key.items.push_back(PyRef<>::borrow(item));
  } else if (PySlice_Check(item)) {
    auto* s = reinterpret_cast<PySliceObject*>(item);
    auto bound = [](PyObject* o) { return o == Py_None ? none_ref() : check(PyNumber_Index(o)); };
    PyRef<> start = bound(s->start), stop = bound(s->stop), step = bound(s->step);
    key.items.push_back(check(PySlice_New(start.get(), stop.get(), step.get())));
  } else if (is_variable(item) && call_observer && !is_floating(as_variable(item)->data->dtype)) {
    key.add_index(as_variable(item));
  } else if (is_variable(item)) {
    key.add_index(index_copy_of(as_variable(item)->data.get(), key.items.size(), item, key.device));
  } else if (is_tensor(item)) {
    key.add_index(index_copy_of(as_tensor(item), key.items.size(), item, key.device));
  } else if (!is_index_sequence(item) && PyIndex_Check(item)) {
    key.items.push_back(check(PyNumber_Index(item)));
  } else {
    add_array(key, item);
  }
}

Key canonical_key(PyObject* key, int ndim, Device device) {
  Key out;
  out.device = device;
  PyRef<> tuple;
  if (PyTuple_Check(key)) tuple = PyRef<>::borrow(key);
  else if (list_means_tuple(key, ndim)) tuple = check(PyList_AsTuple(key));
  if (tuple) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) add_item(out, PyTuple_GET_ITEM(tuple.get(), i));
  } else {
    add_item(out, key);
  }
  return out;
}

}  // namespace

PyRef<> variable_getitem(PyObject* self, PyObject* key) {
  static const Op& select_op = find_op("select");
  static const Op& index_op = find_op("index");
  Tensor* data = as_variable(self)->data.get();
  if (PyLong_CheckExact(key) && data->ndim > 0) {
    static PyObject* zero = check(PyLong_FromLong(0)).release();
    PyObject* args[] = {self, zero, key};
    return call_op(select_op, args);
  }
  if (is_variable(key)) {
    Tensor* index = as_variable(key)->data.get();
    if (index->dtype == DType::Byte && index->sizes() == data->sizes()) {
      static const Op& masked_select_op = find_op("masked_select");
      PyObject* args[] = {self, key};
      return call_op(masked_select_op, args);
    }
  }
  Key canonical = canonical_key(key, data->ndim, data->device());
  PyRef<> items = to_tuple(canonical.items), indices = to_tuple(canonical.indices);
  PyObject* args[] = {self, items.get(), indices.get()};
  return call_op(index_op, args);
}

int variable_setitem(PyObject* self, PyObject* key, PyObject* value) {
  static const Op& set_index_op = find_op("set_index");
  if (!value) type_error("the elements of a Variable cannot be deleted");
  // Held, since a key's or value's conversion may run Python code that gives the Variable other data.
  PyRef<Tensor> data = as_variable(self)->data.copy();
  if (is_variable(key) && is_variable(value)) {
    Tensor* mask = as_variable(key)->data.get();
    if (mask->dtype == DType::Byte && mask->sizes() == data->sizes() && as_variable(value)->data->numel != 1) {
      static const Op& masked_scatter_op = find_op("masked_scatter");
      PyObject* args[] = {self, key, value};
      call_op_in_place(masked_scatter_op, args);
      return 0;
    }
  }
  Key canonical = canonical_key(key, data->ndim, data->device());
  PyRef<> items = to_tuple(canonical.items), indices = to_tuple(canonical.indices);
  PyRef<> operand = PyRef<>::borrow(value);
  if (is_tensor(value)) {
    operand = new_constant(PyRef<Tensor>::borrow(as_tensor(value)));
  } else if (!is_variable(value) && !PyFloat_Check(value) && !PyLong_Check(value)) {
    if (PyIndex_Check(value) && !PyArray_Check(value)) {
      operand = check(PyNumber_Index(value));
    } else {
      PyRef<> array = check(PyArray_FromAny(value, nullptr, 0, 0, NPY_ARRAY_ENSUREARRAY, nullptr));
      PyRef<Tensor> given = tensor_from_numpy(array.get());
      PyRef<Tensor> moved = new_tensor(data->dtype, given->sizes(), data->device());
      copy_into(moved.get(), given.get());
      operand = new_constant(std::move(moved));
    }
  }
  PyObject* args[] = {self, items.get(), indices.get(), operand.get()};
  call_op_in_place(set_index_op, args);
  return 0;
}

}  // namespace torchlite
