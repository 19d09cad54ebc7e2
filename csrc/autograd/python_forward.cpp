// A call of a Python Function: from Variables to tensors, through the user's forward, and back.
//
// Everything that forward asked for (mark_dirty, save_for_backward ...) is checked before the first Variable changes,
// so that a refused call leaves versions, histories and the function as they were. What forward itself wrote can't be
// taken back in general: inputs that it marked dirty before the call failed get a new version, so that nobody
// computes with a saved value that is gone. Only inputs that may not be written at all are restored
// (Note [Refused writes]).
#include <algorithm>

#include "autograd/observer.h"
#include "autograd/places.h"
#include "autograd/python_function.h"
#include "autograd/stochastic.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

struct Input {
  Variable* variable;  // kept alive by the caller's arguments
  PyRef<Tensor> tensor;
  PyRef<Tensor> snapshot;
  bool dirty = false;
};

struct Output {
  PyRef<> object;  // as forward returned it
  PyRef<Tensor> tensor;
  int input;    // the input that it is, or -1
  int earlier;  // the first output that is the same tensor, or -1
  bool differentiable = true;
  PyRef<Variable> result;
};

bool overlaps(const Tensor* a, const Tensor* b) {
  const Storage *x = a->storage.get(), *y = b->storage.get();
  if (x == y) return true;
  return x->nbytes && y->nbytes && x->data < y->data + y->nbytes && y->data < x->data + x->nbytes;
}

class ForwardCall {
 public:
  // `name` is the class in messages.
  ForwardCall(PyFunction* self, const char* name) : self_(self), name_(name) {}
  ForwardCall(const ForwardCall&) = delete;

  // Reads the arguments into the function and `tensors`, which gets what forward is called with (borrowed).
  void unpack(PyObject* const* args, Py_ssize_t n, PyObject** tensors);
  // Calls `forward()` and turns its result into Variables. Leaves the function as it was if anything fails.
  template <class F>
  PyRef<> run(F&& forward);

 private:
  // ---- checks: nothing changes
  void read_outputs(PyRef<> result);
  Output read_output(PyObject* object, size_t position);
  void check_dirty();
  void check_shared_pairs();
  void check_non_differentiable();
  void check_saved();
  // ---- changes
  void prepare_counters();
  void mark_dirty();
  void wrap(size_t i);
  void join_counters();
  void save();
  void fail() noexcept;
  void clear_pending() noexcept;

  int find_input(const Tensor* t) const;
  int find_output(const Tensor* t) const;
  Tensor* find_tensor(PyObject* o) const;

  PyFunction* self_;
  const char* name_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<std::pair<int, int>> joined_;  // input, output
  bool is_tuple_ = false;
  bool is_volatile_ = false;
  bool records_ = false;  // results have a grad_fn
  bool changed_ = false;  // versions were bumped
};

// Puts back what an input held; without allocating where its memory is one piece.
void restore(const Input& in) {
  Tensor* t = in.tensor.get();
  if (t->contiguous && t->device() == kCPU)
    std::copy_n(in.snapshot->bytes(), t->numel * itemsize(t->dtype), t->bytes());
  else copy_into(t, in.snapshot.get());
}

// ---- Note [Refused writes] --------------------------------------------------------------------------------------------
// A leaf that requires grad and a Variable whose memory others share may not be written in place. A forward usually
// writes first and calls mark_dirty then, which is too late to refuse. So the first write to such an input inside
// forward keeps a copy, and a call that fails puts it back. A forward that writes one without marking it (renormalising
// a weight, say) has its way, as ever. Writes through NumPy are not seen.
class WriteGuard : public WriteObserver {
 public:
  explicit WriteGuard(std::vector<Input>& inputs) : inputs_(inputs) {
    for (const Input& in : inputs) armed_ = armed_ || !writable(in.variable);
    if (!armed_) return;
    before_write = keep_copy;
    next = std::exchange(write_observers, this);
  }
  ~WriteGuard() { stop(); }
  void stop() noexcept {
    if (armed_) write_observers = next;
    armed_ = false;
  }

 private:
  static bool writable(const Variable* v) { return !(v->is_leaf() && v->requires_grad) && version_sharers(v) <= 1; }
  static void keep_copy(WriteObserver* observer, const Tensor* written) {
    auto* self = static_cast<WriteGuard*>(observer);
    for (Input& in : self->inputs_)
      if (!in.snapshot && !writable(in.variable) && overlaps(in.tensor.get(), written))
        in.snapshot = clone(in.tensor.get());
  }

  std::vector<Input>& inputs_;
  bool armed_ = false;
};

int ForwardCall::find_input(const Tensor* t) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].tensor.get() == t) return static_cast<int>(i);
  return -1;
}

int ForwardCall::find_output(const Tensor* t) const {
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].tensor.get() == t) return static_cast<int>(i);
  return -1;
}

// The tensor that forward means by `o`: a tensor, the array of an input, or an array that it also returns. Borrowed.
Tensor* ForwardCall::find_tensor(PyObject* o) const {
  if (is_tensor(o)) return as_tensor(o);
  for (const Output& out : outputs_)
    if (out.object.get() == o) return out.tensor.get();
  if (is_array(o))
    for (const Input& in : inputs_)
      if (in.tensor->array.get() == o) return in.tensor.get();
  return nullptr;
}

void ForwardCall::unpack(PyObject* const* args, Py_ssize_t n, PyObject** tensors) {
  if (n > UINT16_MAX) runtime_error("%.100s: at most %d arguments are supported, but got %zd", name_, UINT16_MAX, n);
  size_t count = static_cast<size_t>(n);
  std::vector<PyFunction::Argument> arguments(count);
  inputs_.reserve(count);
  bool any_grad = false;
  for (size_t i = 0; i < count; ++i) {
    PyObject* o = args[i];
    tensors[i] = o;
    if (!is_variable(o)) continue;
    Variable* v = as_variable(o);
    if (!v->data) runtime_error("%.100s: argument %zu is a Variable without data", name_, i + 1);
    arguments[i].is_variable = true;
    arguments[i].needs_grad = v->requires_grad;
    any_grad = any_grad || v->requires_grad;
    is_volatile_ = is_volatile_ || v->is_volatile;
    inputs_.push_back({v, v->data.copy(), {}});
    tensors[i] = v->data.object();
  }
  records_ = !is_volatile_ && grad_enabled;
  bool executable = records_ && any_grad;
  std::vector<Edge> next(records_ ? inputs_.size() : 0);
  if (executable)
    for (size_t i = 0; i < count; ++i)
      if (arguments[i].needs_grad) arguments[i].spec = TensorSpec(as_variable(args[i])->data.get());
  self_->arguments = std::move(arguments);
  self_->next = std::move(next);
  self_->n_inputs = static_cast<int32_t>(self_->next.size());
  self_->requires_grad = executable;
  self_->is_running = true;
  try {
    if (executable && is_stochastic(self_)) stochastic_in_use = true;
    if (records_ && stochastic_in_use)
      for (const Input& in : inputs_) keep_stochastic_input(self_, in.variable);
    if (executable)
      for (size_t i = 0; i < inputs_.size(); ++i) connect(self_, static_cast<int>(i), inputs_[i].variable);
    if (executable && cuda) note_stream(self_);
  } catch (...) {
    fail();
    throw;
  }
}

template <class F>
PyRef<> ForwardCall::run(F&& forward) {
  WriteGuard guard(inputs_);
  try {
    PyRef<> result = forward();
    guard.stop();
    read_outputs(std::move(result));
    check_dirty();
    check_shared_pairs();
    if (self_->requires_grad) {
      check_non_differentiable();
      check_saved();
    }
    prepare_counters();
    PyRef<> results = is_tuple_ ? check(PyTuple_New(static_cast<Py_ssize_t>(outputs_.size()))) : PyRef<>();
    mark_dirty();
    for (size_t i = 0; i < outputs_.size(); ++i) wrap(i);
    join_counters();
    if (self_->requires_grad) save();
    self_->n_outputs = static_cast<uint16_t>(outputs_.size());
    self_->is_running = false;
    self_->was_called = true;
    self_->is_recorded = records_;
    clear_pending();
    if (!is_tuple_) return std::move(outputs_[0].result);
    for (size_t i = 0; i < outputs_.size(); ++i)
      PyTuple_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i), outputs_[i].result.release());
    return results;
  } catch (...) {
    guard.stop();
    fail();
    throw;
  }
}

// ---- checks -----------------------------------------------------------------------------------------------------------

Output ForwardCall::read_output(PyObject* object, size_t position) {
  Output out{PyRef<>::borrow(object), {}, -1, -1, true, {}};
  if (Tensor* t = find_tensor(object)) {
    out.tensor = PyRef<Tensor>::borrow(t);
    out.input = find_input(t);
    out.earlier = find_output(t);
  } else if (is_array(object)) {
    out.tensor = tensor_from_array(object);
  } else if (PyArray_IsScalar(object, Generic)) {
    out.tensor = tensor_from_result(PyRef<>::borrow(object));
  } else {
    type_error("%.100s.forward must return a tensor or a tuple of tensors, but value %zu is of type %.100s%s", name_,
               position + 1, type_name(object),
               is_variable(object) ? " (forward works on tensors, the `data` of Variables)" : "");
  }
  return out;
}

void ForwardCall::read_outputs(PyRef<> result) {
  is_tuple_ = PyTuple_Check(result.get());
  Py_ssize_t n = is_tuple_ ? PyTuple_GET_SIZE(result.get()) : 1;
  if (n > UINT16_MAX) runtime_error("%.100s: at most %d results are supported, but got %zd", name_, UINT16_MAX, n);
  outputs_.reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = is_tuple_ ? PyTuple_GET_ITEM(result.get(), i) : result.get();
    outputs_.push_back(read_output(o, static_cast<size_t>(i)));
  }
  if (!self_->requires_grad) return;
  self_->outputs.reserve(outputs_.size());
  for (const Output& out : outputs_) self_->outputs.emplace_back(out.tensor.get());
}

// The tuple that a pending attribute must be.
PyObject* expect_tuple(const PyRef<>& value, const char* attribute) {
  if (!PyTuple_Check(value.get()))
    runtime_error("autograd internal error: %s attribute is expected to be a tuple but is %.100s", attribute,
                  type_name(value.get()));
  return value.get();
}

void ForwardCall::check_dirty() {
  if (!self_->dirty_tensors) return;
  PyObject* dirty = expect_tuple(self_->dirty_tensors, "dirty_tensors");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dirty); ++i) {
    PyObject* o = PyTuple_GET_ITEM(dirty, i);
    Tensor* t = find_tensor(o);
    if (!t) runtime_error("mark_dirty can only accept tensors, but argument %zd is of type %.100s", i, type_name(o));
    int index = find_input(t);
    if (index < 0) runtime_error("mark_dirty only accepts input tensors, but argument %zd isn't one", i);
    Input& in = inputs_[static_cast<size_t>(index)];
    if (find_output(t) < 0)
      runtime_error(
          "%.100s: argument %zd of mark_dirty is not among the results of forward: a tensor that forward "
          "modifies must be returned",
          name_, i);
    require_in_place(in.variable);
    in.dirty = true;
  }
}

void ForwardCall::check_shared_pairs() {
  if (!self_->shared_pairs) return;
  PyObject* pairs = expect_tuple(self_->shared_pairs, "shared_pairs");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(pairs); ++i) {
    PyObject* pair = PyTuple_GET_ITEM(pairs, i);
    if (!PyTuple_Check(pair))
      runtime_error("mark_shared_storages accepts a number of pairs, but one of the arguments is of type %.100s",
                    type_name(pair));
    if (PyTuple_GET_SIZE(pair) != 2)
      runtime_error("mark_shared_storages accepts pairs, but argument %zd is a tuple of %zd elements", i,
                    PyTuple_GET_SIZE(pair));
    PyObject *a = PyTuple_GET_ITEM(pair, 0), *b = PyTuple_GET_ITEM(pair, 1);
    Tensor *source = find_tensor(a), *target = find_tensor(b);
    if (!source || !target)
      runtime_error("mark_shared_storages accepts pairs of tensors, but one of them contains %.100s and %.100s",
                    type_name(a), type_name(b));
    int input = find_input(source), output = find_output(target);
    if (input < 0 || output < 0)
      runtime_error(
          "mark_shared_storages only accepts pairs of input and output tensors, but argument %zd doesn't "
          "satify this condition",
          i);
    joined_.emplace_back(input, output);
  }
}

void ForwardCall::check_non_differentiable() {
  if (!self_->non_differentiable) return;
  PyObject* list = expect_tuple(self_->non_differentiable, "non_differentiable");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
    PyObject* o = PyTuple_GET_ITEM(list, i);
    Tensor* t = find_tensor(o);
    if (!t) runtime_error("mark_non_differentiable only accepts tensor arguments, but got %.100s", type_name(o));
    bool found = false;
    for (Output& out : outputs_) {
      if (out.tensor.get() != t) continue;
      out.differentiable = false;
      found = true;
    }
    if (found) continue;
    if (find_input(t) >= 0) runtime_error("mark_non_differentiable only accepts function outputs");
    runtime_error("mark_non_differentiable only accepts output tensors, but argument %zd isn't an output", i);
  }
}

void ForwardCall::check_saved() {
  if (!self_->to_save) return;
  PyObject* list = expect_tuple(self_->to_save, "to_save");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
    PyObject* o = PyTuple_GET_ITEM(list, i);
    if (o == Py_None) continue;
    Tensor* t = find_tensor(o);
    if (!t)
      runtime_error("save_for_backward can only save tensors, but argument %zd is of type %.100s", i, type_name(o));
    if (find_input(t) < 0 && find_output(t) < 0)
      runtime_error(
          "save_for_backward can only save input or output tensors, but argument %zd doesn't satisfy this "
          "condition",
          i);
  }
  self_->saved.reserve(static_cast<size_t>(PyTuple_GET_SIZE(list)));
}

// ---- changes ----------------------------------------------------------------------------------------------------------

// Finds the inputs whose memory a result shares, and makes every counter that is needed, which may fail for want of
// memory.
void ForwardCall::prepare_counters() {
  for (size_t j = 0; j < outputs_.size(); ++j)
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (!overlaps(inputs_[i].tensor.get(), outputs_[j].tensor.get())) continue;
      joined_.emplace_back(static_cast<int>(i), static_cast<int>(j));
      break;
    }
  for (const auto& [input, output] : joined_) counter_of(inputs_[static_cast<size_t>(input)].variable);
  for (const Input& in : inputs_)
    if (in.dirty) counter_of(in.variable);
}

void ForwardCall::mark_dirty() {
  for (const Input& in : inputs_)
    if (in.dirty) bump_version(in.variable);
  changed_ = true;
}

void ForwardCall::wrap(size_t i) {
  Output& out = outputs_[i];
  uint32_t nr = static_cast<uint32_t>(i);
  bool requires_grad = self_->requires_grad && out.differentiable && is_floating(out.tensor->dtype);
  const Input* in = out.input >= 0 ? &inputs_[static_cast<size_t>(out.input)] : nullptr;
  if (in && in->dirty && out.earlier < 0) {
    // The same Variable, moved onto this function. Without recording it keeps its history.
    Variable* v = in->variable;
    if (records_) rebase_history(v, PyRef<Node>::borrow(self_), nr, requires_grad, false);
    else if (is_volatile_) rebase_history(v, PyRef<Node>(), 0, false, true);
    out.result = PyRef<Variable>::borrow(v);
    return;
  }
  // A Variable of its own. One on an input's (or an earlier result's) memory gets its own Tensor too: tensors are
  // told apart by identity in the next call.
  PyRef<Tensor> data = in || out.earlier >= 0 ? alias(out.tensor.get()) : out.tensor.copy();
  if (is_volatile_) out.result = new_volatile(std::move(data));
  else if (!records_) out.result = new_leaf(std::move(data));
  else out.result = new_interior(std::move(data), PyRef<Node>::borrow(self_), nr, requires_grad);
  if (out.earlier >= 0) {
    Variable* first = outputs_[static_cast<size_t>(out.earlier)].result.get();
    counter_of(first);
    join_version(out.result.get(), first);
  }
}

void ForwardCall::join_counters() {
  for (const auto& [input, output] : joined_) {
    Variable* source = inputs_[static_cast<size_t>(input)].variable;
    Variable* target = outputs_[static_cast<size_t>(output)].result.get();
    if (target != source) join_version(target, source);
  }
}

void ForwardCall::save() {
  if (!self_->to_save) return;
  PyObject* list = self_->to_save.get();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
    PyObject* o = PyTuple_GET_ITEM(list, i);
    if (o == Py_None) {
      self_->saved.emplace_back();
      continue;
    }
    Tensor* t = find_tensor(o);
    int input = find_input(t);
    Variable* v = input >= 0 ? inputs_[static_cast<size_t>(input)].variable
                             : outputs_[static_cast<size_t>(find_output(t))].result.get();
    self_->saved.emplace_back(v, self_);
  }
}

void ForwardCall::clear_pending() noexcept {
  self_->to_save.reset();
  self_->dirty_tensors.reset();
  self_->shared_pairs.reset();
  self_->non_differentiable.reset();
}

// Ends a call that failed: the function is as before, and what forward wrote is put back or gets a new version.
void ForwardCall::fail() noexcept {
  ErrorGuard keep;
  PyObject* dirty = self_->dirty_tensors.get();
  if (!changed_ && dirty && PyTuple_Check(dirty)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(dirty); ++i) {
      Tensor* t = find_tensor(PyTuple_GET_ITEM(dirty, i));
      int index = t ? find_input(t) : -1;
      if (index >= 0) inputs_[static_cast<size_t>(index)].dirty = true;
    }
    for (Input& in : inputs_) {
      if (!in.dirty) continue;
      try {
        if (in.snapshot) restore(in);
        else bump_version(in.variable);
      } catch (...) {
        PyErr_Clear();  // the error that ends the call is the one to report
      }
    }
  }
  clear_pending();
  auto saved = std::exchange(self_->saved, {});
  auto next = std::exchange(self_->next, {});
  if (self_->extra) auto stochastic = std::exchange(self_->extra->stochastic_inputs, {});
  self_->outputs.clear();
  self_->arguments.clear();
  self_->n_inputs = 0;
  self_->requires_grad = false;
  self_->is_running = false;
}

// Stack space for the arguments of a call, with a spare slot in front for the callee's use.
class CallArguments {
 public:
  explicit CallArguments(size_t n) {
    if (n + 1 > kInline) heap_.resize(n + 1);
  }
  PyObject** data() { return (heap_.empty() ? inline_ : heap_.data()) + 1; }

 private:
  static constexpr size_t kInline = 10;
  PyObject* inline_[kInline];
  std::vector<PyObject*> heap_;
};

// Tells the observer what a call made: a Variable, or a tuple of them.
void observe_results(PyObject* cls, PyRef<> noted, PyObject* result) {
  PyObject* const* results = PyTuple_Check(result) ? &PyTuple_GET_ITEM(result, 0) : &result;
  Py_ssize_t n = PyTuple_Check(result) ? PyTuple_GET_SIZE(result) : 1;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!is_variable(results[i]))
      type_error("%.100s: result %zd is a %.100s: a Function that is traced must return tensors only",
                 reinterpret_cast<PyTypeObject*>(cls)->tp_name, i, type_name(results[i]));
  call_observer->after_function(cls, std::move(noted), results, n);
}

}  // namespace

PyObject* function_apply(PyObject* cls, PyObject* const* args, Py_ssize_t n, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    static PyObject* const name_backward_cls = interned("_backward_cls");
    static PyObject* const name_forward = interned("forward");
    const char* name = reinterpret_cast<PyTypeObject*>(cls)->tp_name;
    if (keywords && PyTuple_GET_SIZE(keywords))
      type_error("%.100s.apply takes positional arguments only, but got the keyword argument '%U'", name,
                 PyTuple_GET_ITEM(keywords, 0));
    PyRef<> backward_cls = check(PyObject_GetAttr(cls, name_backward_cls));
    if (backward_cls.get() == Py_None)
      raise(PyExc_AttributeError,
            "%.100s has no _backward_cls: it is an old-style Function (forward is an instance method), which has no "
            "apply; "
            "call an instance",
            name);
    PyRef<> ctx = check(PyObject_CallNoArgs(backward_cls.get()));
    if (!is_function(ctx.get()))
      type_error("%.100s._backward_cls must be a subclass of _FunctionBase, but makes a %.100s", name,
                 type_name(ctx.get()));
    PyFunction* self = as_function(ctx.get());
    if (self->is_running || self->is_recorded)
      runtime_error("%.100s._backward_cls must make a new instance for every call", name);
    PyRef<> forward = check(PyObject_GetAttr(cls, name_forward));
    CallArguments call_args(static_cast<size_t>(n) + 1);
    PyObject** values = call_args.data();
    values[0] = ctx.get();
    PyRef<> noted;
    if (call_observer) noted = call_observer->before_function(cls, args, n);
    ForwardCall call(self, name);
    call.unpack(args, n, values + 1);
    PyRef<> result = call.run([&] {
      Unobserved inside;
      size_t count = static_cast<size_t>(n) + 1;
      return check(PyObject_Vectorcall(forward.get(), values, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
    });
    if (call_observer && noted) observe_results(cls, std::move(noted), result.get());
    return result.release();
  });
}

// An instance of a new-style Function has no use: its forward takes a context of its own.
static void refuse_new_style(PyObject* o) {
  static PyObject* const name_is_legacy = interned("_is_legacy");
  PyRef<> legacy = PyRef<>::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(o)), name_is_legacy));
  if (!legacy) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PyError();
    PyErr_Clear();  // derived from _FunctionBase itself
  } else if (legacy.get() == Py_False) {
    runtime_error(
        "%.100s is a new-style Function (forward is a static or class method): call %.100s.apply(...), not an "
        "instance",
        type_name(o), type_name(o));
  }
}

PyObject* function_do_forward(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    static PyObject* const name_forward = interned("forward");
    PyFunction* self = as_function(o);
    const char* name = type_name(o);
    refuse_new_style(o);
    if (call_observer)
      runtime_error(
          "%.100s is an old-style Function, whose instances run once: it cannot be traced. Give it static forward and "
          "backward methods and call %.100s.apply",
          name, name);
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!is_variable(args[i])) runtime_error("expected a Variable argument, but got %.100s", type_name(args[i]));
    if (self->is_running || self->is_recorded)
      runtime_error(
          "%.100s: an instance of an old-style Function can be used once, but this one was called before: make "
          "a new instance for every call",
          name);
    CallArguments call_args(static_cast<size_t>(n) + 1);
    PyObject** values = call_args.data();
    values[0] = o;
    ForwardCall call(self, name);
    number_node(self, self->kind, 0, self->n_outputs, false);  // the instance is older than its call
    self->is_legacy = true;
    call.unpack(args, n, values + 1);
    return call
        .run([&] {
          size_t count = static_cast<size_t>(n) + 1;
          return check(
              PyObject_VectorcallMethod(name_forward, values, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
        })
        .release();
  });
}

}  // namespace torchlite
