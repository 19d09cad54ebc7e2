// Storage: a block of memory and whoever owns it. The C++ object is the Python object.
//
//   owner == nullptr  the memory is ours: `small` for up to 16 bytes, else a block of the allocator
//   owner != nullptr  the memory belongs to `owner` (a NumPy or CuPy array, a DLPack capsule, a buffer)
//
// Tensors find their elements through the Storage, so the memory of one that is the library's may move, unless others
// hold addresses into it (exports.h). Every tensor lies within `capacity`: a Storage may be made smaller than they are.
//
// A Storage without a foreign owner holds no reference, so the collector need not know it: it stays untracked.
#pragma once

#include "tensor/dtype.h"
#include "utils/py_ref.h"

namespace torchlite {

struct Tensor;

struct Storage : PyObject {
  char* data;  // nullptr only if nbytes is 0
  int64_t nbytes;
  int64_t capacity;  // bytes of the block, at least nbytes
  PyRef<> owner;
  PyObject* lease;  // borrowed, nullptr while no array is on the memory
  Tensor* cached;   // first of the tensors with a cached array
  int32_t pins;
  Device device;
  DType dtype;  // of the Python class; a view of another type may exist (bool arrays as Byte)
  bool readonly;
  alignas(16) char small[16];

  int64_t size() const { return nbytes / itemsize(dtype); }
};

// `_StorageBase`, and its subclass for each element type: FloatStorage ...
extern PyTypeObject StorageBase_Type;
// Metaclass of the classes of data (package_name.cpp).
extern PyTypeObject DataClass_Type;
void init_data_class();
extern PyTypeObject StorageTypes[2 * kDTypes];  // on the host, then on CUDA devices

inline bool is_storage(PyObject* o) { return PyObject_TypeCheck(o, &StorageBase_Type); }

// New host memory, uninitialised. MemoryError where there is none.
PyRef<Storage> new_storage(DType dtype, int64_t nbytes);
// Memory that `owner` keeps alive.
PyRef<Storage> wrap_memory(DType dtype, void* data, int64_t nbytes, Device device, bool readonly, PyRef<> owner);
// Changes the number of bytes, keeping the contents. RuntimeError where more memory is needed and this is not the
// library's, or others hold addresses into it. Every tensor on it sees the new block.
void resize_storage(Storage* self, int64_t nbytes);
// Moves the contents into the writable memory of `owner`, a buffer, and keeps that. RuntimeError where others hold
// addresses.
void move_storage(Storage* self, PyObject* owner);

// Whether a buffer's elements are references, which numbers would overwrite.
bool holds_objects(const Py_buffer* buffer);

void init_storage(PyObject* module);

}  // namespace torchlite
