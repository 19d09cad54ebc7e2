// A window that moves over an image: what convolution and pooling have in common.
#pragma once

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

}  // namespace torchlite::kernels
