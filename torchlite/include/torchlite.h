/* The C API of torchlite: Variables and tensors for other extensions.
 *
 * An extension includes this header, calls `torchlite_import()` once in its module's init function (0 on success, -1
 * with an exception set), and may then use everything below. All functions hold the GIL and follow CPython's
 * conventions: a NULL or negative result means that an exception is set, an object result is a new reference unless
 * its comment says borrowed. Several sources of one extension may each import; the table costs a pointer.
 *
 * A Variable and its Python object are one and the same here, so where the original API wrapped a C++ variable,
 * `THPVariable_Wrap` just hands out another reference.
 */
#ifndef TORCHLITE_H
#define TORCHLITE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function is added (minor) or changed (major). */
#define TORCHLITE_API_MAJOR 1
#define TORCHLITE_API_MINOR 0

/* Element types, in the order of TorchliteTensorInfo.dtype. */
enum TorchliteDType {
  TORCHLITE_BYTE,
  TORCHLITE_CHAR,
  TORCHLITE_SHORT,
  TORCHLITE_INT,
  TORCHLITE_LONG,
  TORCHLITE_HALF,
  TORCHLITE_FLOAT,
  TORCHLITE_DOUBLE
};

/* What a tensor is, valid while the tensor lives and is not resized. Strides count elements. */
typedef struct {
  void* data; /* the first element */
  int dtype;  /* a TorchliteDType */
  int ndim;
  const int64_t* sizes;
  const int64_t* strides;
  int device; /* -1: host; else the CUDA device */
  int readonly;
} TorchliteTensorInfo;

typedef struct {
  int major, minor;
  int (*variable_check)(PyObject*);
  PyObject* (*variable_wrap)(PyObject*);
  PyObject* (*variable_new_leaf)(PyObject*, int);
  PyObject* (*variable_new_volatile)(PyObject*);
  PyObject* (*variable_new_with_function)(PyObject*, PyObject*);
  PyObject* (*variable_data)(PyObject*);
  PyObject* (*variable_grad)(PyObject*);
  int (*tensor_check)(PyObject*);
  PyObject* (*tensor_from_array)(PyObject*);
  PyObject* (*tensor_as_array)(PyObject*);
  PyObject* (*tensor_new)(int, int, const int64_t*);
  int (*tensor_info)(PyObject*, TorchliteTensorInfo*);
} TorchliteAPI;

#define TORCHLITE_API_CAPSULE "torchlite._C._C_API"

#ifndef TORCHLITE_BUILDING

static const TorchliteAPI* torchlite_api = NULL;

/* Loads the API. 0, or -1 with an exception set: torchlite is missing, or its API is another one. */
static inline int torchlite_import(void) {
  PyObject* module = PyImport_ImportModule("torchlite");
  if (!module) return -1;
  Py_DECREF(module);
  torchlite_api = (const TorchliteAPI*)PyCapsule_Import(TORCHLITE_API_CAPSULE, 0);
  if (!torchlite_api) return -1;
  if (torchlite_api->major != TORCHLITE_API_MAJOR || torchlite_api->minor < TORCHLITE_API_MINOR) {
    PyErr_Format(PyExc_ImportError,
                 "this extension was built for version %d.%d of the torchlite C API, but %d.%d is "
                 "installed",
                 TORCHLITE_API_MAJOR, TORCHLITE_API_MINOR, torchlite_api->major, torchlite_api->minor);
    torchlite_api = NULL;
    return -1;
  }
  return 0;
}

/* Whether `o` is a Variable. Never fails. */
#define THPVariable_Check(o) (torchlite_api->variable_check(o))
/* A new reference to the Variable `v`; None for NULL. TypeError for anything else. */
#define THPVariable_Wrap(v) (torchlite_api->variable_wrap(v))
/* A leaf around a tensor (or ndarray); it does not require grad. */
#define THPVariable_NewLeaf(data) (torchlite_api->variable_new_leaf((data), 0))
/* A leaf that requires grad. RuntimeError for integer data. */
#define TorchliteVariable_NewParameter(data) (torchlite_api->variable_new_leaf((data), 1))
/* A volatile leaf. */
#define THPVariable_NewVolatile(data) (torchlite_api->variable_new_volatile(data))
/* A result of the function `grad_fn` (a Function object): the next of its outputs. */
#define THPVariable_NewWithFunction(data, grad_fn) (torchlite_api->variable_new_with_function((data), (grad_fn)))
/* The tensor of a Variable, and its gradient (a Variable, or None). */
#define TorchliteVariable_Data(v) (torchlite_api->variable_data(v))
#define TorchliteVariable_Grad(v) (torchlite_api->variable_grad(v))

/* Whether `o` is a tensor. Never fails. */
#define TorchliteTensor_Check(o) (torchlite_api->tensor_check(o))
/* A tensor on the memory of an ndarray. TypeError for other objects and element types. */
#define TorchliteTensor_FromArray(array) (torchlite_api->tensor_from_array(array))
/* An ndarray on the memory of a tensor of the host. */
#define TorchliteTensor_AsArray(tensor) (torchlite_api->tensor_as_array(tensor))
/* An uninitialised contiguous tensor of the host. */
#define TorchliteTensor_New(dtype, ndim, sizes) (torchlite_api->tensor_new((dtype), (ndim), (sizes)))
/* Fills in `info`; 0, or -1 with a TypeError. */
#define TorchliteTensor_Info(tensor, info) (torchlite_api->tensor_info((tensor), (info)))

#endif /* TORCHLITE_BUILDING */

#ifdef __cplusplus
}
#endif
#endif /* TORCHLITE_H */
