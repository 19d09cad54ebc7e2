// Hooks: Python callables that see, and may replace, the gradients that pass a node.
//
//   pre-hook   of a Variable; called as hook(gradient) before the node that made the Variable runs
//   post-hook  of a function (`register_hook`); called as hook(grad_inputs, grad_outputs) after it ran
//
// Hooks live in dicts that Python owns as well: handles remove themselves from the dict. A hook returns None (keep the
// gradient) or what replaces it, which must have the same type, device and size. Hooks run in the order of their
// dict, each on the result of the one before. The callables are copied out before the first one runs, and one that
// was removed by then or by an earlier hook of the same run is not called.
#pragma once

#include "autograd/function.h"

namespace torchlite {

// `dict` holds hooks for the gradient of output `index` of `self`. Adding the same pair again changes nothing.
void add_pre_hook(Node* self, PyObject* dict, uint32_t index);
// Undoes that. Does nothing if there is no such pair.
void remove_pre_hook(Node* self, PyObject* dict, uint32_t index);

// Runs the pre-hooks of `self` on the gradients of its outputs, replacing them in place.
void run_pre_hooks(Node* self, Gradients& grads);
// Runs the post-hooks of `self`, replacing the gradients of its inputs in place.
void run_post_hooks(Node* self, Gradients& grad_inputs, const Gradients& grad_outputs);
// Runs the hooks of a leaf (its `_backward_hooks`; nullptr for none) on its gradient.
void run_variable_hooks(PyObject* dict, PyRef<Variable>& grad);

// Methods of every function type: `register_hook(hook) -> handle` and `_register_hook_dict(variable)`.
PyObject* node_register_hook(PyObject* self, PyObject* hook);
PyObject* node_register_hook_dict(PyObject* self, PyObject* variable);

}  // namespace torchlite
