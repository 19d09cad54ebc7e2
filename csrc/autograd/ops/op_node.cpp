#include "autograd/ops/op_node.h"

#include "autograd/observer.h"

#include <bit>

#include "utils/freelist.h"
#include "utils/trashcan.h"

namespace torchlite {

namespace {

// Recycled nodes of the smaller sizes, whatever their row: rows of equal size share a list.
constexpr int kSizeStep = 16;
constexpr int kSizes = 40;
Freelist<OpNode, 512> freelists[kSizes];

int size_index(const PyTypeObject* type) {
  int i = static_cast<int>(type->tp_basicsize / kSizeStep);
  return i < kSizes ? i : -1;
}

// Constants that hold no tensor stay: a graph that saved nothing else can be run again.
void op_node_release(Node* node) {
  OpNode* self = static_cast<OpNode*>(node);
  SavedVariable* saved = op_node_saved(self);
  size_t n = op_node_n_saved(self);
  for (size_t i = 0; i < n; ++i) {
    if (saved[i].is_none() || saved[i].is_plain()) continue;
    self->released = true;  // before a finalizer may run
    saved[i].reset();
  }
}

int op_node_traverse(Node* node, visitproc visit, void* arg) {
  OpNode* self = static_cast<OpNode*>(node);
  Edge* edges = op_node_edges(self);
  for (int i = 0; i < self->n_inputs; ++i) Py_VISIT(edges[i].function.object());
  SavedVariable* saved = op_node_saved(self);
  for (uint32_t i = 0; i < op_node_n_saved(self); ++i)
    if (int r = saved[i].traverse(visit, arg)) return r;
  return 0;
}

void op_node_clear(Node* node) {
  OpNode* self = static_cast<OpNode*>(node);
  SavedVariable* saved = op_node_saved(self);
  self->released = true;
  for (uint32_t i = 0; i < op_node_n_saved(self); ++i) saved[i].reset();
  Edge* edges = op_node_edges(self);
  for (int i = 0; i < self->n_inputs; ++i) edges[i].function.reset();
}

Gradients op_node_apply(Node* node, Gradients&& grads) {
  OpNode* self = static_cast<OpNode*>(node);
  bool record = false;
  for (const PyRef<Variable>& g : grads) record = record || (g && !g->is_volatile);
  if (self->released && self->saved_mask) buffers_freed();
  // A trace sees the gradient's operations only if they run on Variables.
  Backward b(self, grads, record && (grad_enabled || call_observer));
  if (!array_rows || !array_rows->backward(op_of(self), b)) [[likely]]
    op_of(self).row->backward(b);
  return b.take();
}

const NodeClass op_node_class = {
    .kind = NodeKind::Op,
    .apply = op_node_apply,
    .release = op_node_release,
    .edges = op_node_edges,
    .traverse = op_node_traverse,
    .clear = op_node_clear,
};

void op_node_tp_dealloc(PyObject* o) {
  OpNode* self = static_cast<OpNode*>(o);
  PyObject_GC_UnTrack(o);
  TRASHCAN_BEGIN(o, op_node_tp_dealloc);
  destroy_node(self);
  Edge* edges = op_node_edges(self);
  SavedVariable* saved = op_node_saved(self);
  uint32_t n_saved = op_node_n_saved(self);
  for (uint32_t i = 0; i < n_saved; ++i) saved[i].~SavedVariable();
  for (int i = 0; i < self->n_inputs; ++i) edges[i].~Edge();
  if (has_list(op_of(self))) {
    PyMem_Free(edges);
    PyMem_Free(saved);
  }
  int size = size_index(Py_TYPE(o));
  if (size >= 0) {
    freelists[size].put(self);
  } else {
    PyObject_GC_Del(o);
  }
  TRASHCAN_END
}

}  // namespace

PyRef<OpNode> new_op_node(const Op& op, int n_edges, int n_saved, bool requires_grad) {
  PyTypeObject* type = const_cast<PyTypeObject*>(&op.node_type);
  Edge* edge_array = nullptr;
  SavedVariable* saved_array = nullptr;
  if (has_list(op)) {
    edge_array = static_cast<Edge*>(PyMem_Malloc(sizeof(Edge) * static_cast<size_t>(n_edges + 1)));
    saved_array = static_cast<SavedVariable*>(PyMem_Malloc(sizeof(SavedVariable) * static_cast<size_t>(n_saved + 1)));
  }
  int size = size_index(type);
  OpNode* self = nullptr;
  if (!has_list(op) || (edge_array && saved_array))
    self = size >= 0 ? freelists[size].take(type) : PyObject_GC_New(OpNode, type);
  if (!self) {
    PyMem_Free(edge_array);
    PyMem_Free(saved_array);
    PyErr_Clear();  // MemoryError is set again by the guard
    throw std::bad_alloc();
  }
  construct_node(self, &op_node_class, n_edges, static_cast<uint16_t>(op.row->outputs), requires_grad);
  self->op = op.index;
  self->saved_mask = 0;
  self->variable_mask = 0;
  self->n_saved = static_cast<uint16_t>(n_saved);
  if (has_list(op)) {
    ListNode* list = static_cast<ListNode*>(self);
    list->edge_array = edge_array;
    list->saved_array = saved_array;
    list->list_saved = static_cast<uint32_t>(n_saved);
  }
  Edge* edges = op_node_edges(self);
  for (int i = 0; i < n_edges; ++i) new (&edges[i]) Edge();
  SavedVariable* saved = op_node_saved(self);
  for (int i = 0; i < n_saved; ++i) new (&saved[i]) SavedVariable();
  return PyRef<OpNode>::steal(self);
}

void init_op_node_type(Op& op) {
  size_t size = has_list(op) ? sizeof(ListNode)
                             : sizeof(OpNode) + op.max_edges * sizeof(Edge) + op.max_saved * sizeof(SavedVariable);
  size = (size + kSizeStep - 1) / kSizeStep * kSizeStep;
  auto ready = [size](PyTypeObject& type, const std::string& name) {
    type = PyTypeObject{
        .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = name.c_str(),
        .tp_basicsize = static_cast<Py_ssize_t>(size),
        .tp_dealloc = op_node_tp_dealloc,
        .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
        .tp_doc = "The backward of an operation.",
        .tp_traverse = node_tp_traverse,
        .tp_clear = node_tp_clear,
        .tp_weaklistoffset = offsetof(Node, weakrefs),
        .tp_base = &Node_Type,
    };
    check(PyType_Ready(&type));
  };
  ready(op.node_type, op.type_name);
  if (!(op.row->flags & kConstantName)) return;
  op.constant_node_type = std::make_unique<PyTypeObject>();
  ready(*op.constant_node_type, op.constant_type_name);
}

}  // namespace torchlite
