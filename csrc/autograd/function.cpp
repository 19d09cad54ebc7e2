#include "autograd/function.h"

#include <cstring>

#include "autograd/functions/accumulate_grad.h"
#include "autograd/hooks.h"
#include "autograd/ops/op.h"

namespace torchlite {

const NodeClass* node_classes[kNodeKinds];

uint32_t add_output(Node* self) {
  if (self->n_outputs == UINT16_MAX) runtime_error("%s: at most %d outputs are supported", node_name(self), UINT16_MAX);
  return self->n_outputs++;
}

NodeExtra& extra(Node* self) {
  if (!self->extra) {
    self->extra = new NodeExtra();
    // Others are tracked once they are whole.
    if (self->kind == NodeKind::Accumulate && !PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
  }
  return *self->extra;
}

const char* node_name(const Node* self) {
  const char* name = Py_TYPE(self)->tp_name;
  const char* dot = std::strrchr(name, '.');
  return dot ? dot + 1 : name;
}

void connect(Node* self, int i, Variable* input) {
  Edge& edge = self->edges()[i];
  edge.function = input->requires_grad ? gradient_edge(input) : PyRef<Node>();
  edge.nr = input->output_nr;
}

PyRef<Variable> zero_gradient(Node* self, int i) {
  const std::vector<OutputInfo>* outputs = self->extra ? &self->extra->outputs : nullptr;
  if (!outputs || static_cast<size_t>(i) >= outputs->size())
    runtime_error("%s: output %d has no recorded size to make a zero gradient of", node_name(self), i);
  const OutputInfo& o = (*outputs)[static_cast<size_t>(i)];
  return new_volatile(new_zeros(o.dtype, o.sizes, o.device));
}

// ---- slots --------------------------------------------------------------------------------------------------------

int node_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Node* self = as_node(o);
  if (self->extra) {
    for (const NodeExtra::PreHook& h : self->extra->pre_hooks) Py_VISIT(h.dict.get());
    Py_VISIT(self->extra->post_hooks.get());
    Py_VISIT(self->extra->stream.get());
    for (const PyRef<Node>& f : self->extra->stochastic_inputs) Py_VISIT(f.object());
  }
  return self->node_class()->traverse(self, visit, arg);
}

int node_tp_clear(PyObject* o) {
  Node* self = as_node(o);
  if (self->extra) {
    auto pre = std::move(self->extra->pre_hooks);
    self->extra->pre_hooks.clear();
    self->extra->post_hooks.reset();
    self->extra->stream.reset();
    auto stochastic = std::exchange(self->extra->stochastic_inputs, {});
  }
  self->node_class()->clear(self);
  return 0;
}

namespace {

// Inherited by every type of function that only the library makes.
PyObject* node_tp_new(PyTypeObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_RuntimeError, "Cannot construct");
  return nullptr;
}

PyObject* node_get_next_functions(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    Node* self = as_node(o);
    PyRef<> out = check(PyTuple_New(self->n_inputs));
    Edge* edges = self->edges();
    for (int i = 0; i < self->n_inputs; ++i) {
      PyObject* f = edges[i].function ? edges[i].function.object() : Py_None;
      PyRef<> nr = check(PyLong_FromUnsignedLong(edges[i].function ? edges[i].nr : 0));
      PyTuple_SET_ITEM(out.get(), i, check(PyTuple_Pack(2, f, nr.get())).release());
    }
    return out.release();
  });
}

PyObject* node_get_requires_grad(PyObject* o, void*) { return PyBool_FromLong(as_node(o)->requires_grad); }

int node_set_requires_grad(PyObject* o, PyObject* value, void*) {
  if (!value || !PyBool_Check(value)) {
    PyErr_SetString(PyExc_TypeError, "'is_executable' must be a bool");
    return -1;
  }
  as_node(o)->requires_grad = value == Py_True;
  return 0;
}

PyObject* node_get_sequence(PyObject* o, void*) { return PyLong_FromUnsignedLongLong(as_node(o)->sequence); }

PyObject* node_tp_repr(PyObject* o) {
  return PyUnicode_FromFormat("<%s object at %p>", node_name(as_node(o)), static_cast<void*>(o));
}

PyMethodDef node_methods[] = {
    {"register_hook", node_register_hook, METH_O,
     "register_hook(hook) -> handle\n\nCalls hook(grad_inputs, grad_outputs) after each run of this function; a tuple "
     "that it returns replaces grad_inputs."},
    {"_register_hook_dict", node_register_hook_dict, METH_O,
     "Calls the hooks in the Variable's `_backward_hooks` on the gradient of that output before each run."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef node_getset[] = {
    {"next_functions", node_get_next_functions, nullptr,
     "Tuple of (function or None, output number): where the gradients of the inputs flow.", nullptr},
    {"requires_grad", node_get_requires_grad, node_set_requires_grad, "Whether backward runs this function.", nullptr},
    {"_sequence_nr", node_get_sequence, nullptr, "Order of creation among all functions.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// Node itself is never instantiated; its subtypes bring their own dealloc.
void node_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  PyObject_GC_Del(o);
}

}  // namespace

PyTypeObject Node_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._functions.Node",
    .tp_basicsize = sizeof(Node),
    .tp_dealloc = node_tp_dealloc,
    .tp_repr = node_tp_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "A function in the backward graph.",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_weaklistoffset = offsetof(Node, weakrefs),
    .tp_methods = node_methods,
    .tp_getset = node_getset,
    .tp_new = node_tp_new,
};

void init_function(PyObject* module) {
  check(PyType_Ready(&Node_Type));
  check(PyModule_AddType(module, &Node_Type));
}

}  // namespace torchlite
