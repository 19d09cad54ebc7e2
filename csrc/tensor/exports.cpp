#include "tensor/exports.h"

#include "utils/errors.h"

namespace torchlite {

namespace {

constexpr const char* kLease = "torchlite.storage";

void end_lease(PyObject* capsule) {
  ErrorGuard keep;
  auto* storage = static_cast<Storage*>(PyCapsule_GetPointer(capsule, kLease));
  storage->lease = nullptr;
  PyRef<Storage>::steal(storage);
}

bool is_idle(const Tensor* t) { return Py_REFCNT(t->array.get()) == 1; }

}  // namespace

PyRef<> lease_of(Storage* storage) {
  if (storage->lease) return PyRef<>::borrow(storage->lease);
  PyRef<> lease = check(PyCapsule_New(storage, kLease, end_lease));
  Py_INCREF(storage);  // refcount: what end_lease drops
  storage->lease = lease.get();
  return lease;
}

Storage* leased_storage(PyObject* base) {
  if (!PyCapsule_IsValid(base, kLease)) return nullptr;
  return static_cast<Storage*>(PyCapsule_GetPointer(base, kLease));
}

void cache_array(Tensor* t, PyRef<> array) {
  t->array = std::move(array);
  t->previous_cached = nullptr;
  t->next_cached = t->storage->cached;
  if (t->next_cached) t->next_cached->previous_cached = t;
  t->storage->cached = t;
}

void drop_array(Tensor* t) {
  if (!t->array) return;
  (t->previous_cached ? t->previous_cached->next_cached : t->storage->cached) = t->next_cached;
  if (t->next_cached) t->next_cached->previous_cached = t->previous_cached;
  t->array.reset();
}

bool memory_is_held(Storage* storage) {
  if (storage->pins) return true;
  for (Tensor *t = storage->cached, *next; t; t = next) {
    next = t->next_cached;
    if (is_idle(t)) drop_array(t);
  }
  return storage->lease != nullptr;
}

bool has_private_memory(const Tensor* t) {
  const Storage* storage = t->storage.get();
  if (t->device() != kCPU) {
    // CuPy's block, which the storage holds, and the cached array if it is CuPy's own.
    bool idle = !t->array || is_idle(t);
    return Py_REFCNT(t) == 1 && idle && Py_REFCNT(storage) == 1 && Py_REFCNT(storage->owner.get()) <= 1 + !!t->array;
  }
  if (Py_REFCNT(t) != 1 || storage->owner || storage->pins) return false;
  bool array = t->array && is_idle(t) && Py_REFCNT(storage->lease) == 1;
  return Py_REFCNT(storage) == 1 + array;
}

}  // namespace torchlite
