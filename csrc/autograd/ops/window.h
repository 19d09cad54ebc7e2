// The sizes of convolution and pooling, worked out and checked once for the type rules and the forwards.
#pragma once

#include <vector>

#include "autograd/ops/op.h"
#include "tensor/kernels/window.h"

namespace torchlite {

// The constants of a convolution, one number for each of the `n` dimensions that the window moves in.
struct ConvGeometry {
  int n;
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;
};

// Those of a call of conv_nd on a tensor with `ndim` dimensions, and of conv_nd_backward; `args` are the arguments (only
// constants are looked at). Throws where they are none.
ConvGeometry conv_geometry(const Op& op, PyObject* const* args, int ndim);
ConvGeometry conv_backward_geometry(const Op& op, PyObject* const* args, int ndim);

// Which argument conv_nd_backward is asked for: 0, the input, or 1, the weight.
bool conv_argument(const Op& op, PyObject* const* args);

// The size of conv_nd's result. Throws where input and weight do not fit.
std::vector<int64_t> conv_sizes(const char* name, const ConvGeometry& g, Dims input, Dims weight);

// A convolution relates an image (N, C, ...) and a map (N, O, ...) of the window's positions in it by a weight (O, C /
// groups, ...). conv_nd makes the map of the image, or, transposed, an image of the map.
struct Convolution {
  kernels::Window window;            // over the channels of one group
  int64_t images, groups, features;  // features: channels of the map in one group

  // Throws where the sizes are not those of one convolution.
  Convolution(const char* name, const ConvGeometry& g, Dims image, Dims weight, Dims map);
  int64_t image_block() const { return window.channels * window.volume(); }
  int64_t map_block() const { return features * window.positions(); }
  int64_t weight_block() const { return features * window.points(); }
  // Whether the columns of an image are the image itself.
  bool pointwise() const;
};

// The window of a pooling, `args` from kernel_size and stride on, over each plane of x (N, C, ...); `dilated`: a
// dilation follows padding. Throws where it is none.
kernels::Window pool_window(const Op& op, PyObject* const* args, int first, bool dilated, bool ceil_mode, Dims x);
// The size of its result.
std::vector<int64_t> pool_sizes(const kernels::Window& w, Dims x);
// Throws unless `grad` is the size of its result.
void require_pool_gradient(const char* name, const kernels::Window& w, Dims x, Dims grad);

}  // namespace torchlite
