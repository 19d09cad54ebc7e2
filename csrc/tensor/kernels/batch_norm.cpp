#include "tensor/kernels/simd.h"

#include "tensor/kernels/batch_norm.h"
#include "tensor/kernels/parallel.h"

#include <algorithm>

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 32768;
constexpr int64_t lanes = 32;

int64_t channel_grain(const Channels& s) { return std::max<int64_t>(1, grain / std::max<int64_t>(1, s.count())); }

// out[c] = sum over channel c of term(index, c).
template <class Term>
inline void sum_channels(const Channels& s, const Term& term, double* out) {
  parallel_for(s.channels, channel_grain(s), [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      if (s.length == 1) {  // channels lie side by side
        for (int64_t c = begin; c < end; ++c) out[c] = 0;
        for (int64_t n = 0; n < s.images; ++n) {
          TL_INDEPENDENT
          for (int64_t c = begin; c < end; ++c) out[c] += term(n * s.channels + c, c);
        }
        return;
      }
      for (int64_t c = begin; c < end; ++c) {
        double acc[lanes] = {};
        for (int64_t n = 0; n < s.images; ++n) {
          int64_t base = (n * s.channels + c) * s.length, i = 0;
          for (; i + lanes <= s.length; i += lanes)
            for (int64_t l = 0; l < lanes; ++l) acc[l] += term(base + i + l, c);
          for (int64_t l = 0; i < s.length; ++i, ++l) acc[l] += term(base + i, c);
        }
        for (int64_t width = lanes / 2; width > 0; width /= 2)
          for (int64_t l = 0; l < width; ++l) acc[l] += acc[l + width];
        out[c] = acc[0];
      }
    });
  });
}

// Calls row(first index, length, channel or -1 where the elements belong to channels 0, 1, ...).
template <class Row>
inline void for_each_row(const Channels& s, const Row& row) {
  bool flat = s.length == 1;
  int64_t rows = flat ? s.images : s.images * s.channels, length = flat ? s.channels : s.length;
  parallel_for(rows, std::max<int64_t>(1, grain / std::max<int64_t>(1, length)), [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      for (int64_t r = begin; r < end; ++r) row(r * length, length, flat ? -1 : r % s.channels);
    });
  });
}

}  // namespace

template <class T>
void channel_moments(const Channels& s, const T* x, double* mean, double* var) {
  double count = static_cast<double>(s.count());
  sum_channels(
      s, [=](int64_t i, int64_t) TL_LAMBDA { return static_cast<double>(x[i]); }, mean);
  for (int64_t c = 0; c < s.channels; ++c) mean[c] /= count;
  sum_channels(
      s,
      [=](int64_t i, int64_t c) TL_LAMBDA {
        double d = static_cast<double>(x[i]) - mean[c];
        return d * d;
      },
      var);
  for (int64_t c = 0; c < s.channels; ++c) var[c] /= count;
}

template <class T>
void channel_affine(const Channels& s, const T* x, const T* mean, const T* factor, const T* shift, T* y) {
  for_each_row(s, [=](int64_t at, int64_t n, int64_t c) TL_LAMBDA {
    if (c < 0) {
      TL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i) y[at + i] = (x[at + i] - mean[i]) * factor[i] + shift[i];
      return;
    }
    T m = mean[c], f = factor[c], b = shift[c];
    TL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) y[at + i] = (x[at + i] - m) * f + b;
  });
}

template <class T>
void channel_gradient_sums(const Channels& s, const T* g, const T* x, const T* mean, double* sum, double* product) {
  sum_channels(
      s, [=](int64_t i, int64_t) TL_LAMBDA { return static_cast<double>(g[i]); }, sum);
  sum_channels(
      s,
      [=](int64_t i, int64_t c)
          TL_LAMBDA { return static_cast<double>(g[i]) * (static_cast<double>(x[i]) - static_cast<double>(mean[c])); },
      product);
}

template <class T>
void channel_gradient(const Channels& s, const T* g, const T* x, const T* mean, const T* factor, const T* offset,
                      const T* slope, T* dx) {
  for_each_row(s, [=](int64_t at, int64_t n, int64_t c) TL_LAMBDA {
    if (c < 0) {
      TL_INDEPENDENT
      for (int64_t i = 0; i < n; ++i)
        dx[at + i] = (g[at + i] - offset[i] - (x[at + i] - mean[i]) * slope[i]) * factor[i];
      return;
    }
    T m = mean[c], f = factor[c], o = offset[c], k = slope[c];
    TL_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) dx[at + i] = (g[at + i] - o - (x[at + i] - m) * k) * f;
  });
}

#define TL_INSTANTIATE(T)                                                                                  \
  template void channel_moments<T>(const Channels&, const T*, double*, double*);                           \
  template void channel_affine<T>(const Channels&, const T*, const T*, const T*, const T*, T*);            \
  template void channel_gradient_sums<T>(const Channels&, const T*, const T*, const T*, double*, double*); \
  template void channel_gradient<T>(const Channels&, const T*, const T*, const T*, const T*, const T*, const T*, T*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
