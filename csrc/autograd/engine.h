// The backward engine: runs the graph from some roots, on the caller's thread, holding the GIL.
#pragma once

#include "autograd/function.h"
#include "autograd/ops/value.h"

namespace torchlite {

struct Root {
  PyRef<Node> function;  // where the gradient enters: the root's grad_fn or accumulator
  uint32_t output_nr;
  PyRef<Variable> gradient;  // may be empty
};

// An input whose gradient is asked for.
struct Capture {
  PyRef<Node> function;
  uint32_t output_nr;
};

// Runs backward from `roots`. Without captures leaves accumulate their gradients. With captures the result has the
// gradient of each (empty where none arrived); the accumulators of captured leaves do not run, and with
// `only_captures` neither does anything that leads to no capture. What the nodes saved is released unless
// `keep_graph`. On an exception nothing is left half-done: what has run has run, the rest of the graph is as before.
std::vector<PyRef<Variable>> run_backward(std::vector<Root>& roots, bool keep_graph,
                                          const std::vector<Capture>& captures, bool only_captures);

// Differentiable gradients of `outputs` with respect to `inputs` (all Variables), for composite rules; a missing one
// is empty. `grad_outputs` are Variables; constants among the inputs give empty ones too.
std::vector<Value> grad_of(const std::vector<Value>& outputs, const std::vector<Value>& inputs,
                           const std::vector<Value>& grad_outputs);

// Calls `callback()` once the backward that is running on this thread has succeeded.
void queue_callback(PyRef<> callback);

// Whether what is saved stays after the backward that is running on this thread; true if none is.
bool backward_keeps_graph();

extern PyTypeObject ImperativeEngine_Type;
void init_engine(PyObject* module);

}  // namespace torchlite
