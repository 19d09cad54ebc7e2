// Views: new sizes, strides and offset on the same memory. Each result is a new Tensor object; nothing is copied.
#pragma once

#include <vector>

#include "tensor/tensor.h"

namespace torchlite::views {

// `requested` with its one -1 replaced by what the number of elements leaves.
std::vector<int64_t> infer_sizes(Dims requested, int64_t numel);
// Strides under which `t` has `sizes`, if they exist without a copy; `sizes` has as many elements as `t`.
bool view_strides(const Tensor* t, Dims sizes, std::vector<int64_t>* strides);
// `t` becomes the view that `other` is, of the same type; `other` is fit for its release only.
void take(Tensor* t, Tensor* other) noexcept;
// RuntimeError ("input is not contiguous") where only a copy could have these sizes.
PyRef<Tensor> view(const Tensor* t, Dims sizes);
// A view where one exists, else a contiguous copy.
PyRef<Tensor> reshape(Tensor* t, Dims sizes);

PyRef<Tensor> transpose(const Tensor* t, int dim0, int dim1);
// `dims` in [-ndim, ndim), each dimension once.
PyRef<Tensor> permute(const Tensor* t, Dims dims);
// Stride 0 along new and stretched dimensions; -1 keeps a size.
PyRef<Tensor> expand(const Tensor* t, Dims sizes);
PyRef<Tensor> squeeze(const Tensor* t);
PyRef<Tensor> squeeze(const Tensor* t, int dim);
PyRef<Tensor> unsqueeze(const Tensor* t, int64_t dim);
PyRef<Tensor> narrow(const Tensor* t, int dim, int64_t start, int64_t length);
// The slice at `index` (negative counts from the end) without that dimension; of a 1-d tensor a view of size (1,).
PyRef<Tensor> select(const Tensor* t, int dim, int64_t index);
// The main (k = 0) or k-th diagonal of a matrix.
PyRef<Tensor> diagonal(const Tensor* t, int64_t k);
// All windows of `size` along `dim`, each `step` after the one before: the dimension counts the windows, and a new last
// dimension runs within them.
PyRef<Tensor> unfold(const Tensor* t, int dim, int64_t size, int64_t step);
// Elements in reverse order along `dims`.
PyRef<Tensor> flip(const Tensor* t, Dims dims);

// `index` of `size` elements, negative ones counted from the end. IndexError names both.
int64_t wrap_index(int64_t index, int64_t size, int dim);

}  // namespace torchlite::views
