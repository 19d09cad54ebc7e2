// Expressions of the IR as Python sees them. All are immutable; constructors take what the properties give back, and
// pickling calls them. A pickle shares each Local, so that what one pickle holds stays wired; captures are pickled as
// the Variables they are.
#include "ir/python_ir.h"

#include "autograd/python_function.h"
#include "ir/infer.h"
#include "utils/method.h"

namespace torchlite::ir {

namespace {

PyRef<> tuple_of(PyObject* o) { return check(PySequence_Tuple(o)); }

// A tuple of arguments, in which a list or tuple stands for a Tensor[] argument.
PyRef<> args_tuple(PyObject* o) {
  PyRef<> in = tuple_of(o);
  Py_ssize_t n = PyTuple_GET_SIZE(in.get());
  PyRef<> out = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* a = PyTuple_GET_ITEM(in.get(), i);
    PyTuple_SET_ITEM(out.get(), i, PyList_Check(a) ? tuple_of(a).release() : new_ref(a));
  }
  return out;
}

// ---- CppApply, PyApply --------------------------------------------------------------------------------------------

PyObject* cpp_apply_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    const char* name;
    PyObject *arguments, *location = nullptr;
    refuse_keywords("CppApply", kwargs);
    if (!PyArg_ParseTuple(args, "sO|O:CppApply", &name, &arguments, &location)) throw PyError();
    PyRef<> where = location && location != Py_None ? PyRef<>::borrow(location) : PyRef<>();
    return new_cpp_apply(find_op(name), args_tuple(arguments), std::move(where)).release();
  });
}

PyObject* py_apply_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyObject *function, *arguments, *location = nullptr;
    refuse_keywords("PyApply", kwargs);
    if (!PyArg_ParseTuple(args, "OO|O:PyApply", &function, &arguments, &location)) throw PyError();
    if (!PyCallable_Check(function))
      type_error("PyApply: argument 'function' must be a Function class, not %.100s", type_name(function));
    PyRef<> where = location && location != Py_None ? PyRef<>::borrow(location) : PyRef<>();
    return new_py_apply(PyRef<>::borrow(function), args_tuple(arguments), std::move(where)).release();
  });
}

int apply_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Apply* self = as<Apply>(o);
  Py_VISIT(self->function.get());
  Py_VISIT(self->args.get());
  Py_VISIT(self->location.get());
  return 0;
}

void apply_tp_dealloc(PyObject* o) {
  Apply* self = as<Apply>(o);
  PyObject_GC_UnTrack(o);
  self->function.~PyRef<>();
  self->args.~PyRef<>();
  self->location.~PyRef<>();
  PyObject_GC_Del(o);
}

PyObject* apply_get_args(PyObject* o, void*) { return property(as<Apply>(o)->args); }
PyObject* apply_get_location(PyObject* o, void*) { return property(as<Apply>(o)->location); }
PyObject* apply_get_name(PyObject* o, void*) {
  Apply* self = as<Apply>(o);
  if (self->op) return PyUnicode_FromString(self->op->display_name.c_str());
  return PyObject_GetAttrString(self->function.get(), "__name__");
}
PyObject* cpp_apply_get_op(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    PyRef<> module = check(PyImport_ImportModule("torchlite._C"));
    return PyObject_CallMethod(module.get(), "_find_op", "s", as<Apply>(o)->op->name.c_str());
  });
}
PyObject* py_apply_get_op(PyObject* o, void*) { return property(as<Apply>(o)->function); }

PyObject* cpp_apply_reduce(PyObject* o, PyObject*) {
  Apply* self = as<Apply>(o);
  return Py_BuildValue("O(sOO)", Py_TYPE(o), self->op->name.c_str(), self->args.get(),
                       self->location ? self->location.get() : Py_None);
}

PyObject* py_apply_reduce(PyObject* o, PyObject*) {
  Apply* self = as<Apply>(o);
  return Py_BuildValue("O(OOO)", Py_TYPE(o), self->function.get(), self->args.get(),
                       self->location ? self->location.get() : Py_None);
}

PyObject* cpp_apply_infer(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    TypeInfos types = infer_types(as<Apply>(o));
    PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(types.size())));
    for (size_t k = 0; k < types.size(); ++k)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(k),
                       new_type(types[k].dtype, types[k].device, types[k].sizes).release_object());
    return out.release();
  });
}

PyMethodDef cpp_apply_methods[] = {
    {"infer", cpp_apply_infer, METH_NOARGS,
     "infer() -> tuple\n\nTensorTypes of the results by the operation's own rule, nothing being run; -1 stands for a "
     "size that elements decide. Raises what the operation raises for such arguments."},
    {"__reduce__", cpp_apply_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyMethodDef py_apply_methods[] = {
    {"__reduce__", py_apply_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef cpp_apply_getset[] = {
    {"op", cpp_apply_get_op, nullptr, "The operation.", nullptr},
    {"name", apply_get_name, nullptr, "Name of the operation in print.", nullptr},
    {"args", apply_get_args, nullptr, "Tuple of Local, Const, or a tuple of those for a list of tensors.", nullptr},
    {"location", apply_get_location, nullptr, "Where the call was traced, a str, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyGetSetDef py_apply_getset[] = {
    {"op", py_apply_get_op, nullptr, "The Function class.", nullptr},
    {"name", apply_get_name, nullptr, "Name of the Function in print.", nullptr},
    {"args", apply_get_args, nullptr, "Tuple of Local, Const, or a tuple of those.", nullptr},
    {"location", apply_get_location, nullptr, "Where the call was traced, a str, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* apply_tp_repr(PyObject* o) {
  PyObject* name = apply_get_name(o, nullptr);
  if (!name) return nullptr;
  PyObject* text = PyUnicode_FromFormat("<%s %U of %zd arguments>", Py_TYPE(o)->tp_name + sizeof("torchlite._C"), name,
                                        PyTuple_GET_SIZE(as<Apply>(o)->args.get()));
  Py_DECREF(name);  // refcount: created three lines above
  return text;
}

// ---- Let, Locals --------------------------------------------------------------------------------------------------

PyObject* let_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyObject *results, *rhs;
    refuse_keywords("Let", kwargs);
    if (!PyArg_ParseTuple(args, "OO:Let", &results, &rhs)) throw PyError();
    if (Py_TYPE(rhs) != &CppApply_Type && Py_TYPE(rhs) != &PyApply_Type)
      type_error("Let: argument 'rhs' must be a CppApply or a PyApply, not %.100s", type_name(rhs));
    return new_let(tuple_of(results), PyRef<Apply>::borrow(as<Apply>(rhs))).release();
  });
}

int let_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(as<Let>(o)->results.get());
  Py_VISIT(as<Let>(o)->rhs.object());
  return 0;
}

void let_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  as<Let>(o)->results.~PyRef<>();
  as<Let>(o)->rhs.~PyRef<Apply>();
  PyObject_GC_Del(o);
}

PyObject* let_get_results(PyObject* o, void*) { return property(as<Let>(o)->results); }
PyObject* let_get_rhs(PyObject* o, void*) { return property(as<Let>(o)->rhs); }
PyObject* let_get_op(PyObject* o, void*) { return PyObject_GetAttrString(as<Let>(o)->rhs.object(), "op"); }
PyObject* let_get_name(PyObject* o, void*) { return PyObject_GetAttrString(as<Let>(o)->rhs.object(), "name"); }
PyObject* let_get_args(PyObject* o, void*) { return property(as<Let>(o)->rhs->args); }
PyObject* let_get_location(PyObject* o, void*) { return property(as<Let>(o)->rhs->location); }
PyObject* let_get_types(PyObject* o, void*) {
  return guard([&]() -> PyObject* {
    PyObject* results = as<Let>(o)->results.get();
    Py_ssize_t n = PyTuple_GET_SIZE(results);
    PyRef<> out = check(PyTuple_New(n));
    for (Py_ssize_t i = 0; i < n; ++i)
      PyTuple_SET_ITEM(out.get(), i, property(as<Local>(PyTuple_GET_ITEM(results, i))->type));
    return out.release();
  });
}

PyObject* let_reduce(PyObject* o, PyObject*) {
  return Py_BuildValue("O(OO)", Py_TYPE(o), as<Let>(o)->results.get(), as<Let>(o)->rhs.object());
}

PyMethodDef let_methods[] = {
    {"__reduce__", let_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef let_getset[] = {
    {"results", let_get_results, nullptr, "Tuple of the Locals that are bound.", nullptr},
    {"rhs", let_get_rhs, nullptr, "The CppApply or PyApply.", nullptr},
    {"op", let_get_op, nullptr, "The operation or Function class.", nullptr},
    {"name", let_get_name, nullptr, "Its name in print.", nullptr},
    {"args", let_get_args, nullptr, "Its arguments.", nullptr},
    {"types", let_get_types, nullptr, "Types of the results.", nullptr},
    {"location", let_get_location, nullptr, "Where the call was traced, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyObject* locals_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyObject* locals;
    refuse_keywords("Locals", kwargs);
    if (!PyArg_ParseTuple(args, "O:Locals", &locals)) throw PyError();
    return new_locals(tuple_of(locals)).release();
  });
}

int locals_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(as<Locals>(o)->args.get());
  return 0;
}

void locals_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  as<Locals>(o)->args.~PyRef<>();
  PyObject_GC_Del(o);
}

PyObject* locals_get_args(PyObject* o, void*) { return property(as<Locals>(o)->args); }

PyObject* locals_reduce(PyObject* o, PyObject*) { return Py_BuildValue("O(O)", Py_TYPE(o), as<Locals>(o)->args.get()); }

PyMethodDef locals_methods[] = {
    {"__reduce__", locals_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef locals_getset[] = {
    {"args", locals_get_args, nullptr, "Tuple of the Locals that are returned.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- Lambda -------------------------------------------------------------------------------------------------------

PyObject* lambda_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"params", "lets", "ret", "captures", nullptr};
    PyObject *params, *lets, *ret, *captures = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO|O:Lambda", const_cast<char**>(names), &params, &lets, &ret,
                                     &captures))
      throw PyError();
    PyRef<Locals> locals =
        Py_TYPE(ret) == &Locals_Type ? PyRef<Locals>::borrow(as<Locals>(ret)) : new_locals(tuple_of(ret));
    PyRef<> bound = captures ? tuple_of(captures) : check(PyTuple_New(0));
    return new_lambda(tuple_of(params), std::move(bound), tuple_of(lets), std::move(locals)).release();
  });
}

int lambda_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Lambda* self = as<Lambda>(o);
  Py_VISIT(self->params.get());
  Py_VISIT(self->captures.get());
  Py_VISIT(self->lets.get());
  Py_VISIT(self->ret.object());
  Py_VISIT(self->program.get());
  return 0;
}

void lambda_tp_dealloc(PyObject* o) {
  Lambda* self = as<Lambda>(o);
  PyObject_GC_UnTrack(o);
  if (self->weakrefs) PyObject_ClearWeakRefs(o);
  self->params.~PyRef<>();
  self->captures.~PyRef<>();
  self->lets.~PyRef<>();
  self->ret.~PyRef<Locals>();
  self->program.~PyRef<>();
  PyObject_GC_Del(o);
}

PyObject* lambda_tp_str(PyObject* o) {
  return guard([&]() -> PyObject* {
    std::string text = to_text(as<Lambda>(o), false);
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

PyObject* lambda_tp_repr(PyObject* o) {
  Lambda* self = as<Lambda>(o);
  return PyUnicode_FromFormat("<Lambda of %zd parameters, %zd lets>", PyTuple_GET_SIZE(self->params.get()),
                              PyTuple_GET_SIZE(self->lets.get()));
}

Py_hash_t lambda_tp_hash(PyObject* o) {
  return guard(Py_hash_t{-1}, [&]() { return hash(as<Lambda>(o)); });
}

PyObject* lambda_tp_richcompare(PyObject* a, PyObject* b, int relation) {
  return guard([&]() -> PyObject* {
    if (!is_lambda(b) || (relation != Py_EQ && relation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong(equal(as<Lambda>(a), as<Lambda>(b)) == (relation == Py_EQ));
  });
}

PyObject* lambda_text(PyObject* o, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"locations", nullptr};
    int locations = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|p:text", const_cast<char**>(names), &locations)) throw PyError();
    std::string text = to_text(as<Lambda>(o), locations);
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  });
}

PyObject* lambda_check(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    check_lambda(as<Lambda>(o));
    return none();
  });
}

PyObject* lambda_reduce(PyObject* o, PyObject*) {
  Lambda* self = as<Lambda>(o);
  return Py_BuildValue("O(OOOO)", Py_TYPE(o), self->params.get(), self->lets.get(), self->ret.object(),
                       self->captures.get());
}

PyObject* lambda_get_params(PyObject* o, void*) { return property(as<Lambda>(o)->params); }
PyObject* lambda_get_captures(PyObject* o, void*) { return property(as<Lambda>(o)->captures); }
PyObject* lambda_get_lets(PyObject* o, void*) { return property(as<Lambda>(o)->lets); }
PyObject* lambda_get_ret(PyObject* o, void*) { return property(as<Lambda>(o)->ret); }

PyMethodDef lambda_methods[] = {
    {"text", method(lambda_text), METH_VARARGS | METH_KEYWORDS,
     "text(locations=False) -> str\n\nThe lambda as text; with locations each let names where it was traced."},
    {"check", lambda_check, METH_NOARGS,
     "check()\n\nRaises RuntimeError, with the bad let and its neighbours, unless every local is bound once and before "
     "its use and every type is what the operation's own rule says."},
    {"__reduce__", lambda_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef lambda_getset[] = {
    {"params", lambda_get_params, nullptr, "Tuple of the parameters, Locals; the captured ones last.", nullptr},
    {"captures", lambda_get_captures, nullptr, "Tensors bound to the last parameters.", nullptr},
    {"lets", lambda_get_lets, nullptr, "Tuple of the Lets, in program order.", nullptr},
    {"ret", lambda_get_ret, nullptr, "The Locals that are returned.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

void object_tp_dealloc(PyObject* o) { PyObject_GC_Del(o); }
int no_traverse(PyObject*, visitproc, void*) { return 0; }

}  // namespace

PyTypeObject ExprBase_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._ExprBase",
    .tp_basicsize = sizeof(PyObject),
    .tp_dealloc = object_tp_dealloc,
    .tp_flags = kIrFlags | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "An expression of the IR.",
    .tp_traverse = no_traverse,
    .tp_clear = ir_tp_clear,
};

PyTypeObject CppApply_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.CppApply",
    .tp_basicsize = sizeof(Apply),
    .tp_dealloc = apply_tp_dealloc,
    .tp_repr = apply_tp_repr,
    .tp_flags = kIrFlags,
    .tp_doc = "CppApply(name, args, location=None)\n\nAn operation of the table on one argument per parameter.",
    .tp_traverse = apply_tp_traverse,
    .tp_clear = ir_tp_clear,
    .tp_methods = cpp_apply_methods,
    .tp_getset = cpp_apply_getset,
    .tp_base = &ExprBase_Type,
    .tp_new = cpp_apply_tp_new,
};

PyTypeObject PyApply_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.PyApply",
    .tp_basicsize = sizeof(Apply),
    .tp_dealloc = apply_tp_dealloc,
    .tp_repr = apply_tp_repr,
    .tp_flags = kIrFlags,
    .tp_doc = "PyApply(function, args, location=None)\n\nA Python Function on its arguments.",
    .tp_traverse = apply_tp_traverse,
    .tp_clear = ir_tp_clear,
    .tp_methods = py_apply_methods,
    .tp_getset = py_apply_getset,
    .tp_base = &ExprBase_Type,
    .tp_new = py_apply_tp_new,
};

PyTypeObject Let_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Let",
    .tp_basicsize = sizeof(Let),
    .tp_dealloc = let_tp_dealloc,
    .tp_flags = kIrFlags,
    .tp_doc = "Let(results, rhs)\n\nBinds the results of an operation.",
    .tp_traverse = let_tp_traverse,
    .tp_clear = ir_tp_clear,
    .tp_methods = let_methods,
    .tp_getset = let_getset,
    .tp_base = &ExprBase_Type,
    .tp_new = let_tp_new,
};

PyTypeObject Locals_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Locals",
    .tp_basicsize = sizeof(Locals),
    .tp_dealloc = locals_tp_dealloc,
    .tp_flags = kIrFlags,
    .tp_doc = "Locals(args)\n\nThe tuple of locals that a lambda returns.",
    .tp_traverse = locals_tp_traverse,
    .tp_clear = ir_tp_clear,
    .tp_methods = locals_methods,
    .tp_getset = locals_getset,
    .tp_base = &ExprBase_Type,
    .tp_new = locals_tp_new,
};

PyTypeObject Lambda_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Lambda",
    .tp_basicsize = sizeof(Lambda),
    .tp_dealloc = lambda_tp_dealloc,
    .tp_repr = lambda_tp_repr,
    .tp_hash = lambda_tp_hash,
    .tp_str = lambda_tp_str,
    .tp_flags = kIrFlags,
    .tp_doc =
        "Lambda(params, lets, ret, captures=())\n\nA closed program over tensors. Equal lambdas differ at most in "
        "the identity of their locals.",
    .tp_traverse = lambda_tp_traverse,
    .tp_clear = ir_tp_clear,
    .tp_richcompare = lambda_tp_richcompare,
    .tp_weaklistoffset = offsetof(Lambda, weakrefs),
    .tp_methods = lambda_methods,
    .tp_getset = lambda_getset,
    .tp_base = &ExprBase_Type,
    .tp_new = lambda_tp_new,
};

}  // namespace torchlite::ir
