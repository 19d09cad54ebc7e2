#include "autograd/functions/accumulate_grad.h"
#include "tensor/cuda.h"
#include "tensor/exports.h"

#include "autograd/functions/basic_ops.h"
#include "autograd/hooks.h"
#include "autograd/observer.h"
#include "autograd/ops/op.h"
#include "autograd/ops/sparse.h"
#include "utils/freelist.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

AccumulateGrad* as_accumulate(Node* n) { return static_cast<AccumulateGrad*>(n); }

// Whether nothing but `g` can reach its memory, so that it may become a `.grad` without a copy.
bool unshared(const Variable* g) {
  const Tensor* t = g->data.get();
  const Storage* s = t->storage.get();
  if (t->device() != kCPU)
    return Py_REFCNT(g) == 1 && !g->weakrefs && !t->weakrefs && t->contiguous && has_private_memory(t) &&
           s->nbytes == t->numel * itemsize(t->dtype);
  return Py_REFCNT(g) == 1 && !g->weakrefs && Py_REFCNT(t) == 1 && !t->weakrefs && !t->array && t->contiguous &&
         Py_REFCNT(s) == 1 && !s->owner && !s->readonly && s->nbytes == t->numel * itemsize(t->dtype);
}

PyRef<Tensor> copy_of(Tensor* t) {
  return is_sparse(t) ? call<"clone">(Value(PyRef<Tensor>::borrow(t))).take<Tensor>() : clone(t);
}

void add_in_place(Variable* grad, Tensor* g) {
  static const Op& add = find_op("add");
  static const Value one(1);
  PyRef<Tensor> target = grad->data.copy();  // another thread may give `grad` other data meanwhile
  PyObject* args[] = {target.object(), one.object(), g};
  if (is_sparse(target.get()) && !is_sparse(g))
    grad->data = call_op(add, args).cast<Tensor>();  // the sum has elements everywhere
  else call_op_in_place(add, args);
  bump_version(grad);
}

// Throws unless `g` may be added to `data`, which is that of `what`.
void require_matching(const Tensor* data, const Tensor* g, const char* what) {
  if (g->dtype != data->dtype)
    runtime_error("AccumulateGrad: the gradient has type %s, but %s has type %s", info(g->dtype).name, what,
                  info(data->dtype).name);
  if (!(g->sizes() == data->sizes()))
    runtime_error("AccumulateGrad: the gradient has size %s, but %s has size %s", format_dims(g->sizes()).c_str(), what,
                  format_dims(data->sizes()).c_str());
  if (g->device() != data->device())
    runtime_error("AccumulateGrad: the gradient is on %s, but %s is on %s", place_name(g->device()).c_str(), what,
                  place_name(data->device()).c_str());
}

// The living leaf: one whose memory is being freed may still stand in `variable` (its finalizers run before it leaves).
Variable* leaf_of(const AccumulateGrad* self) {
  return self->variable && Py_REFCNT(self->variable) > 0 ? self->variable : nullptr;
}

void accumulate_into_orphan(AccumulateGrad* self, const Variable* g) {
  if (!self->orphaned_grad) return;
  PyRef<> grad = weak_target(self->orphaned_grad.get());
  if (!grad) return;
  if (as_variable(grad.get())->is_volatile && g->is_volatile) add_in_place(as_variable(grad.get()), g->data.get());
}

Gradients accumulate_grad_apply(Node* node, Gradients&& grads) {
  AccumulateGrad* self = as_accumulate(node);
  PyRef<Variable> g = std::move(grads[0]);
  if (!g) return {};
  PyRef<Variable> v = PyRef<Variable>::borrow(leaf_of(self));
  if (!v) {
    accumulate_into_orphan(self, g.get());
    return {};
  }
  // The leaf's version says nothing here: only no_grad() lets it be written, and what was saved of it is checked where
  // it is used.
  if (v->grad_fn) runtime_error("leaf variable has been moved into the graph interior");
  if (v->accumulator != self) runtime_error("AccumulateGrad's variable is not bound to it");
  if (v->backward_hooks) run_variable_hooks(v->backward_hooks.get(), g);
  PyRef<Tensor> t = g->data.copy();
  require_matching(v->data.get(), t.get(), "the variable");
  PyRef<Variable> old;  // dies after the lock is given back: a finalizer may wait for another thread that wants it
  // Two threads may have this leaf in their graphs, and the additions below let go of the GIL: `.grad` is looked at
  // and written under one lock.
  static GilFriendlyMutex accumulating;
  std::lock_guard<GilFriendlyMutex> lock(accumulating);
  if (!v->grad) {
    if (call_observer && g->is_traced) {
      // Recorded as a copy, so that the trace knows `.grad`; a plain backward runs without a graph of its own.
      v->grad = call<"clone">(Value(g.copy())).take<Variable>();
    } else if (!g->is_volatile) {
      Variable* input = g.get();
      v->grad = wrap_output(copy_of(t.get()), make_identity_node(input).get(), 0, result_kind(&input, 1));
    } else {
      t.reset();
      v->grad = unshared(g.get()) ? std::move(g) : new_volatile(copy_of(g->data.copy().get()));
    }
    return {};
  }
  old = v->grad.copy();  // it may be cleared meanwhile
  require_matching(old->data.get(), t.get(), "the accumulated gradient");
  if (call_observer && g->is_traced) {
    if (!old->is_traced)
      runtime_error(
          "AccumulateGrad: a leaf had a gradient before the trace was entered, so what is added to it would depend on "
          "a value from outside: set its grad to None first");
    v->grad = (Value(old.copy()) + Value(g.copy())).take<Variable>();
  } else if (old->is_volatile) {
    add_in_place(old.get(), t.get());
  } else {
    // Out of place: a gradient with a history of its own may be in use by somebody.
    if (g->is_volatile) g = new_leaf(std::move(t));
    v->grad = (Value(old.copy()) + Value(g.copy())).take<Variable>();
  }
  return {};
}

int accumulate_grad_traverse(Node* self, visitproc visit, void* arg) {
  Py_VISIT(as_accumulate(self)->orphaned_grad.get());
  return 0;
}
void accumulate_grad_clear(Node* self) { as_accumulate(self)->orphaned_grad.reset(); }
void accumulate_grad_release(Node*) {}
Edge* accumulate_grad_edges(Node*) { return nullptr; }

const NodeClass accumulate_grad_class = {
    .kind = NodeKind::Accumulate,
    .apply = accumulate_grad_apply,
    .release = accumulate_grad_release,
    .edges = accumulate_grad_edges,
    .traverse = accumulate_grad_traverse,
    .clear = accumulate_grad_clear,
};

// A leaf whose results come and go (a parameter used without a graph that lasts) has a new accumulator each time. One
// without hooks holds nothing and is not tracked.
Freelist<AccumulateGrad, 256> freelist;

// ---- slots --------------------------------------------------------------------------------------------------------

void accumulate_grad_tp_dealloc(PyObject* o) {
  AccumulateGrad* self = as_accumulate(as_node(o));
  PyObject_GC_UnTrack(o);
  if (self->variable) self->variable->accumulator = nullptr;
  destroy_node(self);
  self->orphaned_grad.reset();
  self->orphaned_grad.~PyRef<>();
  freelist.put(self);
}

PyObject* accumulate_grad_get_variable(PyObject* o, void*) {
  Variable* v = leaf_of(as_accumulate(as_node(o)));
  return v ? new_ref(v) : none();
}

PyGetSetDef accumulate_grad_getset[] = {
    {"variable", accumulate_grad_get_variable, nullptr, "The leaf, or None if it is gone.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace

PyTypeObject AccumulateGrad_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._functions.AccumulateGrad",
    .tp_basicsize = sizeof(AccumulateGrad),
    .tp_dealloc = accumulate_grad_tp_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Adds a gradient into the `.grad` of a leaf Variable.",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_weaklistoffset = offsetof(Node, weakrefs),
    .tp_getset = accumulate_grad_getset,
    .tp_base = &Node_Type,
};

PyRef<AccumulateGrad> new_accumulate_grad(Variable* variable) {
  AccumulateGrad* self = freelist.take(&AccumulateGrad_Type);
  if (!self) throw PyError();
  if (variable->accumulator) {  // made by a finalizer that the allocation ran
    freelist.put(self);
    return PyRef<AccumulateGrad>::borrow(variable->accumulator);
  }
  construct_node(self, &accumulate_grad_class, 0, 1, true);
  // Run before any other node that is ready: gradients reach the leaves as soon as they are complete.
  self->sequence = kYoungest;
  self->variable = variable;
  new (&self->orphaned_grad) PyRef<>();
  variable->accumulator = self;
  return PyRef<AccumulateGrad>::steal(self);
}

void forget_leaf(AccumulateGrad* self, PyObject* surviving_grad) noexcept {
  self->variable->accumulator = nullptr;
  self->variable = nullptr;
  if (!surviving_grad) return;
  ErrorGuard keep;
  self->orphaned_grad = PyRef<>::steal(PyWeakref_NewRef(surviving_grad, nullptr));
  // Without memory for the reference later gradients are dropped, as if the gradient had died as well.
  if (!self->orphaned_grad) PyErr_Clear();
  if (!PyObject_GC_IsTracked(self)) PyObject_GC_Track(self);
}

void init_accumulate_grad(PyObject* functions_module) {
  check(PyType_Ready(&AccumulateGrad_Type));
  check(PyModule_AddType(functions_module, &AccumulateGrad_Type));
}

}  // namespace torchlite
