// Node: a function in the backward graph. The C++ object is the Python object (a grad_fn).
//
//   Node            what every function has: edges to the next functions, hooks, the engine's scratch fields
//   OpNode          the backward of a row of the op table: edges and saved values lie behind the struct
//   PyFunction      a Python Function's context (python_function.h)
//   AccumulateGrad, Error, DelayedError, Identity ...   (functions/basic_ops.h)
//   ConvNd, BatchNorm   called, never part of a graph (functions/forward_function.h)
//
// A node owns its next functions and what it saved; it never owns a Variable that it made. All references are visited
// by tp_traverse. A node that needs no gradient keeps nothing but its type.
#pragma once

#include <memory>
#include <vector>

#include "autograd/saved_variable.h"
#include "autograd/variable.h"
#include "utils/live_objects.h"

namespace torchlite {

// Where the gradient of one input goes: output `nr` of `function`; nowhere if function is nullptr.
struct Edge {
  PyRef<Node> function;
  uint32_t nr = 0;
};

// Gradients by position; an empty reference is a missing (zero) gradient.
using Gradients = std::vector<PyRef<Variable>>;

// What a gradient of an output must look like, kept where a missing one has to be made.
struct OutputInfo {
  DType dtype;
  Device device;
  std::vector<int64_t> sizes;
};

// Rarely used parts of a node, made when first needed.
struct NodeExtra {
  struct PreHook {
    PyRef<> dict;    // Variable._backward_hooks: called in order with one gradient
    uint32_t index;  // of the output whose gradient it sees
  };
  std::vector<PreHook> pre_hooks;
  PyRef<> post_hooks;  // dict of register_hook
  PyRef<> stream;      // Note [Streams]; empty: the default one
  std::vector<OutputInfo> outputs;
  // Sizes and type of the inputs that the result does not have itself (broadcast, reshaped, cast).
  std::vector<std::unique_ptr<OutputInfo>> inputs;
  std::vector<PyRef<Node>> stochastic_inputs;  // stochastic.h
};

// The kinds of node; a node carries its kind in a byte instead of a pointer (a graph may have millions).
enum class NodeKind : uint8_t { Op, Python, Accumulate, Identity, Error, Forward };
inline constexpr int kNodeKinds = 6;

// What a node does; one static table per kind of node.
struct NodeClass {
  NodeKind kind;
  // Gradients of the inputs from gradients of the outputs (one per output, possibly empty). The
  // gradient's own graph is recorded where one of them is not volatile.
  Gradients (*apply)(Node* self, Gradients&& grads);
  // Drops what was saved; a later use raises the "second time" error.
  void (*release)(Node* self);
  Edge* (*edges)(Node* self);
  // Visits (traverse) or drops (clear) the references of the derived struct.
  int (*traverse)(Node* self, visitproc visit, void* arg);
  void (*clear)(Node* self);
};

extern const NodeClass* node_classes[kNodeKinds];

struct NodeTag {
  uint64_t sequence : 54;      // order of creation: the engine runs the youngest ready node first
  uint64_t requires_grad : 1;  // "executable": false for a node that is never run
  uint64_t released : 1;       // saved tensors are gone
  NodeKind kind : 8;
};

struct Node : PyObject {
  union {
    struct {  // as NodeTag
      uint64_t sequence : 54;
      uint64_t requires_grad : 1;
      uint64_t released : 1;
      NodeKind kind : 8;
    };
    // All of it at once: writing a new node field by field stalls on the loads in between.
    NodeTag tag;
  };
  uint32_t run;  // Note [Engine scratch]
  uint32_t slot;
  NodeExtra* extra;  // owned
  PyObject* weakrefs;
  uint16_t op;  // OpNode: index of the row in the op table
  uint16_t n_outputs;
  int32_t n_inputs;  // edges

  const NodeClass* node_class() const { return node_classes[static_cast<int>(kind)]; }
  Edge* edges() { return node_class()->edges(this); }
};

// Larger than any number that construct_node gives.
inline constexpr uint64_t kYoungest = (uint64_t{1} << 54) - 1;

extern PyTypeObject Node_Type;          // abstract base of all functions
extern PyTypeObject FunctionBase_Type;  // `_FunctionBase`: Python Functions

inline bool is_node(PyObject* o) { return PyObject_TypeCheck(o, &Node_Type); }
inline Node* as_node(PyObject* o) { return static_cast<Node*>(o); }

inline uint64_t next_sequence = 0;  // of construct_node and number_node

// The part of construct_node that is set anew when a node that is older than its call is put where the call is.
inline void number_node(Node* self, NodeKind kind, int32_t n_inputs, uint16_t n_outputs, bool requires_grad) noexcept {
  self->tag = NodeTag{.sequence = next_sequence++, .requires_grad = requires_grad, .released = false, .kind = kind};
  self->run = 0;
  self->slot = 0;
  self->n_inputs = n_inputs;
  self->n_outputs = n_outputs;
}
// Sets the fields above on freshly allocated memory.
inline void construct_node(Node* self, const NodeClass* node_class, int32_t n_inputs, uint16_t n_outputs,
                           bool requires_grad) noexcept {
  ++live.functions;
  const NodeClass*& known = node_classes[static_cast<int>(node_class->kind)];
  if (!known) known = node_class;
  self->extra = nullptr;
  self->weakrefs = nullptr;
  self->op = 0;
  number_node(self, node_class->kind, n_inputs, n_outputs, requires_grad);
}
// The number of a further output, which the node then has.
uint32_t add_output(Node* self);
// The node's `extra`, made if absent. What it holds is the collector's business: the node is tracked from then on.
NodeExtra& extra(Node* self);
// Shared parts of every node type's slots; the derived members go through the node class.
// The first half of a dealloc: weak references and `extra`; the derived members follow.
inline void destroy_node(Node* self) noexcept {
  --live.functions;
  if (self->weakrefs) PyObject_ClearWeakRefs(self);
  if (self->extra) delete std::exchange(self->extra, nullptr);
}
int node_tp_traverse(PyObject* self, visitproc visit, void* arg);
int node_tp_clear(PyObject* self);

// The name that messages use: the type's, without its module.
const char* node_name(const Node* self);

// Sets edge `i` of `self` to where the gradient of `input` flows (nowhere if it needs none).
void connect(Node* self, int i, Variable* input);

// A zero gradient for output `i`, from the `outputs` kept in extra.
PyRef<Variable> zero_gradient(Node* self, int i);

void init_function(PyObject* module);

}  // namespace torchlite
