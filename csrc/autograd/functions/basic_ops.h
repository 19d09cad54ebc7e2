// Functions that belong to no row of the op table, and the module `torchlite._C._functions` that shows their types.
//
//   Identity       hands its gradient on: the grad_fn of clones
//   Error          raises its message when it is run
//   DelayedError   DelayedError(message)(*variables): the same values, with an Error as their grad_fn
//   Clone, Contiguous, Add, Transpose, View, Expand, Narrow, Cat   names only
#pragma once

#include "autograd/function.h"

namespace torchlite {

// A node without inputs that raises RuntimeError(message) when backward reaches it.
PyRef<Node> make_error_node(const char* message);
// The node of a result that equals `input`.
PyRef<Node> make_identity_node(Variable* input);

// How the results of a function follow from its inputs (nullptr entries are skipped): volatile if any is; without
// history under no_grad; else they have a grad_fn, which is run if any input requires grad.
struct ResultKind {
  bool is_volatile = false;
  bool records = false;
  bool requires_grad = false;
};
ResultKind result_kind(Variable* const* inputs, size_t n);
// `data` as result `output_nr` of `node` (may be nullptr unless kind.records).
PyRef<Variable> wrap_output(PyRef<Tensor> data, Node* node, uint32_t output_nr, const ResultKind& kind);

void init_basic_ops(PyObject* module, PyObject* functions_module);

}  // namespace torchlite
