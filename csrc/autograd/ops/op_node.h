// OpNode: the backward of a row. Its edges and saved values lie behind the struct, as many as the row can need; with
// a Tensor[] argument, whose length is not known beforehand, they lie in arrays of their own.
#pragma once

#include "autograd/ops/op.h"

namespace torchlite {

struct ListNode : OpNode {
  Edge* edge_array;
  SavedVariable* saved_array;
  uint32_t n_saved;
};

inline const Op& op_of(const Node* node) { return *all_ops()[node->op]; }
inline bool has_list(const Op& op) { return op.list_index >= 0; }
Edge* op_node_edges(Node* self);
SavedVariable* op_node_saved(OpNode* self);

// An untracked node with room for `n_edges` edges and `n_saved` saved values (fewer than the row's maximum, but for a
// list); all are empty.
PyRef<OpNode> new_op_node(const Op& op, int n_edges, int n_saved, bool requires_grad);
void init_op_node_type(Op& op);
void build_op_table();

}  // namespace torchlite
