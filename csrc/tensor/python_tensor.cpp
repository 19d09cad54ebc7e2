// How Python sees a Tensor: the type objects of `_TensorBase` and FloatTensor ..., construction and attributes.
#include "tensor/python_tensor.h"

#include <algorithm>

#include "tensor/allocator.h"
#include "tensor/cuda.h"
#include "tensor/indexing.h"
#include "tensor/kernels/parallel.h"
#include "utils/live_objects.h"
#include "utils/method.h"
#include "utils/numpy_api.h"

namespace torchlite {

PyNumberMethods tensor_number_methods = {};
richcmpfunc tensor_richcompare = nullptr;

std::string class_name(PyTypeObject* type) {
  auto text = [&](const char* attribute) {
    PyRef<> value = check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(type), attribute));
    const char* s = PyUnicode_Check(value.get()) ? PyUnicode_AsUTF8(value.get()) : "?";
    if (!s) throw PyError();
    return std::string(s);
  };
  return text("__module__") + "." + text("__name__");
}

DType dtype_of_class(PyTypeObject* type) {
  for (PyTypeObject* base = type; base; base = base->tp_base)
    if (is_plain_tensor_type(base)) return static_cast<DType>((base - TensorTypes) % kDTypes);
  type_error("cannot create an instance of %.100s: use a typed class such as FloatTensor", type->tp_name);
}

PyRef<Tensor> as_class(PyTypeObject* type, PyRef<Tensor> t) {
  if (Py_TYPE(t.get()) == type) return t;
  // Zeroed memory is a valid empty tensor until the members arrive.
  PyRef<Tensor> out = check(type->tp_alloc(type, 0)).cast<Tensor>();
  ++live.tensors;
  out->storage = t->storage.copy();
  out->offset = t->offset;
  out->numel = t->numel;
  out->dtype = t->dtype;
  out->contiguous = t->contiguous;
  if (t->ndim > kInlineDim) out->heap_dims = new int64_t[2 * t->ndim];
  out->ndim = t->ndim;
  std::copy_n(t->dims(), 2 * t->ndim, out->dims());
  return out;
}

namespace {

PyRef<Tensor> uninitialised(DType dtype, const std::vector<int64_t>& sizes, const char* name) {
  for (int64_t s : sizes)
    if (s < 0) runtime_error("%s: sizes must not be negative, but got %s", name, format_dims(sizes).c_str());
  return new_tensor(dtype, sizes);
}

PyRef<Tensor> from_array(DType dtype, PyObject* o) {
  PyArrayObject* a = reinterpret_cast<PyArrayObject*>(o);
  int number = PyArray_TYPE(a);
  DType own;
  bool supported = dtype_of_numpy(number, &own);
  bool castable = supported || (PyTypeNum_ISNUMBER(number) && !PyTypeNum_ISCOMPLEX(number));
  if (!castable || (supported && own == dtype)) return tensor_from_numpy(o);  // which reports a type it cannot take
  return tensor_from_numpy(check(PyArray_CastToType(a, PyArray_DescrFromType(info(dtype).numpy_type), 0)).get());
}

[[noreturn]] void invalid_arguments(DType dtype, PyObject* const* args, Py_ssize_t n, const char* name) {
  std::string got;
  for (Py_ssize_t i = 0; i < n; ++i) got += (i ? ", " : "") + std::string(type_name(args[i]));
  type_error(
      "%s received an invalid combination of arguments - got (%.300s), but expected one of: no arguments; "
      "(int ...); (torchlite.Size sizes); (tensor other); (%sStorage storage); (ndarray array); "
      "(sequence of %s)",
      name, got.c_str(), info(dtype).name, is_floating(dtype) ? "float" : "int");
}

}  // namespace

PyRef<Tensor> construct_tensor(DType dtype, PyObject* const* args, Py_ssize_t n, const char* name) {
  if (n == 0) {
    int64_t zero = 0;
    return new_tensor(dtype, {&zero, 1});
  }
  PyObject* o = args[0];
  if (n == 1) {
    if (is_tensor(o)) {
      Tensor* t = as_tensor(o);
      if (t->device() != kCPU)
        type_error("%s: got a %.100s, which lies on a CUDA device: cpu() copies it to the host", name, type_name(o));
      return t->dtype == dtype ? alias(t) : to_dtype(t, dtype);
    }
    if (is_storage(o)) {
      PyRef<Storage> storage = PyRef<Storage>::borrow(static_cast<Storage*>(o));
      int64_t size = storage->size(), stride = 1;
      if (storage->dtype != dtype) invalid_arguments(dtype, args, n, name);
      return new_tensor_on(std::move(storage), dtype, {&size, 1}, {&stride, 1}, 0);
    }
    if (PyObject_TypeCheck(o, &Size_Type)) return uninitialised(dtype, parse_dims(o), name);
    if (PyList_Check(o) || PyTuple_Check(o)) return tensor_from_sequence(dtype, o);
    if (PyArray_Check(o)) return from_array(dtype, o);
  }
  if (n <= kMaxDim) {
    std::vector<int64_t> sizes;
    for (Py_ssize_t i = 0; i < n && is_int(args[i]); ++i) sizes.push_back(parse_dims(args[i])[0]);
    if (static_cast<Py_ssize_t>(sizes.size()) == n) return uninitialised(dtype, sizes, name);
  }
  if (n == 1 && !PyUnicode_Check(o) && !PyFloat_Check(o) && !PyLong_Check(o) && !PyArray_CheckScalar(o)) {
    if (is_cuda_array(o))
      type_error("%s: got a %.100s, which lies on a CUDA device: torchlite.cuda.%sTensor takes it", name, type_name(o),
                 info(dtype).name);
    // A buffer, or anything else that presents itself as an array.
    PyRef<> array = PyRef<>::steal(PyArray_FromAny(o, nullptr, 0, 0, NPY_ARRAY_ENSUREARRAY, nullptr));
    if (!array) throw PyError();
    PyArrayObject* a = reinterpret_cast<PyArrayObject*>(array.get());
    if (PyTypeNum_ISNUMBER(PyArray_TYPE(a)) || PyTypeNum_ISBOOL(PyArray_TYPE(a))) return from_array(dtype, array.get());
    if (PySequence_Check(o)) return tensor_from_sequence(dtype, check(PySequence_List(o)).get());
  }
  invalid_arguments(dtype, args, n, name);
}

PyRef<Tensor> construct_cuda_tensor(DType dtype, Device device, PyObject* const* args, Py_ssize_t n, const char* name) {
  PyObject* o = n == 1 ? args[0] : nullptr;
  PyRef<Tensor> source;
  if (o && is_tensor(o) && as_tensor(o)->device() != kCPU) {
    source = PyRef<Tensor>::borrow(as_tensor(o));
  } else if (o && is_storage(o) && static_cast<Storage*>(o)->device != kCPU) {
    return construct_tensor(dtype, args, n, name);
  } else if (o && !PyLong_Check(o) && !is_tensor(o) && is_cuda_array(o)) {
    source = tensor_from_cuda_array(o);
  } else if (o && (is_tensor(o) || is_storage(o))) {
    type_error("%s: got a %.100s, which lies on the host: cuda() copies it to a device", name, type_name(o));
  }
  if (source && source->dtype == dtype) return alias(source.get());
  if (source) return to_dtype(source.get(), dtype);
  PyRef<Tensor> on_host = construct_tensor(dtype, args, n, name);
  PyRef<Tensor> t = new_tensor(dtype, on_host->sizes(), device);
  // Sizes alone give uninitialised memory.
  bool filled = o && !is_int(o) && !PyObject_TypeCheck(o, &Size_Type);
  if (filled && t->numel) copy_into(t.get(), on_host.get());
  return t;
}

PyObject* from_numpy(PyObject*, PyObject* array) {
  return guard([&]() -> PyObject* { return tensor_from_numpy(array).release(); });
}

namespace {

// ---- new, init ----------------------------------------------------------------------------------------------------

bool class_is_cuda(PyTypeObject* type) {
  while (!is_plain_tensor_type(type)) type = type->tp_base;
  return type >= TensorTypes + kDTypes;
}

// torchlite.cuda.FloatTensor(..., device=None): as the host's class makes it, then on the device. A tensor of the class
// is aliased.
PyObject* new_cuda_tensor(PyTypeObject* type, DType dtype, PyObject* args, PyObject* kwargs) {
  bool own_init = type->tp_init != TensorBase_Type.tp_init;
  PyObject* device_object = kwargs && !own_init ? PyDict_GetItemString(kwargs, "device") : nullptr;
  if (kwargs && !own_init && PyDict_GET_SIZE(kwargs) != (device_object ? 1 : 0))
    type_error("%s() takes no keyword argument but device", class_name(type).c_str());
  Cuda& bridge = require_cuda();
  Device device = device_object && device_object != Py_None ? static_cast<Device>(parse_dims(device_object)[0])
                                                            : bridge.current_device();
  return as_class(type, construct_cuda_tensor(dtype, device, reinterpret_cast<PyTupleObject*>(args)->ob_item,
                                              PyTuple_GET_SIZE(args), type->tp_name))
      .release();
}

PyObject* tensor_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    DType dtype = dtype_of_class(type);
    if (class_is_cuda(type)) return new_cuda_tensor(type, dtype, args, kwargs);
    bool own_init = type->tp_init != TensorBase_Type.tp_init;  // then the keywords are its business
    if (kwargs && PyDict_GET_SIZE(kwargs) && !own_init)
      type_error("%s() takes no keyword arguments", class_name(type).c_str());
    PyObject* const* items = reinterpret_cast<PyTupleObject*>(args)->ob_item;
    return as_class(type, construct_tensor(dtype, items, PyTuple_GET_SIZE(args), type->tp_name)).release();
  });
}

int tensor_tp_init(PyObject*, PyObject*, PyObject*) { return 0; }

// Written in Python, where subclasses find it too.
PyObject* tensor_tp_repr(PyObject* o) { return PyObject_CallMethod(o, "_format", nullptr); }

// ---- protocols ----------------------------------------------------------------------------------------------------

// Tensors are compared element by element, so as keys they stand for themselves.
Py_hash_t tensor_tp_hash(PyObject* o) { return PyBaseObject_Type.tp_hash(o); }

PyObject* tensor_tp_iter(PyObject* o) {
  if (as_tensor(o)->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "iteration over a 0-d tensor");
    return nullptr;
  }
  return PySeqIter_New(o);
}

Py_ssize_t tensor_mp_length(PyObject* o) {
  if (as_tensor(o)->ndim == 0) {
    PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
    return -1;
  }
  return static_cast<Py_ssize_t>(as_tensor(o)->size(0));
}

PyObject* tensor_sq_item(PyObject* o, Py_ssize_t i) {
  Tensor* t = as_tensor(o);
  if (t->ndim && i >= t->size(0)) {  // how iteration ends, without the cost of a C++ exception
    PyErr_SetString(PyExc_IndexError, "index is out of range for dimension 0");
    return nullptr;
  }
  return guard([&]() -> PyObject* { return select_item(as_tensor(o), i).release(); });
}

PyObject* tensor_mp_subscript(PyObject* o, PyObject* key) {
  return guard([&]() -> PyObject* { return get_item(as_tensor(o), key).release(); });
}

int tensor_mp_ass_subscript(PyObject* o, PyObject* key, PyObject* value) {
  return guard(-1, [&] {
    if (!value) type_error("%s does not support the deletion of elements", type_name(o));
    assign_index(as_tensor(o), key, value);
    return 0;
  });
}

int tensor_nb_bool(PyObject* o) {
  return guard(-1, [&]() -> int {
    Tensor* t = as_tensor(o);
    if (t->numel == 0) return 0;
    if (t->ndim == 0) return PyObject_IsTrue(only_number(t).get());
    runtime_error("bool value of non-empty %s objects is ambiguous", class_name(Py_TYPE(o)).c_str());
  });
}

PyRef<> only_element(PyObject* o, const char* what) {
  Tensor* t = as_tensor(o);
  if (t->numel != 1)
    type_error("only tensors of one element can be converted to %s, but got one of size %s", what,
               format_dims(t->sizes()).c_str());
  elements_read(t, "to a number");
  return only_number(t);
}

PyObject* tensor_nb_float(PyObject* o) {
  return guard([&]() -> PyObject* { return PyNumber_Float(only_element(o, "a Python float").get()); });
}
PyObject* tensor_nb_int(PyObject* o) {
  return guard([&]() -> PyObject* { return PyNumber_Long(only_element(o, "a Python int").get()); });
}
PyObject* tensor_nb_index(PyObject* o) {
  return guard([&]() -> PyObject* {
    if (is_floating(as_tensor(o)->dtype)) type_error("only integer tensors can be an index, but got %s", type_name(o));
    return only_element(o, "an index").release();
  });
}

// ---- attributes ---------------------------------------------------------------------------------------------------

PyObject* tensor_get_shape(PyObject* o, void*) {
  return guard([&]() -> PyObject* { return size_tuple(as_tensor(o)->sizes()).release(); });
}

PyObject* tensor_get_dtype(PyObject* o, void*) {
  return reinterpret_cast<PyObject*>(PyArray_DescrFromType(info(as_tensor(o)->dtype).numpy_type));
}

PyObject* tensor_get_ndim(PyObject* o, void*) { return PyLong_FromLong(as_tensor(o)->ndim); }
PyObject* tensor_get_readonly(PyObject* o, void*) { return PyBool_FromLong(as_tensor(o)->readonly()); }

PyObject* tensor_get_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(o); }

PyObject* tensor_get_data(PyObject*, void*) {
  const char* package = Size_Type.tp_name;
  PyErr_Format(PyExc_RuntimeError, "cannot call .data on a %sTensor: did you intend to use autograd.Variable?",
               std::string(package, strchr(package, '.') + 1 - package).c_str());
  return nullptr;
}

PyObject* tensor_get_array_interface(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_tensor(o);
    if (t->device() != kCPU)
      raise(PyExc_AttributeError, "%s has no __array_interface__: its memory lies on a CUDA device", type_name(o));
    PyRef<> sizes = int_tuple(t->sizes());
    std::vector<int64_t> bytes(t->strides().begin(), t->strides().end());
    for (int64_t& s : bytes) s *= itemsize(t->dtype);
    PyRef<> strides = int_tuple(bytes);
    PyRef<> address = check(PyLong_FromVoidPtr(t->bytes()));
    ++t->storage->pins;  // nobody says when the address is no longer used
    return Py_BuildValue("{s:i,s:s,s:O,s:O,s:(OO)}", "version", 3, "typestr", info(t->dtype).typestr, "shape",
                         sizes.get(), "strides", strides.get(), "data", address.get(),
                         t->readonly() ? Py_True : Py_False);
  });
}

PyMappingMethods tensor_mapping = {
    .mp_length = tensor_mp_length,
    .mp_subscript = tensor_mp_subscript,
    .mp_ass_subscript = tensor_mp_ass_subscript,
};

// For iteration, and for callers that ask whether this is a sequence.
PySequenceMethods tensor_sequence = {.sq_length = tensor_mp_length, .sq_item = tensor_sq_item};

PyGetSetDef tensor_getset[] = {
    {"shape", tensor_get_shape, nullptr, "The sizes, a torchlite.Size.", nullptr},
    {"dtype", tensor_get_dtype, nullptr, "The NumPy dtype of the elements.", nullptr},
    {"ndim", tensor_get_ndim, nullptr, "Number of dimensions.", nullptr},
    {"readonly", tensor_get_readonly, nullptr, "Whether the memory may not be written.", nullptr},
    {"data", tensor_get_data, nullptr, "An error: only Variables have data.", nullptr},
    {"_cdata", tensor_get_cdata, nullptr, "Identity of the tensor, an int.", nullptr},
    {"__array_interface__", tensor_get_array_interface, nullptr, "NumPy's array interface, version 3.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- module functions ---------------------------------------------------------------------------------------------

PyObject* memory_stats(PyObject*, PyObject*) {
  AllocatorStats s = allocator_stats();
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L}", "allocated_bytes", static_cast<long long>(s.allocated_bytes),
                       "allocated_blocks", static_cast<long long>(s.allocated_blocks), "cached_bytes",
                       static_cast<long long>(s.cached_bytes), "peak_bytes", static_cast<long long>(s.peak_bytes),
                       "total_allocations", static_cast<long long>(s.total_allocations));
}

PyObject* live_objects(PyObject*, PyObject*) {
  return Py_BuildValue("{s:L,s:L,s:L,s:L}", "Tensor", static_cast<long long>(live.tensors), "Storage",
                       static_cast<long long>(live.storages), "Variable", static_cast<long long>(live.variables),
                       "Function", static_cast<long long>(live.functions));
}

PyObject* empty_cache_(PyObject*, PyObject*) {
  empty_cache();
  return none();
}

PyObject* reset_peak_memory(PyObject*, PyObject*) {
  reset_peak();
  return none();
}

PyObject* fail_allocations_after_(PyObject*, PyObject* arg) {
  long long n = PyLong_AsLongLong(arg);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  fail_allocations_after(n);
  return none();
}

PyObject* wrap_dim(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject* dim;
    int ndim;
    const char* function = nullptr;
    if (!PyArg_ParseTuple(args, "Oi|s:_wrap_dim", &dim, &ndim, &function)) throw PyError();
    if (!PyIndex_Check(dim)) type_error("_wrap_dim: a dimension is an int, not a %.100s", type_name(dim));
    return PyLong_FromLong(torchlite::wrap_dim(parse_dims(dim)[0], ndim, function));
  });
}

PyObject* get_num_threads(PyObject*, PyObject*) { return PyLong_FromLong(kernels::num_threads()); }

PyObject* set_num_threads(PyObject*, PyObject* arg) {
  return guard([&]() -> PyObject* {
    int64_t n = PyIndex_Check(arg) && !PyBool_Check(arg) ? parse_dims(arg)[0] : 0;
    if (n < 1 || n > 1024) value_error("set_num_threads: expected a number from 1 to 1024, but got %R", arg);
    kernels::set_num_threads(static_cast<int>(n));
    return none();
  });
}

// Methods written in Python: {name: function} into the class that all tensors, or storages, share. A static type refuses
// setattr.
template <PyTypeObject* Type>
PyObject* add_methods(PyObject*, PyObject* methods) {
  return guard([&]() -> PyObject* {
    if (!PyDict_Check(methods)) type_error("expected a dict of methods, but got %.100s", type_name(methods));
    check(PyDict_Update(Type->tp_dict, methods));
    PyType_Modified(Type);
    return none();
  });
}

PyMethodDef module_functions[] = {
    {"from_dlpack", method(from_dlpack), METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\nA tensor on the memory of an object with __dlpack__, or of a "
     "capsule. BufferError where the memory, its type or the capsule cannot be used."},
    {"_infer_size", infer_size, METH_VARARGS,
     "_infer_size(a, b) -> Size\n\nThe Size that Sizes a and b broadcast to; RuntimeError if they don't."},
    {"_set_default_tensor_type", set_default_tensor_type, METH_O,
     "Sets the class of tensors that factory functions make."},
    {"_get_default_tensor_type", get_default_tensor_type, METH_NOARGS,
     "The class of tensors that factory functions make."},
    {"_sized", sized_tensor, METH_VARARGS,
     "_sized(sizes, out)\n\nAn uninitialised tensor of the default class, or `out` resized if it is not None. `sizes` "
     "is a tuple of ints or holds one sequence of ints."},
    {"_wrap_dim", wrap_dim, METH_VARARGS,
     "_wrap_dim(dim, ndim, function=None) -> int\n\nThe dimension counted from the front; a 0-d tensor has the one "
     "dimension 0. RuntimeError, which names `function`, if there is none such."},
    {"get_num_threads", get_num_threads, METH_NOARGS,
     "get_num_threads() -> int\n\nHow many threads a loop over elements may use. Matrix products use NumPy's BLAS and "
     "its threads."},
    {"set_num_threads", set_num_threads, METH_O,
     "set_num_threads(n)\n\nSets how many threads a loop over elements may use, at least 1."},
    {"_memory_stats", memory_stats, METH_NOARGS,
     "Counts of the host allocator: allocated_bytes, allocated_blocks, cached_bytes, peak_bytes, total_allocations."},
    {"_live_objects", live_objects, METH_NOARGS, "How many tensors, storages, Variables and functions are alive."},
    {"_empty_cache", empty_cache_, METH_NOARGS, "Returns cached host memory to the system."},
    {"_reset_peak_memory", reset_peak_memory, METH_NOARGS, "Sets peak_bytes to what is allocated now."},
    {"_fail_allocations_after", fail_allocations_after_, METH_O,
     "Test hook: host allocations fail after n more, until called with -1."},
    {"_add_tensor_methods", add_methods<&TensorBase_Type>, METH_O,
     "Adds methods written in Python to all tensor classes."},
    {"_add_storage_methods", add_methods<&StorageBase_Type>, METH_O,
     "Adds methods written in Python to all storage classes."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject TensorBase_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._TensorBase",
    .tp_basicsize = sizeof(Tensor),
    .tp_dealloc = tensor_tp_dealloc,
    .tp_repr = tensor_tp_repr,
    .tp_as_number = &tensor_number_methods,
    .tp_as_sequence = &tensor_sequence,
    .tp_as_mapping = &tensor_mapping,
    .tp_hash = tensor_tp_hash,
    .tp_as_buffer = &tensor_buffer,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A strided view of a storage.",
    .tp_traverse = tensor_tp_traverse,
    .tp_clear = tensor_tp_clear,
    .tp_weaklistoffset = offsetof(Tensor, weakrefs),
    .tp_iter = tensor_tp_iter,
    .tp_methods = tensor_methods,
    .tp_getset = tensor_getset,
    .tp_init = tensor_tp_init,
    .tp_new = tensor_tp_new,
};

PyTypeObject TensorTypes[2 * kDTypes];

void init_tensor(PyObject* module) {
  static std::string names[2 * kDTypes], docs[2 * kDTypes];
  tensor_number_methods.nb_bool = tensor_nb_bool;
  tensor_number_methods.nb_int = tensor_nb_int;
  tensor_number_methods.nb_float = tensor_nb_float;
  tensor_number_methods.nb_index = tensor_nb_index;
  TensorBase_Type.tp_richcompare = tensor_richcompare;
  check(PyType_Ready(&Size_Type));
  check(PyModule_AddType(module, &Size_Type));
  check(PyType_Ready(&TensorBase_Type));
  // ndarray's operators leave a tensor operand to the tensor's own.
  check(PyDict_SetItemString(TensorBase_Type.tp_dict, "__array_ufunc__", Py_None));
  check(PyDict_SetItemString(TensorBase_Type.tp_dict, "__array_priority__", check(PyFloat_FromDouble(1000)).get()));
  add_class_flags();
  check(PyModule_AddType(module, &TensorBase_Type));
  PyRef<> classes = check(PySet_New(nullptr));
  PyRef<> cuda_classes = check(PyTuple_New(kDTypes));
  for (int i = 0; i < 2 * kDTypes; ++i) {
    bool on_cuda = i >= kDTypes;
    const DTypeInfo& dtype = kDTypeInfo[i % kDTypes];
    names[i] = std::string(on_cuda ? "torchlite.cuda." : "torchlite.") + dtype.name + "Tensor";
    docs[i] = std::string(dtype.name) + "Tensor(*sizes) or (data) or (array) or (tensor)\n\nA tensor of " +
              dtype.numpy_name +
              " elements. Sizes give uninitialised memory, a sequence is copied, an ndarray of "
              "this dtype shares its memory, a tensor of this class is aliased.";
    TensorTypes[i] = PyTypeObject{
        .ob_base = PyVarObject_HEAD_INIT(&DataClass_Type, 0).tp_name = names[i].c_str(),
        .tp_basicsize = sizeof(Tensor),
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
        .tp_doc = docs[i].c_str(),
        .tp_traverse = tensor_tp_traverse,
        .tp_clear = tensor_tp_clear,
        .tp_base = &TensorBase_Type,
    };
    check(PyType_Ready(&TensorTypes[i]));
    if (on_cuda) {
      PyTuple_SET_ITEM(cuda_classes.get(), i - kDTypes, new_ref(&TensorTypes[i]));
      continue;
    }
    check(PyModule_AddType(module, &TensorTypes[i]));
    check(PySet_Add(classes.get(), reinterpret_cast<PyObject*>(&TensorTypes[i])));
  }
  check(PyModule_AddFunctions(module, module_functions));
  check(PyModule_AddObjectRef(module, "_tensor_classes", classes.get()));
  check(PyModule_AddObjectRef(module, "_cuda_tensor_classes", cuda_classes.get()));
}

}  // namespace torchlite
