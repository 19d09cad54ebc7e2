// Equality and hashing of lambdas up to the identity of their locals: both are walked side by side, each local being
// the number of its binding.
#include <cmath>
#include <unordered_map>

#include "ir/ir.h"

namespace torchlite::ir {

namespace {

using Numbers = std::unordered_map<const Local*, size_t>;

void bind(Numbers& numbers, PyObject* locals) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); ++i)
    numbers.emplace(as<Local>(PyTuple_GET_ITEM(locals, i)), numbers.size());
}

size_t number(const Numbers& numbers, const Local* l) {
  auto it = numbers.find(l);
  return it == numbers.end() ? SIZE_MAX : it->second;
}

// Constants are equal if they have one type and one value: 1, 1.0 and True are three constants.
bool equal_constants(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_Check(a)) {
    double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return (x == y && std::signbit(x) == std::signbit(y)) || (x != x && y != y);
  }
  if (PyTuple_Check(a) || PyList_Check(a)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(a);
    if (n != PySequence_Fast_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!equal_constants(PySequence_Fast_GET_ITEM(a, i), PySequence_Fast_GET_ITEM(b, i))) return false;
    return true;
  }
  return check(PyObject_RichCompareBool(a, b, Py_EQ)) == 1;
}

class Comparison {
 public:
  bool equal(const Lambda* a, const Lambda* b) {
    if (!same_locals(a->params.get(), b->params.get())) return false;
    PyObject *ca = a->captures.get(), *cb = b->captures.get();
    if (PyTuple_GET_SIZE(ca) != PyTuple_GET_SIZE(cb)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(ca); ++i)
      if (PyTuple_GET_ITEM(ca, i) != PyTuple_GET_ITEM(cb, i)) return false;
    PyObject *la = a->lets.get(), *lb = b->lets.get();
    if (PyTuple_GET_SIZE(la) != PyTuple_GET_SIZE(lb)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(la); ++i) {
      Let *x = as<Let>(PyTuple_GET_ITEM(la, i)), *y = as<Let>(PyTuple_GET_ITEM(lb, i));
      if (x->rhs->op != y->rhs->op || x->rhs->function.get() != y->rhs->function.get()) return false;
      if (!same_args(x->rhs->args.get(), y->rhs->args.get())) return false;
      if (!same_locals(x->results.get(), y->results.get())) return false;
    }
    return same_args(a->ret->args.get(), b->ret->args.get());
  }

 private:
  // Binds two lists of locals, if they have the same types.
  bool same_locals(PyObject* a, PyObject* b) {
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    if (n != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!same_type(as<Local>(PyTuple_GET_ITEM(a, i))->type.get(), as<Local>(PyTuple_GET_ITEM(b, i))->type.get()))
        return false;
    bind(a_, a);
    bind(b_, b);
    return true;
  }
  bool same_args(PyObject* a, PyObject* b) {
    Py_ssize_t n = PyTuple_GET_SIZE(a);
    if (n != PyTuple_GET_SIZE(b)) return false;
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!same_arg(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i))) return false;
    return true;
  }
  bool same_arg(PyObject* a, PyObject* b) {
    if (Py_TYPE(a) != Py_TYPE(b)) return false;
    if (is_local(a)) return number(a_, as<Local>(a)) == number(b_, as<Local>(b));
    if (is_const(a)) return equal_constants(as<Const>(a)->value.get(), as<Const>(b)->value.get());
    return same_args(a, b);
  }

  Numbers a_, b_;
};

}  // namespace

bool equal(const Lambda* a, const Lambda* b) { return a == b || Comparison().equal(a, b); }

// Over types, operations and wiring; constants, which may not be hashable, are left out.
Py_hash_t hash(const Lambda* lambda) {
  Numbers numbers;
  uint64_t h = 14695981039346656037u;
  auto mix = [&](uint64_t v) { h = (h ^ v) * 1099511628211u; };
  auto mix_types = [&](PyObject* locals) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(locals); ++i)
      mix(static_cast<uint64_t>(PyObject_Hash(as<Local>(PyTuple_GET_ITEM(locals, i))->type.object())));
    bind(numbers, locals);
  };
  mix_types(lambda->params.get());
  PyObject* lets = lambda->lets.get();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(lets); ++i) {
    Let* let = as<Let>(PyTuple_GET_ITEM(lets, i));
    mix(let->rhs->op ? let->rhs->op->index : reinterpret_cast<uintptr_t>(let->rhs->function.get()) >> 4);
    for_each_local(let->rhs->args.get(), [&](Local* l) { mix(number(numbers, l)); });
    mix_types(let->results.get());
  }
  for_each_local(lambda->ret->args.get(), [&](Local* l) { mix(number(numbers, l)); });
  return static_cast<Py_hash_t>(h >> 1);
}

}  // namespace torchlite::ir
