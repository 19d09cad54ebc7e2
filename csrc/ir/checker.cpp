// check(lambda): every local is bound once and before its use, and every type is what the operation's own rule says.
#include <unordered_set>

#include "ir/infer.h"
#include "ir/ir.h"

namespace torchlite::ir {

namespace {

// The text of let `at` and its neighbours, the bad one marked.
std::string surroundings(const Lambda* lambda, Py_ssize_t at) {
  std::string text = to_text(lambda, true), out;
  // Line 0 is the header; let i is line i + 1.
  size_t start = 0;
  for (Py_ssize_t line = 0; start < text.size(); ++line) {
    size_t end = text.find('\n', start);
    if (line == 0 || (line - 1 >= at - 2 && line - 1 <= at + 2))
      out += (line - 1 == at ? "> " : "  ") + text.substr(start, end - start) + "\n";
    start = end + 1;
  }
  return out;
}

class Checker {
 public:
  explicit Checker(const Lambda* lambda) : lambda_(lambda) {}

  void run() {
    PyObject* lets = lambda_->lets.get();
    Py_ssize_t n = PyTuple_GET_SIZE(lets);
    bound_.reserve(static_cast<size_t>(n + PyTuple_GET_SIZE(lambda_->params.get())));
    bind(lambda_->params.get(), -1, "a parameter");
    check_captures();
    for (Py_ssize_t i = 0; i < n; ++i) {
      Let* let = as<Let>(PyTuple_GET_ITEM(lets, i));
      require_bound(let->rhs->args.get(), i);
      check_types(let, i);
      bind(let->results.get(), i, "the result of a let");
    }
    require_bound(lambda_->ret->args.get(), n);
  }

 private:
  [[noreturn]] void fail(Py_ssize_t at, const std::string& why) {
    runtime_error("the lambda is not well-formed: %s\n%s", why.c_str(), surroundings(lambda_, at).c_str());
  }

  void bind(PyObject* locals, Py_ssize_t at, const char* what) {
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(locals); ++k)
      if (!bound_.insert(as<Local>(PyTuple_GET_ITEM(locals, k))).second)
        fail(at, std::string(what) + " is bound a second time");
  }

  void require_bound(PyObject* args, Py_ssize_t at) {
    for_each_local(args, [&](Local* l) {
      if (!bound_.contains(l))
        fail(at, "a local of type " + format_type(l->type.get()) + " is used before it is bound");
    });
  }

  void check_captures() {
    PyObject *params = lambda_->params.get(), *captures = lambda_->captures.get();
    Py_ssize_t first = PyTuple_GET_SIZE(params) - PyTuple_GET_SIZE(captures);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(captures); ++i) {
      PyObject* c = PyTuple_GET_ITEM(captures, i);
      const Tensor* t = is_variable(c) ? as_variable(c)->data.get() : as_tensor(c);
      PyRef<TensorType> type = type_of(t);
      const TensorType* expected = as<Local>(PyTuple_GET_ITEM(params, first + i))->type.get();
      if (!same_type(type.get(), expected))
        fail(-1, "capture " + std::to_string(i) + " has type " + format_type(type.get()) + ", its parameter has type " +
                     format_type(expected));
    }
  }

  void check_types(const Let* let, Py_ssize_t at) {
    if (!let->rhs->op) return;  // only running a Python Function tells
    // Where sizes are open the rule is asked once they are known (specialize.cpp).
    if (has_open_arguments(let->rhs.get())) {
      const Op& op = *let->rhs->op;
      Py_ssize_t args = PyTuple_GET_SIZE(let->rhs->args.get());
      if (static_cast<size_t>(args) != op.params.size())
        fail(at, op.name + " takes " + std::to_string(op.params.size()) + " arguments, but is given " +
                     std::to_string(args));
      return;
    }
    TypeInfos types;
    try {
      types = infer_types(let->rhs.get());
    } catch (const PyError&) {
      // The operation's own complaint, with the place.
      PyObject *type, *value, *traceback;
      PyErr_Fetch(&type, &value, &traceback);
      PyRef<> t = PyRef<>::steal(type), v = PyRef<>::steal(value), tb = PyRef<>::steal(traceback);
      if (!t || !PyErr_GivenExceptionMatches(t.get(), PyExc_Exception) ||
          PyErr_GivenExceptionMatches(t.get(), PyExc_MemoryError)) {
        PyErr_Restore(t.release(), v.release(), tb.release());
        throw;
      }
      PyRef<> text = check(PyObject_Str(v ? v.get() : t.get()));
      fail(at, PyUnicode_AsUTF8(text.get()));
    }
    PyObject* results = let->results.get();
    size_t bound = static_cast<size_t>(PyTuple_GET_SIZE(results));
    // Hidden results are bound by gradients alone.
    size_t most = types.size() + static_cast<size_t>(let->rhs->op->row->hidden_outputs);
    if (bound < types.size() || bound > most)
      fail(at, let->rhs->op->name + " has " + std::to_string(types.size()) + " results, but " +
                   std::to_string(PyTuple_GET_SIZE(results)) + " locals are bound");
    for (size_t k = 0; k < types.size(); ++k) {
      const TensorType* given = as<Local>(PyTuple_GET_ITEM(results, static_cast<Py_ssize_t>(k)))->type.get();
      if (!fits(types[k], given)) {
        PyRef<TensorType> inferred = new_type(types[k].dtype, types[k].device, types[k].sizes);
        fail(at, "result " + std::to_string(k) + " of " + let->rhs->op->name + " has type " +
                     format_type(inferred.get()) + ", but is bound as " + format_type(given));
      }
    }
  }

  const Lambda* lambda_;
  std::unordered_set<const Local*> bound_;
};

}  // namespace

void check_lambda(const Lambda* lambda) { Checker(lambda).run(); }

}  // namespace torchlite::ir
