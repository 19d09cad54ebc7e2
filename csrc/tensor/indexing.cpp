#include "tensor/indexing.h"

#include <cmath>
#include <limits>

#include "tensor/broadcast.h"
#include "tensor/cuda.h"
#include "tensor/index_kernels.h"
#include "tensor/index_key.h"
#include "tensor/python_tensor.h"
#include "tensor/views.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// A view under construction: sizes, strides and offset of what a basic key means.
struct View {
  int64_t sizes[kMaxDim], strides[kMaxDim], offset;
  int n = 0;
  bool element = false;  // nothing but ints for every dimension: the key means a number

  void push(int64_t size, int64_t stride) {
    if (n == kMaxDim) index_error("a tensor has at most %d dimensions, but the index asks for more", kMaxDim);
    sizes[n] = size;
    strides[n++] = stride;
  }
  PyRef<Tensor> of(Tensor* t) const { return new_view(t, {sizes, n}, {strides, n}, offset); }
};

int64_t wrap_index(int64_t i, int64_t size, int dim) {
  if (i < -size || i >= size)
    index_error("%sindex %lld is out of range for dimension %d (of size %lld)",
                size ? "" : "indexing an empty tensor: ", static_cast<long long>(i), dim, static_cast<long long>(size));
  return i < 0 ? i + size : i;
}

int64_t as_index(PyObject* o) {
  Py_ssize_t i = PyNumber_AsSsize_t(o, PyExc_IndexError);
  if (i == -1 && PyErr_Occurred()) throw PyError();
  return i;
}

// One item of a basic key, as plain numbers.
struct Item {
  enum { Int, Slice, None, Ellipsis } kind;
  Py_ssize_t start, stop, step;
};

Item read_item(PyObject* o) {
  if (o == Py_None) return {Item::None, 0, 0, 0};
  if (o == Py_Ellipsis) return {Item::Ellipsis, 0, 0, 0};
  if (!PySlice_Check(o)) return {Item::Int, as_index(o), 0, 0};
  Item item{Item::Slice, 0, 0, 0};
  check(PySlice_Unpack(o, &item.start, &item.stop, &item.step));
  return item;
}

// Follows a basic key; false, with `*v` unspecified, if it is not basic.
bool basic_view(Tensor* t, PyObject* key, View* v) {
  bool tuple = PyTuple_Check(key);
  PyObject* const* objects = tuple ? reinterpret_cast<PyTupleObject*>(key)->ob_item : &key;
  Py_ssize_t n = tuple ? PyTuple_GET_SIZE(key) : 1;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!is_basic_item(objects[i])) return false;
  Item items[2 * kMaxDim + 1];
  if (n > 2 * kMaxDim + 1) index_error("a tensor has at most %d dimensions, but the index has %zd items", kMaxDim, n);
  // Every `__index__` runs before anything of the tensor is looked at: it may change the tensor.
  for (Py_ssize_t i = 0; i < n; ++i) items[i] = read_item(objects[i]);
  int used = 0, ellipses = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    ellipses += items[i].kind == Item::Ellipsis;
    used += items[i].kind == Item::Int || items[i].kind == Item::Slice;
  }
  if (ellipses > 1) index_error("ellipsis can be used at most once, but the index has %d", ellipses);
  if (used > t->ndim) index_error("trying to index %d dimensions of a %d dimensional tensor", used, t->ndim);
  v->offset = t->offset;
  int d = 0;
  auto keep = [&](int until) {
    for (; d < until; ++d) v->push(t->size(d), t->stride(d));
  };
  for (Py_ssize_t i = 0; i < n; ++i) {
    Item& item = items[i];
    switch (item.kind) {
      case Item::Ellipsis: keep(d + t->ndim - used); break;
      case Item::None: v->push(1, 0); break;
      case Item::Int:
        v->offset += wrap_index(item.start, t->size(d), d) * t->stride(d);
        ++d;
        break;
      case Item::Slice: {
        int64_t size = PySlice_AdjustIndices(static_cast<Py_ssize_t>(t->size(d)), &item.start, &item.stop, item.step);
        if (size > 0) v->offset += item.start * t->stride(d);
        v->push(size, size > 1 ? item.step * t->stride(d) : t->stride(d));
        ++d;
        break;
      }
    }
  }
  keep(t->ndim);
  v->element = ellipses == 0 && v->n == 0;
  return true;
}

// Whether `key` is a mask over the elements of `t`, for which no dimension need match: the era's meaning of a
// ByteTensor. One that matches the first dimensions only is left to NumPy's rule.
bool is_element_mask(const Tensor* t, PyObject* key) {
  if (!is_tensor(key) || as_tensor(key)->dtype != DType::Byte) return false;
  Tensor* mask = as_tensor(key);
  if (mask->device() != kCPU || t->device() != kCPU || mask->numel != t->numel) return false;
  return mask->ndim >= t->ndim || !(mask->sizes() == Dims(t->dims(), mask->ndim));
}

// A mask as the kernels take it: of t's size, zeros and ones.
PyRef<Tensor> element_mask(const Tensor* t, PyObject* key) {
  PyRef<Tensor> mask = views::reshape(as_tensor(key), t->sizes());
  return expand_mask(mask.get(), t->sizes(), "index");
}

// Whatever NumPy takes for an array, as a tensor on the host.
PyRef<Tensor> host_tensor(PyObject* o) {
  return tensor_from_numpy(check(PyArray_FromAny(o, nullptr, 0, 0, NPY_ARRAY_ENSUREARRAY, nullptr)).get());
}

PyRef<Tensor> advanced_cuda_item(Tensor* t, PyObject* key) {
  DeviceScope scope(t->device());
  PyRef<> resolved = numpy_key(key, t->ndim, t->device());
  PyRef<> array = PyRef<>::borrow(cuda->array(t));
  return cuda->tensor(check(PyObject_GetItem(array.get(), resolved.get())), {&t, 1});
}

void assign_advanced_cuda(Tensor* t, PyObject* key, PyObject* value, bool number) {
  DeviceScope scope(t->device());
  PyRef<Tensor> here;
  if (!number) {
    here = is_tensor(value) ? PyRef<Tensor>::borrow(as_tensor(value)) : host_tensor(value);
    if (here->device() != t->device()) {
      PyRef<Tensor> moved = new_tensor(t->dtype, here->sizes(), t->device());
      copy_into(moved.get(), here.get());
      here = std::move(moved);
    }
  }
  PyRef<> resolved = numpy_key(key, t->ndim, t->device());
  PyRef<> array = PyRef<>::borrow(cuda->array(t));
  check(PyObject_SetItem(array.get(), resolved.get(), here ? cuda->array(here.get()) : value));
}

PyRef<> advanced_item(Tensor* t, PyObject* key) {
  if (t->device() != kCPU) return advanced_cuda_item(t, key);
  if (is_element_mask(t, key)) return masked_select(t, element_mask(t, key).get());
  PyRef<> resolved = numpy_key(key, t->ndim);
  PyRef<> array = PyRef<>::borrow(numpy_view(t));  // the tensor may be changed by what the key calls
  PyRef<> result = PyRef<>::steal(PyObject_GetItem(array.get(), resolved.get()));
  if (!result) rethrow_index_error(array.get(), resolved.get());
  return result;
}

// The tensor of what `advanced_item` returned.
PyRef<Tensor> tensor_of_item(PyRef<> result) {
  return is_tensor(result.get()) ? std::move(result).cast<Tensor>() : tensor_from_result(std::move(result));
}

bool is_number(PyObject* o) { return PyFloat_Check(o) || PyLong_Check(o) || PyArray_CheckScalar(o); }

}  // namespace

bool is_int(PyObject* o) {
  if (PyLong_Check(o)) return !PyBool_Check(o);
  if (PyArray_IsScalar(o, Integer)) return true;
  // Tensors, arrays and Variables have `__index__` too.
  return PyIndex_Check(o) && !PySequence_Check(o) && !PyMapping_Check(o);
}

void store_number(char* p, DType dtype, PyObject* number) {
  PyRef<> value;
  if (is_floating(dtype)) {
    double d = PyFloat_AsDouble(number);
    if (d == -1.0 && PyErr_Occurred()) throw PyError();
    if (dtype == DType::Float) {
      *reinterpret_cast<float*>(p) = static_cast<float>(d);
      return;
    }
    if (dtype == DType::Double) {
      *reinterpret_cast<double*>(p) = d;
      return;
    }
    value = check(PyFloat_FromDouble(d));
    PyRef<> descr = check(reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_FLOAT16)));
    check(PyArray_Pack(reinterpret_cast<PyArray_Descr*>(descr.get()), p, value.get()));
    return;
  }
  if (PyArray_IsScalar(number, Bool)) {
    value = check(PyLong_FromLong(check(PyObject_IsTrue(number))));
  } else if (PyIndex_Check(number)) {
    value = check(PyNumber_Index(number));
  } else {
    double d = PyFloat_AsDouble(number);
    if (d == -1.0 && PyErr_Occurred()) throw PyError();
    if (d != std::floor(d)) type_error("a %sTensor holds ints, but got the float %R", info(dtype).name, number);
    value = check(PyLong_FromDouble(d));
  }
  int overflow;
  long long v = PyLong_AsLongLongAndOverflow(value.get(), &overflow);
  auto store = [&]<class T>(T) {
    if (overflow || v < std::numeric_limits<T>::min() || v > std::numeric_limits<T>::max())
      raise(PyExc_OverflowError, "%R is out of the range of a %sTensor", value.get(), info(dtype).name);
    *reinterpret_cast<T*>(p) = static_cast<T>(v);
  };
  switch (dtype) {
    case DType::Byte: return store(uint8_t{});
    case DType::Char: return store(int8_t{});
    case DType::Short: return store(int16_t{});
    case DType::Int: return store(int32_t{});
    default: return store(int64_t{});
  }
}

PyRef<> select_item(Tensor* t, int64_t i) {
  if (t->ndim == 0) index_error("a 0-d tensor has no dimension to index");
  i = wrap_index(i, t->size(0), 0);
  int64_t offset = t->offset + i * t->stride(0);
  if (t->ndim == 1 && t->device() == kCPU) {
    elements_read(t, "to a number");
    return element_to_number(t->storage->data + offset * itemsize(t->dtype), t->dtype);
  }
  return new_view(t, {t->dims() + 1, t->ndim - 1}, {t->dims() + t->ndim + 1, t->ndim - 1}, offset);
}

PyRef<Tensor> index_tensor(Tensor* t, PyObject* key, bool* is_view) {
  View v;
  *is_view = basic_view(t, key, &v);
  if (*is_view) return v.of(t);
  return tensor_of_item(advanced_item(t, key));
}

PyRef<> get_item(Tensor* t, PyObject* key) {
  if (PyLong_CheckExact(key)) return select_item(t, as_index(key));
  View v;
  if (basic_view(t, key, &v)) {
    PyRef<Tensor> view = v.of(t);
    if (!v.element) return view;
    elements_read(t, "to a number");
    return only_number(view.get());
  }
  PyRef<> result = advanced_item(t, key);
  if (PyArray_CheckScalar(result.get())) return check(PyObject_CallMethod(result.get(), "item", nullptr));
  return tensor_of_item(std::move(result));
}

// Whether a value of sizes `source` broadcasts to `target`, which has as many dimensions or lacks some of size 1 in front.
static bool assignable(Dims source, Dims target) {
  while (source.n > target.n && source[0] == 1) source = {source.data + 1, source.n - 1};
  return expands_to(source, target);
}

void assign_index(Tensor* t, PyObject* key, PyObject* value) {
  require_writable(t, "__setitem__");
  if (value == Py_None || PyUnicode_Check(value) || PyBytes_Check(value))
    type_error("__setitem__: expected a number, a tensor or an array, but got %.100s",
               value == Py_None ? "None" : type_name(value));
  // A number goes through the element type's own check first, so that no fraction is dropped silently.
  PyRef<> number;
  if (is_number(value)) {
    alignas(16) char element[8];
    store_number(element, t->dtype, value);
    number = element_to_number(element, t->dtype);
    value = number.get();
  }
  View v;
  if (basic_view(t, key, &v)) {
    PyRef<Tensor> target = v.of(t);
    if (number && target->numel == 1 && target->device() == kCPU) return store_number(target->bytes(), t->dtype, value);
    if (is_tensor(value)) {
      Tensor* source = as_tensor(value);
      if (assignable(source->sizes(), target->sizes())) return copy_into(target.get(), source);
      return copy_into(target.get(), in_order(source, target->sizes(), true, "__setitem__").get());
    }
    if (number && target->device() != kCPU) return cuda->fill(target.get(), value);
    if (target->device() != kCPU) return copy_into(target.get(), host_tensor(value).get());
    PyRef<> array = PyRef<>::borrow(numpy_view(target.get()));  // the value's conversion may run Python code
    check(PyArray_CopyObject(reinterpret_cast<PyArrayObject*>(array.get()), value));
    return;
  }
  if (t->device() != kCPU) return assign_advanced_cuda(t, key, value, static_cast<bool>(number));
  PyRef<Tensor> mask;
  if (is_element_mask(t, key)) {
    mask = element_mask(t, key);
    key = mask.object();
  }
  if (mask && is_tensor(value) && as_tensor(value)->numel != 1) {
    PyRef<Tensor> source = to_dtype(as_tensor(value), t->dtype);
    if (t->contiguous && source->storage.get() != t->storage.get())
      return masked_scatter(t, mask.get(), source.get(), "__setitem__");
    PyRef<Tensor> copy = clone(t);
    masked_scatter(copy.get(), mask.get(), source.get(), "__setitem__");
    return copy_into(t, copy.get());
  }
  PyRef<> source = PyRef<>::borrow(is_tensor(value) ? numpy_view(as_tensor(value)) : value);
  PyRef<> resolved = numpy_key(key, t->ndim);
  PyRef<> array = PyRef<>::borrow(numpy_view(t));
  if (PyObject_SetItem(array.get(), resolved.get(), source.get()) == 0) return;
  if (!is_tensor(value) || !PyErr_ExceptionMatches(PyExc_ValueError)) rethrow_index_error(array.get(), resolved.get());
  PyErr_Clear();  // the sizes do not broadcast
  PyRef<Tensor> selected = tensor_from_result(check(PyObject_GetItem(array.get(), resolved.get())));
  PyRef<Tensor> fitting = in_order(as_tensor(value), selected->sizes(), true, "__setitem__");
  check(PyObject_SetItem(array.get(), resolved.get(), numpy_view(fitting.get())));
}

void add_at(Tensor* t, PyObject* key, Tensor* part) {
  static PyObject* at = check(PyObject_GetAttrString(numpy_function("add"), "at")).release();
  bool on_device = t->device() != kCPU;
  DType wide_type = t->dtype;
  if (t->dtype == DType::Half) wide_type = DType::Float;                 // sums of many small terms
  else if (on_device && itemsize(t->dtype) < 4) wide_type = DType::Int;  // narrower types have no atomic addition
  if (wide_type != t->dtype) {
    PyRef<Tensor> wide = to_dtype(t, wide_type), wide_part = to_dtype(part, wide_type);
    add_at(wide.get(), key, wide_part.get());
    return copy_into(t, wide.get());
  }
  if (on_device) {
    DeviceScope scope(t->device());
    PyRef<> cupy = check(PyImport_ImportModule("cupy"));
    PyRef<> add = check(PyObject_GetAttrString(cupy.get(), "add"));
    check(PyObject_CallMethod(add.get(), "at", "OOO", cuda->array(t), key, cuda->array(part)));
    return;
  }
  check(PyObject_CallFunctionObjArgs(at, numpy_view(t), key, numpy_view(part), nullptr));
}

}  // namespace torchlite
