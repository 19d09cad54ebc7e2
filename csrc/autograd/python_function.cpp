// `_FunctionBase` as Python sees it: type object, attributes and the registration of the Python classes.
#include "autograd/python_function.h"
#include "utils/method.h"
#include "utils/trashcan.h"

#include "autograd/python_variable.h"

namespace torchlite {

PyObject* interned(const char* text) {
  PyObject* s = PyUnicode_InternFromString(text);
  if (!s) throw PyError();
  return s;
}

PyObject* function_class = nullptr;
PyObject* stochastic_function_class = nullptr;

namespace {

Edge* function_edges(Node* self) { return static_cast<PyFunction*>(self)->next.data(); }

void function_release(Node* node) {
  auto* self = static_cast<PyFunction*>(node);
  if (self->saved.empty()) return;
  self->was_freed = true;
  // Emptied first: a finalizer that runs now may ask for the saved values.
  auto dying = std::exchange(self->saved, {});
}

int function_traverse(Node* node, visitproc visit, void* arg) {
  auto* self = static_cast<PyFunction*>(node);
  for (const Edge& e : self->next) Py_VISIT(e.function.object());
  for (const SavedVariable& s : self->saved)
    if (int r = s.traverse(visit, arg)) return r;
  Py_VISIT(self->to_save.get());
  Py_VISIT(self->dirty_tensors.get());
  Py_VISIT(self->shared_pairs.get());
  Py_VISIT(self->non_differentiable.get());
  return 0;
}

// Drops every reference; what is left behaves like an instance that never ran.
void function_clear(Node* node) {
  auto* self = static_cast<PyFunction*>(node);
  self->n_inputs = 0;
  auto next = std::exchange(self->next, {});
  auto arguments = std::exchange(self->arguments, {});
  auto saved = std::exchange(self->saved, {});
  if (!saved.empty()) self->was_freed = true;
  self->to_save.reset();
  self->dirty_tensors.reset();
  self->shared_pairs.reset();
  self->non_differentiable.reset();
}

// ---- slots ----------------------------------------------------------------------------------------------------------

PyObject* function_tp_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    // A subclass with its own __init__ takes the arguments there.
    if (type->tp_init == PyBaseObject_Type.tp_init && type->tp_new == FunctionBase_Type.tp_new &&
        (PyTuple_GET_SIZE(args) || (keywords && PyDict_GET_SIZE(keywords))))
      type_error("%.100s() takes no arguments", type->tp_name);
    auto* self = static_cast<PyFunction*>(type->tp_alloc(type, 0));
    if (!self) throw PyError();
    new (&self->arguments) std::vector<PyFunction::Argument>();
    new (&self->next) std::vector<Edge>();
    new (&self->outputs) std::vector<TensorSpec>();
    new (&self->saved) std::vector<SavedVariable>();
    construct_node(self, &python_function_class, 0, 0, false);
    return self;
  });
}

void function_tp_dealloc(PyObject* o) {
  PyFunction* self = as_function(o);
  if (PyObject_GC_IsTracked(o)) PyObject_GC_UnTrack(o);
  TRASHCAN_BEGIN(o, function_tp_dealloc);
  destroy_node(self);
  function_clear(self);
  std::destroy_at(&self->arguments);
  std::destroy_at(&self->next);
  std::destroy_at(&self->outputs);
  std::destroy_at(&self->saved);
  Py_TYPE(o)->tp_free(o);
  TRASHCAN_END
}

// One of the four pending attributes.
template <PyRef<> PyFunction::*Member>
PyObject* function_get_pending(PyObject* o, void*) {
  PyObject* value = (as_function(o)->*Member).get();
  return new_ref(value ? value : Py_None);
}

template <PyRef<> PyFunction::*Member>
int function_set_pending(PyObject* o, PyObject* value, void* name) {
  PyFunction* self = as_function(o);
  bool clears = !value || value == Py_None;
  if (!clears && self->is_recorded) {
    PyErr_Format(PyExc_RuntimeError, "%.100s: %s is only read at the end of forward and can't be set afterwards",
                 node_name(self), static_cast<const char*>(name));
    return -1;
  }
  (self->*Member) = clears ? PyRef<>() : PyRef<>::borrow(value);
  return 0;
}

PyObject* function_get_needs_input_grad(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    PyFunction* self = as_function(o);
    if (!self->was_called && !self->is_running) return none();
    PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(self->arguments.size())));
    for (size_t i = 0; i < self->arguments.size(); ++i)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), PyBool_FromLong(self->arguments[i].needs_grad));
    return out.release();
  });
}

// A tuple of what was saved, each value by `unpack`.
template <class F>
PyObject* saved_tuple(PyFunction* self, F&& unpack) {
  return guard([&]() -> PyObject* {
    if (self->was_freed) buffers_freed();
    size_t n = self->saved.size();
    PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(n)));
    for (size_t i = 0; i < n; ++i) {
      // Unpacking the one before may have run a finalizer that freed the rest.
      if (i >= self->saved.size()) buffers_freed();
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), unpack(self->saved[i]));
    }
    return out.release();
  });
}

PyObject* function_get_saved_tensors(PyObject* o, void*) {
  PyFunction* self = as_function(o);
  return saved_tuple(self, [&](const SavedVariable& s) {
    if (s.is_none()) return none();
    return new_ref(static_cast<PyObject*>(s.unpack_data(self)));
  });
}

PyObject* function_get_saved_variables(PyObject* o, void*) {
  PyFunction* self = as_function(o);
  return saved_tuple(self, [&](const SavedVariable& s) {
    if (s.is_none()) return none();
    return s.unpack(self).release();
  });
}

PyMethodDef function_methods[] = {
    {"apply", method(function_apply), METH_FASTCALL | METH_KEYWORDS | METH_CLASS,
     "apply(*args)\n\nCalls `forward(ctx, *args)` with the tensors of the Variables among args and returns its results "
     "as Variables. Keyword arguments raise TypeError."},
    {"_do_forward", method(function_do_forward), METH_FASTCALL,
     "_do_forward(*variables)\n\nCalls `self.forward(*tensors)`; an instance can be called once."},
    {"_do_backward", method(function_do_backward), METH_FASTCALL,
     "_do_backward(grad_outputs, retain)\n\nCalls `self.backward(*tensors)` with zeros for missing gradients and "
     "returns a tuple of tensors or None. What was saved is dropped unless retain is true."},
    {nullptr, nullptr, 0, nullptr},
};

template <PyRef<> PyFunction::*Member>
constexpr PyGetSetDef pending(const char* name, const char* doc) {
  return {name, function_get_pending<Member>, function_set_pending<Member>, doc, const_cast<char*>(name)};
}

PyGetSetDef function_getset[] = {
    pending<&PyFunction::to_save>("to_save", "Tuple set by save_for_backward; consumed after forward."),
    pending<&PyFunction::dirty_tensors>("dirty_tensors", "Tuple set by mark_dirty; consumed after forward."),
    pending<&PyFunction::shared_pairs>("shared_pairs", "Tuple set by mark_shared_storage; consumed after forward."),
    pending<&PyFunction::non_differentiable>("non_differentiable",
                                             "Tuple set by mark_non_differentiable; consumed after forward."),
    {"needs_input_grad", function_get_needs_input_grad, nullptr,
     "Tuple of bools, one per argument of forward; None before forward.", nullptr},
    {"saved_tensors", function_get_saved_tensors, nullptr,
     "Tuple of the saved tensors (or None). RuntimeError if one was modified or the graph was freed.", nullptr},
    {"saved_variables", function_get_saved_variables, nullptr, "The same as Variables with their place in the graph.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// A class that the calling module has under `name`, or nullptr if it has none; it must derive from `base`.
PyObject* find_class(PyObject* globals, const char* name, PyTypeObject* base) {
  PyObject* found = globals ? PyDict_GetItemString(globals, name) : nullptr;
  if (!found) return nullptr;
  if (!PyType_Check(found) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(found), base))
    type_error("_autograd_init: %s must be a subclass of %s, but got %.100s", name, base->tp_name,
               PyType_Check(found) ? reinterpret_cast<PyTypeObject*>(found)->tp_name : type_name(found));
  return found;
}

struct RegisteredClass {
  const char* name;
  PyTypeObject* base;
  void (*take)(PyObject* cls);
};

std::vector<RegisteredClass> registered_classes;

// Sets a global that owns its class.
template <class T>
void replace_class(T*& slot, PyObject* value) {
  auto old = PyRef<T>::steal(std::exchange(slot, PyRef<T>::borrow(reinterpret_cast<T*>(value)).release()));
}

}  // namespace

const NodeClass python_function_class = {
    .kind = NodeKind::Python,
    .apply = function_backward,
    .release = function_release,
    .edges = function_edges,
    .traverse = function_traverse,
    .clear = function_clear,
};

PyTypeObject FunctionBase_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._FunctionBase",
    .tp_basicsize = sizeof(PyFunction),
    .tp_dealloc = function_tp_dealloc,
    .tp_getattro = PyObject_GenericGetAttr,
    .tp_setattro = PyObject_GenericSetAttr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The node of a Function that is defined in Python.",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_methods = function_methods,
    .tp_getset = function_getset,
    .tp_base = &Node_Type,
    .tp_new = function_tp_new,
};

PyObject* autograd_init(PyObject*, PyObject*) {
  return guard([&]() -> PyObject* {
    PyObject* globals = PyEval_GetGlobals();
    PyObject* variable = find_class(globals, "Variable", &VariableBase_Type);
    PyObject* function = find_class(globals, "Function", &FunctionBase_Type);
    PyObject* stochastic = find_class(globals, "StochasticFunction", &FunctionBase_Type);
    std::vector<PyObject*> others;
    for (const RegisteredClass& c : registered_classes) others.push_back(find_class(globals, c.name, c.base));
    if (!variable || !function) return new_ref(Py_False);
    // The initial value is a static type that the global does not own.
    if (variable_class == &VariableBase_Type) new_ref(variable_class);
    replace_class(variable_class, variable);
    shorten_dealloc(variable_class);
    replace_class(function_class, function);
    replace_class(stochastic_function_class, stochastic);
    for (size_t i = 0; i < others.size(); ++i) registered_classes[i].take(others[i]);
    return new_ref(Py_True);
  });
}

void add_registered_class(const char* name, PyTypeObject* base, void (*take)(PyObject* cls)) {
  registered_classes.push_back({name, base, take});
}

void init_python_function(PyObject* module) {
  check(PyType_Ready(&FunctionBase_Type));
  check(PyModule_AddType(module, &FunctionBase_Type));
}

}  // namespace torchlite
