#include "tensor/kernels/simd.h"

#include "tensor/kernels/pool.h"

#include <algorithm>

namespace torchlite::kernels {

namespace {

// Calls body(channel, positions) for every place of the window.
template <class Body>
void for_each_position(const Window& w, const Body& body) {
  int64_t at[Window::kDims];
  for (int64_t c = 0; c < w.channels; ++c)
    for (at[0] = 0; at[0] < w.out[0]; ++at[0])
      for (at[1] = 0; at[1] < w.out[1]; ++at[1])
        for (at[2] = 0; at[2] < w.out[2]; ++at[2]) body(c, at);
}

// The elements under a window without dilation: [first, last) in each direction, and how many the mean divides by.
struct Box {
  int64_t first[Window::kDims], last[Window::kDims], count = 1;

  Box(const Window& w, const int64_t* at, bool count_border) {
    for (int d = 0; d < Window::kDims; ++d) {
      int64_t begin = at[d] * w.stride[d] - w.padding[d];
      int64_t end = std::min(begin + w.kernel[d], w.size[d] + w.padding[d]);
      first[d] = std::max<int64_t>(begin, 0);
      last[d] = std::min(end, w.size[d]);
      count *= count_border ? end - begin : last[d] - first[d];
    }
  }
};

// Calls row(offset in the volume, length) for the rows of a box.
template <class Row>
void for_each_row(const Window& w, const Box& box, const Row& row) {
  for (int64_t z = box.first[0]; z < box.last[0]; ++z)
    for (int64_t y = box.first[1]; y < box.last[1]; ++y)
      row((z * w.size[1] + y) * w.size[2] + box.first[2], box.last[2] - box.first[2]);
}

}  // namespace

template <class T>
void max_pool(const Window& w, const T* image, T* out, int64_t* index) {
  for_each_position(w, [&](int64_t c, const int64_t* at) {
    const T* volume = image + c * w.volume();
    T best = T(0);
    int64_t where = -1;
    int64_t corner[Window::kDims];
    for (int d = 0; d < Window::kDims; ++d) corner[d] = at[d] * w.stride[d] - w.padding[d];
    for (int64_t i = 0; i < w.kernel[0]; ++i) {
      int64_t z = corner[0] + i * w.dilation[0];
      if (z < 0 || z >= w.size[0]) continue;
      for (int64_t j = 0; j < w.kernel[1]; ++j) {
        int64_t y = corner[1] + j * w.dilation[1];
        if (y < 0 || y >= w.size[1]) continue;
        for (int64_t k = 0; k < w.kernel[2]; ++k) {
          int64_t x = corner[2] + k * w.dilation[2];
          if (x < 0 || x >= w.size[2]) continue;
          int64_t place = (z * w.size[1] + y) * w.size[2] + x;
          T v = volume[place];
          if (where < 0 || v > best || (v != v && best == best)) {
            best = v;
            where = place;
          }
        }
      }
    }
    *out++ = best;
    *index++ = where;
  });
}

template <class T>
void avg_pool(const Window& w, bool count_border, const T* image, T* out) {
  for_each_position(w, [&](int64_t c, const int64_t* at) {
    Box box(w, at, count_border);
    T sum = T(0);
    for_each_row(w, box, [&](int64_t offset, int64_t n) {
      const T* row = image + c * w.volume() + offset;
      for (int64_t i = 0; i < n; ++i) sum += row[i];
    });
    *out++ = sum / static_cast<T>(box.count);
  });
}

template <class T>
void avg_pool_backward(const Window& w, bool count_border, const T* out, T* image) {
  for_each_position(w, [&](int64_t c, const int64_t* at) {
    Box box(w, at, count_border);
    T share = *out++ / static_cast<T>(box.count);
    for_each_row(w, box, [&](int64_t offset, int64_t n) {
      T* row = image + c * w.volume() + offset;
      for (int64_t i = 0; i < n; ++i) row[i] += share;
    });
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
