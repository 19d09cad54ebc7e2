// Products and running products. Their gradients are products of the other elements, exact where elements are 0.
#include "autograd/ops/reduction.h"
#include "autograd/ops/types.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// dx[k] = g times the product of all x but x[k], along dimension `dim`; g has size 1 there.
Outputs prod_backward_forward(Call& c) {
  if (c.tensor(1)->ndim == 0) runtime_error("%s: a 0-d tensor has no dimension", c.name());
  int dim = c.dim(2, c.tensor(1)->ndim);
  PyRef<Tensor> x = loop_operand(c.tensor(1));
  std::vector<int64_t> line(x->sizes().begin(), x->sizes().end());
  line[static_cast<size_t>(dim)] = 1;
  PyRef<Tensor> g = loop_operand(c.tensor(0), x->dtype, line);
  PyRef<Tensor> y = new_like(x.get());
  int64_t outer = 1, n = x->size(dim), inner = 1;
  for (int d = 0; d < x->ndim; ++d)
    if (d != dim) (d < dim ? outer : inner) *= x->size(d);
  with_elements(y.get(), [&](auto* dx) {
    using T = std::remove_reference_t<decltype(*dx)>;
    const T *p = x->ptr<T>(), *gp = g->ptr<T>();
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        int64_t first = o * n * inner + i;
        T before = gp[o * inner + i], after = 1;
        for (int64_t k = 0; k < n; ++k) {
          dx[first + k * inner] = before;
          before *= p[first + k * inner];
        }
        for (int64_t k = n - 1; k >= 0; --k) {
          dx[first + k * inner] *= after;
          after *= p[first + k * inner];
        }
      }
    }
  });
  return c.tensor(1)->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
}

// Masks [n, n] beside x: of the diagonal, and of what lies below it.
Value diagonal_mask(const Value& x, int64_t n) {
  Value ones(new_full(DType::Byte, {&n, 1}, 1, x.tensor()->device()));
  return constant_beside(x, call<"diag">(ones).take<Tensor>());
}
Value below_diagonal(const Value& x, int64_t n) {
  const int64_t sizes[] = {n, n};
  Value ones(new_full(DType::Byte, {sizes, 2}, 1, x.tensor()->device()));
  return constant_beside(x, call<"tril">(ones, -1).take<Tensor>());
}

// x with `dim` last, in rows: result[..., i, j] = x[..., j], and 1 where i == j.
Value without_each(const Value& x, int dim) {
  Value last = call<"transpose">(x, dim, -1);
  std::vector<int64_t> sizes(last.sizes().begin(), last.sizes().end());
  int64_t n = sizes.back();
  sizes.push_back(n);
  Value square = call<"expand">(call<"unsqueeze">(last, -2), sizes);
  return call<"masked_fill">(square, diagonal_mask(x, n), 1);
}

// The sum over one dimension of a tensor with at least two.
Value sum_along(const Value& x, int dim) { return call<"sum">(x, dim, false); }

// Second derivatives pair every two elements, so they cost the square of the size.
void prod_backward_backward(Backward& b) {
  Value gg = b.grad(), g = b.value(0), x = b.value(1);
  int dim = wrap_dim(b.integer(2), x.sizes().n);
  if (b.needs(0)) {
    Value ones = constant_beside(x, new_full(g.dtype(), g.sizes(), 1, g.tensor()->device()));
    b.set(0, call<"sum">(gg * call<"prod_backward">(ones, x, dim), dim, true));
  }
  if (!b.needs(1)) return;
  int64_t n = x.sizes()[dim];
  Value weight = call<"unsqueeze">(call<"transpose">(gg * g, dim, -1), -1);
  Value pairs = call<"prod_backward">(weight, without_each(x, dim), -1);
  pairs = call<"masked_fill">(pairs, diagonal_mask(x, n), 0);
  b.set(1, call<"transpose">(sum_along(pairs, -2), dim, -1));
}

bool has_zero(const Value& x) {
  static NumpyFunction all("all");
  PyRef<> nonzero = call_numpy(all.get(), {numpy_view(x.tensor())});
  return !check(PyObject_IsTrue(nonzero.get()));
}

void cumprod_backward(Backward& b) {
  Value g = b.grad(), x = b.value(0);
  std::vector<int64_t> sizes = b.sizes(0);
  if (sizes.empty()) {
    b.set(0, g);
    return;
  }
  int dim = wrap_dim(b.integer(1), static_cast<int>(sizes.size()));
  if (!b.recording() && b.on_host() && !has_zero(x)) {  // a graph must not depend on the values
    b.set(0, call<"reverse_cumsum">(g * b.output(), dim) / x);
    return;
  }
  // [i, j]: the running product up to j without x[i], for j >= i.
  Value products = call<"cumprod">(without_each(x, dim), -1);
  int64_t n = sizes[static_cast<size_t>(dim)];
  products = call<"masked_fill">(products, below_diagonal(x, n), 0);
  Value rows = call<"unsqueeze">(call<"transpose">(g, dim, -1), -2);
  b.set(0, call<"transpose">(sum_along(products * rows, -1), dim, -1));
}

}  // namespace

std::span<const Row> product_rows() {
  static const std::vector<Row> rows = {
      {.signature = "prod(Tensor self, int? dim=None, bool keepdim=False)",
       .doc = "The product along a dimension or of all elements. Half accumulates in float, integers give LongTensors.",
       .types = types::sum,
       .forward = [](Call& c) -> Outputs {
         static PyObject* const reduce = ufunc_method("multiply", "reduce");
         Tensor* x = c.tensor(0);
         Reduction r(x->sizes(), c.args[1], c.boolean(2), c.name());
         if (r.full && x->contiguous && on_host(x) && is_loop_type(x->dtype) && x->numel < GilRelease::kAbove) {
           PyRef<Tensor> product = new_full(x->dtype, r.result, 1);
           with_elements(product.get(), [&](auto* q) {
             const auto* p = x->ptr<std::remove_reference_t<decltype(*q)>>();
             for (int64_t i = 0; i < x->numel; ++i) *q *= p[i];
           });
           return product;
         }
         PyRef<Tensor> y = numpy_reduce(reduce, x, r, accumulation_type(x->dtype));
         return x->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
       },
       .backward =
           [](Backward& b) {
             std::vector<int64_t> sizes = b.sizes(0);
             Value x = b.value(0), g = b.grad();
             if (b.is_none(1) || sizes.empty()) {
               Value flat = call<"reshape">(x, std::vector<int64_t>{Dims(sizes).product()});
               Value one = call<"reshape">(g, std::vector<int64_t>{1});
               b.set(0, call<"reshape">(call<"prod_backward">(one, flat, 0), sizes));
             } else {
               Reduction r(sizes, b.value(1).object(), false);
               b.set(0, call<"prod_backward">(to_kept(g, r), x, b.value(1)));
             }
           },
       .uses = {in(0) | in(1)},
       .flags = kReduceToNumber | kKeepSizes},
      {.signature = "prod_backward(Tensor grad, Tensor self, int dim)",
       .doc = "grad times the product of the other elements along dim, where grad has size 1.",
       .types = types::prod_backward,
       .forward = prod_backward_forward,
       .backward = prod_backward_backward,
       .uses = {in(0) | in(1) | in(2), in(0) | in(1) | in(2)},
       .flags = kHidden},
      {.signature = "cumprod(Tensor self, int dim)",
       .doc = "Running products along a dimension.",
       .types = types::running,
       .forward = [](Call& c) -> Outputs { return accumulate(c, "multiply", false); },
       .backward = cumprod_backward,
       .uses = {in(0) | in(1) | out()},
       .flags = kKeepSizes},
  };
  return rows;
}

}  // namespace torchlite
