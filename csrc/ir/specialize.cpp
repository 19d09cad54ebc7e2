// Lambdas with open sizes: the inputs of a run say what they are, and the operations' own rules say the rest.
#include <unordered_map>

#include "ir/infer.h"
#include "ir/ir.h"

namespace torchlite::ir {

namespace {

bool is_open(const TensorType* t) {
  for (int64_t s : t->sizes())
    if (s < 0) return true;
  return false;
}

bool any_open(PyObject* locals) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); ++i)
    if (is_open(as<Local>(PyTuple_GET_ITEM(locals, i))->type.get())) return true;
  return false;
}

class Specializer {
 public:
  void bind(Local* open, PyRef<TensorType> type) { now_.insert_or_assign(open, new_local(std::move(type))); }

  PyRef<> locals(PyObject* old) {
    PyRef<> out = check(PyTuple_New(PyTuple_GET_SIZE(old)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(old); ++i)
      PyTuple_SET_ITEM(out.get(), i, argument(PyTuple_GET_ITEM(old, i)).release());
    return out;
  }

  PyRef<Let> let(const Let* old) {
    const Apply* rhs = old->rhs.get();
    PyRef<> args = locals(rhs->args.get());
    PyRef<Apply> made = rhs->op ? new_cpp_apply(*rhs->op, std::move(args), rhs->location.copy())
                                : new_py_apply(rhs->function.copy(), std::move(args), rhs->location.copy());
    TypeInfos types;
    if (rhs->op) types = infer_types(made.get());
    PyObject* results = old->results.get();
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(results); ++k) {
      Local* l = as<Local>(PyTuple_GET_ITEM(results, k));
      const TensorType* declared = l->type.get();
      if (!is_open(declared)) {
        bind(l, l->type.copy());  // the checker compares it with the rule
        continue;
      }
      const char* name =
          rhs->op ? rhs->op->name.c_str() : reinterpret_cast<PyTypeObject*>(rhs->function.get())->tp_name;
      if (static_cast<size_t>(k) >= types.size())
        runtime_error("run_forward: the size of result %zd of %s is open, and only running it would tell", k, name);
      const TypeInfo& t = types[static_cast<size_t>(k)];
      bool agree = t.dtype == declared->dtype && t.device == declared->device && t.ndim() == declared->ndim;
      for (int d = 0; agree && d < declared->ndim; ++d)
        agree = declared->dims[d] < 0 || declared->dims[d] == t.dims()[d];
      PyRef<TensorType> type = new_type(t.dtype, t.device, t.sizes);
      if (!agree || is_open(type.get()))
        runtime_error("run_forward: result %zd of %s has type %s for these inputs, but is bound as %s", k, name,
                      format_type(type.get()).c_str(), format_type(declared).c_str());
      bind(l, std::move(type));
    }
    return new_let(locals(results), std::move(made));
  }

 private:
  PyRef<> argument(PyObject* a) {
    if (is_const(a)) return PyRef<>::borrow(a);
    if (PyTuple_Check(a)) return locals(a);
    auto it = now_.find(as<Local>(a));
    if (it == now_.end()) runtime_error("run_forward: a local is used before it is bound: check() names it");
    return PyRef<>::borrow(it->second.object());
  }

  std::unordered_map<const Local*, PyRef<Local>> now_;
};

}  // namespace

bool has_open_sizes(const Lambda* lambda) {
  if (any_open(lambda->params.get())) return true;
  PyObject* lets = lambda->lets.get();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lets); ++i)
    if (any_open(as<Let>(PyTuple_GET_ITEM(lets, i))->results.get())) return true;
  return false;
}

bool has_open_arguments(const Apply* rhs) {
  bool open = false;
  for_each_local(rhs->args.get(), [&](Local* l) { open = open || is_open(l->type.get()); });
  return open;
}

PyRef<Lambda> specialize(const Lambda* lambda, PyObject* const* types) {
  Specializer s;
  PyObject *params = lambda->params.get(), *lets = lambda->lets.get();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(params); ++i)
    s.bind(as<Local>(PyTuple_GET_ITEM(params, i)), PyRef<TensorType>::borrow(as<TensorType>(types[i])));
  PyRef<> made = check(PyTuple_New(PyTuple_GET_SIZE(lets)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lets); ++i)
    PyTuple_SET_ITEM(made.get(), i, s.let(as<Let>(PyTuple_GET_ITEM(lets, i))).release_object());
  return new_lambda(s.locals(params), lambda->captures.copy(), std::move(made),
                    new_locals(s.locals(lambda->ret->args.get())));
}

}  // namespace torchlite::ir
