// An operation's rule is its own forward, run on tensors of one element that is repeated (stride 0): such a tensor of
// any size costs no memory, and whatever the forward accepts or refuses is by definition what the rule says. The
// generator's state is put back, so that the types of random operations can be asked as well.
#include "ir/infer.h"

#include "tensor/random.h"

namespace torchlite::ir {

namespace {

PyRef<Tensor> representative(const TensorType* type) {
  if (type->device != kCPU) runtime_error("types of operations on CUDA tensors are not known without running them");
  std::vector<int64_t> one(type->ndim, 1), strides(type->ndim, 0);
  for (int64_t s : type->sizes())
    if (s < 0) runtime_error("the types of %s cannot be inferred: a size is open", format_type(type).c_str());
  PyRef<Tensor> element = new_full(type->dtype, one, is_floating(type->dtype) ? 1.0 : 0.0);
  return new_view(element.get(), type->sizes(), strides, 0);
}

PyRef<> representative_argument(PyObject* a) {
  if (is_local(a)) return representative(as<Local>(a)->type.get());
  if (is_const(a)) return as<Const>(a)->value.copy();
  PyRef<> list = check(PyTuple_New(PyTuple_GET_SIZE(a)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a); ++i)
    PyTuple_SET_ITEM(list.get(), i, representative_argument(PyTuple_GET_ITEM(a, i)).release());
  return list;
}

class KeepGenerator {
 public:
  KeepGenerator() : saved_(default_generator()) {}
  ~KeepGenerator() { default_generator() = saved_; }

 private:
  kernels::Generator saved_;
};

}  // namespace

std::vector<PyRef<TensorType>> infer_types(const Apply* rhs) {
  const Op& op = *rhs->op;
  PyObject* args = rhs->args.get();
  size_t n = op.params.size();
  if (static_cast<size_t>(PyTuple_GET_SIZE(args)) != n)
    runtime_error("%s takes %zu arguments, but is given %zd", op.name.c_str(), n, PyTuple_GET_SIZE(args));
  PyRef<> held[kMaxParams];
  PyObject* values[kMaxParams];
  for (size_t i = 0; i < n; ++i) {
    PyObject* a = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
    const Param& p = op.params[i];
    bool tensor_kind = (op.tensor_mask >> i) & 1;
    if (is_local(a) && !tensor_kind)
      runtime_error("%s: argument '%s' must be a constant, but is a local", op.name.c_str(), p.name.c_str());
    if (is_const(a) && p.kind == Kind::Tensor && !p.optional)
      runtime_error("%s: argument '%s' must be a local, but is a constant", op.name.c_str(), p.name.c_str());
    if (PyTuple_Check(a) != (static_cast<int>(i) == op.list_index))
      runtime_error("%s: argument '%s' must %sbe a list of locals", op.name.c_str(), p.name.c_str(),
                    PyTuple_Check(a) ? "not " : "");
    held[i] = representative_argument(a);
    values[i] = held[i].get();
  }
  KeepGenerator keep;
  Outputs outputs = run_forward(op, values);
  std::vector<PyRef<TensorType>> types;
  for (int k = 0; k < op.row->outputs && outputs.v[k]; ++k) types.push_back(type_of(outputs.v[k].get()));
  return types;
}

}  // namespace torchlite::ir
