// The class of tensors that functions make where no argument says another: FloatTensor until it is changed.
#include "tensor/python_tensor.h"
#include "tensor/sparse.h"

namespace torchlite {

namespace {

// Never null; for the life of the process.
PyObject*& default_class() {
  static PyObject* cls = new_ref(reinterpret_cast<PyObject*>(&TensorTypes[static_cast<int>(DType::Float)]));
  return cls;
}

}  // namespace

PyObject* set_default_tensor_type(PyObject*, PyObject* cls) {
  return guard([&]() -> PyObject* {
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    if (!PyType_Check(cls) || !PyType_IsSubtype(type, &TensorBase_Type) || type == &TensorBase_Type)
      type_error("_set_default_tensor_type: expected a class of tensors, such as FloatTensor, but got %R", cls);
    if (sparse_class && PyType_IsSubtype(type, sparse_class))
      type_error("_set_default_tensor_type: expected a class of dense tensors, but got %R", cls);
    PyRef<> former = PyRef<>::steal(std::exchange(default_class(), new_ref(cls)));
    return none();
  });
}

PyObject* get_default_tensor_type(PyObject*, PyObject*) { return new_ref(default_class()); }

PyObject* sized_tensor(PyObject*, PyObject* args) {
  return guard([&]() -> PyObject* {
    PyObject *given, *out;
    if (!PyArg_ParseTuple(args, "O!O:_sized", &PyTuple_Type, &given, &out)) throw PyError();
    Py_ssize_t n = PyTuple_GET_SIZE(given);
    PyRef<> sequence = PyRef<>::borrow(given);
    if (n == 1 && !is_int(PyTuple_GET_ITEM(given, 0))) {
      PyObject* only = PyTuple_GET_ITEM(given, 0);
      if (!PyTuple_Check(only) && !PyList_Check(only) && !(PySequence_Check(only) && !PyUnicode_Check(only)))
        type_error("sizes have to be ints or one sequence of ints, but got %R", given);
      sequence = check(PySequence_Tuple(only));
      n = PyTuple_GET_SIZE(sequence.get());
    }
    std::vector<int64_t> sizes;
    for (Py_ssize_t i = 0; i < n; ++i) {
      PyObject* item = PyTuple_GET_ITEM(sequence.get(), i);
      if (!is_int(item)) type_error("sizes have to be ints or one sequence of ints, but got %R", given);
      sizes.push_back(parse_dims(item)[0]);
    }
    if (n == 0) sizes.push_back(0);  // as the class without arguments
    for (int64_t s : sizes)
      if (s < 0) runtime_error("a size must not be negative, but got %s", format_dims(sizes).c_str());
    if (out != Py_None) {
      if (!is_tensor(out)) type_error("out has to be a tensor, but is %.100s", type_name(out));
      require_writable(as_tensor(out), "out");
      resize(as_tensor(out), sizes);
      return new_ref(out);
    }
    auto* type = reinterpret_cast<PyTypeObject*>(default_class());
    if (type >= TensorTypes && type < TensorTypes + kDTypes)
      return new_tensor(static_cast<DType>(type - TensorTypes), sizes).release();
    PyRef<> cls = PyRef<>::borrow(default_class());  // its constructor may change the default
    return check(PyObject_CallOneArg(cls.get(), size_tuple(sizes).get())).release();
  });
}

}  // namespace torchlite
