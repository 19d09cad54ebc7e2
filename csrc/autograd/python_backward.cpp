// The gradients of a Python Function: what its backward is given and what it may return.
//
// A gradient of a Variable that needs one must have that Variable's type, device and size: nothing is cast, broadcast
// or reshaped on the way.
#include "autograd/engine.h"
#include "autograd/functions/basic_ops.h"
#include "autograd/observer.h"
#include "autograd/python_function.h"
#include "tensor/cuda.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// Zeros in place of the gradient of output `i` that did not arrive; nullptr if the output was never recorded.
PyRef<Tensor> zeros_for(const PyFunction* self, size_t i) {
  if (i >= self->outputs.size()) return {};
  const TensorSpec& spec = self->outputs[i];
  return new_zeros(spec.dtype, spec.sizes(), spec.device);
}

std::string where(Device device) { return device == kCPU ? "the host" : "CUDA " + place_name(device); }

// Throws unless `grad` has the type, device and size of argument `i`.
void check_gradient(const PyFunction* self, size_t i, const Tensor* grad) {
  const PyFunction::Argument& argument = self->arguments[i];
  if (!argument.needs_grad) return;
  const TensorSpec& spec = argument.spec;
  if (!(spec.sizes() == grad->sizes()))
    runtime_error(
        "function %.100s returned a gradient of size %s at position %zu, but the corresponding forward input "
        "has size %s",
        node_name(self), format_dims(grad->sizes()).c_str(), i + 1, format_dims(spec.sizes()).c_str());
  if (spec.dtype != grad->dtype)
    runtime_error(
        "function %.100s returned a gradient of type %s (%s) at position %zu, but the corresponding forward "
        "input is of type %s (%s)",
        node_name(self), TensorTypes[static_cast<int>(grad->dtype)].tp_name, info(grad->dtype).numpy_name, i + 1,
        TensorTypes[static_cast<int>(spec.dtype)].tp_name, info(spec.dtype).numpy_name);
  if (spec.device != grad->device())
    runtime_error(
        "function %.100s returned a gradient on %s at position %zu, but the corresponding forward input is on %s",
        node_name(self), where(grad->device()).c_str(), i + 1, where(spec.device).c_str());
}

// What backward returned as a tuple: a single value stands for a tuple of one, a list for a tuple.
PyRef<> as_tuple(PyRef<> result) {
  if (PyTuple_Check(result.get())) return result;
  if (PyList_Check(result.get())) return check(PyList_AsTuple(result.get()));
  return check(PyTuple_Pack(1, result.get()));
}

// Whether `values` has one value an argument, or more of which the further ones are None.
bool count_fits(PyObject* values, Py_ssize_t expected) {
  Py_ssize_t got = PyTuple_GET_SIZE(values);
  for (Py_ssize_t i = expected; i < got; ++i)
    if (PyTuple_GET_ITEM(values, i) != Py_None) return false;
  return got >= expected;
}

// ---- new style --------------------------------------------------------------------------------------------------------

Gradients apply_backward(PyFunction* self, Gradients&& grads) {
  static PyObject* const name_apply = interned("apply");
  std::vector<PyObject*> args(grads.size() + 2);
  args[1] = self;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i])
      if (PyRef<Tensor> zeros = zeros_for(self, i)) grads[i] = new_constant(std::move(zeros));
    args[i + 2] = grads[i] ? grads[i].object() : Py_None;
  }
  PyRef<> values = as_tuple(check(PyObject_VectorcallMethod(
      name_apply, args.data() + 1, (grads.size() + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)));
  Py_ssize_t expected = static_cast<Py_ssize_t>(self->arguments.size());
  if (!count_fits(values.get(), expected))
    runtime_error("function %.100s returned an incorrect number of gradients (expected %zd, got %zd)", node_name(self),
                  expected, PyTuple_GET_SIZE(values.get()));
  Gradients out;
  out.reserve(static_cast<size_t>(self->n_inputs));
  for (Py_ssize_t i = 0; i < expected; ++i) {
    PyObject* value = PyTuple_GET_ITEM(values.get(), i);
    if (!self->arguments[static_cast<size_t>(i)].is_variable) {
      if (value != Py_None)
        runtime_error(
            "function %.100s returned a gradient different than None at position %zd, but the corresponding "
            "forward input was not a Variable",
            node_name(self), i + 1);
      continue;
    }
    if (value == Py_None) {
      out.emplace_back();
      continue;
    }
    if (!is_variable(value))
      runtime_error("expected Variable or None (got %.100s) at position %zd of what function %.100s returned",
                    type_name(value), i + 1, node_name(self));
    check_gradient(self, static_cast<size_t>(i), as_variable(value)->data.get());
    out.push_back(PyRef<Variable>::borrow(as_variable(value)));
  }
  return out;
}

// ---- old style --------------------------------------------------------------------------------------------------------

// A tensor that an old-style backward returned; arrays and NumPy scalars count as tensors.
PyRef<Tensor> read_tensor(PyObject* value) {
  if (is_tensor(value)) return PyRef<Tensor>::borrow(as_tensor(value));
  if (is_array(value) || PyArray_IsScalar(value, Generic)) return tensor_from_result(PyRef<>::borrow(value));
  runtime_error("expected Tensor (got '%.100s')'", type_name(value));
}

Gradients apply_legacy_backward(PyFunction* self, Gradients&& grads) {
  static PyObject* const name_do_backward = interned("_do_backward");
  PyRef<> tensors = check(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
  bool is_volatile = false;
  for (size_t i = 0; i < grads.size(); ++i) {
    PyObject* t = grads[i] ? grads[i]->data.object() : Py_None;
    PyTuple_SET_ITEM(tensors.get(), static_cast<Py_ssize_t>(i), new_ref(t));
    is_volatile = is_volatile || (grads[i] && grads[i]->is_volatile);
  }
  PyObject* args[] = {self, tensors.get(), backward_keeps_graph() ? Py_True : Py_False};
  PyRef<> values = as_tuple(check(PyObject_VectorcallMethod(name_do_backward, args, 3, nullptr)));
  size_t expected = self->arguments.size();
  if (static_cast<size_t>(PyTuple_GET_SIZE(values.get())) != expected)
    runtime_error("%.100s returned an invalid number of gradient tensors (expected %zu, but got %zd)", type_name(self),
                  expected, PyTuple_GET_SIZE(values.get()));
  PyRef<Node> error;
  if (!is_volatile && grad_enabled) {
    std::string message = std::string(node_name(self)) + " is not differentiable twice";
    error = make_error_node(message.c_str());
    error->n_outputs = static_cast<uint16_t>(expected);
  }
  Gradients out(expected);
  for (size_t i = 0; i < expected; ++i) {
    PyObject* value = PyTuple_GET_ITEM(values.get(), static_cast<Py_ssize_t>(i));
    if (value == Py_None) continue;
    PyRef<Tensor> t = read_tensor(value);
    check_gradient(self, i, t.get());
    // Handing on what came in is fine, but two Variables never share a Tensor object.
    for (const PyRef<Variable>& g : grads)
      if (g && g->data.get() == t.get()) {
        t = alias(t.get());
        break;
      }
    uint32_t nr = static_cast<uint32_t>(i);
    if (is_volatile) out[i] = new_volatile(std::move(t));
    else if (!error) out[i] = new_leaf(std::move(t));
    else out[i] = new_interior(std::move(t), error.copy(), nr, true);
  }
  return out;
}

}  // namespace

Gradients function_backward(Node* node, Gradients&& grads) {
  auto* self = static_cast<PyFunction*>(node);
  if (!self->is_recorded) runtime_error("%.100s: backward of a Function whose forward was never run", node_name(node));
  return self->is_legacy ? apply_legacy_backward(self, std::move(grads)) : apply_backward(self, std::move(grads));
}

PyObject* function_do_backward(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    static PyObject* const name_backward = interned("backward");
    PyFunction* self = as_function(o);
    if (n != 2) runtime_error("_do_backward expects exactly two arguments");
    PyObject *grads = args[0], *retain = args[1];
    if (!PyTuple_Check(grads) || !PyBool_Check(retain))
      type_error(
          "_do_backward received an invalid combination of arguments - got (%.100s, %.100s), but expected "
          "(tuple, bool)",
          type_name(grads), type_name(retain));
    size_t count = static_cast<size_t>(PyTuple_GET_SIZE(grads));
    if (count != self->n_outputs)
      runtime_error("%.100s got an invalid number of gradients (expected %d got %zu)", type_name(o),
                    static_cast<int>(self->n_outputs), count);
    std::vector<PyRef<>> zeros(count);
    std::vector<PyObject*> values(count + 1);
    for (size_t i = 0; i < count; ++i) {
      values[i + 1] = PyTuple_GET_ITEM(grads, static_cast<Py_ssize_t>(i));
      if (values[i + 1] != Py_None) continue;
      zeros[i] = zeros_for(self, i);
      if (zeros[i]) values[i + 1] = zeros[i].get();
    }
    PyRef<> backward = PyRef<>::steal(PyObject_GetAttr(o, name_backward));
    if (!backward) {
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) throw PyError();
      PyErr_Clear();  // replaced by an error that names the function
      runtime_error("function %.100s doesn't implement a required 'backward' method", type_name(o));
    }
    PyRef<> result = as_tuple(
        check(PyObject_Vectorcall(backward.get(), values.data() + 1, count | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr)));
    Py_ssize_t expected = static_cast<Py_ssize_t>(self->arguments.size());
    if (!count_fits(result.get(), expected))
      runtime_error("%.100s returned an invalid number of gradient tensors (expected %zd, but got %zd)", type_name(o),
                    expected, PyTuple_GET_SIZE(result.get()));
    if (PyTuple_GET_SIZE(result.get()) > expected) result = check(PyTuple_GetSlice(result.get(), 0, expected));
    if (retain == Py_False) self->node_class()->release(self);
    return result.release();
  });
}

}  // namespace torchlite
