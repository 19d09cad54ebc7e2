#include "autograd/functions/forward_function.h"

#include "autograd/observer.h"
#include "autograd/ops/op_node.h"
#include "tensor/python_tensor.h"

namespace torchlite {

namespace {

// ---- arguments ----------------------------------------------------------------------------------------------------

const char* kind_name(ConstantKind::Type type) {
  switch (type) {
    case ConstantKind::Bool: return "bool";
    case ConstantKind::Int: return "int";
    case ConstantKind::Float: return "float";
    case ConstantKind::Ints: return "tuple of int";
    case ConstantKind::Text: return "bytes/str";
    case ConstantKind::Tensor: return "tensor or None";
  }
  return "";
}

bool is_int_tuple(PyObject* o) {
  if (!PyTuple_Check(o)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
    if (!is_int(PyTuple_GET_ITEM(o, i))) return false;
  return true;
}

// `o` in its normal form; empty if it is not of that kind.
PyRef<> constant(ConstantKind::Type type, PyObject* o) {
  switch (type) {
    case ConstantKind::Bool: return PyBool_Check(o) ? PyRef<>::borrow(o) : PyRef<>();
    case ConstantKind::Int: return is_int(o) ? check(PyNumber_Index(o)) : PyRef<>();
    case ConstantKind::Float: return PyFloat_Check(o) || is_int(o) ? check(PyNumber_Float(o)) : PyRef<>();
    case ConstantKind::Ints: return is_int_tuple(o) ? int_tuple(parse_dims(o)) : PyRef<>();
    case ConstantKind::Text:
      if (PyUnicode_Check(o)) return PyRef<>::borrow(o);
      if (!PyBytes_Check(o)) return {};
      return check(PyUnicode_DecodeUTF8(PyBytes_AS_STRING(o), PyBytes_GET_SIZE(o), "replace"));
    case ConstantKind::Tensor: return is_tensor(o) || o == Py_None ? PyRef<>::borrow(o) : PyRef<>();
  }
  return {};
}

void refuse_keywords(PyObject* keywords) {
  if (keywords && PyDict_GET_SIZE(keywords)) type_error("keyword arguments are not supported");
}

// ---- the function -------------------------------------------------------------------------------------------------

struct FunctionKind {
  const char* name;
  std::span<const ConstantKind> constants;
  size_t inputs, required;
  // `inputs` as the operation takes them, None included, and the constants in the order above.
  PyRef<> (*call)(PyObject* const* inputs, PyObject* const* constants);
};

struct ForwardFunction : Node {
  PyRef<> constants;  // tuple; empty once cleared
};

ForwardFunction* as_forward(PyObject* o) { return static_cast<ForwardFunction*>(as_node(o)); }

Gradients forward_apply(Node* self, Gradients&&) {
  runtime_error("%s: it is called, not differentiated: the functions of a graph are those of its results",
                node_name(self));
}
void forward_release(Node*) {}
Edge* forward_edges(Node*) { return nullptr; }
int forward_traverse(Node* self, visitproc visit, void* arg) {
  Py_VISIT(as_forward(self)->constants.get());
  return 0;
}
void forward_clear(Node* self) { as_forward(self)->constants.reset(); }

constexpr NodeClass forward_class = {
    .kind = NodeKind::Forward,
    .apply = forward_apply,
    .release = forward_release,
    .edges = forward_edges,
    .traverse = forward_traverse,
    .clear = forward_clear,
};

// ---- convolution and batch normalisation --------------------------------------------------------------------------

constexpr ConstantKind kConvConstants[] = {
    {"stride", ConstantKind::Ints},     {"padding", ConstantKind::Ints},        {"dilation", ConstantKind::Ints},
    {"transposed", ConstantKind::Bool}, {"output_padding", ConstantKind::Ints}, {"groups", ConstantKind::Int},
    {"benchmark", ConstantKind::Bool},  {"cudnn_enabled", ConstantKind::Bool},
};

PyRef<> call_conv_nd(PyObject* const* inputs, PyObject* const* constants) {
  static const Op& op = find_op("conv_nd");
  PyRef<Tensor> input = as_variable(inputs[0])->data.copy();
  int ndim = static_cast<int>(PyTuple_GET_SIZE(constants[0])) + 2;
  if (input->ndim != ndim)
    runtime_error("expected %dD tensor, but got a tensor of size %s", ndim, format_dims(input->sizes()).c_str());
  PyObject* args[] = {inputs[0],    inputs[1],    inputs[2],    constants[0], constants[1],
                      constants[2], constants[3], constants[4], constants[5]};
  return call_op(op, args);
}

constexpr ConstantKind kBatchNormConstants[] = {
    {"running_mean", ConstantKind::Tensor}, {"running_var", ConstantKind::Tensor},
    {"training", ConstantKind::Bool},       {"momentum", ConstantKind::Float},
    {"eps", ConstantKind::Float},           {"cudnn_enabled", ConstantKind::Bool},
};

PyRef<> call_batch_norm(PyObject* const* inputs, PyObject* const* constants) {
  static const Op& op = find_op("batch_norm");
  PyRef<> running[2];
  for (int i = 0; i < 2; ++i)
    running[i] =
        is_tensor(constants[i]) ? PyRef<>(new_constant(PyRef<Tensor>::borrow(as_tensor(constants[i])))) : none_ref();
  PyObject* args[] = {inputs[0],        inputs[1],    inputs[2],    running[0].get(),
                      running[1].get(), constants[2], constants[3], constants[4]};
  return call_op(op, args);
}

constexpr FunctionKind kConvNd = {"ConvNd", kConvConstants, 3, 2, call_conv_nd};
constexpr FunctionKind kBatchNorm = {"BatchNorm", kBatchNormConstants, 3, 1, call_batch_norm};

// ---- slots --------------------------------------------------------------------------------------------------------

template <const FunctionKind& Kind>
PyObject* forward_tp_new(PyTypeObject* type, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    PyRef<> constants = parse_constants(Kind.constants, args, keywords);
    auto* self = reinterpret_cast<ForwardFunction*>(type->tp_alloc(type, 0));
    if (!self) throw PyError();
    new (&self->constants) PyRef<>(std::move(constants));
    construct_node(self, &forward_class, 0, 0, false);
    return self;
  });
}

void forward_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  destroy_node(as_node(o));
  std::destroy_at(&as_forward(o)->constants);
  Py_TYPE(o)->tp_free(o);
}

template <const FunctionKind& Kind>
PyObject* forward_tp_call(PyObject* o, PyObject* args, PyObject* keywords) {
  return guard([&]() -> PyObject* {
    std::vector<Variable*> variables = parse_inputs(args, keywords);
    if (variables.size() != Kind.inputs)
      runtime_error("%s: expected %zu arguments (got %zu)", Kind.name, Kind.inputs, variables.size());
    std::vector<PyObject*> inputs;
    for (size_t i = 0; i < variables.size(); ++i) {
      if (!variables[i] && i < Kind.required)
        runtime_error("%s: expected Variable at argument %zu (got None)", Kind.name, i);
      inputs.push_back(variables[i] ? variables[i] : Py_None);
    }
    PyRef<> constants = as_forward(o)->constants.copy();
    if (!constants) runtime_error("%s: its constants are gone", Kind.name);
    std::vector<PyObject*> values;
    for (size_t i = 0; i < Kind.constants.size(); ++i)
      values.push_back(PyTuple_GET_ITEM(constants.get(), static_cast<Py_ssize_t>(i)));
    return Kind.call(inputs.data(), values.data()).release();
  });
}

PyObject* forward_get_constant(PyObject* o, void* index) {
  PyObject* constants = as_forward(o)->constants.get();
  if (!constants) return none();
  return new_ref(PyTuple_GET_ITEM(constants, reinterpret_cast<Py_ssize_t>(index)));
}

PyTypeObject ConvNd_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._functions.ConvNd",
    .tp_basicsize = sizeof(ForwardFunction),
    .tp_dealloc = forward_tp_dealloc,
    .tp_call = forward_tp_call<kConvNd>,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "ConvNd(stride, padding, dilation, transposed, output_padding, groups, benchmark, cudnn_enabled)\n\n"
        "Called with Variables (input, weight, bias or None): a convolution over as many dimensions as stride has "
        "numbers. The last two arguments have no effect.",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_base = &Node_Type,
    .tp_new = forward_tp_new<kConvNd>,
};

PyTypeObject BatchNorm_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._functions.BatchNorm",
    .tp_basicsize = sizeof(ForwardFunction),
    .tp_dealloc = forward_tp_dealloc,
    .tp_call = forward_tp_call<kBatchNorm>,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc =
        "BatchNorm(running_mean, running_var, training, momentum, eps, cudnn_enabled)\n\n"
        "Called with Variables (input, weight or None, bias or None): batch normalisation. In training the running "
        "tensors are updated in place; without them (None) nothing is. The last argument has no effect.",
    .tp_traverse = node_tp_traverse,
    .tp_clear = node_tp_clear,
    .tp_base = &Node_Type,
    .tp_new = forward_tp_new<kBatchNorm>,
};

// ---- attributes ---------------------------------------------------------------------------------------------------

PyObject* node_get_argument(PyObject* o, void* index) {
  return guard([&]() -> PyObject* {
    PyRef<> value =
        saved_argument(static_cast<OpNode*>(as_node(o)), static_cast<int>(reinterpret_cast<intptr_t>(index)));
    return is_variable(value.get()) ? new_ref(as_variable(value.get())->data.get()) : value.release();
  });
}

// There is no cuDNN, and nothing to choose by benchmarks.
PyObject* get_false(PyObject*, void*) { Py_RETURN_FALSE; }

void add_attribute(PyTypeObject* type, const char* name, getter get, size_t index) {
  // For the life of the process.
  auto* def = new PyGetSetDef{name, get, nullptr, "A constant of the function.", reinterpret_cast<void*>(index)};
  PyRef<> descriptor = check(PyDescr_NewGetSet(type, def));
  check(PyDict_SetItemString(type->tp_dict, name, descriptor.get()));
  PyType_Modified(type);
}

// The constants of a function as attributes of the backward types of its row and of that row's gradient.
void add_backward_attributes(const FunctionKind& kind, std::initializer_list<const char*> rows) {
  for (const char* row : rows) {
    const Op& op = find_op(row);
    auto* type = const_cast<PyTypeObject*>(&op.node_type);
    for (const ConstantKind& constant : kind.constants) {
      std::string_view name = constant.name;
      if (name == "benchmark" || name == "cudnn_enabled") add_attribute(type, constant.name, get_false, 0);
      for (size_t i = 0; i < op.params.size(); ++i)
        if (op.params[i].name == name) add_attribute(type, constant.name, node_get_argument, i);
    }
  }
}

}  // namespace

PyRef<> parse_constants(std::span<const ConstantKind> kinds, PyObject* args, PyObject* keywords) {
  refuse_keywords(keywords);
  Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (n != static_cast<Py_ssize_t>(kinds.size()))
    runtime_error("%s (expected %zu got %zd)",
                  n < static_cast<Py_ssize_t>(kinds.size()) ? "missing required arguments" : "too many arguments",
                  kinds.size(), n);
  PyRef<> out = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    const ConstantKind& kind = kinds[static_cast<size_t>(i)];
    PyObject* given = PyTuple_GET_ITEM(args, i);
    PyRef<> value = constant(kind.type, given);
    if (!value)
      runtime_error("argument %zd (%s) must be %s, not %.100s", i, kind.name, kind_name(kind.type), type_name(given));
    PyTuple_SET_ITEM(out.get(), i, value.release());
  }
  return out;
}

std::vector<Variable*> parse_inputs(PyObject* args, PyObject* keywords) {
  refuse_keywords(keywords);
  std::vector<Variable*> inputs(static_cast<size_t>(PyTuple_GET_SIZE(args)));
  for (size_t i = 0; i < inputs.size(); ++i) {
    PyObject* v = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
    if (v == Py_None) continue;
    if (!is_variable(v)) type_error("argument %zu is not a Variable", i);
    inputs[i] = as_variable(v);
  }
  return inputs;
}

void init_forward_functions(PyObject* functions_module) {
  for (auto [type, kind] : {std::pair{&ConvNd_Type, &kConvNd}, std::pair{&BatchNorm_Type, &kBatchNorm}}) {
    check(PyType_Ready(type));
    for (size_t i = 0; i < kind->constants.size(); ++i)
      add_attribute(type, kind->constants[i].name, forward_get_constant, i);
    check(PyModule_AddType(functions_module, type));
  }
  add_backward_attributes(kConvNd, {"conv_nd", "conv_nd_backward"});
  add_backward_attributes(kBatchNorm, {"batch_norm", "batch_norm_backward"});
}

}  // namespace torchlite
