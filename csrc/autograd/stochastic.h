// Stochastic Functions: Python Functions whose gradients come from a reward instead of from their results.
//
// Results of one don't require grad, so no edge leads from what is computed of them to the Function. Yet a run finds
// it from there. So a node keeps those functions of its inputs from which a stochastic one can be found
// (NodeExtra::stochastic_inputs), whether or not a gradient flows to them.
#pragma once

#include "autograd/function.h"

namespace torchlite {

// Whether a stochastic Function has ever been recorded; until then nobody has to look for them.
extern bool stochastic_in_use;

bool is_stochastic(const Node* node);
// Lets `node`, which has `input` as an argument, find the stochastic Functions that `input` was computed from.
void keep_stochastic_input(Node* node, const Variable* input);

// Calls f(Node*) with every stochastic Function that can be run and is found from `node` itself or its inputs; those
// in `seen`, which gets what was looked at, are left out.
template <class Seen, class F>
void find_stochastic(Node* node, Seen& seen, F&& f) {
  std::vector<Node*> stack;
  auto look_at = [&](Node* n) {
    if (!seen.insert(n).second) return;
    if (is_stochastic(n) && n->requires_grad) f(n);
    if (n->extra && !n->extra->stochastic_inputs.empty()) stack.push_back(n);
  };
  look_at(node);
  while (!stack.empty()) {
    Node* n = stack.back();
    stack.pop_back();
    for (const PyRef<Node>& input : n->extra->stochastic_inputs) look_at(input.get());
  }
}

}  // namespace torchlite
