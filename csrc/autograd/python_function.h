// PyFunction: `_FunctionBase`, the node of a Function that is defined in Python.
//
//   new style   cls.apply(*args) makes an instance of cls._backward_cls, the context, and calls
//               cls.forward(ctx, *args); backward calls ctx.apply(*grads) on Variables
//   old style   instance(*variables) calls instance.forward(*tensors), once; backward calls
//               instance._do_backward(grads, retain) on tensors
//
// python_function.cpp holds the type, python_forward.cpp a call and what becomes of its results, python_backward.cpp
// the gradients.
//
// Invariants: `arguments` has one entry an argument of forward, `next` one a Variable argument, in order; n_inputs is
// next.size(). Until forward has returned, an instance has neither, and every attribute is usable. The four pending
// attributes are what forward asked for; they are consumed when it returns and refused afterwards.
#pragma once

#include <vector>

#include "autograd/function.h"

namespace torchlite {

// Type, place and size of a tensor, without the tensor.
class TensorSpec {
 public:
  TensorSpec() = default;
  explicit TensorSpec(const Tensor* t) : dtype(t->dtype), device(t->device()), ndim_(t->ndim) {
    if (ndim_ > kInline) heap_ = new int64_t[ndim_];
    for (int d = 0; d < ndim_; ++d) dims()[d] = t->size(d);
  }
  TensorSpec(TensorSpec&& o) noexcept : dtype(o.dtype), device(o.device), ndim_(std::exchange(o.ndim_, uint8_t{0})) {
    for (int i = 0; i < kInline; ++i) inline_[i] = o.inline_[i];
  }
  TensorSpec& operator=(TensorSpec&& o) noexcept {
    std::swap(dtype, o.dtype);
    std::swap(device, o.device);
    std::swap(ndim_, o.ndim_);
    for (int i = 0; i < kInline; ++i) std::swap(inline_[i], o.inline_[i]);
    return *this;
  }
  ~TensorSpec() {
    if (ndim_ > kInline) delete[] heap_;
  }
  Dims sizes() const { return {ndim_ > kInline ? heap_ : inline_, ndim_}; }

  DType dtype = DType::Float;
  Device device = kCPU;

 private:
  static constexpr int kInline = 4;
  int64_t* dims() { return ndim_ > kInline ? heap_ : inline_; }

  uint8_t ndim_ = 0;
  union {
    int64_t inline_[kInline] = {};
    int64_t* heap_;  // owned when ndim_ > kInline
  };
};

struct PyFunction : Node {
  struct Argument {
    TensorSpec spec;  // of a Variable whose gradient is needed
    bool is_variable = false;
    bool needs_grad = false;
  };

  std::vector<Argument> arguments;
  std::vector<Edge> next;
  std::vector<TensorSpec> outputs;  // recorded when a gradient can arrive
  std::vector<SavedVariable> saved;
  PyRef<> to_save;
  PyRef<> dirty_tensors;
  PyRef<> shared_pairs;
  PyRef<> non_differentiable;
  bool is_running;   // inside forward
  bool was_called;   // forward returned
  bool is_recorded;  // results of forward descend from this instance
  bool is_legacy;    // old style
  bool was_freed;    // what was saved is gone
};

extern const NodeClass python_function_class;

inline bool is_function(PyObject* o) { return PyObject_TypeCheck(o, &FunctionBase_Type); }
inline PyFunction* as_function(PyObject* o) { return static_cast<PyFunction*>(as_node(o)); }

// The Python classes that `_autograd_init` found (owned; nullptr before it ran).
extern PyObject* function_class;
extern PyObject* stochastic_function_class;

// The attribute name `text` for the life of the process, for function-local statics.
PyObject* interned(const char* text);

// ---- python_forward.cpp: methods of `_FunctionBase` -----------------------------------------------------------------
PyObject* function_apply(PyObject* cls, PyObject* const* args, Py_ssize_t n, PyObject* keywords);
PyObject* function_do_forward(PyObject* self, PyObject* const* args, Py_ssize_t n);

// ---- python_backward.cpp --------------------------------------------------------------------------------------------
Gradients function_backward(Node* self, Gradients&& grads);
PyObject* function_do_backward(PyObject* self, PyObject* const* args, Py_ssize_t n);

// `_autograd_init()`: registers the Python classes Variable, Function, StochasticFunction and those of
// `add_registered_class` that the calling module has as globals; the last call wins. Returns whether Variable and
// Function were found; nothing changes if not, or if a class has the wrong base.
PyObject* autograd_init(PyObject* module, PyObject* unused);
// A further class that `_autograd_init` looks for: `name`, which must derive from `base`. `take` is given the class, or
// nullptr if the module has none.
void add_registered_class(const char* name, PyTypeObject* base, void (*take)(PyObject* cls));

void init_python_function(PyObject* module);

}  // namespace torchlite
