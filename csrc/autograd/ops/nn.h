// Shared by the rows of networks.
#pragma once

#include <vector>

#include "autograd/ops/op.h"

namespace torchlite {

// `t` contiguous and in Float or Double: Half is widened. TypeError for integers, naming function and argument.
PyRef<Tensor> floating_operand(Tensor* t, const char* function, const char* argument);
// A tensor without history as an operand of the gradient's own operations.
Value constant_operand(const Backward& b, PyRef<Tensor> t);

// Calls f<float>() or f<double>(), which `dtype` is.
template <class F>
void with_float(DType dtype, F&& f) {
  if (dtype == DType::Float) f.template operator()<float>();
  else f.template operator()<double>();
}

// Softmax and the losses (loss.cpp), convolution and pooling (conv.cpp).
std::vector<Row> loss_rows();
std::vector<Row> conv_rows();

}  // namespace torchlite
