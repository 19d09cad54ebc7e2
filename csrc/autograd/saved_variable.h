// SavedVariable: what a node keeps of an input or output for its backward.
//
// A saved leaf keeps the Variable itself, so that a subclass instance comes back as the same object. A saved interior
// Variable keeps its parts (tensor, grad_fn, output number, version), and one that its own node saved keeps no
// grad_fn: the node hands itself in when it unpacks. So a node never owns its own result.
#pragma once

#include "autograd/variable.h"

namespace torchlite {

// Throws the error for a graph whose saved values are gone.
[[noreturn]] void buffers_freed();

class SavedVariable {
 public:
  SavedVariable() = default;
  // Saves `v` on behalf of `owner` (the node whose result or input it is). nullptr saves None.
  SavedVariable(Variable* v, const Node* owner);
  // A constant argument of the operation.
  static SavedVariable constant(PyObject* value);
  SavedVariable(SavedVariable&&) noexcept = default;
  SavedVariable& operator=(SavedVariable&&) noexcept = default;

  // The Variable (or constant, or None) that was saved; throws if it was modified since, or released.
  // `owner` is the node that saved it.
  PyRef<> unpack(Node* owner) const;
  // The saved tensor, after the same check of the version; nullptr for None.
  Tensor* unpack_data(const Node* owner) const;
  bool is_none() const { return !value_; }
  // Whether it is a number, text or the like: nothing that a release of the graph would free.
  bool is_plain() const;

  int traverse(visitproc visit, void* arg) const;
  void reset() noexcept;

 private:
  void check_version(const Node* owner) const;

  PyRef<> value_;   // the Tensor; a constant; empty for None
  PyRef<> origin_;  // the leaf Variable, or the grad_fn; empty if saved by its own node
  CounterRef counter_;
  int64_t version_ : 40 = 0;
  uint64_t output_nr_ : 16 = 0;
  bool requires_grad_ : 1 = false;
  bool is_output_ : 1 = false;  // of the node that saved it
  bool is_leaf_ : 1 = false;
  bool is_constant_ : 1 = false;
};

}  // namespace torchlite
