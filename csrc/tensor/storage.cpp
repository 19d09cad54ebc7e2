#include "tensor/storage.h"

#include <algorithm>
#include <cstring>

#include "tensor/allocator.h"
#include "tensor/cuda.h"
#include "tensor/exports.h"
#include "tensor/python_tensor.h"
#include "utils/errors.h"
#include "utils/freelist.h"
#include "utils/gil.h"
#include "utils/live_objects.h"
#include "utils/trashcan.h"

namespace torchlite {

namespace {

Freelist<Storage, 1024> freelist;

PyRef<Storage> make_storage(DType dtype, Device device, bool readonly) {
  Storage* s = freelist.take(&StorageTypes[class_index(dtype, device)]);
  if (!s) throw PyError();
  ++live.storages;
  s->data = nullptr;
  s->nbytes = s->capacity = 0;
  new (&s->owner) PyRef<>();
  s->lease = nullptr;
  s->cached = nullptr;
  s->pins = 0;
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
    s->capacity = sizeof s->small;
  } else {
    s->data = static_cast<char*>(allocate(nbytes));
    if (!s->data) throw std::bad_alloc();
    s->capacity = nbytes;
  }
  s->nbytes = nbytes;
  return s;
}

PyRef<Storage> wrap_memory(DType dtype, void* data, int64_t nbytes, Device device, bool readonly, PyRef<> owner) {
  PyRef<Storage> s = make_storage(dtype, device, readonly);
  s->data = static_cast<char*>(data);
  s->nbytes = s->capacity = nbytes;
  if (is_storage(owner.get())) ++static_cast<Storage*>(owner.get())->pins;  // until release_storage
  s->owner = std::move(owner);
  PyObject_GC_Track(s.get());
  return s;
}

namespace {

// The memory becomes `data`, which `owner` owns or, without one, this storage.
void replace_memory(Storage* self, char* data, int64_t capacity, PyRef<> owner) {
  if (self->nbytes) std::memcpy(data, self->data, static_cast<size_t>(std::min(self->capacity, capacity)));
  if (owns_block(self)) deallocate(self->data, self->capacity);
  self->data = data;
  self->capacity = capacity;
  self->owner = std::move(owner);
}

}  // namespace

void resize_storage(Storage* self, int64_t nbytes) {
  if (self->device != kCPU && nbytes > self->nbytes) return cuda->resize(self, nbytes);
  if (nbytes > self->capacity) {
    if (self->owner)
      runtime_error("cannot resize a storage of %lld bytes to %lld: its memory belongs to a %.100s",
                    static_cast<long long>(self->nbytes), static_cast<long long>(nbytes), type_name(self->owner.get()));
    if (memory_is_held(self))
      runtime_error("cannot resize a storage of %lld bytes to %lld: arrays or buffers use its memory",
                    static_cast<long long>(self->nbytes), static_cast<long long>(nbytes));
    char* block = static_cast<char*>(allocate(nbytes));
    if (!block) throw std::bad_alloc();
    replace_memory(self, block, nbytes, {});
  }
  self->nbytes = nbytes;
}

bool holds_objects(const Py_buffer* buffer) { return buffer->format && std::strchr(buffer->format, 'O'); }

void move_storage(Storage* self, PyObject* owner) {
  if (self->owner && is_storage(self->owner.get())) runtime_error("cannot move a part of a storage to other memory");
  PyRef<> view = check(PyMemoryView_FromObject(owner));  // may run Python code, so it comes before any look at `self`
  Py_buffer* buffer = PyMemoryView_GET_BUFFER(view.get());
  wait_for_kernels();
  if (memory_is_held(self))
    runtime_error("cannot move a storage of %lld bytes to other memory: arrays or buffers use its memory",
                  static_cast<long long>(self->nbytes));
  if (holds_objects(buffer)) value_error("cannot move a storage into memory that holds references to objects");
  bool contiguous = PyBuffer_IsContiguous(buffer, 'C');
  if (buffer->readonly || !contiguous || buffer->len < self->capacity)
    value_error("cannot move a storage of %lld bytes into %zd bytes of %s%s memory",
                static_cast<long long>(self->nbytes), buffer->len, contiguous ? "" : "non-contiguous ",
                buffer->readonly ? "read-only" : "writable");
  if (reinterpret_cast<uintptr_t>(buffer->buf) % static_cast<uintptr_t>(itemsize(self->dtype)))
    value_error("cannot move a storage of %s into memory that is not aligned to %d bytes", info(self->dtype).name,
                itemsize(self->dtype));
  replace_memory(self, static_cast<char*>(buffer->buf), buffer->len, std::move(view));
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
}

// ---- slots --------------------------------------------------------------------------------------------------------

int storage_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Storage* self = static_cast<Storage*>(o);
  Py_VISIT(self->owner.get());
  // Arrays and their lease are no collected types: the lease's reference to this storage is shown on its behalf while
  // only tensors have the arrays.
  Py_ssize_t idle = 0;
  for (Tensor* t = self->cached; t; t = t->next_cached) idle += Py_REFCNT(t->array.get()) == 1;
  if (self->lease && Py_REFCNT(self->lease) == idle) Py_VISIT(o);
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
  if (owns_block(self)) deallocate(self->data, self->capacity);
  if (self->owner && is_storage(self->owner.get())) --static_cast<Storage*>(self->owner.get())->pins;
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
