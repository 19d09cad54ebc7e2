// DLPack: sharing memory with other libraries through capsules, in the classic layout ("dltensor") and the versioned
// one ("dltensor_versioned", protocol 1.x), which can say that memory is read-only.
//
// Export: the capsule holds an Exported block, which keeps the Storage; the consumer's deleter frees it.
// Import: an owner capsule holds the producer's block and calls its deleter when the last view has died.
#include <algorithm>

#include "tensor/exports.h"
#include "tensor/python_tensor.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// ---- the protocol's memory layout ---------------------------------------------------------------------------------

enum DeviceType : int32_t { kDLCPU = 1, kDLCUDA = 2, kDLCUDAHost = 3 };
enum TypeCode : uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBool = 6 };
enum Flags : uint64_t { kDLReadOnly = 1, kDLIsCopied = 2 };

struct DLDevice {
  int32_t type, id;
};
struct DLDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // in elements; null means row-major
  uint64_t byte_offset;
};
struct DLManaged {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManaged*);
};
struct DLVersion {
  uint32_t major, minor;
};
struct DLManagedVersioned {
  DLVersion version;
  void* context;
  void (*deleter)(DLManagedVersioned*);
  uint64_t flags;
  DLTensor tensor;
};

template <class Managed>
constexpr const char* kName = std::is_same_v<Managed, DLManaged> ? "dltensor" : "dltensor_versioned";
template <class Managed>
constexpr const char* kUsedName = std::is_same_v<Managed, DLManaged> ? "used_dltensor" : "used_dltensor_versioned";

[[noreturn]] void buffer_error(const char* message) { raise(PyExc_BufferError, "%s", message); }

// ---- export -------------------------------------------------------------------------------------------------------

template <class Managed>
struct Exported {
  Managed managed;
  StoragePin storage;
  int64_t shape[kMaxDim], strides[kMaxDim];
};

// May come from any thread, with or without the GIL. After the interpreter's end the memory is left to the system.
template <class Managed>
void delete_exported(Managed* managed) {
  if (!Py_IsInitialized()) return;
  PyGILState_STATE state = PyGILState_Ensure();
  {
    ErrorGuard keep;
    delete static_cast<Exported<Managed>*>(managed->context);
  }
  PyGILState_Release(state);
}

// A capsule that nobody consumed still owns its block.
template <class Managed>
void destroy_capsule(PyObject* capsule) {
  ErrorGuard keep;
  if (!PyCapsule_IsValid(capsule, kName<Managed>)) return;
  Managed* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kName<Managed>));
  if (managed->deleter) managed->deleter(managed);
}

DLDataType type_of(DType t) {
  uint8_t code = is_floating(t) ? kDLFloat : t == DType::Byte ? kDLUInt : kDLInt;
  return {code, static_cast<uint8_t>(8 * itemsize(t)), 1};
}

DLDevice device_of(const Tensor* t) {
  return t->device() == kCPU ? DLDevice{kDLCPU, 0} : DLDevice{kDLCUDA, t->device()};
}

template <class Managed>
PyRef<> export_tensor(Tensor* t, uint64_t flags) {
  auto* e = new Exported<Managed>{};
  e->storage = StoragePin(t->storage.copy());
  std::copy_n(t->dims(), t->ndim, e->shape);
  std::copy_n(t->dims() + t->ndim, t->ndim, e->strides);
  e->managed.context = e;
  e->managed.deleter = delete_exported<Managed>;
  e->managed.tensor = {t->bytes(), device_of(t), t->ndim, type_of(t->dtype), e->shape, e->strides, 0};
  if constexpr (std::is_same_v<Managed, DLManagedVersioned>) {
    e->managed.version = {1, 0};
    e->managed.flags = flags;
  } else {
    (void)flags;
  }
  PyObject* capsule = PyCapsule_New(&e->managed, kName<Managed>, destroy_capsule<Managed>);
  if (!capsule) delete e;
  return check(capsule);
}

// ---- import -------------------------------------------------------------------------------------------------------

DType dtype_of(DLDataType type) {
  if (type.lanes == 1) {
    for (int i = 0; i < kDTypes; ++i) {
      DLDataType t = type_of(static_cast<DType>(i));
      if (t.code == type.code && t.bits == type.bits) return static_cast<DType>(i);
    }
    if (type.code == kDLBool && type.bits == 8) return DType::Byte;
  }
  raise(PyExc_BufferError, "from_dlpack: no tensor class has the element type (code %d, %d bits, %d lanes)", type.code,
        type.bits, type.lanes);
}

template <class Managed>
void delete_owner(PyObject* owner) {
  ErrorGuard keep;
  Managed* managed = static_cast<Managed*>(PyCapsule_GetPointer(owner, nullptr));
  if (managed && managed->deleter) managed->deleter(managed);
}

// An ndarray on the described memory, not yet owning anything. All that can be wrong with a description is found here.
PyRef<> array_of(const DLTensor& t, bool readonly) {
  if (t.device.type != kDLCPU && t.device.type != kDLCUDAHost)
    raise(PyExc_BufferError, "from_dlpack: the memory lies on a device of type %d, not on the host", t.device.type);
  DType dtype = dtype_of(t.dtype);
  if (t.ndim < 0 || t.ndim > kMaxDim)
    raise(PyExc_BufferError, "from_dlpack: a tensor has 0 to %d dimensions, but got %d", kMaxDim, t.ndim);
  npy_intp shape[kMaxDim], strides[kMaxDim];
  int64_t numel = 1, row_major = itemsize(dtype);
  for (int d = t.ndim - 1; d >= 0; --d) {
    int64_t size = t.shape[d];
    if (size < 0 || __builtin_mul_overflow(numel, size, &numel)) buffer_error("from_dlpack: the sizes are impossible");
    shape[d] = size;
    strides[d] = row_major;
    int64_t reach;
    if (size <= 1) continue;  // such a stride is never taken, so it may be anything
    if (t.strides && __builtin_mul_overflow(t.strides[d], int64_t{itemsize(dtype)}, &strides[d]))
      buffer_error("from_dlpack: the strides are impossible");
    if (__builtin_mul_overflow(static_cast<int64_t>(strides[d]), size, &reach))
      buffer_error("from_dlpack: the strides are impossible");
    if (!t.strides) row_major = reach;
  }
  char* data = static_cast<char*>(t.data);
  alignas(16) static char nowhere[16];
  if (numel == 0) data = nowhere;  // a null pointer would make NumPy allocate
  else if (!data) buffer_error("from_dlpack: the memory's address is null");
  else data += t.byte_offset;
  return check(PyArray_NewFromDescr(&PyArray_Type, PyArray_DescrFromType(info(dtype).numpy_type), t.ndim, shape,
                                    strides, data, readonly ? 0 : NPY_ARRAY_WRITEABLE, nullptr));
}

template <class Managed>
PyRef<Tensor> import_capsule(PyObject* capsule, uint64_t* flags) {
  Managed* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kName<Managed>));
  if (!managed) throw PyError();
  *flags = 0;
  if constexpr (std::is_same_v<Managed, DLManagedVersioned>) {
    if (managed->version.major != 1)
      raise(PyExc_BufferError, "from_dlpack: protocol version 1 is supported, but got %u.%u", managed->version.major,
            managed->version.minor);
    *flags = managed->flags;
  }
  PyRef<> array = array_of(managed->tensor, *flags & kDLReadOnly);
  PyRef<> owner = check(PyCapsule_New(managed, nullptr, nullptr));
  check(PyCapsule_SetName(capsule, kUsedName<Managed>));
  // From here on the block is ours to delete.
  PyCapsule_SetDestructor(owner.get(), delete_owner<Managed>);
  check(PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.get()), owner.release()));
  PyRef<Tensor> t = tensor_from_numpy(array.get());
  if (t->storage->owner.get() != array.get()) *flags |= kDLIsCopied;  // unaligned memory
  return t;
}

// The device, as DLPack numbers it, of a producer or capsule whose memory lies on a CUDA device; else empty.
PyRef<> cuda_place(PyObject* producer) {
  if (PyCapsule_CheckExact(producer)) {
    DLDevice d{};
    if (PyCapsule_IsValid(producer, kName<DLManagedVersioned>)) {
      auto* managed = static_cast<DLManagedVersioned*>(PyCapsule_GetPointer(producer, kName<DLManagedVersioned>));
      if (managed->version.major == 1) d = managed->tensor.device;
    } else if (PyCapsule_IsValid(producer, kName<DLManaged>)) {
      d = static_cast<DLManaged*>(PyCapsule_GetPointer(producer, kName<DLManaged>))->tensor.device;
    }
    return d.type == kDLCUDA ? check(Py_BuildValue("(ii)", d.type, d.id)) : PyRef<>();
  }
  if (!PyObject_HasAttrString(producer, "__dlpack_device__")) return {};
  PyRef<> device = check(PyObject_CallMethod(producer, "__dlpack_device__", nullptr));
  PyRef<> type = check(PySequence_GetItem(device.get(), 0));
  long value = PyLong_AsLong(type.get());
  if (value == -1 && PyErr_Occurred()) throw PyError();
  return value == kDLCUDA ? std::move(device) : PyRef<>();
}

// The producer's capsule: by the current protocol if it knows that, else by the first one.
PyRef<> request_capsule(PyObject* producer, PyObject* copy) {
  PyRef<> method = PyRef<>::steal(PyObject_GetAttrString(producer, "__dlpack__"));
  if (!method) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PyError();
    type_error("from_dlpack: expected an object with __dlpack__ or a capsule, but got %.100s", type_name(producer));
  }
  PyRef<> none_given = check(PyTuple_New(0));
  PyRef<> keywords = check(Py_BuildValue("{s:(ii),s:O}", "max_version", 1, 0, "copy", copy));
  if (copy == Py_None) check(PyDict_DelItemString(keywords.get(), "copy"));
  PyObject* capsule = PyObject_Call(method.get(), none_given.get(), keywords.get());
  if (capsule) return PyRef<>::steal(capsule);
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw PyError();
  PyErr_Clear();  // a producer of before version 1 knows none of the keywords
  return check(PyObject_CallNoArgs(method.get()));
}

void check_device(PyObject* device) {
  if (!device || device == Py_None) return;
  if (PyUnicode_Check(device) && PyUnicode_CompareWithASCIIString(device, "cpu") == 0) return;
  if (PyTuple_Check(device) && PyTuple_GET_SIZE(device) == 2) {
    int type, id;
    if (!PyArg_ParseTuple(device, "ii", &type, &id)) throw PyError();
    if (type == kDLCPU && id == 0) return;
  }
  raise(PyExc_BufferError, "only the device 'cpu' is supported here, but got %R", device);
}

}  // namespace

PyObject* tensor_dlpack_device(PyObject* o, PyObject*) {
  DLDevice d = device_of(as_tensor(o));
  return Py_BuildValue("(ii)", d.type, d.id);
}

PyObject* tensor_dlpack(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO:__dlpack__", const_cast<char**>(names), &stream,
                                     &max_version, &device, &copy))
      throw PyError();
    Tensor* t = as_tensor(o);
    if (t->device() != kCPU) {
      PyRef<> module = check(PyImport_ImportModule("torchlite.cuda._transfer"));
      PyRef<> function = check(PyObject_GetAttrString(module.get(), "dlpack")), self = check(PyTuple_Pack(1, o));
      return PyObject_Call(function.get(), self.get(), kwargs);
    }
    if (stream != Py_None) raise(PyExc_BufferError, "__dlpack__: host memory has no stream, but got stream=%R", stream);
    check_device(device);
    bool versioned = false;
    if (max_version != Py_None) {
      PyRef<> major = check(PySequence_GetItem(max_version, 0));
      long value = PyLong_AsLong(major.get());
      if (value == -1 && PyErr_Occurred()) throw PyError();
      versioned = value >= 1;
    }
    PyRef<Tensor> copied;
    uint64_t flags = 0;
    if (copy != Py_None && check(PyObject_IsTrue(copy))) {
      copied = clone(t);
      t = copied.get();
      flags |= kDLIsCopied;
    }
    if (t->readonly()) {
      if (!versioned)
        buffer_error(
            "__dlpack__: the memory is read-only, which the protocol can say from version 1 on: pass "
            "max_version=(1, 0) or copy=True");
      flags |= kDLReadOnly;
    }
    return (versioned ? export_tensor<DLManagedVersioned>(t, flags) : export_tensor<DLManaged>(t, flags)).release();
  });
}

PyObject* from_dlpack(PyObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"", "device", "copy", nullptr};
    PyObject *source, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:from_dlpack", const_cast<char**>(names), &source, &device,
                                     &copy))
      throw PyError();
    if (PyRef<> place = cuda_place(source)) {
      PyRef<> module = check(PyImport_ImportModule("torchlite.cuda._transfer"));
      return PyObject_CallMethod(module.get(), "from_dlpack", "OOOO", source, place.get(), device, copy);
    }
    check_device(device);
    PyRef<> capsule;
    if (PyCapsule_CheckExact(source)) {
      capsule = PyRef<>::borrow(source);
    } else {
      capsule = request_capsule(source, copy);
      if (!PyCapsule_CheckExact(capsule.get()))
        type_error("from_dlpack: __dlpack__ of %.100s returned a %.100s, not a capsule", type_name(source),
                   type_name(capsule.get()));
    }
    PyRef<Tensor> t;
    uint64_t flags;
    if (PyCapsule_IsValid(capsule.get(), "dltensor_versioned")) {
      t = import_capsule<DLManagedVersioned>(capsule.get(), &flags);
    } else if (PyCapsule_IsValid(capsule.get(), "dltensor")) {
      t = import_capsule<DLManaged>(capsule.get(), &flags);
    } else {
      const char* name = PyCapsule_GetName(capsule.get());
      if (!name && PyErr_Occurred()) throw PyError();
      bool used = name && std::string(name).starts_with("used_");
      raise(PyExc_BufferError,
            "from_dlpack: expected a capsule called dltensor or dltensor_versioned, but got %.100s%s",
            name ? name : "one without a name", used ? ", which was consumed before" : "");
    }
    if (copy == Py_None) return t.release();
    bool wanted = check(PyObject_IsTrue(copy));
    if (!wanted && (flags & kDLIsCopied))
      buffer_error("from_dlpack: the memory can only be copied, but got copy=False");
    if (wanted && !(flags & kDLIsCopied)) t = clone(t.get());
    return t.release();
  });
}

}  // namespace torchlite
