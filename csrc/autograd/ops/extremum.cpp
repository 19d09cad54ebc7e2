// The largest and smallest elements and where they are, and truth over a tensor.
#include "autograd/ops/reduction.h"
#include "autograd/ops/types.h"
#include "utils/numpy_api.h"

namespace torchlite {

using kernels::BinaryKind;

namespace {

void require_elements(const char* name, const Tensor* x, const Reduction& r) {
  if (x->numel == 0 && r.count == 0)
    runtime_error("%s: cannot reduce a tensor of size %s over dimensions without elements", name,
                  format_dims(x->sizes()).c_str());
}

// The positions of the extremes in the size `r.result`; the first one at a tie; NaN is the most extreme.
PyRef<Tensor> arg_extremum(Tensor* x, const Reduction& r, bool largest) {
  int axis = 0;
  while (axis < x->ndim && !r.reduces(axis)) ++axis;
  bool flat = r.full || x->ndim == 0;
  const int64_t n = x->numel;
  PyRef<Tensor> source = flat ? with_sizes(PyRef<Tensor>::borrow(x), {&n, 1}) : PyRef<Tensor>::borrow(x);
  if (flat) axis = 0;
  PyRef<> array = PyRef<>::borrow(numpy_view(source.get()));  // held: NumPy lets other threads run
  auto* a = reinterpret_cast<PyArrayObject*>(array.get());
  PyRef<> found = check(largest ? PyArray_ArgMax(a, axis, nullptr) : PyArray_ArgMin(a, axis, nullptr));
  return with_sizes(tensor_from_result(std::move(found)), r.result);
}

// [outer, n, inner] around dimension `dim` of a size.
struct Along {
  int64_t outer = 1, n = 1, inner = 1;
  Along(Dims sizes, int dim) {
    for (int d = 0; d < sizes.n; ++d) (d < dim ? outer : d == dim ? n : inner) *= sizes[d];
  }
};

// y[o, 0, i] = x[o, index[o, 0, i], i], or the other way round.
void move_along(char* x, const int64_t* index, char* y, const Along& a, int64_t item, bool put) {
  for (int64_t o = 0; o < a.outer; ++o) {
    for (int64_t i = 0; i < a.inner; ++i) {
      int64_t k = o * a.inner + i;
      char* element = x + ((o * a.n + index[k]) * a.inner + i) * item;
      if (put) {
        std::memcpy(element, y + k * item, static_cast<size_t>(item));
      } else {
        std::memcpy(y + k * item, element, static_cast<size_t>(item));
      }
    }
  }
}

// Throws unless `index` holds positions along dimension `dim` of a tensor of `sizes`, one for each line.
void require_positions(const char* name, Dims sizes, Tensor* index, int dim) {
  bool fits = index->dtype == DType::Long && index->ndim == sizes.n && sizes.n > 0;
  for (int d = 0; fits && d < sizes.n; ++d) fits = index->size(d) == (d == dim ? 1 : sizes[d]);
  if (!fits)
    runtime_error("%s: the index must be a LongTensor of size %s with 1 in dimension %d, but is a %s of size %s", name,
                  format_dims(sizes).c_str(), dim, type_name(index), format_dims(index->sizes()).c_str());
  PyRef<Tensor> flat = contiguous(index);
  const int64_t* p = flat->ptr<int64_t>();
  for (int64_t i = 0; i < flat->numel; ++i)
    if (p[i] < 0 || p[i] >= sizes[dim])
      index_error("%s: index %lld is out of range for dimension %d of size %lld", name, static_cast<long long>(p[i]),
                  dim, static_cast<long long>(sizes[dim]));
}

PyRef<Tensor> take_along(Tensor* x, Tensor* index, int dim) {
  PyRef<Tensor> source = contiguous(x), where = contiguous(index);
  PyRef<Tensor> y = new_tensor(x->dtype, index->sizes());
  move_along(source->bytes(), where->ptr<int64_t>(), y->bytes(), {x->sizes(), dim}, itemsize(x->dtype), false);
  return y;
}

inline constexpr int64_t kSmallReduction = 512;  // elements up to which a plain loop beats NumPy's call

// Of all elements, at least one.
PyRef<Tensor> small_extremum(Tensor* x, const Reduction& r, bool largest) {
  PyRef<Tensor> y = new_tensor(x->dtype, r.result);
  with_elements(y.get(), [&](auto* q) {
    const auto* p = x->ptr<std::remove_reference_t<decltype(*q)>>();
    auto best = p[0];
    for (int64_t i = 1; i < x->numel; ++i) {
      const bool beats = largest ? p[i] > best : p[i] < best;
      if (beats || p[i] != p[i]) best = p[i];  // nothing beats a NaN
    }
    *q = best;
  });
  return y;
}

// (values, indices) along a dimension; of everything, one value; of two tensors, elementwise.
Outputs extremum_forward(Call& c, bool largest) {
  static NumpyFunction maximum("maximum"), minimum("minimum");
  static PyObject* const reduce_max = ufunc_method("maximum", "reduce");
  static PyObject* const reduce_min = ufunc_method("minimum", "reduce");
  Tensor* x = c.tensor(0);
  if (c.is_tensor(1))
    return binary(c.name(), largest ? BinaryKind::Maximum : BinaryKind::Minimum, largest ? maximum : minimum, x,
                  c.args[1], nullptr);
  if (!c.is_none(1) && !PyIndex_Check(c.args[1]))
    type_error("%s: dim must be None, an int or a tensor, but got %.100s", c.name(), type_name(c.args[1]));
  Reduction r(x->sizes(), c.args[1], c.boolean(2), c.name());
  require_elements(c.name(), x, r);
  if (r.full && x->contiguous && on_host(x) && is_loop_type(x->dtype) && x->numel < kSmallReduction)
    return small_extremum(x, r, largest);
  if (r.full) return numpy_reduce(largest ? reduce_max : reduce_min, x, r, x->dtype);
  PyRef<Tensor> indices = arg_extremum(x, r, largest);
  if (x->ndim == 0) return {with_sizes(clone(x), r.result), std::move(indices)};
  PyRef<Tensor> at = with_sizes(indices.copy(), r.kept);
  PyRef<Tensor> values = take_along(x, at.get(), c.dim(1, x->ndim));
  return {with_sizes(std::move(values), r.result), std::move(indices)};
}

void extremum_backward(Backward& b, bool largest) {
  Value dim = b.value(1);
  if (!dim.is_constant()) {
    // Elementwise: as maximum and minimum.
    Value x = b.value(0), g = b.grad(), y = paired_with(g, dim), half = g * 0.5, tie = call<"eq">(x, y);
    Value wins = largest ? call<"gt">(x, y) : call<"lt">(x, y);
    if (b.needs(0)) b.set(0, select(tie, half, select(wins, g, 0)));
    if (b.needs(1)) b.set(1, select(tie, half, select(wins, 0, g)));
    return;
  }
  std::vector<int64_t> sizes = b.sizes(0);
  Reduction r(sizes, dim.object(), false);
  if (dim.is_none() || sizes.empty()) {
    Value at = largest ? call<"argmax">(b.value(0)) : call<"argmin">(b.value(0));
    Value flat = call<"put_along">(call<"reshape">(b.grad(), std::vector<int64_t>{1}), at, 0, Dims(sizes).product());
    b.set(0, call<"reshape">(flat, sizes));
  } else {
    int d = wrap_dim(b.integer(1), static_cast<int>(sizes.size()));
    Value at = to_kept(b.output(1), r);
    b.set(0, call<"put_along">(to_kept(b.grad(), r), at, d, sizes[static_cast<size_t>(d)]));
  }
}

Outputs arg_forward(Call& c, bool largest) {
  Reduction r(c.tensor(0)->sizes(), c.args[1], c.boolean(2), c.name());
  require_elements(c.name(), c.tensor(0), r);
  return arg_extremum(c.tensor(0), r, largest);
}

// Whether some element of a contiguous tensor on the host is nonzero (or zero).
bool has_element(const Tensor* x, bool nonzero) {
  auto among = [&](const auto* p, auto mask) {
    for (int64_t i = 0; i < x->numel; ++i)
      if (((p[i] & mask) != 0) == nonzero) return true;
    return false;
  };
  auto among_floats = [&](const auto* p) {
    for (int64_t i = 0; i < x->numel; ++i)
      if ((p[i] != 0) == nonzero) return true;
    return false;
  };
  switch (x->dtype) {
    case DType::Float: return among_floats(x->ptr<float>());
    case DType::Double: return among_floats(x->ptr<double>());
    case DType::Half: return among(x->ptr<uint16_t>(), uint16_t{0x7fff});  // but for the sign
    case DType::Byte:
    case DType::Char: return among(x->ptr<uint8_t>(), uint8_t{0xff});
    case DType::Short: return among(x->ptr<uint16_t>(), uint16_t{0xffff});
    case DType::Int: return among(x->ptr<uint32_t>(), ~uint32_t{0});
    default: return among(x->ptr<uint64_t>(), ~uint64_t{0});
  }
}

Outputs truth_forward(Call& c, PyObject* reduce, bool any) {
  Reduction r(c.tensor(0)->sizes(), c.args[1], c.boolean(2), c.name());
  if (r.full && c.tensor(0)->contiguous && on_host(c.tensor(0))) {
    PyRef<Tensor> y = new_tensor(DType::Byte, r.result);
    GilRelease unlocked(c.tensor(0)->numel);
    *y->ptr<uint8_t>() = has_element(c.tensor(0), any) == any;
    return y;
  }
  std::vector<int64_t> axes;
  for (int d = 0; d < c.tensor(0)->ndim; ++d)
    if (r.reduces(d)) axes.push_back(d);
  PyRef<> axis = int_tuple(axes);
  PyRef<> keywords = check(Py_BuildValue("{s:O}", "axis", axis.get()));
  PyRef<> result = call_numpy(reduce, {numpy_view(c.tensor(0))}, keywords.get());
  return to_dtype(with_sizes(tensor_from_result(std::move(result)), r.result).get(), DType::Byte);
}

}  // namespace

std::span<const Row> extremum_rows() {
  static const std::vector<Row> rows = {
      {.signature = "max(Tensor self, Tensor|Scalar? dim=None, bool keepdim=False)",
       .doc = "The largest element; with dim, (values, indices) along it; with a tensor, the elementwise maximum. The "
              "first of equal elements is taken and gets the gradient; NaN counts as largest.",
       .types = types::extremum,
       .forward = [](Call& c) -> Outputs { return extremum_forward(c, true); },
       .backward = [](Backward& b) { extremum_backward(b, true); },
       .uses = {in(0) | in(1) | out(1), in(0) | in(1)},
       .flags = kReduceToNumber | kKeepSizes,
       .outputs = 2,
       .non_differentiable = 2},
      {.signature = "min(Tensor self, Tensor|Scalar? dim=None, bool keepdim=False)",
       .doc = "The smallest element; with dim, (values, indices) along it; with a tensor, the elementwise minimum. The "
              "first of equal elements is taken and gets the gradient; NaN counts as smallest.",
       .types = types::extremum,
       .forward = [](Call& c) -> Outputs { return extremum_forward(c, false); },
       .backward = [](Backward& b) { extremum_backward(b, false); },
       .uses = {in(0) | in(1) | out(1), in(0) | in(1)},
       .flags = kReduceToNumber | kKeepSizes,
       .outputs = 2,
       .non_differentiable = 2},
      {.signature = "argmax(Tensor self, int? dim=None, bool keepdim=False)",
       .doc = "The position of the largest element, the first at a tie: along dim, or in the flattened tensor.",
       .types = types::arg_extremum,
       .forward = [](Call& c) -> Outputs { return arg_forward(c, true); },
       .flags = kReduceToNumber},
      {.signature = "argmin(Tensor self, int? dim=None, bool keepdim=False)",
       .doc = "The position of the smallest element, the first at a tie: along dim, or in the flattened tensor.",
       .types = types::arg_extremum,
       .forward = [](Call& c) -> Outputs { return arg_forward(c, false); },
       .flags = kReduceToNumber},
      {.signature = "take_along(Tensor self, Tensor index, int dim)",
       .doc = "The element at `index` of each line along dim; index has size 1 there.",
       .types = types::take_along,
       .forward = [](Call& c) -> Outputs {
         int dim = c.dim(2, c.tensor(0)->ndim);
         require_positions(c.name(), c.tensor(0)->sizes(), c.tensor(1), dim);
         return take_along(c.tensor(0), c.tensor(1), dim);
       },
       .backward =
           [](Backward& b) {
             int d = wrap_dim(b.integer(2), static_cast<int>(b.sizes(0).size()));
             b.set(0, call<"put_along">(b.grad(), b.value(1), d, b.sizes(0)[static_cast<size_t>(d)]));
           },
       .uses = {in(1) | in(2)},
       .flags = kHidden | kKeepSizes},
      {.signature = "put_along(Tensor self, Tensor index, int dim, int size)",
       .doc = "Zeros of `size` along dim with the elements of self at `index`: the gradient of take_along.",
       .types = types::put_along,
       .forward = [](Call& c) -> Outputs {
         Tensor* x = c.tensor(0);
         int dim = c.dim(2, x->ndim);
         std::vector<int64_t> sizes(x->sizes().begin(), x->sizes().end());
         if (sizes.empty() || sizes[static_cast<size_t>(dim)] != 1 || !(x->sizes() == c.tensor(1)->sizes()))
           runtime_error("%s: self of size %s must have the size of the index, %s, with 1 in dimension %d", c.name(),
                         format_dims(x->sizes()).c_str(), format_dims(c.tensor(1)->sizes()).c_str(), dim);
         sizes[static_cast<size_t>(dim)] = c.integer(3);
         require_positions(c.name(), sizes, c.tensor(1), dim);
         PyRef<Tensor> y = new_zeros(x->dtype, sizes), source = contiguous(x), index = contiguous(c.tensor(1));
         move_along(y->bytes(), index->ptr<int64_t>(), source->bytes(), {sizes, dim}, itemsize(x->dtype), true);
         return y;
       },
       .backward = [](Backward& b) { b.set(0, call<"take_along">(b.grad(), b.value(1), b.value(2))); },
       .uses = {in(1) | in(2)},
       .flags = kHidden},
      {.signature = "all(Tensor self, int? dim=None, bool keepdim=False)",
       .doc = "1 where every element is nonzero: a ByteTensor.",
       .types = types::truth,
       .forward = [](Call& c) -> Outputs {
         static PyObject* const reduce = ufunc_method("logical_and", "reduce");
         return truth_forward(c, reduce, false);
       },
       .flags = kReduceToNumber},
      {.signature = "any(Tensor self, int? dim=None, bool keepdim=False)",
       .doc = "1 where some element is nonzero: a ByteTensor.",
       .types = types::truth,
       .forward = [](Call& c) -> Outputs {
         static PyObject* const reduce = ufunc_method("logical_or", "reduce");
         return truth_forward(c, reduce, true);
       },
       .flags = kReduceToNumber},
  };
  return rows;
}

}  // namespace torchlite
