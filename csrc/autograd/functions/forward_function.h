// The constructible functions of `torchlite._C._functions`: an operation with its constants, to be called on Variables.
//
//   ConvNd(stride, padding, dilation, transposed, output_padding, groups, benchmark, cudnn_enabled)(input, weight, bias)
//   BatchNorm(running_mean, running_var, training, momentum, eps, cudnn_enabled)(input, weight, bias)
//
// The work, the gradients and the backward types are those of the rows conv_nd and batch_norm.
#pragma once

#include <span>

#include "autograd/function.h"

namespace torchlite {

// A constant that a function is constructed with.
struct ConstantKind {
  const char* name;
  enum Type { Bool, Int, Float, Ints, Text, Tensor } type;
};

// The constants of a constructor's arguments as a tuple, in a normal form: str for bytes, a plain tuple for a Size.
// Throws TypeError for keywords, RuntimeError for a wrong number or kind.
PyRef<> parse_constants(std::span<const ConstantKind> kinds, PyObject* args, PyObject* keywords);
// The arguments of a call: each a Variable, or nullptr for None. Throws TypeError for keywords and for anything else.
std::vector<Variable*> parse_inputs(PyObject* args, PyObject* keywords);

// After the op table.
void init_forward_functions(PyObject* functions_module);

}  // namespace torchlite
