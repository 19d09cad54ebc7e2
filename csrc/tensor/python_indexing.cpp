// The methods beside t[key] that the era's autograd layer reads and writes parts of tensors with.
#include "tensor/cuda.h"
#include "tensor/index_key.h"
#include "tensor/indexing.h"
#include "tensor/python_tensor.h"
#include "tensor/views.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// The positions that `key` names, as a contiguous 1-d or n-d tensor of what is there.
PyRef<Tensor> selected(Tensor* t, PyObject* key) {
  bool is_view;
  return index_tensor(t, key, &is_view);
}

}  // namespace

PyObject* tensor_index(PyObject* o, PyObject* key) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    bool element = t->ndim > 0;
    PyRef<Tensor> part = selected(t, key);
    int64_t one = 1;
    if (element && part->ndim == 0) part = views::view(part.get(), {&one, 1});
    return part.release();
  });
}

PyObject* tensor_set_index(PyObject* o, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *key, *value;
    if (!PyArg_ParseTuple(args, "OO:_set_index", &key, &value)) throw PyError();
    assign_index(as_tensor(o), key, value);
    return none();
  });
}

PyObject* tensor_check_advanced_indexing(PyObject* o, PyObject* key) {
  return guard([&]() -> PyObject* { return PyBool_FromLong(is_advanced_key(key, as_tensor(o)->ndim)); });
}

PyObject* tensor_advanced_index_select(PyObject* o, PyObject* key) {
  return guard([&]() -> PyObject* {
    PyRef<Tensor> part = selected(as_tensor(o), key);
    int64_t rest = -1;
    return views::reshape(part.get(), {&rest, 1}).release();
  });
}

PyObject* tensor_advanced_index_add(PyObject* o, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *key, *source_object;
    if (!PyArg_ParseTuple(args, "OO:_advanced_index_add", &key, &source_object)) throw PyError();
    Tensor* t = as_tensor(o);
    if (!is_tensor(source_object))
      type_error("_advanced_index_add: expected a tensor, but got %.100s", type_name(source_object));
    PyRef<Tensor> source = PyRef<Tensor>::borrow(as_tensor(source_object));
    if (source->dtype != t->dtype || source->device() != t->device())
      type_error("_advanced_index_add: expected a %.100s like self, but got a %.100s",
                 place_of(t->dtype, t->device()).c_str(), place_of(source->dtype, source->device()).c_str());
    DeviceScope scope(t->device());
    // The key is read once: what it calls may change the tensor, or give another answer the next time.
    PyRef<> resolved = numpy_key(key, t->ndim, t->device());
    PyRef<Tensor> part = t->device() == kCPU ? selected(t, resolved.get())
                                             : cuda->tensor(check(PyObject_GetItem(cuda->array(t), resolved.get())));
    if (source->numel != part->numel)
      runtime_error("_advanced_index_add: expected a source of as many elements as are indexed, %lld, but got %lld",
                    static_cast<long long>(part->numel), static_cast<long long>(source->numel));
    require_writable(t, "_advanced_index_add");
    if (source->storage.get() == t->storage.get()) source = clone(source.get());
    add_at(t, resolved.get(), views::reshape(source.get(), part->sizes()).get());
    return new_ref(o);
  });
}

}  // namespace torchlite
