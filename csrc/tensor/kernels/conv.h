// Convolution by matrix products, and 2-d pooling. T is float or double; images are contiguous [channels, height, width]
// planes of one sample. Thread-safe; touches no Python state.
#pragma once

#include <cstdint>

namespace torchlite::kernels {

// A window of kernel[0] x kernel[1] that moves over an image in steps of `stride`, its points `dilation` apart, the
// image bordered by `padding`. `out` is the number of its positions in each direction.
struct Window {
  int64_t channels, size[2], out[2];
  int64_t kernel[2], stride[2], padding[2], dilation[2];

  int64_t positions() const { return out[0] * out[1]; }
  int64_t points() const { return channels * kernel[0] * kernel[1]; }
};

// columns[point, position] = the image under that point of the window, 0 in the border. columns: [points, positions].
template <class T>
void im2col(const Window& w, const T* image, T* columns);
// The transpose: adds every element of columns back to where it came from. image: zeroed by the caller.
template <class T>
void col2im(const Window& w, const T* columns, T* image);

// Largest element under the window at each position (per channel), and where it is: the flat index in its plane. The
// first of equals wins; a NaN wins over all. The border never does.
template <class T>
void max_pool(const Window& w, const T* image, T* out, int64_t* index);

}  // namespace torchlite::kernels
