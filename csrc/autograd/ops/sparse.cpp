#include "autograd/ops/sparse.h"

#include "utils/errors.h"

namespace torchlite {

namespace {

PyObject* sparse_function = nullptr;  // owned for the life of the process

}  // namespace

bool any_sparse(const Op& op, PyObject* const* raw) {
  for (uint32_t left = op.tensor_mask; left; left &= left - 1) {
    int i = std::countr_zero(left);
    PyObject* a = raw[i];
    if (i == op.list_index && PyTuple_Check(a)) {
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a); ++k)
        if (is_tensor(PyTuple_GET_ITEM(a, k)) && is_sparse(as_tensor(PyTuple_GET_ITEM(a, k)))) return true;
    } else if (is_tensor(a) && is_sparse(as_tensor(a))) {
      return true;
    }
  }
  return false;
}

Outputs forward_sparse(const Op& op, PyObject* const* raw, Tensor* out) {
  PyRef<> arguments = check(PyTuple_New(static_cast<Py_ssize_t>(op.params.size())));
  for (size_t i = 0; i < op.params.size(); ++i)
    PyTuple_SET_ITEM(arguments.get(), static_cast<Py_ssize_t>(i), new_ref(raw[i]));
  const std::string& name = out ? op.in_place_name : op.name;
  PyRef<> result = check(PyObject_CallFunction(sparse_function, "sOO", name.c_str(), arguments.get(),
                                               out ? static_cast<PyObject*>(out) : Py_None));
  if (!is_tensor(result.get()))
    type_error("%s: an operation on sparse tensors must give a tensor, not %.100s", name.c_str(),
               type_name(result.get()));
  return std::move(result).cast<Tensor>();
}

PyObject* set_sparse(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n != 2 || !PyType_Check(args[0]) || !PyCallable_Check(args[1]))
      type_error("_set_sparse expected a class and a function");
    if (sparse_class) runtime_error("_set_sparse was called before");
    sparse_function = new_ref(args[1]);
    sparse_class = reinterpret_cast<PyTypeObject*>(new_ref(args[0]));
    return none();
  });
}

}  // namespace torchlite
