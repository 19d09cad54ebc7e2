#include "tensor/kernels/simd.h"

#include "tensor/kernels/conv.h"

#include <cstring>

namespace torchlite::kernels {

namespace {

// Calls row(image offset of the row, columns offset, positions inside) for every point and row of positions.
template <class Row>
void for_each_row(const Window& w, const Row& row) {
  int64_t to = 0;
  for (int64_t c = 0; c < w.channels; ++c) {
    for (int64_t i = 0; i < w.kernel[0]; ++i) {
      for (int64_t j = 0; j < w.kernel[1]; ++j) {
        for (int64_t k = 0; k < w.kernel[2]; ++k) {
          int64_t dz = i * w.dilation[0] - w.padding[0], dy = j * w.dilation[1] - w.padding[1],
                  dx = k * w.dilation[2] - w.padding[2];
          Inside x(dx, w.stride[2], w.size[2], w.out[2]), none(0, 1, 0, 0);
          for (int64_t oz = 0; oz < w.out[0]; ++oz) {
            int64_t z = oz * w.stride[0] + dz;
            for (int64_t oy = 0; oy < w.out[1]; ++oy, to += w.out[2]) {
              int64_t y = oy * w.stride[1] + dy;
              bool outside = z < 0 || z >= w.size[0] || y < 0 || y >= w.size[1];
              row(((c * w.size[0] + z) * w.size[1] + y) * w.size[2] + dx, to, outside ? none : x);
            }
          }
        }
      }
    }
  }
}

}  // namespace

template <class T>
void im2col(const Window& w, const T* image, T* columns) {
  int64_t stride = w.stride[2];
  for_each_row(w, [&](int64_t from, int64_t to, Inside x) {
    T* out = columns + to;
    std::fill(out, out + x.first, T(0));
    if (stride == 1) {
      if (x.last > x.first)
        std::memcpy(out + x.first, image + from + x.first, static_cast<size_t>(x.last - x.first) * sizeof(T));
    } else {
      for (int64_t k = x.first; k < x.last; ++k) out[k] = image[from + k * stride];
    }
    std::fill(out + x.last, out + w.out[2], T(0));
  });
}

template <class T>
void col2im(const Window& w, const T* columns, T* image) {
  int64_t stride = w.stride[2];
  for_each_row(w, [&](int64_t from, int64_t to, Inside x) {
    const T* in = columns + to;
    for (int64_t k = x.first; k < x.last; ++k) image[from + k * stride] += in[k];
  });
}

template void im2col(const Window&, const float*, float*);
template void im2col(const Window&, const double*, double*);
template void col2im(const Window&, const float*, float*);
template void col2im(const Window&, const double*, double*);

}  // namespace torchlite::kernels
