// Type rules of networks.
#include "autograd/ops/types.h"

#include "autograd/ops/nn.h"
#include "autograd/ops/window.h"

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

TypeInfos weighted_pair_loss(TypeCall& c) {
  TypeInfos result = pair_loss(c);
  if (c.is_tensor(2)) require_loss_weight(c.name(), c.sizes(2), c.sizes(0));
  return result;
}

// ---- convolution and pooling ----------------------------------------------------------------------------------------

TypeInfos conv_nd(TypeCall& c) {
  require_floating(c, 0);
  ConvGeometry g = conv_geometry(c.op, c.constants, c.type(0).ndim());
  require_one_type(c, {0, 1, 2});
  Sizes sizes = conv_sizes(c.name(), g, c.sizes(0), c.sizes(1));
  require_sizes(c, 2, {sizes[1]});
  return c.result(c.type(0).dtype, std::move(sizes));
}

TypeInfos conv_nd_backward(TypeCall& c) {
  require_floating(c, 0);
  require_one_type(c, {0, 1});
  ConvGeometry g = conv_backward_geometry(c.op, c.constants, c.type(0).ndim());
  Sizes sizes = c.ints(3);
  bool of_weight = conv_argument(c.op, c.constants);
  Dims input = of_weight ? c.sizes(1) : Dims(sizes), weight = of_weight ? Dims(sizes) : c.sizes(1);
  Convolution(c.name(), g, g.transposed ? c.sizes(0) : input, weight, g.transposed ? input : c.sizes(0));
  return c.result(c.type(0).dtype, std::move(sizes));
}

TypeInfos max_pool_nd(TypeCall& c) {
  require_floating(c, 0);
  Sizes sizes = pool_sizes(pool_window(c.op, c.constants, 1, true, c.boolean(5), c.sizes(0)), c.sizes(0));
  TypeInfos out = several(c, {sizes});
  out.push_back({DType::Long, c.device(), std::move(sizes)});
  return out;
}

TypeInfos avg_pool_nd(TypeCall& c) {
  require_floating(c, 0);
  kernels::Window w = pool_window(c.op, c.constants, 1, false, c.boolean(4), c.sizes(0));
  return c.result(c.type(0).dtype, pool_sizes(w, c.sizes(0)));
}

TypeInfos avg_pool_nd_backward(TypeCall& c) {
  require_floating(c, 0);
  Sizes sizes = c.ints(1);
  require_pool_gradient(c.name(), pool_window(c.op, c.constants, 2, false, c.boolean(5), sizes), sizes, c.sizes(0));
  return c.result(c.type(0).dtype, std::move(sizes));
}

// ---- normalisation ------------------------------------------------------------------------------------------------------

namespace {

int64_t count(const TypeCall& c, int i) { return c.is_tensor(i) ? c.type(i).numel() : -1; }

}  // namespace

TypeInfos batch_norm(TypeCall& c) {
  require_floating(c, 0);
  require_one_type(c, {0, 1, 2});
  require_batch_norm_sizes(c.name(), c.sizes(0), {count(c, 3), count(c, 4), count(c, 1), count(c, 2)}, c.boolean(5));
  return {c.type(0)};
}

TypeInfos batch_norm_backward(TypeCall& c) {
  require_floating(c, 1);
  require_one_type(c, {0, 1, 2});
  require_batch_norm_sizes(c.name(), c.sizes(1), {count(c, 3), count(c, 4), count(c, 2), -1}, c.boolean(5));
  require_batch_norm_gradient(c.name(), c.sizes(0), c.sizes(1));
  Sizes channels{c.sizes(1)[1]};
  return several(c, {c.type(1).sizes, channels, channels});
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
