// One functor per operation; the loops are written once.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/parallel.h"
#include "tensor/kernels/scalar_math.h"
#include "tensor/kernels/vecmath.h"

#include <algorithm>

namespace torchlite::kernels {

namespace {

// Below these the wake-up of a thread costs more than it gives: memory-bound loops, and loops with a transcendental
// function.
constexpr int64_t grain_light = 65536;
constexpr int64_t grain_heavy = 32768;

// Calls fn(i) for i in [0, n), vectorised.
template <class Fn>
inline void loop(int64_t n, int64_t grain, const Fn& fn) {
  if (n <= 8) {  // saves the two calls below, which would take longer than the loop
    TL_NOT_UNROLLED
    for (int64_t i = 0; i < n; ++i) fn(i);
    return;
  }
  parallel_for(n, grain, [fn](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      TL_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) fn(i);
    });
  });
}

// Calls fn(i, j) with i = row * cols + j, vectorised along the row.
template <class Fn>
inline void loop_rows(int64_t rows, int64_t cols, const Fn& fn) {
  if (cols <= 0) return;
  parallel_for(rows, std::max<int64_t>(1, grain_light / cols), [fn, cols](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      for (int64_t row = begin; row < end; ++row) {
        int64_t start = row * cols;
        TL_INDEPENDENT
        for (int64_t j = 0; j < cols; ++j) fn(start + j, j);
      }
    });
  });
}

struct Add {
  template <class T>
  static TL_INLINE T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <class T>
  static TL_INLINE T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <class T>
  static TL_INLINE T apply(T a, T b) {
    return a * b;
  }
};
struct Div {
  template <class T>
  static TL_INLINE T apply(T a, T b) {
    return a / b;
  }
};
struct Maximum {
  template <class T>
  static TL_INLINE T apply(T a, T b) {
    return (a >= b) | (a != a) ? a : b;
  }
};
struct Minimum {
  template <class T>
  static TL_INLINE T apply(T a, T b) {
    return (a <= b) | (a != a) ? a : b;
  }
};

template <class Op, class T>
void same(const T* a, const T* b, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { y[i] = Op::apply(a[i], b[i]); });
}
template <class Op, class T>
void left_scalar(T a, const T* b, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { y[i] = Op::apply(a, b[i]); });
}
template <class Op, class T>
void right_scalar(const T* a, T b, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { y[i] = Op::apply(a[i], b); });
}
template <class Op, class T>
void right_row(const T* a, const T* b, T* y, int64_t rows, int64_t cols) {
  loop_rows(rows, cols, [=](int64_t i, int64_t j) TL_LAMBDA { y[i] = Op::apply(a[i], b[j]); });
}
template <class Op, class T>
void left_row(const T* a, const T* b, T* y, int64_t rows, int64_t cols) {
  loop_rows(rows, cols, [=](int64_t i, int64_t j) TL_LAMBDA { y[i] = Op::apply(a[j], b[i]); });
}

template <class Op, class T>
constexpr BinaryKernel<T> forms() {
  return {same<Op, T>, left_scalar<Op, T>, right_scalar<Op, T>, right_row<Op, T>, left_row<Op, T>};
}

struct Neg {
  template <class T>
  static TL_INLINE T apply(T x) {
    return -x;
  }
};
struct Abs {
  template <class T>
  static TL_INLINE T apply(T x) {
    return std::fabs(x);
  }
};
struct Sign {
  template <class T>
  static TL_INLINE T apply(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x == T(0) ? T(0) : x;
  }
};
struct Sqrt {
  template <class T>
  static TL_INLINE T apply(T x) {
    return std::sqrt(x);
  }
};
struct Rsqrt {
  template <class T>
  static TL_INLINE T apply(T x) {
    return T(1) / std::sqrt(x);
  }
};
struct Square {
  template <class T>
  static TL_INLINE T apply(T x) {
    return x * x;
  }
};
struct Reciprocal {
  template <class T>
  static TL_INLINE T apply(T x) {
    return T(1) / x;
  }
};
struct Relu {
  template <class T>
  static TL_INLINE T apply(T x) {
    return x <= T(0) ? T(0) : x;
  }
};

template <class Op, class T>
void unary(const T* x, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { y[i] = Op::apply(x[i]); });
}

// e^x - 1 for x <= 0 without cancellation, as in scalar_tanh.
template <class T>
TL_INLINE T scalar_expm1_negative(T x) {
  T t = scalar_tanh(T(0.5) * x);
  return T(2) * t / (T(1) - t);
}

// log(1 + u) for u >= 0: log(v) with v = 1 + u, corrected for the rounding of v.
template <class T>
TL_INLINE T scalar_log1p_positive(T u) {
  T v = T(1) + u;
  return v == T(1) ? u : scalar_log(v) + (u - (v - T(1))) / v;
}

}  // namespace

template <class T>
const BinaryKernel<T>& binary_kernel(BinaryKind kind) {
  static constexpr BinaryKernel<T> table[binary_kinds] = {forms<Add, T>(), forms<Sub, T>(),     forms<Mul, T>(),
                                                          forms<Div, T>(), forms<Maximum, T>(), forms<Minimum, T>()};
  return table[static_cast<int>(kind)];
}

template <class T>
UnaryKernel<T> unary_kernel(UnaryKind kind) {
  static constexpr UnaryKernel<T> table[unary_kinds] = {
      unary<Neg, T>,        unary<Abs, T>,  unary<Sign, T>, unary<Sqrt, T>, unary<Rsqrt, T>, unary<Square, T>,
      unary<Reciprocal, T>, unary<Relu, T>, exp<T>,         log<T>,         tanh<T>,         sigmoid<T>};
  return table[static_cast<int>(kind)];
}

template <class T>
void axpy(T alpha, const T* x, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { y[i] += alpha * x[i]; });
}
template <class T>
void scale(T alpha, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { y[i] *= alpha; });
}
template <class T>
void fill(T value, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { y[i] = value; });
}

template <class T>
void tanh_backward(const T* g, const T* y, T* dx, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { dx[i] = g[i] * (T(1) - y[i] * y[i]); });
}
template <class T>
void sigmoid_backward(const T* g, const T* y, T* dx, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { dx[i] = g[i] * (y[i] * (T(1) - y[i])); });
}
template <class T>
void relu_backward(const T* g, const T* x, T* dx, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA { dx[i] = x[i] > T(0) ? g[i] : T(0); });
}

template <class T>
void leaky_relu(const T* x, T slope, T* y, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA {
    T v = x[i];
    y[i] = v > T(0) ? v : slope * v;
  });
}
template <class T>
void leaky_relu_backward(const T* g, const T* x, T slope, T* dx, int64_t n) {
  loop(n, grain_light, [=](int64_t i) TL_LAMBDA {
    T v = g[i];
    dx[i] = x[i] > T(0) ? v : slope * v;
  });
}

template <class T>
void elu(const T* x, T alpha, T* y, int64_t n) {
  loop(n, grain_heavy, [=](int64_t i) TL_LAMBDA {
    T v = x[i];
    T negative = alpha * scalar_expm1_negative(v > T(0) ? T(0) : v);
    y[i] = v > T(0) ? v : negative;
  });
}
template <class T>
void elu_backward(const T* g, const T* x, T alpha, T* dx, int64_t n) {
  loop(n, grain_heavy, [=](int64_t i) TL_LAMBDA {
    T v = x[i];
    T slope = alpha * scalar_exp(v);
    dx[i] = g[i] * (v > T(0) ? T(1) : slope);
  });
}

template <class T>
void softplus(const T* x, T beta, T threshold, T* y, int64_t n) {
  loop(n, grain_heavy, [=](int64_t i) TL_LAMBDA {
    T v = x[i];
    T z = beta * v;
    // max(z, 0) + log(1 + e^-|z|): never overflows, whatever the threshold.
    T smooth = ((z > T(0) ? z : T(0)) + scalar_log1p_positive(scalar_exp(-std::fabs(z)))) / beta;
    y[i] = z > threshold ? v : smooth;
  });
}
template <class T>
void softplus_backward(const T* g, const T* x, T beta, T threshold, T* dx, int64_t n) {
  loop(n, grain_heavy, [=](int64_t i) TL_LAMBDA {
    T z = beta * x[i];
    T slope = scalar_sigmoid(z);
    dx[i] = g[i] * (z > threshold ? T(1) : slope);
  });
}

#define TL_INSTANTIATE(T)                                                   \
  template const BinaryKernel<T>& binary_kernel<T>(BinaryKind);             \
  template UnaryKernel<T> unary_kernel<T>(UnaryKind);                       \
  template void axpy<T>(T, const T*, T*, int64_t);                          \
  template void scale<T>(T, T*, int64_t);                                   \
  template void fill<T>(T, T*, int64_t);                                    \
  template void tanh_backward<T>(const T*, const T*, T*, int64_t);          \
  template void sigmoid_backward<T>(const T*, const T*, T*, int64_t);       \
  template void relu_backward<T>(const T*, const T*, T*, int64_t);          \
  template void leaky_relu<T>(const T*, T, T*, int64_t);                    \
  template void leaky_relu_backward<T>(const T*, const T*, T, T*, int64_t); \
  template void elu<T>(const T*, T, T*, int64_t);                           \
  template void elu_backward<T>(const T*, const T*, T, T*, int64_t);        \
  template void softplus<T>(const T*, T, T, T*, int64_t);                   \
  template void softplus_backward<T>(const T*, const T*, T, T, T*, int64_t);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
