// Rows that take elements of lines by their rank: sort, topk, kthvalue, median, mode. tensor/kernels/order.h says which
// element counts as larger, and which of equal ones is taken. Their gradients go back to the places of the elements.
#include "autograd/ops/reduction.h"
#include "autograd/ops/types.h"
#include "tensor/kernels/order.h"

namespace torchlite {

using kernels::Rank;
using kernels::Selection;

namespace {

template <class T>
void select_elements(const Tensor* x, const kernels::Lines& lines, const Selection& s, Tensor* values, Tensor* places) {
  const kernels::RankPlan plan = kernels::plan_ranks<T>(lines, s);
  alignas(64) char small[4096];
  PyRef<Tensor> large;
  if (plan.workspace > static_cast<int64_t>(sizeof(small))) large = new_tensor(DType::Byte, {&plan.workspace, 1});
  char* workspace = large ? large->bytes() : small;
  GilRelease unlocked(x->numel);
  kernels::select_by_rank(x->ptr<T>(), lines, s, plan, workspace, values->ptr<T>(), places->ptr<int64_t>());
}

// (values, places) of the elements selected along `axis`, in the size of x with their number there. A 0-d tensor is a
// line of one element.
Outputs select_along(Tensor* x, int axis, const Selection& s) {
  if (!on_host(x)) numpy_view(x);  // throws
  PyRef<Tensor> source = contiguous(x);
  kernels::Lines lines{1, 1, 1};
  std::vector<int64_t> sizes(x->sizes().begin(), x->sizes().end());
  for (int d = 0; d < x->ndim; ++d) (d < axis ? lines.outer : d == axis ? lines.n : lines.inner) *= x->size(d);
  const int64_t count = s.count(lines.n);
  if (x->ndim > 0) {
    sizes[static_cast<size_t>(axis)] = count;
  } else if (count == 0) {
    sizes = {0};
  }
  Outputs out{new_tensor(x->dtype, sizes), new_tensor(DType::Long, sizes)};
  auto select = [&](auto element) {
    select_elements<decltype(element)>(source.get(), lines, s, out.v[0].get(), out.v[1].get());
  };
  switch (x->dtype) {
    case DType::Byte: select(uint8_t{}); break;
    case DType::Char: select(int8_t{}); break;
    case DType::Short: select(int16_t{}); break;
    case DType::Int: select(int32_t{}); break;
    case DType::Long: select(int64_t{}); break;
    case DType::Half: select(kernels::Half{}); break;
    case DType::Float: select(float{}); break;
    case DType::Double: select(double{}); break;
  }
  return out;
}

// The same for one element of each line, in the size of a reduction.
Outputs select_one(Call& c, int dim, int axis, const Selection& s) {
  Tensor* x = c.tensor(0);
  Outputs out = select_along(x, axis, s);
  const int64_t one = 1;
  if (x->ndim == 0) {
    for (int k = 0; k < 2; ++k) out.v[k] = with_sizes(std::move(out.v[k]), {&one, 1});
  } else if (!c.boolean(dim + 1) && x->ndim > 1) {
    std::vector<int64_t> sizes(x->sizes().begin(), x->sizes().end());
    sizes.erase(sizes.begin() + axis);
    for (int k = 0; k < 2; ++k) out.v[k] = with_sizes(std::move(out.v[k]), sizes);
  }
  return out;
}

// ---- forwards -----------------------------------------------------------------------------------------------------

Outputs sort_forward(Call& c) {
  int axis = ranked_dim(c.name(), c.tensor(0)->sizes(), c.args[1]);
  return select_along(c.tensor(0), axis, {.rank = Rank::Sorted, .descending = c.boolean(2)});
}

Outputs topk_forward(Call& c) {
  int64_t k = c.integer(1);
  int axis = ranked_dim(c.name(), c.tensor(0)->sizes(), c.args[2], k, 0);
  return select_along(c.tensor(0), axis,
                      {.rank = Rank::Best, .k = k, .descending = c.boolean(3), .ordered = c.boolean(4)});
}

Outputs kthvalue_forward(Call& c) {
  int64_t k = c.integer(1);
  int axis = ranked_dim(c.name(), c.tensor(0)->sizes(), c.args[2], k, 1);
  return select_one(c, 2, axis, {.rank = Rank::Kth, .k = k - 1});
}

Outputs mode_forward(Call& c) {
  int axis = ranked_dim(c.name(), c.tensor(0)->sizes(), c.args[1]);
  require_line(c.name(), c.tensor(0)->sizes(), axis);
  return select_one(c, 1, axis, {.rank = Rank::Frequent});
}

// The hidden result is the places again, which the caller cannot write to; of a full median it is the position in the
// flattened tensor.
Outputs median_forward(Call& c) {
  Tensor* x = c.tensor(0);
  if (!c.is_none(1)) {
    int axis = ranked_dim(c.name(), x->sizes(), c.args[1]);
    require_line(c.name(), x->sizes(), axis);
    Outputs out = select_one(c, 1, axis, {.rank = Rank::Median});
    out.v[2] = clone(out.v[1].get());
    return out;
  }
  require_line(c.name(), x->sizes(), -1);
  const int64_t n = x->numel;
  PyRef<Tensor> flat = with_sizes(PyRef<Tensor>::borrow(x), {&n, 1});
  Outputs out = select_along(flat.get(), 0, {.rank = Rank::Median});
  if (c.boolean(2) && x->ndim > 1) {
    std::vector<int64_t> ones(x->ndim, 1);
    out.v[0] = with_sizes(std::move(out.v[0]), ones);
  }
  out.v[2] = std::move(out.v[1]);
  return out;
}

// ---- gradients ----------------------------------------------------------------------------------------------------

// For (self, ...) with argument `dim`: zeros with the gradient's elements at the places of the second result.
void lines_backward(Backward& b, int dim) {
  std::vector<int64_t> sizes = b.sizes(0), line = sizes.empty() ? std::vector<int64_t>{1} : sizes;
  Value g = b.grad(), places = b.output(1);
  if (sizes.empty()) {
    g = call<"reshape">(g, std::vector<int64_t>{g.sizes().product()});
    places = call<"reshape">(places, std::vector<int64_t>{places.sizes().product()});
  }
  int64_t axis = b.is_none(dim) ? -1 : b.integer(dim);
  Value put = call<"scatter_add">(call<"zeros_of">(b.grad(), line), axis, places, g);
  b.set(0, sizes.empty() ? call<"reshape">(put, sizes) : put);
}

// The same for one element of each line, whose dimension may be gone.
void one_backward(Backward& b, int dim, const Value& places) {
  std::vector<int64_t> sizes = b.sizes(0);
  if (sizes.empty()) {
    b.set(0, call<"reshape">(b.grad(), sizes));
    return;
  }
  int ndim = static_cast<int>(sizes.size()), axis = b.is_none(dim) ? ndim - 1 : wrap_dim(b.integer(dim), ndim);
  std::vector<int64_t> kept = sizes;
  int64_t n = std::exchange(kept[static_cast<size_t>(axis)], 1);
  b.set(0, call<"put_along">(call<"reshape">(b.grad(), kept), call<"reshape">(places, kept), axis, n));
}

void median_backward(Backward& b) {
  if (!b.is_none(1)) return one_backward(b, 1, b.output(2));
  std::vector<int64_t> sizes = b.sizes(0), one{1};
  Value flat = call<"put_along">(call<"reshape">(b.grad(), one), b.output(2), 0, Dims(sizes).product());
  b.set(0, call<"reshape">(flat, sizes));
}

}  // namespace

int ranked_dim(const char* name, Dims sizes, PyObject* dim) {
  return wrap_dim(dim == Py_None ? -1 : constant_to_int(dim), sizes.n, name);
}

int ranked_dim(const char* name, Dims sizes, PyObject* dim, int64_t k, int64_t least) {
  int axis = ranked_dim(name, sizes, dim);
  int64_t n = sizes.n ? sizes[axis] : 1;
  if (k < least || k > n)
    runtime_error("%s: k must be between %lld and the size %lld of dimension %d, but got %lld", name,
                  static_cast<long long>(least), static_cast<long long>(n), axis, static_cast<long long>(k));
  return axis;
}

void require_line(const char* name, Dims sizes, int axis) {
  if (axis < 0 && sizes.product() == 0) runtime_error("%s: the tensor has no elements", name);
  if (axis >= 0 && sizes.n && sizes[axis] == 0)
    runtime_error("%s: dimension %d of a tensor of size %s has no elements", name, axis, format_dims(sizes).c_str());
}

std::span<const Row> order_rows() {
  static const std::vector<Row> rows = {
      {.signature = "sort(Tensor self, int? dim=None, bool descending=False)",
       .doc = "(values, indices): the elements sorted along `dim` (the last one by default) and, a LongTensor, where "
              "each was. Equal elements keep their order; NaN is larger than every number.",
       .types = types::sort,
       .forward = sort_forward,
       .backward = [](Backward& b) { lines_backward(b, 1); },
       .uses = {in(1) | out(1)},
       .flags = kKeepSizes,
       .outputs = 2,
       .non_differentiable = 2},
      {.signature = "topk(Tensor self, int k, int? dim=None, bool largest=True, bool sorted=True)",
       .doc = "(values, indices): the `k` largest (or smallest) elements along `dim` (the last one by default) and, a "
              "LongTensor, their places. They come best first if `sorted`, else in the order of their places; of equal "
              "elements the first are taken; NaN is larger than every number. RuntimeError if there are fewer than "
              "`k`.",
       .types = types::topk,
       .forward = topk_forward,
       .backward = [](Backward& b) { lines_backward(b, 2); },
       .uses = {in(2) | out(1)},
       .flags = kKeepSizes,
       .outputs = 2,
       .non_differentiable = 2},
      {.signature = "kthvalue(Tensor self, int k, int? dim=None, bool keepdim=False)",
       .doc = "(values, indices): the `k`-th smallest element (from 1) along `dim` (the last one by default) and, a "
              "LongTensor, its place, the first one of equal elements. NaN is larger than every number. RuntimeError "
              "if there are fewer than `k`.",
       .types = types::kthvalue,
       .forward = kthvalue_forward,
       .backward = [](Backward& b) { one_backward(b, 2, b.output(1)); },
       .uses = {in(2) | out(1)},
       .flags = kKeepSizes,
       .outputs = 2,
       .non_differentiable = 2},
      {.signature = "median(Tensor self, int? dim=None, bool keepdim=False)",
       .doc = "The median of all elements; with `dim`, (values, indices): the medians along it and, a LongTensor, "
              "their places. Of an even number of elements it is the lower of the two in the middle. The first of "
              "equal elements is taken and gets the gradient; where there is a NaN, it is the median.",
       .types = types::median,
       .forward = median_forward,
       .backward = median_backward,
       .uses = {in(1) | out(2)},
       .flags = kReduceToNumber | kKeepSizes,
       .outputs = 2,
       .hidden_outputs = 1,
       .non_differentiable = 2},
      {.signature = "mode(Tensor self, int? dim=None, bool keepdim=False)",
       .doc = "(values, indices): the most frequent element along `dim` (the last one by default), the smallest of "
              "several, and, a LongTensor, its last place.",
       .types = types::mode,
       .forward = mode_forward,
       .backward = [](Backward& b) { one_backward(b, 1, b.output(1)); },
       .uses = {in(1) | out(1)},
       .flags = kKeepSizes,
       .outputs = 2,
       .non_differentiable = 2},
  };
  return rows;
}

}  // namespace torchlite
