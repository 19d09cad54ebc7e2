// Rows of networks: linear, embedding, dropout; those of other files follow (nn.h).
#include "autograd/ops/nn.h"

#include <cmath>

#include "autograd/observer.h"
#include "autograd/ops/op.h"
#include "autograd/ops/types.h"
#include "tensor/gemm.h"
#include "tensor/index_kernels.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/embedding.h"
#include "tensor/random.h"
#include "tensor/views.h"
#include "utils/gil.h"
#include "utils/numpy_api.h"

namespace torchlite {

using Sizes = std::vector<int64_t>;

PyRef<Tensor> floating_operand(Tensor* t, const char* function, const char* argument) {
  if (!is_floating(t->dtype))
    type_error("%s: argument '%s' must be a Float, Double or HalfTensor, but is a %sTensor", function, argument,
               info(t->dtype).name);
  PyRef<Tensor> wide = t->dtype == DType::Half ? to_dtype(t, DType::Float) : PyRef<Tensor>::borrow(t);
  return contiguous(wide.get());
}

Value constant_operand(const Backward& b, PyRef<Tensor> t) {
  return b.recording() ? Value(new_constant(std::move(t))) : Value(std::move(t));
}

namespace {

// ---- linear -------------------------------------------------------------------------------------------------------

Outputs linear_forward(Call& c) {
  Tensor *input = c.tensor(0), *weight = c.tensor(1), *bias = c.optional_tensor(2);
  if (weight->ndim != 2)
    runtime_error("linear: weight must have size (out_features, in_features), but has size %s",
                  format_dims(weight->sizes()).c_str());
  int64_t features = weight->size(1), outputs = weight->size(0);
  if (input->ndim == 0 || input->size(input->ndim - 1) != features)
    runtime_error("linear: input of size %s does not fit weight of size %s: the last sizes must agree",
                  format_dims(input->sizes()).c_str(), format_dims(weight->sizes()).c_str());
  if (bias && (bias->ndim != 1 || bias->size(0) != outputs))
    runtime_error("linear: bias of size %s does not fit weight of size %s", format_dims(bias->sizes()).c_str(),
                  format_dims(weight->sizes()).c_str());
  if (weight->dtype != input->dtype || (bias && bias->dtype != input->dtype))
    type_error("linear: input, weight and bias must have one type, but input is %s and %s is %s",
               info(input->dtype).name, weight->dtype != input->dtype ? "weight" : "bias",
               info(weight->dtype != input->dtype ? weight->dtype : bias->dtype).name);
  Sizes sizes(input->sizes().begin(), input->sizes().end());
  sizes.back() = outputs;
  PyRef<Tensor> x = contiguous(input), out = new_tensor(input->dtype, sizes);
  // A transposed weight is a GEMM operand as it is.
  bool weight_transposed = !weight->contiguous && weight->stride(0) == 1 && weight->stride(1) == outputs;
  PyRef<Tensor> w = weight_transposed ? PyRef<Tensor>::borrow(weight) : contiguous(weight);
  MatrixRef rows = matrix_of(x.get(), features), result = matrix_of(out.get(), outputs);
  rows.rows = result.rows = out->numel ? out->numel / outputs : 0;
  MatrixRef wt = weight_transposed ? MatrixRef{w->dtype, w->bytes(), features, outputs}
                                   : MatrixRef{w->dtype, w->bytes(), outputs, features, true};
  gemm(rows, wt, result);
  if (!bias || !out->numel) return out;
  if (out->dtype == DType::Float || out->dtype == DType::Double) {
    PyRef<Tensor> b = contiguous(bias);
    GilRelease unlocked(out->numel);
    auto add = [&]<class T>(T* y) {
      kernels::binary_kernel<T>(kernels::BinaryKind::Add).right_row(y, b->ptr<T>(), y, result.rows, outputs);
    };
    if (out->dtype == DType::Float) add(out->ptr<float>());
    else add(out->ptr<double>());
    return out;
  }
  const Op& add = find_op("add");
  PyObject* args[kMaxParams];
  size_t n = add.params.size();
  for (size_t i = 1; i + 1 < n; ++i) args[i] = add.params[i].default_value.get();
  args[0] = out.object();
  args[n - 1] = bias;
  call_op_in_place(add, args);
  return out;
}
void linear_backward(Backward& b) {
  Value g = b.grad();
  int64_t outputs = g.sizes()[g.sizes().n - 1];
  Value rows =
      g.sizes().n == 2 ? g : call<"reshape">(g, Sizes{g.sizes().product() / std::max<int64_t>(outputs, 1), outputs});
  if (b.needs(0)) {
    Value weight = b.value(1);
    Sizes sizes(g.sizes().begin(), g.sizes().end());
    sizes.back() = weight.sizes()[1];
    Value dx = call<"mm">(rows, weight);
    b.set(0, sizes.size() == 2 ? std::move(dx) : call<"reshape">(dx, sizes));
  }
  if (b.needs(1)) {
    Value x = b.value(0);
    int64_t features = x.sizes()[x.sizes().n - 1];
    if (x.sizes().n != 2) x = call<"reshape">(x, Sizes{x.sizes().product() / std::max<int64_t>(features, 1), features});
    b.set(1, call<"mm">(call<"t">(rows), x));
  }
  if (b.needs(2)) b.set(2, call<"sum_to">(rows, Sizes{outputs}));
}

// ---- embedding ----------------------------------------------------------------------------------------------------

[[noreturn]] void bad_embedding_index(const char* name, const Tensor* index, int64_t at, int64_t rows) {
  index_error("%s: index %lld at position %lld is out of range for a weight of %lld rows", name,
              static_cast<long long>(index->ptr<int64_t>()[at]), static_cast<long long>(at),
              static_cast<long long>(rows));
}

// Scales the rows of `weight` that `index` names to a norm of at most `max_norm`.
void renormalise(Tensor* weight, const Tensor* index, double max_norm, double p) {
  require_writable(weight, "embedding");
  if (!weight->contiguous || (weight->dtype != DType::Float && weight->dtype != DType::Double))
    runtime_error("embedding: max_norm needs a contiguous Float or Double weight");
  int64_t columns = weight->size(1);
  auto run = [&]<class T>(T* w) {
    for (int64_t k = 0; k < index->numel; ++k) {
      T* row = w + index->ptr<int64_t>()[k] * columns;
      double norm = 0;
      for (int64_t j = 0; j < columns; ++j) {
        double a = std::fabs(static_cast<double>(row[j]));
        norm = std::isinf(p) ? std::max(norm, a) : norm + std::pow(a, p);
      }
      if (!std::isinf(p)) norm = std::pow(norm, 1 / p);
      if (norm <= max_norm) continue;
      double factor = max_norm / (norm + 1e-7);
      for (int64_t j = 0; j < columns; ++j) row[j] = static_cast<T>(row[j] * factor);
    }
  };
  if (weight->dtype == DType::Float) run(weight->ptr<float>());
  else run(weight->ptr<double>());
}

PyRef<Tensor> embedding_index(Tensor* input) {
  PyRef<Tensor> wide = as_long(input, "embedding");
  return contiguous(wide.get());
}

// Rows of a contiguous `weight` by a contiguous Long `index`.
PyRef<Tensor> take_rows(const char* name, Tensor* weight, Tensor* index) {
  Sizes sizes(index->sizes().begin(), index->sizes().end());
  int64_t rows = weight->size(0), columns = weight->size(1);
  sizes.push_back(columns);
  PyRef<Tensor> out = new_tensor(weight->dtype, sizes);
  int64_t bad = kernels::embedding_ok;
  {
    GilRelease unlocked(out->numel);
    const int64_t* i = index->ptr<int64_t>();
    if (weight->dtype == DType::Float)
      bad = kernels::embedding(weight->ptr<float>(), i, rows, columns, index->numel, out->ptr<float>());
    else if (weight->dtype == DType::Double)
      bad = kernels::embedding(weight->ptr<double>(), i, rows, columns, index->numel, out->ptr<double>());
  }
  if (bad != kernels::embedding_ok) bad_embedding_index(name, index, bad, rows);
  return out;
}

Outputs embedding_forward(Call& c) {
  Tensor* weight = c.tensor(1);
  if (weight->ndim != 2)
    runtime_error("embedding: weight must have size (num_embeddings, embedding_dim), but has size %s",
                  format_dims(weight->sizes()).c_str());
  if (c.boolean(6)) runtime_error("embedding: sparse gradients are not supported; use sparse=False");
  PyRef<Tensor> index = embedding_index(c.tensor(0));
  const int64_t* p = index->ptr<int64_t>();
  if (!c.is_none(3)) {
    for (int64_t k = 0; k < index->numel; ++k)
      if (p[k] < 0 || p[k] >= weight->size(0)) bad_embedding_index("embedding", index.get(), k, weight->size(0));
    renormalise(weight, index.get(), c.number(3), c.number(4));
  }
  PyRef<Tensor> rows = floating_operand(weight, "embedding", "weight");
  PyRef<Tensor> out = take_rows("embedding", rows.get(), index.get());
  return to_dtype(out.get(), weight->dtype);
}
void embedding_backward(Backward& b) {
  b.set(1, call<"embedding_backward">(b.grad(), b.value(0), b.sizes(1)[0], b.value(2), b.value(5)));
}

int64_t padding_index(Call& c, int i, int64_t rows) {
  if (c.is_none(i)) return -1;
  int64_t padding = c.integer(i);
  return padding < 0 ? padding + rows : padding;
}

Outputs embedding_backward_forward(Call& c) {
  PyRef<Tensor> g = floating_operand(c.tensor(0), c.name(), "self");
  PyRef<Tensor> index = embedding_index(c.tensor(1));
  if (g->ndim == 0 || g->numel != index->numel * g->size(g->ndim - 1))
    runtime_error("%s: self of size %s is no row for each element of an index of size %s", c.name(),
                  format_dims(g->sizes()).c_str(), format_dims(index->sizes()).c_str());
  int64_t rows = c.integer(2), columns = g->size(g->ndim - 1), padding = padding_index(c, 3, rows);
  int64_t sizes[] = {rows, columns};
  PyRef<Tensor> out = new_zeros(g->dtype, {sizes, 2});
  std::vector<int64_t> counts(c.boolean(4) ? static_cast<size_t>(rows) : 0);
  int64_t bad;
  {
    GilRelease unlocked(g->numel);
    int64_t* count = counts.empty() ? nullptr : counts.data();
    const int64_t* i = index->ptr<int64_t>();
    bad = g->dtype == DType::Float ? kernels::embedding_backward(g->ptr<float>(), i, rows, columns, index->numel,
                                                                 padding, count, out->ptr<float>())
                                   : kernels::embedding_backward(g->ptr<double>(), i, rows, columns, index->numel,
                                                                 padding, count, out->ptr<double>());
  }
  if (bad != kernels::embedding_ok) bad_embedding_index(c.name(), index.get(), bad, rows);
  return to_dtype(out.get(), c.tensor(0)->dtype);
}
void embedding_backward_backward(Backward& b) {
  b.set(0, call<"embedding_gather">(b.grad(), b.value(1), b.value(3), b.value(4)));
}

// The transpose of embedding_backward: rows by index, those of the padding zero, divided by how often they occur.
Outputs embedding_gather_forward(Call& c) {
  PyRef<Tensor> rows = floating_operand(c.tensor(0), c.name(), "self");
  PyRef<Tensor> index = embedding_index(c.tensor(1));
  PyRef<Tensor> out = take_rows(c.name(), rows.get(), index.get());
  int64_t columns = rows->size(1), padding = padding_index(c, 2, rows->size(0));
  std::vector<int64_t> counts(static_cast<size_t>(rows->size(0)));
  const int64_t* p = index->ptr<int64_t>();
  for (int64_t k = 0; k < index->numel; ++k) ++counts[static_cast<size_t>(p[k])];
  auto scale = [&]<class T>(T* y) {
    for (int64_t k = 0; k < index->numel; ++k) {
      T factor = c.boolean(3) ? T(1) / static_cast<T>(counts[static_cast<size_t>(p[k])]) : T(1);
      if (p[k] == padding) factor = T(0);
      for (int64_t j = 0; j < columns; ++j) y[k * columns + j] *= factor;
    }
  };
  if (out->dtype == DType::Float) scale(out->ptr<float>());
  else scale(out->ptr<double>());
  return to_dtype(out.get(), c.tensor(0)->dtype);
}
void embedding_gather_backward(Backward& b) {
  b.set(0, call<"embedding_backward">(b.grad(), b.value(1), b.sizes(0)[0], b.value(2), b.value(3)));
}

// ---- dropout ------------------------------------------------------------------------------------------------------

Outputs dropout_forward(Call& c) {
  Tensor* input = c.tensor(0);
  double p = c.number(1);
  if (!(p >= 0 && p <= 1)) value_error("dropout probability has to be between 0 and 1, but got %S", c.args[1]);
  int64_t none = 0;
  if (p == 0 || !c.boolean(2)) return {clone(input), new_tensor(input->dtype, {&none, 1})};
  PyRef<Tensor> x = floating_operand(input, "dropout", "input");
  PyRef<Tensor> out = new_like(x.get()), mask = new_like(x.get());
  if (x->dtype == DType::Float)
    kernels::dropout(default_generator(), p, x->ptr<float>(), out->ptr<float>(), mask->ptr<float>(), x->numel);
  else kernels::dropout(default_generator(), p, x->ptr<double>(), out->ptr<double>(), mask->ptr<double>(), x->numel);
  return {to_dtype(out.get(), input->dtype), to_dtype(mask.get(), input->dtype)};
}
// Drawn as dropout draws it: dropout(x) is x times this.
Outputs dropout_mask_forward(Call& c) {
  Tensor* input = c.tensor(0);
  double p = c.number(1);
  if (!(p >= 0 && p <= 1)) value_error("dropout probability has to be between 0 and 1, but got %S", c.args[1]);
  PyRef<Tensor> ones = new_full(input->dtype == DType::Double ? DType::Double : DType::Float, input->sizes(), 1);
  if (p == 0) return to_dtype(ones.get(), input->dtype);
  PyRef<Tensor> out = new_like(ones.get()), mask = new_like(ones.get());
  if (ones->dtype == DType::Float)
    kernels::dropout(default_generator(), p, ones->ptr<float>(), out->ptr<float>(), mask->ptr<float>(), ones->numel);
  else
    kernels::dropout(default_generator(), p, ones->ptr<double>(), out->ptr<double>(), mask->ptr<double>(), ones->numel);
  return to_dtype(mask.get(), input->dtype);
}
void dropout_backward(Backward& b) {
  Value mask = b.output(1);
  b.set(0, mask.sizes() == b.grad().sizes() ? b.grad() * mask : b.grad());
}

}  // namespace

std::span<const Row> nn_rows() {
  static const std::vector<Row> rows = [] {
    std::vector<Row> all = {
        {"linear(Tensor input, Tensor weight, Tensor? bias=None)",
         "input (..., in) times the transpose of weight (out, in), plus bias (out,): (..., out).",
         types::linear,
         linear_forward,
         linear_backward,
         {in(1), in(0)},
         kNoMethod},
        {"embedding(Tensor input, Tensor weight, int? padding_idx=None, Scalar? max_norm=None, Scalar norm_type=2, "
         "bool scale_grad_by_freq=False, bool sparse=False)",
         "The rows of weight (V, E) that the LongTensor input names: (..., E). Row padding_idx gets no gradient; with "
         "max_norm the used rows are first scaled down in place to that norm.",
         types::embedding,
         embedding_forward,
         embedding_backward,
         {0, in(0) | in(2) | in(5)},
         kKeepSizes | kNoMethod},
        {"embedding_backward(Tensor self, Tensor input, int rows, int? padding_idx, bool scale_grad_by_freq)",
         "The rows of self summed by the index that each belongs to.",
         types::embedding_backward,
         embedding_backward_forward,
         embedding_backward_backward,
         {in(1) | in(3) | in(4)},
         kHidden},
        {"embedding_gather(Tensor self, Tensor input, int? padding_idx, bool scale_grad_by_freq)",
         "The transpose of embedding_backward.",
         types::embedding_gather,
         embedding_gather_forward,
         embedding_gather_backward,
         {in(1) | in(2) | in(3)},
         kKeepSizes | kHidden},
        {.signature = "dropout(Tensor input, Scalar p=0.5, bool training=False)",
         .doc = "While training: each element zero with probability p, the others divided by 1 - p. Else a copy.",
         .types = types::dropout,
         .forward = dropout_forward,
         .backward = dropout_backward,
         .uses = {out(1)},
         .flags = kNoMethod,
         .hidden_outputs = 1},
        {.signature = "dropout_mask(Tensor input, Scalar p)",
         .doc = "What dropout multiplies an input of this size by: 0 with probability p, else 1 / (1 - p).",
         .types = types::dropout,
         .forward = dropout_mask_forward,
         .flags = kHidden},
    };
    for (auto family : {loss_rows, pair_loss_rows, conv_rows, pool_rows, norm_rows}) {
      std::vector<Row> more = family();
      all.insert(all.end(), more.begin(), more.end());
    }
    return all;
  }();
  return rows;
}

}  // namespace torchlite
