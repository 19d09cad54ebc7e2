// How Python sees a Storage: the type objects of `_StorageBase` and FloatStorage ...
#include <cstring>
#include <string>

#include "tensor/storage.h"
#include "tensor/tensor.h"
#include "utils/errors.h"

namespace torchlite {

int storage_tp_traverse(PyObject* o, visitproc visit, void* arg);
int storage_tp_clear(PyObject* o);
void storage_tp_dealloc(PyObject* o);

namespace {

Storage* as_storage(PyObject* o) { return static_cast<Storage*>(o); }

PyObject* storage_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"size", nullptr};
    Py_ssize_t n = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|n:Storage", const_cast<char**>(names), &n)) throw PyError();
    if (n < 0) value_error("%s: size must not be negative, but got %zd", type->tp_name, n);
    for (int i = 0; i < kDTypes; ++i)
      if (type == &StorageTypes[i]) return new_storage(static_cast<DType>(i), n * kDTypeInfo[i].itemsize).release();
    type_error("cannot create an instance of %s: use a typed storage such as FloatStorage", type->tp_name);
  });
}

PyObject* storage_tp_repr(PyObject* o) {
  Storage* s = as_storage(o);
  return PyUnicode_FromFormat("<%s of %lld elements>", Py_TYPE(o)->tp_name, static_cast<long long>(s->size()));
}

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

PyObject* storage_size(PyObject* o, PyObject*) { return PyLong_FromLongLong(as_storage(o)->size()); }
PyObject* storage_element_size(PyObject* o, PyObject*) { return PyLong_FromLong(itemsize(as_storage(o)->dtype)); }
PyObject* storage_data_ptr(PyObject* o, PyObject*) { return PyLong_FromVoidPtr(as_storage(o)->data); }

PyObject* storage_clone(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Storage* s = as_storage(o);
    if (s->device != kCPU) type_error("clone: the storage lies on a CUDA device");
    PyRef<Storage> copy = new_storage(s->dtype, s->nbytes);
    if (s->nbytes) memcpy(copy->data, s->data, static_cast<size_t>(s->nbytes));
    return copy.release();
  });
}

// A storage with the contents of a bytes-like object: how pickles rebuild one.
PyObject* storage_from_bytes(PyObject* type, PyObject* bytes) {
  return guard([&]() -> PyObject* {
    ptrdiff_t i = reinterpret_cast<PyTypeObject*>(type) - StorageTypes;
    if (i < 0 || i >= kDTypes) type_error("_from_bytes: %R is no typed storage class", type);
    Py_buffer view;
    check(PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE));
    struct Release {
      Py_buffer* view;
      ~Release() { PyBuffer_Release(view); }
    } release{&view};
    if (view.len % kDTypeInfo[i].itemsize)
      value_error("_from_bytes: %zd bytes are no whole number of %s elements", view.len, kDTypeInfo[i].name);
    PyRef<Storage> s = new_storage(static_cast<DType>(i), view.len);
    if (view.len) memcpy(s->data, view.buf, static_cast<size_t>(view.len));
    return s.release();
  });
}

PyObject* storage_reduce(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Storage* s = as_storage(o);
    if (s->device != kCPU) type_error("a storage on a CUDA device cannot be pickled: copy its tensors with cpu()");
    PyRef<> rebuild = check(
        PyObject_GetAttrString(reinterpret_cast<PyObject*>(&StorageTypes[static_cast<int>(s->dtype)]), "_from_bytes"));
    return Py_BuildValue("O(y#)", rebuild.get(), s->data, static_cast<Py_ssize_t>(s->nbytes));
  });
}

PyObject* storage_get_is_cuda(PyObject* o, void*) { return PyBool_FromLong(as_storage(o)->device != kCPU); }
PyObject* storage_get_readonly(PyObject* o, void*) { return PyBool_FromLong(as_storage(o)->readonly); }
PyObject* storage_get_owner(PyObject* o, void*) {
  PyObject* owner = as_storage(o)->owner.get();
  return new_ref(owner ? owner : Py_None);
}

PySequenceMethods storage_sequence = {.sq_length = storage_sq_length, .sq_item = storage_sq_item};

PyMethodDef storage_methods[] = {
    {"size", storage_size, METH_NOARGS, "Number of elements."},
    {"element_size", storage_element_size, METH_NOARGS, "Bytes of one element."},
    {"data_ptr", storage_data_ptr, METH_NOARGS, "Address of the first element."},
    {"clone", storage_clone, METH_NOARGS, "A copy in memory of its own."},
    {"_from_bytes", storage_from_bytes, METH_O | METH_CLASS, "A storage with the contents of a bytes-like object."},
    {"__reduce__", storage_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef storage_getset[] = {
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
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A block of memory and its owner.",
    .tp_traverse = storage_tp_traverse,
    .tp_clear = storage_tp_clear,
    .tp_methods = storage_methods,
    .tp_getset = storage_getset,
    .tp_new = storage_tp_new,
};

PyTypeObject StorageTypes[kDTypes];

void init_storage(PyObject* module) {
  static std::string names[kDTypes];
  check(PyType_Ready(&StorageBase_Type));
  check(PyModule_AddType(module, &StorageBase_Type));
  for (int i = 0; i < kDTypes; ++i) {
    names[i] = std::string("torchlite.") + kDTypeInfo[i].name + "Storage";
    StorageTypes[i] = PyTypeObject{
        .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = names[i].c_str(),
        .tp_basicsize = sizeof(Storage),
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .tp_doc = "A typed block of memory.",
        .tp_traverse = storage_tp_traverse,
        .tp_clear = storage_tp_clear,
        .tp_base = &StorageBase_Type,
    };
    check(PyType_Ready(&StorageTypes[i]));
    check(PyModule_AddType(module, &StorageTypes[i]));
  }
}

}  // namespace torchlite
