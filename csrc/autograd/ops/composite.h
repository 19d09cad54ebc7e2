// Functions made of several operations (chunk, split, view_as ...): no rows of their own.
#pragma once

#include <span>

#include "utils/py_ref.h"

namespace torchlite {

// Methods of Variables and Tensors, and functions of the module; each span ends before its sentinel.
std::span<PyMethodDef> composite_method_defs();
std::span<PyMethodDef> composite_function_defs();

}  // namespace torchlite
