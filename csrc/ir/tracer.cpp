#include "ir/tracer.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <unordered_map>
#include <unordered_set>

#include "autograd/observer.h"
#include "ir/infer.h"
#include "utils/method.h"

namespace torchlite::ir {

namespace {

struct TraceState {
  struct Known {
    PyRef<Local> local;
    int64_t version;  // of the Variable when it was last seen
  };

  TraceOptions options;
  std::vector<PyRef<Local>> params;
  std::vector<PyRef<Local>> captured_params;
  std::vector<PyRef<Variable>> captures;
  std::vector<PyRef<Let>> lets;
  std::unordered_map<const Variable*, Known> known;
  // Results by the node that made them: a backward that is traced unpacks Variables that died before. The nodes are
  // held, so that an address means one of them.
  struct Edges {
    PyRef<Node> node;
    std::vector<std::pair<uint32_t, PyRef<Local>>> locals;
  };
  std::unordered_map<const Node*, Edges> nodes;
  // Results that only gradients see, bound when one asks for them: result `k` of let `let`.
  struct Hidden {
    PyRef<Tensor> tensor;
    size_t let;
    int k;
    Py_ssize_t visible;  // results that the let had before any hidden one
  };
  std::unordered_map<const Tensor*, Hidden> hidden;
  std::unordered_set<const Variable*> constants;  // made of constants of the program, captured where they are used
  // Memory of traced Variables whose `data` was read: a Variable made of it would be a constant by mistake. Held, so
  // that an address means one of them.
  std::unordered_map<const Storage*, PyRef<Storage>> read;
  // Locals as they stand without history, for what runs without gradients.
  std::unordered_map<const Local*, PyRef<Local>> detached;
};

// How many frames up the code stands that is not of this package.
int level_of_caller() {
  int level = 1;
  PyRef<> frame = PyRef<>::steal(Py_XNewRef(reinterpret_cast<PyObject*>(PyEval_GetFrame())));
  for (; frame && frame.get() != Py_None; ++level) {
    PyRef<> globals = check(PyObject_GetAttrString(frame.get(), "f_globals"));
    PyObject* name = PyDict_GetItemString(globals.get(), "__name__");  // borrowed
    const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
    if (!text || std::strncmp(text, "torchlite.", 10) != 0) break;
    frame = check(PyObject_GetAttrString(frame.get(), "f_back"));
  }
  return level;
}

// With the line of Python that does it: a branch on the value goes the same way in every replay.
void warn_of_value(const char* what, const std::string& described, const char* how) {
  if (PyErr_WarnFormat(PyExc_RuntimeWarning, level_of_caller(),
                       "a traced %s (%s) is converted %s: the trace takes what Python makes of it for a constant, and "
                       "a replay takes the same branch whatever its inputs are",
                       what, described.c_str(), how) < 0)
    throw PyError();
}

// The states of one thread, innermost last.
struct Stack final : CallObserver {
  std::vector<std::unique_ptr<TraceState>> states;
  std::atomic<bool> orphaned = false;  // its thread has ended

  PyRef<> before(const Op& op, PyObject* const* args) override;
  void after(const Op& op, PyRef<> noted, PyObject* const* results, Py_ssize_t n) override;
  PyRef<> before_function(PyObject* cls, PyObject* const* args, Py_ssize_t n) override;
  void after_function(PyObject* cls, PyRef<> noted, PyObject* const* results, Py_ssize_t n) override;
  void hidden_results(const Op& op, const PyRef<Tensor>* tensors, int n) override;
  void same_value(Variable* copy, Variable* of) override;
  void constant(Variable* v) override;
  void data_read(Variable* v) override;
  void value_read(Variable* v, const char* how) override;
};

// Told of every write to a tensor on this thread; installed while a trace is recorded.
struct WriteGuard : WriteObserver {
  WriteGuard() { before_write = refuse; }
  static void refuse(WriteObserver*, const Tensor* written);
  // At the end of the list, whose other members come and go as their scopes do.
  void install() {
    WriteObserver** at = &write_observers;
    while (*at) at = &(*at)->next;
    *at = this;
    next = nullptr;
  }
  void remove() noexcept {
    for (WriteObserver** at = &write_observers; *at; at = &(*at)->next)
      if (*at == this) {
        *at = next;
        return;
      }
  }
};
thread_local WriteGuard write_guard;

// All stacks with states in them, of every thread: a Variable may die on another thread than the one that traced it.
// Guarded by the GIL.
std::vector<Stack*>& live_stacks() {
  static auto* stacks = new std::vector<Stack*>();
  return *stacks;
}

// A thread that ends inside a trace has no GIL to drop its states' references with: the next thread that enters a
// trace does that.
struct ThreadStack {
  Stack* stack = nullptr;
  ~ThreadStack() {
    if (!stack) return;
    if (stack->states.empty()) delete stack;
    else stack->orphaned.store(true);
  }
};
thread_local ThreadStack thread_stack;

Stack& this_stack() {
  if (!thread_stack.stack) thread_stack.stack = new Stack();
  return *thread_stack.stack;
}

void drop_orphans() {
  std::vector<Stack*> dead;
  for (Stack* stack : live_stacks())
    if (stack->orphaned.load()) dead.push_back(stack);
  for (Stack* stack : dead) {
    std::erase(live_stacks(), stack);
    delete stack;
  }
}

void know(TraceState& s, Variable* v, PyRef<Local> local) {
  v->is_traced = true;
  if (v->grad_fn) {
    TraceState::Edges& edges = s.nodes[v->grad_fn.get()];
    if (!edges.node) edges.node = v->grad_fn.copy();
    edges.locals.emplace_back(v->output_nr, local.copy());
  }
  s.known.insert_or_assign(v, TraceState::Known{std::move(local), v->version()});
}

// The local of the result that `v` is another Variable for, or nullptr.
Local* local_of_node(const TraceState& s, const Variable* v) {
  auto it = s.nodes.find(v->grad_fn.get());
  if (it == s.nodes.end()) return nullptr;
  for (auto& [nr, local] : it->second.locals)
    if (nr == v->output_nr) return local.get();
  return nullptr;
}

void forget_everywhere(Variable* v) noexcept {
  for (Stack* stack : live_stacks())
    for (auto& state : stack->states) {
      state->known.erase(v);
      state->constants.erase(v);
    }
}

std::string describe(const Variable* v) {
  std::string text = v->grad_fn ? "the result of " + std::string(node_name(v->grad_fn.get())) : "a leaf";
  if (!v->grad_fn && v->requires_grad) text += " that requires grad";
  return text + " of type " + format_type(type_of(v->data.get()).get());
}

Local* capture(TraceState& s, Variable* v) {
  if (s.read.contains(v->data->storage.get()))
    runtime_error(
        "an argument (%s) was made from the .data of a traced Variable, so it would be a constant of the "
        "trace. Use .detach() to cut history while tracing",
        describe(v).c_str());
  PyRef<Local> local = new_local(type_of(v->data.get()));
  Local* result = local.get();
  s.captured_params.push_back(local.copy());
  s.captures.push_back(PyRef<Variable>::borrow(v));
  know(s, v, std::move(local));
  return result;
}

// The local of a hidden result, whose let is made to bind it.
PyRef<Local> bind_hidden(TraceState& s, const TraceState::Hidden& h) {
  Let* let = s.lets[h.let].get();
  PyObject* old = let->results.get();
  Py_ssize_t visible = h.visible, n = PyTuple_GET_SIZE(old), wanted = visible + h.k + 1;
  if (n >= wanted) return PyRef<Local>::borrow(as<Local>(PyTuple_GET_ITEM(old, visible + h.k)));
  PyRef<> results = check(PyTuple_New(wanted));
  for (Py_ssize_t i = 0; i < wanted; ++i) {
    if (i < n) {
      PyTuple_SET_ITEM(results.get(), i, new_ref(PyTuple_GET_ITEM(old, i)));
      continue;
    }
    const Tensor* tensor = nullptr;
    for (auto& [t, other] : s.hidden)
      if (other.let == h.let && other.k == i - visible) tensor = t;
    PyTuple_SET_ITEM(results.get(), i, new_local(type_of(tensor)).release());
  }
  PyRef<Local> local = PyRef<Local>::borrow(as<Local>(PyTuple_GET_ITEM(results.get(), visible + h.k)));
  s.lets[h.let] = new_let(std::move(results), PyRef<Apply>::borrow(let->rhs.get()));
  return local;
}

// The local of `v`, captured if that is allowed. `op` is what uses it, for the message.
Local* local_of(TraceState& s, Variable* v, const char* op) {
  auto it = s.known.find(v);
  if (it != s.known.end()) {
    if (it->second.version != v->version())
      runtime_error(
          "%s: an argument (%s) was modified in place outside the trace: it was at version %lld when it was "
          "traced, and is at version %lld now. A view and its base cannot both be used once one of them was "
          "written: write the traced Variable that is used afterwards",
          op, describe(v).c_str(), static_cast<long long>(it->second.version), static_cast<long long>(v->version()));
    return it->second.local.get();
  }
  // A Variable that a backward made of what a node saved.
  if (Local* local = v->grad_fn ? local_of_node(s, v) : nullptr) {
    know(s, v, PyRef<Local>::borrow(local));
    return local;
  }
  if (auto hidden = s.hidden.find(v->data.get()); hidden != s.hidden.end()) {
    PyRef<Local> local = bind_hidden(s, hidden->second);
    know(s, v, local.copy());
    return local.get();  // the let owns it
  }
  if (s.constants.contains(v) || s.options.capture) return capture(s, v);
  const char* remedy = !v->grad_fn ? "Make it an input of the trace, or trace with capture=True"
                                   : "Compute it from the trace's inputs after the trace was entered, make it an "
                                     "input, or trace with capture=True";
  runtime_error("%s: an argument (%s) comes from outside the trace. %s", op, describe(v).c_str(), remedy);
}

// `v` as an argument of what runs without gradients: a replay, which may record a graph, must not let any through.
PyRef<Local> detached_local(TraceState& s, Local* local) {
  static const Op& detach = find_op("detach");
  PyRef<Local>& found = s.detached[local];
  if (!found) {
    PyRef<Local> result = new_local(local->type.copy());
    PyRef<> args = check(PyTuple_Pack(1, local)), results = check(PyTuple_Pack(1, result.object()));
    s.lets.push_back(new_let(std::move(results), new_cpp_apply(detach, std::move(args), {})));
    found = std::move(result);
  }
  return found.copy();
}

// Argument `a` of a call as an argument of the IR.
PyRef<> ir_argument(TraceState& s, PyObject* a, const char* op) {
  if (!is_variable(a)) return new_const(a);
  Local* local = local_of(s, as_variable(a), op);
  if (!grad_enabled && as_variable(a)->requires_grad) return detached_local(s, local);
  return PyRef<Local>::borrow(local);
}

PyRef<> ir_arguments(TraceState& s, PyObject* const* args, Py_ssize_t n, int list_index, const char* op) {
  PyRef<> out = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (i == list_index) {
      Py_ssize_t count = PyTuple_GET_SIZE(args[i]);
      PyRef<> list = check(PyTuple_New(count));
      for (Py_ssize_t k = 0; k < count; ++k)
        PyTuple_SET_ITEM(list.get(), k, ir_argument(s, PyTuple_GET_ITEM(args[i], k), op).release());
      PyTuple_SET_ITEM(out.get(), i, list.release());
    } else {
      PyTuple_SET_ITEM(out.get(), i, ir_argument(s, args[i], op).release());
    }
  }
  return out;
}

// "file:line in function" of the Python code that runs, or empty.
PyRef<> current_location() {
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return {};
  PyRef<> code = PyRef<>::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
  PyRef<> file = check(PyObject_GetAttrString(code.get(), "co_filename"));
  PyRef<> name = check(PyObject_GetAttrString(code.get(), "co_name"));
  return check(PyUnicode_FromFormat("%U:%d in %U", file.get(), PyFrame_GetLineNumber(frame), name.get()));
}

void bind(TraceState& s, PyRef<Apply> rhs, PyObject* const* results, Py_ssize_t n) {
  PyRef<> locals = check(PyTuple_New(n));
  for (Py_ssize_t k = 0; k < n; ++k) {
    Variable* v = as_variable(results[k]);
    PyRef<Local> local = new_local(type_of(v->data.get()));
    PyTuple_SET_ITEM(locals.get(), k, new_ref(local.get()));
    know(s, v, std::move(local));
  }
  s.lets.push_back(new_let(std::move(locals), std::move(rhs)));
}

// An in-place operation keeps the type of what it writes; what it computes may have another.
PyRef<Apply> in_written_type(TraceState& s, PyRef<Apply> rhs, const Variable* written) {
  static const Op& cast = find_op("cast");
  if (!(rhs->op->row->flags & (kInPlace | kInPlaceOnly))) return rhs;
  TypeInfos types = infer_types(rhs.get());
  if (types.size() != 1 || types[0].dtype == written->data->dtype) return rhs;
  PyRef<Local> computed = new_local(new_type(types[0].dtype, types[0].device, types[0].sizes));
  PyRef<> results = check(PyTuple_Pack(1, computed.object()));
  PyRef<> number = check(PyLong_FromLong(static_cast<long>(written->data->dtype)));
  PyRef<Const> type = new_const(number.get());
  PyRef<> args = check(PyTuple_Pack(2, computed.object(), type.object())), location = rhs->location.copy();
  s.lets.push_back(new_let(std::move(results), std::move(rhs)));
  return new_cpp_apply(cast, std::move(args), std::move(location));
}

const char* class_name(PyObject* cls) { return reinterpret_cast<PyTypeObject*>(cls)->tp_name; }

}  // namespace

// A write by the methods of a tensor is nothing that a trace could record. Those of a call that is recorded come
// unobserved.
void WriteGuard::refuse(WriteObserver*, const Tensor* written) {
  if (!call_observer) return;
  for (auto& state : this_stack().states)
    for (auto& [v, known] : state->known)
      if (v->data->storage.get() == written->storage.get())
        runtime_error("a tensor of the trace (%s) is written behind its back: write the Variable itself, not its .data",
                      describe(v).c_str());
}

// What is noted before a call: its arguments in the terms of each state, in a tuple.
PyRef<> Stack::before(const Op& op, PyObject* const* args) {
  PyRef<> noted = check(PyTuple_New(static_cast<Py_ssize_t>(states.size())));
  for (size_t i = 0; i < states.size(); ++i)
    PyTuple_SET_ITEM(
        noted.get(), static_cast<Py_ssize_t>(i),
        ir_arguments(*states[i], args, static_cast<Py_ssize_t>(op.params.size()), op.list_index, op.name.c_str())
            .release());
  return noted;
}

void Stack::after(const Op& op, PyRef<> noted, PyObject* const* results, Py_ssize_t n) {
  for (size_t i = 0; i < states.size() && static_cast<Py_ssize_t>(i) < PyTuple_GET_SIZE(noted.get()); ++i) {
    TraceState& s = *states[i];
    PyRef<> location = s.options.locations ? current_location() : PyRef<>();
    PyRef<> arguments = PyRef<>::borrow(PyTuple_GET_ITEM(noted.get(), static_cast<Py_ssize_t>(i)));
    PyRef<Apply> rhs = new_cpp_apply(op, std::move(arguments), std::move(location));
    if (n == 1) rhs = in_written_type(s, std::move(rhs), as_variable(results[0]));
    bind(s, std::move(rhs), results, n);
  }
}

void Stack::hidden_results(const Op&, const PyRef<Tensor>* tensors, int n) {
  for (auto& state : states) {
    size_t let = state->lets.size() - 1;
    Py_ssize_t visible = PyTuple_GET_SIZE(state->lets[let]->results.get());
    for (int k = 0; k < n; ++k)
      if (tensors[k])
        state->hidden.insert_or_assign(tensors[k].get(), TraceState::Hidden{tensors[k].copy(), let, k, visible});
  }
}

void Stack::same_value(Variable* copy, Variable* of) {
  for (auto& state : states) {
    auto it = state->known.find(of);
    if (it != state->known.end()) know(*state, copy, it->second.local.copy());
  }
}

void Stack::constant(Variable* v) {
  v->is_traced = true;
  for (auto& state : states) state->constants.insert(v);
}

void Stack::data_read(Variable* v) {
  const PyRef<Storage>& storage = v->data->storage;
  for (auto& state : states)
    if (state->known.contains(v)) state->read.emplace(storage.get(), storage.copy());
}

void Stack::value_read(Variable* v, const char* how) {
  for (auto& state : states)
    if (state->known.contains(v)) return warn_of_value("Variable", describe(v), how);
}

PyRef<> Stack::before_function(PyObject* cls, PyObject* const* args, Py_ssize_t n) {
  PyRef<> noted = check(PyTuple_New(static_cast<Py_ssize_t>(states.size())));
  for (size_t i = 0; i < states.size(); ++i)
    PyTuple_SET_ITEM(noted.get(), static_cast<Py_ssize_t>(i),
                     ir_arguments(*states[i], args, n, -1, class_name(cls)).release());
  return noted;
}

void Stack::after_function(PyObject* cls, PyRef<> noted, PyObject* const* results, Py_ssize_t n) {
  for (size_t i = 0; i < states.size() && static_cast<Py_ssize_t>(i) < PyTuple_GET_SIZE(noted.get()); ++i) {
    PyRef<> location = states[i]->options.locations ? current_location() : PyRef<>();
    PyRef<> arguments = PyRef<>::borrow(PyTuple_GET_ITEM(noted.get(), static_cast<Py_ssize_t>(i)));
    bind(*states[i], new_py_apply(PyRef<>::borrow(cls), std::move(arguments), std::move(location)), results, n);
  }
}

// The elements of `data` of a traced Variable are those of the Variable.
void tensor_read(const Tensor* t, const char* how) {
  if (!call_observer) return;
  for (auto& state : this_stack().states)
    if (state->read.contains(t->storage.get()))
      return warn_of_value("Variable's .data", format_type(type_of(t).get()), how);
}

void tracer_enter(PyObject* inputs, TraceOptions options) {
  if (!PyTuple_Check(inputs)) runtime_error("inputs argument is expected to be a tuple, but got %s", type_name(inputs));
  auto state = std::make_unique<TraceState>();
  state->options = options;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    if (!is_variable(o)) runtime_error("element %zd of input tuple is not a Variable", i);
    Variable* v = as_variable(o);
    if (state->known.contains(v))
      runtime_error(
          "element %zd of input tuple is the same Variable as an earlier one: give each parameter a Variable "
          "of its own, such as Variable(v.data)",
          i);
    PyRef<Local> local = new_local(type_of(v->data.get()));
    state->params.push_back(local.copy());
    know(*state, v, std::move(local));
  }
  drop_orphans();
  if (this_stack().states.empty()) write_guard.install();
  read_observer = tensor_read;
  Stack& stack = this_stack();
  stack.states.reserve(stack.states.size() + 1);  // nothing fails once the stack counts as live
  if (stack.states.empty()) live_stacks().push_back(&stack);
  stack.states.push_back(std::move(state));
  call_observer = &stack;
}

namespace {

std::unique_ptr<TraceState> pop() noexcept {
  Stack& stack = this_stack();
  std::unique_ptr<TraceState> state = std::move(stack.states.back());
  stack.states.pop_back();
  if (stack.states.empty()) {
    call_observer = nullptr;
    write_guard.remove();
    read_observer = nullptr;
    std::erase(live_stacks(), &stack);
  }
  return state;
}

template <class T>
PyRef<> to_tuple(std::vector<PyRef<T>>& items) {
  PyRef<> tuple = check(PyTuple_New(static_cast<Py_ssize_t>(items.size())));
  for (size_t i = 0; i < items.size(); ++i)
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), items[i].release_object());
  return tuple;
}

}  // namespace

PyRef<Lambda> tracer_exit(PyObject* outputs) {
  if (this_stack().states.empty()) runtime_error("attempting to exit trace, but none exist");
  std::unique_ptr<TraceState> s = pop();
  if (!PyTuple_Check(outputs))
    runtime_error("outputs argument is expected to be a tuple, but got %s", type_name(outputs));
  Py_ssize_t n = PyTuple_GET_SIZE(outputs);
  PyRef<> ret = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(outputs, i);
    if (!is_variable(o)) runtime_error("element %zd of output tuple is not a Variable", i);
    if (!s->options.capture && !s->known.contains(as_variable(o)))
      runtime_error(
          "element %zd of outputs was not traced: it is %s, which no traced operation made. Compute it from "
          "the trace's inputs, or trace with capture=True",
          i, describe(as_variable(o)).c_str());
    PyTuple_SET_ITEM(ret.get(), i, new_ref(local_of(*s, as_variable(o), "the end of the trace")));
  }
  for (PyRef<Local>& p : s->captured_params) s->params.push_back(std::move(p));
  PyRef<Lambda> lambda =
      new_lambda(to_tuple(s->params), to_tuple(s->captures), to_tuple(s->lets), new_locals(std::move(ret)));
  check_lambda(lambda.get());
  return lambda;
}

bool tracer_abort() noexcept {
  if (this_stack().states.empty()) return false;
  pop();
  return true;
}

int tracer_depth() { return static_cast<int>(this_stack().states.size()); }

Local* trace_local(Variable* v) {
  if (this_stack().states.empty()) return nullptr;
  auto& known = this_stack().states.back()->known;
  auto it = known.find(v);
  return it == known.end() ? nullptr : it->second.local.get();
}

// ---- functions of the module ----------------------------------------------------------------------------------------

namespace {

PyObject* py_tracer_enter(PyObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"inputs", "capture", "locations", nullptr};
    PyObject* inputs;
    int capture = 0, locations = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|pp:_tracer_enter", const_cast<char**>(names), &inputs, &capture,
                                     &locations))
      throw PyError();
    tracer_enter(inputs, {capture != 0, locations != 0});
    return none();
  });
}

PyObject* py_tracer_exit(PyObject*, PyObject* outputs) {
  return guard([&]() -> PyObject* { return tracer_exit(outputs).release(); });
}

PyObject* py_tracer_abort(PyObject*, PyObject*) { return PyBool_FromLong(tracer_abort()); }
PyObject* py_is_tracing(PyObject*, PyObject*) { return PyBool_FromLong(call_observer != nullptr); }
PyObject* py_tracer_depth(PyObject*, PyObject*) { return PyLong_FromLong(tracer_depth()); }

PyObject* py_trace_local(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_variable(o)) type_error("_trace_local: argument 'variable' must be a Variable, not %.100s", type_name(o));
    Local* local = trace_local(as_variable(o));
    return local ? new_ref(local) : none();
  });
}

PyMethodDef functions[] = {
    {"_tracer_enter", method(py_tracer_enter), METH_VARARGS | METH_KEYWORDS,
     "_tracer_enter(inputs, capture=False, locations=False)\n\nStarts to record the operations of this thread on "
     "Variables. The Variables of the tuple `inputs` are the parameters. One from elsewhere is an error, or with "
     "`capture` a further parameter that the lambda carries bound."},
    {"_tracer_exit", py_tracer_exit, METH_O,
     "_tracer_exit(outputs) -> Lambda\n\nEnds the innermost trace, which returns the Variables of the tuple."},
    {"_tracer_abort", py_tracer_abort, METH_NOARGS, "Drops the innermost trace; whether there was one."},
    {"_tracer_depth", py_tracer_depth, METH_NOARGS, "Number of traces that this thread is recording."},
    {"_is_tracing", py_is_tracing, METH_NOARGS, "Whether the operations of this thread are being recorded now."},
    {"_trace_local", py_trace_local, METH_O, "The Local that stands for a Variable in the innermost trace, or None."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_tracer(PyObject* module) {
  traced_variable_destroyed = forget_everywhere;
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace torchlite::ir
