// Reading and writing parts of a tensor by a Python key.
//
// Ints, slices, None, Ellipsis and tuples of them are basic: they give views. Sequences, integer and mask arrays and
// tensors are advanced: NumPy indexes with them, and the result is a copy.
#pragma once

#include "tensor/tensor.h"

namespace torchlite {

// The part of `t` at `key`, always a tensor (0-d where a single element is meant). `*is_view` tells whether it shares
// t's memory. IndexError for a bad key.
PyRef<Tensor> index_tensor(Tensor* t, PyObject* key, bool* is_view);
// What `t[key]` gives in Python: a number where a single element is meant, else a tensor.
PyRef<> get_item(Tensor* t, PyObject* key);
// Item i (from the end if negative) along dimension 0: a number of a 1-d tensor, else a view.
PyRef<> select_item(Tensor* t, int64_t i);
// t[key] = value, a number, a tensor or whatever NumPy takes; broadcast and cast as NumPy does. RuntimeError where t
// is read-only.
void assign_index(Tensor* t, PyObject* key, PyObject* value);
// t[key] += part where positions that are named repeatedly grow repeatedly. `key` is NumPy's; `part` has the size of
// what the key selects, or one element.
void add_at(Tensor* t, PyObject* key, Tensor* part);

}  // namespace torchlite
