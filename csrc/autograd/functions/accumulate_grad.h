// AccumulateGrad: the end of the graph at a leaf, where the gradient is added into `.grad`.
//
// The graph owns it; it and the leaf point at each other without owning. When the leaf dies first but somebody still
// holds its gradient, gradients go on being added to that (a weak reference to it is kept).
#pragma once

#include "autograd/function.h"

namespace torchlite {

struct AccumulateGrad : Node {
  Variable* variable;     // not owned; nullptr once the leaf is gone
  PyRef<> orphaned_grad;  // weak reference to the `.grad` of a dead leaf
};

extern PyTypeObject AccumulateGrad_Type;

PyRef<AccumulateGrad> new_accumulate_grad(Variable* variable);
// The leaf is being destroyed (or stops being this leaf): the accumulator forgets it.
void forget_leaf(AccumulateGrad* self, PyObject* surviving_grad) noexcept;

void init_accumulate_grad(PyObject* functions_module);

}  // namespace torchlite
