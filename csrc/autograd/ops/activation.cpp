// Activations and their fused backward operations.
#include "autograd/ops/elementwise.h"
#include "autograd/ops/types.h"

namespace torchlite {

using kernels::UnaryKind;

namespace {

// f(x, y, n) over a floating tensor; half goes through float, integers come out as double.
template <class F>
PyRef<Tensor> map(Tensor* x, Tensor* out, F&& f) {
  PyRef<Tensor> operand = loop_operand(x);
  bool direct = out && out->dtype == operand->dtype && out->contiguous && !overlaps_partially(out, operand.get());
  if (direct) require_writable(out, "in-place activation");
  PyRef<Tensor> y = direct ? PyRef<Tensor>::borrow(out) : new_like(operand.get());
  {
    GilRelease unlocked(y->numel);
    with_elements(y.get(), [&](auto* q) { f(operand->ptr<std::remove_reference_t<decltype(*q)>>(), q, y->numel); });
  }
  return x->dtype == DType::Half ? to_dtype(y.get(), DType::Half) : std::move(y);
}

// f(g, x, dx, n) over two floating tensors that are broadcast together.
template <class F>
PyRef<Tensor> map_backward(Call& c, F&& f) {
  Tensor *g = c.tensor(0), *x = c.tensor(1);
  bool half = g->dtype == DType::Half && x->dtype == DType::Half;
  bool wide = g->dtype == DType::Double || x->dtype == DType::Double;
  DType type = wide ? DType::Double : DType::Float;
  PyRef<Tensor> a, b;
  if (g->sizes() == x->sizes()) {
    a = loop_operand(g, type, g->sizes());
    b = loop_operand(x, type, g->sizes());
  } else {
    std::vector<int64_t> sizes = broadcast_sizes(g->sizes(), x->sizes(), c.name());
    a = loop_operand(g, type, sizes);
    b = loop_operand(x, type, sizes);
  }
  PyRef<Tensor> y = new_like(a.get());
  {
    GilRelease unlocked(y->numel);
    with_elements(y.get(), [&](auto* q) {
      using T = std::remove_reference_t<decltype(*q)>;
      f(a->ptr<T>(), b->ptr<T>(), q, y->numel);
    });
  }
  return half ? to_dtype(y.get(), DType::Half) : std::move(y);
}

template <UnaryKind Kind>
Outputs kernel_forward(Call& c) {
  return map(c.tensor(0), c.out, []<class T>(const T* x, T* y, int64_t n) { kernels::unary_kernel<T>(Kind)(x, y, n); });
}

Outputs relu_forward(Call& c) {
  static NumpyFunction maximum("maximum");
  Tensor* x = c.tensor(0);
  if (is_floating(x->dtype)) return kernel_forward<UnaryKind::Relu>(c);
  PyRef<> zero = check(PyLong_FromLong(0));
  return apply_ufunc(maximum, {x, zero.get()}, c.out);
}

}  // namespace

std::span<const Row> activation_rows() {
  static const std::vector<Row> rows = {
      {.signature = "tanh(Tensor self)",
       .doc = "The hyperbolic tangent.",
       .types = types::kernel_floating,
       .forward = kernel_forward<UnaryKind::Tanh>,
       .backward = [](Backward& b) { b.set(0, call<"tanh_backward">(b.grad(), b.output())); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "tanh_backward(Tensor grad, Tensor output)",
       .doc = "grad * (1 - output^2).",
       .types = types::gradient_map,
       .forward = [](Call& c) -> Outputs {
         return map_backward(
             c, []<class T>(const T* g, const T* y, T* dx, int64_t n) { kernels::tanh_backward(g, y, dx, n); });
       },
       .backward =
           [](Backward& b) {
             Value g = b.grad(), y = b.value(1);
             if (b.needs(0)) b.set(0, call<"tanh_backward">(g, y));
             if (b.needs(1)) b.set(1, g * b.value(0) * y * -2);
           },
       .uses = {in(1), in(0) | in(1)},
       .flags = kHidden},
      {.signature = "sigmoid(Tensor self)",
       .doc = "1 / (1 + exp(-self)).",
       .types = types::kernel_floating,
       .forward = kernel_forward<UnaryKind::Sigmoid>,
       .backward = [](Backward& b) { b.set(0, call<"sigmoid_backward">(b.grad(), b.output())); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "sigmoid_backward(Tensor grad, Tensor output)",
       .doc = "grad * output * (1 - output).",
       .types = types::gradient_map,
       .forward = [](Call& c) -> Outputs {
         return map_backward(
             c, []<class T>(const T* g, const T* y, T* dx, int64_t n) { kernels::sigmoid_backward(g, y, dx, n); });
       },
       .backward =
           [](Backward& b) {
             Value g = b.grad(), y = b.value(1);
             if (b.needs(0)) b.set(0, call<"sigmoid_backward">(g, y));
             if (b.needs(1)) b.set(1, g * b.value(0) * (Value(1) - y * 2));
           },
       .uses = {in(1), in(0) | in(1)},
       .flags = kHidden},
      {.signature = "relu(Tensor self)",
       .doc = "max(self, 0); the gradient at 0 is 0.",
       .types = types::same,
       .forward = relu_forward,
       .backward = [](Backward& b) { b.set(0, call<"relu_backward">(b.grad(), b.output())); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "relu_backward(Tensor grad, Tensor output)",
       .doc = "grad where output > 0, else 0.",
       .types = types::gradient_map,
       .forward = [](Call& c) -> Outputs {
         return map_backward(
             c, []<class T>(const T* g, const T* x, T* dx, int64_t n) { kernels::relu_backward(g, x, dx, n); });
       },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, call<"relu_backward">(b.grad(), b.value(1)));
             if (b.needs(1)) b.set(1, zeros_like(b.grad()));
           },
       .uses = {in(1), 0},
       .flags = kHidden},
      {.signature = "leaky_relu(Tensor self, Scalar negative_slope=0.01)",
       .doc = "self where positive, else negative_slope * self.",
       .types = types::kernel_floating,
       .forward = [](Call& c) -> Outputs {
         double slope = c.number(1);
         return map(c.tensor(0), c.out, [slope]<class T>(const T* x, T* y, int64_t n) {
           kernels::leaky_relu(x, static_cast<T>(slope), y, n);
         });
       },
       .backward = [](Backward& b) { b.set(0, call<"leaky_relu_backward">(b.grad(), b.value(0), b.value(1))); },
       .uses = {in(0) | in(1)},
       .flags = kInPlace},
      {.signature = "leaky_relu_backward(Tensor grad, Tensor self, Scalar negative_slope)",
       .doc = "grad where self > 0, else negative_slope * grad.",
       .types = types::gradient_map,
       .forward = [](Call& c) -> Outputs {
         double slope = c.number(2);
         return map_backward(c, [slope]<class T>(const T* g, const T* x, T* dx, int64_t n) {
           kernels::leaky_relu_backward(g, x, static_cast<T>(slope), dx, n);
         });
       },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, call<"leaky_relu_backward">(b.grad(), b.value(1), b.value(2)));
             if (b.needs(1)) b.set(1, zeros_like(b.grad()));
           },
       .uses = {in(1) | in(2), 0},
       .flags = kHidden},
      {.signature = "elu(Tensor self, Scalar alpha=1.0)",
       .doc = "self where positive, else alpha * (exp(self) - 1).",
       .types = types::kernel_floating,
       .forward = [](Call& c) -> Outputs {
         double alpha = c.number(1);
         return map(c.tensor(0), c.out,
                    [alpha]<class T>(const T* x, T* y, int64_t n) { kernels::elu(x, static_cast<T>(alpha), y, n); });
       },
       .backward = [](Backward& b) { b.set(0, call<"elu_backward">(b.grad(), b.value(0), b.value(1))); },
       .uses = {in(0) | in(1)},
       .flags = kInPlace},
      {.signature = "elu_backward(Tensor grad, Tensor self, Scalar alpha)",
       .doc = "grad where self > 0, else grad * alpha * exp(self).",
       .types = types::gradient_map,
       .forward = [](Call& c) -> Outputs {
         double alpha = c.number(2);
         return map_backward(c, [alpha]<class T>(const T* g, const T* x, T* dx, int64_t n) {
           kernels::elu_backward(g, x, static_cast<T>(alpha), dx, n);
         });
       },
       .backward =
           [](Backward& b) {
             Value g = b.grad(), x = b.value(1), alpha = b.value(2);
             if (b.needs(0)) b.set(0, call<"elu_backward">(g, x, alpha));
             if (b.needs(1)) {
               Value curve = call<"exp">(call<"clamp">(x, nullptr, 0)) * alpha;
               b.set(1, call<"masked_fill">(g * b.value(0) * curve, call<"gt">(x, 0), 0));
             }
           },
       .uses = {in(1) | in(2), in(0) | in(1) | in(2)},
       .flags = kHidden},
      {.signature = "softplus(Tensor self, Scalar beta=1, Scalar threshold=20)",
       .doc = "log(1 + exp(beta * self)) / beta; self itself where beta * self > threshold.",
       .types = types::kernel_floating,
       .forward = [](Call& c) -> Outputs {
         double beta = c.number(1), threshold = c.number(2);
         return map(c.tensor(0), c.out, [=]<class T>(const T* x, T* y, int64_t n) {
           kernels::softplus(x, static_cast<T>(beta), static_cast<T>(threshold), y, n);
         });
       },
       .backward =
           [](Backward& b) { b.set(0, call<"softplus_backward">(b.grad(), b.value(0), b.value(1), b.value(2))); },
       .uses = {in(0) | in(1) | in(2)}},
      {.signature = "softplus_backward(Tensor grad, Tensor self, Scalar beta, Scalar threshold)",
       .doc = "grad * sigmoid(beta * self); grad where beta * self > threshold.",
       .types = types::gradient_map,
       .forward = [](Call& c) -> Outputs {
         double beta = c.number(2), threshold = c.number(3);
         return map_backward(c, [=]<class T>(const T* g, const T* x, T* dx, int64_t n) {
           kernels::softplus_backward(g, x, static_cast<T>(beta), static_cast<T>(threshold), dx, n);
         });
       },
       .backward =
           [](Backward& b) {
             Value g = b.grad(), x = b.value(1), beta = b.value(2), threshold = b.value(3);
             if (b.needs(0)) b.set(0, call<"softplus_backward">(g, x, beta, threshold));
             if (b.needs(1)) {
               Value scaled = x * beta, s = call<"sigmoid">(scaled);
               Value slope = g * b.value(0) * (s * (Value(1) - s)) * beta;
               b.set(1, call<"masked_fill">(slope, call<"gt">(scaled, threshold), 0));
             }
           },
       .uses = {in(1) | in(2) | in(3), in(0) | in(1) | in(2) | in(3)},
       .flags = kHidden},
  };
  return rows;
}

}  // namespace torchlite
