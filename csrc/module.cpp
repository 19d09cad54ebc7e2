// PyInit__C: the one list of the module's types and functions.
#include "api/capi.h"
#include "autograd/engine.h"
#include "autograd/function.h"
#include "autograd/functions/accumulate_grad.h"
#include "autograd/functions/basic_ops.h"
#include "autograd/functions/forward_function.h"
#include "autograd/observer.h"
#include "autograd/ops/composite.h"
#include "autograd/ops/op.h"
#include "autograd/ops/python_row.h"
#include "autograd/ops/sparse.h"
#include "autograd/python_function.h"
#include "autograd/python_variable.h"
#include "cuda/bridge.h"
#include "tensor/factors.h"
#include "tensor/optim_steps.h"
#include "ir/ir.h"
#include "tensor/python_tensor.h"
#include "tensor/random.h"
#include "tensor/storage.h"
#include "utils/method.h"
#include "utils/numpy_api.h"

namespace torchlite {

void init_number_slots();
PyObject* find_op_object(PyObject*, PyObject* name);

namespace {

PyObject* set_grad_enabled(PyObject*, PyObject* value) {
  return guard([&]() -> PyObject* {
    if (!PyBool_Check(value))
      type_error("_set_grad_enabled: argument 'enabled' must be a bool, not %.100s", type_name(value));
    bool previous = std::exchange(grad_enabled, value == Py_True);
    return PyBool_FromLong(previous);
  });
}

// What a function of the extension throws is one of Python's exceptions already when it returns.
PyObject* safe_call(PyObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n == 0) type_error("_safe_call: argument 'function' is missing");
    auto rest = PyRef<>::steal(PyTuple_GetSlice(args, 1, n));
    if (!rest) throw PyError();
    PyObject* result = PyObject_Call(PyTuple_GET_ITEM(args, 0), rest.get(), kwargs);
    if (!result) throw PyError();
    return result;
  });
}

PyObject* constant(PyObject*, PyObject* tensor) {
  return guard([&]() -> PyObject* {
    if (!is_tensor(tensor)) type_error("_constant: argument 'tensor' must be a tensor, not %.100s", type_name(tensor));
    return new_constant(PyRef<Tensor>::borrow(as_tensor(tensor))).release();
  });
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled); }

PyObject* set_discard_effects(PyObject*, PyObject* value) {
  return guard([&]() -> PyObject* {
    if (!PyBool_Check(value)) type_error("_set_discard_effects: expected a bool, not %.100s", type_name(value));
    return PyBool_FromLong(std::exchange(discard_effects, value == Py_True));
  });
}

PyObject* discards_effects(PyObject*, PyObject*) { return PyBool_FromLong(discard_effects); }

PyMethodDef module_functions[] = {
    {"_autograd_init", autograd_init, METH_NOARGS,
     "Registers the classes Variable, Function, StochasticFunction, Expr and Arg of the calling module."},
    {"_set_grad_enabled", set_grad_enabled, METH_O, "Switches recording on this thread; returns the former state."},
    {"_set_discard_effects", set_discard_effects, METH_O,
     "Whether operations on this thread write nothing but their results; returns the former state."},
    {"_discards_effects", discards_effects, METH_NOARGS,
     "Whether operations on this thread write nothing but their results."},
    {"_is_grad_enabled", is_grad_enabled, METH_NOARGS, "Whether operations are recorded on this thread."},
    {"_constant", constant, METH_O,
     "A leaf on a tensor that doesn't require grad, and that a trace takes for a constant of the program."},
    {"from_numpy", from_numpy, METH_O,
     "from_numpy(array) -> tensor\n\nA tensor on the memory of an ndarray; TypeError for a type that tensors lack."},
    {"_set_package_name", set_package_name, METH_O,
     "Sets the package that the classes of tensors and storages and Size belong to."},
    {"_safe_call", method(safe_call), METH_VARARGS | METH_KEYWORDS,
     "_safe_call(function, *args, **kwargs)\n\nfunction(*args, **kwargs); an exception of C++ is one of Python."},
    {"_set_sparse", method(set_sparse), METH_FASTCALL,
     "Registers the base of the sparse classes and the function that computes operations on them."},
    {"_find_op", find_op_object, METH_O, "The operation of that name."},
    {"_define_op", define_op, METH_VARARGS, "Adds a row that is declared in Python; see torchlite._ops.define_op."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "torchlite._C",
    .m_doc = "Storages, Tensors, Variables, Functions and the backward engine.",
    .m_size = -1,
    .m_methods = module_functions,
};

PyModuleDef functions_def = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "torchlite._C._functions",
    .m_doc = "The functions of the backward graph.",
    .m_size = -1,
};

PyObject* init_module() {
  import_numpy();
  PyRef<> module = check(PyModule_Create(&module_def));
  PyRef<> functions = check(PyModule_Create(&functions_def));
#if PY_VERSION_HEX >= 0x030D0000 && defined(Py_GIL_DISABLED)
  PyUnstable_Module_SetGIL(module.get(), Py_MOD_GIL_USED);
#endif
  init_number_slots();
  init_storage(module.get());
  init_tensor(module.get());
  init_random(module.get());
  init_optim_steps(module.get());
  init_factors(module.get());
  init_variable(module.get());
  init_function(functions.get());
  init_accumulate_grad(functions.get());
  init_python_function(module.get());
  init_basic_ops(module.get(), functions.get());
  init_engine(module.get());
  init_cuda(module.get());
  init_ops(module.get(), functions.get());
  init_forward_functions(functions.get());
  init_array_rows(module.get());
  check(PyModule_AddFunctions(module.get(), composite_function_defs().data()));
  ir::init_ir(module.get());
  init_capi(module.get());
  check(PyModule_AddObjectRef(module.get(), "_functions", functions.get()));
  // So that its members can be imported by name, though no file is this module.
  check(PyDict_SetItemString(PyImport_GetModuleDict(), "torchlite._C._functions", functions.get()));
  return module.release_object();
}

}  // namespace

}  // namespace torchlite

PyMODINIT_FUNC PyInit__C() {
  return torchlite::guard([] { return torchlite::init_module(); });
}
