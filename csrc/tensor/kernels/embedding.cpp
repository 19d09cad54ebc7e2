// The gradient is shared out by columns: threads never write the same element, and the order of additions is the serial
// one.
#include "tensor/kernels/simd.h"

#include "tensor/kernels/embedding.h"
#include "tensor/kernels/parallel.h"

#include <algorithm>
#include <cstring>

namespace torchlite::kernels {

namespace {

constexpr int64_t grain = 65536;

int64_t first_bad_index(const int64_t* index, int64_t num, int64_t n) {
  for (int64_t k = 0; k < n; ++k)
    if (index[k] < 0 || index[k] >= num) return k;
  return embedding_ok;
}

}  // namespace

template <class T>
int64_t embedding(const T* weight, const int64_t* index, int64_t num, int64_t dim, int64_t n, T* out) {
  int64_t bad = first_bad_index(index, num, n);
  if (bad != embedding_ok || dim == 0) return bad;
  parallel_for(n, std::max<int64_t>(1, grain / dim), [=](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      std::memcpy(out + k * dim, weight + index[k] * dim, static_cast<size_t>(dim) * sizeof(T));
  });
  return embedding_ok;
}

template <class T>
int64_t embedding_backward(const T* g, const int64_t* index, int64_t num, int64_t dim, int64_t n, int64_t padding_idx,
                           int64_t* counts, T* dweight) {
  int64_t bad = first_bad_index(index, num, n);
  if (bad != embedding_ok || n == 0) return bad;
  if (counts)
    for (int64_t k = 0; k < n; ++k) ++counts[index[k]];
  parallel_for(dim, std::max<int64_t>(16, grain / n), [=](int64_t begin, int64_t end) {
    multiversion([=]() TL_LAMBDA {
      for (int64_t k = 0; k < n; ++k) {
        if (index[k] == padding_idx) continue;
        T* to = dweight + index[k] * dim;
        const T* from = g + k * dim;
        if (counts) {
          T share = T(1) / static_cast<T>(counts[index[k]]);
          TL_INDEPENDENT
          for (int64_t j = begin; j < end; ++j) to[j] += from[j] * share;
        } else {
          TL_INDEPENDENT
          for (int64_t j = begin; j < end; ++j) to[j] += from[j];
        }
      }
    });
  });
  return embedding_ok;
}

#define TL_INSTANTIATE(T)                                                                 \
  template int64_t embedding<T>(const T*, const int64_t*, int64_t, int64_t, int64_t, T*); \
  template int64_t embedding_backward<T>(const T*, const int64_t*, int64_t, int64_t, int64_t, int64_t, int64_t*, T*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
