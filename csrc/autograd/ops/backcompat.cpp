#include "autograd/ops/backcompat.h"

namespace torchlite {

bool broadcast_warning = false;
bool keepdim_warning = false;

namespace {

thread_local OneWarning* one_warning = nullptr;

void warn(const std::string& text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PyError();
}

template <bool* Switch>
PyObject* get_switch(PyObject*, PyObject*) {
  return PyBool_FromLong(*Switch);
}

template <bool* Switch>
PyObject* set_switch(PyObject*, PyObject* value) {
  return guard([&]() -> PyObject* {
    if (!PyBool_Check(value)) runtime_error("the switch of a warning expects a bool, but got %.100s", type_name(value));
    *Switch = value == Py_True;
    return none();
  });
}

}  // namespace

OneWarning::OneWarning() : outer_(std::exchange(one_warning, this)) {}
OneWarning::~OneWarning() { one_warning = outer_; }

void warn_once(const std::string& text) {
  if (one_warning && std::exchange(one_warning->given_, true)) return;
  warn(text);
}

void warn_of_pairing(const char* names) {
  warn_once(std::string(names) +
            " not broadcastable, but have the same number of elements.  Falling back to deprecated pointwise "
            "behavior.");
}

std::vector<int64_t> paired_sizes(const char* function, Dims a, Dims b) {
  if (!broadcastable(a, b) && a.product() == b.product()) return {a.begin(), a.end()};
  return broadcast_sizes(a, b, function);
}

PyRef<Tensor> paired(PyObject* a, PyObject* b, bool in_place, const char* names) {
  if (!is_tensor(a) || !is_tensor(b)) return {};
  Tensor *x = as_tensor(a), *y = as_tensor(b);
  if (x->numel != y->numel || x->sizes() == y->sizes()) return {};
  if (x->numel == 0 || x->ndim == 0 || y->ndim == 0) return {};  // which the era did not have
  if (in_place ? expands_to(y->sizes(), x->sizes()) : broadcastable(x->sizes(), y->sizes())) {
    if (broadcast_warning)
      warn_once(std::string(names) +
                " do not have the same shape, but are broadcastable, and have the same number of elements.  Changing "
                "behavior in a backwards incompatible manner to broadcasting rather than viewing as 1-dimensional.");
    return {};
  }
  warn_of_pairing(names);
  PyRef<Tensor> flat = contiguous(y);
  return new_tensor_on(flat->storage.copy(), flat->dtype, x->sizes(), {}, flat->offset);
}

Value paired_to(Dims sizes, const Value& v) {
  if (v.is_constant()) return v;
  if (expands_to(v.sizes(), sizes) || sizes.product() != v.tensor()->numel) return v;
  return call<"reshape">(v, std::vector<int64_t>(sizes.begin(), sizes.end()));
}

Value paired_with(const Value& g, const Value& v) { return paired_to(g.sizes(), v); }

void warn_of_keepdim(const char* function) {
  warn(std::string("backwards compatibility: call to \"") + function +
       "\" uses default value for keepdim which has changed default to False.  Consider passing as kwarg.");
}

void init_backcompat(PyObject* module) {
  static PyMethodDef functions[] = {
      {"_set_backcompat_broadcast_warn", set_switch<&broadcast_warning>, METH_O,
       "Whether to warn where operands broadcast that an older version would have paired in order."},
      {"_get_backcompat_broadcast_warn", get_switch<&broadcast_warning>, METH_NOARGS, "The state of that switch."},
      {"_set_backcompat_keepdim_warn", set_switch<&keepdim_warning>, METH_O,
       "Whether to warn where a reduction along a dimension is called without keepdim."},
      {"_get_backcompat_keepdim_warn", get_switch<&keepdim_warning>, METH_NOARGS, "The state of that switch."},
      {nullptr, nullptr, 0, nullptr},
  };
  check(PyModule_AddFunctions(module, functions));
}

}  // namespace torchlite
