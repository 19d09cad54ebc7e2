// Running a row: the forward, and what autograd adds to it.
#include <bit>

#include "autograd/observer.h"
#include "autograd/ops/op_node.h"
#include "autograd/places.h"
#include "autograd/ops/sparse.h"
#include "autograd/stochastic.h"

// The steps of call_op are inlined whole: a tiny operation spends its time on calls and on passing what they share.
#define HOT [[gnu::always_inline]] inline

namespace torchlite {

namespace {

// What the Variables among the arguments ask for, and the arguments with their tensors in place. The tensors are held:
// while a kernel runs without the GIL another thread may give a Variable other data.
struct Scan {
  Scan() = default;
  Scan(const Scan&) = delete;
  ~Scan() {
    for (uint32_t left = held; left; left &= left - 1) PyRef<>::steal(raw[std::countr_zero(left)]);
  }
  PyObject* raw[kMaxParams];
  PyRef<> list;            // tuple of the tensors of a Tensor[] argument
  uint32_t variables = 0;  // arguments that are Variables (or lists of them)
  uint32_t used = 0;       // what the gradients that are needed use of the forward
  uint32_t held = 0;       // positions of `raw` with a reference of their own
  int n_variables = 0;     // counting list elements
  bool raw_tensor = false;
  bool any_grad = false;
  bool any_volatile = false;

  void add(Variable* v, uint32_t uses) {
    ++n_variables;
    if (v->requires_grad) {
      any_grad = true;
      used |= uses;
    }
    any_volatile = any_volatile || v->is_volatile;
  }
};

[[noreturn]] void mixed_arguments(const Op& op) {
  if (op.row->flags & kCompare)
    raise(PyExc_AssertionError,
          "can't compare Variable and tensor (%s): wrap the tensor in a Variable or use the Variable's .data",
          op.name.c_str());
  raise(PyExc_AssertionError,
        "%s: got Variables and tensors together; wrap the tensor in a Variable or use the Variable's .data",
        op.name.c_str());
}

[[noreturn]] void no_gradient_to(const Op& op, int i) {
  runtime_error("%s: argument '%s' requires grad, but no gradient flows to it: pass its .detach()", op.name.c_str(),
                op.params[static_cast<size_t>(i)].name.c_str());
}

[[gnu::noinline]] void scan_list(const Op& op, int i, PyObject* tuple, Scan& s) {
  Py_ssize_t n = PyTuple_GET_SIZE(tuple);
  s.list = check(PyTuple_New(n));
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* item = PyTuple_GET_ITEM(tuple, k);
    if (is_variable(item)) {
      s.variables |= 1u << i;
      s.add(as_variable(item), op.uses[i]);
      PyTuple_SET_ITEM(s.list.get(), k, new_ref(as_variable(item)->data.get()));
    } else if (is_tensor(item)) {
      s.raw_tensor = true;
      PyTuple_SET_ITEM(s.list.get(), k, new_ref(item));
    } else {
      type_error("%s: element %zd of argument '%s' must be a Variable or a tensor, not %.100s", op.name.c_str(), k,
                 op.params[static_cast<size_t>(i)].name.c_str(), type_name(item));
    }
  }
  s.raw[i] = s.list.get();
}

HOT void scan(const Op& op, PyObject* const* args, Scan& s) {
  int n = static_cast<int>(op.params.size());
  for (int i = 0; i < n; ++i) {
    PyObject* a = args[i];
    s.raw[i] = a;
    if (!((op.tensor_mask >> i) & 1)) continue;
    if (is_variable(a)) {
      Variable* v = as_variable(a);
      s.variables |= 1u << i;
      s.add(v, op.uses[i]);
      s.raw[i] = new_ref(v->data.get());
      s.held |= 1u << i;
    } else if (is_tensor(a)) {
      s.raw_tensor = true;
    } else if (i == op.list_index) {
      scan_list(op, i, a, s);
    } else if ((op.no_number_mask >> i) & 1 && a != Py_None) {
      // Parsed arguments are tensors; this is a gradient that handed on a constant.
      type_error("%s: argument '%s' must be a Variable or a tensor, not %.100s", op.name.c_str(),
                 op.params[static_cast<size_t>(i)].name.c_str(), type_name(a));
    }
  }
  if (s.variables && s.raw_tensor) mixed_arguments(op);
}

template <class F>
inline void for_each_variable(const Op& op, PyObject* const* args, uint32_t variables, F&& f) {
  int edge = 0;
  for (uint32_t left = variables; left; left &= left - 1) {
    int i = std::countr_zero(left);
    if (i == op.list_index) {
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[i]); ++k)
        f(edge++, i, as_variable(PyTuple_GET_ITEM(args[i], k)));
    } else {
      f(edge++, i, as_variable(args[i]));
    }
  }
}

OutputInfo info_of(const Tensor* t) {
  return {t->dtype, t->device(), std::vector<int64_t>(t->sizes().begin(), t->sizes().end())};
}

// What a node of this call saves. Constants that are their parameters' defaults are left out: the row has them.
HOT uint32_t saved_mask(const Op& op, PyObject* const* args, const Scan& s) {
  uint32_t mask = s.used;
  for (uint32_t left = mask & op.default_mask; left; left &= left - 1) {
    int i = std::countr_zero(left);
    if (args[i] == op.params[static_cast<size_t>(i)].default_value.get()) mask &= ~(1u << i);
  }
  return mask;
}

HOT int count_saved(const Op& op, PyObject* const* args, uint32_t mask) {
  int n = 0;
  for (uint32_t left = mask; left; left &= left - 1) ++n;  // a library call without a processor flag, as popcount
  if (op.list_index >= 0 && (mask >> op.list_index) & 1)
    n += static_cast<int>(PyTuple_GET_SIZE(args[op.list_index])) - 1;
  return n;
}

// The sizes and type of input `edge`, kept because the result has others or the row asks for them.
void keep_info(OpNode* node, int edge, const Tensor* t) {
  auto& inputs = extra(node).inputs;
  if (inputs.empty()) inputs.resize(static_cast<size_t>(node->n_inputs));
  inputs[static_cast<size_t>(edge)] = std::make_unique<OutputInfo>(info_of(t));
}

// A node for this call, its saved values still empty: the edges, and what brings gradients back to their inputs' sizes.
HOT PyRef<OpNode> record(const Op& op, PyObject* const* args, const Scan& s, const Tensor* result, uint32_t mask,
                         int n_saved) {
  PyRef<OpNode> node = new_op_node(op, s.n_variables, n_saved, true);
  node->variable_mask = static_cast<uint16_t>(s.variables);
  node->saved_mask = mask;
  bool keep_sizes = op.row->flags & kKeepSizes;
  Edge* edges = op_node_edges(node.get());
  for_each_variable(op, args, s.variables, [&](int edge, int i, Variable* v) {
    if (v->requires_grad) {
      if (op.row->no_gradient & in(i)) no_gradient_to(op, i);
      edges[edge].function = gradient_edge(v);
      edges[edge].nr = v->output_nr;
    } else if (!keep_sizes) {
      return;
    }
    const Tensor* t = v->data.get();
    if (keep_sizes || t->dtype != result->dtype || !(t->sizes() == result->sizes())) keep_info(node.get(), edge, t);
  });
  if (cuda) [[unlikely]]
    note_stream(node.get());
  return node;
}

void save_arguments(const Op& op, PyObject* const* args, OpNode* node) {
  SavedVariable* saved = op_node_saved(node);
  auto save = [&](PyObject* a) {
    if (!is_variable(a)) {
      *saved++ = SavedVariable::constant(a);
      return;
    }
    // Made in place, over an empty one: with the counter there, it cannot fail.
    counter_of(as_variable(a));
    new (saved++) SavedVariable(as_variable(a), node);
  };
  for (uint32_t left = node->saved_mask & ((1u << op.params.size()) - 1); left; left &= left - 1) {
    int i = std::countr_zero(left);
    if (i == op.list_index) {
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[i]); ++k) save(PyTuple_GET_ITEM(args[i], k));
    } else {
      save(args[i]);
    }
  }
}

// Saves what the mask says of the results; `variables[k]` is visible result k. Outputs come last, the highest first.
void save_outputs(const Op& op, OpNode* node, const Outputs& outputs, Variable* const* variables, int n_saved) {
  SavedVariable* end = op_node_saved(node) + n_saved;
  for (int k = 0; k < op.row->outputs + op.row->hidden_outputs; ++k) {
    if (!(node->saved_mask & out(k))) continue;
    *--end = k < op.row->outputs ? SavedVariable(variables[k], node) : SavedVariable::constant(outputs.v[k].object());
  }
}

// How many visible results this call has: a row may leave out its last ones (max without a dim has no indices).
int count_results(const Op& op, const Outputs& outputs) {
  int n = 1;
  while (n < op.row->outputs && outputs.v[n]) ++n;
  return n;
}

PyRef<> pack(PyRef<>* results, int n) {
  if (n == 1) return std::move(results[0]);
  PyRef<> tuple = check(PyTuple_New(n));
  for (int k = 0; k < n; ++k) PyTuple_SET_ITEM(tuple.get(), k, results[k].release());
  return tuple;
}

[[gnu::noinline]] void keep_stochastic_inputs(const Op& op, PyObject* const* args, const Scan& s, OpNode* node) {
  for_each_variable(op, args, s.variables, [&](int, int, Variable* v) { keep_stochastic_input(node, v); });
}

// The node of a call, with what it saves of the arguments; none where no graph is recorded.
struct Recorded {
  PyRef<OpNode> node;
  bool executable = false;
  uint32_t mask = 0;
  int n_saved = 0;
};

HOT void record_call(const Op& op, PyObject* const* args, const Scan& s, const Tensor* result, Recorded& r) {
  if (s.any_volatile || !grad_enabled) return;
  if (s.any_grad && op.differentiable()) {
    r.executable = true;
    r.mask = saved_mask(op, args, s);
    if (r.mask) r.n_saved = count_saved(op, args, r.mask);
    r.node = record(op, args, s, result, r.mask, r.n_saved);
    if (r.mask) save_arguments(op, args, r.node.get());
  } else if (!(op.row->flags & kLeaf)) {
    r.node = new_op_node(op, s.n_variables, 0, false);
  }
  if (r.node) name_op_node(op, r.node.get(), s.variables);
  if (stochastic_in_use && r.node) keep_stochastic_inputs(op, args, s, r.node.get());
}

// Result `k` as a Variable; it shares the version of argument 0 where it shares its memory.
HOT PyRef<Variable> make_result(const Op& op, PyObject* const* args, const Scan& s, PyRef<Tensor> data,
                                const Recorded& r, int k) {
  const Storage* source = (s.variables & 1) && 0 != op.list_index ? as_variable(args[0])->data->storage.get() : nullptr;
  bool shares = data->storage.get() == source;
  PyRef<Variable> v;
  if (s.any_volatile) {
    v = new_volatile(std::move(data));
  } else if (!r.node) {
    v = new_leaf(std::move(data));
  } else {
    bool differentiable = r.executable && !((op.row->non_differentiable >> k) & 1) && is_floating(data->dtype);
    v = new_interior(std::move(data), PyRef<Node>::borrow(r.node.get()), static_cast<uint32_t>(k), differentiable);
  }
  if (shares) join_version(v.get(), as_variable(args[0]));
  return v;
}

// One result that nobody observes, as nearly every call has.
PyRef<> wrap_output(const Op& op, PyObject* const* args, const Scan& s, const Outputs& outputs) {
  Recorded r;
  record_call(op, args, s, outputs.v[0].get(), r);
  PyRef<Variable> v = make_result(op, args, s, PyRef<Tensor>::borrow(outputs.v[0].get()), r, 0);
  Variable* result = v.get();
  if (r.mask) save_outputs(op, r.node.get(), outputs, &result, r.n_saved);
  if (r.node) PyObject_GC_Track(r.node.get());
  return v;
}

PyRef<> wrap_outputs(const Op& op, PyObject* const* args, const Scan& s, const Outputs& outputs, PyRef<> noted) {
  if (op.row->outputs == 1 && !call_observer) return wrap_output(op, args, s, outputs);
  Recorded r;
  record_call(op, args, s, outputs.v[0].get(), r);
  int n_results = count_results(op, outputs);
  if (r.executable && op.row->outputs > 1)
    for (int k = 0; k < n_results; ++k) extra(r.node.get()).outputs.push_back(info_of(outputs.v[k].get()));
  PyRef<> results[kMaxOutputs];
  Variable* variables[kMaxOutputs] = {};
  for (int k = 0; k < n_results; ++k) {
    PyRef<Variable> v = make_result(op, args, s, PyRef<Tensor>::borrow(outputs.v[k].get()), r, k);
    variables[k] = v.get();
    results[k] = std::move(v);
  }
  // Before results are saved: what the observer knows, it is told of when that happens.
  if (call_observer && noted) {
    PyObject* made[kMaxOutputs];
    for (int k = 0; k < n_results; ++k) made[k] = results[k].get();
    call_observer->after(op, std::move(noted), made, n_results);
    if (r.executable && op.row->hidden_outputs)
      call_observer->hidden_results(op, outputs.v + op.row->outputs, op.row->hidden_outputs);
  }
  if (r.mask) save_outputs(op, r.node.get(), outputs, variables, r.n_saved);
  if (r.node) PyObject_GC_Track(r.node.get());
  return pack(results, n_results);
}

Outputs forward(const Op& op, PyObject* const* raw, Tensor* out) {
  if (sparse_class && any_sparse(op, raw)) return forward_sparse(op, raw, out);
  Call call{op, raw, out};
  return forward_of(call);
}

// The forward of an in-place call: afterwards the result is in `out`.
void forward_into(const Op& op, PyObject* const* raw, Tensor* out) {
  require_writable(out, op.in_place_name.c_str());
  Outputs result = forward(op, raw, out);
  Tensor* r = result.v[0].get();
  if (r == out) return;
  // NumPy's rule "same_kind": no fraction and no sign is lost.
  bool fits =
      is_floating(out->dtype) || (!is_floating(r->dtype) && (out->dtype != DType::Byte || r->dtype == DType::Byte));
  if (!fits)
    type_error("%s: a result of type %s cannot be written into a tensor of type %s", op.in_place_name.c_str(),
               info(r->dtype).name, info(out->dtype).name);
  if (!(r->sizes() == out->sizes()))
    runtime_error("%s: the result has size %s, but the tensor written in place has size %s", op.in_place_name.c_str(),
                  format_dims(r->sizes()).c_str(), format_dims(out->sizes()).c_str());
  copy_into(out, r);
}

// Within a call that is observed, what happens to tensors is the call's own business.
Outputs forward_unobserved(const Op& op, PyObject* const* raw) {
  Unobserved inside;
  return forward(op, raw, nullptr);
}

}  // namespace

Outputs run_forward(const Op& op, PyObject* const* args) { return forward(op, args, nullptr); }

PyRef<> call_op(const Op& op, PyObject* const* args, Outputs* hidden) {
  Scan s;
  scan(op, args, s);
  PyRef<> noted;
  if (call_observer && s.variables) noted = call_observer->before(op, args);
  Outputs outputs = noted ? forward_unobserved(op, s.raw) : forward(op, s.raw, nullptr);
  if (hidden)
    for (int k = op.row->outputs; k < op.row->outputs + op.row->hidden_outputs; ++k) hidden->v[k] = outputs.v[k].copy();
  if (s.variables) return wrap_outputs(op, args, s, outputs, std::move(noted));
  if (op.row->outputs == 1) return std::move(outputs.v[0]);
  PyRef<> results[kMaxOutputs];
  int n_results = count_results(op, outputs);
  for (int k = 0; k < n_results; ++k) results[k] = std::move(outputs.v[k]);
  return pack(results, n_results);
}

PyRef<> call_op_in_place(const Op& op, PyObject* const* args) {
  int self_index = op.self_index;
  Scan s;
  scan(op, args, s);
  PyObject* self = args[self_index];
  if (!s.variables) {
    forward_into(op, s.raw, as_tensor(self));
    return PyRef<>::borrow(self);
  }
  Variable* v = as_variable(self);
  require_in_place(v);
  PyRef<> noted;
  if (call_observer) noted = call_observer->before(op, args);
  bool executable = s.any_grad && !s.any_volatile && grad_enabled && op.differentiable();
  PyRef<OpNode> node;
  PyRef<Variable> old_value;  // what self was before it is written, where a gradient uses that
  int n_saved = 0;
  if (executable) {
    uint32_t mask = saved_mask(op, args, s);
    n_saved = count_saved(op, args, mask);
    node = record(op, args, s, v->data.get(), mask, n_saved);
    PyObject* saved_args[kMaxParams] = {};
    std::copy_n(args, op.params.size(), saved_args);
    for (size_t i = 0; i < op.params.size(); ++i) {
      if (args[i] != self || !((mask >> i) & 1)) continue;
      if (!old_value) {
        PyRef<Tensor> data = clone(v->data.get());
        old_value = v->grad_fn ? new_interior(std::move(data), PyRef<Node>::borrow(v->grad_fn.get()), v->output_nr,
                                              v->requires_grad)
                               : new_leaf(std::move(data));
        if (call_observer) call_observer->same_value(old_value.get(), v);
      }
      saved_args[i] = old_value.object();
    }
    save_arguments(op, saved_args, node.get());
  } else if (!s.any_volatile && grad_enabled) {
    node = new_op_node(op, s.n_variables, 0, false);
  }
  if (node) name_op_node(op, node.get(), s.variables);
  if (stochastic_in_use && node) keep_stochastic_inputs(op, args, s, node.get());
  counter_of(v);  // what may fail for want of memory comes before the write
  if (call_observer) {
    Unobserved inside;
    forward_into(op, s.raw, as_tensor(s.raw[self_index]));
  } else {
    forward_into(op, s.raw, as_tensor(s.raw[self_index]));
  }
  bump_version(v);
  if (grad_enabled)
    rebase_history(v, node ? PyRef<Node>::borrow(node.get()) : PyRef<Node>(), 0, executable, s.any_volatile);
  if (call_observer && noted) call_observer->after(op, std::move(noted), &self, 1);
  if (!grad_enabled) return PyRef<>::borrow(self);
  if (executable) {
    Outputs outputs;
    save_outputs(op, node.get(), outputs, &v, n_saved);
  }
  if (node) PyObject_GC_Track(node.get());
  return PyRef<>::borrow(self);
}

// ---- Value --------------------------------------------------------------------------------------------------------

Value::Value(const std::vector<Value>& list) : o_(check(PyTuple_New(static_cast<Py_ssize_t>(list.size())))) {
  for (size_t i = 0; i < list.size(); ++i)
    PyTuple_SET_ITEM(o_.get(), static_cast<Py_ssize_t>(i), new_ref(list[i].object()));
}

bool Value::is_constant() const { return !is_variable(object()) && !is_tensor(object()); }

Tensor* Value::tensor() const {
  if (is_variable(object())) return as_variable(object())->data.get();
  if (!is_tensor(object())) type_error("expected a tensor, but got %.100s", type_name(object()));
  return as_tensor(object());
}

Value Value::operator[](int i) const { return Value(PyRef<>::borrow(PyTuple_GET_ITEM(object(), i))); }

Value call_values(const Op& op, const Value* args, int n) {
  PyObject* canonical[kMaxParams];
  int total = static_cast<int>(op.params.size()), required = 0;
  for (const Param& p : op.params) required += !p.default_value;
  int spare = n - required;  // optional parameters that are given, from the left
  int k = 0;
  for (int i = 0; i < total; ++i) {
    const Param& p = op.params[static_cast<size_t>(i)];
    if (p.default_value && spare <= 0) {
      canonical[i] = p.default_value.get();
    } else {
      if (p.default_value) --spare;
      canonical[i] = args[k++].object();
    }
  }
  if (k != n) runtime_error("%s: called with %d arguments", op.row->signature, n);
  return Value(call_op(op, canonical));
}

}  // namespace torchlite
