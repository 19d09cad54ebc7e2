#include "tensor/index_kernels.h"

#include <algorithm>
#include <cstring>

#include "tensor/views.h"
#include "utils/errors.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

// Calls f.template operator()<T>() with an unsigned type of the element's size: enough to move elements.
template <class F>
void with_word(DType dtype, F&& f) {
  switch (itemsize(dtype)) {
    case 1: return f.template operator()<uint8_t>();
    case 2: return f.template operator()<uint16_t>();
    case 4: return f.template operator()<uint32_t>();
    default: return f.template operator()<uint64_t>();
  }
}

// The same with the element type itself, for arithmetic; Half is the caller's to convert.
template <class F>
void with_number(DType dtype, F&& f) {
  switch (dtype) {
    case DType::Byte: return f.template operator()<uint8_t>();
    case DType::Char: return f.template operator()<int8_t>();
    case DType::Short: return f.template operator()<int16_t>();
    case DType::Int: return f.template operator()<int32_t>();
    case DType::Long: return f.template operator()<int64_t>();
    case DType::Float: return f.template operator()<float>();
    default: return f.template operator()<double>();
  }
}

// Addition in Half would lose what repeated indices add: it is done in single precision.
template <class F>
void add_in_single(Tensor* target, Tensor* source, F&& f) {
  PyRef<Tensor> wide_target = to_dtype(target, DType::Float), wide_source = to_dtype(source, DType::Float);
  f(wide_target.get(), wide_source.get());
  copy_into(target, wide_target.get());
}

// Values of `index`, each in [0, size). `what` opens the message for one that is not.
std::vector<int64_t> checked_index(Tensor* index, int64_t size, int dim, const char* function,
                                   const std::string& what = "index out of range") {
  PyRef<Tensor> wide = as_long(index, function);
  PyRef<Tensor> flat = contiguous(wide.get());
  const int64_t* p = flat->ptr<int64_t>();
  std::vector<int64_t> out(p, p + flat->numel);
  for (int64_t& i : out) {
    if (i < -size || i >= size)
      runtime_error("%s: %s: got %lld for dimension %d of size %lld", function, what.c_str(), static_cast<long long>(i),
                    dim, static_cast<long long>(size));
    if (i < 0) i += size;
  }
  return out;
}

std::string invalid_in(const char* function) { return std::string("Invalid index in ") + function; }

void require_vector(const Tensor* index, const char* function) {
  if (index->ndim > 1)
    runtime_error("%s: Index is supposed to be a vector, but has size %s", function,
                  format_dims(index->sizes()).c_str());
}

// The dimensions before, at and after `dim`.
struct Split {
  int64_t outer = 1, size = 1, inner = 1;
  Split(Dims sizes, int dim) {
    for (int d = 0; d < sizes.n; ++d) (d < dim ? outer : d == dim ? size : inner) *= sizes[d];
  }
};

void require_slices(const Tensor* target, int dim, const Tensor* index, const Tensor* source, const char* function) {
  require_vector(index, function);
  if (source->dtype != target->dtype)
    type_error("%s: expected a source of type %s like self, but got %s", function, info(target->dtype).name,
               info(source->dtype).name);
  bool same = source->ndim == target->ndim;
  for (int d = 0; same && d < source->ndim; ++d) same = d == dim || source->size(d) == target->size(d);
  if (!same)
    runtime_error("%s: a source of size %s does not fit self of size %s: they may differ only at dimension %d",
                  function, format_dims(source->sizes()).c_str(), format_dims(target->sizes()).c_str(), dim);
  int64_t slices = source->ndim ? source->size(dim) : 1;
  if (slices != index->numel)
    runtime_error("%s: Number of indices should be equal to source:size(dim), but got %lld indices and size %lld",
                  function, static_cast<long long>(index->numel), static_cast<long long>(slices));
}

// Calls f(k, offset) for each element k of a contiguous index of sizes `index_sizes`: offset is that of the element it
// names in a contiguous tensor of `sizes`.
template <class F>
void for_each_named(Dims index_sizes, const std::vector<int64_t>& index, Dims sizes, int dim, F&& f) {
  int n = index_sizes.n;
  int64_t strides[kMaxDim], at[kMaxDim] = {}, stride = 1;
  for (int d = n - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= sizes[d];
  }
  int64_t along = n ? strides[dim] : 0;
  if (n) strides[dim] = 0;
  int64_t base = 0, total = static_cast<int64_t>(index.size());
  for (int64_t k = 0; k < total; ++k) {
    f(k, base + index[static_cast<size_t>(k)] * along);
    for (int d = n - 1; d >= 0; --d) {
      base += strides[d];
      if (++at[d] < index_sizes[d]) break;
      base -= strides[d] * index_sizes[d];
      at[d] = 0;
    }
  }
}

void require_named(const Tensor* tensor, int dim, const Tensor* index, const char* function) {
  bool fits = index->ndim == tensor->ndim;
  for (int d = 0; fits && d < index->ndim; ++d) fits = d == dim || index->size(d) <= tensor->size(d);
  if (!fits)
    runtime_error("%s: Invalid index in %s: an index of size %s does not fit a tensor of size %s along dimension %d",
                  function, function, format_dims(index->sizes()).c_str(), format_dims(tensor->sizes()).c_str(), dim);
}

int64_t size_along(const Tensor* t, int dim) { return t->ndim ? t->size(dim) : 1; }

}  // namespace

PyRef<Tensor> as_long(Tensor* index, const char* function) {
  if (index->dtype == DType::Byte || is_floating(index->dtype))
    type_error("%s: expected an index of type Long, but got %s", function, info(index->dtype).name);
  return to_dtype(index, DType::Long);
}

PyRef<Tensor> index_select(Tensor* source, int dim, Tensor* index, const char* function) {
  require_vector(index, function);
  std::vector<int64_t> rows = checked_index(index, size_along(source, dim), dim, function);
  std::vector<int64_t> sizes(source->sizes().begin(), source->sizes().end());
  auto n = static_cast<int64_t>(rows.size());
  if (sizes.empty()) sizes.push_back(n);
  else sizes[static_cast<size_t>(dim)] = n;
  PyRef<Tensor> from = contiguous(source), out = new_tensor(source->dtype, sizes);
  Split s(source->sizes(), dim);
  int64_t bytes = s.inner * itemsize(source->dtype);
  char* to = out->bytes();
  const char* base = from->bytes();
  if (bytes == 0) return out;
  GilRelease unlocked(out->numel);
  for (int64_t i = 0; i < s.outer; ++i)
    for (int64_t row : rows) {
      std::memcpy(to, base + (i * s.size + row) * bytes, static_cast<size_t>(bytes));
      to += bytes;
    }
  return out;
}

void index_put(Tensor* target, int dim, Tensor* index, Tensor* source, bool add, const char* function) {
  require_slices(target, dim, index, source, function);
  if (add && target->dtype == DType::Half)
    return add_in_single(target, source, [&](Tensor* t, Tensor* s) { index_put(t, dim, index, s, true, function); });
  std::vector<int64_t> rows = checked_index(index, size_along(target, dim), dim, function);
  PyRef<Tensor> from = contiguous(source);
  Split s(target->sizes(), dim);
  GilRelease unlocked(source->numel);
  if (!add) {
    int64_t bytes = s.inner * itemsize(target->dtype);
    const char* p = from->bytes();
    if (bytes == 0) return;
    for (int64_t i = 0; i < s.outer; ++i)
      for (int64_t row : rows) {
        std::memcpy(target->bytes() + (i * s.size + row) * bytes, p, static_cast<size_t>(bytes));
        p += bytes;
      }
    return;
  }
  with_number(target->dtype, [&]<class T>() {
    const T* p = from->ptr<T>();
    for (int64_t i = 0; i < s.outer; ++i)
      for (int64_t row : rows) {
        T* to = target->ptr<T>() + (i * s.size + row) * s.inner;
        for (int64_t j = 0; j < s.inner; ++j) to[j] = static_cast<T>(to[j] + p[j]);
        p += s.inner;
      }
  });
}

void index_fill(Tensor* target, int dim, Tensor* index, double value, const char* function) {
  require_vector(index, function);
  std::vector<int64_t> rows = checked_index(index, size_along(target, dim), dim, function);
  PyRef<Tensor> element = new_full(target->dtype, {}, value);
  Split s(target->sizes(), dim);
  with_word(target->dtype, [&]<class T>() {
    T word = *element->ptr<T>();
    for (int64_t i = 0; i < s.outer; ++i)
      for (int64_t row : rows) std::fill_n(target->ptr<T>() + (i * s.size + row) * s.inner, s.inner, word);
  });
}

PyRef<Tensor> gather(Tensor* source, int dim, Tensor* index, const char* function) {
  require_named(source, dim, index, function);
  std::vector<int64_t> rows = checked_index(index, size_along(source, dim), dim, function, invalid_in(function));
  PyRef<Tensor> from = contiguous(source), out = new_tensor(source->dtype, index->sizes());
  GilRelease unlocked(out->numel);
  with_word(source->dtype, [&]<class T>() {
    const T* p = from->ptr<T>();
    T* to = out->ptr<T>();
    for_each_named(index->sizes(), rows, source->sizes(), dim, [&](int64_t k, int64_t at) { to[k] = p[at]; });
  });
  return out;
}

void scatter(Tensor* target, int dim, Tensor* index, Tensor* source, bool add, const char* function) {
  require_named(target, dim, index, function);
  if (source->dtype != target->dtype)
    type_error("%s: expected a source of type %s like self, but got %s", function, info(target->dtype).name,
               info(source->dtype).name);
  if (!(source->sizes() == index->sizes()))
    runtime_error("%s: the source of size %s must have the size of the index, %s", function,
                  format_dims(source->sizes()).c_str(), format_dims(index->sizes()).c_str());
  if (add && target->dtype == DType::Half)
    return add_in_single(target, source, [&](Tensor* t, Tensor* s) { scatter(t, dim, index, s, true, function); });
  std::vector<int64_t> rows = checked_index(index, size_along(target, dim), dim, function, invalid_in(function));
  PyRef<Tensor> from = contiguous(source);
  GilRelease unlocked(source->numel);
  if (add) {
    with_number(target->dtype, [&]<class T>() {
      const T* p = from->ptr<T>();
      T* to = target->ptr<T>();
      for_each_named(index->sizes(), rows, target->sizes(), dim,
                     [&](int64_t k, int64_t at) { to[at] = static_cast<T>(to[at] + p[k]); });
    });
  } else {
    with_word(target->dtype, [&]<class T>() {
      const T* p = from->ptr<T>();
      T* to = target->ptr<T>();
      for_each_named(index->sizes(), rows, target->sizes(), dim, [&](int64_t k, int64_t at) { to[at] = p[k]; });
    });
  }
}

void scatter_fill(Tensor* target, int dim, Tensor* index, double value, const char* function) {
  require_named(target, dim, index, function);
  std::vector<int64_t> rows = checked_index(index, size_along(target, dim), dim, function, invalid_in(function));
  PyRef<Tensor> element = new_full(target->dtype, {}, value);
  with_word(target->dtype, [&]<class T>() {
    T word = *element->ptr<T>();
    T* to = target->ptr<T>();
    for_each_named(index->sizes(), rows, target->sizes(), dim, [&](int64_t, int64_t at) { to[at] = word; });
  });
}

PyRef<Tensor> expand_mask(Tensor* mask, Dims sizes, const char* function) {
  if (mask->dtype != DType::Byte)
    type_error("%s: expected a mask of type Byte, but got %s", function, info(mask->dtype).name);
  PyRef<Tensor> full;
  if (mask->sizes() == sizes) {
    full = contiguous(mask);
  } else {
    std::vector<int64_t> joint = broadcast_sizes(mask->sizes(), sizes, function);
    if (!(Dims(joint) == sizes))
      runtime_error("%s: a mask of size %s does not broadcast to the size of self, %s", function,
                    format_dims(mask->sizes()).c_str(), format_dims(sizes).c_str());
    full = clone(views::expand(mask, sizes).get());
  }
  auto is_flag = [](uint8_t v) { return v <= 1; };
  const uint8_t* values = full->ptr<uint8_t>();
  if (std::all_of(values, values + full->numel, is_flag)) return full;
  full = clone(full.get());
  for (int64_t i = 0; i < full->numel; ++i) full->ptr<uint8_t>()[i] = full->ptr<uint8_t>()[i] != 0;
  return full;
}

int64_t count_mask(const Tensor* mask) {
  const uint8_t* p = mask->ptr<uint8_t>();
  int64_t count = 0;
  for (int64_t i = 0; i < mask->numel; ++i) count += p[i];
  return count;
}

PyRef<Tensor> masked_select(Tensor* source, const Tensor* mask) {
  int64_t count = count_mask(mask);
  PyRef<Tensor> from = contiguous(source), out = new_tensor(source->dtype, {&count, 1});
  const uint8_t* m = mask->ptr<uint8_t>();
  with_word(source->dtype, [&]<class T>() {
    const T* p = from->ptr<T>();
    T* to = out->ptr<T>();
    for (int64_t i = 0; i < mask->numel; ++i)
      if (m[i]) *to++ = p[i];
  });
  return out;
}

void masked_scatter(Tensor* target, const Tensor* mask, Tensor* source, const char* function) {
  if (source->dtype != target->dtype)
    type_error("%s: expected a source of type %s like self, but got %s", function, info(target->dtype).name,
               info(source->dtype).name);
  int64_t count = count_mask(mask);
  if (source->numel < count)
    runtime_error("%s: Number of elements of src < number of ones in mask: %lld and %lld", function,
                  static_cast<long long>(source->numel), static_cast<long long>(count));
  PyRef<Tensor> from = contiguous(source);
  const uint8_t* m = mask->ptr<uint8_t>();
  with_word(target->dtype, [&]<class T>() {
    const T* p = from->ptr<T>();
    T* to = target->ptr<T>();
    for (int64_t i = 0; i < mask->numel; ++i)
      if (m[i]) to[i] = *p++;
  });
}

}  // namespace torchlite
