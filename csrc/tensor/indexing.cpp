#include "tensor/indexing.h"

#include <cmath>
#include <limits>

#include "tensor/python_tensor.h"
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

bool is_basic_item(PyObject* o) { return is_int(o) || PySlice_Check(o) || o == Py_None || o == Py_Ellipsis; }

int64_t wrap_index(int64_t i, int64_t size, int dim) {
  if (i < -size || i >= size)
    index_error("index %lld is out of range for dimension %d (of size %lld)", static_cast<long long>(i), dim,
                static_cast<long long>(size));
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

// An index tensor as NumPy understands it: Byte is a mask.
PyRef<> index_array(PyObject* o) {
  if (!is_tensor(o)) return PyRef<>::borrow(o);
  PyObject* array = numpy_view(as_tensor(o));
  if (as_tensor(o)->dtype != DType::Byte) return PyRef<>::borrow(array);
  return check(PyArray_CastToType(reinterpret_cast<PyArrayObject*>(array), PyArray_DescrFromType(NPY_BOOL), 0));
}

bool is_index_sequence(PyObject* o) { return PyList_Check(o) || PyTuple_Check(o) || is_tensor(o) || PyArray_Check(o); }

// A list that stands for a tuple: with a slice, None or Ellipsis in it, or one sequence for each dimension.
bool list_means_tuple(Tensor* t, PyObject* list) {
  Py_ssize_t n = PyList_GET_SIZE(list), sequences = 0;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyList_GET_ITEM(list, i);
    if (PySlice_Check(item) || item == Py_None || item == Py_Ellipsis) return true;
    sequences += is_index_sequence(item);
  }
  return n > 0 && sequences == n && n == t->ndim;
}

// The key with which NumPy means what `key` means here.
PyRef<> numpy_key(Tensor* t, PyObject* key) {
  PyRef<> tuple;
  if (PyList_Check(key) && list_means_tuple(t, key)) tuple = check(PyList_AsTuple(key));
  else if (PyTuple_Check(key)) tuple = PyRef<>::borrow(key);
  if (!tuple) {
    if (PyList_Check(key)) {
      // A list of one-element tensors or an empty list: NumPy would guess float.
      PyRef<> array = check(PyArray_FromAny(key, nullptr, 0, 0, NPY_ARRAY_ENSUREARRAY, nullptr));
      PyArrayObject* a = reinterpret_cast<PyArrayObject*>(array.get());
      if (PyArray_SIZE(a) == 0) return check(PyArray_CastToType(a, PyArray_DescrFromType(NPY_INT64), 0));
      return array;
    }
    return index_array(key);
  }
  Py_ssize_t n = PyTuple_GET_SIZE(tuple.get());
  PyRef<> out = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i)
    PyTuple_SET_ITEM(out.get(), i, index_array(PyTuple_GET_ITEM(tuple.get(), i)).release());
  return out;
}

// Only what cannot be a key at all gets this library's message; NumPy's own name index, dimension and size.
[[noreturn]] void refuse_key(PyObject* key) {
  index_error(
      "a tensor is indexed with ints, slices, None, Ellipsis, sequences of ints, LongTensors or ByteTensor "
      "masks, but got %.100s",
      type_name(key));
}

PyRef<> advanced_item(Tensor* t, PyObject* key) {
  if (PyUnicode_Check(key) || PyFloat_Check(key)) refuse_key(key);
  PyRef<> as_numpy = numpy_key(t, key);
  PyRef<> array = PyRef<>::borrow(numpy_view(t));  // the tensor may be changed by what the key calls
  return check(PyObject_GetItem(array.get(), as_numpy.get()));
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
  return tensor_from_result(advanced_item(t, key));
}

PyRef<> get_item(Tensor* t, PyObject* key) {
  if (PyLong_CheckExact(key)) return select_item(t, as_index(key));
  View v;
  if (basic_view(t, key, &v)) {
    PyRef<Tensor> view = v.of(t);
    if (!v.element) return view;
    if (t->device() != kCPU) return check(PyObject_CallMethod(view.object(), "item", nullptr));
    elements_read(t, "to a number");
    return element_to_number(view->bytes(), view->dtype);
  }
  PyRef<> result = advanced_item(t, key);
  if (PyArray_CheckScalar(result.get())) return check(PyObject_CallMethod(result.get(), "item", nullptr));
  return tensor_from_numpy(result.get());
}

void assign_index(Tensor* t, PyObject* key, PyObject* value) {
  require_writable(t, "__setitem__");
  if (value == Py_None) type_error("__setitem__: expected a number, a tensor or an array, but got None");
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
    if (is_tensor(value)) return copy_into(target.get(), as_tensor(value));
    check(PyArray_CopyObject(reinterpret_cast<PyArrayObject*>(numpy_view(target.get())), value));
    return;
  }
  if (PyUnicode_Check(key) || PyFloat_Check(key)) refuse_key(key);
  PyRef<> source = PyRef<>::borrow(is_tensor(value) ? numpy_view(as_tensor(value)) : value);
  PyRef<> as_numpy = numpy_key(t, key);
  PyRef<> array = PyRef<>::borrow(numpy_view(t));
  check(PyObject_SetItem(array.get(), as_numpy.get(), source.get()));
}

}  // namespace torchlite
