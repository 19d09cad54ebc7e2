// How Python sees a Storage: the type objects of `_StorageBase` and FloatStorage ...
#include <cstring>
#include <string>

#include "tensor/cuda.h"
#include "tensor/indexing.h"
#include "tensor/python_tensor.h"
#include "tensor/storage.h"
#include "utils/gil.h"
#include "utils/method.h"

namespace torchlite {

int storage_tp_traverse(PyObject* o, visitproc visit, void* arg);
int storage_tp_clear(PyObject* o);
void storage_tp_dealloc(PyObject* o);

namespace {

Storage* as_storage(PyObject* o) { return static_cast<Storage*>(o); }

// The elements as a 1-d tensor.
PyRef<Tensor> as_vector(Storage* s) {
  int64_t size = s->size(), stride = 1;
  return new_tensor_on(PyRef<Storage>::borrow(s), s->dtype, {&size, 1}, {&stride, 1}, 0);
}

// `size` elements of `base` from `offset` on, as a storage of their own on the same memory.
PyRef<Storage> part_of(Storage* base, int64_t offset, int64_t size) {
  int item = itemsize(base->dtype);
  return wrap_memory(base->dtype, base->data + offset * item, size * item, base->device, base->readonly,
                     PyRef<>::borrow(base));
}

// torchlite.cuda.FloatStorage(size or sequence): memory on the current device.
PyObject* new_cuda_storage(PyTypeObject* type, DType dtype, PyObject* args, PyObject* kwargs) {
  PyObject* source = nullptr;
  static const char* const names[] = {"", nullptr};
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Storage", const_cast<char**>(names), &source)) throw PyError();
  Cuda& device = require_cuda();
  PyRef<Tensor> on_host;
  int64_t n = 0;
  if (source && (PyList_Check(source) || PyTuple_Check(source))) {
    on_host = tensor_from_sequence(dtype, source);
    n = on_host->numel;
  } else if (source && !is_int(source)) {
    type_error("%s: expected a size or a sequence, but got %.100s", type->tp_name, type_name(source));
  } else if (source) {
    n = parse_dims(source)[0];
  }
  if (n < 0) value_error("%s: size must not be negative, but got %lld", type->tp_name, static_cast<long long>(n));
  PyRef<Tensor> t = device.empty(dtype, {&n, 1}, device.current_device());
  if (on_host) copy_into(t.get(), on_host.get());
  return t->storage.copy().release_object();
}

PyObject* storage_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    if (type < StorageTypes || type >= StorageTypes + 2 * kDTypes)
      type_error("cannot create an instance of %s: use a typed storage such as FloatStorage", type->tp_name);
    DType dtype = static_cast<DType>((type - StorageTypes) % kDTypes);
    if (type >= StorageTypes + kDTypes) return new_cuda_storage(type, dtype, args, kwargs);
    PyObject* source = nullptr;
    long long offset = 0, size = -1;
    static const char* const names[] = {"", "", "", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OLL:Storage", const_cast<char**>(names), &source, &offset, &size))
      throw PyError();
    if (!source) return new_storage(dtype, 0).release_object();
    if (is_storage(source)) {
      Storage* base = as_storage(source);
      if (base->dtype != dtype)
        type_error("%s: expected a storage of this class, but got %s", type->tp_name, type_name(source));
      if (PyTuple_GET_SIZE(args) < 3) size = base->size() - offset;
      if (offset < 0 || size < 0 || offset > base->size() || size > base->size() - offset)
        value_error("%s: offset %lld and size %lld reach outside a storage of %lld elements", type->tp_name, offset,
                    size, static_cast<long long>(base->size()));
      return part_of(base, offset, size).release_object();
    }
    if (PyTuple_GET_SIZE(args) > 1) type_error("%s: only a storage is taken with an offset and a size", type->tp_name);
    if (PyList_Check(source) || PyTuple_Check(source)) {
      PyRef<Tensor> t = tensor_from_sequence(dtype, source);
      if (t->ndim != 1)
        type_error("%s: expected a flat sequence, but got one of size %s", type->tp_name,
                   format_dims(t->sizes()).c_str());
      return t->storage.copy().release_object();
    }
    if (!is_int(source))
      type_error("%s: expected a size, a sequence or a storage, but got %.100s", type->tp_name, type_name(source));
    int64_t n = parse_dims(source)[0];
    if (n < 0) value_error("%s: size must not be negative, but got %lld", type->tp_name, static_cast<long long>(n));
    if (n > (int64_t{1} << 58)) throw std::bad_alloc();
    return new_storage(dtype, n * itemsize(dtype)).release_object();
  });
}

// Written in Python.
PyObject* storage_tp_repr(PyObject* o) { return PyObject_CallMethod(o, "_format", nullptr); }

Py_ssize_t storage_sq_length(PyObject* o) { return static_cast<Py_ssize_t>(as_storage(o)->size()); }

PyObject* storage_sq_item(PyObject* o, Py_ssize_t i) {
  return guard([&]() -> PyObject* {
    Storage* s = as_storage(o);
    if (i < 0 || i >= s->size())
      index_error("index %zd is out of range for a storage of %lld elements", i, static_cast<long long>(s->size()));
    if (s->device != kCPU) type_error("%s: elements of CUDA memory cannot be read one by one", type_name(o));
    return element_to_number(s->data + i * itemsize(s->dtype), s->dtype).release();
  });
}

PyObject* storage_mp_subscript(PyObject* o, PyObject* key) {
  return guard([&]() -> PyObject* {
    Storage* s = as_storage(o);
    if (is_int(key)) return get_item(as_vector(s).get(), key).release();
    if (!PySlice_Check(key)) type_error("a storage is indexed with an int or a slice, but got %.100s", type_name(key));
    Py_ssize_t start, stop, step;
    check(PySlice_Unpack(key, &start, &stop, &step));
    if (step != 1) value_error("a slice of a storage has step 1, but got %zd", step);
    Py_ssize_t size = PySlice_AdjustIndices(static_cast<Py_ssize_t>(s->size()), &start, &stop, step);
    return part_of(s, start, size).release_object();
  });
}

int storage_mp_ass_subscript(PyObject* o, PyObject* key, PyObject* value) {
  return guard(-1, [&] {
    if (!value) type_error("a storage does not support the deletion of elements");
    if (!is_int(key) && !PySlice_Check(key))
      type_error("a storage is indexed with an int or a slice, but got %.100s", type_name(key));
    assign_index(as_vector(as_storage(o)).get(), key, value);
    return 0;
  });
}

PyObject* storage_fill(PyObject* o, PyObject* value) {
  return guard([&]() -> PyObject* {
    assign_index(as_vector(as_storage(o)).get(), Py_Ellipsis, value);
    return new_ref(o);
  });
}

PyObject* storage_copy(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyObject *source, *async = nullptr, *async_ = nullptr;
    static const char* const names[] = {"source", "async", "async_", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|OO:copy_", const_cast<char**>(names), &source, &async, &async_))
      throw PyError();
    if (!is_storage(source) || as_storage(source)->size() != as_storage(o)->size())
      value_error("copy_: expected a storage of %lld elements, but got %R",
                  static_cast<long long>(as_storage(o)->size()), source);
    copy_into(as_vector(as_storage(o)).get(), as_vector(as_storage(source)).get());
    return new_ref(o);
  });
}

PyObject* storage_tolist(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    return check(PyObject_CallMethod(numpy_view(as_vector(as_storage(o)).get()), "tolist", nullptr)).release();
  });
}

PyObject* storage_resize(PyObject* o, PyObject* size) {
  return guard([&]() -> PyObject* {
    int64_t n = is_int(size) ? parse_dims(size)[0] : -1;
    if (n < 0) value_error("resize_: expected a number of elements, but got %R", size);
    if (n > (int64_t{1} << 58)) throw std::bad_alloc();
    wait_for_kernels();
    resize_storage(as_storage(o), n * itemsize(as_storage(o)->dtype));
    return new_ref(o);
  });
}

// The contents go into the memory of a writable buffer, which every view of the storage is then on.
PyObject* storage_move_into(PyObject* o, PyObject* buffer) {
  return guard([&]() -> PyObject* {
    if (as_storage(o)->device != kCPU) type_error("_move_into: the storage lies on a CUDA device");
    move_storage(as_storage(o), buffer);
    return new_ref(o);
  });
}

DType dtype_of_storages(PyObject* type, const char* function) {
  ptrdiff_t i = reinterpret_cast<PyTypeObject*>(type) - StorageTypes;
  if (i < 0 || i >= kDTypes) type_error("%s: %R is no class of storages on the host", function, type);
  return static_cast<DType>(i);
}

// A storage on the memory of a buffer.
PyObject* storage_on_buffer(PyObject* type, PyObject* buffer_object) {
  return guard([&]() -> PyObject* {
    DType dtype = dtype_of_storages(type, "_on_buffer");
    PyRef<> view = check(PyMemoryView_FromObject(buffer_object));
    Py_buffer* buffer = PyMemoryView_GET_BUFFER(view.get());
    if (!PyBuffer_IsContiguous(buffer, 'C')) value_error("_on_buffer: the memory is not contiguous");
    if (holds_objects(buffer)) value_error("_on_buffer: the memory holds references to objects");
    auto address = reinterpret_cast<uintptr_t>(buffer->buf);
    if (address % static_cast<uintptr_t>(itemsize(dtype)) || buffer->len % itemsize(dtype))
      value_error("_on_buffer: %zd bytes are no whole number of aligned %s elements", buffer->len, info(dtype).name);
    return wrap_memory(dtype, buffer->buf, buffer->len, kCPU, buffer->readonly, std::move(view)).release_object();
  });
}

PyObject* storage_type_name(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* { return PyUnicode_FromString(class_name(Py_TYPE(o)).c_str()); });
}

PyObject* storage_size(PyObject* o, PyObject*) { return PyLong_FromLongLong(as_storage(o)->size()); }
PyObject* storage_element_size(PyObject* o, PyObject*) { return PyLong_FromLong(itemsize(as_storage(o)->dtype)); }
PyObject* storage_data_ptr(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(as_storage(o)->data); }

// What torchlite.cuda does with a storage on a device.
PyObject* transferred(PyObject* storage, const char* function) {
  PyRef<> module = check(PyImport_ImportModule("torchlite.cuda._transfer"));
  return PyObject_CallMethod(module.get(), function, "O", storage);
}

PyObject* storage_clone(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Storage* s = as_storage(o);
    if (s->device != kCPU) return transferred(o, "clone_storage");
    PyRef<Storage> copy = new_storage(s->dtype, s->nbytes);
    if (s->nbytes) memcpy(copy->data, s->data, static_cast<size_t>(s->nbytes));
    return copy.release();
  });
}

// A storage with the contents of a bytes-like object: how pickles rebuild one.
PyObject* storage_from_bytes(PyObject* type, PyObject* bytes) {
  return guard([&]() -> PyObject* {
    DType dtype = dtype_of_storages(type, "_from_bytes");
    Py_buffer view;
    check(PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE));
    struct Release {
      Py_buffer* view;
      ~Release() { PyBuffer_Release(view); }
    } release{&view};
    if (view.len % itemsize(dtype))
      value_error("_from_bytes: %zd bytes are no whole number of %s elements", view.len, info(dtype).name);
    PyRef<Storage> s = new_storage(dtype, view.len);
    if (view.len) memcpy(s->data, view.buf, static_cast<size_t>(view.len));
    return s.release();
  });
}

PyObject* storage_reduce(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Storage* s = as_storage(o);
    if (s->device != kCPU) return transferred(o, "reduce_storage");
    PyRef<> rebuild = check(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(&StorageTypes[static_cast<int>(s->dtype)]), "_from_bytes"));
    return Py_BuildValue("O(y#)", rebuild.get(), s->data, static_cast<Py_ssize_t>(s->nbytes));
  });
}

PyObject* storage_get_capacity(PyObject* o, void*) { return PyLong_FromLongLong(as_storage(o)->capacity); }
PyObject* storage_get_cdata(PyObject* o, void*) { return PyLong_FromVoidPtr(o); }
PyObject* storage_get_is_cuda(PyObject* o, void*) { return PyBool_FromLong(as_storage(o)->device != kCPU); }
PyObject* storage_get_readonly(PyObject* o, void*) { return PyBool_FromLong(as_storage(o)->readonly); }
PyObject* storage_get_owner(PyObject* o, void*) {
  PyObject* owner = as_storage(o)->owner.get();
  // A view of its own: whoever released the storage's would free the memory.
  if (owner && PyMemoryView_Check(owner)) return PyMemoryView_FromObject(owner);
  return new_ref(owner ? owner : Py_None);
}

PySequenceMethods storage_sequence = {.sq_length = storage_sq_length, .sq_item = storage_sq_item};

PyMappingMethods storage_mapping = {
    .mp_length = storage_sq_length,
    .mp_subscript = storage_mp_subscript,
    .mp_ass_subscript = storage_mp_ass_subscript,
};

PyMethodDef storage_methods[] = {
    {"fill_", storage_fill, METH_O, "Sets every element to a number."},
    {"copy_", method(storage_copy), METH_VARARGS | METH_KEYWORDS,
     "copy_(source, async_=False)\n--\n\nCopies the elements of a storage of the same size, cast to this type."},
    {"resize_", storage_resize, METH_O,
     "Changes the number of elements; new ones are uninitialised. RuntimeError where more memory is needed and this is "
     "not the library's, or arrays or buffers use it."},
    {"tolist", storage_tolist, METH_NOARGS, "The elements as a list of Python numbers."},
    {"_type_name", storage_type_name, METH_NOARGS, "The name of the class."},
    {"size", storage_size, METH_NOARGS, "Number of elements."},
    {"element_size", storage_element_size, METH_NOARGS, "Bytes of one element."},
    {"data_ptr", storage_data_ptr, METH_NOARGS, "Address of the first element."},
    {"clone", storage_clone, METH_NOARGS, "A copy in memory of its own."},
    {"_from_bytes", storage_from_bytes, METH_O | METH_CLASS, "A storage with the contents of a bytes-like object."},
    {"_on_buffer", storage_on_buffer, METH_O | METH_CLASS, "A storage on the memory of a buffer."},
    {"_move_into", storage_move_into, METH_O,
     "Moves the elements into the memory of a buffer, where all views find them from then on."},
    {"__reduce__", storage_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef storage_getset[] = {
    {"_capacity", storage_get_capacity, nullptr, "Bytes of the memory, which may be more than are in use.", nullptr},
    {"_cdata", storage_get_cdata, nullptr, "Identity of the storage, an int.", nullptr},
    {"is_cuda", storage_get_is_cuda, nullptr, "Whether the memory lies on a CUDA device.", nullptr},
    {"readonly", storage_get_readonly, nullptr, "Whether the memory may not be written.", nullptr},
    {"owner", storage_get_owner, nullptr, "The object that owns the memory, or None if it is the library's.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

PyTypeObject StorageBase_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._StorageBase",
    .tp_basicsize = sizeof(Storage),
    .tp_dealloc = storage_tp_dealloc,
    .tp_repr = storage_tp_repr,
    .tp_as_sequence = &storage_sequence,
    .tp_as_mapping = &storage_mapping,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A block of memory and its owner.",
    .tp_traverse = storage_tp_traverse,
    .tp_clear = storage_tp_clear,
    .tp_methods = storage_methods,
    .tp_getset = storage_getset,
    .tp_new = storage_tp_new,
};

PyTypeObject StorageTypes[2 * kDTypes];

void init_storage(PyObject* module) {
  static std::string names[2 * kDTypes];
  init_data_class();
  check(PyType_Ready(&StorageBase_Type));
  check(PyModule_AddType(module, &StorageBase_Type));
  PyRef<> classes = check(PySet_New(nullptr));
  PyRef<> cuda_classes = check(PyTuple_New(kDTypes));
  for (int i = 0; i < 2 * kDTypes; ++i) {
    bool on_cuda = i >= kDTypes;
    names[i] = std::string(on_cuda ? "torchlite.cuda." : "torchlite.") + kDTypeInfo[i % kDTypes].name + "Storage";
    StorageTypes[i] = PyTypeObject{
        .ob_base = PyVarObject_HEAD_INIT(&DataClass_Type, 0).tp_name = names[i].c_str(),
        .tp_basicsize = sizeof(Storage),
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .tp_doc = "A typed block of memory.",
        .tp_traverse = storage_tp_traverse,
        .tp_clear = storage_tp_clear,
        .tp_base = &StorageBase_Type,
    };
    check(PyType_Ready(&StorageTypes[i]));
    if (on_cuda) {
      PyTuple_SET_ITEM(cuda_classes.get(), i - kDTypes, new_ref(&StorageTypes[i]));
      continue;
    }
    check(PyModule_AddType(module, &StorageTypes[i]));
    check(PySet_Add(classes.get(), reinterpret_cast<PyObject*>(&StorageTypes[i])));
  }
  check(PyModule_AddObjectRef(module, "_storage_classes", classes.get()));
  check(PyModule_AddObjectRef(module, "_cuda_storage_classes", cuda_classes.get()));
}

}  // namespace torchlite
