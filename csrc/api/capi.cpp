// The table behind torchlite.h, handed to other extensions in a capsule.
#include "api/capi.h"

#define TORCHLITE_BUILDING
#include "../../torchlite/include/torchlite.h"
#include "autograd/function.h"
#include "autograd/variable.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

PyRef<Tensor> data_argument(PyObject* data, const char* function) {
  if (data && is_tensor(data)) return PyRef<Tensor>::borrow(as_tensor(data));
  if (data && PyArray_Check(data)) return tensor_from_numpy(data);
  type_error("%s: argument 'data' must be a tensor or an ndarray, not %.100s", function,
             data ? type_name(data) : "NULL");
}

Variable* variable_argument(PyObject* v, const char* function) {
  if (!v || !is_variable(v))
    type_error("%s: argument 'variable' must be a Variable, not %.100s", function, v ? type_name(v) : "NULL");
  return as_variable(v);
}

Tensor* tensor_argument(PyObject* t, const char* function) {
  if (!t || !is_tensor(t))
    type_error("%s: argument 'tensor' must be a tensor, not %.100s", function, t ? type_name(t) : "NULL");
  return as_tensor(t);
}

int variable_check(PyObject* o) { return o && is_variable(o); }
int tensor_check(PyObject* o) { return o && is_tensor(o); }

PyObject* variable_wrap(PyObject* v) {
  return guard([&]() -> PyObject* { return v ? new_ref(variable_argument(v, "THPVariable_Wrap")) : none(); });
}

PyObject* variable_new_leaf(PyObject* data, int requires_grad) {
  return guard([&]() -> PyObject* {
    PyRef<Tensor> t = data_argument(data, "THPVariable_NewLeaf");
    if (requires_grad && !is_floating(t->dtype))
      runtime_error(
          "THPVariable_NewLeaf: only Variables of a floating point type can require gradients, but the data is a %s",
          type_name(t.object()));
    return new_leaf(std::move(t), requires_grad != 0).release();
  });
}

PyObject* variable_new_volatile(PyObject* data) {
  return guard([&]() -> PyObject* { return new_volatile(data_argument(data, "THPVariable_NewVolatile")).release(); });
}

PyObject* variable_new_with_function(PyObject* data, PyObject* grad_fn) {
  return guard([&]() -> PyObject* {
    if (!grad_fn || !is_node(grad_fn))
      type_error("THPVariable_NewWithFunction: argument 'grad_fn' must be a Function, not %.100s",
                 grad_fn ? type_name(grad_fn) : "NULL");
    Node* f = as_node(grad_fn);
    PyRef<Tensor> t = data_argument(data, "THPVariable_NewWithFunction");
    PyRef<Variable> v = new_interior(std::move(t), PyRef<Node>::borrow(f), f->n_outputs, f->requires_grad);
    v->output_nr = add_output(f);
    return v.release();
  });
}

PyObject* variable_data(PyObject* v) {
  return guard([&]() -> PyObject* { return new_ref(variable_argument(v, "TorchliteVariable_Data")->data.get()); });
}

PyObject* variable_grad(PyObject* v) {
  return guard([&]() -> PyObject* {
    Variable* grad = variable_argument(v, "TorchliteVariable_Grad")->grad.get();
    return grad ? new_ref(grad) : none();
  });
}

PyObject* tensor_from_array(PyObject* array) {
  return guard([&]() -> PyObject* {
    if (!array || !PyArray_Check(array))
      type_error("TorchliteTensor_FromArray: argument 'array' must be an ndarray, not %.100s",
                 array ? type_name(array) : "NULL");
    return tensor_from_numpy(array).release();
  });
}

PyObject* tensor_as_array(PyObject* t) {
  return guard([&]() -> PyObject* { return new_ref(numpy_view(tensor_argument(t, "TorchliteTensor_AsArray"))); });
}

PyObject* tensor_new(int dtype, int ndim, const int64_t* sizes) {
  return guard([&]() -> PyObject* {
    if (dtype < 0 || dtype >= kDTypes) value_error("TorchliteTensor_New: there is no element type %d", dtype);
    if (ndim < 0 || ndim > kMaxDim)
      value_error("TorchliteTensor_New: ndim must be between 0 and %d, but got %d", kMaxDim, ndim);
    for (int d = 0; d < ndim; ++d)
      if (sizes[d] < 0)
        value_error("TorchliteTensor_New: size %d must not be negative, but got %lld", d,
                    static_cast<long long>(sizes[d]));
    return new_tensor(static_cast<DType>(dtype), {sizes, ndim}).release();
  });
}

int tensor_info(PyObject* o, TorchliteTensorInfo* info) {
  return guard(-1, [&]() {
    Tensor* t = tensor_argument(o, "TorchliteTensor_Info");
    *info = {t->bytes(),   static_cast<int>(t->dtype), t->ndim, t->sizes().data, t->strides().data, t->device(),
             t->readonly()};
    return 0;
  });
}

const TorchliteAPI api = {
    .major = TORCHLITE_API_MAJOR,
    .minor = TORCHLITE_API_MINOR,
    .variable_check = variable_check,
    .variable_wrap = variable_wrap,
    .variable_new_leaf = variable_new_leaf,
    .variable_new_volatile = variable_new_volatile,
    .variable_new_with_function = variable_new_with_function,
    .variable_data = variable_data,
    .variable_grad = variable_grad,
    .tensor_check = tensor_check,
    .tensor_from_array = tensor_from_array,
    .tensor_as_array = tensor_as_array,
    .tensor_new = tensor_new,
    .tensor_info = tensor_info,
};

static_assert(TORCHLITE_BYTE == static_cast<int>(DType::Byte) && TORCHLITE_DOUBLE == static_cast<int>(DType::Double));

}  // namespace

void init_capi(PyObject* module) {
  PyRef<> capsule = check(PyCapsule_New(const_cast<TorchliteAPI*>(&api), TORCHLITE_API_CAPSULE, nullptr));
  check(PyModule_AddObjectRef(module, "_C_API", capsule.get()));
}

}  // namespace torchlite
