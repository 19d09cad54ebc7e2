// Shared by the elementwise rows: the rungs of the kernel ladder.
//
// Rung 1 is a loop over float or double memory: all tensors of one type and contiguous, of one size, or one of them a
// number, a single element or a trailing row. Rung 2 is the NumPy ufunc of the same meaning, which also settles the
// types of mixed operands. Results of both are contiguous.
#pragma once

#include <initializer_list>

#include "autograd/ops/backcompat.h"
#include "autograd/ops/op.h"
#include "tensor/kernels/elementwise.h"
#include "utils/numpy_api.h"
#include "utils/gil.h"

namespace torchlite {

// A function of the numpy module, looked up on first use.
class NumpyFunction {
 public:
  constexpr explicit NumpyFunction(const char* name) : name_(name) {}
  const char* name() const { return name_; }
  PyObject* get() { return function_ ? function_ : function_ = numpy_attribute(name_); }

 private:
  static PyObject* numpy_attribute(const char* name);
  const char* name_;
  PyObject* function_ = nullptr;
};

// ---- rung 2 -------------------------------------------------------------------------------------------------------
// A ufunc on Tensors and constants. The result is a new contiguous tensor, or `out`, if that is of a floating type.
PyRef<Tensor> apply_ufunc(NumpyFunction& f, std::initializer_list<PyObject*> operands, Tensor* out = nullptr);
// A ufunc of two operands that broadcast or are paired (Note [Pairing]). RuntimeError where neither holds; in place the
// result must have the size of `out`.
PyRef<Tensor> apply_binary(const char* name, NumpyFunction& f, PyObject* a, PyObject* b, Tensor* out = nullptr);
// Any callable of NumPy on positional arguments and a keyword dict (may be nullptr); a new reference.
PyRef<> call_numpy(PyObject* f, std::initializer_list<PyObject*> arguments, PyObject* keywords = nullptr);

// ---- rungs 1 and 2 ------------------------------------------------------------------------------------------------
// `a op b`, each a Tensor or a number; `name` is for messages.
PyRef<Tensor> binary(const char* name, kernels::BinaryKind kind, NumpyFunction& f, PyObject* a, PyObject* b,
                     Tensor* out);
PyRef<Tensor> unary(kernels::UnaryKind kind, NumpyFunction& f, Tensor* x, Tensor* out);

// ---- helpers ------------------------------------------------------------------------------------------------------
inline bool on_host(const Tensor* t) { return t->device() == kCPU; }
inline bool is_loop_type(DType t) { return t == DType::Float || t == DType::Double; }
// Whether the bytes of the tensors overlap without being the same elements in the same order (`a` is contiguous).
bool overlaps_partially(const Tensor* a, const Tensor* b);
// The value of an exact Python int or float that a double can hold.
bool exact_number(PyObject* o, double* value);
// Whether a constant is the number 1.
bool is_one(PyObject* o);
// Refuses an integer division by zero before it happens.
void refuse_integer_zero(const char* name, PyObject* divisor);
// Throws unless the operands' broadcast size exists and, in place, is that of `out`.
void require_broadcast(const char* name, PyObject* a, PyObject* b, const Tensor* out);
// The tensor in a type and layout that loops take: contiguous float or double (half as float, integers as double).
PyRef<Tensor> loop_operand(Tensor* t);
// The same, expanded to `sizes`.
PyRef<Tensor> loop_operand(Tensor* t, DType dtype, Dims sizes);
// Calls f(pointer) with the element pointer of a float or double tensor.
template <class F>
inline void with_elements(Tensor* t, F&& f) {
  if (t->dtype == DType::Float) {
    f(t->ptr<float>());
  } else {
    f(t->ptr<double>());
  }
}
// A zero gradient for a tensor argument like `g`.
Value zeros_like(const Value& g);
// A tensor as an operand beside `x`: a Variable if `x` is one.
Value constant_beside(const Value& x, PyRef<Tensor> t);
// condition ? a : b for Values.
inline Value select(const Value& condition, const Value& a, const Value& b) { return call<"where">(condition, a, b); }

// The parts of the pointwise family, one a file.
std::span<const Row> arithmetic_rows();
std::span<const Row> math_rows();
std::span<const Row> activation_rows();
std::span<const Row> compare_rows();
std::span<const Row> copy_rows();

}  // namespace torchlite
