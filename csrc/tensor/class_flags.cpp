// `is_cuda`, which is asked of classes as well as of tensors: a descriptor, since a getset answers for instances only.
#include "tensor/python_tensor.h"

namespace torchlite {

namespace {

PyObject* is_cuda_tp_descr_get(PyObject*, PyObject* o, PyObject* type) {
  if (o && o != Py_None) return PyBool_FromLong(as_tensor(o)->device() != kCPU);
  for (auto* base = reinterpret_cast<PyTypeObject*>(type); base; base = base->tp_base)
    if (is_plain_tensor_type(base)) return PyBool_FromLong(base - TensorTypes >= kDTypes);
  return PyBool_FromLong(0);
}

PyTypeObject IsCuda_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._IsCuda",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "Whether the memory lies on a CUDA device.",
    .tp_descr_get = is_cuda_tp_descr_get,
};

}  // namespace

void add_class_flags() {
  check(PyType_Ready(&IsCuda_Type));
  PyObject* flags = TensorBase_Type.tp_dict;
  check(PyDict_SetItemString(flags, "is_cuda", check(PyType_GenericAlloc(&IsCuda_Type, 0)).get()));
  check(PyDict_SetItemString(flags, "is_sparse", Py_False));  // sparse classes have their own
  PyType_Modified(&TensorBase_Type);
}

}  // namespace torchlite
