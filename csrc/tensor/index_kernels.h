// Reading and writing a tensor at positions that an index tensor or a mask names.
//
// `target` is contiguous and shares no memory with the other arguments. Everything is checked before anything is
// written. `function` is the name that errors use. Indices count from the end where negative.
#pragma once

#include "tensor/tensor.h"

namespace torchlite {

// ---- slices along a dimension: index is 1-d (or 0-d) ----------------------------------------------------------------
// Slice index[k] of `source` becomes slice k of the result.
PyRef<Tensor> index_select(Tensor* source, int dim, Tensor* index, const char* function);
// Slice index[k] of `target` becomes, or grows by, slice k of `source`. With `add`, repeated indices add up; without,
// the last one wins.
void index_put(Tensor* target, int dim, Tensor* index, Tensor* source, bool add, const char* function);
void index_fill(Tensor* target, int dim, Tensor* index, double value, const char* function);

// ---- single elements: index has as many dimensions as the tensor ----------------------------------------------------
// result[i, j, k] = source[i, index[i, j, k], k] (for dim 1)
PyRef<Tensor> gather(Tensor* source, int dim, Tensor* index, const char* function);
// target[i, index[i, j, k], k] = (or +=) source[i, j, k]
void scatter(Tensor* target, int dim, Tensor* index, Tensor* source, bool add, const char* function);
void scatter_fill(Tensor* target, int dim, Tensor* index, double value, const char* function);

// ---- masks: Byte tensors; whatever is not zero selects ---------------------------------------------------------------
// `mask` as a contiguous tensor of zeros and ones of the given size, as the functions below take it.
PyRef<Tensor> expand_mask(Tensor* mask, Dims sizes, const char* function);
int64_t count_mask(const Tensor* mask);
// The elements where `mask` (of source's size) is 1, as a 1-d tensor.
PyRef<Tensor> masked_select(Tensor* source, const Tensor* mask);
// The elements of `target` where `mask` is 1 become those of `source`, in order.
void masked_scatter(Tensor* target, const Tensor* mask, Tensor* source, const char* function);

// `index` as int64: LongTensors and other signed integers. TypeError otherwise.
PyRef<Tensor> as_long(Tensor* index, const char* function);

}  // namespace torchlite
