// What a trace depends on of a Variable, as a bytes object: part of the keys of jit's caches.
#include "ir/ir.h"

namespace torchlite::ir {

namespace {

// Element type, device, flags, and the sizes: equal for equal types and flags, else different.
PyObject* variable_signature(PyObject*, PyObject* o) {
  return guard([&]() -> PyObject* {
    if (!is_variable(o)) type_error("_variable_signature: expected a Variable, not %.100s", type_name(o));
    const Variable* v = as_variable(o);
    const Tensor* t = v->data.get();
    struct {
      int32_t type, flags;
      int64_t dims[kMaxDim];
    } s;
    s.type = static_cast<int32_t>(t->dtype) << 16 | (static_cast<int32_t>(t->device()) + 1);
    s.flags = (v->requires_grad ? 1 : 0) | (v->is_volatile ? 2 : 0) | t->ndim << 2;
    for (int d = 0; d < t->ndim; ++d) s.dims[d] = t->size(d);
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&s),
                                     static_cast<Py_ssize_t>(offsetof(decltype(s), dims)) + t->ndim * 8);
  });
}

PyMethodDef functions[] = {
    {"_variable_signature", variable_signature, METH_O,
     "_variable_signature(variable) -> bytes\n\nEqual for Variables of one type, device, sizes and flags."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

void init_signature(PyObject* module) { check(PyModule_AddFunctions(module, functions)); }

}  // namespace torchlite::ir
