#include "autograd/functions/basic_ops.h"

#include "autograd/functions/forward_function.h"
#include "utils/trashcan.h"

namespace torchlite {

namespace {

// Identity, Error and DelayedError in one layout. An Error has one edge for each Variable that it stands behind.
struct BasicNode : Node {
  std::vector<Edge> next;
  PyRef<> message;  // str; empty for Identity
};

BasicNode* as_basic(Node* n) { return static_cast<BasicNode*>(n); }

Edge* basic_edges(Node* self) { return as_basic(self)->next.data(); }
void basic_release(Node*) {}
int basic_traverse(Node* self, visitproc visit, void* arg) {
  for (const Edge& e : as_basic(self)->next) Py_VISIT(e.function.object());
  Py_VISIT(as_basic(self)->message.get());
  return 0;
}
void basic_clear(Node* self) {
  // The message stays: a str is part of no cycle, and a node that a finalizer still sees has to be able to raise it.
  self->n_inputs = 0;
  auto next = std::exchange(as_basic(self)->next, {});
}

Gradients identity_apply(Node*, Gradients&& grads) { return std::move(grads); }
Gradients error_apply(Node* self, Gradients&&) {
  PyErr_SetObject(PyExc_RuntimeError, as_basic(self)->message.get());
  throw PyError();
}

constexpr NodeClass identity_class = {NodeKind::Identity, identity_apply, basic_release,
                                      basic_edges,        basic_traverse, basic_clear};
constexpr NodeClass error_class = {NodeKind::Error, error_apply,    basic_release,
                                   basic_edges,     basic_traverse, basic_clear};

PyRef<BasicNode> make_basic(PyTypeObject* type, const NodeClass* node_class, size_t n_inputs, size_t n_outputs,
                            bool requires_grad) {
  if (n_inputs > UINT16_MAX || n_outputs > UINT16_MAX)
    runtime_error("%s: at most %d arguments are supported", type->tp_name, UINT16_MAX);
  auto* self = reinterpret_cast<BasicNode*>(type->tp_alloc(type, 0));
  if (!self) throw PyError();
  new (&self->next) std::vector<Edge>();
  new (&self->message) PyRef<>();
  construct_node(self, node_class, 0, static_cast<uint16_t>(n_outputs), requires_grad);
  PyRef<BasicNode> ref = PyRef<BasicNode>::steal(self);
  self->next.resize(n_inputs);
  self->n_inputs = static_cast<int32_t>(n_inputs);
  return ref;
}

// ---- slots ------------------------------------------------------------------------------------------------------------

void basic_tp_dealloc(PyObject* o) {
  auto* self = as_basic(as_node(o));
  PyObject_GC_UnTrack(o);
  TRASHCAN_BEGIN(o, basic_tp_dealloc);
  destroy_node(self);
  basic_clear(self);
  std::destroy_at(&self->next);
  self->message.reset();
  std::destroy_at(&self->message);
  Py_TYPE(o)->tp_free(o);
  TRASHCAN_END
}

PyTypeObject* error_type();

PyObject* delayed_error_tp_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    static constexpr ConstantKind kMessage[] = {{"msg", ConstantKind::Text}};
    PyRef<> constants = parse_constants(kMessage, args, keywords);
    PyRef<BasicNode> self = make_basic(type, &error_class, 0, 0, false);
    self->message = PyRef<>::borrow(PyTuple_GET_ITEM(constants.get(), 0));
    return self.release();
  });
}

PyObject* delayed_error_tp_call(PyObject* o, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    std::vector<Variable*> inputs = parse_inputs(args, keywords);
    size_t n = inputs.size();
    ResultKind kind = result_kind(inputs.data(), n);
    PyRef<BasicNode> error;
    if (kind.records) {
      error = make_basic(error_type(), &error_class, n, n, kind.requires_grad);
      error->message = as_basic(as_node(o))->message.copy();
      for (size_t i = 0; i < n; ++i)
        if (inputs[i] && kind.requires_grad) connect(error.get(), static_cast<int>(i), inputs[i]);
    }
    PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (size_t i = 0; i < n; ++i) {
      PyRef<> result = none_ref();
      if (inputs[i]) {
        PyRef<Variable> v = wrap_output(alias(inputs[i]->data.get()), error.get(), static_cast<uint32_t>(i), kind);
        counter_of(inputs[i]);
        join_version(v.get(), inputs[i]);
        result = std::move(v);
      }
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), result.release());
    }
    if (n == 1) return new_ref(PyTuple_GET_ITEM(out.get(), 0));
    return out.release();
  });
}

PyTypeObject Identity_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._functions.Identity",
    .tp_basicsize = sizeof(BasicNode),
    .tp_dealloc = basic_tp_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The function of a result that equals its input; hands the gradient on.",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_base = &Node_Type,
};

PyTypeObject Error_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._functions.Error",
    .tp_basicsize = sizeof(BasicNode),
    .tp_dealloc = basic_tp_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Raises RuntimeError when backward runs it.",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_base = &Node_Type,
};

PyTypeObject* error_type() { return &Error_Type; }

PyTypeObject DelayedError_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._functions.DelayedError",
    .tp_basicsize = sizeof(BasicNode),
    .tp_dealloc = basic_tp_dealloc,
    .tp_call = delayed_error_tp_call,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "DelayedError(msg)(*variables)\n\nReturns the same values; differentiating them raises "
        "RuntimeError(msg).",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_base = &Node_Type,
    .tp_new = delayed_error_tp_new,
};

// Names of the era whose work is done by operations of the table: there are no instances.
constexpr PyTypeObject name_only(const char* name, const char* doc) {
  return {
      .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = name,
      .tp_basicsize = sizeof(Node),
      .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
      .tp_doc = doc,
      .tp_traverse = node_tp_traverse,
      .tp_clear = node_tp_clear,
      .tp_base = &Node_Type,
  };
}

PyTypeObject NameOnlyTypes[] = {
    name_only("torchlite._C._functions.Clone", "Copies its input; the result has grad_fn Identity."),
    name_only("torchlite._C._functions.Contiguous", "Makes its input contiguous; the result has grad_fn Identity."),
    name_only("torchlite._C._functions.Add", "Adds gradients; the result has grad_fn AddBackward."),
    name_only("torchlite._C._functions.Transpose", "Swaps dimensions; the result has grad_fn TransposeBackward."),
    name_only("torchlite._C._functions.View", "Gives other sizes; the result has grad_fn ViewBackward."),
    name_only("torchlite._C._functions.Expand", "Repeats without a copy; the result has grad_fn ExpandBackward."),
    name_only("torchlite._C._functions.Narrow", "Takes a part; the result has grad_fn NarrowBackward."),
    name_only("torchlite._C._functions.Cat", "Concatenates; the result has grad_fn CatBackward."),
};

}  // namespace

PyRef<Node> make_error_node(const char* message) {
  PyRef<BasicNode> node = make_basic(&Error_Type, &error_class, 0, 1, true);
  node->message = check(PyUnicode_FromString(message));
  return node;
}

PyRef<Node> make_identity_node(Variable* input) {
  PyRef<BasicNode> node = make_basic(&Identity_Type, &identity_class, 1, 1, input->requires_grad);
  if (input->requires_grad) connect(node.get(), 0, input);
  return node;
}

ResultKind result_kind(Variable* const* inputs, size_t n) {
  ResultKind kind;
  for (size_t i = 0; i < n; ++i) {
    if (!inputs[i]) continue;
    kind.is_volatile = kind.is_volatile || inputs[i]->is_volatile;
    kind.requires_grad = kind.requires_grad || inputs[i]->requires_grad;
  }
  kind.records = !kind.is_volatile && grad_enabled;
  kind.requires_grad = kind.requires_grad && kind.records;
  return kind;
}

PyRef<Variable> wrap_output(PyRef<Tensor> data, Node* node, uint32_t output_nr, const ResultKind& kind) {
  if (kind.is_volatile) return new_volatile(std::move(data));
  if (!kind.records) return new_leaf(std::move(data));
  bool requires_grad = kind.requires_grad && is_floating(data->dtype);
  return new_interior(std::move(data), PyRef<Node>::borrow(node), output_nr, requires_grad);
}

void init_basic_ops(PyObject*, PyObject* functions_module) {
  auto add = [&](PyTypeObject* type) {
    check(PyType_Ready(type));
    check(PyModule_AddType(functions_module, type));
  };
  for (PyTypeObject* type : {&Identity_Type, &Error_Type, &DelayedError_Type}) add(type);
  for (PyTypeObject& type : NameOnlyTypes) add(&type);
}

}  // namespace torchlite
