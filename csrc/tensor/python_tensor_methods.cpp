// Methods of tensors that are no differentiable operations: metadata, conversions, memory.
#include <algorithm>
#include <cstring>

#include "tensor/cuda.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/python_tensor.h"
#include "utils/method.h"
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
  return guard_named("size", [&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    PyObject* dim = optional_argument(args, n, kwnames, "size", "dim");
    if (!dim || dim == Py_None) return size_tuple(t->sizes()).release();
    int d = dim_argument(dim, t);
    return integer(t->ndim ? t->size(d) : 1).release();
  });
}

PyObject* tensor_stride(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guard_named("stride", [&]() -> PyObject* {
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

// Of the class, which may be one of Python's.
PyObject* tensor_storage_type(PyObject* cls, PyObject*) {
  return guard([&]() -> PyObject* {
    for (auto* base = reinterpret_cast<PyTypeObject*>(cls); base; base = base->tp_base)
      if (is_plain_tensor_type(base)) return new_ref(reinterpret_cast<PyObject*>(&StorageTypes[base - TensorTypes]));
    type_error("storage_type: %R has no storages of its own: use a typed class such as FloatTensor", cls);
  });
}

PyObject* tensor_is_signed(PyObject* o, PyObject*) {
  DType t = as_tensor(o)->dtype;
  return PyBool_FromLong(t != DType::Byte && t != DType::Char);  // Char as the era had it
}

Tensor* tensor_argument(PyObject* o, const char* function) {
  if (!is_tensor(o)) type_error("%s: expected a tensor, but got %.100s", function, type_name(o));
  return as_tensor(o);
}

PyObject* tensor_is_same_size(PyObject* o, PyObject* other) {
  return guard([&]() -> PyObject* {
    return PyBool_FromLong(as_tensor(o)->sizes() == tensor_argument(other, "is_same_size")->sizes());
  });
}

PyObject* tensor_is_set_to(PyObject* o, PyObject* other) {
  return guard([&]() -> PyObject* {
    Tensor *a = as_tensor(o), *b = tensor_argument(other, "is_set_to");
    return PyBool_FromLong(a->storage.get() == b->storage.get() && a->dtype == b->dtype && a->offset == b->offset &&
                           a->sizes() == b->sizes() && a->strides() == b->strides());
  });
}

PyObject* tensor_get_device(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Device d = as_tensor(o)->device();
    if (d == kCPU) runtime_error("get_device: expected a CUDA tensor, but got %s", class_name(Py_TYPE(o)).c_str());
    return PyLong_FromLong(d);
  });
}

PyObject* tensor_item(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (t->numel != 1)
      value_error("item: only tensors of one element are numbers, but got one of size %s",
                  format_dims(t->sizes()).c_str());
    elements_read(t, "to a number");
    return only_number(t).release();
  });
}

// ---- conversions --------------------------------------------------------------------------------------------------

// The era's `async` is a reserved word now: it arrives through a dict, as `async_`, or by position. Host copies are
// synchronous either way.
void accept_async(Py_ssize_t n, PyObject* kwnames, Py_ssize_t positional, const char* function) {
  Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  for (Py_ssize_t i = 0; i < keywords; ++i) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, i);
    if (PyUnicode_CompareWithASCIIString(name, "async") && PyUnicode_CompareWithASCIIString(name, "async_") &&
        PyUnicode_CompareWithASCIIString(name, "non_blocking"))
      type_error("%s() got an unexpected keyword argument %R", function, name);
  }
  if (n > positional + 1)
    type_error("%c%s() takes at most %zd arguments (%zd given)", tolower(function[0]), function + 1, positional + 1, n);
}

PyObject* convert(PyObject* o, DType dtype) {
  Tensor* t = as_tensor(o);
  return to_dtype(t, dtype).release_object();
}

template <DType T>
PyObject* tensor_to(PyObject* o, PyObject* const*, Py_ssize_t n, PyObject* kwnames) {
  return guard([&]() -> PyObject* {
    accept_async(n, kwnames, 0, info(T).name);
    return convert(o, T);
  });
}

// The object that a dotted name such as 'torchlite.cuda.FloatTensor' means.
PyRef<> resolve_name(PyObject* name) {
  PyRef<> dot = check(PyUnicode_FromString("."));
  PyRef<> parts = check(PyUnicode_RPartition(name, dot.get()));
  PyObject* module_name = PyTuple_GET_ITEM(parts.get(), 0);
  PyObject* class_name = PyTuple_GET_ITEM(parts.get(), 2);
  // The plain classes are known without a module, under any name that the package is imported by.
  for (int i = 0; i < kDTypes; ++i) {
    const char* plain = strrchr(TensorTypes[i].tp_name, '.') + 1;
    if (PyUnicode_CompareWithASCIIString(class_name, plain) == 0) {
      PyRef<> package = check(PyUnicode_RPartition(module_name, dot.get()));
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(package.get(), 2), "cuda") == 0)
        return PyRef<>::borrow(reinterpret_cast<PyObject*>(&TensorTypes[i + kDTypes]));
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(package.get(), 2), "sparse") == 0) break;
      return PyRef<>::borrow(reinterpret_cast<PyObject*>(&TensorTypes[i]));
    }
  }
  if (PyUnicode_GetLength(module_name) == 0) value_error("type: there is no tensor class called %R", name);
  PyRef<> helpers = check(PyImport_ImportModule("torchlite._utils"));
  return check(PyObject_CallMethod(helpers.get(), "_import_dotted_name", "O", name));
}

// The element type that a NumPy dtype, or anything NumPy takes for one, stands for.
DType dtype_argument(PyObject* o) {
  PyArray_Descr* descr = nullptr;
  if (!PyArray_DescrConverter(o, &descr)) throw PyError();
  PyRef<> owner = PyRef<>::steal(reinterpret_cast<PyObject*>(descr));
  DType dtype;
  if (!dtype_of_numpy(descr->type_num, &dtype)) type_error("type: no tensor class has the dtype %R", o);
  return dtype;
}

PyRef<> convert_to_class(PyObject* o, PyObject* wanted) {
  PyRef<> cls = PyUnicode_Check(wanted) ? resolve_name(wanted) : PyRef<>::borrow(wanted);
  PyTypeObject* type = reinterpret_cast<PyTypeObject*>(cls.get());
  if (!PyType_Check(cls.get()) || !PyType_IsSubtype(type, &TensorBase_Type))
    return PyRef<>::steal(convert(o, dtype_argument(cls.get())));
  if (Py_TYPE(o) == type) return PyRef<>::borrow(o);
  if (is_plain_tensor_type(type)) {
    Tensor* t = as_tensor(o);
    auto dtype = static_cast<DType>((type - TensorTypes) % kDTypes);
    bool to_cuda = type >= TensorTypes + kDTypes, on_cuda = t->device() != kCPU;
    if (to_cuda == on_cuda) return PyRef<>::steal(convert(o, dtype));
    PyRef<Tensor> moved = new_tensor(dtype, t->sizes(), to_cuda ? require_cuda().current_device() : kCPU);
    copy_into(moved.get(), t);
    return moved;
  }
  return check(PyObject_CallOneArg(cls.get(), o));
}

PyObject* tensor_type(PyObject* o, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guard_named("type", [&]() -> PyObject* {
    if (n == 0 && !kwnames) {
      std::string name = class_name(Py_TYPE(o));
      return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
    }
    if (n == 0) type_error("type() takes the new type as its first argument");
    accept_async(n, kwnames, 1, "type");
    return convert_to_class(o, args[0]).release();
  });
}

PyObject* tensor_type_as(PyObject* o, PyObject* other) {
  return guard([&]() -> PyObject* {
    Tensor* t = tensor_argument(other, "type_as");
    if (t->device() == as_tensor(o)->device()) return convert(o, t->dtype);
    DeviceScope scope(t->device());
    return convert_to_class(o, reinterpret_cast<PyObject*>(Py_TYPE(other))).release();
  });
}

PyObject* tensor_cpu(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (t->device() == kCPU) return new_ref(o);
    PyRef<Tensor> host = new_tensor(t->dtype, t->sizes());
    copy_into(host.get(), t);
    return host.release();
  });
}

PyObject* tensor_new(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard_named("new", [&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (t->device() == kCPU) return construct_tensor(t->dtype, args, n, "new").release();
    return construct_cuda_tensor(t->dtype, t->device(), args, n, "new").release();
  });
}

// ---- memory -------------------------------------------------------------------------------------------------------

PyObject* tensor_numpy_unobserved(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    // A handle of its own: the caller may reshape or freeze it.
    PyObject* array = numpy_view(as_tensor(o));
    return check(PyArray_View(reinterpret_cast<PyArrayObject*>(array), nullptr, &PyArray_Type)).release();
  });
}

PyObject* tensor_numpy(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    elements_read(as_tensor(o), "to an array");
    return tensor_numpy_unobserved(o, nullptr);
  });
}

PyObject* tensor_clone(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* { return clone(as_tensor(o)).release(); });
}

PyObject* tensor_contiguous(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    return (t->contiguous ? alias(t) : clone(t)).release();
  });
}

PyObject* tensor_fill(PyObject* o, PyObject* value) {
  return guard_named("fill_", [&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    PyRef<> number = is_tensor(value) ? check(tensor_item(value, nullptr)) : PyRef<>::borrow(value);
    alignas(16) char element[8];
    store_number(element, t->dtype, number.get());  // may call Python code: the tensor is looked at afterwards
    require_writable(t, "fill_");
    if (t->numel == 0) return new_ref(o);
    int item = itemsize(t->dtype);
    if (!t->contiguous || t->device() != kCPU) {
      number = element_to_number(element, t->dtype);
      if (t->device() != kCPU) {
        cuda->fill(t, number.get());
        return new_ref(o);
      }
      PyRef<> array = PyRef<>::borrow(numpy_view(t));  // NumPy lets other threads run
      check(PyArray_FillWithScalar(reinterpret_cast<PyArrayObject*>(array.get()), number.get()));
      return new_ref(o);
    }
    char* p = t->bytes();
    auto value_of = [&]<class T>(T v) {
      memcpy(&v, element, sizeof v);
      return v;
    };
    switch (item) {  // whatever the type, a pattern of as many bits
      case 1: memset(p, value_of(uint8_t{}), static_cast<size_t>(t->numel)); break;
      case 2: std::fill_n(reinterpret_cast<uint16_t*>(p), t->numel, value_of(uint16_t{})); break;
      case 4: kernels::fill(value_of(float{}), reinterpret_cast<float*>(p), t->numel); break;
      default: kernels::fill(value_of(double{}), reinterpret_cast<double*>(p), t->numel); break;
    }
    return new_ref(o);
  });
}

PyObject* tensor_zero(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* { return tensor_fill(o, check(PyLong_FromLong(0)).get()); });
}

PyObject* tensor_copy(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guard_named("copy_", [&]() -> PyObject* {
    PyObject *src, *async = nullptr, *async_ = nullptr, *non_blocking = nullptr;
    int broadcast = 1;
    static const char* const names[] = {"src", "async", "broadcast", "async_", "non_blocking", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OpOO:copy_", const_cast<char**>(names), &src, &async, &broadcast,
                                     &async_, &non_blocking))
      throw PyError();
    if (is_tensor(src)) {
      copy_elements(as_tensor(o), as_tensor(src), broadcast, "copy_");
    } else if (PyArray_Check(src)) {
      copy_elements(as_tensor(o), tensor_from_numpy(src).get(), broadcast, "copy_");
    } else {
      type_error("copy_: src must be a tensor or an ndarray, but got %.100s", type_name(src));
    }
    return new_ref(o);
  });
}

// Sizes given as separate ints or as one sequence.
std::vector<int64_t> sizes_argument(PyObject* const* args, Py_ssize_t n, const char* function) {
  if (n == 0) type_error("%s: expected sizes, but got no arguments", function);
  if (n == 1) return parse_dims(args[0]);
  std::vector<int64_t> sizes;
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!PyIndex_Check(args[i])) type_error("%s: sizes must be ints, but got %.100s", function, type_name(args[i]));
    sizes.push_back(parse_dims(args[i])[0]);
  }
  return sizes;
}

PyObject* tensor_resize(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard_named("resize_", [&]() -> PyObject* {
    resize(as_tensor(o), sizes_argument(args, n, "resize_"));
    return new_ref(o);
  });
}

PyObject* tensor_resize_as(PyObject* o, PyObject* other) {
  return guard([&]() -> PyObject* {
    resize(as_tensor(o), tensor_argument(other, "resize_as_")->sizes());
    return new_ref(o);
  });
}

PyObject* tensor_set(PyObject* o, PyObject* args) {
  return guard_named("set_", [&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    PyObject *source = nullptr, *size = nullptr, *stride = nullptr;
    long long offset = 0;
    if (!PyArg_ParseTuple(args, "|OLOO:set_", &source, &offset, &size, &stride)) throw PyError();
    if (!source) {
      int64_t zero = 0;
      PyRef<Tensor> empty = new_tensor(t->dtype, {&zero, 1}, t->device());
      repoint(t, empty->storage.copy(), empty->sizes(), empty->strides(), 0);
      return new_ref(o);
    }
    if (is_tensor(source)) {
      Tensor* s = as_tensor(source);
      if (s->dtype != t->dtype || (s->device() == kCPU) != (t->device() == kCPU) || PyTuple_GET_SIZE(args) > 1)
        type_error("set_: expected one %.100s, but got %.100s", type_name(o), type_name(source));
      repoint(t, s->storage.copy(), s->sizes(), s->strides(), s->offset);
      return new_ref(o);
    }
    if (!is_storage(source) || static_cast<Storage*>(source)->dtype != t->dtype ||
        (static_cast<Storage*>(source)->device == kCPU) != (t->device() == kCPU))
      type_error("set_: expected a %sTensor or a %sStorage, but got %.100s", info(t->dtype).name, info(t->dtype).name,
                 type_name(source));
    PyRef<Storage> storage = PyRef<Storage>::borrow(static_cast<Storage*>(source));
    std::vector<int64_t> sizes = size ? parse_dims(size) : std::vector<int64_t>{storage->size() - offset};
    std::vector<int64_t> strides(sizes.size(), 1);
    if (stride) strides = parse_dims(stride);
    else
      for (size_t d = sizes.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<int64_t>(sizes[d], 1);
    if (strides.size() != sizes.size())
      value_error("set_: %zu sizes need as many strides, but got %zu", sizes.size(), strides.size());
    int64_t low = offset, high = offset;
    bool empty = false, overflow = false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] < 0) value_error("set_: sizes must not be negative, but got %s", format_dims(sizes).c_str());
      if (sizes[d] == 0) empty = true;
      int64_t reach = 0;
      overflow |= sizes[d] > 0 && __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach);
      int64_t& end = reach < 0 ? low : high;
      overflow |= __builtin_add_overflow(end, reach, &end);
    }
    if (offset < 0 || offset > storage->size() || (!empty && (overflow || low < 0 || high >= storage->size())))
      value_error("set_: size %s, stride %s and offset %lld reach outside a storage of %lld elements",
                  format_dims(sizes).c_str(), format_dims(strides).c_str(), offset,
                  static_cast<long long>(storage->size()));
    repoint(t, std::move(storage), sizes, strides, offset);
    return new_ref(o);
  });
}

}  // namespace

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
    {"is_signed", tensor_is_signed, METH_NOARGS, "True except for Byte and Char tensors."},
    {"is_same_size", tensor_is_same_size, METH_O, "Whether the other tensor has the same sizes."},
    {"is_set_to", tensor_is_set_to, METH_O, "Whether the other tensor is the same view of the same storage."},
    {"get_device", tensor_get_device, METH_NOARGS, "Number of the CUDA device; RuntimeError on the host."},
    {"item", tensor_item, METH_NOARGS, "The only element as a Python number; ValueError if there is not just one."},
    {"type", method(tensor_type), FAST,
     "type(new_type=None)\n--\n\nThe name of the class; or the tensor in another class, given as the class, its "
     "dotted name or a NumPy dtype: itself if it has that class, else a converted copy."},
    {"type_as", tensor_type_as, METH_O, "The tensor in the class of another."},
    {"float", method(tensor_to<DType::Float>), FAST, "As a FloatTensor: itself, or a copy."},
    {"double", method(tensor_to<DType::Double>), FAST, "As a DoubleTensor: itself, or a copy."},
    {"half", method(tensor_to<DType::Half>), FAST, "As a HalfTensor: itself, or a copy."},
    {"long", method(tensor_to<DType::Long>), FAST, "As a LongTensor: itself, or a copy; fractions are cut off."},
    {"int", method(tensor_to<DType::Int>), FAST, "As an IntTensor: itself, or a copy; fractions are cut off."},
    {"short", method(tensor_to<DType::Short>), FAST, "As a ShortTensor: itself, or a copy; fractions are cut off."},
    {"char", method(tensor_to<DType::Char>), FAST, "As a CharTensor: itself, or a copy; fractions are cut off."},
    {"byte", method(tensor_to<DType::Byte>), FAST, "As a ByteTensor: itself, or a copy; fractions are cut off."},
    {"cpu", tensor_cpu, METH_NOARGS, "The tensor in host memory: itself, or a copy."},
    {"new", method(tensor_new), METH_FASTCALL, "A tensor of this one's class, made as the class would."},
    {"clone", tensor_clone, METH_NOARGS, "A contiguous copy."},
    {"contiguous", tensor_contiguous, METH_NOARGS, "A contiguous tensor: an alias, or a copy."},
    {"fill_", tensor_fill, METH_O, "Sets every element to a number."},
    {"zero_", tensor_zero, METH_NOARGS, "Sets every element to zero."},
    {"copy_", method(tensor_copy), METH_VARARGS | METH_KEYWORDS,
     "copy_(src, async_=False, broadcast=True)\n--\n\nCopies the elements of a tensor or ndarray, cast to this type "
     "and broadcast to this size. RuntimeError if the sizes do not fit."},
    {"resize_", method(tensor_resize), METH_FASTCALL,
     "Changes the sizes in place, keeping the elements in memory order. RuntimeError where more memory is needed and "
     "something else views the storage, or its memory is not the library's."},
    {"resize_as_", tensor_resize_as, METH_O, "resize_ to the sizes of another tensor."},
    {"set_", tensor_set, METH_VARARGS,
     "set_(), set_(tensor), set_(storage, offset=0, size=None, stride=None)\n--\n\nMakes this tensor a view of other "
     "memory of its type."},
    {"index", tensor_index, METH_O, "t[key] as a tensor, also where that is a single element."},
    {"_set_index", tensor_set_index, METH_VARARGS, "_set_index(key, value)\n--\n\nt[key] = value."},
    {"_check_advanced_indexing", tensor_check_advanced_indexing, METH_O,
     "Whether t[key] is a copy of elements that sequences in the key name."},
    {"_advanced_index_select", tensor_advanced_index_select, METH_O, "What t[key] selects, as a 1-d tensor."},
    {"_advanced_index_add", tensor_advanced_index_add, METH_VARARGS,
     "_advanced_index_add(key, source)\n--\n\nAdds as many elements as the key names, in place; repeated positions add "
     "up. Returns self."},
    {"__dlpack__", method(tensor_dlpack), METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule of the memory. "
     "BufferError where it cannot be exported as asked."},
    {"__dlpack_device__", tensor_dlpack_device, METH_NOARGS, "DLPack's (device type, device number)."},
    {"storage_type", tensor_storage_type, METH_NOARGS | METH_CLASS, "The class of the storages of this class."},
    {"storage", tensor_storage, METH_NOARGS, "The memory that this is a view of."},
    {"_numpy", tensor_numpy_unobserved, METH_NOARGS, "As numpy(), for what only prints: a trace does not warn of it."},
    {"numpy", tensor_numpy, METH_NOARGS, "An ndarray on the same memory: writes are seen on both sides."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace torchlite
