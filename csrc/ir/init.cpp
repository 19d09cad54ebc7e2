// The types of the IR in the module.
#include "ir/interpreter.h"
#include "ir/ir.h"
#include "ir/tracer.h"

namespace torchlite::ir {

void init_signature(PyObject* module);
void init_registered_classes();

void init_ir(PyObject* module) {
  for (PyTypeObject* type : {&ArgBase_Type, &ExprBase_Type, &TensorType_Type, &Local_Type, &Const_Type, &CppApply_Type,
                             &PyApply_Type, &Let_Type, &Locals_Type, &Lambda_Type}) {
    check(PyType_Ready(type));
    check(PyModule_AddType(module, type));
  }
  init_registered_classes();
  init_tracer(module);
  init_interpreter(module);
  init_signature(module);
}

}  // namespace torchlite::ir
