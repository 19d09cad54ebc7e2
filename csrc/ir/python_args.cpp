// Types and arguments of the IR as Python sees them. All are immutable; constructors take what the properties give back,
// and pickling calls them.
#include "ir/python_ir.h"

#include <cstring>

#include "tensor/python_tensor.h"

namespace torchlite::ir {

namespace {

// ---- TensorType ---------------------------------------------------------------------------------------------------

DType parse_dtype(PyObject* o) {
  const char* name = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : nullptr;
  for (int i = 0; name && i < kDTypes; ++i)
    if (!std::strcmp(name, kDTypeInfo[i].name) || !std::strcmp(name, kDTypeInfo[i].numpy_name))
      return static_cast<DType>(i);
  if (PyErr_Occurred()) throw PyError();
  value_error("TensorType: argument 'dtype' must be the name of an element type such as 'Float', not %R", o);
}

PyObject* type_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"dtype", "sizes", "device", nullptr};
    PyObject *dtype, *sizes;
    int device = kCPU;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO|i:TensorType", const_cast<char**>(names), &dtype, &sizes,
                                     &device))
      throw PyError();
    return new_type(parse_dtype(dtype), static_cast<Device>(device), parse_dims(sizes)).release();
  });
}

void type_tp_dealloc(PyObject* o) {
  delete[] as<TensorType>(o)->dims;
  PyObject_Free(o);
}

PyObject* type_tp_repr(PyObject* o) {
  return guard([&]() -> PyObject* { return PyUnicode_FromString(format_type(as<TensorType>(o)).c_str()); });
}

Py_hash_t type_tp_hash(PyObject* o) {
  const TensorType* t = as<TensorType>(o);
  uint64_t h = static_cast<uint64_t>(t->dtype) * 1000003 + static_cast<uint64_t>(t->device + 2);
  for (int64_t d : t->sizes()) h = (h ^ static_cast<uint64_t>(d)) * 1099511628211u;
  return static_cast<Py_hash_t>(h >> 1);
}

PyObject* type_tp_richcompare(PyObject* a, PyObject* b, int relation) {
  if (Py_TYPE(b) != &TensorType_Type || (relation != Py_EQ && relation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(same_type(as<TensorType>(a), as<TensorType>(b)) == (relation == Py_EQ));
}

PyObject* type_get_dtype(PyObject* o, void*) { return PyUnicode_FromString(info(as<TensorType>(o)->dtype).name); }
PyObject* type_get_device(PyObject* o, void*) { return PyLong_FromLong(as<TensorType>(o)->device); }
PyObject* type_get_sizes(PyObject* o, void*) {
  return guard([&]() -> PyObject* { return size_tuple(as<TensorType>(o)->sizes()).release(); });
}

PyObject* type_reduce(PyObject* o, PyObject*) {
  return guard([&]() -> PyObject* {
    PyRef<> sizes = int_tuple(as<TensorType>(o)->sizes());
    return Py_BuildValue("O(sOi)", Py_TYPE(o), info(as<TensorType>(o)->dtype).name, sizes.get(),
                         static_cast<int>(as<TensorType>(o)->device));
  });
}

PyMethodDef type_methods[] = {
    {"__reduce__", type_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef type_getset[] = {
    {"dtype", type_get_dtype, nullptr, "Name of the element type: 'Float'.", nullptr},
    {"sizes", type_get_sizes, nullptr, "Sizes, a torchlite.Size.", nullptr},
    {"device", type_get_device, nullptr, "-1 for the host, else the CUDA device.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- Local --------------------------------------------------------------------------------------------------------

PyObject* local_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyObject* type;
    refuse_keywords("Local", kwargs);
    if (!PyArg_ParseTuple(args, "O!:Local", &TensorType_Type, &type)) throw PyError();
    return new_local(PyRef<TensorType>::borrow(as<TensorType>(type))).release();
  });
}

int local_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(as<Local>(o)->type.object());
  return 0;
}
void local_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  as<Local>(o)->type.~PyRef<TensorType>();
  PyObject_GC_Del(o);
}

PyObject* local_tp_repr(PyObject* o) {
  return guard([&]() -> PyObject* {
    return PyUnicode_FromFormat("<Local : %s>", format_type(as<Local>(o)->type.get()).c_str());
  });
}

PyObject* local_get_type(PyObject* o, void*) { return property(as<Local>(o)->type); }

PyObject* local_reduce(PyObject* o, PyObject*) {
  return Py_BuildValue("O(O)", Py_TYPE(o), as<Local>(o)->type.object());
}

PyMethodDef local_methods[] = {
    {"__reduce__", local_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef local_getset[] = {
    {"type", local_get_type, nullptr, "The TensorType.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

// ---- Const --------------------------------------------------------------------------------------------------------

PyObject* const_tp_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    PyObject* value;
    refuse_keywords("Const", kwargs);
    if (!PyArg_ParseTuple(args, "O:Const", &value)) throw PyError();
    return new_const(value).release();
  });
}

int const_tp_traverse(PyObject* o, visitproc visit, void* arg) {
  Py_VISIT(as<Const>(o)->value.get());
  return 0;
}

void const_tp_dealloc(PyObject* o) {
  PyObject_GC_UnTrack(o);
  as<Const>(o)->value.~PyRef<>();
  PyObject_GC_Del(o);
}

PyObject* const_tp_repr(PyObject* o) { return PyUnicode_FromFormat("Const(%R)", as<Const>(o)->value.get()); }
PyObject* const_get_value(PyObject* o, void*) { return property(as<Const>(o)->value); }

PyObject* const_reduce(PyObject* o, PyObject*) { return Py_BuildValue("O(O)", Py_TYPE(o), as<Const>(o)->value.get()); }

PyMethodDef const_methods[] = {
    {"__reduce__", const_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyGetSetDef const_getset[] = {
    {"value", const_get_value, nullptr, "The Python constant.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

void object_tp_dealloc(PyObject* o) { PyObject_GC_Del(o); }
int no_traverse(PyObject*, visitproc, void*) { return 0; }

}  // namespace

PyTypeObject TensorType_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.TensorType",
    .tp_basicsize = sizeof(TensorType),
    .tp_dealloc = type_tp_dealloc,
    .tp_repr = type_tp_repr,
    .tp_hash = type_tp_hash,
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "TensorType(dtype, sizes, device=-1)\n\nElement type, sizes and place of a local.",
    .tp_richcompare = type_tp_richcompare,
    .tp_methods = type_methods,
    .tp_getset = type_getset,
    .tp_new = type_tp_new,
};

PyTypeObject ArgBase_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._ArgBase",
    .tp_basicsize = sizeof(PyObject),
    .tp_dealloc = object_tp_dealloc,
    .tp_flags = kIrFlags | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "An argument of an operation in the IR: a Local or a Const.",
    .tp_traverse = no_traverse,
    .tp_clear = ir_tp_clear,
};

PyTypeObject Local_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Local",
    .tp_basicsize = sizeof(Local),
    .tp_dealloc = local_tp_dealloc,
    .tp_repr = local_tp_repr,
    .tp_flags = kIrFlags,
    .tp_doc = "Local(type)\n\nA tensor that a lambda binds. Its identity is its name.",
    .tp_traverse = local_tp_traverse,
    .tp_clear = ir_tp_clear,
    .tp_methods = local_methods,
    .tp_getset = local_getset,
    .tp_base = &ArgBase_Type,
    .tp_new = local_tp_new,
};

PyTypeObject Const_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C.Const",
    .tp_basicsize = sizeof(Const),
    .tp_dealloc = const_tp_dealloc,
    .tp_repr = const_tp_repr,
    .tp_flags = kIrFlags,
    .tp_doc = "Const(value)\n\nA Python constant; TypeError for a tensor.",
    .tp_traverse = const_tp_traverse,
    .tp_clear = ir_tp_clear,
    .tp_methods = const_methods,
    .tp_getset = const_getset,
    .tp_base = &ArgBase_Type,
    .tp_new = const_tp_new,
};

}  // namespace torchlite::ir
