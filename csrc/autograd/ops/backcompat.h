// What the era did for programs that were older still.
//
// Note [Pairing]
// Operands that do not broadcast but have as many elements are paired in order, with a UserWarning; the result has the
// size of the first. The gradient of the other operand is reshaped back.
#pragma once

#include <vector>

#include "autograd/ops/value.h"
#include "tensor/broadcast.h"

namespace torchlite {

// Switches of further warnings, off by default: where operands broadcast that an older version would have paired, and
// where a reduction along a dimension is called without `keepdim`, whose default was True.
extern bool broadcast_warning;
extern bool keepdim_warning;

// The broadcast of `a` and `b`, or `a` where they are paired; RuntimeError naming `function` where neither holds.
std::vector<int64_t> paired_sizes(const char* function, Dims a, Dims b);
// `b` in the size of `a` where they are paired, with the warning; empty where they are not. In place only `b` broadcasts.
PyRef<Tensor> paired(PyObject* a, PyObject* b, bool in_place = false, const char* names = "self and other");
// The same in a gradient, without a warning: `v` in the size of the result that it was paired to, else as it is.
Value paired_with(const Value& g, const Value& v);
Value paired_to(Dims sizes, const Value& v);

// At most one of these warnings comes while it lives: a call that is made of several operations warns once.
class OneWarning {
 public:
  OneWarning();
  ~OneWarning();
  OneWarning(const OneWarning&) = delete;
  OneWarning& operator=(const OneWarning&) = delete;

 private:
  friend void warn_once(const std::string& text);
  OneWarning* outer_;
  bool given_ = false;
};

// The era's warnings: that the operands called `names` are paired, and of a reduction without keepdim.
void warn_of_pairing(const char* names);
void warn_of_keepdim(const char* function);

void init_backcompat(PyObject* module);

}  // namespace torchlite
