// A row is worked on in blocks, with one running maximum or sum for each place in the block. The order of additions
// depends on the number of columns alone (Note [Same bits everywhere] in simd.h).
#include "tensor/kernels/simd.h"

#include "tensor/kernels/parallel.h"
#include "tensor/kernels/scalar_math.h"
#include "tensor/kernels/softmax.h"

#include <algorithm>
#include <limits>

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 32768;
constexpr int64_t block = 512;

TL_INLINE int64_t row_grain(int64_t cols) { return std::max<int64_t>(1, grain / std::max<int64_t>(1, cols)); }

// The least power of two that holds n, at most `block`.
TL_INLINE int64_t block_width(int64_t n) {
  int64_t width = 1;
  while (width < n && width < block) width *= 2;
  return width;
}

// Ignores NaN: the sums that follow carry it.
template <class T>
TL_INLINE T row_max(const T* x, int64_t n) {
  T best[block];
  int64_t width = block_width(n);
  for (int64_t i = 0; i < width; ++i) best[i] = -std::numeric_limits<T>::infinity();
  for (int64_t start = 0; start < n; start += width) {
    int64_t m = std::min(width, n - start);
    for (int64_t i = 0; i < m; ++i) best[i] = x[start + i] > best[i] ? x[start + i] : best[i];
  }
  for (width /= 2; width > 0; width /= 2) {
    TL_INDEPENDENT
    for (int64_t i = 0; i < width; ++i) best[i] = best[i + width] > best[i] ? best[i + width] : best[i];
  }
  return best[0];
}

// Sum over [0, n) of term(i), which may have effects: term i is added to lane i mod width, lanes are added up in a
// tree, and trees in double once every `blocks_per_tree` blocks, so that rounding errors grow with the logarithm of n.
template <class T, class Term>
TL_INLINE double row_sum(int64_t n, const Term& term) {
  constexpr int64_t blocks_per_tree = 32;
  T lane[block];
  double sum = 0;
  int64_t width = block_width(n);
  for (int64_t first = 0; first < n; first += width * blocks_per_tree) {
    int64_t last = std::min(n, first + width * blocks_per_tree);
    for (int64_t i = 0; i < width; ++i) lane[i] = T(0);
    for (int64_t start = first; start < last; start += width) {
      int64_t m = std::min(width, last - start);
      TL_INDEPENDENT
      for (int64_t i = 0; i < m; ++i) lane[i] += term(start + i);
    }
    int64_t half = width / 2;
    for (; half >= 8; half /= 2) {
      TL_INDEPENDENT
      for (int64_t i = 0; i < half; ++i) lane[i] += lane[i + half];
    }
    for (int64_t i = 0; i < 2 * half || i < 1; ++i) sum += static_cast<double>(lane[i]);
  }
  return sum;
}

template <class T>
TL_INLINE T row_logsumexp(const T* x, int64_t n) {
  T top = row_max(x, n);
  T shift = std::fabs(top) == std::numeric_limits<T>::infinity() ? T(0) : top;
  double sum = row_sum<T>(n, [=](int64_t i) TL_LAMBDA {
    T v = x[i] - shift;
    // Only a row of infinities has v > 0, where the exponential below would not be defined.
    return v > T(0) ? v : scalar_exp_negative(v > T(0) ? T(0) : v);
  });
  return static_cast<T>(static_cast<double>(shift) + static_cast<double>(scalar_log(sum)));
}

template <class Fn>
inline void for_rows(int64_t rows, int64_t cols, const Fn& fn) {
  parallel_for(rows, row_grain(cols), [&](int64_t begin, int64_t end) {
    multiversion([&]() TL_LAMBDA {
      for (int64_t row = begin; row < end; ++row) fn(row);
    });
  });
}

template <class T>
int64_t first_bad_target(const int64_t* target, int64_t ignore_index, int64_t rows, int64_t cols) {
  for (int64_t row = 0; row < rows; ++row)
    if (target[row] != ignore_index && (target[row] < 0 || target[row] >= cols)) return row;
  return cross_entropy_ok;
}

template <class T>
double sum_weights(const int64_t* target, const T* weight, int64_t ignore_index, int64_t rows) {
  double total = 0;
  for (int64_t row = 0; row < rows; ++row)
    if (target[row] != ignore_index) total += weight ? static_cast<double>(weight[target[row]]) : 1.0;
  return total;
}

}  // namespace

template <class T>
void softmax(const T* x, T* y, int64_t rows, int64_t cols) {
  for_rows(rows, cols, [=](int64_t row) TL_LAMBDA {
    const T* in = x + row * cols;
    T* out = y + row * cols;
    T top = row_max(in, cols);
    T denominator =
        static_cast<T>(row_sum<T>(cols, [=](int64_t i) TL_LAMBDA { return out[i] = scalar_exp(in[i] - top); }));
    TL_INDEPENDENT
    for (int64_t i = 0; i < cols; ++i) out[i] = out[i] / denominator;
  });
}

template <class T>
void softmax_backward(const T* g, const T* y, T* dx, int64_t rows, int64_t cols) {
  for_rows(rows, cols, [=](int64_t row) TL_LAMBDA {
    const T* gr = g + row * cols;
    const T* yr = y + row * cols;
    T* out = dx + row * cols;
    T dot = static_cast<T>(row_sum<T>(cols, [=](int64_t i) TL_LAMBDA { return gr[i] * yr[i]; }));
    TL_INDEPENDENT
    for (int64_t i = 0; i < cols; ++i) out[i] = yr[i] * (gr[i] - dot);
  });
}

template <class T>
void log_softmax(const T* x, T* y, int64_t rows, int64_t cols) {
  for_rows(rows, cols, [=](int64_t row) TL_LAMBDA {
    const T* in = x + row * cols;
    T* out = y + row * cols;
    T top = row_max(in, cols);
    // Subtracts the maximum first: logsumexp itself may be large beside the differences that matter.
    double sum = row_sum<T>(cols, [=](int64_t i) TL_LAMBDA { return scalar_exp_negative(in[i] - top); });
    T log_sum = static_cast<T>(scalar_log(sum));
    TL_INDEPENDENT
    for (int64_t i = 0; i < cols; ++i) out[i] = (in[i] - top) - log_sum;
  });
}

template <class T>
void log_softmax_backward(const T* g, const T* y, T* dx, int64_t rows, int64_t cols) {
  for_rows(rows, cols, [=](int64_t row) TL_LAMBDA {
    const T* gr = g + row * cols;
    const T* yr = y + row * cols;
    T* out = dx + row * cols;
    T sum = static_cast<T>(row_sum<T>(cols, [=](int64_t i) TL_LAMBDA { return gr[i]; }));
    TL_INDEPENDENT
    for (int64_t i = 0; i < cols; ++i) out[i] = gr[i] - scalar_exp(yr[i]) * sum;
  });
}

template <class T>
void logsumexp(const T* x, T* out, int64_t rows, int64_t cols) {
  for_rows(rows, cols, [=](int64_t row) TL_LAMBDA { out[row] = row_logsumexp(x + row * cols, cols); });
}

template <class T>
int64_t cross_entropy(const T* x, const int64_t* target, const T* weight, int64_t ignore_index, bool size_average,
                      int64_t rows, int64_t cols, T* loss, T* lse, double* total_weight) {
  int64_t bad = first_bad_target<T>(target, ignore_index, rows, cols);
  if (bad != cross_entropy_ok) return bad;
  logsumexp(x, lse, rows, cols);
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t t = target[row];
    if (t == ignore_index) continue;
    double row_loss = static_cast<double>(lse[row]) - static_cast<double>(x[row * cols + t]);
    sum += weight ? static_cast<double>(weight[t]) * row_loss : row_loss;
  }
  *total_weight = sum_weights(target, weight, ignore_index, rows);
  *loss = static_cast<T>(size_average ? sum / *total_weight : sum);
  return cross_entropy_ok;
}

template <class T>
void cross_entropy_backward(T g, const T* x, const int64_t* target, const T* weight, int64_t ignore_index,
                            bool size_average, int64_t rows, int64_t cols, const T* lse, double total_weight, T* dx) {
  double scale = size_average ? static_cast<double>(g) / total_weight : static_cast<double>(g);
  for_rows(rows, cols, [=](int64_t row) TL_LAMBDA {
    const T* in = x + row * cols;
    T* out = dx + row * cols;
    int64_t t = target[row];
    if (t == ignore_index) {
      for (int64_t i = 0; i < cols; ++i) out[i] = T(0);
      return;
    }
    T factor = static_cast<T>(weight ? scale * static_cast<double>(weight[t]) : scale);
    T shift = lse[row];
    TL_INDEPENDENT
    for (int64_t i = 0; i < cols; ++i) {
      T v = in[i] - shift;
      out[i] = factor * scalar_exp_negative(v > T(0) ? T(0) : v);  // above 0 by rounding only
    }
    out[t] -= factor;
  });
}

template <class T>
int64_t nll_loss(const T* log_prob, const int64_t* target, const T* weight, int64_t ignore_index, bool size_average,
                 int64_t rows, int64_t cols, T* loss, double* total_weight) {
  int64_t bad = first_bad_target<T>(target, ignore_index, rows, cols);
  if (bad != cross_entropy_ok) return bad;
  double sum = 0;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t t = target[row];
    if (t == ignore_index) continue;
    double value = static_cast<double>(log_prob[row * cols + t]);
    sum -= weight ? static_cast<double>(weight[t]) * value : value;
  }
  *total_weight = sum_weights(target, weight, ignore_index, rows);
  *loss = static_cast<T>(size_average ? sum / *total_weight : sum);
  return cross_entropy_ok;
}

template <class T>
void nll_loss_backward(T g, const int64_t* target, const T* weight, int64_t ignore_index, bool size_average,
                       int64_t rows, int64_t cols, double total_weight, T* dx) {
  double scale = size_average ? static_cast<double>(g) / total_weight : static_cast<double>(g);
  for_rows(rows, cols, [=](int64_t row) TL_LAMBDA {
    T* out = dx + row * cols;
    for (int64_t i = 0; i < cols; ++i) out[i] = T(0);
    int64_t t = target[row];
    if (t != ignore_index) out[t] = static_cast<T>(-(weight ? scale * static_cast<double>(weight[t]) : scale));
  });
}

#define TL_INSTANTIATE(T)                                                                                         \
  template void softmax<T>(const T*, T*, int64_t, int64_t);                                                       \
  template void softmax_backward<T>(const T*, const T*, T*, int64_t, int64_t);                                    \
  template void log_softmax<T>(const T*, T*, int64_t, int64_t);                                                   \
  template void log_softmax_backward<T>(const T*, const T*, T*, int64_t, int64_t);                                \
  template void logsumexp<T>(const T*, T*, int64_t, int64_t);                                                     \
  template int64_t cross_entropy<T>(const T*, const int64_t*, const T*, int64_t, bool, int64_t, int64_t, T*, T*,  \
                                    double*);                                                                     \
  template void cross_entropy_backward<T>(T, const T*, const int64_t*, const T*, int64_t, bool, int64_t, int64_t, \
                                          const T*, double, T*);                                                  \
  template int64_t nll_loss<T>(const T*, const int64_t*, const T*, int64_t, bool, int64_t, int64_t, T*, double*); \
  template void nll_loss_backward<T>(T, const int64_t*, const T*, int64_t, bool, int64_t, int64_t, double, T*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
