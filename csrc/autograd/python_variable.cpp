// How Python sees a Variable: the type object of `_VariableBase`, its constructor and its properties.
#include "autograd/observer.h"
#include "autograd/python_variable.h"

#include "autograd/function.h"
#include "autograd/functions/accumulate_grad.h"
#include "autograd/hooks.h"
#include "autograd/ops/indexing.h"
#include "autograd/python_function.h"
#include "utils/numpy_api.h"

namespace torchlite {

PyNumberMethods variable_number_methods;
richcmpfunc variable_richcompare;

namespace {

// ---- constructor --------------------------------------------------------------------------------------------------

struct ConstructorArgs {
  PyObject* data = nullptr;
  int requires_grad = 0;
  int is_volatile = 0;
  PyObject* grad_fn = nullptr;
};

// False with an exception set if the arguments do not fit.
bool parse_constructor(PyObject* args, PyObject* kwargs, ConstructorArgs* a) {
  static const char* const names[] = {"data", "requires_grad", "volatile", "_grad_fn", nullptr};
  return PyArg_ParseTupleAndKeywords(args, kwargs, "|OiiO:Variable", const_cast<char**>(names), &a->data,
                                     &a->requires_grad, &a->is_volatile, &a->grad_fn);
}

PyRef<Tensor> data_of(PyObject* o) {
  if (!o || o == Py_None) return new_tensor(DType::Float, std::vector<int64_t>{0});
  if (is_tensor(o)) return PyRef<Tensor>::borrow(as_tensor(o));
  if (PyArray_Check(o)) return tensor_from_numpy(o);
  if (is_cuda_array(o)) return tensor_from_cuda_array(o);
  runtime_error("Variable data has to be a tensor, but got %s", type_name(o));
}

void require_differentiable(const Tensor* t, const char* what) {
  if (!is_floating(t->dtype))
    runtime_error("%s: only Variables of a floating point type can require gradients, but the data is a %s", what,
                  info(t->dtype).name);
}

// Sets everything that the constructor says on a Variable that nobody else has seen.
void construct(Variable* v, const ConstructorArgs& a) {
  if (a.is_volatile && a.requires_grad) runtime_error("Variable can't be volatile and require_grad at the same time!");
  bool has_grad_fn = a.grad_fn && a.grad_fn != Py_None;
  if (has_grad_fn && !is_function(a.grad_fn) && !is_node(a.grad_fn))
    runtime_error("Variable _grad_fn has to be a Function object or None, but got %s", type_name(a.grad_fn));
  PyRef<Tensor> data = data_of(a.data);
  if (a.requires_grad) require_differentiable(data.get(), "Variable");
  Node* f = has_grad_fn ? as_node(a.grad_fn) : nullptr;
  if (f) v->output_nr = add_output(f);
  v->data = std::move(data);
  v->requires_grad = a.requires_grad != 0;
  v->is_volatile = a.is_volatile != 0;
  if (f) {
    v->requires_grad = f->requires_grad;
    v->grad_fn = PyRef<Node>::borrow(f);
  }
}

int variable_tp_init(PyObject* o, PyObject* args, PyObject* kwargs);

// A subclass that overrides only `__init__` may take arguments of its own: its `super().__init__(...)` constructs.
// Until then the Variable holds an empty tensor.
PyObject* variable_tp_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    ConstructorArgs a;
    bool fits = parse_constructor(args, kwargs, &a);
    if (!fits) {
      if (type->tp_init == variable_tp_init || !PyErr_ExceptionMatches(PyExc_TypeError)) throw PyError();
      PyErr_Clear();  // the arguments are for the subclass's __init__
    }
    bool complete = fits && (type->tp_init == variable_tp_init || !a.data || is_tensor(a.data) || a.data == Py_None ||
                             is_array(a.data) || is_cuda_array(a.data));
    PyRef<Variable> v = allocate_variable(type, complete ? PyRef<Tensor>() : data_of(nullptr));
    if (complete) construct(v.get(), a);
    PyObject_GC_Track(v.get());
    return v.release();
  });
}

// `__new__` has constructed already, unless a subclass's `__init__` passes on other arguments than it was given.
int variable_tp_init(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guard(-1, [&]() {
    ConstructorArgs a;
    if (!parse_constructor(args, kwargs, &a)) throw PyError();
    Variable* v = as_variable(o);
    bool pristine = v->data->numel == 0 && !v->grad_fn && !v->grad && !v->accumulator && !v->counter;
    if (Py_TYPE(o)->tp_init != variable_tp_init && pristine && a.data && a.data != Py_None) {
      PyRef<Tensor> old = std::move(v->data);
      try {
        construct(v, a);
      } catch (...) {
        if (!v->data) v->data = std::move(old);
        throw;
      }
    }
    return 0;
  });
}

// ---- properties ---------------------------------------------------------------------------------------------------

PyObject* get_data(PyObject* o, void*) {
  Variable* v = as_variable(o);
  if (!call_observer || !v->is_traced) return new_ref(v->data.get());
  return guard([&]() -> PyObject* {
    call_observer->data_read(v);
    return new_ref(v->data.get());
  });
}

int set_data(PyObject* o, PyObject* value, void*) {
  return guard(-1, [&]() {
    if (!value) runtime_error("cannot delete the data of a Variable");
    if (!is_tensor(value) && !is_array(value))
      runtime_error("Variable data has to be a tensor, but got %s", type_name(value));
    PyRef<Tensor> data = data_of(value);
    Variable* v = as_variable(o);
    if (v->requires_grad) require_differentiable(data.get(), "Variable.data");
    v->data = std::move(data);
    return 0;
  });
}

PyObject* get_grad(PyObject* o, void*) {
  Variable* grad = as_variable(o)->grad.get();
  return grad ? new_ref(grad) : none();
}

int assign_grad(PyObject* o, PyObject* value, void*) {
  return guard(-1, [&]() {
    if (value && value != Py_None && !is_variable(value))
      runtime_error("expected Variable or None (got %s)", type_name(value));
    set_grad(as_variable(o), value && value != Py_None ? as_variable(value) : nullptr);
    return 0;
  });
}

PyObject* get_grad_fn(PyObject* o, void*) {
  Node* f = as_variable(o)->grad_fn.get();
  return f ? new_ref(f) : none();
}

int set_private_grad_fn(PyObject* o, PyObject* value, void*) {
  return guard(-1, [&]() {
    if (value != Py_None) runtime_error("_grad_fn can be only set to None");
    // A leaf is the only output of its accumulator.
    as_variable(o)->output_nr = 0;
    as_variable(o)->grad_fn.reset();
    return 0;
  });
}

PyObject* get_is_leaf(PyObject* o, void*) { return PyBool_FromLong(!as_variable(o)->grad_fn); }
PyObject* get_requires_grad(PyObject* o, void*) { return PyBool_FromLong(as_variable(o)->requires_grad); }

int set_requires_grad(PyObject* o, PyObject* value, void*) {
  return guard(-1, [&]() {
    Variable* v = as_variable(o);
    if (!value || !PyBool_Check(value))
      runtime_error("requires_grad must be a bool, not %.100s", value ? type_name(value) : "deleted");
    if (v->grad_fn) {
      const char* hint = value == Py_False ? " If you want to use a computed variable in a subgraph that doesn't "
                                             "require differentiation use var_no_grad = var.detach()."
                                           : "";
      runtime_error("you can only change requires_grad flags of leaf variables.%s", hint);
    }
    if (value == Py_True) require_differentiable(v->data.get(), "requires_grad");
    v->requires_grad = value == Py_True;
    if (v->accumulator) v->accumulator->requires_grad = v->requires_grad;
    return 0;
  });
}

PyObject* get_volatile(PyObject* o, void*) { return PyBool_FromLong(as_variable(o)->is_volatile); }

int set_volatile(PyObject* o, PyObject* value, void*) {
  return guard(-1, [&]() {
    Variable* v = as_variable(o);
    if (!value || !PyBool_Check(value)) runtime_error("volatile must be a bool");
    if (v->grad_fn) runtime_error("volatile can only be set on leaf variables");
    v->is_volatile = value == Py_True;
    return 0;
  });
}

PyObject* get_output_nr(PyObject* o, void*) { return PyLong_FromUnsignedLong(as_variable(o)->output_nr); }
PyObject* get_version(PyObject* o, void*) { return PyLong_FromLongLong(as_variable(o)->version()); }

PyObject* get_backward_hooks(PyObject* o, void*) {
  PyObject* hooks = as_variable(o)->backward_hooks.get();
  return new_ref(hooks ? hooks : Py_None);
}

int set_backward_hooks(PyObject* o, PyObject* value, void*) {
  return guard(-1, [&]() {
    if (!value) runtime_error("cannot delete _backward_hooks: set it to None");
    Variable* v = as_variable(o);
    PyRef<> hooks = value == Py_None ? PyRef<>() : PyRef<>::borrow(value);
    // An accumulator reads the hooks of its leaf; other functions hold the dicts of their results.
    if (v->grad_fn) {
      if (hooks) add_pre_hook(v->grad_fn.get(), hooks.get(), v->output_nr);
      if (v->backward_hooks && v->backward_hooks.get() != hooks.get())
        remove_pre_hook(v->grad_fn.get(), v->backward_hooks.get(), v->output_nr);
    }
    std::swap(v->backward_hooks, hooks);
    return 0;
  });
}

// Attributes of the data under their own name.
PyObject* get_from_data(PyObject* o, void* name) {
  return PyObject_GetAttrString(as_variable(o)->data.object(), static_cast<const char*>(name));
}

// A shape is asked for more often than anything else of the data.
PyObject* get_shape(PyObject* o, void*) {
  return guard([&]() -> PyObject* { return size_tuple(as_variable(o)->data->sizes()).release(); });
}

void* name_closure(const char* name) { return const_cast<char*>(name); }

// ---- mapping ------------------------------------------------------------------------------------------------------

Py_ssize_t variable_mp_length(PyObject* o) {
  return guard(Py_ssize_t{-1}, [&]() -> Py_ssize_t {
    const Tensor* t = as_variable(o)->data.get();
    if (t->ndim == 0) type_error("len() of a 0-d Variable");
    return static_cast<Py_ssize_t>(t->size(0));
  });
}

int variable_mp_ass_subscript(PyObject* o, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "elements of a Variable cannot be deleted");
    return -1;
  }
  return guard(-1, [&]() { return variable_setitem(o, key, value); });
}

PyObject* variable_mp_subscript(PyObject* o, PyObject* key) {
  return guard([&]() -> PyObject* { return variable_getitem(o, key).release(); });
}

PyMappingMethods variable_mapping = {
    .mp_length = variable_mp_length,
    .mp_subscript = variable_mp_subscript,
    .mp_ass_subscript = variable_mp_ass_subscript,
};

int variable_nb_bool(PyObject* o) {
  return guard(-1, [&]() {
    const Tensor* t = as_variable(o)->data.get();
    if (t->numel == 0) return 0;
    runtime_error("bool value of Variable objects containing non-empty %s is ambiguous",
                  type_name(as_variable(o)->data.object()));
  });
}

// The same number as id(), which keys of optimisers and memos are made of.
Py_hash_t variable_tp_hash(PyObject* o) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(o)); }

PyObject* variable_tp_repr(PyObject* o) {
  return guard([&]() -> PyObject* {
    Unobserved printing;
    PyRef<> data = check(PyObject_Repr(as_variable(o)->data.object()));
    return PyUnicode_FromFormat("Variable containing:%U", data.get());
  });
}

}  // namespace

PyGetSetDef variable_getset[] = {
    {"data", get_data, set_data, "The tensor: the same object each time.", nullptr},
    {"grad", get_grad, assign_grad, "The accumulated gradient, a Variable, or None.", nullptr},
    {"_grad", get_grad, assign_grad, "As `grad`.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The function that made this Variable, None for a leaf.", nullptr},
    {"_grad_fn", get_grad_fn, set_private_grad_fn, "As `grad_fn`; may be set to None.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether the user made it: `grad_fn` is None.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether a gradient is wanted.", nullptr},
    {"volatile", get_volatile, set_volatile, "Whether it is an input of pure inference.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Index among the results of `grad_fn`.", nullptr},
    {"_version", get_version, nullptr, "How often its memory was written in place through Variables.", nullptr},
    {"_backward_hooks", get_backward_hooks, set_backward_hooks, "Dict of hooks on its gradient, or None.", nullptr},
    {"shape", get_shape, nullptr, "Sizes, a torchlite.Size.", nullptr},
    {"dtype", get_from_data, nullptr, "Element type of the data.", name_closure("dtype")},
    {"ndim", get_from_data, nullptr, "Number of dimensions.", name_closure("ndim")},
    {"is_cuda", get_from_data, nullptr, "Whether the data lies on a CUDA device.", name_closure("is_cuda")},
    // Bound methods of the data.
    {"size", get_from_data, nullptr, "size(dim=None): sizes of the data.", name_closure("size")},
    {"stride", get_from_data, nullptr, "stride(dim=None): strides of the data.", name_closure("stride")},
    {"dim", get_from_data, nullptr, "dim(): number of dimensions.", name_closure("dim")},
    {"ndimension", get_from_data, nullptr, "ndimension(): number of dimensions.", name_closure("ndimension")},
    {"numel", get_from_data, nullptr, "numel(): number of elements.", name_closure("numel")},
    {"nelement", get_from_data, nullptr, "nelement(): number of elements.", name_closure("nelement")},
    {"element_size", get_from_data, nullptr, "element_size(): bytes of one element.", name_closure("element_size")},
    {"is_contiguous", get_from_data, nullptr, "is_contiguous(): row-major without gaps.",
     name_closure("is_contiguous")},
    {"is_set_to", get_from_data, nullptr, "is_set_to(tensor): the same view of the same memory.",
     name_closure("is_set_to")},
    {"is_same_size", get_from_data, nullptr, "is_same_size(tensor).", name_closure("is_same_size")},
    {"is_signed", get_from_data, nullptr, "is_signed().", name_closure("is_signed")},
    {"get_device", get_from_data, nullptr, "get_device(): CUDA device index.", name_closure("get_device")},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject VariableBase_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._VariableBase",
    .tp_basicsize = sizeof(Variable),
    .tp_dealloc = variable_tp_dealloc,
    .tp_repr = variable_tp_repr,
    .tp_as_number = &variable_number_methods,
    .tp_as_mapping = &variable_mapping,
    .tp_hash = variable_tp_hash,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "_VariableBase(data=None, requires_grad=False, volatile=False, _grad_fn=None)\n\n"
        "A tensor that takes part in automatic differentiation.",
    .tp_traverse = variable_tp_traverse,
    .tp_clear = variable_tp_clear,
    .tp_weaklistoffset = offsetof(Variable, weakrefs),
    .tp_methods = variable_methods,
    .tp_getset = variable_getset,
    .tp_dictoffset = offsetof(Variable, dict),
    .tp_init = variable_tp_init,
    .tp_new = variable_tp_new,
};

void init_variable(PyObject* module) {
  variable_number_methods.nb_bool = variable_nb_bool;
  VariableBase_Type.tp_richcompare = variable_richcompare;
  check(PyType_Ready(&VariableBase_Type));
  PyRef<> priority = check(PyFloat_FromDouble(1000.0));
  check(PyDict_SetItemString(VariableBase_Type.tp_dict, "__array_priority__", priority.get()));
  // ndarray (op) Variable is a Variable: NumPy hands the operation over.
  check(PyDict_SetItemString(VariableBase_Type.tp_dict, "__array_ufunc__", Py_None));
  check(PyModule_AddType(module, &VariableBase_Type));
}

}  // namespace torchlite
