// Type rules of networks.
#include "autograd/ops/types.h"

namespace torchlite::types {

namespace {

using Sizes = std::vector<int64_t>;

TypeInfos several(const TypeCall& c, std::vector<Sizes> sizes) {
  TypeInfos out;
  for (Sizes& s : sizes) out.push_back({c.type(0).dtype, c.device(), std::move(s)});
  return out;
}

void require_index(const TypeCall& c, int i) {
  DType t = c.type(i).dtype;
  if (t == DType::Byte || is_floating(t))
    type_error("%s: expected an index of type Long, but got %s", c.name(), info(t).name);
}

// Argument i, where it is a tensor, has these sizes.
void require_sizes(const TypeCall& c, int i, const Sizes& expected) {
  if (c.is_tensor(i) && c.type(i).sizes != expected)
    runtime_error("%s: '%s' must have size %s, but has size %s", c.name(),
                  c.op.params[static_cast<size_t>(i)].name.c_str(), format_dims(expected).c_str(),
                  format_dims(c.sizes(i)).c_str());
}

void require_ndim(const TypeCall& c, int i, int ndim, const char* what) {
  if (c.type(i).ndim() != ndim)
    runtime_error("%s: '%s' must have size %s, but has size %s", c.name(),
                  c.op.params[static_cast<size_t>(i)].name.c_str(), what, format_dims(c.sizes(i)).c_str());
}

}  // namespace

TypeInfos linear(TypeCall& c) {
  require_ndim(c, 1, 2, "(out_features, in_features)");
  Sizes sizes = c.type(0).sizes;
  if (sizes.empty() || sizes.back() != c.sizes(1)[1])
    runtime_error("linear: input of size %s does not fit weight of size %s: the last sizes must agree",
                  format_dims(sizes).c_str(), format_dims(c.sizes(1)).c_str());
  require_sizes(c, 2, {c.sizes(1)[0]});
  require_one_type(c, {0, 1, 2});
  sizes.back() = c.sizes(1)[0];
  return c.result(c.type(0).dtype, std::move(sizes));
}

TypeInfos embedding(TypeCall& c) {
  require_ndim(c, 1, 2, "(num_embeddings, embedding_dim)");
  if (c.boolean(6)) runtime_error("embedding: sparse gradients are not supported; use sparse=False");
  require_index(c, 0);
  require_floating(c, 1);
  Sizes sizes = c.type(0).sizes;
  sizes.push_back(c.sizes(1)[1]);
  return c.result(c.type(1).dtype, std::move(sizes));
}

TypeInfos embedding_backward(TypeCall& c) {
  require_floating(c, 0);
  require_index(c, 1);
  const Sizes& self = c.type(0).sizes;
  if (self.empty() || c.type(0).numel() != c.type(1).numel() * self.back())
    runtime_error("%s: self of size %s is no row for each element of an index of size %s", c.name(),
                  format_dims(self).c_str(), format_dims(c.sizes(1)).c_str());
  return c.result(c.type(0).dtype, {c.integer(2), self.back()});
}

TypeInfos embedding_gather(TypeCall& c) {
  require_floating(c, 0);
  require_index(c, 1);
  require_ndim(c, 0, 2, "(rows, columns)");
  Sizes sizes = c.type(1).sizes;
  sizes.push_back(c.sizes(0)[1]);
  return c.result(c.type(0).dtype, std::move(sizes));
}

TypeInfos dropout(TypeCall& c) {
  double p = c.number(1);
  if (!(p >= 0 && p <= 1)) value_error("dropout probability has to be between 0 and 1, but got %S", c.constant(1));
  if (p != 0 && c.op.params.size() > 2 && c.boolean(2)) require_floating(c, 0);
  return {c.type(0)};
}

TypeInfos softmax(TypeCall& c) {
  require_floating(c, 0);
  int n = c.type(0).ndim();
  if (!c.is_none(1)) c.dim(1, n);
  else if (n < 1 || n > 4)
    runtime_error("%s: without dim, the input has to have 1 to 4 dimensions, but has %d", c.name(), n);
  return {c.type(0)};
}

TypeInfos class_loss(TypeCall& c) {
  require_floating(c, 0);
  require_index(c, 1);
  Dims input = c.sizes(0), target = c.sizes(1);
  if (input.n != 2 && input.n != 4) value_error("%s: Expected 2 or 4 dimensions (got %d)", c.name(), input.n);
  bool fits = target.n == input.n - 1 && target[0] == input[0];
  for (int d = 1; fits && d < target.n; ++d) fits = target[d] == input[d + 1];
  if (!fits)
    runtime_error("%s: a target of size %s does not fit an input of size %s", c.name(), format_dims(target).c_str(),
                  format_dims(input).c_str());
  require_sizes(c, 2, {input[1]});
  return c.result(c.type(0).dtype, {1});
}

TypeInfos class_weights(TypeCall& c) {
  DType dtype = class_loss(c)[0].dtype;
  Sizes sizes = c.type(1).sizes;
  sizes.insert(sizes.begin() + 1, 1);
  return c.result(dtype, std::move(sizes));
}

TypeInfos nll_loss_backward(TypeCall& c) {
  require_floating(c, 0);
  require_index(c, 1);
  return c.result(c.type(0).dtype, c.ints(3));
}

TypeInfos cross_entropy_backward(TypeCall& c) {
  require_floating(c, 1);
  require_index(c, 2);
  return {c.type(1)};
}

TypeInfos pair_loss(TypeCall& c) {
  require_floating(c, 0);
  if (c.type(0).sizes != c.type(1).sizes)
    runtime_error("%s: input of size %s and target of size %s must have one size", c.name(),
                  format_dims(c.sizes(0)).c_str(), format_dims(c.sizes(1)).c_str());
  require_one_type(c, {0, 1});
  return c.result(c.type(0).dtype, {1});
}

// ---- convolution and pooling ----------------------------------------------------------------------------------------

namespace {

Sizes pair(const TypeCall& c, int i) {
  Sizes v = c.ints(i);
  if (v.size() == 1) v.push_back(v[0]);
  if (v.size() != 2)
    value_error("%s: argument '%s' must be an int or two ints, but has %zu", c.name(),
                c.op.params[static_cast<size_t>(i)].name.c_str(), v.size());
  return v;
}

}  // namespace

TypeInfos conv2d(TypeCall& c) {
  require_floating(c, 0);
  require_one_type(c, {0, 1});
  require_ndim(c, 0, 4, "(N, C, H, W)");
  Dims x = c.sizes(0), w = c.sizes(1);
  Sizes stride = pair(c, 3), padding = pair(c, 4), dilation = pair(c, 5);
  int64_t groups = c.integer(6);
  if (padding[0] < 0 || padding[1] < 0) runtime_error("negative padding is not supported");
  if (std::min({stride[0], stride[1], dilation[0], dilation[1], groups}) < 1)
    value_error("%s: stride, dilation and groups must be positive, but got %s, %s and %lld", c.name(),
                format_dims(stride).c_str(), format_dims(dilation).c_str(), static_cast<long long>(groups));
  if (w.n != 4 || w[1] * groups != x[1] || w[0] % groups != 0)
    runtime_error("%s: weight of size %s does not fit input of size %s with %lld groups", c.name(),
                  format_dims(w).c_str(), format_dims(x).c_str(), static_cast<long long>(groups));
  require_sizes(c, 2, {w[0]});
  Sizes sizes{x[0], w[0]};
  for (int d = 0; d < 2; ++d) {
    int64_t span = x[2 + d] + 2 * padding[d] - dilation[d] * (w[2 + d] - 1) - 1;
    if (span < 0)
      runtime_error("%s: the kernel of size %s is larger than the padded input of size %s", c.name(),
                    format_dims(w).c_str(), format_dims(x).c_str());
    sizes.push_back(span / stride[d] + 1);
  }
  return c.result(c.type(0).dtype, std::move(sizes));
}

TypeInfos conv2d_gradient(TypeCall& c) {
  require_floating(c, 0);
  require_one_type(c, {0, 1});
  return c.result(c.type(0).dtype, c.ints(2));
}

TypeInfos max_pool2d(TypeCall& c) {
  require_floating(c, 0);
  require_ndim(c, 0, 4, "(N, C, H, W)");
  Sizes kernel = pair(c, 1), stride = c.is_none(2) ? kernel : pair(c, 2), padding = pair(c, 3), dilation = pair(c, 4);
  Dims x = c.sizes(0);
  Sizes sizes{x[0], x[1]};
  for (int d = 0; d < 2; ++d) {
    if (kernel[d] < 1 || stride[d] < 1 || dilation[d] < 1)
      value_error("max_pool2d: kernel_size, stride and dilation must be positive, but got %s, %s and %s",
                  format_dims(kernel).c_str(), format_dims(stride).c_str(), format_dims(dilation).c_str());
    if (padding[d] < 0 || 2 * padding[d] > kernel[d])
      runtime_error("max_pool2d: pad should be smaller than half of kernel size, but got padding %s for kernel %s",
                    format_dims(padding).c_str(), format_dims(kernel).c_str());
    int64_t span = x[2 + d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    if (span < 0)
      runtime_error("max_pool2d: the kernel of size %s is larger than the padded input of size %s",
                    format_dims(kernel).c_str(), format_dims(x).c_str());
    int64_t size = (span + (c.boolean(5) ? stride[d] - 1 : 0)) / stride[d] + 1;
    if (c.boolean(5) && (size - 1) * stride[d] >= x[2 + d] + padding[d]) --size;
    sizes.push_back(size);
  }
  TypeInfos out = several(c, {sizes});
  out.push_back({DType::Long, c.device(), std::move(sizes)});
  return out;
}

// ---- recurrent cells and layers ---------------------------------------------------------------------------------------

namespace {

Sizes cell(const TypeCall& c, int64_t gates) {
  require_floating(c, 0);
  require_one_type(c, {0, 1, 2, 3, 4});
  require_ndim(c, 4, 2, "(batch, hidden)");
  Sizes state = c.type(4).sizes;
  for (int i : {0, 1}) require_sizes(c, i, {state[0], gates * state[1]});
  for (int i : {2, 3}) require_sizes(c, i, {gates * state[1]});
  return state;
}

// (input, h0, ..., w_ih, w_hh, b_ih, b_hh) with `states` initial states. Output, then one final state for each.
TypeInfos layer(const TypeCall& c, int states, int64_t gate_count) {
  int w = 1 + states;
  require_floating(c, 0);
  require_one_type(c, {0, 1, w == 3 ? 2 : 1, w, w + 1, w + 2, w + 3});
  require_ndim(c, 0, 3, "(steps, batch, inputs)");
  Dims x = c.sizes(0);
  int64_t hidden = c.type(1).ndim() ? c.type(1).sizes.back() : 0, gates = gate_count * hidden;
  Sizes state{x[1], hidden};
  for (int i = 1; i <= states; ++i) require_sizes(c, i, state);
  require_sizes(c, w, {gates, x[2]});
  require_sizes(c, w + 1, {gates, hidden});
  require_sizes(c, w + 2, {gates});
  require_sizes(c, w + 3, {gates});
  if (x[0] == 0) runtime_error("%s: the input has no steps: its size is %s", c.name(), format_dims(x).c_str());
  std::vector<Sizes> sizes{{x[0], x[1], hidden}};
  for (int i = 0; i < states; ++i) sizes.push_back(state);
  return several(c, std::move(sizes));
}

}  // namespace

TypeInfos lstm_cell(TypeCall& c) {
  Sizes state = cell(c, 4);
  return several(c, {state, state});
}
TypeInfos gru_cell(TypeCall& c) { return several(c, {cell(c, 3)}); }
TypeInfos lstm(TypeCall& c) { return layer(c, 2, 4); }
TypeInfos gru(TypeCall& c) { return layer(c, 1, 3); }
TypeInfos rnn(TypeCall& c) { return layer(c, 1, 1); }

}  // namespace torchlite::types
