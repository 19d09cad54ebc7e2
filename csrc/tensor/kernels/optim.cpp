// Optimiser steps. See optim.h.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/optim.h"
#include "tensor/kernels/parallel.h"

#include <cmath>

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 65536;

template <class Fn>
inline void loop(int64_t n, const Fn& fn) {
  parallel_for(n, grain, [fn](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      TL_INDEPENDENT
      for (int64_t i = begin; i < end; ++i) fn(i);
    });
  });
}

}  // namespace

template <class T>
void sgd_step(T* param, const T* grad, T* buf, bool first_step, const SgdOptions& options, int64_t n) {
  T lr = static_cast<T>(options.lr), decay = static_cast<T>(options.weight_decay),
    momentum = static_cast<T>(options.momentum);
  if (options.momentum == 0) {
    if (options.weight_decay == 0) return loop(n, [=](int64_t i) TL_LAMBDA { param[i] -= lr * grad[i]; });
    return loop(n, [=](int64_t i) TL_LAMBDA { param[i] -= lr * (grad[i] + decay * param[i]); });
  }
  // Without a previous buffer its content must not matter, NaN included.
  T fresh = first_step ? T(1) : static_cast<T>(1 - options.dampening);
  bool nesterov = options.nesterov;
  loop(n, [=](int64_t i) TL_LAMBDA {
    T d = grad[i] + decay * param[i];
    T kept = first_step ? T(0) : momentum * buf[i];
    T b = kept + fresh * d;
    buf[i] = b;
    param[i] -= lr * (nesterov ? d + momentum * b : b);
  });
}

template <class T>
void adam_step(T* param, const T* grad, T* avg, T* avg_sq, T* max_avg_sq, int64_t step, const AdamOptions& options,
               int64_t n) {
  double t = static_cast<double>(step);
  double corrected = options.lr * std::sqrt(1 - std::pow(options.beta2, t)) / (1 - std::pow(options.beta1, t));
  T rate = static_cast<T>(corrected), eps = static_cast<T>(options.eps), decay = static_cast<T>(options.weight_decay);
  T beta1 = static_cast<T>(options.beta1), rest1 = static_cast<T>(1 - options.beta1);
  T beta2 = static_cast<T>(options.beta2), rest2 = static_cast<T>(1 - options.beta2);
  auto moments = [=](int64_t i, T* first, T* second) TL_LAMBDA {
    T d = grad[i] + decay * param[i];
    *first = avg[i] = beta1 * avg[i] + rest1 * d;
    *second = avg_sq[i] = beta2 * avg_sq[i] + rest2 * (d * d);
  };
  if (max_avg_sq)
    return loop(n, [=](int64_t i) TL_LAMBDA {
      T first, second;
      moments(i, &first, &second);
      T top = max_avg_sq[i] >= second ? max_avg_sq[i] : second;
      max_avg_sq[i] = top;
      param[i] -= rate * first / (std::sqrt(top) + eps);
    });
  loop(n, [=](int64_t i) TL_LAMBDA {
    T first, second;
    moments(i, &first, &second);
    param[i] -= rate * first / (std::sqrt(second) + eps);
  });
}

#define TL_INSTANTIATE(T)                                                        \
  template void sgd_step<T>(T*, const T*, T*, bool, const SgdOptions&, int64_t); \
  template void adam_step<T>(T*, const T*, T*, T*, T*, int64_t, const AdamOptions&, int64_t);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
