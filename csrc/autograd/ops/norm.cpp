// Batch normalisation. A batch (N, C, ...) is seen as N x C x length; statistics and parameters have an element for each
// of the C channels.
#include <algorithm>
#include <cmath>

#include "autograd/observer.h"
#include "autograd/ops/nn.h"
#include "autograd/ops/types.h"
#include "tensor/kernels/batch_norm.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;
using Numbers = std::vector<double>;

kernels::Channels channels_of(Dims x) {
  Sizes flat = planes_of(x);
  return {flat[0], flat[1], flat[2]};
}

Sizes per_channel(const kernels::Channels& s) { return {s.channels}; }

Numbers numbers(Tensor* t) {
  PyRef<Tensor> wide = to_dtype(t, DType::Double);
  PyRef<Tensor> flat = contiguous(wide.get());
  return {flat->ptr<double>(), flat->ptr<double>() + flat->numel};
}

PyRef<Tensor> tensor_of(const Numbers& v, DType dtype) {
  PyRef<Tensor> t = new_tensor(dtype, Sizes{static_cast<int64_t>(v.size())});
  with_float(dtype, [&]<class T>() {
    std::transform(v.begin(), v.end(), t->ptr<T>(), [](double d) { return static_cast<T>(d); });
  });
  return t;
}

// 1 / sqrt(var + eps), times the weight where there is one.
Numbers scale(Tensor* var, double eps, Tensor* weight) {
  Numbers factor = numbers(var);
  for (double& v : factor) v = 1 / std::sqrt(v + eps);
  if (weight) {
    Numbers w = numbers(weight);
    for (size_t c = 0; c < factor.size(); ++c) factor[c] *= w[c];
  }
  return factor;
}

// running = (1 - momentum) running + momentum batch: worked out first, then written. The write of a vector of floats or
// doubles cannot fail, so that either both statistics are new or none is.
class Update {
 public:
  Update(Tensor* running, const Numbers& batch, double momentum) : running_(running), values_(numbers(running)) {
    for (size_t c = 0; c < values_.size(); ++c) values_[c] = (1 - momentum) * values_[c] + momentum * batch[c];
    if (direct()) return;
    PyRef<Tensor> flat = tensor_of(values_, DType::Double);
    cast_ = new_tensor_on(flat->storage.copy(), flat->dtype, running->sizes(), {}, flat->offset);
  }
  void write() const {
    if (!direct()) return copy_into(running_, cast_.get());
    with_float(running_->dtype, [&]<class T>() {
      T* p = running_->ptr<T>();
      for (size_t c = 0; c < values_.size(); ++c)
        p[static_cast<int64_t>(c) * running_->stride(0)] = static_cast<T>(values_[c]);
    });
  }

 private:
  bool direct() const {
    return running_->ndim == 1 && (running_->dtype == DType::Float || running_->dtype == DType::Double);
  }
  Tensor* running_;
  Numbers values_;
  PyRef<Tensor> cast_;
};

// ---- forward ------------------------------------------------------------------------------------------------------

constexpr int kWeight = 1, kBias = 2, kMean = 3, kVar = 4, kTraining = 5, kMomentum = 6, kEps = 7;

// Results: y, and for the gradient the mean and the biased variance that it was normalised by.
Outputs batch_norm_forward(Call& c) {
  PyRef<Tensor> x = floating_operand(c.tensor(0), c.name(), "input");
  Tensor *weight = c.optional_tensor(kWeight), *bias = c.optional_tensor(kBias),
         *running_mean = c.optional_tensor(kMean), *running_var = c.optional_tensor(kVar);
  bool training = c.boolean(kTraining);
  auto count = [](Tensor* t) { return t ? t->numel : -1; };
  require_batch_norm_sizes(c.name(), x->sizes(), {count(running_mean), count(running_var), count(weight), count(bias)},
                           training);
  for (int i : {kWeight, kBias}) {
    Tensor* t = c.optional_tensor(i);
    if (t && t->dtype != c.tensor(0)->dtype)
      runtime_error("%s: Input type (%s) and %s type (%s) should be the same", c.name(), info(c.tensor(0)->dtype).name,
                    i == kWeight ? "weight" : "bias", info(t->dtype).name);
  }
  for (Tensor* t : {running_mean, running_var})
    if (t && !is_floating(t->dtype))
      type_error("%s: the running statistics must be floating, but are of type %s", c.name(), info(t->dtype).name);
  kernels::Channels s = channels_of(x->sizes());
  Numbers mean, var;
  if (training) {
    mean.resize(static_cast<size_t>(s.channels));
    var.resize(static_cast<size_t>(s.channels));
    GilRelease unlocked(x->numel);
    with_float(x->dtype, [&]<class T>() { kernels::channel_moments(s, x->ptr<T>(), mean.data(), var.data()); });
  } else {
    mean = numbers(running_mean);
    var = numbers(running_var);
  }
  PyRef<Tensor> used_mean = tensor_of(mean, x->dtype), used_var = tensor_of(var, x->dtype);
  PyRef<Tensor> factor = tensor_of(scale(used_var.get(), c.number(kEps), weight), x->dtype);
  PyRef<Tensor> shift = bias ? floating_operand(bias, c.name(), "bias") : new_zeros(x->dtype, per_channel(s));
  PyRef<Tensor> y = new_like(x.get());
  {
    GilRelease unlocked(x->numel);
    with_float(x->dtype, [&]<class T>() {
      kernels::channel_affine(s, x->ptr<T>(), used_mean->ptr<T>(), factor->ptr<T>(), shift->ptr<T>(), y->ptr<T>());
    });
  }
  PyRef<Tensor> result = to_dtype(y.get(), c.tensor(0)->dtype);
  if (training && running_mean && !discard_effects) {
    // Last, so that a failure has changed nothing.
    double unbiased = static_cast<double>(s.count()) / static_cast<double>(s.count() - 1);
    for (double& v : var) v *= unbiased;
    Update new_mean(running_mean, mean, c.number(kMomentum)), new_var(running_var, var, c.number(kMomentum));
    for (Tensor* t : {running_mean, running_var}) require_writable(t, c.name());
    new_mean.write();
    new_var.write();
  }
  return {std::move(result), std::move(used_mean), std::move(used_var)};
}

// ---- gradient -----------------------------------------------------------------------------------------------------

struct BatchGradient {
  PyRef<Tensor> input, weight, bias;
};

// In evaluation mean and variance are constants; in training they are those of x.
BatchGradient batch_gradient(const char* name, Tensor* grad, Tensor* input, Tensor* weight, Tensor* mean, Tensor* var,
                             bool training, double eps) {
  PyRef<Tensor> g = floating_operand(grad, name, "grad"), x = floating_operand(input, name, "input"),
                centre = floating_operand(to_dtype(mean, x->dtype).get(), name, "mean");
  kernels::Channels s = channels_of(x->sizes());
  size_t n = static_cast<size_t>(s.channels);
  Numbers sum(n), product(n);
  {
    GilRelease unlocked(x->numel);
    with_float(x->dtype, [&]<class T>() {
      kernels::channel_gradient_sums(s, g->ptr<T>(), x->ptr<T>(), centre->ptr<T>(), sum.data(), product.data());
    });
  }
  Numbers inverse = scale(var, eps, nullptr), slope(n), offset(n);
  double count = static_cast<double>(s.count());
  for (size_t c = 0; c < n; ++c) {
    product[c] *= inverse[c];
    if (!training) continue;
    offset[c] = sum[c] / count;
    slope[c] = product[c] * inverse[c] / count;
  }
  PyRef<Tensor> factor = tensor_of(scale(var, eps, weight), x->dtype), offsets = tensor_of(offset, x->dtype),
                slopes = tensor_of(slope, x->dtype), dx = new_like(x.get());
  {
    GilRelease unlocked(x->numel);
    with_float(x->dtype, [&]<class T>() {
      kernels::channel_gradient(s, g->ptr<T>(), x->ptr<T>(), centre->ptr<T>(), factor->ptr<T>(), offsets->ptr<T>(),
                                slopes->ptr<T>(), dx->ptr<T>());
    });
  }
  DType dtype = input->dtype;
  return {to_dtype(dx.get(), dtype), to_dtype(tensor_of(product, x->dtype).get(), dtype),
          to_dtype(tensor_of(sum, x->dtype).get(), dtype)};
}

void batch_norm_backward(Backward& b) {
  Value g = b.grad();
  if (!b.needs(0) && !b.needs(kWeight)) {
    b.set(kBias, channel_sum(g, false));
    return;
  }
  Value x = b.value(0), weight = b.value(kWeight), mean = b.output(1), var = b.output(2);
  bool training = b.boolean(kTraining);
  if (b.recording()) {
    // In training the operation finds the statistics again, as functions of x.
    Value none(nullptr), all = call<"batch_norm_backward">(g, x, weight, training ? none : mean, training ? none : var,
                                                           training, b.value(kEps));
    for (int i = 0; i < 3; ++i)
      if (b.needs(i)) b.set(i, all[i]);
    return;
  }
  BatchGradient all = batch_gradient("batch_norm", g.tensor(), x.tensor(), weight.is_none() ? nullptr : weight.tensor(),
                                     mean.tensor(), var.tensor(), training, b.number(kEps));
  b.set(0, Value(std::move(all.input)));
  if (b.needs(kWeight)) b.set(kWeight, Value(std::move(all.weight)));
  if (b.needs(kBias)) b.set(kBias, Value(std::move(all.bias)));
}

Outputs batch_norm_backward_forward(Call& c) {
  Tensor *g = c.tensor(0), *input = c.tensor(1), *weight = c.optional_tensor(2);
  bool training = c.boolean(5);
  PyRef<Tensor> x = floating_operand(input, c.name(), "input"), mean = PyRef<Tensor>::borrow(c.optional_tensor(3)),
                var = PyRef<Tensor>::borrow(c.optional_tensor(4));
  auto count = [](Tensor* t) { return t ? t->numel : -1; };
  require_batch_norm_sizes(c.name(), x->sizes(), {count(mean.get()), count(var.get()), count(weight), -1}, training);
  require_batch_norm_gradient(c.name(), g->sizes(), x->sizes());
  if (g->dtype != input->dtype)
    runtime_error("%s: Input type (%s) and grad type (%s) should be the same", c.name(), info(input->dtype).name,
                  info(g->dtype).name);
  if (training) {
    kernels::Channels s = channels_of(x->sizes());
    Numbers m(static_cast<size_t>(s.channels)), v(m.size());
    with_float(x->dtype, [&]<class T>() { kernels::channel_moments(s, x->ptr<T>(), m.data(), v.data()); });
    mean = tensor_of(m, x->dtype);
    var = tensor_of(v, x->dtype);
  }
  BatchGradient all = batch_gradient(c.name(), g, input, weight, mean.get(), var.get(), training, c.number(6));
  return {std::move(all.input), std::move(all.weight), std::move(all.bias)};
}

// With n elements a channel, i = 1 / sqrt(var + eps), z = i (x - mean) and the self-adjoint projection
//   P(h) = h - mean(h) - z mean(h z),
// the operation gives dx = w i P(g), dw = sum(g z) and db = sum(g). For gradients u, v and t of these,
//   of g:  w i P(u) + v z + t
//   of w:  i sum(u P(g))
//   of x:  i (v P(g) - w i / n (sum(g z) P(u) + sum(u z) P(g) + sum(u P(g)) z))
// In evaluation P(h) = h, and mean and i are constants: all but v i g vanishes in the last line.
void batch_norm_backward_backward(Backward& b) {
  bool training = b.boolean(5);
  Sizes sizes = b.sizes(1), flat = planes_of(sizes), channel{1, flat[1], 1};
  double n = static_cast<double>(flat[0] * flat[2]);
  auto whole = [&](const Value& h) { return call<"reshape">(h, flat); };
  auto vector = [&](const Value& h) { return call<"reshape">(h, channel); };
  auto sum = [&](const Value& h) { return channel_sum(h, true); };
  Value g = whole(b.value(0)), x = whole(b.value(1)), weight = b.value(2), u = whole(b.grad(0)), v = vector(b.grad(1)),
        t = vector(b.grad(2));
  Value mean = training ? sum(x) / Value(n) : vector(b.value(3));
  Value centred = x - mean;
  Value var = training ? sum(centred * centred) / Value(n) : vector(b.value(4));
  Value inverse = call<"rsqrt">(var + b.value(6)), z = centred * inverse;
  Value factor = weight.is_none() ? inverse : vector(weight) * inverse;
  auto project = [&](const Value& h) { return training ? h - sum(h) / Value(n) - z * (sum(h * z) / Value(n)) : h; };
  Value pg = project(g), pu = project(u), dot = sum(u * pg);
  if (b.needs(0)) b.set(0, call<"reshape">(factor * pu + v * z + t, sizes));
  if (b.needs(1)) {
    Value dx = v * pg;
    if (training) dx = dx - (factor / Value(n)) * (sum(g * z) * pu + sum(u * z) * pg + dot * z);
    b.set(1, call<"reshape">(dx * inverse, sizes));
  }
  if (b.needs(2)) b.set(2, inverse * dot);
}

}  // namespace

Sizes planes_of(Dims x) {
  int64_t length = 1;
  for (int d = 2; d < x.n; ++d) length *= x[d];
  return {x[0], x[1], length};
}

Value channel_sum(const Value& v, bool keepdim) {
  Value three = v.sizes().n == 3 ? v : call<"reshape">(v, planes_of(v.sizes()));
  return call<"sum">(call<"sum">(three, 2, keepdim), 0, keepdim);
}

void require_batch_norm_sizes(const char* name, Dims x, const BatchNormCounts& counts, bool training) {
  if (x.n < 2 || x.n > 5) runtime_error("%s: expected 2D, 3D, 4D or 5D input (got %dD input)", name, x.n);
  static constexpr const char* kNames[] = {"running_mean", "running_var", "weight", "bias"};
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] >= 0 && counts[i] != x[1])
      runtime_error("%s should contain %lld elements not %lld", kNames[i], static_cast<long long>(x[1]),
                    static_cast<long long>(counts[i]));
  if ((counts[0] < 0) != (counts[1] < 0))
    runtime_error("%s: running_mean and running_var must both be given, or both be None", name);
  if (!training && counts[0] < 0) runtime_error("%s: evaluation needs running_mean and running_var", name);
  if (training && channels_of(x).count() < 2)
    value_error("Expected more than 1 value per channel when training, got input size %s", format_dims(x).c_str());
}

void require_batch_norm_gradient(const char* name, Dims grad, Dims x) {
  if (!(grad == x))
    runtime_error("%s: the gradient has size %s, but the result has size %s", name, format_dims(grad).c_str(),
                  format_dims(x).c_str());
}

std::vector<Row> norm_rows() {
  constexpr uint32_t kConstants = in(kMean) | in(kVar) | in(kTraining) | in(kMomentum) | in(kEps);
  constexpr uint32_t kAll = in(0) | in(kWeight) | kConstants | out(1) | out(2);
  constexpr uint32_t kOperands = in(0) | in(1) | in(2) | in(3) | in(4) | in(5) | in(6);
  return {
      {.signature = "batch_norm(Tensor input, Tensor? weight=None, Tensor? bias=None, Tensor? running_mean=None, "
                    "Tensor? running_var=None, bool training=False, Scalar momentum=0.1, Scalar eps=1e-05)",
       .doc =
           "(x - mean) / sqrt(var + eps) * weight + bias for each channel of x (N, C, ...). In training with the mean "
           "and biased variance of the batch, which are mixed into the running ones in place (the variance "
           "unbiased); else with the running ones.",
       .types = types::batch_norm,
       .forward = batch_norm_forward,
       .backward = batch_norm_backward,
       .uses = {kAll, kAll, kConstants},
       .flags = kKeepSizes | kHidden,
       .hidden_outputs = 2,
       .no_gradient = in(kMean) | in(kVar)},
      {.signature = "batch_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor? running_mean, "
                    "Tensor? running_var, bool training, Scalar eps)",
       .doc = "The gradients of batch_norm for input, weight and bias. In training the statistics are those of input.",
       .types = types::batch_norm_backward,
       .forward = batch_norm_backward_forward,
       .backward = batch_norm_backward_backward,
       .uses = {kOperands, kOperands, kOperands},
       .flags = kKeepSizes | kHidden,
       .outputs = 3,
       .no_gradient = in(3) | in(4)},
  };
}

}  // namespace torchlite
