// How Python sees the operations: the Op type, the table `_C._ops`, methods and number slots of Variables and Tensors.
#include "autograd/ops/bind.h"

#include <deque>
#include <string>

#include "autograd/ops/backcompat.h"
#include "autograd/ops/indexing.h"
#include "autograd/observer.h"
#include "autograd/ops/op_node.h"
#include "autograd/ops/out_argument.h"
#include "autograd/ops/composite.h"
#include "autograd/ops/parse.h"
#include "autograd/ops/python_row.h"
#include "autograd/python_variable.h"
#include "tensor/python_tensor.h"
#include "utils/method.h"

namespace torchlite {

namespace {

PyObject* to_number(Tensor* t) { return only_number(t).release(); }

bool are_vectors(PyObject* a, PyObject* b) {
  return is_tensor(a) && is_tensor(b) && as_tensor(a)->ndim == 1 && as_tensor(b)->ndim == 1;
}

// The product of two vectors that are tensors, as a number.
PyObject* dot_number(PyObject* a, PyObject* b, Tensor* product) {
  for (PyObject* o : {a, b}) elements_read(as_tensor(o), "to a number");
  return to_number(product);
}

}  // namespace

PyObject* to_python(const Op& op, const ParsedArgs& a, PyRef<> result) {
  if ((op.row->flags & kReduceToNumber) && is_tensor(result.get())) {
    Tensor* t = as_tensor(result.get());
    PyObject* dim = op.dim_index >= 0 ? a.values[op.dim_index] : Py_None;
    bool full = dim == Py_None || PyBool_Check(dim);
    PyObject* self = a.values[op.self_index];
    if (full && is_tensor(self)) elements_read(as_tensor(self), "to a number");
    if (full && t->numel == 1) return to_number(t);
  }
  if ((op.row->flags & kDotNumber) && are_vectors(a.values[0], a.values[1]))
    return dot_number(a.values[0], a.values[1], as_tensor(result.get()));
  return result.release();
}

namespace {

// ---- methods ------------------------------------------------------------------------------------------------------

// A PyMethodDef carries no closure: method I of the table is its own function.
// Not inlined into the hundreds of functions below, which would be a tenth of the extension.
[[gnu::noinline]] PyObject* call_method(const Op& op, PyObject* self, PyObject* const* args, Py_ssize_t n,
                                        PyObject* kwnames) {
  return guard_named(op.name.c_str(), [&]() -> PyObject* {
    ParsedArgs a;
    parse_args(op, self, args, n, kwnames, a);
    return to_python(op, a, call_op(op, a.values));
  });
}

[[gnu::noinline]] PyObject* call_in_place_method(const Op& op, PyObject* self, PyObject* const* args, Py_ssize_t n,
                                                 PyObject* kwnames) {
  return guard_named(op.name.c_str(), [&]() -> PyObject* {
    ParsedArgs a;
    parse_args(op, self, args, n, kwnames, a);
    return call_op_in_place(op, a.values).release();
  });
}

template <size_t I>
PyObject* op_method(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return call_method(*all_ops()[I], self, args, n, kwnames);
}

template <size_t I>
PyObject* op_in_place_method(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return call_in_place_method(*all_ops()[I], self, args, n, kwnames);
}

using Method = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);
template <size_t... I>
constexpr std::array<std::pair<Method, Method>, sizeof...(I)> make_methods(std::index_sequence<I...>) {
  return {{{op_method<I>, op_in_place_method<I>}...}};
}
constexpr auto methods = make_methods(std::make_index_sequence<kMaxOps>());

std::string documentation(const Op& op) { return std::string(op.row->signature) + "\n\n" + op.row->doc; }

void add_method(PyTypeObject* type, const char* name, const char* doc, Method f) {
  // What tensors define by hand (clone, copy_, fill_ ...) takes the era's further arguments and is faster.
  if (type == &TensorBase_Type && PyDict_GetItemString(type->tp_dict, name)) return;
  PyMethodDef* def =
      new PyMethodDef{name, method(f), METH_FASTCALL | METH_KEYWORDS, doc};  // for the life of the process
  PyRef<> descriptor = check(PyDescr_NewMethod(type, def));
  check(PyDict_SetItemString(type->tp_dict, name, descriptor.get()));
}

void add_composite(PyTypeObject* type, PyMethodDef* def) {
  PyRef<> descriptor = check(PyDescr_NewMethod(type, def));
  check(PyDict_SetItemString(type->tp_dict, def->ml_name, descriptor.get()));
}

// ---- number slots -------------------------------------------------------------------------------------------------

inline bool is_operand(PyObject* o) { return is_variable(o) || is_tensor(o); }

// a (op) b, where the first and last tensor parameters of `op` are the operands.
PyObject* binary(const Op& op, PyObject* a, PyObject* b) {
  return guard([&]() -> PyObject* {
    PyRef<> keep_a, keep_b;
    auto prepare = [](PyObject* o, PyObject* other, PyRef<>& keep) -> PyObject* {
      if (is_operand(o) || PyFloat_CheckExact(o) || PyLong_CheckExact(o)) return o;
      keep = as_operand(o, other);
      if (keep && is_tensor(keep.get()) && is_variable(other)) keep = new_constant(std::move(keep).cast<Tensor>());
      return keep.get();
    };
    PyObject* x = prepare(a, b, keep_a);
    PyObject* y = prepare(b, a, keep_b);
    if (!x || !y) Py_RETURN_NOTIMPLEMENTED;
    PyObject* args[kMaxParams];
    size_t n = op.params.size();
    args[0] = x;
    args[n - 1] = y;
    for (size_t i = 1; i + 1 < n; ++i) args[i] = op.params[i].default_value.get();
    return call_op(op, args).release();
  });
}

PyObject* binary_in_place(const Op& op, PyObject* a, PyObject* b) {
  return guard([&]() -> PyObject* {
    PyRef<> keep = as_operand(b, a);
    if (!keep) Py_RETURN_NOTIMPLEMENTED;
    if (is_tensor(a) && is_variable(keep.get())) Py_RETURN_NOTIMPLEMENTED;
    if (is_tensor(keep.get()) && !is_tensor(b) && is_variable(a)) keep = new_constant(std::move(keep).cast<Tensor>());
    PyObject* args[kMaxParams];
    size_t n = op.params.size();
    args[0] = a;
    args[n - 1] = keep.get();
    for (size_t i = 1; i + 1 < n; ++i) args[i] = op.params[i].default_value.get();
    return call_op_in_place(op, args).release();
  });
}

template <OpName Name>
PyObject* binary_slot(PyObject* a, PyObject* b) {
  static const Op* op = &find_op(Name.text);
  return binary(*op, a, b);
}
template <OpName Name>
PyObject* in_place_slot(PyObject* a, PyObject* b) {
  static const Op* op = &find_op(Name.text);
  return binary_in_place(*op, a, b);
}
template <OpName Name>
PyObject* unary_slot(PyObject* a) {
  static const Op* op = &find_op(Name.text);
  return guard([&]() -> PyObject* { return call_op(*op, &a).release(); });
}

// As the method: of two vectors that are tensors the product is a number.
PyObject* matmul_slot(PyObject* a, PyObject* b) {
  PyRef<> result = PyRef<>::steal(binary_slot<"matmul">(a, b));
  if (!result || !are_vectors(a, b)) return result.release();
  return guard([&]() -> PyObject* { return dot_number(a, b, as_tensor(result.get())); });
}

PyObject* power_slot(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) {
    PyErr_SetString(PyExc_TypeError, "pow: a modulus is not supported");
    return nullptr;
  }
  return binary_slot<"pow">(a, b);
}

PyObject* variable_in_place_power(PyObject*, PyObject*, PyObject*) {
  PyErr_SetString(PyExc_NotImplementedError, "in-place pow not implemented");
  return nullptr;
}
PyObject* tensor_in_place_power(PyObject* a, PyObject* b, PyObject*) { return in_place_slot<"pow">(a, b); }
PyObject* positive_slot(PyObject* a) { return new_ref(a); }

PyObject* richcompare(PyObject* a, PyObject* b, int relation) {
  if (b == Py_None || PyUnicode_Check(b)) Py_RETURN_NOTIMPLEMENTED;
  switch (relation) {
    case Py_LT: return binary_slot<"lt">(a, b);
    case Py_LE: return binary_slot<"le">(a, b);
    case Py_GT: return binary_slot<"gt">(a, b);
    case Py_GE: return binary_slot<"ge">(a, b);
    case Py_NE: return binary_slot<"ne">(a, b);
    default: return binary_slot<"eq">(a, b);
  }
}

void fill_number_slots(PyNumberMethods& n, bool variable) {
  n.nb_add = binary_slot<"add">;
  n.nb_subtract = binary_slot<"sub">;
  n.nb_multiply = binary_slot<"mul">;
  n.nb_true_divide = binary_slot<"div">;
  n.nb_remainder = binary_slot<"remainder">;
  n.nb_power = power_slot;
  n.nb_matrix_multiply = matmul_slot;
  n.nb_negative = unary_slot<"neg">;
  n.nb_positive = positive_slot;
  n.nb_absolute = unary_slot<"abs">;
  n.nb_inplace_add = in_place_slot<"add">;
  n.nb_inplace_subtract = in_place_slot<"sub">;
  n.nb_inplace_multiply = in_place_slot<"mul">;
  n.nb_and = binary_slot<"bitwise_and">;
  n.nb_or = binary_slot<"bitwise_or">;
  n.nb_xor = binary_slot<"bitwise_xor">;
  n.nb_lshift = binary_slot<"lshift">;
  n.nb_rshift = binary_slot<"rshift">;
  n.nb_invert = unary_slot<"bitwise_not">;
  n.nb_inplace_and = in_place_slot<"bitwise_and">;
  n.nb_inplace_or = in_place_slot<"bitwise_or">;
  n.nb_inplace_xor = in_place_slot<"bitwise_xor">;
  n.nb_inplace_lshift = in_place_slot<"lshift">;
  n.nb_inplace_rshift = in_place_slot<"rshift">;
  n.nb_inplace_power = variable ? variable_in_place_power : tensor_in_place_power;
  // The era's Variables have no in-place division: `v /= 2` makes a new Variable.
  if (!variable) n.nb_inplace_true_divide = in_place_slot<"div">;
}

// ---- Op: the operation as a callable ------------------------------------------------------------------------------

struct OpObject : PyObject {
  vectorcallfunc vectorcall;
  const Op* op;
};

const Op& op_of_object(PyObject* o) { return *static_cast<OpObject*>(o)->op; }

PyObject* op_vectorcall(PyObject* o, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  const Op& op = op_of_object(o);
  return guard_named(op.name.c_str(), [&]() -> PyObject* {
    Py_ssize_t n = PyVectorcall_NARGS(nargsf);
    if (kwnames) {
      Py_ssize_t out = find_out(kwnames);
      if (out >= 0) return call_op_out(op, args, n, kwnames, out);
    }
    ParsedArgs a;
    parse_args(op, nullptr, args, n, kwnames, a);
    return to_python(op, a, call_op(op, a.values));
  });
}

PyObject* op_tp_repr(PyObject* o) { return PyUnicode_FromFormat("<operation %s>", op_of_object(o).row->signature); }
PyObject* op_reduce(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    PyRef<> module = check(PyImport_ImportModule("torchlite._C"));
    PyRef<> find = check(PyObject_GetAttrString(module.get(), "_find_op"));
    return Py_BuildValue("O(s)", find.get(), op_of_object(o).name.c_str());
  });
}

PyObject* op_get_name(PyObject* o, void*) { return PyUnicode_FromString(op_of_object(o).name.c_str()); }
PyObject* op_get_display_name(PyObject* o, void*) { return PyUnicode_FromString(op_of_object(o).display_name.c_str()); }
PyObject* op_get_signature(PyObject* o, void*) { return PyUnicode_FromString(op_of_object(o).row->signature); }
PyObject* op_get_doc(PyObject* o, void*) {
  return guard([&] { return PyUnicode_FromString(documentation(op_of_object(o)).c_str()); });
}
PyObject* op_get_differentiable(PyObject* o, void*) { return PyBool_FromLong(op_of_object(o).differentiable()); }
PyObject* op_get_in_place(PyObject* o, void*) {
  return PyBool_FromLong((op_of_object(o).row->flags & (kInPlace | kInPlaceOnly)) != 0);
}
PyObject* op_get_flag(PyObject* o, void* flag) {
  return PyBool_FromLong((op_of_object(o).row->flags & reinterpret_cast<uintptr_t>(flag)) != 0);
}
PyObject* op_get_non_differentiable(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    const Row& row = *op_of_object(o).row;
    PyRef<> positions = check(PyList_New(0));
    for (int k = 0; k < row.outputs; ++k)
      if ((row.non_differentiable >> k) & 1) check(PyList_Append(positions.get(), check(PyLong_FromLong(k)).get()));
    return PyList_AsTuple(positions.get());
  });
}
PyObject* op_get_in_python(PyObject* o, void*) { return PyBool_FromLong(op_of_object(o).python != nullptr); }
PyObject* op_get_outputs(PyObject* o, void*) { return PyLong_FromLong(op_of_object(o).row->outputs); }
PyObject* op_get_params(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    const Op& op = op_of_object(o);
    PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(op.params.size())));
    for (size_t i = 0; i < op.params.size(); ++i)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i),
                       check(PyUnicode_FromString(op.params[i].name.c_str())).release());
    return out.release();
  });
}

PyMethodDef op_methods[] = {
    {"__reduce__", op_reduce, METH_NOARGS, "Pickled by name."},
    {nullptr, nullptr, 0, nullptr},
};

void* flag_closure(RowFlags f) { return reinterpret_cast<void*>(static_cast<uintptr_t>(f)); }

PyGetSetDef op_getset[] = {
    {"name", op_get_name, nullptr, "Name of the function and method.", nullptr},
    {"__name__", op_get_name, nullptr, "Name of the function and method.", nullptr},
    {"__qualname__", op_get_name, nullptr, "Name of the function and method.", nullptr},
    {"display_name", op_get_display_name, nullptr, "Name in a trace and of the backward type.", nullptr},
    {"signature", op_get_signature, nullptr, "Parameters with their kinds and defaults.", nullptr},
    {"params", op_get_params, nullptr, "Names of the parameters.", nullptr},
    {"outputs", op_get_outputs, nullptr, "Number of results.", nullptr},
    {"non_differentiable", op_get_non_differentiable, nullptr, "Positions of results that no gradient flows through.",
     nullptr},
    {"differentiable", op_get_differentiable, nullptr, "Whether the operation has a gradient.", nullptr},
    {"inplace", op_get_in_place, nullptr, "Whether an in-place form exists.", nullptr},
    {"inplace_only", op_get_flag, nullptr, "Whether only an in-place form exists.", flag_closure(kInPlaceOnly)},
    {"in_python", op_get_in_python, nullptr, "Whether the row is declared in Python.", nullptr},
    {"hidden", op_get_flag, nullptr, "Whether it is only used by gradients.", flag_closure(kHidden)},
    {"is_view", op_get_flag, nullptr, "Whether the result shares the input's memory.", flag_closure(kView)},
    {"function_only", op_get_flag, nullptr, "Whether there is no method.", flag_closure(kNoMethod)},
    {"method_only", op_get_flag, nullptr, "Whether there is no function.", flag_closure(kNoFunction)},
    {"reduces_to_number", op_get_flag, nullptr, "Whether a full reduction of a tensor is a Python number.",
     flag_closure(kReduceToNumber)},
    {"__doc__", op_get_doc, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// The callables of a row that is declared in Python are reached through its one Op object. Nothing drops them: the row
// stays.
int op_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  const PythonRow* row = op_of_object(o).python;
  if (!row) return 0;
  Py_VISIT(row->forward.get());
  Py_VISIT(row->backward.get());
  Py_VISIT(row->types.get());
  return 0;
}
int op_tp_clear(PyObject*) { return 0; }

void op_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  PyObject_GC_Del(o);
}

PyTypeObject Op_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Op",
    .tp_basicsize = sizeof(OpObject),
    .tp_dealloc = op_tp_dealloc,
    .tp_vectorcall_offset = offsetof(OpObject, vectorcall),
    .tp_repr = op_tp_repr,
    .tp_call = PyVectorcall_Call,
    .tp_flags =
        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_traverse = op_tp_traverse,
    .tp_clear = op_tp_clear,
    .tp_methods = op_methods,
    .tp_getset = op_getset,
};

PyRef<> new_op_object(const Op& op) {
  OpObject* o = PyObject_GC_New(OpObject, &Op_Type);
  if (!o) throw PyError();
  o->vectorcall = op_vectorcall;
  o->op = &op;
  if (op.python) PyObject_GC_Track(o);
  return PyRef<>::steal(o);
}

// Both owned for the life of the process.
PyObject* op_dict = nullptr;  // name -> Op object
PyObject* functions_module = nullptr;

// ---- `_C._ops`: the table, iterable, its operations as attributes --------------------------------------------------

PyObject* table_tp_getattro(PyObject* self, PyObject* name) {
  PyObject* op = PyDict_GetItemWithError(op_dict, name);
  if (op) return new_ref(op);
  if (PyErr_Occurred()) return nullptr;
  return PyObject_GenericGetAttr(self, name);
}
PyObject* table_tp_iter(PyObject*) {
  return guard([&]() -> PyObject* {
    PyRef<> values = check(PyDict_Values(op_dict));
    return PyObject_GetIter(values.get());
  });
}
Py_ssize_t table_mp_length(PyObject*) { return PyDict_GET_SIZE(op_dict); }

PyMappingMethods table_mapping = {.mp_length = table_mp_length};

void table_tp_dealloc(PyObject* o) { PyObject_Free(o); }

PyTypeObject OpTable_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.OpTable",
    .tp_basicsize = sizeof(PyObject),
    .tp_dealloc = table_tp_dealloc,
    .tp_as_mapping = &table_mapping,
    .tp_getattro = table_tp_getattro,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "The operations: iterable, and each an attribute.",
    .tp_iter = table_tp_iter,
};

}  // namespace

PyObject* find_op_object(PyObject*, PyObject* name) {
  PyObject* op = PyDict_GetItemWithError(op_dict, name);
  if (!op && !PyErr_Occurred()) PyErr_Format(PyExc_KeyError, "there is no operation named %R", name);
  return op ? new_ref(op) : nullptr;
}

void init_number_slots() {
  fill_number_slots(variable_number_methods, true);
  fill_number_slots(tensor_number_methods, false);
  variable_richcompare = tensor_richcompare = richcompare;
}

PyRef<> bind_op(Op& op) {
  PyTypeObject* types[] = {&VariableBase_Type, &TensorBase_Type};
  uint32_t flags = op.row->flags;
  bool method = !(flags & (kNoMethod | kHidden | kInPlaceOnly)), in_place = flags & (kInPlace | kInPlaceOnly);
  PyRef<> object = new_op_object(op);
  check(PyModule_AddType(functions_module, &op.node_type));
  if (op.constant_node_type) check(PyModule_AddType(functions_module, op.constant_node_type.get()));
  auto [call, call_in_place] = methods[op.index];
  static std::deque<std::string> texts;  // method definitions point to them
  const char* doc = texts.emplace_back(documentation(op)).c_str();
  for (PyTypeObject* type : types) {
    if (method) add_method(type, op.name.c_str(), doc, call);
    if (in_place) add_method(type, op.in_place_name.c_str(), doc, call_in_place);
    PyType_Modified(type);
  }
  check(PyDict_SetItemString(op_dict, op.name.c_str(), object.get()));
  return object;
}

void init_ops(PyObject* module, PyObject* functions) {
  check(PyType_Ready(&Op_Type));
  check(PyType_Ready(&OpTable_Type));
  functions_module = new_ref(functions);
  op_dict = check(PyDict_New()).release();
  build_op_table();
  for (Op* op : all_ops()) bind_op(*op);
  for (PyMethodDef& def : composite_method_defs())
    for (PyTypeObject* type : {&VariableBase_Type, &TensorBase_Type}) add_composite(type, &def);
  PyType_Modified(&VariableBase_Type);
  PyType_Modified(&TensorBase_Type);
  init_python_rows(module);
  init_backcompat(module);
  check(PyModule_AddType(module, &Op_Type));
  PyRef<> table = check(PyType_GenericAlloc(&OpTable_Type, 0));
  check(PyModule_AddObjectRef(module, "_ops", table.get()));
}

}  // namespace torchlite
