#include "tensor/kernels/simd.h"

#include "tensor/kernels/conv.h"

#include <algorithm>
#include <cstring>

namespace torchlite::kernels {

namespace {

// The positions [first, last) at which a point `offset` from the window's corner lies inside a side of length `size`.
struct Inside {
  int64_t first, last;
};
Inside inside(int64_t offset, int64_t stride, int64_t size, int64_t positions) {
  int64_t first = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  int64_t last = size - offset <= 0 ? 0 : (size - offset + stride - 1) / stride;
  last = std::min(last, positions);
  return {std::min(first, last), last};
}

// Calls row(image offset of the row, columns offset, positions inside) for every point and row of positions.
template <class Row>
void for_each_row(const Window& w, const Row& row) {
  int64_t point = 0;
  for (int64_t c = 0; c < w.channels; ++c) {
    for (int64_t i = 0; i < w.kernel[0]; ++i) {
      for (int64_t j = 0; j < w.kernel[1]; ++j, ++point) {
        int64_t dy = i * w.dilation[0] - w.padding[0], dx = j * w.dilation[1] - w.padding[1];
        Inside x = inside(dx, w.stride[1], w.size[1], w.out[1]);
        for (int64_t y = 0; y < w.out[0]; ++y) {
          int64_t at = y * w.stride[0] + dy;
          bool outside = at < 0 || at >= w.size[0];
          row((c * w.size[0] + at) * w.size[1] + dx, (point * w.out[0] + y) * w.out[1], outside ? Inside{0, 0} : x);
        }
      }
    }
  }
}

}  // namespace

template <class T>
void im2col(const Window& w, const T* image, T* columns) {
  for_each_row(w, [&](int64_t from, int64_t to, Inside x) {
    T* out = columns + to;
    std::fill(out, out + x.first, T(0));
    if (w.stride[1] == 1) {
      if (x.last > x.first)
        std::memcpy(out + x.first, image + from + x.first, static_cast<size_t>(x.last - x.first) * sizeof(T));
    } else {
      for (int64_t k = x.first; k < x.last; ++k) out[k] = image[from + k * w.stride[1]];
    }
    std::fill(out + x.last, out + w.out[1], T(0));
  });
}

template <class T>
void col2im(const Window& w, const T* columns, T* image) {
  for_each_row(w, [&](int64_t from, int64_t to, Inside x) {
    const T* in = columns + to;
    for (int64_t k = x.first; k < x.last; ++k) image[from + k * w.stride[1]] += in[k];
  });
}

template <class T>
void max_pool(const Window& w, const T* image, T* out, int64_t* index) {
  for (int64_t c = 0; c < w.channels; ++c) {
    const T* plane = image + c * w.size[0] * w.size[1];
    for (int64_t y = 0; y < w.out[0]; ++y) {
      for (int64_t x = 0; x < w.out[1]; ++x) {
        T best = T(0);
        int64_t where = -1;
        for (int64_t i = 0; i < w.kernel[0]; ++i) {
          int64_t row = y * w.stride[0] - w.padding[0] + i * w.dilation[0];
          if (row < 0 || row >= w.size[0]) continue;
          for (int64_t j = 0; j < w.kernel[1]; ++j) {
            int64_t column = x * w.stride[1] - w.padding[1] + j * w.dilation[1];
            if (column < 0 || column >= w.size[1]) continue;
            T v = plane[row * w.size[1] + column];
            if (where < 0 || v > best || (v != v && best == best)) {
              best = v;
              where = row * w.size[1] + column;
            }
          }
        }
        *out++ = best;
        *index++ = where;
      }
    }
  }
}

template void im2col(const Window&, const float*, float*);
template void im2col(const Window&, const double*, double*);
template void col2im(const Window&, const float*, float*);
template void col2im(const Window&, const double*, double*);
template void max_pool(const Window&, const float*, float*, int64_t*);
template void max_pool(const Window&, const double*, double*, int64_t*);

}  // namespace torchlite::kernels
