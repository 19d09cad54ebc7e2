#include "ir/infer.h"

#include <algorithm>

namespace torchlite::ir {

namespace {

TypeInfo info_of(const TensorType* t) {
  for (int64_t s : t->sizes())
    if (s < 0) runtime_error("the types of results cannot be inferred from %s: a size is open", format_type(t).c_str());
  return {t->dtype, t->device, std::vector<int64_t>(t->sizes().begin(), t->sizes().end())};
}

[[noreturn]] void wrong_kind(const Op& op, size_t i, const char* expected, PyObject* got) {
  runtime_error("%s: argument '%s' must be %s, but is %s", op.name.c_str(), op.params[i].name.c_str(), expected,
                is_local(got)        ? "a local"
                : PyTuple_Check(got) ? "a list of locals"
                                     : "a constant");
}

// Throws unless `value` is of the kind that the signature says.
void require_constant(const Op& op, size_t i, PyObject* value) {
  const Param& p = op.params[i];
  if (value == Py_None ? p.optional || p.kind == Kind::Any : false) return;
  bool fits = true;
  switch (p.kind) {
    case Kind::TensorOrScalar:
    case Kind::Scalar: fits = PyNumber_Check(value) && !PyUnicode_Check(value); break;
    case Kind::Int: fits = PyIndex_Check(value); break;
    case Kind::Ints: fits = PyIndex_Check(value) || (PySequence_Check(value) && !PyUnicode_Check(value)); break;
    case Kind::Bool: fits = PyBool_Check(value); break;
    case Kind::Str: fits = PyUnicode_Check(value); break;
    default: break;
  }
  if (!fits)
    runtime_error("%s: the constant for argument '%s' does not fit the signature %s: it is a %.100s", op.name.c_str(),
                  p.name.c_str(), op.row->signature, type_name(value));
}

}  // namespace

TypeInfos infer_types(const Apply* rhs) {
  const Op& op = *rhs->op;
  PyObject* args = rhs->args.get();
  size_t n = op.params.size();
  if (static_cast<size_t>(PyTuple_GET_SIZE(args)) != n)
    runtime_error("%s takes %zu arguments, but is given %zd", op.name.c_str(), n, PyTuple_GET_SIZE(args));
  TypeCall call{op};
  TypeInfo types[kMaxParams];
  for (size_t i = 0; i < n; ++i) {
    PyObject* a = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
    const Param& p = op.params[i];
    if (static_cast<int>(i) == op.list_index) {
      if (!PyTuple_Check(a)) wrong_kind(op, i, "a list of locals", a);
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a); ++k) {
        PyObject* e = PyTuple_GET_ITEM(a, k);
        if (!is_local(e)) wrong_kind(op, i, "a list of locals", e);
        call.list.push_back(info_of(as<Local>(e)->type.get()));
      }
    } else if (is_local(a)) {
      if (!((op.tensor_mask >> i) & 1)) wrong_kind(op, i, "a constant", a);
      types[i] = info_of(as<Local>(a)->type.get());
      call.types[i] = &types[i];
    } else if (PyTuple_Check(a)) {
      wrong_kind(op, i, "a local or a constant", a);
    } else {
      PyObject* value = as<Const>(a)->value.get();
      if (p.kind == Kind::Tensor && !(p.optional && value == Py_None)) wrong_kind(op, i, "a local", a);
      require_constant(op, i, value);
      call.constants[i] = value;
    }
  }
  return torchlite::infer_types(call);
}

Py_ssize_t visible_results(const Apply* rhs, Py_ssize_t bound) {
  Py_ssize_t outputs = rhs->op->row->outputs;
  if (bound > outputs) return outputs;
  // A call may leave out its last results (median without a dim has no indices), and then binds a hidden one sooner.
  if (bound == 1 || !rhs->op->row->hidden_outputs) return bound;
  try {
    return std::min(bound, static_cast<Py_ssize_t>(infer_types(rhs).size()));
  } catch (const PyError&) {
    if (PyErr_ExceptionMatches(PyExc_MemoryError)) throw;
    PyErr_Clear();  // sizes that are open, or no well-formed lambda, of which others complain
    return bound;
  }
}

bool fits(const TypeInfo& inferred, const TensorType* given) {
  if (inferred.dtype != given->dtype || inferred.device != given->device || inferred.ndim() != given->ndim)
    return false;
  for (int d = 0; d < given->ndim; ++d)
    if (inferred.dims()[d] != kOpenSize && inferred.dims()[d] != given->dims[d]) return false;
  return true;
}

bool has_open_size(const TypeInfos& types) {
  for (const TypeInfo& t : types)
    for (int64_t s : t.sizes)
      if (s == kOpenSize) return true;
  return false;
}

}  // namespace torchlite::ir
