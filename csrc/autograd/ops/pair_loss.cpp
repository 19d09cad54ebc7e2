// Losses of an input and a target of one size: of their difference, and binary cross entropy.
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/nn.h"
#include "autograd/ops/types.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/reduce.h"
#include "tensor/views.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

// Input and target of one size and type, in Float or Double, both contiguous.
struct Pair {
  PyRef<Tensor> x, t;
};
Pair pair_of(Call& c) {
  Tensor *input = c.tensor(0), *target = c.tensor(1);
  if (!(input->sizes() == target->sizes()))
    runtime_error("%s: input of size %s and target of size %s must have one size", c.name(),
                  format_dims(input->sizes()).c_str(), format_dims(target->sizes()).c_str());
  if (input->dtype != target->dtype)
    type_error("%s: input and target must have one type, but input is %s and target is %s", c.name(),
               info(input->dtype).name, info(target->dtype).name);
  return {floating_operand(input, c.name(), "input"), floating_operand(target, c.name(), "target")};
}

// ---- differences --------------------------------------------------------------------------------------------------

// input - target.
PyRef<Tensor> difference(Call& c) {
  Pair p = pair_of(c);
  PyRef<Tensor> d = new_like(p.x.get());
  GilRelease unlocked(d->numel);
  with_float(d->dtype, [&]<class T>() {
    kernels::binary_kernel<T>(kernels::BinaryKind::Sub).same(p.x->ptr<T>(), p.t->ptr<T>(), d->ptr<T>(), d->numel);
  });
  return d;
}

PyRef<Tensor> loss_of(Call& c, double sum, int64_t numel, int average) {
  int64_t one = 1;
  return new_full(c.tensor(0)->dtype, {&one, 1}, c.boolean(average) ? sum / static_cast<double>(numel) : sum);
}

// The factor that turns a sum over the elements of `g` into their mean, if argument i asks for it.
double mean_factor(Backward& b, const Value& difference, int i) {
  return b.boolean(i) ? 1.0 / static_cast<double>(difference.sizes().product()) : 1.0;
}

void set_both(Backward& b, Value g) {
  if (b.needs(1)) b.set(1, -g);
  if (b.needs(0)) b.set(0, std::move(g));
}

Outputs mse_loss_forward(Call& c) {
  PyRef<Tensor> d = difference(c);
  double sum = 0;
  with_float(d->dtype, [&]<class T>() { sum = kernels::sum_squares(d->ptr<T>(), d->numel); });
  return loss_of(c, sum, d->numel, 2);
}
void mse_loss_backward(Backward& b) {
  Value d = b.value(0) - b.value(1);
  set_both(b, d * (b.grad() * (2 * mean_factor(b, d, 2))));
}

Outputs l1_loss_forward(Call& c) {
  PyRef<Tensor> d = difference(c);
  double sum = 0;
  with_float(d->dtype, [&]<class T>() {
    const T* p = d->ptr<T>();
    for (int64_t i = 0; i < d->numel; ++i) sum += std::fabs(static_cast<double>(p[i]));
  });
  return loss_of(c, sum, d->numel, 2);
}
void l1_loss_backward(Backward& b) {
  Value d = b.value(0) - b.value(1);
  set_both(b, call<"sign">(d) * (b.grad() * mean_factor(b, d, 2)));
}

// d^2 / 2 where |d| < 1, else |d| - 1/2
Outputs smooth_l1_loss_forward(Call& c) {
  PyRef<Tensor> d = difference(c);
  double sum = 0;
  with_float(d->dtype, [&]<class T>() {
    const T* p = d->ptr<T>();
    for (int64_t i = 0; i < d->numel; ++i) {
      double a = std::fabs(static_cast<double>(p[i]));
      sum += a < 1 ? 0.5 * a * a : a - 0.5;
    }
  });
  return loss_of(c, sum, d->numel, 2);
}
void smooth_l1_loss_backward(Backward& b) {
  Value d = b.value(0) - b.value(1);
  set_both(b, call<"clamp">(d, -1.0, 1.0) * (b.grad() * mean_factor(b, d, 2)));
}

// ---- binary cross entropy -----------------------------------------------------------------------------------------

// Keeps logarithms finite.
constexpr double kBceEps = 1e-12;

// The sum (or mean) over the elements of term(x, t), weighted.
template <class Term>
Outputs weighted_loss(Call& c, const Term& term) {
  Pair p = pair_of(c);
  PyRef<Tensor> weight;
  if (Tensor* w = c.optional_tensor(2)) {
    require_loss_weight(c.name(), w->sizes(), p.x->sizes());
    PyRef<Tensor> same = to_dtype(w, p.x->dtype);
    weight = contiguous(views::expand(same.get(), p.x->sizes()).get());
  }
  double sum = 0;
  {
    GilRelease unlocked(p.x->numel);
    with_float(p.x->dtype, [&]<class T>() {
      const T *x = p.x->ptr<T>(), *t = p.t->ptr<T>(), *w = weight ? weight->ptr<T>() : nullptr;
      for (int64_t i = 0; i < p.x->numel; ++i)
        sum += term(static_cast<double>(x[i]), static_cast<double>(t[i])) * (w ? static_cast<double>(w[i]) : 1.0);
    });
  }
  return loss_of(c, sum, p.x->numel, 3);
}

// The gradient of each element's term: that of the loss, times the weight.
Value weighted_gradient(Backward& b, const Value& x) {
  Value g = b.grad() * mean_factor(b, x, 3), weight = b.value(2);
  return weight.is_none() ? g : g * weight;
}

Outputs binary_cross_entropy_forward(Call& c) {
  return weighted_loss(
      c, [](double x, double t) { return -t * std::log(x + kBceEps) - (1 - t) * std::log(1 - x + kBceEps); });
}
void binary_cross_entropy_backward(Backward& b) {
  Value x = b.value(0), t = b.value(1), g = weighted_gradient(b, x);
  Value one = x + kBceEps, zero = Value(1) - x + kBceEps;
  if (b.needs(0)) b.set(0, g * ((Value(1) - t) / zero - t / one));
  if (b.needs(1)) b.set(1, g * (call<"log">(zero) - call<"log">(one)));
}

Outputs binary_cross_entropy_with_logits_forward(Call& c) {
  return weighted_loss(
      c, [](double x, double t) { return std::fmax(x, 0.0) - x * t + std::log1p(std::exp(-std::fabs(x))); });
}
void binary_cross_entropy_with_logits_backward(Backward& b) {
  Value x = b.value(0), g = weighted_gradient(b, x);
  if (b.needs(0)) b.set(0, g * (call<"sigmoid">(x) - b.value(1)));
  if (b.needs(1)) b.set(1, -(g * x));
}

}  // namespace

void require_loss_weight(const char* name, Dims weight, Dims input) {
  bool fits = weight.n <= input.n;
  for (int d = 1; fits && d <= weight.n; ++d)
    fits = weight[weight.n - d] == 1 || weight[weight.n - d] == input[input.n - d];
  if (!fits)
    runtime_error("%s: a weight of size %s does not broadcast to an input of size %s", name,
                  format_dims(weight).c_str(), format_dims(input).c_str());
}

std::vector<Row> pair_loss_rows() {
  constexpr uint32_t kPair = in(0) | in(1) | in(2), kWeighted = kPair | in(3);
  return {
      {"mse_loss(Tensor input, Tensor target, bool size_average=True)",
       "The mean (or sum) of (input - target)^2, of size (1,).",
       types::pair_loss,
       mse_loss_forward,
       mse_loss_backward,
       {kPair, kPair},
       kNoMethod},
      {"l1_loss(Tensor input, Tensor target, bool size_average=True)",
       "The mean (or sum) of |input - target|, of size (1,).",
       types::pair_loss,
       l1_loss_forward,
       l1_loss_backward,
       {kPair, kPair},
       kNoMethod},
      {"smooth_l1_loss(Tensor input, Tensor target, bool size_average=True)",
       "The mean (or sum) of d^2 / 2 where |d| < 1, |d| - 1/2 elsewhere, d = input - target; of size (1,).",
       types::pair_loss,
       smooth_l1_loss_forward,
       smooth_l1_loss_backward,
       {kPair, kPair},
       kNoMethod},
      {.signature = "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool size_average=True)",
       .doc =
           "The mean (or sum) of -weight (t log(x + e) + (1 - t) log(1 - x + e)) for probabilities x, with e = 1e-12; "
           "of size (1,). weight broadcasts to input.",
       .types = types::weighted_pair_loss,
       .forward = binary_cross_entropy_forward,
       .backward = binary_cross_entropy_backward,
       .uses = {kWeighted, kWeighted},
       .flags = kKeepSizes | kNoMethod,
       .no_gradient = in(2)},
      {.signature = "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, "
                    "bool size_average=True)",
       .doc = "binary_cross_entropy(sigmoid(input), ...), without overflow and without e.",
       .types = types::weighted_pair_loss,
       .forward = binary_cross_entropy_with_logits_forward,
       .backward = binary_cross_entropy_with_logits_backward,
       .uses = {kWeighted, kWeighted},
       .flags = kKeepSizes | kNoMethod,
       .no_gradient = in(2)},
  };
}

}  // namespace torchlite
