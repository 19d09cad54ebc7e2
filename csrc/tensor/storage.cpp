#include "tensor/storage.h"

#include <cstring>

#include "tensor/allocator.h"
#include "tensor/python_tensor.h"
#include "utils/errors.h"
#include "utils/freelist.h"
#include "utils/live_objects.h"
#include "utils/trashcan.h"

namespace torchlite {

namespace {

Freelist<Storage, 1024> freelist;

PyRef<Storage> make_storage(DType dtype, Device device, bool readonly) {
  Storage* s = freelist.take(&StorageTypes[static_cast<int>(dtype)]);
  if (!s) throw PyError();
  ++live.storages;
  s->data = nullptr;
  s->nbytes = 0;
  new (&s->owner) PyRef<>();
  s->device = device;
  s->dtype = dtype;
  s->readonly = readonly;
  return PyRef<Storage>::steal(s);
}

bool owns_block(const Storage* s) { return !s->owner && s->data && s->data != s->small; }

}  // namespace

PyRef<Storage> new_storage(DType dtype, int64_t nbytes) {
  PyRef<Storage> s = make_storage(dtype, kCPU, false);
  if (nbytes <= static_cast<int64_t>(sizeof s->small)) {
    s->data = s->small;
  } else {
    s->data = static_cast<char*>(allocate(nbytes));
    if (!s->data) throw std::bad_alloc();
  }
  s->nbytes = nbytes;
  return s;
}

PyRef<Storage> wrap_memory(DType dtype, void* data, int64_t nbytes, Device device, bool readonly, PyRef<> owner) {
  PyRef<Storage> s = make_storage(dtype, device, readonly);
  s->data = static_cast<char*>(data);
  s->nbytes = nbytes;
  s->owner = std::move(owner);
  PyObject_GC_Track(s.get());
  return s;
}

void resize_storage(Storage* self, int64_t nbytes) {
  if (nbytes <= self->nbytes) return;
  if (self->owner)
    runtime_error("cannot resize a storage of %lld bytes to %lld: its memory belongs to a %.100s",
                  static_cast<long long>(self->nbytes), static_cast<long long>(nbytes), type_name(self->owner.get()));
  // NumPy arrays and buffers on the old block would dangle: each holds a reference to this storage, the caller one.
  if (Py_REFCNT(self) > 1)
    runtime_error("cannot resize a storage of %lld bytes to %lld: it is in use by other views",
                  static_cast<long long>(self->nbytes), static_cast<long long>(nbytes));
  if (self->data == self->small && nbytes <= static_cast<int64_t>(sizeof self->small)) {
    self->nbytes = nbytes;
    return;
  }
  char* block = static_cast<char*>(allocate(nbytes));
  if (!block) throw std::bad_alloc();
  if (self->nbytes) std::memcpy(block, self->data, static_cast<size_t>(self->nbytes));
  if (owns_block(self)) deallocate(self->data, self->nbytes);
  self->data = block;
  self->nbytes = nbytes;
}

// ---- slots --------------------------------------------------------------------------------------------------------

int storage_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(static_cast<Storage*>(o)->owner.get());
  return 0;
}

int storage_tp_clear(PyObject*) {
  // As with a tuple, nothing is cleared: memory must outlive every view of it, and a cycle through the owner passes
  // through a dict or list of Python's (arrays and capsules hold nothing else), which is where it is cut.
  return 0;
}

namespace {
void release_storage(Storage* self) {
  --live.storages;
  if (owns_block(self)) deallocate(self->data, self->nbytes);
  self->owner.reset();
  self->owner.~PyRef<>();
  freelist.put(self);
}
}  // namespace

void storage_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  Storage* self = static_cast<Storage*>(o);
  if (!self->owner) return release_storage(self);
  // The owner may be the last hold on another library's view of another Storage, and so on down.
  TRASHCAN_BEGIN(o, storage_tp_dealloc) release_storage(self);
  TRASHCAN_END
}

}  // namespace torchlite
