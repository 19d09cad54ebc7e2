// A window that moves over an image: what convolution and pooling have in common.
#pragma once

#include <algorithm>
#include <cstdint>

namespace torchlite::kernels {

// A window of kernel[0] x kernel[1] x kernel[2] that moves over an image of `channels` volumes in steps of `stride`, its
// points `dilation` apart, each volume bordered by `padding`. `out` is the number of its positions in each direction.
// A plane has size 1 in direction 0, a line in directions 0 and 1.
struct Window {
  static constexpr int kDims = 3;
  int64_t channels, size[kDims], out[kDims];
  int64_t kernel[kDims], stride[kDims], padding[kDims], dilation[kDims];

  int64_t volume() const { return size[0] * size[1] * size[2]; }
  int64_t positions() const { return out[0] * out[1] * out[2]; }
  int64_t points() const { return channels * kernel[0] * kernel[1] * kernel[2]; }
};

// The positions [first, last) at which a point `offset` from the window's corner lies inside a side of length `size`.
struct Inside {
  int64_t first, last;

  Inside(int64_t offset, int64_t stride, int64_t size, int64_t positions) {
    last = size - offset <= 0 ? 0 : std::min((size - offset + stride - 1) / stride, positions);
    first = std::min(offset >= 0 ? 0 : (-offset + stride - 1) / stride, last);
  }
};

}  // namespace torchlite::kernels
