// Variable: a Tensor, its gradient and its place in the graph. The C++ object is the Python object.
//
//   leaf      grad_fn == nullptr: made by the user; its gradient is accumulated by an AccumulateGrad node
//   interior  grad_fn is the node that made it, output_nr its position among that node's results
//   volatile  a leaf for inference: whatever is computed from it is volatile and has no grad_fn
//
// References, all visited by tp_traverse: data, grad, grad_fn, hooks, dict. The accumulator is not owned: the graph
// owns it, and whichever of the two dies first clears the other's pointer.
#pragma once

#include <cstdint>

#include "tensor/tensor.h"
#include "utils/errors.h"

namespace torchlite {

struct Node;
struct AccumulateGrad;

// Note [Version counters]
// A counter is shared by the Variables that share memory: views and their base, a detached Variable and its source.
// `variables` counts the living Variables on it; saved variables hold it uncounted. In-place operations bump
// `version`; a saved variable whose version moved on can no longer be used. A Variable makes its counter when it is
// first saved, shared or written, so most temporaries never have one.
struct VersionCounter {
  int32_t references;  // all holders: Variables and saved variables
  int32_t variables;
  int64_t version;
};

class CounterRef {  // a holder's share of a counter; counted as a Variable when `as_variable`
 public:
  CounterRef() = default;
  static CounterRef make();
  CounterRef(CounterRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  CounterRef& operator=(CounterRef&& o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  CounterRef(const CounterRef&) = delete;
  ~CounterRef() { drop(); }
  CounterRef share() const {
    ++p_->references;
    CounterRef r;
    r.p_ = p_;
    return r;
  }
  void drop() noexcept {
    if (p_ && --p_->references == 0) free_counter(p_);
    p_ = nullptr;
  }
  VersionCounter* operator->() const { return p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool same(const CounterRef& o) const { return p_ == o.p_; }

 private:
  static void free_counter(VersionCounter* c) noexcept;
  VersionCounter* p_ = nullptr;
};

struct Variable : PyObject {
  PyRef<Tensor> data;
  PyRef<Node> grad_fn;
  PyRef<Variable> grad;
  PyRef<> backward_hooks;       // the dict that `_backward_hooks` was set to
  AccumulateGrad* accumulator;  // not owned
  CounterRef counter;           // empty: version 0, not shared
  PyObject* dict;
  PyObject* weakrefs;
  uint32_t output_nr;
  bool requires_grad;
  bool is_volatile;
  bool is_traced;  // a tracer knows this Variable and is told when it dies (observer.h)

  bool is_leaf() const { return !grad_fn; }
  int64_t version() const { return counter ? counter->version : 0; }
};

extern PyTypeObject VariableBase_Type;
// The Python class that results are instances of: a subclass of `_VariableBase`, set by `_autograd_init`
// (`_VariableBase` itself until then).
extern PyTypeObject* variable_class;

inline bool is_variable(PyObject* o) {
  // What is asked about is nearly always a result or a plain tensor.
  PyTypeObject* type = Py_TYPE(o);
  if (type == variable_class) return true;
  return !is_plain_tensor_type(type) && PyObject_TypeCheck(o, &VariableBase_Type);
}
inline Variable* as_variable(PyObject* o) { return static_cast<Variable*>(o); }

// ---- making Variables (instances of `variable_class`; each throws PyError) -----------------------------------------
PyRef<Variable> new_leaf(PyRef<Tensor> data, bool requires_grad = false);
PyRef<Variable> new_volatile(PyRef<Tensor> data);
// An interior Variable; requires_grad is that of `grad_fn`.
PyRef<Variable> new_interior(PyRef<Tensor> data, PyRef<Node> grad_fn, uint32_t output_nr, bool requires_grad);

// ---- version counters ---------------------------------------------------------------------------------------------
// The Variable's counter, made if it has none.
CounterRef& counter_of(Variable* v);
// `v` drops its own counter and shares that of `source`.
void join_version(Variable* v, Variable* source);
// How many Variables share the counter (1 if there is none).
int version_sharers(const Variable* v);
void bump_version(Variable* v);

// The node that a gradient of `v` flows to, or nullptr: its grad_fn, or its accumulator, made on first use.
PyRef<Node> gradient_edge(Variable* v);

// `v` becomes output `output_nr` of `grad_fn` in place (an in-place operation rebased its history): the gradient, the
// hooks and the accumulator of its old life are dropped.
void rebase_history(Variable* v, PyRef<Node> grad_fn, uint32_t output_nr, bool requires_grad, bool is_volatile);
// Throws unless `v` may be written in place: no leaf that requires grad, no other Variable on its memory.
void require_in_place(Variable* v);
// Checks type, device and size as assignment to `.grad` does, then assigns. nullptr clears.
void set_grad(Variable* v, Variable* grad);

// Whether operations record a graph on this thread (no_grad switches it off).
extern thread_local bool grad_enabled;

void init_variable(PyObject* module);

}  // namespace torchlite
