#include "tensor/optim_steps.h"

#include "tensor/cuda.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/optim.h"
#include "tensor/kernels/reduce.h"
#include "tensor/tensor.h"
#include "utils/errors.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

Tensor* tensor_argument(PyObject* o, const char* function, const char* name) {
  if (!is_tensor(o)) type_error("%s: argument '%s' must be a tensor, not %.100s", function, name, type_name(o));
  return as_tensor(o);
}

// A tensor that a kernel reads and writes: its own memory where that is contiguous Float or Double, else a copy that
// `finish` writes back.
class Operand {
 public:
  Operand(Tensor* t, const char* function, bool written) : original_(t), written_(written) {
    if (written) require_writable(t, function);
    if (!is_floating(t->dtype))
      type_error("%s: expected floating tensors, but got a %sTensor", function, info(t->dtype).name);
    PyRef<Tensor> wide = to_dtype(t, t->dtype == DType::Half ? DType::Float : t->dtype);
    work_ = contiguous(wide.get());
  }
  void finish() {
    if (written_ && work_.get() != original_) copy_into(original_, work_.get());
  }
  DType dtype() const { return work_->dtype; }
  int64_t numel() const { return work_->numel; }
  template <class T>
  T* ptr() const {
    return work_->ptr<T>();
  }

 private:
  Tensor* original_;
  bool written_;
  PyRef<Tensor> work_;
};

void require_same(const Tensor* p, const Tensor* other, const char* function, const char* name) {
  if (!(p->sizes() == other->sizes()) || p->dtype != other->dtype)
    runtime_error("%s: '%s' is a %sTensor of size %s, but the parameter is a %sTensor of size %s", function, name,
                  info(other->dtype).name, format_dims(other->sizes()).c_str(), info(p->dtype).name,
                  format_dims(p->sizes()).c_str());
}

// The same update by torchlite.cuda, for tensors on a device.
PyObject* on_device(const char* function, PyObject* args) {
  PyRef<> module = check(PyImport_ImportModule("torchlite.cuda._optim"));
  return PyObject_Call(check(PyObject_GetAttrString(module.get(), function)).get(), args, nullptr);
}

bool any_on_device(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors)
    if (t && t->device() != kCPU) return true;
  return false;
}

void require_one_place(const char* function, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = *tensors.begin();
  for (const Tensor* t : tensors)
    if (t && t->device() != first->device())
      raise(t->device() == kCPU || first->device() == kCPU ? PyExc_TypeError : PyExc_RuntimeError,
            "%s: all tensors must be in one place, but got a %s and a %s", function,
            place_of(first->dtype, first->device()).c_str(), place_of(t->dtype, t->device()).c_str());
}

PyObject* sgd_step(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *p_object, *grad_object, *buf_object;
    kernels::SgdOptions options;
    int nesterov;
    if (!PyArg_ParseTuple(args, "OOOddddp:_sgd_step", &p_object, &grad_object, &buf_object, &options.lr,
                          &options.momentum, &options.dampening, &options.weight_decay, &nesterov))
      throw PyError();
    options.nesterov = nesterov;
    Tensor* param = tensor_argument(p_object, "_sgd_step", "p");
    Tensor* gradient = tensor_argument(grad_object, "_sgd_step", "grad");
    Tensor* buffer = buf_object == Py_None ? nullptr : tensor_argument(buf_object, "_sgd_step", "buf");
    require_same(param, gradient, "_sgd_step", "grad");
    if (buffer) require_same(param, buffer, "_sgd_step", "buf");
    else options.momentum = 0;
    if (any_on_device({param, gradient, buffer})) {
      require_one_place("_sgd_step", {param, gradient, buffer});
      return on_device("sgd_step", args);
    }
    double decay = std::exchange(options.weight_decay, 0.0);
    Operand p(param, "_sgd_step", true), g(gradient, "_sgd_step", decay != 0);
    Operand buf(buffer ? buffer : param, "_sgd_step", buffer != nullptr);
    auto run = [&]<class T>(T*) {
      GilRelease unlocked(p.numel());
      if (decay != 0) kernels::axpy(static_cast<T>(decay), p.ptr<T>(), g.ptr<T>(), p.numel());
      kernels::sgd_step(p.ptr<T>(), g.ptr<T>(), buffer ? buf.ptr<T>() : nullptr, false, options, p.numel());
    };
    if (p.dtype() == DType::Float) run(static_cast<float*>(nullptr));
    else run(static_cast<double*>(nullptr));
    if (buffer) buf.finish();
    g.finish();
    p.finish();
    return none();
  });
}

PyObject* adam_step(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject* objects[4];
    kernels::AdamOptions options;
    long long step;
    if (!PyArg_ParseTuple(args, "OOOOLddddd:_adam_step", &objects[0], &objects[1], &objects[2], &objects[3], &step,
                          &options.lr, &options.beta1, &options.beta2, &options.eps, &options.weight_decay))
      throw PyError();
    if (step < 1) value_error("_adam_step: steps count from 1, but got %lld", step);
    const char* names[] = {"p", "grad", "exp_avg", "exp_avg_sq"};
    Tensor* t[4];
    for (int i = 0; i < 4; ++i) t[i] = tensor_argument(objects[i], "_adam_step", names[i]);
    for (int i = 1; i < 4; ++i) require_same(t[0], t[i], "_adam_step", names[i]);
    if (any_on_device({t[0], t[1], t[2], t[3]})) {
      require_one_place("_adam_step", {t[0], t[1], t[2], t[3]});
      return on_device("adam_step", args);
    }
    Operand p(t[0], "_adam_step", true), g(t[1], "_adam_step", false), avg(t[2], "_adam_step", true),
        avg_sq(t[3], "_adam_step", true);
    auto run = [&]<class T>(T*) {
      GilRelease unlocked(p.numel());
      kernels::adam_step<T>(p.ptr<T>(), g.ptr<T>(), avg.ptr<T>(), avg_sq.ptr<T>(), nullptr, step, options, p.numel());
    };
    if (p.dtype() == DType::Float) run(static_cast<float*>(nullptr));
    else run(static_cast<double*>(nullptr));
    avg.finish();
    avg_sq.finish();
    p.finish();
    return none();
  });
}

// The tensors of a sequence that lie on devices, which are then no longer in it; empty if there are none.
PyRef<> device_part(PyRef<>* tensors, const char* function) {
  PyRef<> here = check(PyList_New(0)), there = check(PyList_New(0));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors->get()); ++i) {
    PyObject* o = PySequence_Fast_GET_ITEM(tensors->get(), i);
    bool on_host = tensor_argument(o, function, "tensors")->device() == kCPU;
    check(PyList_Append((on_host ? here : there).get(), o));
  }
  if (!PyList_GET_SIZE(there.get())) return {};
  *tensors = std::move(here);
  return there;
}

PyObject* sum_squares(PyObject*, PyObject* list) {
  return guard([&]() -> PyObject* {
    PyRef<> tensors = check(PySequence_Fast(list, "_sum_squares: expected a sequence of tensors"));
    double total = 0;
    if (PyRef<> there = device_part(&tensors, "_sum_squares")) {
      PyRef<> part = check(on_device("sum_squares", check(PyTuple_Pack(1, there.get())).get()));
      total = PyFloat_AsDouble(part.get());
      if (total == -1.0 && PyErr_Occurred()) throw PyError();
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors.get()); ++i) {
      Operand x(tensor_argument(PySequence_Fast_GET_ITEM(tensors.get(), i), "_sum_squares", "tensors"), "_sum_squares",
                false);
      GilRelease unlocked(x.numel());
      total += x.dtype() == DType::Float ? kernels::sum_squares(x.ptr<float>(), x.numel())
                                         : kernels::sum_squares(x.ptr<double>(), x.numel());
    }
    return PyFloat_FromDouble(total);
  });
}

PyObject* scale(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject* list;
    double factor;
    if (!PyArg_ParseTuple(args, "Od:_scale_", &list, &factor)) throw PyError();
    PyRef<> tensors = check(PySequence_Fast(list, "_scale_: expected a sequence of tensors"));
    if (PyRef<> there = device_part(&tensors, "_scale_")) {
      PyRef<> number = check(PyFloat_FromDouble(factor));
      check(on_device("scale_", check(PyTuple_Pack(2, there.get(), number.get())).get()));
    }
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(tensors.get()); ++i) {
      Operand x(tensor_argument(PySequence_Fast_GET_ITEM(tensors.get(), i), "_scale_", "tensors"), "_scale_", true);
      {
        GilRelease unlocked(x.numel());
        if (x.dtype() == DType::Float) kernels::scale(static_cast<float>(factor), x.ptr<float>(), x.numel());
        else kernels::scale(factor, x.ptr<double>(), x.numel());
      }
      x.finish();
    }
    return none();
  });
}

PyMethodDef methods[] = {
    {"_sgd_step", sgd_step, METH_VARARGS,
     "_sgd_step(p, grad, buf, lr, momentum, dampening, weight_decay, nesterov)\n\nOne step of SGD on the tensor p. buf "
     "is the momentum buffer or None; weight decay is added into grad."},
    {"_adam_step", adam_step, METH_VARARGS,
     "_adam_step(p, grad, exp_avg, exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay)\n\nOne step of Adam on the "
     "tensor p."},
    {"_sum_squares", sum_squares, METH_O, "_sum_squares(tensors) -> float"},
    {"_scale_", scale, METH_VARARGS, "_scale_(tensors, factor)\n\nMultiplies each tensor in place."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_optim_steps(PyObject* module) { check(PyModule_AddFunctions(module, methods)); }

}  // namespace torchlite
