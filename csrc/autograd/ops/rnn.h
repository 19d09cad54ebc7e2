// Shared by the recurrent rows.
//
// Note [Gradient of a fused operation]
// A fused backward computes numbers, not a graph. When the gradient's own graph is asked for, the operation is computed
// once more out of primitive operations, on aliases of its arguments, and that graph is differentiated. The aliases
// keep the arguments apart: one that was computed from another must not pass its gradient on to it here.
#pragma once

#include <vector>

#include "autograd/ops/op.h"

namespace torchlite {

// Sets the gradients of the tensor arguments of `b` by differentiating `composite`, which gets all arguments (aliases
// of tensors, constants as they are) and returns the results in order. Its arguments and results are Variables.
void differentiate(Backward& b, int n_arguments, uint32_t tensor_mask,
                   std::vector<Value> (*composite)(const std::vector<Value>& arguments));

// The cells out of primitive operations: {h, c} and {h}. Arguments are those of the rows lstm_cell and gru_cell.
std::vector<Value> lstm_cell_composite(const std::vector<Value>& arguments);
std::vector<Value> gru_cell_composite(const std::vector<Value>& arguments);

// Checks that the tensors are of one floating type and size them: throws a TypeError naming `function` otherwise.
void require_one_type(const char* function, std::initializer_list<const Tensor*> tensors);

// The rows of whole layers (rnn_layer.cpp).
std::vector<Row> rnn_layer_rows();

}  // namespace torchlite
