#include "autograd/ops/python_row.h"

#include <bit>

#include "autograd/ops/bind.h"
#include "autograd/ops/types.h"
#include "tensor/broadcast.h"
#include "tensor/cuda.h"
#include "tensor/python_tensor.h"
#include "utils/method.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// ---- forward ------------------------------------------------------------------------------------------------------

// What a Python forward returned as its result `k`, as a tensor that nobody else writes to.
PyRef<Tensor> read_result(const Call& c, PyObject* value, int k) {
  PyRef<Tensor> t;
  if (is_tensor(value)) {
    t = PyRef<Tensor>::borrow(as_tensor(value));
  } else if (is_array(value) || PyArray_IsScalar(value, Generic)) {
    t = tensor_from_result(PyRef<>::borrow(value));
  } else {
    type_error("%s: result %d of forward must be a tensor or an array, not %.100s", c.name(), k, type_name(value));
  }
  if (c.op.row->flags & kView) {
    if (!c.is_tensor(0) || t->storage.get() != c.tensor(0)->storage.get())
      runtime_error("%s: result %d of forward must be a view of the first argument, as the row declares", c.name(), k);
    return t.get() == c.tensor(0) ? alias(t.get()) : std::move(t);
  }
  // Results are new memory: an argument that is handed on as it is, or a part of it, is copied.
  auto overlaps = [&](PyObject* argument) {
    if (!torchlite::is_tensor(argument)) return false;
    const Storage *a = as_tensor(argument)->storage.get(), *r = t->storage.get();
    return a == r || (r->nbytes && a->nbytes && r->data < a->data + a->nbytes && a->data < r->data + r->nbytes);
  };
  bool shared = t->readonly();
  for (size_t i = 0; i < c.op.params.size() && !shared; ++i) {
    if (static_cast<int>(i) != c.op.list_index) {
      shared = overlaps(c.args[i]);
    } else {
      for (Py_ssize_t e = 0; e < PyTuple_GET_SIZE(c.args[i]); ++e)
        shared = shared || overlaps(PyTuple_GET_ITEM(c.args[i], e));
    }
  }
  return shared ? clone(t.get()) : std::move(t);
}

Outputs python_forward(Call& c) {
  const Row& row = *c.op.row;
  PyRef<> returned;
  {
    QuietNumpy quiet;
    returned = check(PyObject_Vectorcall(c.op.python->forward.get(), c.args, c.op.params.size(), nullptr));
  }
  Outputs out;
  bool tuple = PyTuple_Check(returned.get());
  Py_ssize_t n = tuple ? PyTuple_GET_SIZE(returned.get()) : 1;
  bool fits = row.hidden_outputs ? n == row.outputs + row.hidden_outputs : n >= 1 && n <= row.outputs;
  if (!fits)
    runtime_error("%s: forward returned %zd results, but the row declares %d and %d hidden ones", c.name(), n,
                  row.outputs, row.hidden_outputs);
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* value = tuple ? PyTuple_GET_ITEM(returned.get(), k) : returned.get();
    // The last visible results may be left out.
    if (value == Py_None && k > 0 && k < row.outputs) continue;
    if (k > 0 && k < row.outputs && !out.v[k - 1])
      runtime_error("%s: forward returned None as result %zd, but a later result is none", c.name(), k - 1);
    PyRef<Tensor> t = read_result(c, value, static_cast<int>(k));
    // Results do not share memory, since an in-place write to one would change the other under its version, and of
    // views, which all share it, no two are one tensor object.
    for (Py_ssize_t earlier = 0; earlier < k; ++earlier) {
      Tensor* other = out.v[earlier].get();
      if (!other) continue;
      if (!(row.flags & kView) && other->storage.get() == t->storage.get()) t = clone(t.get());
      if (other == t.get()) t = alias(t.get());
    }
    out.v[k] = std::move(t);
  }
  return out;
}

// ---- types --------------------------------------------------------------------------------------------------------

// The class that traces describe tensors with. It belongs to the layer above, so it comes by name.
PyObject* tensor_type_class() {
  static PyObject* const cls = [] {
    PyRef<> module = check(PyImport_ImportModule("torchlite._C"));
    return check(PyObject_GetAttrString(module.get(), "TensorType")).release();
  }();
  return cls;
}

PyRef<> to_tensor_type(const TypeInfo& t) {
  PyRef<> sizes = int_tuple(t.dims());
  return check(
      PyObject_CallFunction(tensor_type_class(), "sOi", info(t.dtype).name, sizes.get(), static_cast<int>(t.device)));
}

TypeInfo from_tensor_type(const TypeCall& c, PyObject* value) {
  if (!PyObject_TypeCheck(value, reinterpret_cast<PyTypeObject*>(tensor_type_class())))
    type_error("%s: the type rule must return TensorTypes, not %.100s", c.name(), type_name(value));
  PyRef<> dtype = check(PyObject_GetAttrString(value, "dtype"));
  PyRef<> sizes = check(PyObject_GetAttrString(value, "sizes"));
  PyRef<> device = check(PyObject_GetAttrString(value, "device"));
  TypeInfo out{DType::Float, static_cast<Device>(constant_to_int(device.get())), parse_dims(sizes.get())};
  for (int i = 0; i < kDTypes; ++i)
    if (PyUnicode_CompareWithASCIIString(dtype.get(), kDTypeInfo[i].name) == 0) out.dtype = static_cast<DType>(i);
  return out;
}

TypeInfos python_types(TypeCall& c) {
  const Row& row = *c.op.row;
  PyRef<> held[kMaxParams];
  PyObject* args[kMaxParams];
  size_t n = c.op.params.size();
  for (size_t i = 0; i < n; ++i) {
    if (static_cast<int>(i) == c.op.list_index) {
      held[i] = check(PyTuple_New(static_cast<Py_ssize_t>(c.list.size())));
      for (size_t k = 0; k < c.list.size(); ++k)
        PyTuple_SET_ITEM(held[i].get(), static_cast<Py_ssize_t>(k), to_tensor_type(c.list[k]).release());
    } else if (c.types[i]) {
      held[i] = to_tensor_type(*c.types[i]);
    }
    args[i] = held[i] ? held[i].get() : c.constants[i];
  }
  PyRef<> returned = check(PyObject_Vectorcall(c.op.python->types.get(), args, n, nullptr));
  if (!PyTuple_Check(returned.get()) && !PyList_Check(returned.get())) return {from_tensor_type(c, returned.get())};
  PyRef<> list = check(PySequence_Tuple(returned.get()));
  Py_ssize_t count = PyTuple_GET_SIZE(list.get());
  if (count < 1 || count > row.outputs)
    runtime_error("%s: the type rule returned %zd types, but the row declares %d results", c.name(), count,
                  row.outputs);
  TypeInfos out;
  for (Py_ssize_t k = 0; k < count; ++k) out.push_back(from_tensor_type(c, PyTuple_GET_ITEM(list.get(), k)));
  return out;
}

// ---- backward -----------------------------------------------------------------------------------------------------

// What a Python backward asks about the call whose gradient it computes. It ends with that backward.
struct BackwardContext : PyObject {
  Backward* backward;
};

Backward& backward_of(PyObject* o) {
  Backward* b = static_cast<BackwardContext*>(o)->backward;
  if (!b) runtime_error("this context was used after its backward had returned");
  return *b;
}

// A name or an int, as exact objects. `__index__` of another runs before the backward is looked at, which may end
// meanwhile if that lies in another thread.
PyRef<> exact_key(PyObject* key) {
  if (PyUnicode_Check(key)) return PyRef<>::borrow(key);
  if (!PyIndex_Check(key)) type_error("expected the name of a parameter or an int, but got %.100s", type_name(key));
  return check(PyNumber_Index(key));
}

int64_t exact_int(PyObject* key) {
  if (!PyIndex_Check(key)) type_error("expected an int, but got %.100s", type_name(key));
  return constant_to_int(check(PyNumber_Index(key)).get());
}

// A parameter by its name or position.
int parameter_of(const Op& op, PyObject* key) {
  if (PyUnicode_Check(key)) {
    for (size_t i = 0; i < op.params.size(); ++i)
      if (PyUnicode_CompareWithASCIIString(key, op.params[i].name.c_str()) == 0) return static_cast<int>(i);
    value_error("%s: there is no parameter %R in %s", op.name.c_str(), key, op.row->signature);
  }
  int64_t i = constant_to_int(key);
  if (i < 0 || i >= static_cast<int64_t>(op.params.size()))
    index_error("%s: there is no parameter %lld in %s", op.name.c_str(), static_cast<long long>(i), op.row->signature);
  return static_cast<int>(i);
}

// As a Python backward sees it: a tensor of a plain backward as a volatile Variable.
PyRef<> shown(Value v) {
  if (is_tensor(v.object())) return new_volatile(alias(v.tensor()));
  if (!PyTuple_Check(v.object())) return v.release();
  Py_ssize_t n = PyTuple_GET_SIZE(v.object());
  PyRef<> out = check(PyTuple_New(n));
  for (Py_ssize_t k = 0; k < n; ++k) PyTuple_SET_ITEM(out.get(), k, shown(v[static_cast<int>(k)]).release());
  return out;
}

PyObject* context_needs(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n < 1 || n > 2) type_error("needs: expected a parameter and perhaps an element, but got %zd arguments", n);
    PyRef<> key = exact_key(args[0]);
    int64_t k = n > 1 ? exact_int(args[1]) : 0;
    Backward& b = backward_of(o);
    int i = parameter_of(b.op(), key.get());
    if (n == 1) return PyBool_FromLong(b.needs(i));
    if (i != b.op().list_index || k < 0 || k >= b.list_size(i))
      index_error("%s: argument '%s' has no element %lld", b.op().name.c_str(),
                  b.op().params[static_cast<size_t>(i)].name.c_str(), static_cast<long long>(k));
    return PyBool_FromLong(b.needs_element(i, static_cast<int>(k)));
  });
}

PyObject* context_value(PyObject* o, PyObject* key) {
  return guard([&]() -> PyObject* {
    PyRef<> exact = exact_key(key);
    Backward& b = backward_of(o);
    return shown(b.value(parameter_of(b.op(), exact.get()))).release();
  });
}

PyObject* context_output(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n > 1) type_error("output: expected at most one argument, but got %zd", n);
    int64_t k = n ? exact_int(args[0]) : 0;
    Backward& b = backward_of(o);
    const Row& row = *b.op().row;
    if (k < 0 || k >= row.outputs + row.hidden_outputs)
      index_error("%s: there is no result %lld", b.op().name.c_str(), static_cast<long long>(k));
    return shown(b.output(static_cast<int>(k))).release();
  });
}

PyObject* context_sizes(PyObject* o, PyObject* const* args, Py_ssize_t n) {
  return guard([&]() -> PyObject* {
    if (n < 1 || n > 2) type_error("sizes: expected a parameter and perhaps an element, but got %zd arguments", n);
    PyRef<> key = exact_key(args[0]);
    int64_t k = n > 1 ? exact_int(args[1]) : 0;
    Backward& b = backward_of(o);
    int i = parameter_of(b.op(), key.get());
    if (k < 0 || (k > 0 && (i != b.op().list_index || k >= b.list_size(i))))
      index_error("%s: argument '%s' has no element %lld", b.op().name.c_str(),
                  b.op().params[static_cast<size_t>(i)].name.c_str(), static_cast<long long>(k));
    return size_tuple(b.element_sizes(i, static_cast<int>(k))).release();
  });
}

PyObject* context_get_recording(PyObject* o, void*) {
  return guard([&]() -> PyObject* { return PyBool_FromLong(backward_of(o).recording()); });
}

PyObject* context_tp_repr(PyObject* o) {
  Backward* b = static_cast<BackwardContext*>(o)->backward;
  return b ? PyUnicode_FromFormat("<context of the backward of %s>", b->op().name.c_str())
           : PyUnicode_FromString("<context of a backward that has returned>");
}

void context_tp_dealloc(PyObject* o) { PyObject_Free(o); }

PyMethodDef context_methods[] = {
    {"needs", method(context_needs), METH_FASTCALL,
     "needs(parameter, element=None) -> bool\n\nWhether the argument, given by name or position, needs a gradient: of "
     "a list any\nelement, or the given one."},
    {"value", context_value, METH_O,
     "value(parameter)\n\nThe argument as it was in the forward: a Variable, a tuple of them, or the constant."},
    {"output", method(context_output), METH_FASTCALL,
     "output(i=0) -> Variable\n\nResult i of the forward, the hidden ones counted after the visible."},
    {"sizes", method(context_sizes), METH_FASTCALL,
     "sizes(parameter, element=0) -> Size\n\nSizes of a tensor argument, in a row that was declared with keep_sizes."},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef context_getset[] = {
    {"recording", context_get_recording, nullptr, "Whether the gradient's own graph is recorded.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyTypeObject BackwardContext_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._BackwardContext",
    .tp_basicsize = sizeof(BackwardContext),
    .tp_dealloc = context_tp_dealloc,
    .tp_repr = context_tp_repr,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "What the backward of a row declared in Python sees of the forward.",
    .tp_methods = context_methods,
    .tp_getset = context_getset,
};

// The gradient of argument i (its element k), as Python returned it.
void set_gradient(Backward& b, int i, int k, PyObject* value) {
  if (value == Py_None || !b.needs_element(i, k)) return;
  const Op& op = b.op();
  const char* parameter = op.params[static_cast<size_t>(i)].name.c_str();
  if (!is_variable(value))
    type_error("%s: the gradient of argument '%s' must be a Variable or None, not %.100s", op.name.c_str(), parameter,
               type_name(value));
  PyRef<Variable> g = PyRef<Variable>::borrow(as_variable(value));
  const Tensor* t = g->data.get();
  OutputInfo wanted = b.gradient_type(i, k);
  if (!is_floating(t->dtype))
    type_error("%s: the gradient of argument '%s' has type %sTensor, but the argument is a %sTensor", op.name.c_str(),
               parameter, info(t->dtype).name, info(wanted.dtype).name);
  if (t->device() != wanted.device)
    runtime_error("%s: the gradient of argument '%s' is on %s, but the argument is on %s", op.name.c_str(), parameter,
                  place_name(t->device()).c_str(), place_name(wanted.device).c_str());
  bool same_count = t->numel == Dims(wanted.sizes).product();
  if (!same_count && !expands_to(wanted.sizes, t->sizes()))
    runtime_error("%s: the gradient of argument '%s' has size %s, but the argument has size %s", op.name.c_str(),
                  parameter, format_dims(t->sizes()).c_str(), format_dims(wanted.sizes).c_str());
  if (!(t->sizes() == Dims(wanted.sizes))) {
    Value v(std::move(g));
    g = (same_count ? call<"reshape">(v, wanted.sizes) : call<"sum_to">(v, wanted.sizes)).take<Variable>();
  }
  if (g->data->dtype != wanted.dtype)
    g = call<"cast">(Value(std::move(g)), static_cast<int64_t>(wanted.dtype)).take<Variable>();
  if (!b.recording() && !g->is_volatile) g = new_volatile(alias(g->data.get()));
  b.set_element(i, k, Value(std::move(g)));
}

void call_python_backward(Backward& b, BackwardContext* context) {
  const Op& op = b.op();
  const Row& row = *op.row;
  PyRef<> held[kMaxOutputs];
  PyObject* args[1 + kMaxOutputs] = {context};
  int n_results = b.n_results();
  for (int k = 0; k < row.outputs; ++k) {
    if (k < n_results && b.is_differentiable(k)) held[k] = b.grad_variable(k);
    args[1 + k] = held[k] ? held[k].get() : Py_None;
  }
  PyRef<> returned =
      check(PyObject_Vectorcall(op.python->backward.get(), args, static_cast<size_t>(1 + row.outputs), nullptr));
  Py_ssize_t n = static_cast<Py_ssize_t>(op.params.size());
  if (!PyTuple_Check(returned.get()) && !PyList_Check(returned.get()))
    returned = check(PyTuple_Pack(1, returned.get()));
  returned = check(PySequence_Tuple(returned.get()));
  if (PyTuple_GET_SIZE(returned.get()) != n)
    runtime_error("%s: backward returned %zd gradients, but the row has %zd parameters", op.name.c_str(),
                  PyTuple_GET_SIZE(returned.get()), n);
  for (int i = 0; i < n; ++i) {
    PyObject* value = PyTuple_GET_ITEM(returned.get(), i);
    const char* parameter = op.params[static_cast<size_t>(i)].name.c_str();
    if (value != Py_None && !((op.tensor_mask >> i) & 1))
      runtime_error("%s: backward returned a gradient for argument '%s', which is no tensor", op.name.c_str(),
                    parameter);
    if (value == Py_None || !b.needs(i)) continue;
    if (i != op.list_index) {
      set_gradient(b, i, 0, value);
      continue;
    }
    if (!PyTuple_Check(value) && !PyList_Check(value))
      type_error("%s: the gradient of argument '%s' must be a sequence of Variables, not %.100s", op.name.c_str(),
                 parameter, type_name(value));
    PyRef<> list = check(PySequence_Tuple(value));
    if (PyTuple_GET_SIZE(list.get()) != b.list_size(i))
      runtime_error("%s: backward returned %zd gradients for argument '%s', which has %d elements", op.name.c_str(),
                    PyTuple_GET_SIZE(list.get()), parameter, b.list_size(i));
    for (int k = 0; k < b.list_size(i); ++k) set_gradient(b, i, k, PyTuple_GET_ITEM(list.get(), k));
  }
}

void python_backward(Backward& b) {
  BackwardContext* context = PyObject_New(BackwardContext, &BackwardContext_Type);
  if (!context) throw PyError();
  PyRef<BackwardContext> held = PyRef<BackwardContext>::steal(context);
  context->backward = &b;
  struct End {
    BackwardContext* context;
    ~End() { context->backward = nullptr; }
  } end{context};
  call_python_backward(b, context);
}

// ---- declaration --------------------------------------------------------------------------------------------------

constexpr std::pair<const char*, uint32_t> kFlagNames[] = {
    {"in_place", kInPlace},
    {"view", kView},
    {"reduces_to_number", kReduceToNumber},
    {"no_method", kNoMethod},
    {"leaf", kLeaf},
    {"no_function", kNoFunction},
    {"hidden", kHidden},
    {"keep_sizes", kKeepSizes},
    {"open_sizes", kOpenSizes},
};

uint32_t parse_flags(PyObject* names) {
  uint32_t flags = 0;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(names); ++k) {
    PyObject* name = PyTuple_GET_ITEM(names, k);
    uint32_t found = 0;
    for (auto [text, flag] : kFlagNames)
      if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, text) == 0) found = flag;
    if (!found) value_error("_define_op: there is no flag %R", name);
    flags |= found;
  }
  return flags;
}

// What a gradient uses: parameters by name, results as 'out' or 'out0', 'out1' ...
uint32_t parse_use(const Row& row, const std::vector<Param>& params, PyObject* name) {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  if (!text) {
    if (PyErr_Occurred()) throw PyError();
    type_error("operation '%s': `uses` holds names, not %.100s", row.signature, type_name(name));
  }
  for (size_t i = 0; i < params.size(); ++i)
    if (params[i].name == text) return in(static_cast<int>(i));
  std::string_view s = text;
  if (s == "out") return out(0);
  if (s.size() == 4 && s.starts_with("out") && s[3] >= '0' && s[3] < '0' + row.outputs + row.hidden_outputs)
    return out(s[3] - '0');
  value_error("operation '%s': `uses` names %R, which is neither a parameter nor a result", row.signature, name);
}

// By default each gradient uses whatever the forward had; constants are always kept.
void set_uses(Row& row, const std::vector<Param>& params, PyObject* uses) {
  uint32_t constants = 0, everything = 0;
  for (size_t i = 0; i < params.size(); ++i) {
    everything |= in(static_cast<int>(i));
    if (!is_tensor_kind(params[i].kind)) constants |= in(static_cast<int>(i));
  }
  for (int k = 0; k < row.outputs + row.hidden_outputs; ++k) everything |= out(k);
  row.uses.assign(params.size(), uses == Py_None ? everything : constants);
  if (uses == Py_None) return;
  Py_ssize_t at = 0;
  PyObject *key, *names;
  while (PyDict_Next(uses, &at, &key, &names)) {
    uint32_t parameter = parse_use(row, params, key);
    if (parameter >= in(static_cast<int>(params.size())))
      value_error("operation '%s': `uses` has an entry for %R, which is no parameter", row.signature, key);
    PyRef<> list = check(PyUnicode_Check(names) ? PyTuple_Pack(1, names) : PySequence_Tuple(names));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(list.get()); ++k)
      row.uses[static_cast<size_t>(std::countr_zero(parameter))] |=
          parse_use(row, params, PyTuple_GET_ITEM(list.get(), k));
  }
}

// A method must not hide what Variables have already. (What tensors define by hand takes the place of a row's method.)
void require_free_name(const Row& row, const std::string& name) {
  if (PyDict_GetItemString(VariableBase_Type.tp_dict, name.c_str()))
    value_error("operation '%s': Variables already have an attribute '%s'", row.signature, name.c_str());
}

void require_callable(const Row& row, PyObject* o, const char* name) {
  if (!PyCallable_Check(o))
    type_error("operation '%s': %s must be callable, not %.100s", row.signature, name, type_name(o));
}

}  // namespace

PyObject* define_op(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    const char *signature, *doc;
    PyObject *forward, *backward, *types, *uses, *non_differentiable, *no_gradient, *flags;
    int outputs, hidden_outputs;
    if (!PyArg_ParseTuple(args, "ssOOOOiiO!O!O!:_define_op", &signature, &doc, &forward, &backward, &types, &uses,
                          &outputs, &hidden_outputs, &PyTuple_Type, &non_differentiable, &PyTuple_Type, &no_gradient,
                          &PyTuple_Type, &flags))
      throw PyError();
    auto declared = std::make_unique<PythonRow>();
    declared->signature = signature;
    declared->doc = doc;
    Row& row = declared->row;
    row = {.signature = declared->signature.c_str(),
           .doc = declared->doc.c_str(),
           .types = python_types,
           .forward = python_forward,
           .flags = parse_flags(flags),
           .outputs = outputs,
           .hidden_outputs = hidden_outputs};
    require_callable(row, forward, "forward");
    require_callable(row, types, "types");
    if (backward != Py_None) {
      require_callable(row, backward, "backward");
      row.backward = python_backward;
    }
    if (uses != Py_None && !PyDict_Check(uses))
      type_error("operation '%s': `uses` must be a dict or None, not %.100s", signature, type_name(uses));
    std::vector<Param> params = parse_parameters(row);
    if (outputs >= 1 && hidden_outputs >= 0 && outputs + hidden_outputs <= kMaxOutputs && row.backward)
      set_uses(row, params, uses);
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(non_differentiable); ++k) {
      int64_t i = constant_to_int(PyTuple_GET_ITEM(non_differentiable, k));
      if (i < 0 || i >= outputs)
        value_error("operation '%s': `non_differentiable` names result %lld of %d", signature,
                    static_cast<long long>(i), outputs);
      row.non_differentiable |= 1u << i;
    }
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(no_gradient); ++k) {
      uint32_t bit = parse_use(row, params, PyTuple_GET_ITEM(no_gradient, k));
      if (bit >= in(static_cast<int>(params.size())))
        value_error("operation '%s': `no_gradient` names %R, which is no parameter", signature,
                    PyTuple_GET_ITEM(no_gradient, k));
      row.no_gradient |= bit;
    }
    std::string name = operation_name(row);
    if (!(row.flags & (kNoMethod | kHidden))) require_free_name(row, name);
    if (row.flags & kInPlace) require_free_name(row, name + "_");
    declared->forward = PyRef<>::borrow(forward);
    declared->types = PyRef<>::borrow(types);
    if (row.backward) declared->backward = PyRef<>::borrow(backward);
    Op& op = add_op(row, declared.get());
    declared.release();  // for the life of the process, as the operation is
    return bind_op(op).release();
  });
}

void init_python_rows(PyObject* module) { check(PyModule_AddType(module, &BackwardContext_Type)); }

}  // namespace torchlite
