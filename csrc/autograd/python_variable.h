// What the files of the Variables' Python face share.
#pragma once

#include "autograd/variable.h"

namespace torchlite {

int variable_tp_traverse(PyObject* o, visitproc visit, void* arg);
int variable_tp_clear(PyObject* o);
void variable_tp_dealloc(PyObject* o);

// An untracked instance of `type` with its data set (variable.cpp).
PyRef<Variable> allocate_variable(PyTypeObject* type, PyRef<Tensor> data);

// Operators and comparison, filled in by the operations before `init_variable` readies the type.
extern PyNumberMethods variable_number_methods;
extern richcmpfunc variable_richcompare;

extern PyMethodDef variable_methods[];
extern PyGetSetDef variable_getset[];

// Lets the instances of `type`, a Python class directly on `_VariableBase` that adds no fields, die without the general
// subtype_dealloc, which would look for fields to clear and then call ours: results are made and dropped all the time.
void shorten_dealloc(PyTypeObject* type) noexcept;

}  // namespace torchlite
