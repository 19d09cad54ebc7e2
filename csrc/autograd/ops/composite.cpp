#include "autograd/ops/composite.h"

namespace torchlite {

std::span<PyMethodDef> composite_method_defs() { return {}; }

std::span<PyMethodDef> composite_function_defs() {
  static PyMethodDef defs[] = {{nullptr, nullptr, 0, nullptr}};
  return {defs, 0};
}

}  // namespace torchlite
