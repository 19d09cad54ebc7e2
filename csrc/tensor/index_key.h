// What a key that is not basic (ints, slices, None, Ellipsis) means: the lists that stand for tuples, and the index
// arrays and masks that NumPy then indexes with.
#pragma once

#include <cstddef>

#include "tensor/tensor.h"

namespace torchlite {

// Whether an object is an item of a key by position: an int, a slice, None or Ellipsis.
bool is_basic_item(PyObject* o);
// Whether it names positions one by one: a sequence, an array or a tensor.
bool is_index_sequence(PyObject* o);
// Whether a sequence that is no tuple stands for one: with a slice, None or Ellipsis in it, or with sequences alone, not
// more than there are dimensions.
bool list_means_tuple(PyObject* key, int ndim);
// Whether `key` reads a copy of the elements that sequences name. Not so a lone index or mask tensor.
bool is_advanced_key(PyObject* key, int ndim);

// TypeError for an item that no key can hold.
[[noreturn]] void refuse_index_item(size_t position, PyObject* item);
// TypeError unless an index tensor lies on the device of what it indexes.
void require_index_place(const Tensor* index, Device device);
// The item as NumPy indexes with it: a mask (a ByteTensor too) as bool, other integers as they are, a sequence as
// int64. TypeError for the rest.
// For a tensor on a device: as CuPy does; an index tensor has to lie there too.
PyRef<> index_array(PyObject* item, size_t position, Device device = kCPU);
// The key with which NumPy means what `key` means for a tensor of `ndim` dimensions.
PyRef<> numpy_key(PyObject* key, int ndim, Device device = kCPU);

// The exception that is set, thrown on. An IndexError of NumPy's for `array[key]` gets this library's words where it
// has some.
[[noreturn]] void rethrow_index_error(PyObject* array, PyObject* key);

}  // namespace torchlite
