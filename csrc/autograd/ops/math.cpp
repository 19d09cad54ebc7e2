// Functions of one number.
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/types.h"

namespace torchlite {

using kernels::UnaryKind;

namespace {

// The NumPy ufunc `Name`.
template <OpName Name>
Outputs numpy_forward(Call& c) {
  static NumpyFunction f(Name.text);
  return apply_ufunc(f, {c.args[0]}, c.out);
}

// A loop, or the NumPy ufunc `Name`.
template <OpName Name, UnaryKind Kind>
Outputs loop_forward(Call& c) {
  static NumpyFunction f(Name.text);
  return unary(Kind, f, c.tensor(0), c.out);
}

// Rounding leaves integers as they are.
template <OpName Name>
Outputs rounding_forward(Call& c) {
  if (!is_floating(c.tensor(0)->dtype)) return c.out ? PyRef<Tensor>::borrow(c.out) : clone(c.tensor(0));
  return numpy_forward<Name>(c);
}

// Half away from zero, as C's round and unlike NumPy's.
Outputs round_forward(Call& c) {
  Tensor* x = c.tensor(0);
  if (!is_floating(x->dtype)) return c.out ? PyRef<Tensor>::borrow(c.out) : clone(x);
  PyRef<Tensor> operand = loop_operand(x);
  PyRef<Tensor> y = new_like(operand.get());
  {
    GilRelease unlocked(x->numel);
    with_elements(operand.get(), [&](auto* p) {
      auto* q = y->ptr<std::remove_reference_t<decltype(*p)>>();
      for (int64_t i = 0; i < y->numel; ++i) q[i] = std::round(p[i]);
    });
  }
  return to_dtype(y.get(), x->dtype);
}

// 1 / x in floating point, integers included.
Outputs reciprocal_forward(Call& c) {
  static NumpyFunction reciprocal("reciprocal"), divide("true_divide");
  if (is_floating(c.tensor(0)->dtype)) return unary(UnaryKind::Reciprocal, reciprocal, c.tensor(0), c.out);
  PyRef<> one = check(PyLong_FromLong(1));
  return apply_ufunc(divide, {one.get(), c.args[0]}, c.out);
}

Outputs rsqrt_forward(Call& c) {
  static NumpyFunction sqrt("sqrt"), reciprocal("reciprocal");
  Tensor* x = c.tensor(0);
  if (is_loop_type(x->dtype) && x->contiguous && on_host(x)) return unary(UnaryKind::Rsqrt, sqrt, x, c.out);
  PyRef<Tensor> root = apply_ufunc(sqrt, {x});
  return apply_ufunc(reciprocal, {root.get()}, c.out);
}

Outputs frac_forward(Call& c) {
  static NumpyFunction trunc("trunc"), subtract("subtract");
  PyRef<Tensor> whole = apply_ufunc(trunc, {c.args[0]});
  return apply_ufunc(subtract, {c.args[0], whole.get()}, c.out);
}

void zero_backward(Backward& b) { b.set(0, zeros_like(b.grad())); }
void identity_backward(Backward& b) { b.set(0, b.grad()); }

}  // namespace

std::span<const Row> math_rows() {
  static const std::vector<Row> rows = {
      {.signature = "neg(Tensor self)",
       .doc = "-self.",
       .types = types::same,
       .forward = loop_forward<"negative", UnaryKind::Neg>,
       .backward = [](Backward& b) { b.set(0, -b.grad()); },
       .flags = kInPlace,
       .display_name = "Negate"},
      {.signature = "abs(Tensor self)",
       .doc = "The absolute value; the gradient at 0 is 0.",
       .types = types::same,
       .forward = loop_forward<"absolute", UnaryKind::Abs>,
       .backward = [](Backward& b) { b.set(0, b.grad() * call<"sign">(b.value(0))); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "sign(Tensor self)",
       .doc = "-1, 0 or 1.",
       .types = types::same,
       .forward = loop_forward<"sign", UnaryKind::Sign>,
       .backward = zero_backward,
       .flags = kInPlace},
      {.signature = "exp(Tensor self)",
       .doc = "e to the power of self.",
       .types = types::ufunc_floating,
       .forward = loop_forward<"exp", UnaryKind::Exp>,
       .backward = [](Backward& b) { b.set(0, b.grad() * b.output()); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "expm1(Tensor self)",
       .doc = "exp(self) - 1, exact near 0.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"expm1">,
       .backward = [](Backward& b) { b.set(0, b.grad() * (b.output() + 1)); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "log(Tensor self)",
       .doc = "The natural logarithm.",
       .types = types::ufunc_floating,
       .forward = loop_forward<"log", UnaryKind::Log>,
       .backward = [](Backward& b) { b.set(0, b.grad() / b.value(0)); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "log1p(Tensor self)",
       .doc = "log(1 + self), exact near 0.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"log1p">,
       .backward = [](Backward& b) { b.set(0, b.grad() / (b.value(0) + 1)); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "sqrt(Tensor self)",
       .doc = "The square root.",
       .types = types::ufunc_floating,
       .forward = loop_forward<"sqrt", UnaryKind::Sqrt>,
       .backward = [](Backward& b) { b.set(0, b.grad() / (b.output() * 2)); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "rsqrt(Tensor self)",
       .doc = "1 / sqrt(self).",
       .types = types::ufunc_floating,
       .forward = rsqrt_forward,
       .backward = [](Backward& b) { b.set(0, b.grad() * call<"pow">(b.output(), 3) * -0.5); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "square(Tensor self)",
       .doc = "self * self.",
       .types = types::same,
       .forward = loop_forward<"square", UnaryKind::Square>,
       .backward = [](Backward& b) { b.set(0, b.grad() * b.value(0) * 2); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "reciprocal(Tensor self)",
       .doc = "1 / self.",
       .types = types::reciprocal,
       .forward = reciprocal_forward,
       .backward = [](Backward& b) { b.set(0, -(b.grad() * b.output() * b.output())); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "sin(Tensor self)",
       .doc = "The sine.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"sin">,
       .backward = [](Backward& b) { b.set(0, b.grad() * call<"cos">(b.value(0))); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "cos(Tensor self)",
       .doc = "The cosine.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"cos">,
       .backward = [](Backward& b) { b.set(0, -(b.grad() * call<"sin">(b.value(0)))); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "tan(Tensor self)",
       .doc = "The tangent.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"tan">,
       .backward = [](Backward& b) { b.set(0, b.grad() * (call<"square">(b.output()) + 1)); },
       .uses = {out()},
       .flags = kInPlace},
      {.signature = "asin(Tensor self)",
       .doc = "The inverse sine.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"arcsin">,
       .backward = [](Backward& b) { b.set(0, b.grad() * call<"rsqrt">(Value(1) - call<"square">(b.value(0)))); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "acos(Tensor self)",
       .doc = "The inverse cosine.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"arccos">,
       .backward = [](Backward& b) { b.set(0, -(b.grad() * call<"rsqrt">(Value(1) - call<"square">(b.value(0))))); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "atan(Tensor self)",
       .doc = "The inverse tangent.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"arctan">,
       .backward = [](Backward& b) { b.set(0, b.grad() / (call<"square">(b.value(0)) + 1)); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "sinh(Tensor self)",
       .doc = "The hyperbolic sine.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"sinh">,
       .backward = [](Backward& b) { b.set(0, b.grad() * call<"cosh">(b.value(0))); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "cosh(Tensor self)",
       .doc = "The hyperbolic cosine.",
       .types = types::ufunc_floating,
       .forward = numpy_forward<"cosh">,
       .backward = [](Backward& b) { b.set(0, b.grad() * call<"sinh">(b.value(0))); },
       .uses = {in(0)},
       .flags = kInPlace},
      {.signature = "floor(Tensor self)",
       .doc = "The largest whole number not above self.",
       .types = types::same,
       .forward = rounding_forward<"floor">,
       .backward = zero_backward,
       .flags = kInPlace},
      {.signature = "ceil(Tensor self)",
       .doc = "The smallest whole number not below self.",
       .types = types::same,
       .forward = rounding_forward<"ceil">,
       .backward = zero_backward,
       .flags = kInPlace},
      {.signature = "round(Tensor self)",
       .doc = "The nearest whole number, halves away from zero.",
       .types = types::same,
       .forward = round_forward,
       .backward = zero_backward,
       .flags = kInPlace},
      {.signature = "trunc(Tensor self)",
       .doc = "self without its fraction.",
       .types = types::same,
       .forward = rounding_forward<"trunc">,
       .backward = zero_backward,
       .flags = kInPlace},
      {.signature = "frac(Tensor self)",
       .doc = "The fraction of self, with its sign.",
       .types = types::same,
       .forward = frac_forward,
       .backward = identity_backward,
       .flags = kInPlace},
  };
  return rows;
}

}  // namespace torchlite
