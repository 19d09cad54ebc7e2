#include "tensor/views.h"

#include <algorithm>
#include <string>

#include "tensor/exports.h"
#include "utils/errors.h"

namespace torchlite::views {

namespace {

using Sizes = std::vector<int64_t>;

Sizes to_vector(Dims d) { return Sizes(d.begin(), d.end()); }

// "[2 x 3]": sizes as the view errors spell them.
std::string bracketed(Dims d) {
  std::string s = "[";
  for (int i = 0; i < d.n; ++i) s += (i ? " x " : "") + std::to_string(d[i]);
  return s + "]";
}

}  // namespace

Sizes infer_sizes(Dims requested, int64_t numel) {
  Sizes sizes = to_vector(requested);
  int inferred = -1;
  int64_t known = 1;
  for (int d = 0; d < requested.n; ++d) {
    if (requested[d] == -1) {
      if (inferred >= 0) runtime_error("only one dimension can be inferred");
      inferred = d;
    } else if (requested[d] < 0) {
      runtime_error("invalid size %lld at dimension %d: sizes are -1 (inferred), 0 or positive",
                    static_cast<long long>(requested[d]), d);
    } else {
      if (__builtin_mul_overflow(known, requested[d], &known))
        runtime_error("a tensor of size %s has too many elements", format_dims(requested).c_str());
    }
  }
  if (inferred >= 0 && known != 0 && numel % known == 0) {
    sizes[static_cast<size_t>(inferred)] = numel / known;
  } else if (inferred >= 0 || known != numel) {
    runtime_error("invalid argument 2: size '%s' is invalid for input of with %lld elements",
                  bracketed(requested).c_str(), static_cast<long long>(numel));
  }
  return sizes;
}

bool view_strides(const Tensor* t, Dims sizes, Sizes* strides) {
  strides->assign(static_cast<size_t>(sizes.n), 1);
  if (t->contiguous || t->numel == 0) {
    int64_t step = 1;
    for (int d = sizes.n - 1; d >= 0; --d) {
      (*strides)[static_cast<size_t>(d)] = step;
      step *= sizes[d];
    }
    return true;
  }
  // Groups of old dimensions that lie evenly in memory, from the last: each must be covered exactly by new ones.
  int new_dim = sizes.n - 1;
  for (int d = t->ndim - 1; d >= 0;) {
    int64_t group = t->size(d), step = t->stride(d);
    int64_t base = step;
    --d;
    while (d >= 0 && (t->size(d) == 1 || t->stride(d) == base * group)) {
      group *= t->size(d);
      --d;
    }
    while (new_dim >= 0 && (group > 1 || sizes[new_dim] == 1)) {
      if (group % sizes[new_dim]) return false;
      (*strides)[static_cast<size_t>(new_dim)] = step;
      step *= sizes[new_dim];
      group /= sizes[new_dim];
      --new_dim;
    }
    if (group != 1) return false;
  }
  return new_dim < 0;
}

void take(Tensor* t, Tensor* other) noexcept {
  drop_array(t);
  std::swap(t->storage, other->storage);
  std::swap(t->inline_dims, other->inline_dims);  // the union's larger member: heap dimensions move along
  std::swap(t->ndim, other->ndim);
  t->offset = other->offset;
  t->numel = other->numel;
  t->contiguous = other->contiguous;
}

PyRef<Tensor> view(const Tensor* t, Dims requested) {
  Sizes strides, sizes = infer_sizes(requested, t->numel);
  if (!view_strides(t, sizes, &strides))
    runtime_error(
        "invalid argument 1: input is not contiguous: a tensor of size %s with strides %s has no view of "
        "size %s; call contiguous() first",
        format_dims(t->sizes()).c_str(), format_dims(t->strides()).c_str(), format_dims(sizes).c_str());
  return new_view(t, sizes, strides, t->offset);
}

PyRef<Tensor> reshape(Tensor* t, Dims requested) {
  Sizes strides, sizes = infer_sizes(requested, t->numel);
  if (view_strides(t, sizes, &strides)) return new_view(t, sizes, strides, t->offset);
  PyRef<Tensor> copy = clone(t);
  view_strides(copy.get(), sizes, &strides);
  return new_view(copy.get(), sizes, strides, copy->offset);
}

PyRef<Tensor> transpose(const Tensor* t, int dim0, int dim1) {
  if (t->ndim < 2) return alias(t);
  int64_t dims[2 * kMaxDim];
  int n = t->ndim;
  std::copy_n(t->dims(), 2 * n, dims);
  std::swap(dims[dim0], dims[dim1]);
  std::swap(dims[n + dim0], dims[n + dim1]);
  return new_view(t, {dims, n}, {dims + n, n}, t->offset);
}

PyRef<Tensor> permute(const Tensor* t, Dims dims) {
  if (dims.n != t->ndim)
    runtime_error("permute: %d dimensions were given for a tensor of %d dimensions", dims.n, t->ndim);
  Sizes sizes, strides;
  uint64_t seen = 0;
  for (int64_t requested : dims) {
    int d = wrap_dim(requested, t->ndim, "permute");
    if ((seen >> d) & 1)
      runtime_error("permute: Invalid permutation %s: dimension %d is repeated", format_dims(dims).c_str(), d);
    seen |= uint64_t{1} << d;
    sizes.push_back(t->size(d));
    strides.push_back(t->stride(d));
  }
  return new_view(t, sizes, strides, t->offset);
}

PyRef<Tensor> expand(const Tensor* t, Dims requested) {
  int added = requested.n - t->ndim;
  if (added < 0)
    runtime_error(
        "expand: the number of sizes provided must be greater or equal to the number of dimensions in the "
        "tensor, but got %s for a tensor of size %s",
        format_dims(requested).c_str(), format_dims(t->sizes()).c_str());
  int64_t dims[2 * kMaxDim];
  int n = requested.n;
  if (n > kMaxDim) runtime_error("expand: a tensor has at most %d dimensions, but got %d", kMaxDim, n);
  for (int d = 0; d < n; ++d) {
    int64_t wanted = requested[d];
    if (d < added) {
      if (wanted < 0)
        runtime_error("expand: size %lld at new dimension %d: only an existing dimension can be kept with -1",
                      static_cast<long long>(wanted), d);
      dims[d] = wanted;
      dims[n + d] = 0;
      continue;
    }
    int64_t size = t->size(d - added);
    if (wanted == -1 || wanted == size) {
      dims[d] = size;
      dims[n + d] = t->stride(d - added);
    } else if (size == 1 && wanted >= 0) {
      dims[d] = wanted;
      dims[n + d] = 0;
    } else {
      runtime_error(
          "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
          "dimension %d.",
          static_cast<long long>(wanted), static_cast<long long>(size), d);
    }
  }
  return new_view(t, {dims, n}, {dims + n, n}, t->offset);
}

PyRef<Tensor> squeeze(const Tensor* t) {
  if (t->ndim <= 1) return alias(t);
  Sizes sizes, strides;
  for (int d = 0; d < t->ndim; ++d) {
    if (t->size(d) == 1) continue;
    sizes.push_back(t->size(d));
    strides.push_back(t->stride(d));
  }
  if (sizes.empty()) {
    sizes = {1};
    strides = {1};
  }
  return new_view(t, sizes, strides, t->offset);
}

PyRef<Tensor> squeeze(const Tensor* t, int dim) {
  if (t->ndim <= 1 || t->size(dim) != 1) return alias(t);
  Sizes sizes = to_vector(t->sizes()), strides = to_vector(t->strides());
  sizes.erase(sizes.begin() + dim);
  strides.erase(strides.begin() + dim);
  return new_view(t, sizes, strides, t->offset);
}

PyRef<Tensor> unsqueeze(const Tensor* t, int64_t dim) {
  int d = wrap_dim(dim, t->ndim + 1, "unsqueeze");
  Sizes sizes = to_vector(t->sizes()), strides = to_vector(t->strides());
  int64_t step = d < t->ndim ? t->stride(d) * t->size(d) : 1;
  sizes.insert(sizes.begin() + d, 1);
  strides.insert(strides.begin() + d, step);
  return new_view(t, sizes, strides, t->offset);
}

PyRef<Tensor> narrow(const Tensor* t, int dim, int64_t start, int64_t length) {
  if (t->ndim == 0) runtime_error("narrow: a 0-d tensor has no dimension to narrow");
  int64_t size = t->size(dim);
  if (start < 0 || length < 0 || start > size || length > size - start)
    runtime_error("narrow: start (%lld) and length (%lld) are out of range for dimension %d of size %lld",
                  static_cast<long long>(start), static_cast<long long>(length), dim, static_cast<long long>(size));
  int64_t sizes[kMaxDim];
  std::copy_n(t->dims(), t->ndim, sizes);
  sizes[dim] = length;
  return new_view(t, {sizes, t->ndim}, t->strides(), t->offset + (length ? start * t->stride(dim) : 0));
}

int64_t wrap_index(int64_t index, int64_t size, int dim) {
  if (index < -size || index >= size)
    index_error("index %lld is out of range for dimension %d (of size %lld)", static_cast<long long>(index), dim,
                static_cast<long long>(size));
  return index < 0 ? index + size : index;
}

PyRef<Tensor> select(const Tensor* t, int dim, int64_t index) {
  if (t->ndim == 0) index_error("select: a 0-d tensor has no dimension to select from");
  int64_t offset = t->offset + wrap_index(index, t->size(dim), dim) * t->stride(dim);
  int64_t dims[2 * kMaxDim];
  int n = t->ndim - 1;
  if (n == 0) {
    dims[0] = dims[1] = 1;
    return new_view(t, {dims, 1}, {dims + 1, 1}, offset);
  }
  const int64_t* source = t->dims();
  for (int d = 0; d < n; ++d) {
    int from = d < dim ? d : d + 1;
    dims[d] = source[from];
    dims[n + d] = source[t->ndim + from];
  }
  return new_view(t, {dims, n}, {dims + n, n}, offset);
}

PyRef<Tensor> diagonal(const Tensor* t, int64_t k) {
  if (t->ndim != 2) runtime_error("diag expects a 1D or 2D tensor, but self is %dD", t->ndim);
  int64_t rows = t->size(0) - (k < 0 ? -k : 0), columns = t->size(1) - (k > 0 ? k : 0);
  int64_t size = std::max<int64_t>(0, std::min(rows, columns));
  int64_t stride = t->stride(0) + t->stride(1);
  int64_t first = k < 0 ? -k * t->stride(0) : k * t->stride(1);
  return new_view(t, {&size, 1}, {&stride, 1}, t->offset + (size ? first : 0));
}

PyRef<Tensor> unfold(const Tensor* t, int dim, int64_t size, int64_t step) {
  if (t->ndim == 0) runtime_error("unfold: a 0-d tensor has no dimension to unfold");
  if (size < 0 || size > t->size(dim) || step <= 0)
    runtime_error("unfold: windows of size %lld and step %lld do not fit dimension %d of size %lld",
                  static_cast<long long>(size), static_cast<long long>(step), dim,
                  static_cast<long long>(t->size(dim)));
  Sizes sizes = to_vector(t->sizes()), strides = to_vector(t->strides());
  auto d = static_cast<size_t>(dim);
  sizes.push_back(size);
  strides.push_back(strides[d]);
  sizes[d] = (sizes[d] - size) / step + 1;
  strides[d] *= step;
  return new_view(t, sizes, strides, t->offset);
}

PyRef<Tensor> flip(const Tensor* t, Dims dims) {
  Sizes strides = to_vector(t->strides());
  int64_t offset = t->offset;
  for (int64_t requested : dims) {
    int d = wrap_dim(requested, t->ndim, "flip");
    if (t->ndim == 0 || t->size(d) == 0) continue;
    int64_t& stride = strides[static_cast<size_t>(d)];
    if (stride != t->stride(d)) runtime_error("flip: dimension %d is repeated in %s", d, format_dims(dims).c_str());
    offset += (t->size(d) - 1) * stride;
    if (t->size(d) > 1) stride = -stride;
  }
  return new_view(t, t->sizes(), strides, offset);
}

}  // namespace torchlite::views
