// Type rules of views, of copies of other sizes, and of what keys, index tensors and masks name.
#include <algorithm>

#include "autograd/ops/backcompat.h"
#include "autograd/ops/types.h"
#include "tensor/views.h"

namespace torchlite::types {

namespace {

using Sizes = std::vector<int64_t>;

size_t at(int d) { return static_cast<size_t>(d); }

TypeInfos of_self(TypeCall& c, Sizes sizes) { return c.result(c.type(0).dtype, std::move(sizes)); }

void require_matrix(const TypeCall& c, const char* name) {
  if (c.type(0).ndim() != 2) runtime_error("%s: expected a matrix, but self is %dD", name, c.type(0).ndim());
}

void require_dimension(const TypeCall& c) {
  if (c.type(0).ndim() == 0) runtime_error("%s: a 0-d tensor has no dimension", c.name());
}

}  // namespace

TypeInfos view(TypeCall& c) { return of_self(c, views::infer_sizes(c.ints(1), c.type(0).numel())); }

TypeInfos transpose(TypeCall& c) {
  Sizes sizes = c.type(0).sizes;
  int n = c.type(0).ndim(), a = c.dim(1, n), b = c.dim(2, n);
  if (n > 1) std::swap(sizes[at(a)], sizes[at(b)]);
  return of_self(c, std::move(sizes));
}

TypeInfos matrix_transpose(TypeCall& c) {
  if (c.type(0).ndim() != 2) runtime_error("t() expects a 2D tensor, but self is %dD", c.type(0).ndim());
  return of_self(c, {c.sizes(0)[1], c.sizes(0)[0]});
}

TypeInfos permute(TypeCall& c) {
  Sizes dims = c.ints(1), sizes;
  int n = c.type(0).ndim();
  if (static_cast<int>(dims.size()) != n)
    runtime_error("permute: %zu dimensions were given for a tensor of %d dimensions", dims.size(), n);
  uint64_t seen = 0;
  for (int64_t requested : dims) {
    int d = wrap_dim(requested, n);
    if ((seen >> d) & 1)
      runtime_error("permute: Invalid permutation %s: dimension %d is repeated", format_dims(dims).c_str(), d);
    seen |= uint64_t{1} << d;
    sizes.push_back(c.sizes(0)[d]);
  }
  return of_self(c, std::move(sizes));
}

TypeInfos expand(TypeCall& c) {
  Sizes sizes = c.ints(1);
  Dims self = c.sizes(0);
  int added = static_cast<int>(sizes.size()) - self.n;
  if (added < 0)
    runtime_error(
        "expand: the number of sizes provided must be greater or equal to the number of dimensions in the "
        "tensor, but got %s for a tensor of size %s",
        format_dims(sizes).c_str(), format_dims(self).c_str());
  for (int d = 0; d < static_cast<int>(sizes.size()); ++d) {
    int64_t& wanted = sizes[at(d)];
    if (d < added) {
      if (wanted < 0)
        runtime_error("expand: size %lld at new dimension %d: only an existing dimension can be kept with -1",
                      static_cast<long long>(wanted), d);
      continue;
    }
    int64_t size = self[d - added];
    if (wanted == -1) wanted = size;
    if (wanted != size && (size != 1 || wanted < 0))
      runtime_error(
          "The expanded size of the tensor (%lld) must match the existing size (%lld) at non-singleton "
          "dimension %d.",
          static_cast<long long>(wanted), static_cast<long long>(size), d);
  }
  return of_self(c, std::move(sizes));
}

TypeInfos sum_to(TypeCall& c) {
  Sizes sizes = c.ints(1);
  Dims self = c.sizes(0);
  int added = self.n - static_cast<int>(sizes.size());
  bool fits = added >= 0;
  for (int d = 0; fits && d < static_cast<int>(sizes.size()); ++d)
    fits = sizes[at(d)] == 1 || sizes[at(d)] == self[d + added];
  if (!fits)
    runtime_error("sum_to: the size %s does not broadcast to %s", format_dims(sizes).c_str(),
                  format_dims(self).c_str());
  return of_self(c, std::move(sizes));
}

TypeInfos squeeze(TypeCall& c) {
  Sizes sizes = c.type(0).sizes;
  int n = c.type(0).ndim();
  if (!c.is_none(1)) {
    int d = c.dim(1, n);
    if (n > 1 && sizes[at(d)] == 1) sizes.erase(sizes.begin() + d);
  } else if (n > 1) {
    std::erase(sizes, 1);
    if (sizes.empty()) sizes = {1};
  }
  return of_self(c, std::move(sizes));
}

TypeInfos unsqueeze(TypeCall& c) {
  Sizes sizes = c.type(0).sizes;
  sizes.insert(sizes.begin() + c.dim(1, c.type(0).ndim() + 1), 1);
  return of_self(c, std::move(sizes));
}

TypeInfos flip(TypeCall& c) {
  for (int64_t d : c.ints(1)) wrap_dim(d, c.type(0).ndim());
  return {c.type(0)};
}

TypeInfos narrow(TypeCall& c) {
  require_dimension(c);
  Sizes sizes = c.type(0).sizes;
  int d = c.dim(1, c.type(0).ndim());
  int64_t start = c.integer(2), length = c.integer(3), size = sizes[at(d)];
  if (start < 0 || length < 0 || start > size || length > size - start)
    runtime_error("narrow: start (%lld) and length (%lld) are out of range for dimension %d of size %lld",
                  static_cast<long long>(start), static_cast<long long>(length), d, static_cast<long long>(size));
  sizes[at(d)] = length;
  return of_self(c, std::move(sizes));
}

TypeInfos select(TypeCall& c) {
  if (c.type(0).ndim() == 0) index_error("select: a 0-d tensor has no dimension to select from");
  Sizes sizes = c.type(0).sizes;
  int d = c.dim(1, c.type(0).ndim());
  views::wrap_index(c.integer(2), sizes[at(d)], d);
  sizes.erase(sizes.begin() + d);
  if (sizes.empty()) sizes = {1};
  return of_self(c, std::move(sizes));
}

TypeInfos unfold(TypeCall& c) {
  require_dimension(c);
  Sizes sizes = c.type(0).sizes;
  int d = c.dim(1, c.type(0).ndim());
  int64_t size = c.integer(2), step = c.integer(3);
  if (size < 0 || size > sizes[at(d)] || step <= 0)
    runtime_error("unfold: windows of size %lld and step %lld do not fit dimension %d of size %lld",
                  static_cast<long long>(size), static_cast<long long>(step), d, static_cast<long long>(sizes[at(d)]));
  sizes[at(d)] = (sizes[at(d)] - size) / step + 1;
  sizes.push_back(size);
  return of_self(c, std::move(sizes));
}

TypeInfos given_sizes(TypeCall& c) {
  Sizes sizes = c.ints(1);
  if (std::any_of(sizes.begin(), sizes.end(), [](int64_t s) { return s < 0; }))
    runtime_error("%s: sizes must not be negative, but got %s", c.name(), format_dims(sizes).c_str());
  return of_self(c, std::move(sizes));
}

TypeInfos repeat(TypeCall& c) {
  Sizes times = c.ints(1);
  Dims self = c.sizes(0);
  int added = static_cast<int>(times.size()) - self.n;
  if (added < 0)
    runtime_error(
        "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
        "got %s for a tensor of size %s",
        format_dims(times).c_str(), format_dims(self).c_str());
  for (int d = 0; d < static_cast<int>(times.size()); ++d) {
    int64_t& count = times[at(d)];
    if (count < 0)
      runtime_error("repeat: got the negative count %lld at position %d", static_cast<long long>(count), d);
    if (d >= added && __builtin_mul_overflow(count, self[d - added], &count))
      runtime_error("repeat: the result of repeating size %s is too large", format_dims(self).c_str());
  }
  return of_self(c, std::move(times));
}

namespace {

// The element type that holds those of all tensors of a list: the widest floating one, else the widest.
DType common_dtype(const TypeInfos& list) {
  DType dtype = list[0].dtype;
  for (const TypeInfo& t : list)
    if (is_floating(t.dtype) != is_floating(dtype) ? is_floating(t.dtype) : t.dtype > dtype) dtype = t.dtype;
  return dtype;
}

}  // namespace

TypeInfos cat(TypeCall& c) {
  if (c.list.empty()) runtime_error("cat: seq can't be empty");
  auto is_nothing = [](const TypeInfo& t) { return t.ndim() == 1 && t.numel() == 0; };
  const TypeInfo* first = nullptr;
  for (const TypeInfo& t : c.list)
    if (!first || is_nothing(*first)) first = &t;
  if (first->ndim() == 0) runtime_error("cat: a 0-d tensor cannot be concatenated; use stack");
  int dim = c.dim(1, first->ndim());
  Sizes sizes = first->sizes;
  sizes[at(dim)] = 0;
  for (size_t k = 0; k < c.list.size(); ++k) {
    const TypeInfo& t = c.list[k];
    if (is_nothing(t) && first->ndim() != 1) continue;
    bool same = t.ndim() == first->ndim();
    for (int d = 0; same && d < t.ndim(); ++d) same = d == dim || t.dims()[d] == first->dims()[d];
    if (!same)
      runtime_error(
          "cat: inconsistent tensor sizes: tensor %zu has size %s, but tensor 0 has size %s; they may differ "
          "only at dimension %d",
          k, format_dims(t.dims()).c_str(), format_dims(first->dims()).c_str(), dim);
    sizes[at(dim)] += t.dims()[dim];
  }
  return c.result(common_dtype(c.list), std::move(sizes));
}

TypeInfos stack(TypeCall& c) {
  if (c.list.empty()) value_error("stack expects a non-empty sequence of tensors");
  Sizes sizes = c.list[0].sizes;
  for (size_t k = 0; k < c.list.size(); ++k)
    if (c.list[k].sizes != sizes)
      runtime_error("stack: inconsistent tensor sizes: tensor %zu has size %s, but tensor 0 has size %s", k,
                    format_dims(c.list[k].dims()).c_str(), format_dims(sizes).c_str());
  int n = static_cast<int>(sizes.size());
  sizes.insert(sizes.begin() + c.dim(1, n + 1), static_cast<int64_t>(c.list.size()));
  return c.result(common_dtype(c.list), std::move(sizes));
}

TypeInfos matrix(TypeCall& c) {
  require_matrix(c, c.name());
  return {c.type(0)};
}

TypeInfos diag(TypeCall& c) {
  int64_t k = std::clamp(c.integer(1), -(int64_t{1} << 40), int64_t{1} << 40);
  Dims self = c.sizes(0);
  if (self.n == 1) return of_self(c, {self[0] + std::abs(k), self[0] + std::abs(k)});
  if (self.n != 2) runtime_error("diag expects a 1D or 2D tensor, but self is %dD", self.n);
  int64_t rows = self[0] - (k < 0 ? -k : 0), columns = self[1] - (k > 0 ? k : 0);
  return of_self(c, {std::max<int64_t>(0, std::min(rows, columns))});
}

TypeInfos trace(TypeCall& c) {
  require_matrix(c, "trace");
  return of_self(c, {1});
}

// ---- keys ---------------------------------------------------------------------------------------------------------

namespace {

// Sizes of self[key] by NumPy's rules; an open size where a mask decides.
Sizes key_sizes(const TypeCall& c, PyObject* key) {
  if (!PyTuple_Check(key)) type_error("%s: the key must be a tuple, not %.100s", c.name(), type_name(key));
  Dims self = c.sizes(0);
  Py_ssize_t n = PyTuple_GET_SIZE(key);
  auto index_of = [&](PyObject* item) -> const TypeInfo* {
    if (!PyUnicode_Check(item)) return nullptr;
    const char* text = PyUnicode_AsUTF8(item);
    if (!text) throw PyError();
    int k = text[0] == '@' ? std::atoi(text + 1) : -1;
    if (k < 0 || static_cast<size_t>(k) >= c.list.size())
      index_error("index: the key names '%s', but there are %zu index tensors", text, c.list.size());
    return &c.list[static_cast<size_t>(k)];
  };
  auto is_mask = [](const TypeInfo* t) { return t->dtype == DType::Byte; };
  int taken = 0;
  bool advanced = false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    const TypeInfo* t = index_of(item);
    advanced = advanced || t;
    if (t) taken += is_mask(t) ? t->ndim() : 1;
    else taken += item != Py_None && item != Py_Ellipsis;
  }
  if (taken > self.n)
    index_error("too many indices: the tensor of size %s has %d dimensions, but %d were indexed",
                format_dims(self).c_str(), self.n, taken);
  Sizes out, joint;
  size_t joint_at = 0;
  enum { Before, Inside, After, Apart } place = Before;  // of the index tensors among the items
  int d = 0;
  auto join = [&](const Sizes& sizes) {
    if (place == Before) {
      place = Inside;
      joint_at = out.size();
    } else if (place == After) {
      place = Apart;
    }
    // An open size fits every other.
    Sizes a = joint, b = sizes;
    if (a.size() < b.size()) std::swap(a, b);
    for (size_t k = 1; k <= b.size(); ++k) {
      int64_t &x = a[a.size() - k], y = b[b.size() - k];
      if (x == 1 || (x == kOpenSize && y != 1)) x = y;
      else if (y != 1 && y != kOpenSize && x != y)
        index_error("index: index tensors of size %s and %s do not broadcast", format_dims(joint).c_str(),
                    format_dims(sizes).c_str());
    }
    joint = a;
  };
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    if (const TypeInfo* t = index_of(item)) {
      if (is_mask(t)) {
        for (int k = 0; k < t->ndim(); ++k)
          if (t->dims()[k] != self[d + k])
            index_error("index: a mask of size %s does not fit the tensor of size %s at dimension %d",
                        format_dims(t->dims()).c_str(), format_dims(self).c_str(), d + k);
        d += t->ndim();
        join({kOpenSize});
      } else {
        ++d;
        join(t->sizes);
      }
      continue;
    }
    bool is_number = item != Py_None && item != Py_Ellipsis && !PySlice_Check(item);
    if (is_number) {
      views::wrap_index(constant_to_int(item), self[d], d);
      ++d;
      if (advanced) join({});
      continue;
    }
    if (place == Inside) place = After;
    if (item == Py_None) {
      out.push_back(1);
    } else if (item == Py_Ellipsis) {
      for (int left = self.n - taken; left > 0; --left) out.push_back(self[d++]);
    } else {
      Py_ssize_t start, stop, step;
      check(PySlice_Unpack(item, &start, &stop, &step));
      out.push_back(PySlice_AdjustIndices(self[d++], &start, &stop, step));
    }
  }
  while (d < self.n) out.push_back(self[d++]);
  if (advanced)
    out.insert(out.begin() + static_cast<std::ptrdiff_t>(place == Apart ? 0 : joint_at), joint.begin(), joint.end());
  return out;
}

void require_vector(const TypeCall& c, int i) {
  if (c.type(i).ndim() > 1)
    runtime_error("%s: Index is supposed to be a vector, but has size %s", c.name(), format_dims(c.sizes(i)).c_str());
}

void require_index(const TypeCall& c, int i) {
  DType t = c.type(i).dtype;
  if (t == DType::Byte || is_floating(t))
    type_error("%s: expected an index of type Long, but got %s", c.name(), info(t).name);
}

void require_source_type(const TypeCall& c, int i) {
  if (c.type(i).dtype != c.type(0).dtype)
    type_error("%s: expected a source of type %s like self, but got %s", c.name(), info(c.type(0).dtype).name,
               info(c.type(i).dtype).name);
}

// The index of gather and scatter at argument 2.
void require_named(const TypeCall& c) {
  int dim = c.dim(1, c.type(0).ndim());
  require_index(c, 2);
  Dims self = c.sizes(0), index = c.sizes(2);
  bool fits = index.n == self.n;
  for (int d = 0; fits && d < index.n; ++d) fits = d == dim || index[d] <= self[d];
  if (!fits)
    runtime_error("%s: Invalid index in %s: an index of size %s does not fit a tensor of size %s along dimension %d",
                  c.name(), c.name(), format_dims(index).c_str(), format_dims(self).c_str(), dim);
}

}  // namespace

TypeInfos index(TypeCall& c) {
  Sizes sizes = key_sizes(c, c.constant(1));
  if (sizes.empty() && c.type(0).ndim() > 0) sizes = {1};
  return of_self(c, std::move(sizes));
}

TypeInfos index_select(TypeCall& c) {
  require_vector(c, 2);
  require_index(c, 2);
  Sizes sizes = c.type(0).sizes;
  int d = c.dim(1, c.type(0).ndim());
  if (sizes.empty()) sizes = {c.type(2).numel()};
  else sizes[at(d)] = c.type(2).numel();
  return of_self(c, std::move(sizes));
}

TypeInfos index_put(TypeCall& c) {
  require_vector(c, 2);
  require_index(c, 2);
  require_source_type(c, 3);
  int dim = c.dim(1, c.type(0).ndim());
  Dims self = c.sizes(0), source = c.sizes(3);
  bool same = source.n == self.n;
  for (int d = 0; same && d < source.n; ++d) same = d == dim || source[d] == self[d];
  if (!same)
    runtime_error("%s: a source of size %s does not fit self of size %s: they may differ only at dimension %d",
                  c.name(), format_dims(source).c_str(), format_dims(self).c_str(), dim);
  int64_t slices = source.n ? source[dim] : 1;
  if (slices != c.type(2).numel())
    runtime_error("%s: Number of indices should be equal to source:size(dim), but got %lld indices and size %lld",
                  c.name(), static_cast<long long>(c.type(2).numel()), static_cast<long long>(slices));
  return {c.type(0)};
}

TypeInfos index_fill(TypeCall& c) {
  require_vector(c, 2);
  require_index(c, 2);
  c.dim(1, c.type(0).ndim());
  return {c.type(0)};
}

TypeInfos gather(TypeCall& c) {
  require_named(c);
  return of_self(c, c.type(2).sizes);
}

TypeInfos scatter(TypeCall& c) {
  require_named(c);
  if (c.is_tensor(3)) {
    require_source_type(c, 3);
    if (c.type(3).sizes != c.type(2).sizes)
      runtime_error("%s: the source of size %s must have the size of the index, %s", c.name(),
                    format_dims(c.sizes(3)).c_str(), format_dims(c.sizes(2)).c_str());
  }
  return {c.type(0)};
}

TypeInfos masked_select(TypeCall& c) {
  if (c.type(1).dtype != DType::Byte)
    type_error("%s: expected a mask of type Byte, but got %s", c.name(), info(c.type(1).dtype).name);
  paired_sizes(c.name(), c.sizes(0), c.sizes(1));
  return of_self(c, {kOpenSize});
}

TypeInfos masked_scatter(TypeCall& c) {
  if (c.type(1).dtype != DType::Byte)
    type_error("%s: expected a mask of type Byte, but got %s", c.name(), info(c.type(1).dtype).name);
  require_source_type(c, 2);
  if (!expands_to(c.sizes(1), c.sizes(0)) && c.sizes(0).product() != c.sizes(1).product())
    runtime_error("%s: a mask of size %s does not broadcast to the size of self, %s", c.name(),
                  format_dims(c.sizes(1)).c_str(), format_dims(c.sizes(0)).c_str());
  return {c.type(0)};
}

}  // namespace torchlite::types
