// The trace IR: a closed lambda of let-bindings over the operations of the table and Python Functions.
//
//   lambda ::= lambda %0 : type, ..., %n : type { let; ...; Ret %i, ... }
//   let    ::= %i, ... = r                     binds the tuple of r's results, in program order
//   r      ::= Op a, ...                       CppApply: a row of the op table on its canonical arguments
//            | ^PyOp a, ...                    PyApply: a Python Function
//   a      ::= %i | constant | [a, ...]        Local | Const | a list of arguments (for Tensor[])
//   type   ::= Float(2, 3) | cuda:0 Float(2,)  TensorType
//
// Locals are always tensors, constants never are: a captured tensor is a further parameter, which the lambda carries
// bound (`captures`: the last parameters). Single assignment, no mutation, no use-lists. A Local has no name: it is its
// own identity, and gets a number only where a lambda is printed or compared.
//
// All of it are immutable Python objects; the lets of a lambda are a flat tuple, so nothing here recurses with the
// length of a program.
#pragma once

#include <string>

#include "autograd/ops/op.h"
#include "tensor/tensor.h"

namespace torchlite::ir {

struct TensorType : PyObject {
  DType dtype;
  Device device;
  uint8_t ndim;
  int64_t* dims;  // owned; -1 is an open size, which the inputs of a run decide

  Dims sizes() const { return {dims, ndim}; }
};

struct Arg : PyObject {};   // `_ArgBase`
struct Expr : PyObject {};  // `_ExprBase`

struct Local : Arg {
  PyRef<TensorType> type;
};

struct Const : Arg {
  PyRef<> value;  // None, bool, int, float, str, a tuple or list of these, a slice, a dtype, ... ; never a tensor
};

// The right-hand side of a let.
struct Apply : Expr {
  const Op* op;      // CppApply; nullptr for a PyApply
  PyRef<> function;  // PyApply: the Function class
  PyRef<> args;      // tuple of Local, Const, or a tuple of Args for a Tensor[] parameter
  PyRef<> location;  // "file:line in function" of the traced call, a str, or empty
};

struct Let : Expr {
  PyRef<> results;  // tuple of Local
  PyRef<Apply> rhs;
};

struct Locals : Expr {
  PyRef<> args;  // tuple of Local
};

struct Lambda : Expr {
  PyRef<> params;    // tuple of Local
  PyRef<> captures;  // tuple of Variables or Tensors, bound to the last parameters
  PyRef<> lets;      // tuple of Let
  PyRef<Locals> ret;
  PyRef<> program;  // compiled on the first run (interpreter.h)
  PyObject* weakrefs;
};

extern PyTypeObject TensorType_Type, ArgBase_Type, ExprBase_Type, Local_Type, Const_Type, CppApply_Type, PyApply_Type,
    Let_Type, Locals_Type, Lambda_Type;

inline bool is_local(PyObject* o) { return Py_TYPE(o) == &Local_Type; }
inline bool is_const(PyObject* o) { return Py_TYPE(o) == &Const_Type; }
inline bool is_lambda(PyObject* o) { return Py_TYPE(o) == &Lambda_Type; }
template <class T>
T* as(PyObject* o) {
  return static_cast<T*>(o);
}

// ---- builders (each throws PyError) -------------------------------------------------------------------------------
PyRef<TensorType> new_type(DType dtype, Device device, Dims sizes);
PyRef<TensorType> type_of(const Tensor* t);
PyRef<Local> new_local(PyRef<TensorType> type);
PyRef<Const> new_const(PyObject* value);
PyRef<Apply> new_cpp_apply(const Op& op, PyRef<> args, PyRef<> location);
PyRef<Apply> new_py_apply(PyRef<> function, PyRef<> args, PyRef<> location);
PyRef<Let> new_let(PyRef<> results, PyRef<Apply> rhs);
PyRef<Locals> new_locals(PyRef<> args);
PyRef<Lambda> new_lambda(PyRef<> params, PyRef<> captures, PyRef<> lets, PyRef<Locals> ret);

bool same_type(const TensorType* a, const TensorType* b);
std::string format_type(const TensorType* t);

// Calls f(Local*) for each local among the arguments of an Apply, in order, lists included.
template <class F>
void for_each_local(PyObject* args, F&& f) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* a = PyTuple_GET_ITEM(args, i);
    if (is_local(a)) {
      f(as<Local>(a));
    } else if (PyTuple_Check(a)) {
      for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a); ++k)
        if (is_local(PyTuple_GET_ITEM(a, k))) f(as<Local>(PyTuple_GET_ITEM(a, k)));
    }
  }
}

// ---- visitors -----------------------------------------------------------------------------------------------------
// Static dispatch on the kind of an expression or argument; further arguments are forwarded. A derived class defines
// visit_let(Let*, ...), visit_locals(Locals*, ...) and so on, each returning R.
template <class Derived, class R>
struct ExprVisitor {
  template <class... A>
  R visit(PyObject* e, A&&... a) {
    Derived& self = static_cast<Derived&>(*this);
    PyTypeObject* type = Py_TYPE(e);
    if (type == &Let_Type) return self.visit_let(as<Let>(e), std::forward<A>(a)...);
    if (type == &CppApply_Type) return self.visit_cpp_apply(as<Apply>(e), std::forward<A>(a)...);
    if (type == &PyApply_Type) return self.visit_py_apply(as<Apply>(e), std::forward<A>(a)...);
    if (type == &Locals_Type) return self.visit_locals(as<Locals>(e), std::forward<A>(a)...);
    if (type == &Lambda_Type) return self.visit_lambda(as<Lambda>(e), std::forward<A>(a)...);
    type_error("expected an expression of the IR, but got %.100s", type_name(e));
  }
};

template <class Derived, class R>
struct ArgVisitor {
  template <class... A>
  R visit(PyObject* arg, A&&... a) {
    Derived& self = static_cast<Derived&>(*this);
    if (is_local(arg)) return self.visit_local(as<Local>(arg), std::forward<A>(a)...);
    if (is_const(arg)) return self.visit_const(as<Const>(arg), std::forward<A>(a)...);
    if (PyTuple_Check(arg)) return self.visit_list(arg, std::forward<A>(a)...);
    type_error("expected an argument of the IR, but got %.100s", type_name(arg));
  }
};

// ---- the rest of the folder ---------------------------------------------------------------------------------------
// Text of a lambda (printer.cpp); torchlite/jit/parser.py reads it back.
std::string to_text(const Lambda* lambda, bool locations);
// Whether two lambdas are equal up to the naming of their locals; captures compare by identity (compare.cpp).
bool equal(const Lambda* a, const Lambda* b);
Py_hash_t hash(const Lambda* lambda);
// Scoping, arity and types; throws RuntimeError with the bad let and its neighbours (checker.cpp).
void check_lambda(const Lambda* lambda);
// Whether a size of a parameter or a result is left open; whether one of an argument is (specialize.cpp).
bool has_open_sizes(const Lambda* lambda);
bool has_open_arguments(const Apply* rhs);
// The lambda for parameters of the given TensorTypes, all other sizes by the operations' rules. Throws their complaints.
PyRef<Lambda> specialize(const Lambda* lambda, PyObject* const* types);

void init_ir(PyObject* module);

}  // namespace torchlite::ir
