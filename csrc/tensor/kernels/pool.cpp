#include "tensor/kernels/simd.h"

#include "tensor/kernels/pool.h"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace torchlite::kernels {

namespace {

constexpr int64_t block = 256;

// Calls row(channel, place of the row in each direction but the last, offset of the row's first result).
template <class Row>
void for_each_row(const Window& w, const Row& row) {
  int64_t to = 0;
  for (int64_t c = 0; c < w.channels; ++c)
    for (int64_t z = 0; z < w.out[0]; ++z)
      for (int64_t y = 0; y < w.out[1]; ++y, to += w.out[2]) row(c, z, y, to);
}

// Calls point(offset in the volume, positions) for every point of the kernel that lies inside the volume for positions of
// the row: at position x it is the element at offset + x * stride.
template <class Point>
void for_each_point(const Window& w, int64_t oz, int64_t oy, const Point& point) {
  for (int64_t i = 0; i < w.kernel[0]; ++i) {
    int64_t z = oz * w.stride[0] - w.padding[0] + i * w.dilation[0];
    if (z < 0 || z >= w.size[0]) continue;
    for (int64_t j = 0; j < w.kernel[1]; ++j) {
      int64_t y = oy * w.stride[1] - w.padding[1] + j * w.dilation[1];
      if (y < 0 || y >= w.size[1]) continue;
      for (int64_t k = 0; k < w.kernel[2]; ++k) {
        int64_t dx = k * w.dilation[2] - w.padding[2];
        point((z * w.size[1] + y) * w.size[2] + dx, Inside(dx, w.stride[2], w.size[2], w.out[2]));
      }
    }
  }
}

// How many places of direction d a window without dilation at position `at` counts.
int64_t counted(const Window& w, int d, int64_t at, bool count_border) {
  int64_t begin = at * w.stride[d] - w.padding[d];
  int64_t end = std::min(begin + w.kernel[d], w.size[d] + w.padding[d]);
  return count_border ? end - begin : std::min(end, w.size[d]) - std::max<int64_t>(begin, 0);
}

}  // namespace

// A row of positions at a time, selected by masks: what wins is not to be predicted, so a branch would be slow.
template <class T>
void max_pool(const Window& w, const T* image, T* out, int64_t* index) {
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  int64_t stride = w.stride[2];
  for_each_row(w, [&](int64_t c, int64_t z, int64_t y, int64_t to) {
    const T* volume = image + c * w.volume();
    T* best = out + to;
    int64_t* where = index + to;
    std::fill(best, best + w.out[2], T(0));
    std::fill(where, where + w.out[2], int64_t{-1});
    for_each_point(w, z, y, [&](int64_t from, Inside in) {
      for (int64_t x = in.first; x < in.last; ++x) {
        T v = volume[from + x * stride], b = best[x];
        bool better = (where[x] < 0) | (v > b) | ((v != v) & (b == b));
        Bits mask = -static_cast<Bits>(better);
        best[x] = std::bit_cast<T>((std::bit_cast<Bits>(v) & mask) | (std::bit_cast<Bits>(b) & ~mask));
        int64_t wide = -static_cast<int64_t>(better);
        where[x] = ((from + x * stride) & wide) | (where[x] & ~wide);
      }
    });
  });
}

template <class T>
void avg_pool(const Window& w, bool count_border, const T* image, T* out) {
  int64_t stride = w.stride[2];
  for_each_row(w, [&](int64_t c, int64_t z, int64_t y, int64_t to) {
    const T* volume = image + c * w.volume();
    T* sum = out + to;
    std::fill(sum, sum + w.out[2], T(0));
    for_each_point(w, z, y, [&](int64_t from, Inside in) {
      for (int64_t x = in.first; x < in.last; ++x) sum[x] += volume[from + x * stride];
    });
    int64_t rows = counted(w, 0, z, count_border) * counted(w, 1, y, count_border);
    for (int64_t x = 0; x < w.out[2]; ++x) sum[x] /= static_cast<T>(rows * counted(w, 2, x, count_border));
  });
}

template <class T>
void avg_pool_backward(const Window& w, bool count_border, const T* out, T* image) {
  int64_t stride = w.stride[2];
  T share[block];
  for_each_row(w, [&](int64_t c, int64_t z, int64_t y, int64_t at) {
    T* volume = image + c * w.volume();
    int64_t rows = counted(w, 0, z, count_border) * counted(w, 1, y, count_border);
    for (int64_t start = 0; start < w.out[2]; start += block) {
      int64_t end = std::min(start + block, w.out[2]);
      for (int64_t x = start; x < end; ++x)
        share[x - start] = out[at + x] / static_cast<T>(rows * counted(w, 2, x, count_border));
      for_each_point(w, z, y, [&](int64_t from, Inside in) {
        for (int64_t x = std::max(in.first, start); x < std::min(in.last, end); ++x)
          volume[from + x * stride] += share[x - start];
      });
    }
  });
}

#define TL_INSTANTIATE(T)                                           \
  template void max_pool<T>(const Window&, const T*, T*, int64_t*); \
  template void avg_pool<T>(const Window&, bool, const T*, T*);     \
  template void avg_pool_backward<T>(const Window&, bool, const T*, T*);
TL_INSTANTIATE(float)
TL_INSTANTIATE(double)
#undef TL_INSTANTIATE

}  // namespace torchlite::kernels
