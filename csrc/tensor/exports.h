// Who holds addresses into the memory of a Storage, so that it has to stay where it is.
//
//   arrays    have the storage's lease as their base: a capsule that holds the storage, one for all of them
//   pins      are buffers, DLPack capsules, and storages on a part of this one
//   tensors   hold no address: they find the memory through their storage
//
// The array that a tensor caches holds the memory only while someone else has it too; the storage lists the tensors
// with one, and the idle ones are dropped where memory is to move.
#pragma once

#include "tensor/tensor.h"

namespace torchlite {

// Holds a storage and its memory in place.
class StoragePin {
 public:
  StoragePin() = default;
  explicit StoragePin(PyRef<Storage> storage) : storage_(std::move(storage)) { ++storage_->pins; }
  StoragePin(StoragePin&&) = default;
  StoragePin& operator=(StoragePin&& other) noexcept {
    std::swap(storage_, other.storage_);
    return *this;
  }
  ~StoragePin() {
    if (storage_) --storage_->pins;
  }

 private:
  PyRef<Storage> storage_;
};

// The object that an array on the storage's memory has as its base. A new reference.
PyRef<> lease_of(Storage* storage);
// The storage of such an object; nullptr for others. Borrowed.
Storage* leased_storage(PyObject* base);

// Makes `array`, whose base is the lease of t's storage, t's cached array.
void cache_array(Tensor* t, PyRef<> array);
// Drops t's cached array, if any.
void drop_array(Tensor* t);

// Whether anyone holds addresses into the memory. Drops idle cached arrays.
bool memory_is_held(Storage* storage);
// Whether nothing but `t`, which one reference holds, sees its memory.
bool has_private_memory(const Tensor* t);

}  // namespace torchlite
