// The types of an operation's results from those of its arguments, by the rule that stands in its row.
#pragma once

#include "autograd/ops/types.h"
#include "ir/ir.h"

namespace torchlite::ir {

// Result types of `rhs` (a CppApply); kOpenSize where elements decide a size. Throws what the operation throws for such
// arguments, naming both sizes. Runs nothing.
TypeInfos infer_types(const Apply* rhs);

// How many of the `bound` results of `rhs` the operation returns; those that follow are hidden ones.
Py_ssize_t visible_results(const Apply* rhs, Py_ssize_t bound);

// Whether a result of type `inferred` may be bound as `given`.
bool fits(const TypeInfo& inferred, const TensorType* given);
// Whether a size is decided by elements, so that print has to say it.
bool has_open_size(const TypeInfos& types);

}  // namespace torchlite::ir
