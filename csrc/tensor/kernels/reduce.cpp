// Sums. Long arrays are cut into at most `pieces` pieces whose partial sums are added in order.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/parallel.h"
#include "tensor/kernels/reduce.h"

#include <algorithm>

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 65536;
constexpr int64_t pieces = 64;
constexpr int64_t lanes = 32;
constexpr int64_t block_rows = 64;
constexpr int64_t block_cols = 256;

// Sum of term(i) over [begin, end) in `lanes` independent double accumulators.
template <class Term>
TL_INLINE double lane_sum(int64_t begin, int64_t end, const Term& term) {
  double acc[lanes] = {};
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (int64_t l = 0; l < lanes; ++l) acc[l] += term(i + l);
  for (int64_t l = 0; i < end; ++i, ++l) acc[l] += term(i);
  for (int64_t width = lanes / 2; width > 0; width /= 2)
    for (int64_t l = 0; l < width; ++l) acc[l] += acc[l + width];
  return acc[0];
}

template <class Term>
inline double total(int64_t n, const Term& term) {
  if (n <= 0) return 0;
  int64_t length = std::max<int64_t>(4096, (n + pieces - 1) / pieces);
  int64_t count = (n + length - 1) / length;
  double partial[pieces];
  double* partials = partial;
  parallel_for(count, std::max<int64_t>(1, grain / length), [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      for (int64_t p = begin; p < end; ++p) partials[p] = lane_sum(p * length, std::min(n, (p + 1) * length), term);
    });
  });
  double sum = 0;
  for (int64_t p = 0; p < count; ++p) sum += partial[p];
  return sum;
}

}  // namespace

template <class T>
double sum(const T* x, int64_t n) {
  return total(n, [=](int64_t i) TL_LAMBDA { return static_cast<double>(x[i]); });
}

template <class T>
double sum_squares(const T* x, int64_t n) {
  return total(n, [=](int64_t i) TL_LAMBDA {
    double v = static_cast<double>(x[i]);
    return v * v;
  });
}

template <class T>
void sum_rows(const T* x, int64_t rows, int64_t cols, bool accumulate, T* y) {
  parallel_for(cols, std::max<int64_t>(64, grain / std::max<int64_t>(1, rows)), [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      // A strip of columns stays in the first-level cache while rows are added to it.
      for (int64_t strip = begin; strip < end; strip += block_cols) {
        int64_t width = std::min(block_cols, end - strip);
        T outer[block_cols] = {};
        for (int64_t top = 0; top < rows; top += block_rows) {
          int64_t bottom = std::min(rows, top + block_rows);
          T inner[block_cols] = {};
          for (int64_t row = top; row < bottom; ++row) {
            const T* from = x + row * cols + strip;
            TL_INDEPENDENT
            for (int64_t j = 0; j < width; ++j) inner[j] += from[j];
          }
          for (int64_t j = 0; j < width; ++j) outer[j] += inner[j];
        }
        T* to = y + strip;
        if (accumulate) {
          TL_INDEPENDENT
          for (int64_t j = 0; j < width; ++j) to[j] += outer[j];
        } else {
          TL_INDEPENDENT
          for (int64_t j = 0; j < width; ++j) to[j] = outer[j];
        }
      }
    });
  });
}

template <class T>
void sum_cols(const T* x, int64_t rows, int64_t cols, T* y) {
  parallel_for(rows, std::max<int64_t>(1, grain / std::max<int64_t>(1, cols)), [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      for (int64_t row = begin; row < end; ++row) {
        const T* from = x + row * cols;
        y[row] = static_cast<T>(lane_sum(0, cols, [=](int64_t i) TL_LAMBDA { return static_cast<double>(from[i]); }));
      }
    });
  });
}

#define TL_INSTANTIATE(T)                                          \
  template double sum<T>(const T*, int64_t);                       \
  template double sum_squares<T>(const T*, int64_t);               \
  template void sum_rows<T>(const T*, int64_t, int64_t, bool, T*); \
  template void sum_cols<T>(const T*, int64_t, int64_t, T*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
