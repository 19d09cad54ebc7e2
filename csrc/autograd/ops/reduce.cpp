// Reductions: sums, means, variances, norms, and running sums.
#include <algorithm>
#include <cmath>

#include "autograd/ops/reduction.h"
#include "autograd/ops/types.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/softmax.h"

namespace torchlite {

namespace {

// f(row, count) -> double over the rows of a reduction; half results are cast back, integers give double.
template <class F>
PyRef<Tensor> reduce_rows(Tensor* x, const Reduction& r, F&& f) {
  PyRef<Tensor> rows = reduction_rows(x, r);
  PyRef<Tensor> y = new_tensor(rows->dtype, r.result);
  {
    GilRelease unlocked(rows->numel);
    with_elements(y.get(), [&](auto* q) {
      using T = std::remove_reference_t<decltype(*q)>;
      const T* p = rows->ptr<T>();
      for (int64_t i = 0; i < y->numel; ++i) q[i] = static_cast<T>(f(p + i * r.count, r.count));
    });
  }
  return x->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
}

Reduction reduction_of(Call& c, int keepdim) { return {c.tensor(0)->sizes(), c.args[1], c.boolean(keepdim), c.name()}; }
// keepdim plays no part in a gradient: it is brought to the kept sizes.
Reduction reduction_of(Backward& b, int dim = 1) {
  std::vector<int64_t> sizes = b.sizes(0);
  return {sizes, b.value(dim).object(), false};
}

Outputs mean_forward(Call& c) {
  Reduction r = reduction_of(c, 2);
  Tensor* x = c.tensor(0);
  double n = static_cast<double>(r.count);
  // A half sum may overflow where the mean does not, so the division comes before the cast.
  PyRef<Tensor> wide = is_loop_type(x->dtype) ? PyRef<Tensor>::borrow(x)
                                              : to_dtype(x, x->dtype == DType::Half ? DType::Float : DType::Double);
  PyRef<Tensor> y = sum_over(wide.get(), r);
  with_elements(y.get(), [&](auto* q) {
    using T = std::remove_reference_t<decltype(*q)>;
    for (int64_t i = 0; i < y->numel; ++i) q[i] = static_cast<T>(q[i] / n);
  });
  return x->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
}

// ---- variance -------------------------------------------------------------------------------------------------------

// `dim` True or False in var(unbiased) is the era's full form.
struct VarianceArguments {
  PyRef<> dim;
  bool unbiased;
  VarianceArguments(PyObject* d, bool u) : dim(PyRef<>::borrow(PyBool_Check(d) ? Py_None : d)), unbiased(u) {
    if (PyBool_Check(d)) unbiased = d == Py_True;
  }
};

Outputs variance_forward(Call& c, bool root) {
  VarianceArguments a(c.args[1], c.boolean(2));
  Reduction r(c.tensor(0)->sizes(), a.dim.get(), c.boolean(3), c.name());
  return reduce_rows(c.tensor(0), r, [&](const auto* p, int64_t n) {
    double mean = kernels::sum(p, n) / static_cast<double>(n), squares = 0;
    for (int64_t i = 0; i < n; ++i) squares += (p[i] - mean) * (p[i] - mean);
    double variance = squares / static_cast<double>(std::max<int64_t>(n - a.unbiased, 0));
    return root ? std::sqrt(variance) : variance;
  });
}

// d var = 2 (x - mean) / (n - 1); `g` broadcasts against x.
Value variance_gradient(Backward& b, const Value& g) {
  VarianceArguments a(b.value(1).object(), b.boolean(2));
  std::vector<int64_t> sizes = b.sizes(0);
  Reduction r(sizes, a.dim.get(), false);
  Value x = b.value(0);
  Value mean = to_kept(call<"mean">(x, a.dim.copy(), false), r);
  return (x - mean) * (to_kept(g, r) * (2.0 / static_cast<double>(r.count - a.unbiased)));
}

// ---- norms ----------------------------------------------------------------------------------------------------------

template <class T>
double norm_of(const T* p, int64_t n, double power) {
  if (power == 2) return std::sqrt(kernels::sum_squares(p, n));
  double sum = 0;
  if (std::isinf(power)) {
    bool largest = power > 0;
    sum = largest ? 0 : INFINITY;
    for (int64_t i = 0; i < n; ++i) {
      double a = std::fabs(static_cast<double>(p[i]));
      if (std::isnan(a)) return a;
      if (largest ? a > sum : a < sum) sum = a;
    }
    return sum;
  }
  if (power == 0) {
    for (int64_t i = 0; i < n; ++i) sum += p[i] != 0;
    return sum;
  }
  if (power == 1) {
    for (int64_t i = 0; i < n; ++i) sum += std::fabs(static_cast<double>(p[i]));
    return sum;
  }
  for (int64_t i = 0; i < n; ++i) sum += std::pow(std::fabs(static_cast<double>(p[i])), power);
  return std::pow(sum, 1 / power);
}

// 1 in place of 0, so that a division by a norm of 0 gives the gradient 0.
Value nonzero(const Value& v) { return call<"masked_fill">(v, call<"eq">(v, 0), 1); }

// Gradient of the norm of x; g and norm broadcast against x. It is 0 at the zero vector; at a tie of the infinity norm
// the largest elements share it.
Value norm_gradient(const Value& g, const Value& x, const Value& norm, double p, const Reduction& r) {
  if (p == 0) return zeros_like(x);
  if (p == 1) return call<"sign">(x) * g;
  if (p == 2) return x * (g / nonzero(norm));
  Value sign = call<"sign">(x), size = call<"abs">(x);
  if (std::isinf(p)) {
    Value top = call<"cast">(call<"eq">(size, norm), static_cast<int>(x.dtype()));
    std::vector<int64_t> dims;
    for (size_t d = 0; d < r.kept.size(); ++d)
      if (r.reduces(static_cast<int>(d))) dims.push_back(static_cast<int64_t>(d));
    Value ties = dims.empty() ? top : to_kept(call<"sum">(top, dims, false), r);
    return sign * top * (g / ties);
  }
  return sign * (call<"pow">(nonzero(size) / nonzero(norm), p - 1) * g);
}

}  // namespace

std::span<const Row> sum_family_rows() {
  static const std::vector<Row> rows = {
      {.signature = "sum(Tensor self, any dim=None, bool keepdim=False)",
       .doc = "The sum over one, several or all dimensions. Half accumulates in float, integers give LongTensors.",
       .types = types::sum,
       .forward = [](Call& c) -> Outputs { return sum_over(c.tensor(0), reduction_of(c, 2)); },
       .backward = [](Backward& b) { b.set(0, to_input(b.grad(), reduction_of(b), b.sizes(0))); },
       .uses = {in(1)},
       .flags = kReduceToNumber | kKeepSizes},
      {.signature = "mean(Tensor self, any dim=None, bool keepdim=False)",
       .doc = "The mean over one, several or all dimensions.",
       .types = types::mean,
       .forward = mean_forward,
       .backward =
           [](Backward& b) {
             Reduction r = reduction_of(b);
             double n = static_cast<double>(r.count);
             Value g = b.grad();
             // Half ends at 65504: a larger count must not become infinite.
             g = g.dtype() == DType::Half && n > 1 ? g * (1 / n) : g / n;
             b.set(0, to_input(std::move(g), r, b.sizes(0)));
           },
       .uses = {in(1)},
       .flags = kReduceToNumber | kKeepSizes},
      {.signature = "var(Tensor self, any dim=None, bool unbiased=True, bool keepdim=False)",
       .doc = "The variance, divided by n - 1 if unbiased, else by n.",
       .types = types::variance,
       .forward = [](Call& c) -> Outputs { return variance_forward(c, false); },
       .backward = [](Backward& b) { b.set(0, variance_gradient(b, b.grad())); },
       .uses = {in(0) | in(1) | in(2)},
       .flags = kReduceToNumber | kKeepSizes},
      {.signature = "std(Tensor self, any dim=None, bool unbiased=True, bool keepdim=False)",
       .doc = "The standard deviation: the root of var. The gradient where it is 0 is 0.",
       .types = types::variance,
       .forward = [](Call& c) -> Outputs { return variance_forward(c, true); },
       .backward = [](Backward& b) { b.set(0, variance_gradient(b, b.grad() / (nonzero(b.output()) * 2))); },
       .uses = {in(0) | in(1) | in(2) | out()},
       .flags = kReduceToNumber | kKeepSizes},
      {.signature = "norm(Tensor self, Scalar p=2, any dim=None, bool keepdim=False)",
       .doc = "(sum |x|^p)^(1/p); the largest |x| for p = inf. The gradient at the zero vector is 0.",
       .types = types::norm,
       .forward = [](Call& c) -> Outputs {
         Reduction r(c.tensor(0)->sizes(), c.args[2], c.boolean(3), c.name());
         double p = c.number(1);
         return reduce_rows(c.tensor(0), r, [p](const auto* x, int64_t n) { return norm_of(x, n, p); });
       },
       .backward =
           [](Backward& b) {
             Reduction r = reduction_of(b, 2);
             b.set(0, norm_gradient(to_kept(b.grad(), r), b.value(0), to_kept(b.output(), r), b.number(1), r));
           },
       .uses = {in(0) | in(1) | in(2) | out()},
       .flags = kReduceToNumber | kKeepSizes},
      {.signature = "dist(Tensor self, Tensor other, Scalar p=2)",
       .doc = "The p-norm of self - other.",
       .types = types::dist,
       .forward = [](Call& c) -> Outputs {
         static NumpyFunction subtract("subtract");
         PyRef<Tensor> d = binary(c.name(), kernels::BinaryKind::Sub, subtract, c.args[0], c.args[1], nullptr);
         double p = c.number(2);
         Reduction r(d->sizes(), Py_None, false);
         return reduce_rows(d.get(), r, [p](const auto* x, int64_t n) { return norm_of(x, n, p); });
       },
       .backward =
           [](Backward& b) {
             Value x = b.value(0), y = b.value(1);
             Value d = x - paired_to(paired_sizes("dist", x.sizes(), y.sizes()), y);
             std::vector<int64_t> sizes(d.sizes().begin(), d.sizes().end());
             Reduction r(sizes, Py_None, false);
             Value g = norm_gradient(to_kept(b.grad(), r), d, to_kept(b.output(), r), b.number(2), r);
             if (b.needs(0)) b.set(0, g);
             if (b.needs(1)) b.set(1, -g);
           },
       .uses = {in(0) | in(1) | in(2) | out(), in(0) | in(1) | in(2) | out()},
       .flags = kReduceToNumber | kKeepSizes},
      {.signature = "logsumexp(Tensor self, any dim=None, bool keepdim=False)",
       .doc = "log(sum(exp(self))), without overflow.",
       .types = types::mean,
       .forward = [](Call& c) -> Outputs {
         Reduction r = reduction_of(c, 2);
         PyRef<Tensor> rows = reduction_rows(c.tensor(0), r);
         PyRef<Tensor> y = new_tensor(rows->dtype, r.result);
         {
           GilRelease unlocked(rows->numel);
           with_elements(y.get(), [&](auto* q) {
             using T = std::remove_reference_t<decltype(*q)>;
             kernels::logsumexp(rows->ptr<T>(), q, y->numel, r.count);
           });
         }
         return c.tensor(0)->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
       },
       .backward =
           [](Backward& b) {
             Reduction r = reduction_of(b);
             // Of a row of -inf nothing flows back, rather than NaN.
             Value total = to_kept(b.output(), r);
             total = call<"masked_fill">(total, call<"eq">(total, -INFINITY), 0);
             b.set(0, call<"exp">(b.value(0) - total) * to_kept(b.grad(), r));
           },
       .uses = {in(0) | in(1) | out()},
       .flags = kKeepSizes},
      {.signature = "cumsum(Tensor self, int dim)",
       .doc = "Running sums along a dimension.",
       .types = types::running,
       .forward = [](Call& c) -> Outputs { return accumulate(c, "add", false); },
       .backward = [](Backward& b) { b.set(0, call<"reverse_cumsum">(b.grad(), b.value(1))); },
       .uses = {in(1)}},
      {.signature = "reverse_cumsum(Tensor self, int dim)",
       .doc = "Running sums along a dimension, from its end.",
       .types = types::running,
       .forward = [](Call& c) -> Outputs { return accumulate(c, "add", true); },
       .backward = [](Backward& b) { b.set(0, call<"cumsum">(b.grad(), b.value(1))); },
       .uses = {in(1)},
       .flags = kHidden},
  };
  return rows;
}

std::span<const Row> reduce_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all;
    for (std::span<const Row> part : {sum_family_rows(), extremum_rows(), product_rows(), order_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

}  // namespace torchlite
