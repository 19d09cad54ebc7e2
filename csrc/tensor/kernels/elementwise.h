// Arithmetic over contiguous arrays, forward and fused backward forms.
//
// T is float or double; sizes are >= 0. An output is one of the inputs exactly or disjoint from it, unless said
// otherwise. IEEE semantics: division by zero gives infinities, maximum and minimum return NaN if either operand is
// NaN. Large arrays use several threads. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

enum class BinaryKind { Add, Sub, Mul, Div, Maximum, Minimum };
inline constexpr int binary_kinds = 6;

// The forms of one binary kernel, y = a op b.
template <class T>
struct BinaryKernel {
  void (*same)(const T* a, const T* b, T* y, int64_t n);
  void (*left_scalar)(T a, const T* b, T* y, int64_t n);
  void (*right_scalar)(const T* a, T b, T* y, int64_t n);
  // a: [rows, cols], b: [cols]; y may be a but must be disjoint from b.
  void (*right_row)(const T* a, const T* b, T* y, int64_t rows, int64_t cols);
  // a: [cols], b: [rows, cols]; y may be b but must be disjoint from a.
  void (*left_row)(const T* a, const T* b, T* y, int64_t rows, int64_t cols);
};
template <class T>
const BinaryKernel<T>& binary_kernel(BinaryKind kind);

// Exp, Log, Tanh and Sigmoid are those of vecmath.h; Sign of NaN is NaN; Relu of NaN is NaN.
enum class UnaryKind { Neg, Abs, Sign, Sqrt, Rsqrt, Square, Reciprocal, Relu, Exp, Log, Tanh, Sigmoid };
inline constexpr int unary_kinds = 12;

template <class T>
using UnaryKernel = void (*)(const T* x, T* y, int64_t n);
template <class T>
UnaryKernel<T> unary_kernel(UnaryKind kind);

// y += alpha x
template <class T>
void axpy(T alpha, const T* x, T* y, int64_t n);
// y *= alpha
template <class T>
void scale(T alpha, T* y, int64_t n);
template <class T>
void fill(T value, T* y, int64_t n);

// Gradients with respect to the input: g is the output's gradient, y the output, x the input; dx may be any of them.
template <class T>
void tanh_backward(const T* g, const T* y, T* dx, int64_t n);  // g (1 - y^2)
template <class T>
void sigmoid_backward(const T* g, const T* y, T* dx, int64_t n);  // g y (1 - y)
template <class T>
void relu_backward(const T* g, const T* x, T* dx, int64_t n);  // g where x > 0, else 0; x may be the output as well

// x where x > 0, else slope x
template <class T>
void leaky_relu(const T* x, T slope, T* y, int64_t n);
template <class T>
void leaky_relu_backward(const T* g, const T* x, T slope, T* dx, int64_t n);
// x where x > 0, else alpha (e^x - 1)
template <class T>
void elu(const T* x, T alpha, T* y, int64_t n);
template <class T>
void elu_backward(const T* g, const T* x, T alpha, T* dx, int64_t n);
// log(1 + e^(beta x)) / beta; x itself where beta x > threshold
template <class T>
void softplus(const T* x, T beta, T threshold, T* y, int64_t n);
template <class T>
void softplus_backward(const T* g, const T* x, T beta, T threshold, T* dx, int64_t n);

}  // namespace torchlite::kernels
