// Storage: a block of memory and whoever owns it. The C++ object is the Python object.
//
//   owner == nullptr  the memory is ours: `small` for up to 16 bytes, else a block of the allocator
//   owner != nullptr  the memory belongs to `owner` (a NumPy or CuPy array, a DLPack capsule, a buffer)
//
// A Storage without a foreign owner holds no reference, so the collector need not know it: it stays untracked.
#pragma once

#include "tensor/dtype.h"
#include "utils/py_ref.h"

namespace torchlite {

struct Storage : PyObject {
  char* data;  // nullptr only if nbytes is 0
  int64_t nbytes;
  PyRef<> owner;
  Device device;
  DType dtype;  // of the Python class; a view of another type may exist (bool arrays as Byte)
  bool readonly;
  alignas(16) char small[16];

  int64_t size() const { return nbytes / itemsize(dtype); }
};

// `_StorageBase`, and its subclass for each element type: FloatStorage ...
extern PyTypeObject StorageBase_Type;
extern PyTypeObject StorageTypes[kDTypes];

inline bool is_storage(PyObject* o) { return PyObject_TypeCheck(o, &StorageBase_Type); }

// New host memory, uninitialised. MemoryError where there is none.
PyRef<Storage> new_storage(DType dtype, int64_t nbytes);
// Memory that `owner` keeps alive.
PyRef<Storage> wrap_memory(DType dtype, void* data, int64_t nbytes, Device device, bool readonly, PyRef<> owner);
// Ensures at least `nbytes`, keeping the contents; refuses foreign memory. Every view sees the new block.
void resize_storage(Storage* self, int64_t nbytes);

void init_storage(PyObject* module);

}  // namespace torchlite
