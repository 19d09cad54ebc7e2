// The types of an operation's results from those of its arguments.
#pragma once

#include "ir/ir.h"

namespace torchlite::ir {

// Result types of `rhs` (a CppApply) by the operation's own rule. Throws what the operation throws for such arguments,
// naming both sizes. Runs nothing on real data.
std::vector<PyRef<TensorType>> infer_types(const Apply* rhs);

}  // namespace torchlite::ir
