// + - * / ** % and the other operations of two numbers.
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/types.h"

namespace torchlite {

using kernels::BinaryKind;
using kernels::UnaryKind;

namespace {

NumpyFunction np_add("add"), np_subtract("subtract"), np_multiply("multiply"), np_divide("true_divide"),
    np_floor_divide("floor_divide"), np_fmod("fmod"), np_remainder("remainder"), np_power("power"),
    np_maximum("maximum"), np_minimum("minimum"), np_square("square"), np_arctan2("arctan2");

bool is_integral(PyObject* o) { return is_tensor(o) ? !is_floating(as_tensor(o)->dtype) : PyLong_Check(o) != 0; }

// self + alpha other (sign 1) or self - alpha other (sign -1).
PyRef<Tensor> add_scaled(Call& c, int sign) {
  PyObject *a = c.args[0], *alpha = c.args[1], *b = c.args[2];
  BinaryKind kind = sign > 0 ? BinaryKind::Add : BinaryKind::Sub;
  NumpyFunction& f = sign > 0 ? np_add : np_subtract;
  if (is_one(alpha)) return binary(c.name(), kind, f, a, b, c.out);
  double scale;
  if (is_tensor(a) && is_tensor(b) && exact_number(alpha, &scale)) {
    Tensor *x = as_tensor(a), *y = as_tensor(b);
    if (is_loop_type(x->dtype) && x->dtype == y->dtype && x->contiguous && y->contiguous && x->sizes() == y->sizes() &&
        on_host(x) && on_host(y) && !(c.out && (x != c.out || overlaps_partially(x, y)))) {
      if (c.out) require_writable(c.out, c.name());
      PyRef<Tensor> result = c.out ? PyRef<Tensor>::borrow(c.out) : clone(x);
      GilRelease unlocked(x->numel);
      if (x->dtype == DType::Float) {
        kernels::axpy(static_cast<float>(sign * scale), y->ptr<float>(), result->ptr<float>(), x->numel);
      } else {
        kernels::axpy(sign * scale, y->ptr<double>(), result->ptr<double>(), x->numel);
      }
      return result;
    }
  }
  PyRef<> scaled = is_tensor(b) || is_tensor(alpha)
                       ? PyRef<>(binary(c.name(), BinaryKind::Mul, np_multiply, b, alpha, nullptr))
                       : check(PyNumber_Multiply(b, alpha));
  return binary(c.name(), kind, f, a, scaled.get(), c.out);
}

void add_backward(Backward& b, int sign) {
  if (b.needs(0)) b.set(0, b.grad());
  if (!b.needs(2)) return;
  Value alpha = b.value(1);
  if (is_one(alpha.object())) {
    b.set(2, sign > 0 ? b.grad() : -b.grad());
  } else {
    Value scaled = b.grad() * alpha;
    b.set(2, sign > 0 ? scaled : -scaled);
  }
}

// Integers divide toward zero, as the era's did and unlike NumPy's floor division.
PyRef<Tensor> divide(Call& c) {
  PyObject *a = c.args[0], *b = c.args[1];
  if (!is_integral(a) || !is_integral(b)) return binary(c.name(), BinaryKind::Div, np_divide, a, b, c.out);
  refuse_integer_zero(c.name(), b);
  OneWarning once;
  PyRef<Tensor> rest = apply_binary(c.name(), np_fmod, a, b);
  PyRef<Tensor> multiple = apply_ufunc(np_subtract, {a, rest.get()});
  return apply_binary(c.name(), np_floor_divide, multiple.object(), b);
}

PyRef<Tensor> power(Call& c) {
  double exponent;
  if (is_tensor(c.args[0]) && exact_number(c.args[1], &exponent) && exponent == 2)
    return unary(UnaryKind::Square, np_square, c.tensor(0), c.out);
  return apply_binary(c.name(), np_power, c.args[0], c.args[1], c.out);
}

void power_backward(Backward& b) {
  Value g = b.grad(), exponent = paired_with(g, b.value(1));
  if (b.needs(0)) {
    if (exponent.is_constant()) {
      double e = b.number(1);
      // e = 0 apart: x^(e-1) is infinite at 0.
      if (e == 0) {
        b.set(0, zeros_like(g));
      } else if (e == 1) {
        b.set(0, g);
      } else if (e == 2) {
        b.set(0, g * b.value(0) * 2);
      } else {
        Value less = PyLong_CheckExact(exponent.object()) ? Value(static_cast<int64_t>(e) - 1) : Value(e - 1);
        b.set(0, g * (call<"pow">(b.value(0), less) * exponent));
      }
    } else {
      // 0^0 is constant along the base: the exponent of its derivative is moved away from -1 there.
      Value x = b.value(0);
      Value constant = call<"bitwise_and">(call<"eq">(exponent, 0), call<"eq">(x, 0));
      b.set(0, g * exponent * call<"pow">(x, call<"masked_fill">(exponent, constant, 1) - 1));
    }
  }
  if (b.needs(1)) {
    Value x = b.value(0);
    // 0^e is constant along e > 0: log(1) = 0 stands for log(0).
    Value slope = x.is_constant() ? Value(b.number(0) == 0 ? 0.0 : std::log(b.number(0)))
                                  : call<"log">(call<"masked_fill">(x, call<"eq">(x, 0), 1));
    b.set(1, g * b.output() * slope);
  }
}

PyRef<Tensor> modulo(Call& c, NumpyFunction& f) {
  if (is_integral(c.args[0]) && is_integral(c.args[1])) refuse_integer_zero(c.name(), c.args[1]);
  return apply_binary(c.name(), f, c.args[0], c.args[1], c.out);
}

// The first operand is the larger (or smaller) one where `Wins`; at a tie each takes half.
template <OpName Wins>
void extremum_backward(Backward& b) {
  Value g = b.grad(), half = g * 0.5;
  Value x = b.value(0), y = paired_with(g, b.value(1));
  Value tie = call<"eq">(x, y), wins = call<Wins>(x, y);
  if (b.needs(0)) b.set(0, select(tie, half, select(wins, g, 0)));
  if (b.needs(1)) b.set(1, select(tie, half, select(wins, 0, g)));
}

// self + value tensor1 op tensor2
PyRef<Tensor> add_product(Call& c, BinaryKind kind, NumpyFunction& f) {
  OneWarning once;
  PyRef<Tensor> product = binary(c.name(), kind, f, c.args[2], c.args[3], nullptr);
  if (!is_one(c.args[1])) product = binary(c.name(), BinaryKind::Mul, np_multiply, product.get(), c.args[1], nullptr);
  return binary(c.name(), BinaryKind::Add, np_add, c.args[0], product.get(), c.out);
}

// What a gradient of it starts from. The product may have been broadcast to self or paired with it, and its second
// factor with the first.
struct ProductGradient {
  std::vector<int64_t> sizes;  // of the product
  Value grad;                  // of the product

  ProductGradient(Backward& b, Dims first, Dims second) : sizes(paired_sizes(b.op().name.c_str(), first, second)) {
    Value g = b.grad();
    if (g.sizes() == Dims(sizes)) grad = std::move(g);
    else if (g.sizes().product() == Dims(sizes).product()) grad = call<"reshape">(g, sizes);
    else grad = call<"sum_to">(g, sizes);
  }
};

void addcmul_backward(Backward& b) {
  if (b.needs(0)) b.set(0, b.grad());
  if (b.needs(2)) {
    Value y = b.value(3);
    ProductGradient product(b, b.gradient_type(2, 0).sizes, y.sizes());
    b.set(2, product.grad * paired_to(product.sizes, y) * b.value(1));
  }
  if (b.needs(3)) {
    Value x = b.value(2);
    ProductGradient product(b, x.sizes(), b.gradient_type(3, 0).sizes);
    b.set(3, product.grad * x * b.value(1));
  }
}

void addcdiv_backward(Backward& b) {
  if (b.needs(0)) b.set(0, b.grad());
  if (!b.needs(2) && !b.needs(3)) return;
  Value y = b.value(3);
  std::vector<int64_t> first;
  if (b.needs(2)) {
    first = b.gradient_type(2, 0).sizes;
  } else {
    Dims sizes = b.value(2).sizes();
    first.assign(sizes.begin(), sizes.end());
  }
  ProductGradient product(b, first, y.sizes());
  y = paired_to(product.sizes, y);
  Value scaled = product.grad * b.value(1) / y;
  if (b.needs(2)) b.set(2, scaled);
  if (b.needs(3)) b.set(3, -(scaled * (b.value(2) / y)));
}

}  // namespace

std::span<const Row> arithmetic_rows() {
  static const std::vector<Row> rows = {
      {.signature = "add(Tensor|Scalar self, Scalar alpha=1, Tensor|Scalar other)",
       .doc = "self + alpha * other, elementwise with broadcasting.",
       .types = types::scaled_sum,
       .forward = [](Call& c) -> Outputs { return add_scaled(c, 1); },
       .backward = [](Backward& b) { add_backward(b, 1); },
       .uses = {0, 0, in(1)},
       .flags = kInPlace | kConstantName},
      {.signature = "sub(Tensor|Scalar self, Scalar alpha=1, Tensor|Scalar other)",
       .doc = "self - alpha * other, elementwise with broadcasting.",
       .types = types::scaled_sum,
       .forward = [](Call& c) -> Outputs { return add_scaled(c, -1); },
       .backward = [](Backward& b) { add_backward(b, -1); },
       .uses = {0, 0, in(1)},
       .flags = kInPlace | kConstantName},
      {.signature = "mul(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self * other, elementwise with broadcasting.",
       .types = types::binary,
       .forward = [](Call& c) -> Outputs {
         return binary(c.name(), BinaryKind::Mul, np_multiply, c.args[0], c.args[1], c.out);
       },
       .backward =
           [](Backward& b) {
             Value g = b.grad();
             if (b.needs(0)) b.set(0, g * paired_with(g, b.value(1)));
             if (b.needs(1)) b.set(1, g * paired_with(g, b.value(0)));
           },
       .uses = {in(1), in(0)},
       .flags = kInPlace | kConstantName},
      {.signature = "div(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self / other, elementwise with broadcasting. Integers divide toward zero and stay integers; an integer "
              "divisor of 0 raises ZeroDivisionError.",
       .types = types::divide,
       .forward = [](Call& c) -> Outputs { return divide(c); },
       .backward =
           [](Backward& b) {
             Value other = paired_with(b.grad(), b.value(1));
             Value scaled = b.grad() / other;
             if (b.needs(0)) b.set(0, scaled);
             if (b.needs(1)) b.set(1, -(scaled * (b.value(0) / other)));
           },
       .uses = {in(1), in(0) | in(1)},
       .flags = kInPlace | kConstantName},
      {.signature = "pow(Tensor|Scalar self, Tensor|Scalar exponent)",
       .doc = "self ** exponent, elementwise with broadcasting.",
       .types = types::power,
       .forward = [](Call& c) -> Outputs { return power(c); },
       .backward = power_backward,
       .uses = {in(0) | in(1), in(0) | in(1) | out()},
       .flags = kInPlace | kConstantName},
      {.signature = "remainder(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self - other * floor(self / other): the sign is that of `other`.",
       .types = types::binary,
       .forward = [](Call& c) -> Outputs { return modulo(c, np_remainder); },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, b.grad());
             if (b.needs(1)) b.set(1, -(b.grad() * call<"floor">(b.value(0) / paired_with(b.grad(), b.value(1)))));
           },
       .uses = {0, in(0) | in(1)},
       .flags = kInPlace},
      {.signature = "fmod(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self - other * trunc(self / other): the sign is that of `self`.",
       .types = types::binary,
       .forward = [](Call& c) -> Outputs { return modulo(c, np_fmod); },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, b.grad());
             if (b.needs(1)) b.set(1, -(b.grad() * call<"trunc">(b.value(0) / paired_with(b.grad(), b.value(1)))));
           },
       .uses = {0, in(0) | in(1)},
       .flags = kInPlace},
      {.signature = "atan2(Tensor self, Tensor other)",
       .doc = "The angle of the point (other, self). The gradient at the origin is 0.",
       .types = types::binary_floating,
       .forward = [](Call& c) -> Outputs { return apply_binary(c.name(), np_arctan2, c.args[0], c.args[1], c.out); },
       .backward =
           [](Backward& b) {
             Value y = b.value(0), x = paired_with(b.grad(), b.value(1));
             Value square = x * x + y * y;
             Value scaled = b.grad() / call<"masked_fill">(square, call<"eq">(square, 0), 1);
             if (b.needs(0)) b.set(0, scaled * x);
             if (b.needs(1)) b.set(1, -(scaled * y));
           },
       .uses = {in(0) | in(1), in(0) | in(1)},
       .flags = kInPlace},
      {.signature = "maximum(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "The larger of each pair, NaN if either is. At a tie each operand takes half of the gradient.",
       .types = types::binary,
       .forward = [](Call& c) -> Outputs {
         return binary(c.name(), BinaryKind::Maximum, np_maximum, c.args[0], c.args[1], c.out);
       },
       .backward = extremum_backward<"gt">,
       .uses = {in(0) | in(1), in(0) | in(1)},
       .flags = kConstantName,
       .display_name = "Cmax"},
      {.signature = "minimum(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "The smaller of each pair, NaN if either is. At a tie each operand takes half of the gradient.",
       .types = types::binary,
       .forward = [](Call& c) -> Outputs {
         return binary(c.name(), BinaryKind::Minimum, np_minimum, c.args[0], c.args[1], c.out);
       },
       .backward = extremum_backward<"lt">,
       .uses = {in(0) | in(1), in(0) | in(1)},
       .flags = kConstantName,
       .display_name = "Cmin"},
      {.signature = "lerp(Tensor self, Tensor end, Scalar weight)",
       .doc = "self + weight * (end - self).",
       .types = types::lerp,
       .forward = [](Call& c) -> Outputs {
         OneWarning once;
         PyRef<Tensor> way = binary(c.name(), BinaryKind::Sub, np_subtract, c.args[1], c.args[0], nullptr);
         way = binary(c.name(), BinaryKind::Mul, np_multiply, way.get(), c.args[2], nullptr);
         return binary(c.name(), BinaryKind::Add, np_add, c.args[0], way.get(), c.out);
       },
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, b.grad() * (1 - b.number(2)));
             if (b.needs(1)) b.set(1, b.grad() * b.number(2));
           },
       .uses = {in(2), in(2)},
       .flags = kInPlace},
      {.signature = "addcmul(Tensor self, Scalar value=1, Tensor tensor1, Tensor tensor2)",
       .doc = "self + value * tensor1 * tensor2.",
       .types = types::add_product,
       .forward = [](Call& c) -> Outputs { return add_product(c, BinaryKind::Mul, np_multiply); },
       .backward = addcmul_backward,
       .uses = {0, 0, in(1) | in(3), in(1) | in(2)},
       .flags = kInPlace},
      {.signature = "addcdiv(Tensor self, Scalar value=1, Tensor tensor1, Tensor tensor2)",
       .doc = "self + value * tensor1 / tensor2.",
       .types = types::add_quotient,
       .forward = [](Call& c) -> Outputs { return add_product(c, BinaryKind::Div, np_divide); },
       .backward = addcdiv_backward,
       .uses = {0, 0, in(1) | in(3), in(1) | in(2) | in(3)},
       .flags = kInPlace},
  };
  return rows;
}

}  // namespace torchlite
