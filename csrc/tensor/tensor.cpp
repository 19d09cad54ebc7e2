#include "tensor/tensor.h"

#include <cstring>
#include <string>

#include "tensor/cuda.h"
#include "tensor/exports.h"
#include "tensor/python_tensor.h"
#include "tensor/views.h"
#include "utils/errors.h"
#include "utils/freelist.h"
#include "utils/gil.h"
#include "utils/live_objects.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

Freelist<Tensor, 1024> freelist;

bool is_contiguous(Dims sizes, Dims strides) {
  int64_t expected = 1;
  for (int d = sizes.n - 1; d >= 0; --d) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1 && strides[d] != expected) return false;
    expected *= sizes[d];
  }
  return true;
}

// What NumPy can count in bytes, whatever the element type.
constexpr int64_t kMaxElements = int64_t{1} << 59;

[[noreturn]] void too_many_elements(Dims sizes) {
  runtime_error("a tensor of size %s has too many elements", format_dims(sizes).c_str());
}

// A Tensor without storage yet; its sizes are set, its strides those of a contiguous one unless given.
PyRef<Tensor> make_tensor(DType dtype, Dims sizes, const int64_t* strides, Device device = kCPU) {
  if (sizes.n > kMaxDim) runtime_error("a tensor has at most %d dimensions, but got %d", kMaxDim, sizes.n);
  Tensor* t = freelist.take(&TensorTypes[class_index(dtype, device)]);
  if (!t) throw PyError();
  ++live.tensors;
  new (&t->storage) PyRef<Storage>();
  new (&t->array) PyRef<>();
  t->weakrefs = nullptr;
  t->offset = 0;
  t->dtype = dtype;
  t->ndim = 0;
  PyRef<Tensor> ref = PyRef<Tensor>::steal(t);
  if (sizes.n > kInlineDim) t->heap_dims = new int64_t[2 * sizes.n];
  t->ndim = static_cast<uint8_t>(sizes.n);
  int64_t* d = t->dims();
  int64_t numel = 1, signs = 0;
  for (int i = sizes.n - 1; i >= 0; --i) {
    d[i] = sizes[i];
    signs |= sizes[i];
    d[sizes.n + i] = strides ? strides[i] : numel;
    if (__builtin_mul_overflow(numel, sizes[i], &numel)) too_many_elements(sizes);
  }
  if (numel > kMaxElements) too_many_elements(sizes);
  if (signs < 0) runtime_error("sizes must not be negative, but got %s", format_dims(sizes).c_str());
  t->numel = numel;
  t->contiguous = !strides || is_contiguous(sizes, {strides, sizes.n});
  return ref;
}

}  // namespace

PyRef<Tensor> new_tensor(DType dtype, Dims sizes) {
  PyRef<Tensor> t = make_tensor(dtype, sizes, nullptr);
  if (t->numel > (int64_t{1} << 58)) throw std::bad_alloc();
  t->storage = new_storage(dtype, t->numel * itemsize(dtype));
  return t;
}

PyRef<Tensor> new_zeros(DType dtype, Dims sizes) {
  PyRef<Tensor> t = new_tensor(dtype, sizes);
  if (t->numel) std::memset(t->bytes(), 0, static_cast<size_t>(t->numel * itemsize(dtype)));
  return t;
}

PyRef<Tensor> new_full(DType dtype, Dims sizes, double value) {
  PyRef<Tensor> t = new_tensor(dtype, sizes);
  if (dtype == DType::Float) {
    std::fill_n(t->ptr<float>(), t->numel, static_cast<float>(value));
  } else if (dtype == DType::Double) {
    std::fill_n(t->ptr<double>(), t->numel, value);
  } else {
    PyRef<> number = check(is_floating(dtype) ? PyFloat_FromDouble(value) : PyLong_FromDouble(value));
    check(PyArray_FillWithScalar(reinterpret_cast<PyArrayObject*>(numpy_view(t.get())), number.get()));
  }
  return t;
}

PyRef<Tensor> new_tensor(DType dtype, Dims sizes, Device device) {
  return device == kCPU ? new_tensor(dtype, sizes) : require_cuda().empty(dtype, sizes, device);
}

PyRef<Tensor> new_zeros(DType dtype, Dims sizes, Device device) {
  return device == kCPU ? new_zeros(dtype, sizes) : new_full(dtype, sizes, 0, device);
}

PyRef<Tensor> new_full(DType dtype, Dims sizes, double value, Device device) {
  if (device == kCPU) return new_full(dtype, sizes, value);
  PyRef<Tensor> t = new_tensor(dtype, sizes, device);
  PyRef<> number = check(is_floating(dtype) ? PyFloat_FromDouble(value) : PyLong_FromDouble(value));
  cuda->fill(t.get(), number.get());
  return t;
}

PyRef<Tensor> new_tensor_on(PyRef<Storage> storage, DType dtype, Dims sizes, Dims strides, int64_t offset) {
  PyRef<Tensor> t = make_tensor(dtype, sizes, strides.data, storage->device);
  t->storage = std::move(storage);
  t->offset = offset;
  // Memory of an object that the collector knows may lead back here: an ndarray subclass with attributes, say.
  PyObject* owner = t->storage->owner.get();
  if (owner && PyObject_IS_GC(owner)) PyObject_GC_Track(t.get());
  return t;
}

PyRef<Tensor> new_view(const Tensor* base, Dims sizes, Dims strides, int64_t offset) {
  return new_tensor_on(base->storage.copy(), base->dtype, sizes, strides, offset);
}

PyRef<Tensor> alias(const Tensor* t) { return new_view(t, t->sizes(), t->strides(), t->offset); }

void repoint(Tensor* t, PyRef<Storage> storage, Dims sizes, Dims strides, int64_t offset) {
  // All that can fail happens on a fresh tensor.
  PyRef<Tensor> fresh = new_tensor_on(std::move(storage), t->dtype, sizes, strides, offset);
  views::take(t, fresh.get());
}

void resize(Tensor* t, Dims sizes) {
  if (sizes == t->sizes() && t->contiguous) return;
  for (int64_t s : sizes)
    if (s < 0) runtime_error("resize_: sizes must not be negative, but got %s", format_dims(sizes).c_str());
  PyRef<Tensor> shape = make_tensor(t->dtype, sizes, nullptr, t->device());  // checks the number of elements
  if (shape->numel > (int64_t{1} << 58)) throw std::bad_alloc();
  auto bytes = [&] { return (t->offset + shape->numel) * itemsize(t->dtype); };
  if (bytes() > t->storage->nbytes) {
    wait_for_kernels();  // other threads may have changed the tensor meanwhile
    drop_array(t);
    if (bytes() > t->storage->nbytes) resize_storage(t->storage.get(), bytes());
  }
  repoint(t, t->storage.copy(), shape->sizes(), shape->strides(), t->offset);
}

PyRef<Tensor> contiguous(Tensor* t) { return t->contiguous ? PyRef<Tensor>::borrow(t) : clone(t); }

PyRef<Tensor> clone(const Tensor* t) {
  PyRef<Tensor> out = new_tensor(t->dtype, t->sizes(), t->device());
  if (t->contiguous && t->device() == kCPU) {
    if (t->numel) std::memcpy(out->bytes(), t->bytes(), static_cast<size_t>(t->numel * itemsize(t->dtype)));
  } else {
    copy_into(out.get(), const_cast<Tensor*>(t));
  }
  return out;
}

PyRef<Tensor> to_dtype(Tensor* t, DType dtype) {
  if (t->dtype == dtype) return PyRef<Tensor>::borrow(t);
  PyRef<Tensor> out = new_tensor(dtype, t->sizes(), t->device());
  copy_into(out.get(), t);
  return out;
}

// ---- helpers ------------------------------------------------------------------------------------------------------

int wrap_dim(int64_t dim, int ndim, const char* function) {
  int range = ndim > 0 ? ndim : 1;  // a 0-d tensor takes 0 and -1
  if (dim < -range || dim >= range)
    runtime_error("%s%sdimension out of range (expected to be in range of [%d, %d], but got %lld)",
                  function ? function : "", function ? ": " : "", -range, range - 1, static_cast<long long>(dim));
  return static_cast<int>(dim < 0 ? dim + range : dim);
}

std::vector<int64_t> broadcast_sizes(Dims a, Dims b, const char* function) {
  int n = a.n > b.n ? a.n : b.n;
  std::vector<int64_t> out(static_cast<size_t>(n));
  for (int i = 0; i < n; ++i) {
    int64_t x = i < n - a.n ? 1 : a[i - (n - a.n)];
    int64_t y = i < n - b.n ? 1 : b[i - (n - b.n)];
    if (x != y && x != 1 && y != 1)
      runtime_error("%s: inconsistent tensor size, expected sizes that broadcast, but %s and %s differ at dimension %d",
                    function, format_dims(a).c_str(), format_dims(b).c_str(), i);
    out[static_cast<size_t>(i)] = x == 1 ? y : x;
  }
  return out;
}

std::string format_dims(Dims d) {
  std::string s = "(";
  for (int i = 0; i < d.n; ++i) s += (i ? ", " : "") + std::to_string(d[i]);
  return s + (d.n == 1 ? ",)" : ")");
}

PyRef<> int_tuple(Dims d) {
  PyRef<> t = check(PyTuple_New(d.n));
  for (int i = 0; i < d.n; ++i) PyTuple_SET_ITEM(t.get(), i, check(PyLong_FromLongLong(d[i])).release());
  return t;
}

PyRef<> size_tuple(Dims d) {
  PyRef<> t = check(Size_Type.tp_alloc(&Size_Type, d.n));
  for (int i = 0; i < d.n; ++i) PyTuple_SET_ITEM(t.get(), i, check(PyLong_FromLongLong(d[i])).release());
  return t;
}

std::vector<int64_t> parse_dims(PyObject* o) {
  auto one = [](PyObject* item) {
    PyRef<> index = check(PyNumber_Index(item));
    int overflow = 0;
    long long v = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
    if (overflow) raise(PyExc_OverflowError, "%R is too large for a size, a dimension or an index", index.get());
    return static_cast<int64_t>(v);
  };
  if (PyIndex_Check(o)) return {one(o)};
  // A tuple of its own: `__index__` of an item may change a list.
  PyRef<> seq = PyRef<>::steal(PySequence_Tuple(o));
  if (!seq) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PyError();
    PyErr_Clear();  // replaced by an error that says what is expected
    type_error("expected an int or a sequence of ints, but got %.100s", type_name(o));
  }
  std::vector<int64_t> out;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(seq.get()); ++i) out.push_back(one(PyTuple_GET_ITEM(seq.get(), i)));
  return out;
}

PyRef<> element_to_number(const char* p, DType dtype) {
  switch (dtype) {
    case DType::Byte: return check(PyLong_FromLong(*reinterpret_cast<const uint8_t*>(p)));
    case DType::Char: return check(PyLong_FromLong(*reinterpret_cast<const int8_t*>(p)));
    case DType::Short: return check(PyLong_FromLong(*reinterpret_cast<const int16_t*>(p)));
    case DType::Int: return check(PyLong_FromLong(*reinterpret_cast<const int32_t*>(p)));
    case DType::Long: return check(PyLong_FromLongLong(*reinterpret_cast<const int64_t*>(p)));
    case DType::Float: return check(PyFloat_FromDouble(*reinterpret_cast<const float*>(p)));
    case DType::Double: return check(PyFloat_FromDouble(*reinterpret_cast<const double*>(p)));
    case DType::Half: break;
  }
  PyRef<> descr = check(reinterpret_cast<PyObject*>(PyArray_DescrFromType(NPY_FLOAT16)));
  PyRef<> scalar = check(PyArray_Scalar(const_cast<char*>(p), reinterpret_cast<PyArray_Descr*>(descr.get()), nullptr));
  return check(PyNumber_Float(scalar.get()));
}

PyRef<> only_number(Tensor* t) {
  return t->device() == kCPU ? element_to_number(t->bytes(), t->dtype) : cuda->number(t);
}

// ---- slots --------------------------------------------------------------------------------------------------------

int tensor_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Tensor* self = as_tensor(o);
  Py_VISIT(self->storage.object());
  Py_VISIT(self->array.get());
  return 0;
}

int tensor_tp_clear(PyObject* o) {
  // The storage stays: a tensor without memory could not be used by the finalizers that still see it. It can only be
  // part of a cycle through its owner (see storage_tp_clear).
  drop_array(as_tensor(o));
  return 0;
}

void tensor_tp_dealloc(PyObject* o) {
  Tensor* self = as_tensor(o);
  PyTypeObject* type = Py_TYPE(o);
  --live.tensors;
  PyObject_GC_UnTrack(o);
  if (self->weakrefs) PyObject_ClearWeakRefs(o);
  drop_array(self);
  self->array.~PyRef<>();
  self->storage.reset();
  self->storage.~PyRef<Storage>();
  if (self->ndim > kInlineDim) delete[] self->heap_dims;
  if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
    type->tp_free(o);
  } else {
    freelist.put(self);
  }
}

}  // namespace torchlite
