#include "autograd/variable.h"

#include "autograd/function.h"
#include "autograd/observer.h"
#include "autograd/functions/accumulate_grad.h"
#include "utils/freelist.h"
#include "utils/live_objects.h"
#include "utils/trashcan.h"

namespace torchlite {

thread_local bool grad_enabled = true;
thread_local CallObserver* call_observer = nullptr;
thread_local bool discard_effects = false;

PyRef<Variable> new_constant(PyRef<Tensor> data) {
  PyRef<Variable> v = new_leaf(std::move(data));
  if (call_observer) call_observer->constant(v.get());
  return v;
}
void (*traced_variable_destroyed)(Variable*) noexcept = nullptr;
PyTypeObject* variable_class = &VariableBase_Type;

// ---- version counters ---------------------------------------------------------------------------------------------

namespace {
// Counters are recycled through a list threaded through their own memory.
union CounterSlot {
  VersionCounter counter;
  CounterSlot* next;
};
CounterSlot* free_slots = nullptr;
}  // namespace

CounterRef CounterRef::make() {
  CounterSlot* slot = free_slots;
  if (slot) {
    free_slots = slot->next;
  } else {
    slot = static_cast<CounterSlot*>(PyMem_Malloc(sizeof(CounterSlot)));
    if (!slot) throw std::bad_alloc();
  }
  slot->counter = {1, 0, 0};
  CounterRef r;
  r.p_ = &slot->counter;
  return r;
}

void CounterRef::free_counter(VersionCounter* c) noexcept {
#ifdef TORCHLITE_NO_FREELISTS
  PyMem_Free(c);
#else
  CounterSlot* slot = reinterpret_cast<CounterSlot*>(c);
  slot->next = free_slots;
  free_slots = slot;
#endif
}

CounterRef& counter_of(Variable* v) {
  if (!v->counter) {
    v->counter = CounterRef::make();
    v->counter->variables = 1;
  }
  return v->counter;
}

namespace {
void leave_counter(Variable* v) noexcept {
  if (!v->counter) return;
  --v->counter->variables;
  v->counter.drop();
}
}  // namespace

void join_version(Variable* v, Variable* source) {
  CounterRef& shared = counter_of(source);
  if (v->counter.same(shared)) return;
  leave_counter(v);
  v->counter = shared.share();
  ++v->counter->variables;
}

int version_sharers(const Variable* v) { return v->counter ? v->counter->variables : 1; }
void bump_version(Variable* v) { ++counter_of(v)->version; }

// ---- making Variables ---------------------------------------------------------------------------------------------

namespace {

Freelist<Variable, 512> freelist;

void construct(Variable* v) {
  ++live.variables;
  new (&v->data) PyRef<Tensor>();
  new (&v->grad_fn) PyRef<Node>();
  new (&v->grad) PyRef<Variable>();
  new (&v->backward_hooks) PyRef<>();
  v->accumulator = nullptr;
  new (&v->counter) CounterRef();
  v->dict = nullptr;
  v->weakrefs = nullptr;
  v->output_nr = 0;
  v->requires_grad = v->is_volatile = v->is_traced = false;
}

// An instance of `type`, tracked, without data. Never runs Python code for the registered class.
PyRef<Variable> allocate(PyTypeObject* type) {
  if (type == &VariableBase_Type || type == variable_class) {
    // The registered class adds nothing to the struct (its size says so), so its instances can be recycled.
    if (type->tp_basicsize == static_cast<Py_ssize_t>(sizeof(Variable))) {
      Variable* v = freelist.take(type);
      if (!v) throw PyError();
      construct(v);
      return PyRef<Variable>::steal(v);
    }
  }
  PyRef<> o = check(type->tp_alloc(type, 0));
  PyObject_GC_UnTrack(o.get());
  construct(as_variable(o.get()));
  return std::move(o).cast<Variable>();
}

PyRef<Variable> with_data(PyTypeObject* type, PyRef<Tensor> data) {
  PyRef<Variable> v = allocate(type);
  v->data = std::move(data);
  return v;
}

}  // namespace

PyRef<Variable> allocate_variable(PyTypeObject* type, PyRef<Tensor> data) { return with_data(type, std::move(data)); }

PyRef<Variable> new_leaf(PyRef<Tensor> data, bool requires_grad) {
  PyRef<Variable> v = with_data(variable_class, std::move(data));
  v->requires_grad = requires_grad;
  PyObject_GC_Track(v.get());
  return v;
}

PyRef<Variable> new_volatile(PyRef<Tensor> data) {
  PyRef<Variable> v = with_data(variable_class, std::move(data));
  v->is_volatile = true;
  PyObject_GC_Track(v.get());
  return v;
}

PyRef<Variable> new_interior(PyRef<Tensor> data, PyRef<Node> grad_fn, uint32_t output_nr, bool requires_grad) {
  PyRef<Variable> v = with_data(variable_class, std::move(data));
  v->grad_fn = std::move(grad_fn);
  v->output_nr = output_nr;
  v->requires_grad = requires_grad;
  PyObject_GC_Track(v.get());
  return v;
}

// ---- graph --------------------------------------------------------------------------------------------------------

PyRef<Node> gradient_edge(Variable* v) {
  if (v->grad_fn) return PyRef<Node>::borrow(v->grad_fn.get());
  if (!v->requires_grad) return {};
  if (v->accumulator) return PyRef<Node>::borrow(v->accumulator);
  return new_accumulate_grad(v);
}

void rebase_history(Variable* v, PyRef<Node> grad_fn, uint32_t output_nr, bool requires_grad, bool is_volatile) {
  if (v->accumulator) forget_leaf(v->accumulator, nullptr);
  v->requires_grad = requires_grad;
  v->is_volatile = is_volatile;
  v->output_nr = output_nr;
  // Each assignment may run Python code; the Variable is consistent before the first.
  PyRef<Node> old_fn = std::exchange(v->grad_fn, std::move(grad_fn));
  PyRef<Variable> old_grad = std::move(v->grad);
  PyRef<> old_hooks = std::move(v->backward_hooks);
}

void require_in_place(Variable* v) {
  if (!v->grad_fn && v->requires_grad && grad_enabled)
    runtime_error("a leaf Variable that requires grad has been used in an in-place operation.");
  int sharers = version_sharers(v);
  if (sharers != 1)
    runtime_error(
        "in-place operations can be only used on variables that don't share storage with any other "
        "variables, but detected that there are %d objects sharing it",
        sharers);
}

void set_grad(Variable* v, Variable* grad) {
  if (grad) {
    if (grad == v) runtime_error("can't assign Variable as its own grad");
    const Tensor *a = v->data.get(), *b = grad->data.get();
    if (a->dtype != b->dtype || (a->device() == kCPU) != (b->device() == kCPU))
      runtime_error("assigned grad has data of a different type: expected %s, but got %s", type_name(v->data.object()),
                    type_name(grad->data.object()));
    if (a->device() != b->device())
      runtime_error("assigned grad has data located on a different device: expected %d, but got %d", a->device(),
                    b->device());
    if (!(a->sizes() == b->sizes()))
      runtime_error("assigned grad has data of a different size: expected %s, but got %s",
                    format_dims(a->sizes()).c_str(), format_dims(b->sizes()).c_str());
  }
  v->grad = PyRef<Variable>::borrow(grad);
}

// ---- slots --------------------------------------------------------------------------------------------------------

int variable_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Variable* v = as_variable(o);
  Py_VISIT(v->data.object());
  Py_VISIT(v->grad_fn.object());
  Py_VISIT(v->grad.object());
  Py_VISIT(v->backward_hooks.get());
  Py_VISIT(v->dict);
  return 0;
}

int variable_tp_clear(PyObject* o) {
  Variable* v = as_variable(o);
  // The data stays (see storage_tp_clear): a Variable always has a tensor.
  v->backward_hooks.reset();
  v->grad.reset();
  v->grad_fn.reset();
  Py_CLEAR(v->dict);
  return 0;
}

namespace {

// `dealloc` is the slot that runs this. The slot of a Python class drops the instance's reference to its type; that of
// `_VariableBase` leaves it to subtype_dealloc, which calls it for instances of subclasses.
template <destructor dealloc, bool drops_type>
void destroy(PyObject* o) {
  Variable* v = as_variable(o);
  PyTypeObject* type = Py_TYPE(o);
  PyObject_GC_UnTrack(o);
  TRASHCAN_BEGIN(o, dealloc);
  if (v->weakrefs) PyObject_ClearWeakRefs(o);
  if (v->is_traced) traced_variable_destroyed(v);
  if (v->accumulator) forget_leaf(v->accumulator, v->grad && Py_REFCNT(v->grad.get()) > 1 ? v->grad.object() : nullptr);
  leave_counter(v);
  if (v->backward_hooks) v->backward_hooks.reset();
  if (v->dict) Py_CLEAR(v->dict);
  v->grad.reset();
  v->grad_fn.reset();
  v->data.reset();
  v->data.~PyRef<Tensor>();
  v->grad_fn.~PyRef<Node>();
  v->grad.~PyRef<Variable>();
  v->backward_hooks.~PyRef<>();
  v->counter.~CounterRef();
  --live.variables;
  bool heap_type = type->tp_flags & Py_TPFLAGS_HEAPTYPE;
  if (type->tp_basicsize == static_cast<Py_ssize_t>(sizeof(Variable)) && (type == variable_class || !heap_type) &&
      !type->tp_finalize) {
    freelist.put(v);
  } else {
    type->tp_free(o);
  }
  if (drops_type) Py_DECREF(type);  // refcount: an instance owns its heap type
  TRASHCAN_END
}

void variable_class_tp_dealloc(PyObject* o) {
  // A finalizer may revive the object. One of a subclass was run by subtype_dealloc.
  if (Py_TYPE(o)->tp_dealloc == variable_class_tp_dealloc && Py_TYPE(o)->tp_finalize &&
      PyObject_CallFinalizerFromDealloc(o) < 0)
    return;
  destroy<variable_class_tp_dealloc, true>(o);
}

}  // namespace

void variable_tp_dealloc(PyObject* o) { destroy<variable_tp_dealloc, false>(o); }

void shorten_dealloc(PyTypeObject* type) noexcept {
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_base == &VariableBase_Type && !type->tp_del &&
      type->tp_basicsize == static_cast<Py_ssize_t>(sizeof(Variable)))
    type->tp_dealloc = variable_class_tp_dealloc;
}

}  // namespace torchlite
