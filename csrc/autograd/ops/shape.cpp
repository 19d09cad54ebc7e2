// Rows that change sizes and strides, and those that put tensors together.
//
// The gradient of a view is a view of the gradient; where a part was taken, the gradient is that part among zeros
// (narrow_backward, select_backward). sum_to undoes a broadcast and is the gradient of expand, and the reverse.
#include <cstring>

#include "autograd/ops/op.h"
#include "autograd/ops/types.h"
#include "tensor/sum_to.h"
#include "tensor/views.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;

// ---- views --------------------------------------------------------------------------------------------------------

Outputs view_forward(Call& c) { return views::view(c.tensor(0), c.ints(1)); }
Outputs reshape_forward(Call& c) { return views::reshape(c.tensor(0), c.ints(1)); }
void reshape_backward(Backward& b) { b.set(0, call<"reshape">(b.grad(), b.sizes(0))); }

Outputs contiguous_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return self->contiguous ? alias(self) : clone(self);
}
void identity_backward(Backward& b) { b.set(0, b.grad()); }

Outputs transpose_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return views::transpose(self, c.dim(1, self->ndim), c.dim(2, self->ndim));
}
void transpose_backward(Backward& b) { b.set(0, call<"transpose">(b.grad(), b.integer(1), b.integer(2))); }

Outputs t_forward(Call& c) {
  Tensor* self = c.tensor(0);
  if (self->ndim != 2) runtime_error("t() expects a 2D tensor, but self is %dD", self->ndim);
  return views::transpose(self, 0, 1);
}
void t_backward(Backward& b) { b.set(0, call<"t">(b.grad())); }

Outputs permute_forward(Call& c) { return views::permute(c.tensor(0), c.ints(1)); }
void permute_backward(Backward& b) {
  Sizes dims = b.ints(1), inverse(dims.size());
  int n = static_cast<int>(dims.size());
  for (int d = 0; d < n; ++d) inverse[static_cast<size_t>(wrap_dim(dims[static_cast<size_t>(d)], n))] = d;
  b.set(0, call<"permute">(b.grad(), inverse));
}

Outputs expand_forward(Call& c) { return views::expand(c.tensor(0), c.ints(1)); }
void expand_backward(Backward& b) { b.set(0, call<"sum_to">(b.grad(), b.sizes(0))); }

Outputs sum_to_forward(Call& c) { return sum_to(c.tensor(0), c.ints(1)); }
void sum_to_backward(Backward& b) { b.set(0, call<"expand">(b.grad(), b.sizes(0))); }

Outputs squeeze_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return c.is_none(1) ? views::squeeze(self) : views::squeeze(self, c.dim(1, self->ndim));
}
Outputs unsqueeze_forward(Call& c) { return views::unsqueeze(c.tensor(0), c.integer(1)); }

Outputs flip_forward(Call& c) { return views::flip(c.tensor(0), c.ints(1)); }
void flip_backward(Backward& b) { b.set(0, call<"flip">(b.grad(), b.ints(1))); }

// ---- parts --------------------------------------------------------------------------------------------------------

Outputs narrow_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return views::narrow(self, c.dim(1, self->ndim), c.integer(2), c.integer(3));
}
void narrow_backward(Backward& b) {
  b.set(0, call<"narrow_backward">(b.grad(), b.sizes(0), b.integer(1), b.integer(2)));
}

Outputs narrow_backward_forward(Call& c) {
  Tensor* part = c.tensor(0);
  Sizes sizes = c.ints(1);
  PyRef<Tensor> whole = new_zeros(part->dtype, sizes, part->device());
  if (part->ndim == 0 || part->ndim != whole->ndim)
    runtime_error("%s: self of size %s is no part of a tensor of size %s", c.name(), format_dims(part->sizes()).c_str(),
                  format_dims(sizes).c_str());
  int dim = wrap_dim(c.integer(2), whole->ndim);
  copy_into(views::narrow(whole.get(), dim, c.integer(3), part->size(dim)).get(), part);
  return whole;
}
void narrow_backward_backward(Backward& b) {
  Sizes part = b.sizes(0);
  int dim = wrap_dim(b.integer(2), static_cast<int>(part.size()));
  b.set(0, call<"narrow">(b.grad(), dim, b.integer(3), part[static_cast<size_t>(dim)]));
}

Outputs select_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return views::select(self, c.dim(1, self->ndim), c.integer(2));
}
void select_backward(Backward& b) {
  b.set(0, call<"select_backward">(b.grad(), b.sizes(0), b.integer(1), b.integer(2)));
}

Outputs select_backward_forward(Call& c) {
  Tensor* part = c.tensor(0);
  PyRef<Tensor> whole = new_zeros(part->dtype, c.ints(1), part->device());
  copy_into(views::select(whole.get(), wrap_dim(c.integer(2), whole->ndim), c.integer(3)).get(), part);
  return whole;
}
void select_backward_backward(Backward& b) { b.set(0, call<"select">(b.grad(), b.integer(2), b.integer(3))); }

Outputs unfold_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return views::unfold(self, c.dim(1, self->ndim), c.integer(2), c.integer(3));
}
void unfold_backward(Backward& b) {
  b.set(0, call<"unfold_backward">(b.grad(), b.sizes(0), b.integer(1), b.integer(2), b.integer(3)));
}

// Windows may overlap, but their elements at one position within them do not: each position is one strided addition.
Outputs unfold_backward_forward(Call& c) {
  static PyObject* add = numpy_function("add");
  Tensor* windows = c.tensor(0);
  DType dtype = windows->dtype == DType::Half ? DType::Float : windows->dtype;
  PyRef<Tensor> whole = new_zeros(dtype, c.ints(1));
  int64_t size = c.integer(3), step = c.integer(4);
  int dim = wrap_dim(c.integer(2), whole->ndim), last = windows->ndim - 1;
  for (int64_t j = 0; j < size; ++j) {
    PyRef<Tensor> positions = views::narrow(whole.get(), dim, j, whole->size(dim) - size + 1);
    positions = views::unfold(positions.get(), dim, 1, step);
    PyRef<Tensor> part = views::narrow(windows, last, j, 1);
    PyRef<> args =
        check(Py_BuildValue("(OOO)", numpy_view(positions.get()), numpy_view(part.get()), numpy_view(positions.get())));
    check(PyObject_CallObject(add, args.get()));
  }
  return to_dtype(whole.get(), windows->dtype);
}
void unfold_backward_backward(Backward& b) {
  b.set(0, call<"unfold">(b.grad(), b.integer(2), b.integer(3), b.integer(4)));
}

// ---- copies -------------------------------------------------------------------------------------------------------

Outputs repeat_forward(Call& c) {
  Tensor* self = c.tensor(0);
  Sizes times = c.ints(1);
  int n = static_cast<int>(times.size()), added = n - self->ndim;
  if (added < 0)
    runtime_error(
        "repeat: Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
        "got %s for a tensor of size %s",
        format_dims(times).c_str(), format_dims(self->sizes()).c_str());
  // Each dimension is split into (repeat, size): a view of stride 0 over the source, which the copy fills.
  Sizes sizes, split_sizes, split_strides;
  for (int d = 0; d < n; ++d) {
    int64_t count = times[static_cast<size_t>(d)], size = d < added ? 1 : self->size(d - added);
    if (count < 0)
      runtime_error("repeat: got the negative count %lld at position %d", static_cast<long long>(count), d);
    int64_t total;
    if (__builtin_mul_overflow(count, size, &total))
      runtime_error("repeat: %lld times the size %lld is too large", static_cast<long long>(count),
                    static_cast<long long>(size));
    sizes.push_back(total);
    if (count != 1) {
      split_sizes.push_back(count);
      split_strides.push_back(0);
    }
    split_sizes.push_back(size);
    split_strides.push_back(d < added ? 0 : self->stride(d - added));
  }
  PyRef<Tensor> out = new_tensor(self->dtype, sizes, self->device());
  if (!out->numel) return out;
  PyRef<Tensor> source = new_view(self, split_sizes, split_strides, self->offset);
  copy_into(views::view(out.get(), split_sizes).get(), source.get());
  return out;
}
void repeat_backward(Backward& b) {
  Sizes times = b.ints(1), sizes = b.sizes(0);
  size_t added = times.size() - sizes.size();
  Sizes split, summed;
  for (size_t d = 0; d < times.size(); ++d) {
    split.push_back(times[d]);
    summed.push_back(1);
    split.push_back(d < added ? 1 : sizes[d - added]);
    summed.push_back(split.back());
  }
  b.set(0, call<"reshape">(call<"sum_to">(call<"reshape">(b.grad(), split), summed), sizes));
}

// The element type that holds those of all tensors.
DType common_dtype(const std::vector<Tensor*>& tensors) {
  DType dtype = tensors[0]->dtype;
  for (Tensor* t : tensors) {
    if (t->dtype == dtype) continue;
    bool floating = is_floating(dtype) || is_floating(t->dtype);
    if (floating && !is_floating(dtype)) dtype = t->dtype;
    else if (is_floating(t->dtype) == is_floating(dtype) && t->dtype > dtype) dtype = t->dtype;
  }
  return dtype;
}

Outputs cat_forward(Call& c) {
  std::vector<Tensor*> tensors = c.tensors(0);
  if (tensors.empty()) runtime_error("cat: seq can't be empty");
  // A 1-d tensor without elements joins anything and adds nothing, as in the era.
  Tensor* first = nullptr;
  for (Tensor* t : tensors)
    if (!first || (first->ndim == 1 && first->numel == 0)) first = t;
  auto skipped = [&](Tensor* t) { return t->numel == 0 && t->ndim == 1 && first->ndim != 1; };
  if (first->ndim == 0) runtime_error("cat: a 0-d tensor cannot be concatenated; use stack");
  int dim = c.dim(1, first->ndim);
  Sizes sizes(first->sizes().begin(), first->sizes().end());
  sizes[static_cast<size_t>(dim)] = 0;
  for (size_t k = 0; k < tensors.size(); ++k) {
    Tensor* t = tensors[k];
    if (skipped(t)) continue;
    bool same = t->ndim == first->ndim;
    for (int d = 0; same && d < t->ndim; ++d) same = d == dim || t->size(d) == first->size(d);
    if (!same)
      runtime_error(
          "cat: inconsistent tensor sizes: tensor %d has size %s, but tensor 0 has size %s; they may differ "
          "only at dimension %d",
          static_cast<int>(k), format_dims(t->sizes()).c_str(), format_dims(first->sizes()).c_str(), dim);
    sizes[static_cast<size_t>(dim)] += t->size(dim);
  }
  PyRef<Tensor> out = new_tensor(common_dtype(tensors), sizes);
  int64_t outer = 1, inner = itemsize(out->dtype);
  for (int d = 0; d < dim; ++d) outer *= sizes[static_cast<size_t>(d)];
  for (int d = dim + 1; d < first->ndim; ++d) inner *= sizes[static_cast<size_t>(d)];
  int64_t row = inner * sizes[static_cast<size_t>(dim)];
  int64_t at = 0;
  for (Tensor* t : tensors) {
    if (skipped(t) || t->numel == 0) continue;
    if (t->contiguous && t->dtype == out->dtype) {
      auto bytes = static_cast<size_t>(inner * t->size(dim));
      for (int64_t i = 0; i < outer; ++i)
        std::memcpy(out->bytes() + i * row + at * inner, t->bytes() + i * static_cast<int64_t>(bytes), bytes);
    } else {
      copy_into(views::narrow(out.get(), dim, at, t->size(dim)).get(), t);
    }
    at += t->size(dim);
  }
  return out;
}
void cat_backward(Backward& b) {
  Value g = b.grad();
  int n = g.sizes().n;
  int dim = wrap_dim(b.integer(1), n);
  int64_t at = 0;
  for (int k = 0; k < b.list_size(0); ++k) {
    Sizes sizes = b.element_sizes(0, k);
    bool skipped = static_cast<int>(sizes.size()) != n;
    int64_t size = skipped ? 0 : sizes[static_cast<size_t>(dim)];
    if (b.needs_element(0, k)) {
      Value part = call<"narrow">(g, dim, at, size);
      b.set_element(0, k, skipped ? call<"reshape">(part, sizes) : std::move(part));
    }
    at += size;
  }
}

Outputs stack_forward(Call& c) {
  std::vector<Tensor*> tensors = c.tensors(0);
  if (tensors.empty()) value_error("stack expects a non-empty sequence of tensors");
  Tensor* first = tensors[0];
  int dim = wrap_dim(c.integer(1), first->ndim + 1);
  Sizes sizes(first->sizes().begin(), first->sizes().end());
  sizes.insert(sizes.begin() + dim, static_cast<int64_t>(tensors.size()));
  PyRef<Tensor> out = new_tensor(common_dtype(tensors), sizes);
  for (size_t k = 0; k < tensors.size(); ++k) {
    Tensor* t = tensors[k];
    if (!(t->sizes() == first->sizes()))
      runtime_error("stack: inconsistent tensor sizes: tensor %d has size %s, but tensor 0 has size %s",
                    static_cast<int>(k), format_dims(t->sizes()).c_str(), format_dims(first->sizes()).c_str());
    if (t->numel) copy_into(views::select(out.get(), dim, static_cast<int64_t>(k)).get(), t);
  }
  return out;
}
void stack_backward(Backward& b) {
  Value g = b.grad();
  int dim = wrap_dim(b.integer(1), g.sizes().n);
  for (int k = 0; k < b.list_size(0); ++k)
    if (b.needs_element(0, k)) {
      Value part = call<"select">(g, dim, k);
      Sizes sizes = b.element_sizes(0, k);
      b.set_element(0, k, sizes.empty() ? call<"reshape">(part, sizes) : std::move(part));
    }
}

// ---- matrices -----------------------------------------------------------------------------------------------------

// A copy of `self` without the elements whose column less row lies outside [low, high].
PyRef<Tensor> band(Tensor* self, const char* name, int64_t low, int64_t high) {
  if (self->ndim != 2) runtime_error("%s: expected a matrix, but self is %dD", name, self->ndim);
  PyRef<Tensor> out = clone(self);
  int64_t rows = self->size(0), columns = self->size(1), item = itemsize(self->dtype);
  for (int64_t i = 0; i < rows; ++i) {
    char* row = out->bytes() + i * columns * item;
    int64_t begin = std::clamp<int64_t>(i + low, 0, columns), end = std::clamp<int64_t>(i + high + 1, begin, columns);
    std::memset(row, 0, static_cast<size_t>(begin * item));
    std::memset(row + end * item, 0, static_cast<size_t>((columns - end) * item));
  }
  return out;
}
constexpr int64_t kFar = int64_t{1} << 40;

// k beyond any size means all or nothing; clamped so that sums with it do not overflow.
int64_t diagonal_number(Call& c, int i) { return std::clamp(c.integer(i), -kFar, kFar); }

Outputs tril_forward(Call& c) { return band(c.tensor(0), "tril", -2 * kFar, diagonal_number(c, 1)); }
void tril_backward(Backward& b) { b.set(0, call<"tril">(b.grad(), b.integer(1))); }
Outputs triu_forward(Call& c) { return band(c.tensor(0), "triu", diagonal_number(c, 1), 2 * kFar); }
void triu_backward(Backward& b) { b.set(0, call<"triu">(b.grad(), b.integer(1))); }

Outputs diag_forward(Call& c) {
  Tensor* self = c.tensor(0);
  int64_t k = diagonal_number(c, 1);
  if (self->ndim != 1) return clone(views::diagonal(self, k).get());
  int64_t n = self->numel + (k < 0 ? -k : k);
  int64_t sizes[] = {n, n};
  PyRef<Tensor> out = new_zeros(self->dtype, {sizes, 2}, self->device());
  copy_into(views::diagonal(out.get(), k).get(), self);
  return out;
}
void diag_backward(Backward& b) {
  Sizes sizes = b.sizes(0);
  if (sizes.size() == 1) b.set(0, call<"diag">(b.grad(), b.integer(1)));
  else b.set(0, call<"diag_backward">(b.grad(), sizes, b.integer(1)));
}

Outputs diag_backward_forward(Call& c) {
  PyRef<Tensor> whole = new_zeros(c.tensor(0)->dtype, c.ints(1), c.tensor(0)->device());
  copy_into(views::diagonal(whole.get(), diagonal_number(c, 2)).get(), c.tensor(0));
  return whole;
}
void diag_backward_backward(Backward& b) { b.set(0, call<"diag">(b.grad(), b.integer(2))); }

Outputs trace_forward(Call& c) {
  Tensor* self = c.tensor(0);
  if (self->ndim != 2) runtime_error("trace: expected a matrix, but self is %dD", self->ndim);
  int64_t one = 1;
  return sum_to(views::diagonal(self, 0).get(), {&one, 1});
}
void trace_backward(Backward& b) {
  Sizes sizes = b.sizes(0);
  b.set(0, call<"diag_backward">(call<"expand">(b.grad(), Sizes{std::min(sizes[0], sizes[1])}), sizes, 0));
}

}  // namespace

std::span<const Row> shape_rows() {
  static const std::vector<Row> rows = {
      {"view(Tensor self, int... sizes)",
       "The same memory under other sizes, one of which may be -1. RuntimeError where only a copy could have them.",
       types::view,
       view_forward,
       reshape_backward,
       {},
       kView | kKeepSizes},
      {"reshape(Tensor self, int... sizes)",
       "The same elements, in order, under other sizes, one of which may be -1: a view where one exists, else a copy.",
       types::view,
       reshape_forward,
       reshape_backward,
       {},
       kView | kKeepSizes},
      {"contiguous(Tensor self)",
       "The elements row by row without gaps: the same memory if they lie so, else a copy.",
       types::same,
       contiguous_forward,
       identity_backward,
       {},
       kView},
      {"transpose(Tensor self, int dim0, int dim1)",
       "A view with two dimensions exchanged.",
       types::transpose,
       transpose_forward,
       transpose_backward,
       {in(1) | in(2)},
       kView},
      {"t(Tensor self)",
       "The transpose of a matrix, as a view.",
       types::matrix_transpose,
       t_forward,
       t_backward,
       {},
       kView},
      {"permute(Tensor self, int... dims)",
       "A view with the dimensions in the given order.",
       types::permute,
       permute_forward,
       permute_backward,
       {in(1)},
       kView},
      {"expand(Tensor self, int... sizes)",
       "A view in which dimensions of size 1 are stretched and new ones added on the left. -1 keeps a size.",
       types::expand,
       expand_forward,
       expand_backward,
       {},
       kView | kKeepSizes},
      {"sum_to(Tensor self, int... sizes)",
       "The sum over everything that expanding `sizes` to the size of self repeats.",
       types::sum_to,
       sum_to_forward,
       sum_to_backward,
       {},
       kKeepSizes | kHidden},
      {"squeeze(Tensor self, int? dim=None)",
       "A view without the dimensions of size 1 (or without `dim`, if its size is 1). One dimension always remains.",
       types::squeeze,
       squeeze_forward,
       reshape_backward,
       {},
       kView | kKeepSizes},
      {"unsqueeze(Tensor self, int dim)",
       "A view with a dimension of size 1 inserted at `dim`.",
       types::unsqueeze,
       unsqueeze_forward,
       reshape_backward,
       {},
       kView | kKeepSizes},
      {"flip(Tensor self, int... dims)",
       "A view with the elements along `dims` in reverse order.",
       types::flip,
       flip_forward,
       flip_backward,
       {in(1)},
       kView},

      {"narrow(Tensor self, int dim, int start, int length)",
       "A view of `length` slices along `dim`, from `start` on.",
       types::narrow,
       narrow_forward,
       narrow_backward,
       {in(1) | in(2)},
       kView | kKeepSizes},
      {"narrow_backward(Tensor self, ints sizes, int dim, int start)",
       "Zeros of `sizes` that hold self from `start` on.",
       types::given_sizes,
       narrow_backward_forward,
       narrow_backward_backward,
       {in(2) | in(3)},
       kKeepSizes | kHidden},
      {"select(Tensor self, int dim, int index)",
       "A view of one slice along `dim`, without that dimension; of size (1,) where self is 1-d.",
       types::select,
       select_forward,
       select_backward,
       {in(1) | in(2)},
       kView | kKeepSizes},
      {"select_backward(Tensor self, ints sizes, int dim, int index)",
       "Zeros of `sizes` that hold self at `index`.",
       types::given_sizes,
       select_backward_forward,
       select_backward_backward,
       {in(2) | in(3)},
       kHidden},

      {"unfold(Tensor self, int dim, int size, int step)",
       "A view of all windows of `size` along `dim`, `step` apart; a new last dimension runs within the windows.",
       types::unfold,
       unfold_forward,
       unfold_backward,
       {in(1) | in(2) | in(3)},
       kView | kKeepSizes},
      {"unfold_backward(Tensor self, ints sizes, int dim, int size, int step)",
       "Zeros of `sizes` with the windows of self added where unfold reads them.",
       types::given_sizes,
       unfold_backward_forward,
       unfold_backward_backward,
       {in(2) | in(3) | in(4)},
       kHidden},

      {"repeat(Tensor self, int... repeats)",
       "Copies of self side by side, `repeats` times along each dimension.",
       types::repeat,
       repeat_forward,
       repeat_backward,
       {in(1)},
       kKeepSizes},
      {.signature = "cat(Tensor[] tensors, int dim=0)",
       .doc = "Tensors joined along `dim`; their other sizes must agree.",
       .types = types::cat,
       .forward = cat_forward,
       .backward = cat_backward,
       .uses = {in(1)},
       .flags = kKeepSizes | kNoMethod,
       .display_name = "Concat"},
      {"stack(Tensor[] tensors, int dim=0)",
       "Tensors of one size joined along a new dimension `dim`.",
       types::stack,
       stack_forward,
       stack_backward,
       {in(1)},
       kKeepSizes | kNoMethod},

      {"tril(Tensor self, int k=0)",
       "A copy of a matrix with zeros above diagonal k.",
       types::matrix,
       tril_forward,
       tril_backward,
       {in(1)},
       kInPlace},
      {"triu(Tensor self, int k=0)",
       "A copy of a matrix with zeros below diagonal k.",
       types::matrix,
       triu_forward,
       triu_backward,
       {in(1)},
       kInPlace},
      {"diag(Tensor self, int k=0)",
       "Diagonal k of a matrix as a new vector, or the matrix with that diagonal.",
       types::diag,
       diag_forward,
       diag_backward,
       {in(1)},
       kKeepSizes},
      {"trace(Tensor self)",
       "The sum of the diagonal of a matrix.",
       types::trace,
       trace_forward,
       trace_backward,
       {},
       kKeepSizes | kReduceToNumber},
      {"diag_backward(Tensor self, ints sizes, int k)",
       "Zeros of `sizes` with self on diagonal k.",
       types::given_sizes,
       diag_backward_forward,
       diag_backward_backward,
       {in(2)},
       kHidden},
  };
  return rows;
}

}  // namespace torchlite
