// What the files of the tensors' Python face share.
#pragma once

#include <string>

#include "tensor/tensor.h"
#include "utils/errors.h"

namespace torchlite {

int tensor_tp_traverse(PyObject* o, visitproc visit, void* arg);
int tensor_tp_clear(PyObject* o);
void tensor_tp_dealloc(PyObject* o);

// Operators and comparison, filled in by the operations before `init_tensor` readies the types.
extern PyNumberMethods tensor_number_methods;
extern richcmpfunc tensor_richcompare;
extern PyMethodDef tensor_methods[];
extern PyBufferProcs tensor_buffer;

// "torchlite.FloatTensor", or what a subclass calls itself, from the class's `__module__` and `__name__`.
std::string class_name(PyTypeObject* type);
// The element type of a tensor class or a subclass of one; TypeError for others.
DType dtype_of_class(PyTypeObject* type);
// `t` as an instance of `type`, which is the class of its element type or a subclass of that.
PyRef<Tensor> as_class(PyTypeObject* type, PyRef<Tensor> t);
// What the call Cls(*args) makes, as an instance of the plain class. `name` is the caller's in messages.
PyRef<Tensor> construct_tensor(DType dtype, PyObject* const* args, Py_ssize_t n, const char* name);
// The same on a CUDA device.
PyRef<Tensor> construct_cuda_tensor(DType dtype, Device device, PyObject* const* args, Py_ssize_t n, const char* name);
// A new tensor with the data of a nested list or tuple.
PyRef<Tensor> tensor_from_sequence(DType dtype, PyObject* sequence);
// Whether an object is an int or stands for one (`__index__`), and is neither a bool nor an array of any kind.
bool is_int(PyObject* o);
// Stores a Python number; TypeError for a float with a fraction in an integer type, OverflowError out of range.
void store_number(char* p, DType dtype, PyObject* number);

PyObject* tensor_dlpack(PyObject* o, PyObject* args, PyObject* kwargs);
PyObject* tensor_dlpack_device(PyObject* o, PyObject*);
// Adds the attributes of tensors that their classes have too: `is_cuda`, `is_sparse`.
void add_class_flags();
PyObject* tensor_index(PyObject* o, PyObject* key);
PyObject* tensor_set_index(PyObject* o, PyObject* args);
PyObject* tensor_check_advanced_indexing(PyObject* o, PyObject* key);
PyObject* tensor_advanced_index_select(PyObject* o, PyObject* key);
PyObject* tensor_advanced_index_add(PyObject* o, PyObject* args);

// Functions of the module `_C`.
// `_set_default_tensor_type(cls)`, `_get_default_tensor_type()`: the class of what factories make.
PyObject* set_default_tensor_type(PyObject* module, PyObject* cls);
PyObject* get_default_tensor_type(PyObject* module, PyObject*);
// `_sized(sizes, out)`: an uninitialised tensor of that class, or `out` resized if it is not None.
PyObject* sized_tensor(PyObject* module, PyObject* args);
PyObject* from_numpy(PyObject* module, PyObject* array);
PyObject* from_dlpack(PyObject* module, PyObject* args, PyObject* kwargs);
PyObject* infer_size(PyObject* module, PyObject* args);
// `_set_package_name(name)`: the module that the classes of tensors and storages and Size say they belong to.
PyObject* set_package_name(PyObject* module, PyObject* name);

}  // namespace torchlite
