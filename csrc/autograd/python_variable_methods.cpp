// Methods of a Variable that are no rows of the op table.
#include "autograd/python_variable.h"

#include "autograd/function.h"
#include "autograd/functions/accumulate_grad.h"
#include "autograd/hooks.h"
#include "autograd/observer.h"
#include "autograd/ops/op.h"
#include "utils/method.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

PyObject* variable_detach(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Variable* v = as_variable(o);
    if (call_observer) {
      static const Op& op = find_op("detach");
      return call_op(op, &o).release();
    }
    PyRef<Tensor> data = PyRef<Tensor>::borrow(v->data.get());
    PyRef<Variable> out = v->is_volatile ? new_volatile(std::move(data)) : new_leaf(std::move(data));
    join_version(out.get(), v);
    return out.release();
  });
}

PyObject* variable_detach_in_place(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    Variable* v = as_variable(o);
    if (call_observer)
      runtime_error(
          "detach_: a Variable cannot be cut from its graph in place while a trace is recorded; use detach()");
    if (v->accumulator) forget_leaf(v->accumulator, nullptr);
    v->requires_grad = false;
    v->output_nr = 0;
    PyRef<> hooks = std::move(v->backward_hooks);
    PyRef<Node> grad_fn = std::move(v->grad_fn);
    return new_ref(o);
  });
}

// Python is about to see elements of `v`: a trace cannot follow what it does with them.
void value_read(Variable* v, const char* how) {
  if (call_observer && v->is_traced) call_observer->value_read(v, how);
}

PyObject* variable_array(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    Variable* v = as_variable(o);
    if (v->requires_grad)
      runtime_error("can't convert a Variable that requires grad to an array: use its .data (no gradient will flow)");
    value_read(v, "to an array");
    Unobserved told;
    PyRef<> convert = check(PyObject_GetAttrString(v->data.object(), "__array__"));
    return PyObject_Call(convert.get(), args, kwargs);
  });
}

PyObject* variable_numpy(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    PyRef<> none = check(PyTuple_New(0));
    return variable_array(o, none.get(), nullptr);
  });
}

PyObject* variable_dlpack(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    Variable* v = as_variable(o);
    if (v->requires_grad)
      raise(PyExc_BufferError, "can't export a Variable that requires grad: use its .data (no gradient will flow)");
    PyRef<> convert = check(PyObject_GetAttrString(v->data.object(), "__dlpack__"));
    return PyObject_Call(convert.get(), args, kwargs);
  });
}

PyObject* variable_dlpack_device(PyObject* o, PyObject*) {
  return PyObject_CallMethod(as_variable(o)->data.object(), "__dlpack_device__", nullptr);
}

// float(v) and int(v) of a Variable with one element.
PyObject* variable_number(PyObject* o, const char* how, PyObject* (*convert)(PyObject*)) {
  return guard([&]() -> PyObject* {
    Tensor* t = as_variable(o)->data.get();
    if (t->numel != 1)
      type_error("only Variables with one element can be converted to a number, this one has size %s",
                 format_dims(t->sizes()).c_str());
    value_read(as_variable(o), how);
    PyRef<> number = only_number(t);
    return convert(number.get());
  });
}

PyObject* variable_float(PyObject* o, PyObject*) { return variable_number(o, "to a float", PyNumber_Float); }
PyObject* variable_int(PyObject* o, PyObject*) { return variable_number(o, "to an int", PyNumber_Long); }
PyObject* variable_item(PyObject* o, PyObject*) {
  return variable_number(o, "to a Python number", [](PyObject* number) { return new_ref(number); });
}

}  // namespace

PyMethodDef variable_methods[] = {
    {"detach", variable_detach, METH_NOARGS,
     "detach() -> Variable\n\nA leaf on the same memory and version counter that needs no gradient."},
    {"detach_", variable_detach_in_place, METH_NOARGS, "Cuts this Variable from the graph that made it."},
    {"item", variable_item, METH_NOARGS, "The only element as a Python number; TypeError if there are more."},
    {"__float__", variable_float, METH_NOARGS, "The only element as a float."},
    {"__int__", variable_int, METH_NOARGS, "The only element as an int."},
    {"__array__", method(variable_array), METH_VARARGS | METH_KEYWORDS,
     "The data as an ndarray on the same memory; RuntimeError if the Variable requires grad."},
    {"numpy", variable_numpy, METH_NOARGS,
     "The data as an ndarray on the same memory; RuntimeError if the Variable requires grad."},
    {"__dlpack__", method(variable_dlpack), METH_VARARGS | METH_KEYWORDS,
     "The data as a DLPack capsule; BufferError if the Variable requires grad."},
    {"__dlpack_device__", variable_dlpack_device, METH_NOARGS, "Device of the data as DLPack numbers it."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace torchlite
