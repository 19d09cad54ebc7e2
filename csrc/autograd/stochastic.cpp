#include "autograd/stochastic.h"

#include "autograd/python_function.h"

namespace torchlite {

bool stochastic_in_use = false;

bool is_stochastic(const Node* node) {
  return node->kind == NodeKind::Python && stochastic_function_class &&
         PyObject_TypeCheck(const_cast<Node*>(node), reinterpret_cast<PyTypeObject*>(stochastic_function_class));
}

void keep_stochastic_input(Node* node, const Variable* input) {
  Node* function = input->grad_fn.get();
  if (!function) return;
  bool leads_on = function->extra && !function->extra->stochastic_inputs.empty();
  if (leads_on || (is_stochastic(function) && function->requires_grad))
    extra(node).stochastic_inputs.push_back(PyRef<Node>::borrow(function));
}

}  // namespace torchlite
