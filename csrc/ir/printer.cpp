// Text of a lambda. Locals are numbered in the order in which they are bound.
//
// Result types are left out where the operation's rule gives them: they stand behind a Python Function, and behind an
// operation that binds hidden results or whose result has a size that elements decide. Constants are printed as Python writes them; a class as
// `<module.Name>`.
#include <unordered_map>

#include "ir/infer.h"
#include "ir/ir.h"

namespace torchlite::ir {

namespace {

class Printer : public ArgVisitor<Printer, void> {
 public:
  explicit Printer(bool locations) : locations_(locations) {}

  std::string print(const Lambda* lambda) {
    PyObject* params = lambda->params.get();
    Py_ssize_t n = PyTuple_GET_SIZE(params), captured = n - PyTuple_GET_SIZE(lambda->captures.get());
    text_ = "lambda";
    for (Py_ssize_t i = 0; i < n; ++i) {
      Local* p = as<Local>(PyTuple_GET_ITEM(params, i));
      text_ += i ? ", " : " ";
      bind(p);
      text_ += std::string(i >= captured ? " = captured : " : " : ") + format_type(p->type.get());
    }
    text_ += " {\n";
    PyObject* lets = lambda->lets.get();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lets); ++i) print_let(as<Let>(PyTuple_GET_ITEM(lets, i)));
    text_ += "  Ret";
    print_list(lambda->ret->args.get(), " ");
    text_ += "\n}\n";
    return std::move(text_);
  }

  // One let alone, its locals numbered from what was printed before.
  void print_let(const Let* let) {
    text_ += "  ";
    PyObject* results = let->results.get();
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); ++k) {
      text_ += k ? ", " : "";
      bind(as<Local>(PyTuple_GET_ITEM(results, k)));
    }
    const Apply* rhs = let->rhs.get();
    text_ += " = ";
    if (rhs->op) {
      text_ += rhs->op->display_name;
    } else {
      text_ += "^" + function_name(rhs->function.get());
    }
    print_list(rhs->args.get(), " ");
    if (needs_types(let)) {
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); ++k)
        text_ += (k ? ", " : " : ") + format_type(as<Local>(PyTuple_GET_ITEM(results, k))->type.get());
    }
    if (locations_ && rhs->location) text_ += "  # " + utf8(rhs->location.get());
    text_ += "\n";
  }

  void visit_local(Local* l) { text_ += "%" + std::to_string(number(l)); }
  void visit_const(Const* c) { text_ += constant_text(c->value.get()); }
  void visit_list(PyObject* list) {
    text_ += "[";
    print_list(list, "");
    text_ += "]";
  }

 private:
  static std::string utf8(PyObject* s) {
    Py_ssize_t n;
    const char* p = PyUnicode_AsUTF8AndSize(s, &n);
    if (!p) throw PyError();
    return std::string(p, static_cast<size_t>(n));
  }
  static bool needs_types(const Let* let) {
    const Apply* rhs = let->rhs.get();
    if (rhs->op && has_open_arguments(rhs)) return true;
    if (!rhs->op) return true;
    try {
      Py_ssize_t bound = PyTuple_GET_SIZE(let->results.get());
      if (bound > visible_results(rhs, bound)) return true;
      if (!(rhs->op->row->flags & kOpenSizes)) return false;
      return has_open_size(infer_types(rhs));
    } catch (const PyError&) {
      PyErr_Clear();  // a lambda that is not well-formed is printed as well
      return true;
    }
  }

  // A constant as Python writes it.
  static std::string constant_text(PyObject* o) {
    if (PyTuple_CheckExact(o) || PyList_CheckExact(o)) {
      bool tuple = PyTuple_CheckExact(o);
      if (Py_EnterRecursiveCall(" in a constant of the IR")) throw PyError();
      struct Leave {
        ~Leave() { Py_LeaveRecursiveCall(); }
      } leave;
      std::string out = tuple ? "(" : "[";
      Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
      for (Py_ssize_t i = 0; i < n; ++i) out += (i ? ", " : "") + constant_text(PySequence_Fast_GET_ITEM(o, i));
      return out + (tuple ? n == 1 ? ",)" : ")" : "]");
    }
    if (PySlice_Check(o)) {
      auto* s = reinterpret_cast<PySliceObject*>(o);
      return "slice(" + constant_text(s->start) + ", " + constant_text(s->stop) + ", " + constant_text(s->step) + ")";
    }
    if (PyType_Check(o)) return "<" + function_name(o) + ">";
    PyRef<> text = check(PyObject_Repr(o));
    return utf8(text.get());
  }

  // "module.qualname" of a class.
  static std::string function_name(PyObject* f) {
    PyRef<> module = check(PyObject_GetAttrString(f, "__module__"));
    PyRef<> name = check(PyObject_GetAttrString(f, "__qualname__"));
    PyRef<> text = check(PyUnicode_FromFormat("%S.%S", module.get(), name.get()));
    return utf8(text.get());
  }

  void print_list(PyObject* args, const char* lead) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
      text_ += i ? ", " : lead;
      visit(PyTuple_GET_ITEM(args, i));
    }
  }
  void bind(const Local* l) {
    size_t next = numbers_.size();
    text_ += "%" + std::to_string(numbers_.emplace(l, next).first->second);
  }
  // A local that nothing bound (the checker prints such lambdas) gets a number as well.
  size_t number(const Local* l) {
    size_t next = numbers_.size();
    return numbers_.emplace(l, next).first->second;
  }

  std::string text_;
  std::unordered_map<const Local*, size_t> numbers_;
  bool locations_;
};

}  // namespace

std::string to_text(const Lambda* lambda, bool locations) { return Printer(locations).print(lambda); }

}  // namespace torchlite::ir
