// Value: what gradients are written with: a Variable, a Tensor or a constant, with operators and `call<"name">`.
//
//   b.set(0, b.grad() * b.value(1));
//   b.set(1, call<"sum">(b.grad(), 0, false));
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"
#include "utils/errors.h"

namespace torchlite {

struct Op;

class Value {
 public:
  Value() = default;
  Value(PyRef<>&& o) : o_(std::move(o)) {}
  template <class T>
  Value(PyRef<T>&& o) : o_(PyRef<>::steal(o.release_object())) {}
  Value(const Value& o) : o_(o.o_.copy()) {}
  Value(Value&&) noexcept = default;
  Value& operator=(Value&&) noexcept = default;
  Value& operator=(const Value& o) { return *this = Value(o); }
  // Constants.
  Value(double v) : o_(check(PyFloat_FromDouble(v))) {}
  Value(int64_t v) : o_(check(PyLong_FromLongLong(v))) {}
  Value(int v) : Value(static_cast<int64_t>(v)) {}
  Value(bool v) : o_(PyRef<>::borrow(v ? Py_True : Py_False)) {}
  Value(std::nullptr_t) : o_(none_ref()) {}
  Value(const char* s) : o_(check(PyUnicode_FromString(s))) {}
  Value(const std::vector<int64_t>& dims) : o_(int_tuple(dims)) {}
  Value(const std::vector<Value>& list);  // a tuple, for Tensor[]

  PyObject* object() const { return o_.get(); }
  explicit operator bool() const { return static_cast<bool>(o_); }
  bool is_none() const { return o_.get() == Py_None; }
  bool is_constant() const;  // neither Tensor nor Variable
  Tensor* tensor() const;    // of a Tensor or Variable
  Dims sizes() const { return tensor()->sizes(); }
  DType dtype() const { return tensor()->dtype; }
  PyRef<> release() { return std::move(o_); }
  PyRef<> ref() const { return o_.copy(); }
  template <class T>
  PyRef<T> take() {
    return std::move(o_).template cast<T>();
  }
  // Item i of several results.
  Value operator[](int i) const;

 private:
  PyRef<> o_;
};

Value call_values(const Op& op, const Value* args, int n);
const Op& find_op(std::string_view name);

template <size_t N>
struct OpName {
  char text[N];
  constexpr OpName(const char (&s)[N]) { std::copy_n(s, N, text); }
};

// Calls an operation by name with its leading arguments; the rest take their defaults.
template <OpName Name, class... Args>
Value call(Args&&... args) {
  static const Op& op = find_op(Name.text);
  const Value values[] = {Value(std::forward<Args>(args))...};
  return call_values(op, values, static_cast<int>(sizeof...(Args)));
}

inline Value operator+(const Value& a, const Value& b) { return call<"add">(a, b); }
inline Value operator-(const Value& a, const Value& b) { return call<"sub">(a, b); }
inline Value operator*(const Value& a, const Value& b) { return call<"mul">(a, b); }
inline Value operator/(const Value& a, const Value& b) { return call<"div">(a, b); }
inline Value operator-(const Value& a) { return call<"neg">(a); }

}  // namespace torchlite
