#include "ir/ir.h"

#include <algorithm>

#include "autograd/variable.h"

namespace torchlite::ir {

namespace {

template <class T>
T* allocate(PyTypeObject* type) {
  T* p = PyObject_GC_New(T, type);
  if (!p) throw PyError();
  return p;
}

template <class T>
PyRef<T> tracked(T* p) {
  PyObject_GC_Track(p);
  return PyRef<T>::steal(p);
}

void require_tuple_of_locals(PyObject* o, const char* what) {
  if (!PyTuple_Check(o)) type_error("%s must be a tuple of Locals, not %.100s", what, type_name(o));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i)
    if (!is_local(PyTuple_GET_ITEM(o, i)))
      type_error("%s: element %zd must be a Local, not %.100s", what, i, type_name(PyTuple_GET_ITEM(o, i)));
}

void require_args(PyObject* o, const char* what) {
  if (!PyTuple_Check(o)) type_error("%s must be a tuple of arguments, not %.100s", what, type_name(o));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
    PyObject* a = PyTuple_GET_ITEM(o, i);
    if (is_local(a) || is_const(a)) continue;
    bool list = PyTuple_Check(a);
    for (Py_ssize_t k = 0; list && k < PyTuple_GET_SIZE(a); ++k) {
      PyObject* e = PyTuple_GET_ITEM(a, k);
      list = is_local(e) || is_const(e);
    }
    if (!list)
      type_error("%s: argument %zd must be a Local, a Const or a tuple of them, not %.100s", what, i, type_name(a));
  }
}

// Tensors are no constants: neither as the value nor inside a container of it.
void require_no_tensor(PyObject* value) {
  if (is_tensor(value) || is_variable(value))
    type_error("a constant of the IR cannot be a tensor (got %.100s): make it a parameter or a capture",
               type_name(value));
  if (PyTuple_Check(value) || PyList_Check(value)) {
    PyRef<> items = check(PySequence_Fast(value, "a sequence"));
    if (Py_EnterRecursiveCall(" in a constant of the IR")) throw PyError();
    struct Leave {
      ~Leave() { Py_LeaveRecursiveCall(); }
    } leave;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i)
      require_no_tensor(PySequence_Fast_GET_ITEM(items.get(), i));
  }
}

}  // namespace

PyRef<TensorType> new_type(DType dtype, Device device, Dims sizes) {
  if (sizes.n > kMaxDim) runtime_error("a tensor has at most %d dimensions, but got %d", kMaxDim, sizes.n);
  TensorType* t = PyObject_New(TensorType, &TensorType_Type);
  if (!t) throw PyError();
  t->dtype = dtype;
  t->device = device;
  t->ndim = 0;
  t->dims = nullptr;
  PyRef<TensorType> ref = PyRef<TensorType>::steal(t);
  if (sizes.n) {
    t->dims = new int64_t[static_cast<size_t>(sizes.n)];
    std::copy(sizes.begin(), sizes.end(), t->dims);
  }
  t->ndim = static_cast<uint8_t>(sizes.n);
  return ref;
}

PyRef<TensorType> type_of(const Tensor* t) { return new_type(t->dtype, t->device(), t->sizes()); }

PyRef<Local> new_local(PyRef<TensorType> type) {
  Local* l = allocate<Local>(&Local_Type);
  new (&l->type) PyRef<TensorType>(std::move(type));
  return tracked(l);
}

PyRef<Const> new_const(PyObject* value) {
  require_no_tensor(value);
  Const* c = allocate<Const>(&Const_Type);
  new (&c->value) PyRef<>(PyRef<>::borrow(value));
  return tracked(c);
}

namespace {
PyRef<Apply> new_apply(PyTypeObject* type, const Op* op, PyRef<> function, PyRef<> args, PyRef<> location) {
  require_args(args.get(), type->tp_name);
  Apply* a = allocate<Apply>(type);
  a->op = op;
  new (&a->function) PyRef<>(std::move(function));
  new (&a->args) PyRef<>(std::move(args));
  new (&a->location) PyRef<>(std::move(location));
  return tracked(a);
}
}  // namespace

PyRef<Apply> new_cpp_apply(const Op& op, PyRef<> args, PyRef<> location) {
  return new_apply(&CppApply_Type, &op, {}, std::move(args), std::move(location));
}

PyRef<Apply> new_py_apply(PyRef<> function, PyRef<> args, PyRef<> location) {
  return new_apply(&PyApply_Type, nullptr, std::move(function), std::move(args), std::move(location));
}

PyRef<Let> new_let(PyRef<> results, PyRef<Apply> rhs) {
  require_tuple_of_locals(results.get(), "Let: results");
  Let* l = allocate<Let>(&Let_Type);
  new (&l->results) PyRef<>(std::move(results));
  new (&l->rhs) PyRef<Apply>(std::move(rhs));
  return tracked(l);
}

PyRef<Locals> new_locals(PyRef<> args) {
  require_tuple_of_locals(args.get(), "Locals: args");
  Locals* l = allocate<Locals>(&Locals_Type);
  new (&l->args) PyRef<>(std::move(args));
  return tracked(l);
}

PyRef<Lambda> new_lambda(PyRef<> params, PyRef<> captures, PyRef<> lets, PyRef<Locals> ret) {
  require_tuple_of_locals(params.get(), "Lambda: params");
  if (!PyTuple_Check(captures.get()) || !PyTuple_Check(lets.get()))
    type_error("Lambda: captures and lets must be tuples, not %.100s and %.100s", type_name(captures.get()),
               type_name(lets.get()));
  if (PyTuple_GET_SIZE(captures.get()) > PyTuple_GET_SIZE(params.get()))
    value_error("Lambda: %zd captures for %zd params", PyTuple_GET_SIZE(captures.get()),
                PyTuple_GET_SIZE(params.get()));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(captures.get()); ++i) {
    PyObject* c = PyTuple_GET_ITEM(captures.get(), i);
    if (!is_tensor(c) && !is_variable(c))
      type_error("Lambda: capture %zd must be a Variable or a tensor, not %.100s", i, type_name(c));
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lets.get()); ++i)
    if (Py_TYPE(PyTuple_GET_ITEM(lets.get(), i)) != &Let_Type)
      type_error("Lambda: element %zd of lets must be a Let, not %.100s", i,
                 type_name(PyTuple_GET_ITEM(lets.get(), i)));
  Lambda* l = allocate<Lambda>(&Lambda_Type);
  new (&l->params) PyRef<>(std::move(params));
  new (&l->captures) PyRef<>(std::move(captures));
  new (&l->lets) PyRef<>(std::move(lets));
  new (&l->ret) PyRef<Locals>(std::move(ret));
  new (&l->program) PyRef<>();
  l->weakrefs = nullptr;
  return tracked(l);
}

bool same_type(const TensorType* a, const TensorType* b) {
  return a == b || (a->dtype == b->dtype && a->device == b->device && a->sizes() == b->sizes());
}

std::string format_type(const TensorType* t) {
  std::string device = t->device == kCPU ? "" : "cuda:" + std::to_string(t->device) + " ";
  return device + info(t->dtype).name + format_dims(t->sizes());
}

}  // namespace torchlite::ir
