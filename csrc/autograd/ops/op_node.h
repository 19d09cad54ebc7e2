// OpNode: the backward of a row. Its edges and saved values lie behind the struct, as many as the row can need; with
// a Tensor[] argument, whose length is not known beforehand, they lie in arrays of their own.
#pragma once

#include "autograd/ops/op.h"

namespace torchlite {

struct ListNode : OpNode {
  Edge* edge_array;
  SavedVariable* saved_array;
  uint32_t list_saved;
};

inline const Op& op_of(const Node* node) { return *all_ops()[node->op]; }
inline bool has_list(const Op& op) { return op.list_index >= 0; }
inline Edge* op_node_edges(Node* self) {
  OpNode* node = static_cast<OpNode*>(self);
  return has_list(op_of(self)) ? static_cast<ListNode*>(node)->edge_array : reinterpret_cast<Edge*>(node + 1);
}
inline SavedVariable* op_node_saved(OpNode* self) {
  const Op& op = op_of(self);
  if (has_list(op)) return static_cast<ListNode*>(self)->saved_array;
  return reinterpret_cast<SavedVariable*>(reinterpret_cast<Edge*>(self + 1) + op.max_edges);
}
// How many saved values it has.
inline uint32_t op_node_n_saved(OpNode* self) {
  return has_list(op_of(self)) ? static_cast<ListNode*>(self)->list_saved : self->n_saved;
}

// An untracked node with room for `n_edges` edges and `n_saved` saved values (fewer than the row's maximum, but for a
// list); all are empty.
PyRef<OpNode> new_op_node(const Op& op, int n_edges, int n_saved, bool requires_grad);
// Argument `i` as it was saved: a Variable or a constant. AttributeError where the node keeps it not.
PyRef<> saved_argument(OpNode* self, int i);
// Gives a new node its name (kConstantName); `variables` are the arguments that are Variables.
inline void name_op_node(const Op& op, OpNode* node, uint32_t variables) {
  if (variables != op.tensor_mask && op.constant_node_type) Py_SET_TYPE(node, op.constant_node_type.get());
}
void init_op_node_type(Op& op);
void build_op_table();

}  // namespace torchlite
