#include "autograd/hooks.h"

#include "autograd/python_function.h"
#include "tensor/exports.h"

namespace torchlite {

namespace {

// The name of a hook for messages; the reference keeps the text alive.
class HookName {
 public:
  explicit HookName(PyObject* hook) {
    name_ = PyRef<>::steal(PyObject_GetAttrString(hook, "__name__"));
    const char* text = name_ && PyUnicode_Check(name_.get()) ? PyUnicode_AsUTF8(name_.get()) : nullptr;
    if (text) text_ = text;
    PyErr_Clear();  // a hook without a usable __name__ is <unknown>
  }
  const char* c_str() const { return text_; }

 private:
  PyRef<> name_;
  const char* text_ = "<unknown>";
};

// The (key, hook) pairs of a dict or of any other mapping, in its own order.
PyRef<> hook_items(PyObject* dict) { return check(PyMapping_Items(dict)); }

// Whether `hook` still stands under `key`: a hook may remove a later one.
bool still_registered(PyObject* dict, PyObject* key, PyObject* hook) {
  if (PyDict_Check(dict)) {
    PyObject* current = PyDict_GetItemWithError(dict, key);
    if (!current && PyErr_Occurred()) throw PyError();
    return current == hook;
  }
  PyRef<> current = PyRef<>::steal(PyObject_GetItem(dict, key));
  if (!current) {
    if (!PyErr_ExceptionMatches(PyExc_KeyError)) throw PyError();
    PyErr_Clear();  // the KeyError of a hook that is gone
  }
  return current.get() == hook;
}

// Calls `body(hook)` for every hook of `dict`.
template <class F>
void for_each_hook(PyObject* dict, F&& body) {
  if (dict == Py_None || (PyDict_CheckExact(dict) && PyDict_GET_SIZE(dict) == 0)) return;
  PyRef<> items = hook_items(dict);
  Py_ssize_t n = PyList_GET_SIZE(items.get());
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* pair = PyList_GET_ITEM(items.get(), i);
    if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2)
      type_error("the items of a hook dict must be pairs, but got %.100s", type_name(pair));
    PyObject* hook = PyTuple_GET_ITEM(pair, 1);
    if (still_registered(dict, PyTuple_GET_ITEM(pair, 0), hook)) body(hook);
  }
}

// Throws unless `result` may stand for the gradient `value` (either may be missing).
void check_result(Variable* value, PyObject* result, PyObject* hook) {
  if (result == Py_None) return;
  if (!value) runtime_error("can't replace a None gradient with a non-None value");
  if (!is_variable(result)) type_error("expected Variable, but hook returned '%.100s'", type_name(result));
  const Tensor* was = value->data.get();
  const Tensor* got = as_variable(result)->data.get();
  if (was == got) return;
  bool was_cuda = was->device() != kCPU, got_cuda = got->device() != kCPU;
  if (was_cuda != got_cuda)
    runtime_error("hook '%.100s' has changed the type of value (was %s got %s)", HookName(hook).c_str(),
                  was_cuda ? "CUDA tensor" : "CPU tensor", got_cuda ? "CUDA tensor" : "CPU tensor");
  if (was->dtype != got->dtype)
    runtime_error("hook '%.100s' has changed the type of value (was %.100s got %.100s)", HookName(hook).c_str(),
                  type_name(value->data.object()), type_name(as_variable(result)->data.object()));
  if (was->device() != got->device())
    runtime_error("hook '%.100s' has changed the device of value (was CUDA device %d got CUDA device %d)",
                  HookName(hook).c_str(), was->device(), got->device());
  if (!(was->sizes() == got->sizes()))
    runtime_error("hook '%.100s' has changed the size of value (was %s got %s)", HookName(hook).c_str(),
                  format_dims(was->sizes()).c_str(), format_dims(got->sizes()).c_str());
}

// A gradient may be on its way to other functions as well, or be the caller's own: while a hook runs, writing into one
// that others hold is an error. Writes through NumPy are not seen.
class SharedGradient : public WriteObserver {
 public:
  SharedGradient(const Variable* grad, PyObject* hook) : hook_(hook) {
    if (!grad) return;
    const Tensor* t = grad->data.get();
    storage_ = t->storage.get();
    if (Py_REFCNT(grad) == 1 && has_private_memory(t)) return;
    before_write = refuse;
    next = std::exchange(write_observers, this);
  }
  ~SharedGradient() {
    if (before_write) write_observers = next;
  }
  SharedGradient(const SharedGradient&) = delete;

 private:
  static void refuse(WriteObserver* observer, const Tensor* written) {
    auto* self = static_cast<SharedGradient*>(observer);
    if (written->storage.get() == self->storage_)
      runtime_error(
          "hook '%.100s' writes into its gradient, whose memory others use too: it must return a new Variable instead",
          HookName(self->hook_).c_str());
  }

  PyObject* hook_;
  const Storage* storage_ = nullptr;
};

PyObject* object_or_none(const PyRef<Variable>& v) { return v ? v.object() : Py_None; }

PyRef<> gradient_tuple(const Gradients& grads) {
  PyRef<> t = check(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
  for (size_t i = 0; i < grads.size(); ++i)
    PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), new_ref(object_or_none(grads[i])));
  return t;
}

// (dict, handle) of a new post-hook, by the registered Function class, which decides what a handle is.
PyRef<> register_by_function_class(PyObject* dict, PyObject* hook) {
  PyRef<> pair = check(PyObject_CallMethod(function_class, "_register_hook", "OO", dict, hook));
  if (!PyTuple_Check(pair.get()) || PyTuple_GET_SIZE(pair.get()) != 2)
    type_error("_register_hook must return a (dict, handle) tuple, but got %.100s", type_name(pair.get()));
  return pair;
}

// The same without a Function class: the extension used by itself.
PyRef<> register_directly(PyObject* existing, PyObject* hook) {
  PyRef<> utils = check(PyImport_ImportModule("torchlite.utils.hooks"));
  PyRef<> dict = PyRef<>::borrow(existing);
  if (existing == Py_None) {
    PyRef<> collections = check(PyImport_ImportModule("collections"));
    dict = check(PyObject_CallMethod(collections.get(), "OrderedDict", nullptr));
  }
  PyRef<> handle = check(PyObject_CallMethod(utils.get(), "RemovableHandle", "O", dict.get()));
  PyRef<> id = check(PyObject_GetAttrString(handle.get(), "id"));
  check(PyObject_SetItem(dict.get(), id.get(), hook));
  return check(PyTuple_Pack(2, dict.get(), handle.get()));
}

}  // namespace

void add_pre_hook(Node* self, PyObject* dict, uint32_t index) {
  auto& hooks = extra(self).pre_hooks;
  for (const auto& h : hooks)
    if (h.dict.get() == dict && h.index == index) return;
  hooks.push_back({PyRef<>::borrow(dict), index});
}

void remove_pre_hook(Node* self, PyObject* dict, uint32_t index) {
  if (!self->extra) return;
  PyRef<> removed;  // dies after the vector is whole again
  auto& hooks = self->extra->pre_hooks;
  for (size_t i = 0; i < hooks.size(); ++i) {
    if (hooks[i].dict.get() != dict || hooks[i].index != index) continue;
    removed = std::move(hooks[i].dict);
    hooks.erase(hooks.begin() + static_cast<std::ptrdiff_t>(i));
    return;
  }
}

void run_variable_hooks(PyObject* dict, PyRef<Variable>& grad) {
  if (!dict) return;
  PyRef<> keep = PyRef<>::borrow(dict);  // a hook may replace the dict that it stands in
  for_each_hook(dict, [&](PyObject* hook) {
    SharedGradient guard(grad.get(), hook);
    PyRef<> result = check(PyObject_CallOneArg(hook, object_or_none(grad)));
    check_result(grad.get(), result.get(), hook);
    if (result.get() != Py_None) grad = std::move(result).cast<Variable>();
  });
}

void run_pre_hooks(Node* self, Gradients& grads) {
  if (!self->extra) return;
  // By index: a hook may add a further dict, which moves the vector.
  size_t n = self->extra->pre_hooks.size();
  for (size_t i = 0; i < n && i < self->extra->pre_hooks.size(); ++i) {
    PyRef<> dict = self->extra->pre_hooks[i].dict.copy();
    uint32_t index = self->extra->pre_hooks[i].index;
    if (index < grads.size()) run_variable_hooks(dict.get(), grads[index]);
  }
}

void run_post_hooks(Node* self, Gradients& grad_inputs, const Gradients& grad_outputs) {
  if (!self->extra || !self->extra->post_hooks) return;
  PyRef<> dict = self->extra->post_hooks.copy();
  PyRef<> outputs;
  for_each_hook(dict.get(), [&](PyObject* hook) {
    if (!outputs) outputs = gradient_tuple(grad_outputs);
    PyRef<> inputs = gradient_tuple(grad_inputs);
    PyRef<> result = check(PyObject_CallFunctionObjArgs(hook, inputs.get(), outputs.get(), nullptr));
    if (result.get() == Py_None) return;
    if (!PyTuple_Check(result.get())) type_error("expected tuple, but hook returned '%.100s'", type_name(result.get()));
    Py_ssize_t got = PyTuple_GET_SIZE(result.get()), expected = static_cast<Py_ssize_t>(grad_inputs.size());
    if (got != expected)
      runtime_error("hook '%.100s' has returned an incorrect number of values (got %zd, but expected %zd)",
                    HookName(hook).c_str(), got, expected);
    for (Py_ssize_t i = 0; i < got; ++i)
      check_result(grad_inputs[static_cast<size_t>(i)].get(), PyTuple_GET_ITEM(result.get(), i), hook);
    for (Py_ssize_t i = 0; i < got; ++i) {
      PyObject* item = PyTuple_GET_ITEM(result.get(), i);
      grad_inputs[static_cast<size_t>(i)] =
          item == Py_None ? PyRef<Variable>() : PyRef<Variable>::borrow(as_variable(item));
    }
  });
}

PyObject* node_register_hook(PyObject* self, PyObject* hook) {
  return guard([&]() -> PyObject* {
    if (!PyCallable_Check(hook))
      type_error("register_hook: the hook must be callable, but got %.100s", type_name(hook));
    NodeExtra& parts = extra(as_node(self));
    PyRef<> existing = parts.post_hooks ? parts.post_hooks.copy() : none_ref();
    PyRef<> pair =
        function_class ? register_by_function_class(existing.get(), hook) : register_directly(existing.get(), hook);
    parts.post_hooks = PyRef<>::borrow(PyTuple_GET_ITEM(pair.get(), 0));
    return new_ref(PyTuple_GET_ITEM(pair.get(), 1));
  });
}

PyObject* node_register_hook_dict(PyObject* self, PyObject* variable) {
  return guard([&]() -> PyObject* {
    if (!is_variable(variable)) runtime_error("_register_hook_dict expected a variable");
    Variable* v = as_variable(variable);
    if (!v->backward_hooks)
      runtime_error("_register_hook_dict expected a variable with hooks, but its _backward_hooks is None");
    add_pre_hook(as_node(self), v->backward_hooks.get(), v->output_nr);
    return none();
  });
}

}  // namespace torchlite
