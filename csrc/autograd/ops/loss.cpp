// Softmax and the losses of classes. The kernels work on rows of classes: dimension 1 of a 4-d input is first brought to the end.
#include <cmath>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/nn.h"
#include "autograd/ops/types.h"
#include "tensor/index_kernels.h"
#include "tensor/kernels/softmax.h"
#include "tensor/views.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;

// A tensor of Float or Double with dimension `dim` last, contiguous; the kernels' view of it as rows.
struct Rows {
  PyRef<Tensor> tensor;
  int64_t rows, columns;

  Rows(Tensor* t, int dim, const char* function) {
    PyRef<Tensor> moved = t->ndim > 1 && dim != t->ndim - 1 ? to_last(t, dim) : PyRef<Tensor>::borrow(t);
    tensor = floating_operand(moved.get(), function, "input");
    columns = t->ndim ? t->size(dim) : 1;
    rows = columns ? t->numel / columns : 0;
  }
  static PyRef<Tensor> to_last(const Tensor* t, int dim) {
    Sizes order;
    for (int d = 0; d < t->ndim; ++d)
      if (d != dim) order.push_back(d);
    order.push_back(dim);
    return views::permute(t, order);
  }
  // `result`, laid out as `tensor`, in the layout and type of the original.
  static PyRef<Tensor> restore(PyRef<Tensor> result, int dim, DType dtype) {
    if (result->ndim > 1 && dim != result->ndim - 1) {
      Sizes order;
      for (int d = 0; d < result->ndim - 1; ++d) order.push_back(d);
      order.insert(order.begin() + dim, result->ndim - 1);
      result = clone(views::permute(result.get(), order).get());
    }
    return to_dtype(result.get(), dtype);
  }
};

// The dimension that softmax normalises where none is named.
int class_dim(Call& c, int argument, const Tensor* t) {
  if (!c.is_none(argument)) return c.dim(argument, t->ndim);
  if (t->ndim == 1 || t->ndim == 3) return 0;
  if (t->ndim == 2 || t->ndim == 4) return 1;
  runtime_error("%s: without dim, the input has to have 1 to 4 dimensions, but has %d", c.name(), t->ndim);
}
int class_dim(Backward& b, int argument, int ndim) {
  Value dim = b.value(argument);
  return dim.is_none() ? (ndim == 1 || ndim == 3 ? 0 : 1) : wrap_dim(b.integer(argument), ndim);
}

template <bool Log>
Outputs softmax_forward(Call& c) {
  Tensor* input = c.tensor(0);
  int dim = class_dim(c, 1, input);
  Rows x(input, dim, c.name());
  PyRef<Tensor> y = new_like(x.tensor.get());
  {
    GilRelease unlocked(input->numel);
    with_float(y->dtype, [&]<class T>() {
      if (Log) kernels::log_softmax(x.tensor->ptr<T>(), y->ptr<T>(), x.rows, x.columns);
      else kernels::softmax(x.tensor->ptr<T>(), y->ptr<T>(), x.rows, x.columns);
    });
  }
  return Rows::restore(std::move(y), dim, input->dtype);
}

template <bool Log>
void softmax_backward(Backward& b) {
  Value g = b.grad(), y = b.output();
  int dim = class_dim(b, 1, g.sizes().n);
  if (g.sizes().n == 0) {
    b.set(0, zeros_like(g));  // of one class
    return;
  }
  if (b.recording()) {
    if (Log) b.set(0, g - call<"exp">(y) * call<"sum">(g, dim, true));
    else b.set(0, y * (g - call<"sum">(g * y, dim, true)));
    return;
  }
  Rows gradient(g.tensor(), dim, "softmax"), result(y.tensor(), dim, "softmax");
  PyRef<Tensor> dx = new_like(gradient.tensor.get());
  {
    GilRelease unlocked(dx->numel);
    with_float(dx->dtype, [&]<class T>() {
      auto kernel = Log ? kernels::log_softmax_backward<T> : kernels::softmax_backward<T>;
      kernel(gradient.tensor->ptr<T>(), result.tensor->ptr<T>(), dx->ptr<T>(), gradient.rows, gradient.columns);
    });
  }
  b.set(0, Value(Rows::restore(std::move(dx), dim, g.dtype())));
}

// ---- nll_loss and cross_entropy -----------------------------------------------------------------------------------

// What both losses are given, checked and in the kernels' form.
struct ClassLoss {
  Rows x;
  PyRef<Tensor> target, weight;
  bool size_average;
  int64_t ignore_index;

  ClassLoss(const char* function, Tensor* input, Tensor* target_, Tensor* weight_, bool average, int64_t ignore)
      : x(checked(function, input, target_), 1, function), size_average(average), ignore_index(ignore) {
    PyRef<Tensor> wide = as_long(target_, function);
    target = contiguous(wide.get());
    if (!weight_) return;
    if (weight_->ndim != 1 || weight_->numel != x.columns)
      runtime_error("%s: weight of size %s does not fit %lld classes", function, format_dims(weight_->sizes()).c_str(),
                    static_cast<long long>(x.columns));
    PyRef<Tensor> same = to_dtype(weight_, x.tensor->dtype);
    weight = contiguous(same.get());
  }

  static Tensor* checked(const char* function, Tensor* input, Tensor* target) {
    if (input->ndim != 2 && input->ndim != 4)
      value_error("%s: Expected 2 or 4 dimensions (got %d)", function, input->ndim);
    bool fits = target->ndim == input->ndim - 1 && target->size(0) == input->size(0);
    for (int d = 1; fits && d < target->ndim; ++d) fits = target->size(d) == input->size(d + 1);
    if (!fits)
      runtime_error("%s: a target of size %s does not fit an input of size %s", function,
                    format_dims(target->sizes()).c_str(), format_dims(input->sizes()).c_str());
    return input;
  }

  template <class T>
  const T* weights() const {
    return weight ? weight->ptr<T>() : nullptr;
  }
  void refuse(const char* function, int64_t row) const {
    if (row == kernels::cross_entropy_ok) return;
    index_error("%s: target %lld at position %lld is out of range for %lld classes", function,
                static_cast<long long>(target->ptr<int64_t>()[row]), static_cast<long long>(row),
                static_cast<long long>(x.columns));
  }
};

ClassLoss class_loss(Call& c) {
  return ClassLoss(c.name(), c.tensor(0), c.tensor(1), c.optional_tensor(2), c.boolean(3), c.integer(4));
}

PyRef<Tensor> single(DType dtype) {
  int64_t one = 1;
  return new_tensor(dtype, {&one, 1});
}

Outputs nll_loss_forward(Call& c) {
  ClassLoss l = class_loss(c);
  DType dtype = l.x.tensor->dtype;
  PyRef<Tensor> loss = single(dtype), total = single(DType::Double);
  int64_t bad = 0;
  with_float(dtype, [&]<class T>() {
    bad = kernels::nll_loss(l.x.tensor->ptr<T>(), l.target->ptr<int64_t>(), l.weights<T>(), l.ignore_index,
                            l.size_average, l.x.rows, l.x.columns, loss->ptr<T>(), total->ptr<double>());
  });
  l.refuse(c.name(), bad);
  return {to_dtype(loss.get(), c.tensor(0)->dtype), std::move(total)};
}

// The gradient of nll_loss for a gradient `g` of the loss: constant in the input.
PyRef<Tensor> nll_gradient(const Sizes& sizes, DType dtype, Tensor* target_, Tensor* weight_, bool average,
                           int64_t ignore, double total, double g) {
  PyRef<Tensor> shape = new_tensor(dtype == DType::Half ? DType::Float : dtype, sizes);
  ClassLoss l("nll_loss", shape.get(), target_, weight_, average, ignore);
  PyRef<Tensor> dx = new_like(l.x.tensor.get());
  {
    GilRelease unlocked(dx->numel);
    with_float(dx->dtype, [&]<class T>() {
      kernels::nll_loss_backward<T>(static_cast<T>(g), l.target->ptr<int64_t>(), l.weights<T>(), ignore, average,
                                    l.x.rows, l.x.columns, total, dx->ptr<T>());
    });
  }
  return Rows::restore(std::move(dx), 1, dtype);
}

Tensor* optional(const Value& v) { return v.is_none() ? nullptr : v.tensor(); }

double as_number(const Value& v) {
  PyRef<Tensor> wide = to_dtype(v.tensor(), DType::Double);
  return *wide->ptr<double>();
}

void nll_loss_backward(Backward& b) {
  Value g = b.grad(), target = b.value(1), weight = b.value(2);
  if (b.recording() || !b.on_host()) {
    b.set(0, call<"nll_loss_backward">(g, target, weight, b.sizes(0), b.value(3), b.value(4)));
    return;
  }
  b.set(0, Value(nll_gradient(b.sizes(0), b.dtype(0), target.tensor(), optional(weight), b.boolean(3), b.integer(4),
                              as_number(b.output(1)), as_number(g))));
}

// The sum of the weights of the targets that count, which the mean divides by.
double total_weight(const ClassLoss& l) {
  double total = 0;
  const int64_t* target = l.target->ptr<int64_t>();
  with_float(l.x.tensor->dtype, [&]<class T>() {
    const T* w = l.weights<T>();
    for (int64_t i = 0; i < l.target->numel; ++i)
      if (target[i] != l.ignore_index) total += w ? static_cast<double>(w[target[i]]) : 1.0;
  });
  return total;
}

Outputs nll_loss_backward_forward(Call& c) {
  Tensor *g = c.tensor(0), *target = c.tensor(1), *weight = c.optional_tensor(2);
  Sizes sizes = c.ints(3);
  PyRef<Tensor> shape = new_tensor(g->dtype == DType::Half ? DType::Float : g->dtype, sizes);
  ClassLoss l("nll_loss", shape.get(), target, weight, c.boolean(4), c.integer(5));
  double factor = *to_dtype(g, DType::Double)->ptr<double>();
  return nll_gradient(sizes, g->dtype, target, weight, c.boolean(4), c.integer(5), total_weight(l), factor);
}
void nll_loss_backward_backward(Backward& b) {
  Value gg = b.grad(), one = constant_operand(b, new_full(gg.dtype(), b.sizes(0), 1, gg.tensor()->device()));
  Value slope = call<"nll_loss_backward">(one, b.value(1), b.value(2), b.value(3), b.value(4), b.value(5));
  b.set(0, call<"reshape">(call<"sum">(gg * slope, nullptr, false), b.sizes(0)));
}

// What the forward gives: the loss, of size (1,), and what the backward uses, the logarithm of each row's sum of
// exponentials and the sum of the weights.
struct CrossEntropy {
  PyRef<Tensor> loss, log_sums, total;

  CrossEntropy(const char* function, const ClassLoss& l) {
    DType dtype = l.x.tensor->dtype;
    loss = single(dtype);
    total = single(DType::Double);
    log_sums = new_tensor(dtype, {&l.x.rows, 1});
    int64_t bad = 0;
    {
      GilRelease unlocked(l.x.tensor->numel);
      with_float(dtype, [&]<class T>() {
        bad = kernels::cross_entropy(l.x.tensor->ptr<T>(), l.target->ptr<int64_t>(), l.weights<T>(), l.ignore_index,
                                     l.size_average, l.x.rows, l.x.columns, loss->ptr<T>(), log_sums->ptr<T>(),
                                     total->ptr<double>());
      });
    }
    l.refuse(function, bad);
  }
};

Outputs cross_entropy_forward(Call& c) {
  ClassLoss l = class_loss(c);
  CrossEntropy made(c.name(), l);
  return {to_dtype(made.loss.get(), c.tensor(0)->dtype), std::move(made.log_sums), std::move(made.total)};
}

// The weight of each row's term in the loss, as a tensor that broadcasts against the input: (N, 1) or (N, 1, H, W).
PyRef<Tensor> row_weights(const ClassLoss& l, double total, DType dtype) {
  Sizes sizes(l.target->sizes().begin(), l.target->sizes().end());
  sizes.insert(sizes.begin() + 1, 1);
  PyRef<Tensor> out = new_tensor(l.x.tensor->dtype, sizes);
  const int64_t* target = l.target->ptr<int64_t>();
  with_float(out->dtype, [&]<class T>() {
    const T* w = l.weights<T>();
    for (int64_t i = 0; i < out->numel; ++i) {
      double value = target[i] == l.ignore_index ? 0.0 : w ? static_cast<double>(w[target[i]]) : 1.0;
      out->ptr<T>()[i] = static_cast<T>(l.size_average ? value / total : value);
    }
  });
  return to_dtype(out.get(), dtype);
}

// The gradient of cross_entropy for a gradient `g` of the loss: g weight (softmax(x) - onehot(target)), row by row.
PyRef<Tensor> cross_entropy_gradient(const ClassLoss& l, const Tensor* log_sums, double total, double g, DType dtype) {
  PyRef<Tensor> dx = new_like(l.x.tensor.get());
  {
    GilRelease unlocked(dx->numel);
    with_float(dx->dtype, [&]<class T>() {
      kernels::cross_entropy_backward<T>(static_cast<T>(g), l.x.tensor->ptr<T>(), l.target->ptr<int64_t>(),
                                         l.weights<T>(), l.ignore_index, l.size_average, l.x.rows, l.x.columns,
                                         log_sums->ptr<T>(), total, dx->ptr<T>());
    });
  }
  return Rows::restore(std::move(dx), 1, dtype);
}

void cross_entropy_backward(Backward& b) {
  Value g = b.grad(), x = b.value(0), target = b.value(1), weight = b.value(2);
  if (b.recording() || !b.on_host()) {
    b.set(0, call<"cross_entropy_backward">(g, x, target, weight, b.value(3), b.value(4)));
    return;
  }
  ClassLoss l("cross_entropy", x.tensor(), target.tensor(), optional(weight), b.boolean(3), b.integer(4));
  Value log_sums = b.output(1);
  b.set(0, Value(cross_entropy_gradient(l, log_sums.tensor(), as_number(b.output(2)), as_number(g), x.dtype())));
}

Outputs cross_entropy_backward_forward(Call& c) {
  Tensor *g = c.tensor(0), *x = c.tensor(1);
  ClassLoss l("cross_entropy", x, c.tensor(2), c.optional_tensor(3), c.boolean(4), c.integer(5));
  // What the forward has kept, again: its own kernel gives the same bits.
  CrossEntropy made(c.name(), l);
  double factor = *to_dtype(g, DType::Double)->ptr<double>();
  return cross_entropy_gradient(l, made.log_sums.get(), *made.total->ptr<double>(), factor, x->dtype);
}

Outputs class_weights_forward(Call& c) {
  ClassLoss l("class_weights", c.tensor(0), c.tensor(1), c.optional_tensor(2), c.boolean(3), c.integer(4));
  return row_weights(l, total_weight(l), c.tensor(0)->dtype);
}

void cross_entropy_backward_backward(Backward& b) {
  Value gg = b.grad(), g = b.value(0), x = b.value(1), target = b.value(2), weight = b.value(3);
  if (b.needs(0)) {
    Value one = constant_operand(b, new_full(gg.dtype(), g.sizes(), 1, gg.tensor()->device()));
    Value slope = call<"cross_entropy_backward">(one, x, target, weight, b.value(4), b.value(5));
    b.set(0, call<"reshape">(call<"sum">(gg * slope, nullptr, false), Sizes(g.sizes().begin(), g.sizes().end())));
  }
  if (!b.needs(1)) return;
  Value s = call<"softmax">(x, 1), w = call<"class_weights">(x, target, weight, b.value(4), b.value(5));
  Value inner = call<"sum">(gg * s, 1, true);
  b.set(1, g * (w * (s * (gg - inner))));
}

}  // namespace

std::vector<Row> loss_rows() {
  constexpr uint32_t kConstants = in(1) | in(2) | in(3) | in(4), kAll = in(0) | kConstants | in(5);
  return {
      {"softmax(Tensor input, int? dim=None)",
       "exp(x) / sum(exp(x)) along dim; by default along dimension 0 of a 1-d or 3-d input, 1 of a 2-d or 4-d one.",
       types::softmax,
       softmax_forward<false>,
       softmax_backward<false>,
       {out() | in(1)}},
      {"log_softmax(Tensor input, int? dim=None)",
       "log(softmax(input, dim)), without overflow.",
       types::softmax,
       softmax_forward<true>,
       softmax_backward<true>,
       {out() | in(1)}},
      {.signature = "nll_loss(Tensor input, Tensor target, Tensor? weight=None, bool size_average=True, "
                    "int ignore_index=-100)",
       .doc = "Negative log likelihood of the classes `target` (N or N, H, W) under log-probabilities `input` (N, C or "
              "N, C, H, W), of size (1,). IndexError for a class out of range.",
       .types = types::class_loss,
       .forward = nll_loss_forward,
       .backward = nll_loss_backward,
       .uses = {kConstants | out(1)},
       .flags = kKeepSizes | kNoMethod,
       .hidden_outputs = 1,
       .no_gradient = in(1) | in(2)},
      {.signature = "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, bool size_average=True, "
                    "int ignore_index=-100)",
       .doc = "nll_loss(log_softmax(input, 1), target, ...) in one pass, of size (1,).",
       .types = types::class_loss,
       .forward = cross_entropy_forward,
       .backward = cross_entropy_backward,
       .uses = {in(0) | kConstants | out(1) | out(2)},
       .flags = kNoMethod,
       .hidden_outputs = 2,
       .no_gradient = in(1) | in(2)},
      {.signature = "nll_loss_backward(Tensor grad, Tensor target, Tensor? weight, ints sizes, bool size_average, "
                    "int ignore_index)",
       .doc = "The gradient of nll_loss for an input of `sizes`.",
       .types = types::nll_loss_backward,
       .forward = nll_loss_backward_forward,
       .backward = nll_loss_backward_backward,
       .uses = {in(1) | in(2) | in(3) | in(4) | in(5)},
       .flags = kKeepSizes | kHidden},
      {.signature =
           "cross_entropy_backward(Tensor grad, Tensor input, Tensor target, Tensor? weight, bool size_average, "
           "int ignore_index)",
       .doc = "The gradient of cross_entropy.",
       .types = types::cross_entropy_backward,
       .forward = cross_entropy_backward_forward,
       .backward = cross_entropy_backward_backward,
       .uses = {kAll, kAll},
       .flags = kHidden},
      {.signature = "class_weights(Tensor input, Tensor target, Tensor? weight, bool size_average, int ignore_index)",
       .doc = "What each target weighs in cross_entropy, in a size that broadcasts against input.",
       .types = types::class_weights,
       .forward = class_weights_forward,
       .flags = kHidden},
  };
}

}  // namespace torchlite
