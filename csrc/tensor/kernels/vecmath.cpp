// Loops over the scalar cores of scalar_math.h.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/parallel.h"
#include "tensor/kernels/scalar_math.h"
#include "tensor/kernels/vecmath.h"

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 32768;

template <class T, class Fn>
inline void map(const T* x, T* y, int64_t n, Fn fn) {
  parallel_for(n, grain, [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      TL_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) y[i] = fn(x[i]);
    });
  });
}

}  // namespace

template <class T>
void exp(const T* x, T* y, int64_t n) {
  map(x, y, n, [](T v) TL_LAMBDA { return scalar_exp(v); });
}

template <class T>
void log(const T* x, T* y, int64_t n) {
  map(x, y, n, [](T v) TL_LAMBDA { return scalar_log(v); });
}

template <class T>
void tanh(const T* x, T* y, int64_t n) {
  map(x, y, n, [](T v) TL_LAMBDA { return scalar_tanh(v); });
}

template <class T>
void sigmoid(const T* x, T* y, int64_t n) {
  map(x, y, n, [](T v) TL_LAMBDA { return scalar_sigmoid(v); });
}

#define TL_INSTANTIATE(T)                       \
  template void exp<T>(const T*, T*, int64_t);  \
  template void log<T>(const T*, T*, int64_t);  \
  template void tanh<T>(const T*, T*, int64_t); \
  template void sigmoid<T>(const T*, T*, int64_t);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
