#include "ir/interpreter.h"

#include "ir/infer.h"

#include <algorithm>
#include <unordered_map>

#include "autograd/engine.h"
#include "autograd/observer.h"
#include "utils/method.h"

namespace torchlite::ir {

// Note [Buffer reuse]
// An operation that has an in-place form may write its result over its first tensor, if that is dead afterwards, has the
// type of the result, and nobody else can see its memory: the program alone holds the tensor, and the tensor alone its
// storage. The first two are known when the program is compiled, the others are reference counts when it runs. Inputs,
// captures and whatever was given out have other owners, so they are never written.

namespace {

class Compiler {
 public:
  explicit Compiler(Program& program) : p_(program) {}

  void run(const Lambda* lambda) {
    PyObject *params = lambda->params.get(), *lets = lambda->lets.get();
    p_.n_params = static_cast<uint32_t>(PyTuple_GET_SIZE(params));
    bind(params);
    Py_ssize_t n = PyTuple_GET_SIZE(lets);
    p_.instructions.reserve(static_cast<size_t>(n));
    for (Py_ssize_t i = 0; i < n; ++i) instruction(as<Let>(PyTuple_GET_ITEM(lets, i)));
    for_each_local(lambda->ret->args.get(), [&](Local* l) { p_.outputs.push_back(slot(l)); });
    p_.n_slots = next_;
    release_points();
  }

 private:
  void bind(PyObject* locals) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(locals); ++k)
      types_.push_back(as<Local>(PyTuple_GET_ITEM(locals, k))->type.get());
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(locals); ++k)
      if (!slots_.emplace(as<Local>(PyTuple_GET_ITEM(locals, k)), next_++).second)
        runtime_error("run: a local is bound twice: check() names it");
  }
  uint32_t slot(const Local* l) {
    auto it = slots_.find(l);
    if (it == slots_.end()) runtime_error("run: a local is used before it is bound: check() names it");
    return it->second;
  }

  Program::Operand operand(PyObject* a) {
    if (is_local(a)) return {slot(as<Local>(a)), nullptr, 0, 0};
    if (is_const(a)) return {-1, as<Const>(a)->value.get(), 0, 0};
    Program::Operand list{-2, nullptr, 0, static_cast<uint32_t>(PyTuple_GET_SIZE(a))};
    std::vector<Program::Operand> elements;
    for (uint32_t k = 0; k < list.count; ++k) elements.push_back(operand(PyTuple_GET_ITEM(a, k)));
    list.first = static_cast<uint32_t>(p_.operands.size());
    p_.operands.insert(p_.operands.end(), elements.begin(), elements.end());
    return list;
  }

  void instruction(const Let* let) {
    PyObject* args = let->rhs->args.get();
    std::vector<Program::Operand> own;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) own.push_back(operand(PyTuple_GET_ITEM(args, i)));
    Program::Instruction in{};
    in.op = let->rhs->op;
    in.function = let->rhs->function.get();
    if (in.op && own.size() != in.op->params.size())
      runtime_error("run: %s takes %zu arguments, but is given %zu", in.op->name.c_str(), in.op->params.size(),
                    own.size());
    in.first_arg = static_cast<uint32_t>(p_.operands.size());
    in.n_args = static_cast<uint32_t>(own.size());
    p_.operands.insert(p_.operands.end(), own.begin(), own.end());
    in.first_result = next_;
    in.n_results = in.n_visible = static_cast<uint32_t>(PyTuple_GET_SIZE(let->results.get()));
    if (in.op) in.n_visible = static_cast<uint32_t>(visible_results(let->rhs.get(), in.n_results));
    bind(let->results.get());
    p_.instructions.push_back(in);
  }

  // Walks backwards: the first use met of a slot is its last.
  void release_points() {
    std::vector<char> needed(p_.n_slots, 0);
    for (uint32_t s : p_.outputs) needed[s] = 1;
    std::vector<std::vector<uint32_t>> dead(p_.instructions.size());
    auto use = [&](const Program::Operand& o, std::vector<uint32_t>& list) {
      if (o.slot < 0 || needed[static_cast<size_t>(o.slot)]) return;
      needed[static_cast<size_t>(o.slot)] = 1;
      list.push_back(static_cast<uint32_t>(o.slot));
    };
    for (size_t i = p_.instructions.size(); i-- > 0;) {
      const Program::Instruction& in = p_.instructions[i];
      for (uint32_t k = 0; k < in.n_results; ++k)
        if (!needed[in.first_result + k]) dead[i].push_back(in.first_result + k);
      for (uint32_t k = 0; k < in.n_args; ++k) {
        const Program::Operand& o = p_.operands[in.first_arg + k];
        if (o.slot == -2) {
          for (uint32_t e = 0; e < o.count; ++e) use(p_.operands[o.first + e], dead[i]);
        } else {
          use(o, dead[i]);
        }
      }
    }
    for (uint32_t s = 0; s < p_.n_params; ++s)
      if (!needed[s]) p_.dead_params.push_back(s);
    for (size_t i = 0; i < dead.size(); ++i) {
      p_.instructions[i].first_dead = static_cast<uint32_t>(p_.dead.size());
      p_.instructions[i].n_dead = static_cast<uint32_t>(dead[i].size());
      p_.dead.insert(p_.dead.end(), dead[i].begin(), dead[i].end());
      p_.instructions[i].reused = reused_argument(p_.instructions[i], dead[i]);
    }
  }

  int32_t reused_argument(const Program::Instruction& in, const std::vector<uint32_t>& dead) const {
    if (!in.op || !(in.op->row->flags & kInPlace) || in.n_results != 1) return -1;
    int32_t self = in.op->self_index;
    int64_t slot = p_.operands[in.first_arg + static_cast<uint32_t>(self)].slot;
    if (slot < static_cast<int64_t>(p_.n_params) || std::find(dead.begin(), dead.end(), slot) == dead.end()) return -1;
    return same_type(types_[static_cast<size_t>(slot)], types_[in.first_result]) ? self : -1;
  }

  Program& p_;
  std::vector<const TensorType*> types_;  // by slot
  std::unordered_map<const Local*, uint32_t> slots_;
  uint32_t next_ = 0;
};

const Tensor* data_of(PyObject* o) { return is_variable(o) ? as_variable(o)->data.get() : as_tensor(o); }

void require_inputs(PyObject* params, PyObject* captures, PyObject* const* inputs, Py_ssize_t n) {
  Py_ssize_t expected = PyTuple_GET_SIZE(params) - PyTuple_GET_SIZE(captures);
  if (n != expected) runtime_error("run_forward: the lambda has %zd inputs, but got %zd", expected, n);
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (!is_variable(inputs[i]) && !is_tensor(inputs[i]))
      type_error("run_forward: input %zd must be a Variable or a tensor, not %.100s", i, type_name(inputs[i]));
    const TensorType* t = as<Local>(PyTuple_GET_ITEM(params, i))->type.get();
    const Tensor* given = data_of(inputs[i]);
    bool same = t->dtype == given->dtype && t->device == given->device() && t->ndim == given->ndim;
    for (int d = 0; same && d < t->ndim; ++d) same = t->dims[d] < 0 || t->dims[d] == given->size(d);
    if (!same) {
      PyRef<TensorType> type = type_of(given);
      runtime_error("run_forward: input %zd has type %s, but the lambda was made for %s", i,
                    format_type(type.get()).c_str(), format_type(t).c_str());
    }
  }
}

// The values of one run. `T` is what an instruction computes with: a Variable, or a plain tensor.
class Frame {
 public:
  Frame(const Program* p, bool plain) : p_(p), plain_(plain), slots_(p->n_slots) {}

  void set(uint32_t slot, PyObject* o) {
    slots_[slot] = plain_ && is_variable(o)   ? PyRef<>::borrow(as_variable(o)->data.object())
                   : plain_ || is_variable(o) ? PyRef<>::borrow(o)
                                              : PyRef<>(new_leaf(PyRef<Tensor>::borrow(as_tensor(o))));
  }

  void run() {
    for (uint32_t s : p_->dead_params) slots_[s].reset();
    for (const Program::Instruction& in : p_->instructions) {
      if (in.op) {
        apply_op(in);
      } else {
        apply_function(in);
      }
      for (uint32_t k = 0; k < in.n_dead; ++k) slots_[p_->dead[in.first_dead + k]].reset();
    }
  }

  PyRef<> results(bool volatile_results) {
    PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(p_->outputs.size())));
    for (size_t i = 0; i < p_->outputs.size(); ++i) {
      PyRef<> value = slots_[p_->outputs[i]].copy();
      if (plain_) {
        PyRef<Tensor> t = std::move(value).cast<Tensor>();
        value = volatile_results ? new_volatile(std::move(t)) : new_leaf(std::move(t));
      }
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), value.release());
    }
    return out;
  }

 private:
  PyObject* value(const Program::Operand& o, PyRef<>& keep) {
    if (o.slot >= 0) return slots_[static_cast<size_t>(o.slot)].get();
    if (o.slot == -1) return o.constant;
    keep = check(PyTuple_New(o.count));
    for (uint32_t k = 0; k < o.count; ++k) {
      PyRef<> unused;
      PyTuple_SET_ITEM(keep.get(), k, new_ref(value(p_->operands[o.first + k], unused)));
    }
    return keep.get();
  }

  void apply_op(const Program::Instruction& in) {
    PyObject* args[kMaxParams];
    PyRef<> keep;
    for (uint32_t k = 0; k < in.n_args; ++k) {
      PyRef<> list;
      args[k] = value(p_->operands[in.first_arg + k], list);
      if (list) keep = std::move(list);
    }
    uint32_t visible = in.n_visible, first_hidden = static_cast<uint32_t>(in.op->row->outputs);
    if (plain_) {
      Call call{*in.op, args, in.reused >= 0 && is_free(args[in.reused]) ? as_tensor(args[in.reused]) : nullptr};
      Outputs outputs = forward_of(call);
      for (uint32_t k = 0; k < in.n_results; ++k)
        slots_[in.first_result + k] = std::move(outputs.v[k < visible ? k : first_hidden + k - visible]);
      return;
    }
    if (in.n_results == visible) return store(in, call_op(*in.op, args));
    Outputs hidden;
    PyRef<> result = call_op(*in.op, args, &hidden);
    Program::Instruction shown = in;
    shown.n_results = visible;
    store(shown, std::move(result));
    for (uint32_t k = visible; k < in.n_results; ++k)
      slots_[in.first_result + k] = new_leaf(std::move(hidden.v[first_hidden + k - visible]));
  }

  static bool is_free(PyObject* o) {
    const Tensor* t = as_tensor(o);
    return Py_REFCNT(t) == 1 && Py_REFCNT(t->storage.object()) == 1 && t->contiguous && t->device() == kCPU;
  }

  void apply_function(const Program::Instruction& in) {
    static PyObject* const name = check(PyUnicode_InternFromString("apply")).release();
    std::vector<PyRef<>> held;
    std::vector<PyObject*> args{in.function};
    for (uint32_t k = 0; k < in.n_args; ++k) {
      PyRef<> list;
      PyObject* v = value(p_->operands[in.first_arg + k], list);
      if (plain_ && is_tensor(v)) {
        held.push_back(new_volatile(PyRef<Tensor>::borrow(as_tensor(v))));
        v = held.back().get();
      }
      args.push_back(v);
    }
    store(in, check(PyObject_VectorcallMethod(name, args.data(), args.size(), nullptr)));
  }

  void store(const Program::Instruction& in, PyRef<> result) {
    if (!PyTuple_Check(result.get())) {
      if (in.n_results != 1) wrong_count(in, 1);
      set(in.first_result, result.get());
      return;
    }
    if (PyTuple_GET_SIZE(result.get()) != in.n_results) wrong_count(in, PyTuple_GET_SIZE(result.get()));
    for (uint32_t k = 0; k < in.n_results; ++k) set(in.first_result + k, PyTuple_GET_ITEM(result.get(), k));
  }
  [[noreturn]] void wrong_count(const Program::Instruction& in, Py_ssize_t got) {
    runtime_error("run_forward: %s returned %zd results, but had %u when it was traced",
                  in.op ? in.op->name.c_str() : reinterpret_cast<PyTypeObject*>(in.function)->tp_name, got,
                  in.n_results);
  }

  const Program* p_;
  bool plain_;
  std::vector<PyRef<>> slots_;
};

// ---- Program ------------------------------------------------------------------------------------------------------

int program_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(as<Program>(o)->params.get());
  Py_VISIT(as<Program>(o)->captures.get());
  Py_VISIT(as<Program>(o)->lets.get());
  return 0;
}
int program_tp_clear(PyObject*) { return 0; }  // immutable, like the lambda

void program_tp_dealloc(PyObject* o) {
  Program* self = as<Program>(o);
  PyObject_GC_UnTrack(o);
  using Instructions = std::vector<Program::Instruction>;
  using Operands = std::vector<Program::Operand>;
  using Slots = std::vector<uint32_t>;
  self->instructions.~Instructions();
  self->operands.~Operands();
  self->dead.~Slots();
  self->dead_params.~Slots();
  self->outputs.~Slots();
  self->params.~PyRef<>();
  self->captures.~PyRef<>();
  self->lets.~PyRef<>();
  PyObject_GC_Del(o);
}

PyObject* program_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyObject* lambda;
    if (kwargs && PyDict_GET_SIZE(kwargs)) type_error("Program() takes no keyword arguments");
    if (!PyArg_ParseTuple(args, "O!:Program", &Lambda_Type, &lambda)) throw PyError();
    return compile(as<Lambda>(lambda)).release();
  });
}

PyObject* program_call(PyObject* o, PyObject* const* inputs, Py_ssize_t n) {
  return guard([&]() -> PyObject* { return run_program(as<Program>(o), inputs, n).release(); });
}

PyObject* program_run_plain(PyObject* o, PyObject* const* inputs, Py_ssize_t n) {
  return guard([&]() -> PyObject* { return run_program(as<Program>(o), inputs, n, true).release(); });
}

PyMethodDef program_methods[] = {
    {"run_plain", method(program_run_plain), METH_FASTCALL,
     "run_plain(*inputs) -> tuple\n\nrun() without a graph: the results are leaves."},
    {"run", method(program_call), METH_FASTCALL,
     "run(*inputs) -> tuple\n\nRuns the lambda on Variables or tensors, one per parameter that is not captured. The "
     "results are Variables. RuntimeError for inputs of another number, type, device or size."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject Program_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Program",
    .tp_basicsize = sizeof(Program),
    .tp_dealloc = program_tp_dealloc,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Program(lambda)\n\nA lambda compiled for the interpreter.",
    .tp_traverse = program_tp_traverse,
    .tp_clear = program_tp_clear,
    .tp_methods = program_methods,
    .tp_new = program_tp_new,
};

PyRef<Program> compile(const Lambda* lambda) {
  if (has_open_sizes(lambda))
    runtime_error("Program: the lambda has open sizes, which only inputs can tell: use run_forward");
  check_lambda(lambda);  // the kernels trust what they are called with
  Program* p = PyObject_GC_New(Program, &Program_Type);
  if (!p) throw PyError();
  new (&p->params) PyRef<>(lambda->params.copy());
  new (&p->captures) PyRef<>(lambda->captures.copy());
  new (&p->lets) PyRef<>(lambda->lets.copy());
  new (&p->instructions) std::vector<Program::Instruction>();
  new (&p->operands) std::vector<Program::Operand>();
  new (&p->dead) std::vector<uint32_t>();
  new (&p->dead_params) std::vector<uint32_t>();
  new (&p->outputs) std::vector<uint32_t>();
  p->n_params = p->n_slots = 0;
  PyRef<Program> ref = PyRef<Program>::steal(p);
  Compiler(*p).run(lambda);
  PyObject_GC_Track(p);
  return ref;
}

PyRef<> program_for(Lambda* lambda, PyObject* const* inputs, Py_ssize_t n) {
  if (!lambda->program) {
    if (has_open_sizes(lambda)) lambda->program = check(PyDict_New());
    else lambda->program = compile(lambda);
  }
  PyObject* programs = lambda->program.get();
  if (!PyDict_CheckExact(programs)) return PyRef<>::borrow(programs);
  constexpr Py_ssize_t kMost = 64;
  PyObject *params = lambda->params.get(), *captures = lambda->captures.get();
  require_inputs(params, captures, inputs, n);
  std::vector<PyRef<TensorType>> types;
  std::vector<PyObject*> borrowed;
  std::string key;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(params); ++i) {
    types.push_back(type_of(data_of(i < n ? inputs[i] : PyTuple_GET_ITEM(captures, i - n))));
    borrowed.push_back(types.back().get());
    key += format_type(types.back().get()) + ";";
  }
  PyRef<> name = check(PyUnicode_FromStringAndSize(key.data(), static_cast<Py_ssize_t>(key.size())));
  if (PyObject* found = PyDict_GetItemWithError(programs, name.get())) return PyRef<>::borrow(found);
  if (PyErr_Occurred()) throw PyError();
  PyRef<Lambda> specialized = specialize(lambda, borrowed.data());
  PyRef<Program> made = compile(specialized.get());
  if (PyDict_GET_SIZE(programs) >= kMost) PyDict_Clear(programs);
  check(PyDict_SetItem(programs, name.get(), made.object()));
  return PyRef<>::borrow(made.object());
}

PyRef<> run_program(const Program* p, PyObject* const* inputs, Py_ssize_t n, bool plain) {
  PyObject* captures = p->captures.get();
  require_inputs(p->params.get(), captures, inputs, n);
  Py_ssize_t n_captures = PyTuple_GET_SIZE(captures);
  bool any_volatile = false, any_variable = false;
  auto look = [&](PyObject* o) {
    if (!is_variable(o)) return;
    any_variable = true;
    any_volatile = any_volatile || as_variable(o)->is_volatile;
  };
  for (Py_ssize_t i = 0; i < n; ++i) look(inputs[i]);
  for (Py_ssize_t i = 0; i < n_captures; ++i) look(PyTuple_GET_ITEM(captures, i));
  // Results of a replay are what the calls themselves would give: volatile, of the graph, or without one.
  plain = plain || (!call_observer && (any_volatile || !grad_enabled || !any_variable));
  Frame frame(p, plain);
  for (Py_ssize_t i = 0; i < n; ++i) frame.set(static_cast<uint32_t>(i), inputs[i]);
  for (Py_ssize_t i = 0; i < n_captures; ++i) frame.set(static_cast<uint32_t>(n + i), PyTuple_GET_ITEM(captures, i));
  frame.run();
  return frame.results(any_volatile);
}

namespace {

PyObject* engine_run_forward(PyObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"expr", "inputs", nullptr};
    PyObject *expr, *inputs;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:run_forward", const_cast<char**>(names), &expr, &inputs))
      throw PyError();
    if (!is_lambda(expr)) runtime_error("expr argument is expected to be an Expr, but got %s", type_name(expr));
    if (!PyTuple_Check(inputs))
      runtime_error("inputs argument is expected to be a tuple, but got %s", type_name(inputs));
    PyObject* const* given = &PyTuple_GET_ITEM(inputs, 0);
    Py_ssize_t n = PyTuple_GET_SIZE(inputs);
    PyRef<> program = program_for(as<Lambda>(expr), given, n);
    return run_program(as<Program>(program.get()), given, n).release();
  });
}

PyMethodDef run_forward_def = {
    "run_forward", method(engine_run_forward), METH_VARARGS | METH_KEYWORDS,
    "run_forward(expr, inputs) -> tuple\n\nRuns a Lambda on a tuple of Variables; gradients flow through the replay. "
    "RuntimeError for inputs that differ from its parameters in number, type, device or size; where a parameter "
    "leaves a size open, for what the operations themselves refuse."};

}  // namespace

void init_interpreter(PyObject* module) {
  PyRef<> method = check(PyDescr_NewMethod(&ImperativeEngine_Type, &run_forward_def));
  check(PyDict_SetItemString(ImperativeEngine_Type.tp_dict, run_forward_def.ml_name, method.get()));
  PyType_Modified(&ImperativeEngine_Type);
  check(PyType_Ready(&Program_Type));
  check(PyModule_AddType(module, &Program_Type));
}

}  // namespace torchlite::ir
