/* A small extension on the C API: `axpy(a, x, y)` with its arrays, Variables made from C, and what they are made of. */
#include <torchlite.h>

/* scale(tensor, factor) -> FloatTensor: elementwise on the raw memory. */
static PyObject* scale(PyObject* self, PyObject* args) {
  PyObject* tensor;
  double factor;
  TorchliteTensorInfo in, out;
  (void)self;
  if (!PyArg_ParseTuple(args, "Od", &tensor, &factor) || TorchliteTensor_Info(tensor, &in) < 0) return NULL;
  if (in.dtype != TORCHLITE_FLOAT || in.ndim != 1) {
    PyErr_SetString(PyExc_TypeError, "scale: expected a FloatTensor of one dimension");
    return NULL;
  }
  PyObject* result = TorchliteTensor_New(TORCHLITE_FLOAT, 1, in.sizes);
  if (!result || TorchliteTensor_Info(result, &out) < 0) return NULL;
  for (int64_t i = 0; i < in.sizes[0]; ++i)
    ((float*)out.data)[i] = (float)factor * ((const float*)in.data)[i * in.strides[0]];
  return result;
}

static PyObject* is_variable(PyObject* self, PyObject* o) { (void)self; return PyBool_FromLong(THPVariable_Check(o)); }
static PyObject* is_tensor(PyObject* self, PyObject* o) { (void)self; return PyBool_FromLong(TorchliteTensor_Check(o)); }
static PyObject* wrap(PyObject* self, PyObject* o) { (void)self; return THPVariable_Wrap(o); }
static PyObject* wrap_null(PyObject* self, PyObject* o) { (void)self; (void)o; return THPVariable_Wrap(NULL); }
static PyObject* leaf(PyObject* self, PyObject* o) { (void)self; return THPVariable_NewLeaf(o); }
static PyObject* parameter(PyObject* self, PyObject* o) { (void)self; return TorchliteVariable_NewParameter(o); }
static PyObject* new_volatile(PyObject* self, PyObject* o) { (void)self; return THPVariable_NewVolatile(o); }
static PyObject* data(PyObject* self, PyObject* o) { (void)self; return TorchliteVariable_Data(o); }
static PyObject* grad(PyObject* self, PyObject* o) { (void)self; return TorchliteVariable_Grad(o); }
static PyObject* from_array(PyObject* self, PyObject* o) { (void)self; return TorchliteTensor_FromArray(o); }
static PyObject* as_array(PyObject* self, PyObject* o) { (void)self; return TorchliteTensor_AsArray(o); }

static PyObject* with_function(PyObject* self, PyObject* args) {
  PyObject *tensor, *function;
  (void)self;
  if (!PyArg_ParseTuple(args, "OO", &tensor, &function)) return NULL;
  return THPVariable_NewWithFunction(tensor, function);
}

static PyObject* new_tensor(PyObject* self, PyObject* args) {
  int dtype;
  long long size;
  (void)self;
  if (!PyArg_ParseTuple(args, "iL", &dtype, &size)) return NULL;
  int64_t sizes[1] = {size};
  return TorchliteTensor_New(dtype, 1, sizes);
}

static PyMethodDef methods[] = {
    {"scale", scale, METH_VARARGS, NULL},       {"is_variable", is_variable, METH_O, NULL},
    {"is_tensor", is_tensor, METH_O, NULL},     {"wrap", wrap, METH_O, NULL},
    {"wrap_null", wrap_null, METH_NOARGS, NULL}, {"leaf", leaf, METH_O, NULL},
    {"parameter", parameter, METH_O, NULL},     {"new_volatile", new_volatile, METH_O, NULL},
    {"with_function", with_function, METH_VARARGS, NULL}, {"data", data, METH_O, NULL},
    {"grad", grad, METH_O, NULL},               {"from_array", from_array, METH_O, NULL},
    {"as_array", as_array, METH_O, NULL},       {"new_tensor", new_tensor, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef module = {PyModuleDef_HEAD_INIT, "client", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_client(void) {
  if (torchlite_import() < 0) return NULL;
  return PyModule_Create(&module);
}
