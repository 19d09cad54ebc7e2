// Functions as the tables of methods hold them.
#pragma once

#include "utils/py_ref.h"

namespace torchlite {

// A function of whatever signature its METH_ flags say, under the one type that a PyMethodDef has.
template <class F>
PyCFunction method(F* f) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

}  // namespace torchlite
