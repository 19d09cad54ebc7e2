// Shared by the rows of networks.
#pragma once

#include <array>
#include <vector>

#include "autograd/ops/op.h"

namespace torchlite {

// `t` contiguous and in Float or Double: Half is widened. TypeError for integers, naming function and argument.
PyRef<Tensor> floating_operand(Tensor* t, const char* function, const char* argument);
// A tensor without history as an operand of the gradient's own operations.
Value constant_operand(const Backward& b, PyRef<Tensor> t);

// The size (N, C, length) of an x (N, C, ...) whose further dimensions are one.
std::vector<int64_t> planes_of(Dims x);
// The sum of v (N, C, ...) over each channel: (C,), or (1, C, 1) with keepdim.
Value channel_sum(const Value& v, bool keepdim);

// Calls f<float>() or f<double>(), which `dtype` is.
template <class F>
void with_float(DType dtype, F&& f) {
  if (dtype == DType::Float) f.template operator()<float>();
  else f.template operator()<double>();
}

// The elements of running_mean, running_var, weight and bias; -1 for one that is None.
using BatchNormCounts = std::array<int64_t, 4>;
// Throw where batch_norm of an x (N, C, ...) cannot have these arguments, or not a gradient of that size.
void require_batch_norm_sizes(const char* name, Dims x, const BatchNormCounts& counts, bool training);
void require_batch_norm_gradient(const char* name, Dims grad, Dims x);

// Throws unless the weight of a loss broadcasts to the size of its input.
void require_loss_weight(const char* name, Dims weight, Dims input);

// A file each: softmax and the losses of classes, losses of pairs, convolution, pooling, normalisation.
std::vector<Row> loss_rows();
std::vector<Row> pair_loss_rows();
std::vector<Row> conv_rows();
std::vector<Row> pool_rows();
std::vector<Row> norm_rows();

}  // namespace torchlite
