// Convolution in one, two and three dimensions, plain and transposed.
//
// conv_nd is bilinear in input and weight, and so is each of its gradients: conv_nd and conv_nd_backward are each
// other's derivatives, and the pair is closed under differentiation of any order.
#include "tensor/kernels/conv.h"

#include "autograd/ops/nn.h"
#include "autograd/ops/types.h"
#include "autograd/ops/window.h"
#include "tensor/gemm.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;

MatrixRef block(const Tensor* t, int64_t offset, int64_t rows, int64_t columns) {
  return {t->dtype, t->bytes() + offset * itemsize(t->dtype), rows, columns};
}

// One image and group after the other: the image's columns, and matrix products with them. A block of an image is the
// channels of one group of it, and block k of a batch belongs to group k modulo the groups.
class Columns {
 public:
  Columns(const Convolution& c, DType dtype) : c_(c) {
    if (!c.pointwise()) buffer_ = new_tensor(dtype, Sizes{c.window.points(), c.window.positions()});
  }
  // The columns of block k of `image`.
  MatrixRef of(const Tensor* image, int64_t k) {
    if (!buffer_) return block(image, k * c_.image_block(), c_.window.points(), c_.window.positions());
    GilRelease unlocked(buffer_->numel);
    with_float(image->dtype, [&]<class T>() {
      kernels::im2col(c_.window, image->ptr<T>() + k * c_.image_block(), buffer_->ptr<T>());
    });
    return block(buffer_.get(), 0, c_.window.points(), c_.window.positions());
  }
  // Block k of `image`, which is zero, becomes what has the columns a b.
  void fold(const MatrixRef& a, const MatrixRef& b, Tensor* image, int64_t k) {
    if (!buffer_) {
      gemm(a, b, block(image, k * c_.image_block(), c_.window.points(), c_.window.positions()));
      return;
    }
    gemm(a, b, block(buffer_.get(), 0, c_.window.points(), c_.window.positions()));
    GilRelease unlocked(buffer_->numel);
    with_float(image->dtype, [&]<class T>() {
      kernels::col2im(c_.window, buffer_->ptr<T>(), image->ptr<T>() + k * c_.image_block());
    });
  }

 private:
  const Convolution& c_;
  PyRef<Tensor> buffer_;
};

MatrixRef weight_of(const Convolution& c, const Tensor* weight, int64_t k) {
  return block(weight, k % c.groups * c.weight_block(), c.features, c.window.points());
}
MatrixRef map_of(const Convolution& c, const Tensor* map, int64_t k) {
  return block(map, k * c.map_block(), c.features, c.window.positions());
}

PyRef<Tensor> map_of_image(const Convolution& c, const Tensor* image, const Tensor* weight, const Sizes& sizes) {
  PyRef<Tensor> map = new_tensor(image->dtype, sizes);
  Columns columns(c, image->dtype);
  for (int64_t k = 0; k < c.images * c.groups; ++k)
    gemm(weight_of(c, weight, k), columns.of(image, k), map_of(c, map.get(), k));
  return map;
}

// The transpose of map_of_image.
PyRef<Tensor> image_of_map(const Convolution& c, const Tensor* map, const Tensor* weight, const Sizes& sizes) {
  PyRef<Tensor> image = new_zeros(map->dtype, sizes);
  Columns columns(c, map->dtype);
  for (int64_t k = 0; k < c.images * c.groups; ++k)
    columns.fold(weight_of(c, weight, k).t(), map_of(c, map, k), image.get(), k);
  return image;
}

// The map times the transposed columns of the image, summed over the images.
PyRef<Tensor> weight_of_both(const Convolution& c, const Tensor* image, const Tensor* map, const Sizes& sizes) {
  PyRef<Tensor> weight = c.images ? new_tensor(image->dtype, sizes) : new_zeros(image->dtype, sizes);
  PyRef<Tensor> part = new_tensor(image->dtype, Sizes{c.features, c.window.points()});
  Columns columns(c, image->dtype);
  for (int64_t k = 0; k < c.images * c.groups; ++k) {
    MatrixRef sum = weight_of(c, weight.get(), k), transposed = columns.of(image, k).t();
    if (k < c.groups) {
      gemm(map_of(c, map, k), transposed, sum);
      continue;
    }
    gemm(map_of(c, map, k), transposed, matrix_of(part.get(), part->size(1)));
    with_float(image->dtype, [&]<class T>() {
      T* to = static_cast<T*>(sum.data);
      for (int64_t i = 0; i < part->numel; ++i) to[i] += part->ptr<T>()[i];
    });
  }
  return weight;
}

// Adds element k of the bias to channel k of y (N, C, ...).
void add_bias(Tensor* y, Tensor* bias) {
  PyRef<Tensor> b = contiguous(floating_operand(bias, "conv_nd", "bias").get());
  int64_t images = y->size(0), channels = y->size(1), plane = y->numel / std::max<int64_t>(images * channels, 1);
  GilRelease unlocked(y->numel);
  with_float(y->dtype, [&]<class T>() {
    T* out = y->ptr<T>();
    for (int64_t k = 0; k < images * channels; ++k, out += plane) {
      T v = b->ptr<T>()[k % channels];
      for (int64_t i = 0; i < plane; ++i) out[i] += v;
    }
  });
}

void require_same_type(const Call& c, const Tensor* a, const Tensor* b, const char* what) {
  if (a->dtype != b->dtype)
    runtime_error("%s: Input type (%s) and %s type (%s) should be the same", c.name(), info(a->dtype).name, what,
                  info(b->dtype).name);
}

Outputs conv_nd_forward(Call& c) {
  ConvGeometry g = conv_geometry(c.op, c.args, c.tensor(0)->ndim);
  require_same_type(c, c.tensor(0), c.tensor(1), "weight");
  PyRef<Tensor> x = floating_operand(c.tensor(0), c.name(), "input"),
                w = floating_operand(c.tensor(1), c.name(), "weight");
  Sizes sizes = conv_sizes(c.name(), g, x->sizes(), w->sizes());
  Tensor* bias = c.optional_tensor(2);
  if (bias && (bias->ndim != 1 || bias->size(0) != sizes[1]))
    runtime_error("%s: bias of size %s does not fit weight of size %s", c.name(), format_dims(bias->sizes()).c_str(),
                  format_dims(w->sizes()).c_str());
  if (bias) require_same_type(c, c.tensor(0), bias, "bias");
  PyRef<Tensor> y;
  if (g.transposed) y = image_of_map(Convolution(c.name(), g, sizes, w->sizes(), x->sizes()), x.get(), w.get(), sizes);
  else y = map_of_image(Convolution(c.name(), g, x->sizes(), w->sizes(), sizes), x.get(), w.get(), sizes);
  if (bias) add_bias(y.get(), bias);
  return to_dtype(y.get(), c.tensor(0)->dtype);
}

Outputs conv_nd_backward_forward(Call& c) {
  ConvGeometry g = conv_backward_geometry(c.op, c.args, c.tensor(0)->ndim);
  require_same_type(c, c.tensor(0), c.tensor(1), "weight");
  PyRef<Tensor> grad = floating_operand(c.tensor(0), c.name(), "grad"),
                other = floating_operand(c.tensor(1), c.name(), "other");
  Sizes sizes = c.ints(3);
  bool of_weight = conv_argument(c.op, c.args);
  Dims input = of_weight ? other->sizes() : Dims(sizes), weight = of_weight ? Dims(sizes) : other->sizes();
  Dims image = g.transposed ? grad->sizes() : input, map = g.transposed ? input : grad->sizes();
  Convolution conv(c.name(), g, image, weight, map);
  PyRef<Tensor> result;
  if (of_weight) {
    Tensor *wide = g.transposed ? grad.get() : other.get(), *narrow = g.transposed ? other.get() : grad.get();
    result = weight_of_both(conv, wide, narrow, sizes);
  } else if (g.transposed) {
    result = map_of_image(conv, grad.get(), other.get(), sizes);
  } else {
    result = image_of_map(conv, grad.get(), other.get(), sizes);
  }
  return to_dtype(result.get(), c.tensor(0)->dtype);
}

// ---- gradients ----------------------------------------------------------------------------------------------------

Value gradient(const Backward& b, const Value& grad, const Value& other, int argument, const Sizes& sizes, int stride,
               int transposed, int groups) {
  return call<"conv_nd_backward">(grad, other, argument, sizes, b.value(stride), b.value(stride + 1),
                                  b.value(stride + 2), b.value(transposed), b.value(groups));
}

void conv_nd_backward(Backward& b) {
  Value g = b.grad();
  if (b.needs(0)) b.set(0, gradient(b, g, b.value(1), 0, b.sizes(0), 3, 6, 8));
  if (b.needs(1)) b.set(1, gradient(b, g, b.value(0), 1, b.sizes(1), 3, 6, 8));
  if (b.needs(2)) b.set(2, channel_sum(g, false));
}

// For a gradient u of the result, which has the size of the argument that the result is the gradient of.
void conv_nd_backward_backward(Backward& b) {
  Value u = b.grad();
  int64_t argument = b.integer(2);
  if (b.needs(0)) {
    Value other = b.value(1);
    const Value &input = argument ? other : u, &weight = argument ? u : other;
    // A transposed convolution gives the size that it was given only with what its output_padding was.
    Sizes stride = b.ints(4), padding = b.ints(5), dilation = b.ints(6), grad = b.sizes(0), output_padding;
    for (size_t d = 0; d + 2 < grad.size(); ++d) {
      auto of = [d](const Sizes& v) { return v.size() == 1 ? v[0] : v[d]; };
      int at = static_cast<int>(d) + 2;
      int64_t least =
          (input.sizes()[at] - 1) * of(stride) - 2 * of(padding) + of(dilation) * (weight.sizes()[at] - 1) + 1;
      output_padding.push_back(b.boolean(7) ? grad[d + 2] - least : 0);
    }
    b.set(0, call<"conv_nd">(input, weight, nullptr, b.value(4), b.value(5), b.value(6), b.value(7), output_padding,
                             b.value(8)));
  }
  if (b.needs(1)) b.set(1, gradient(b, b.value(0), u, static_cast<int>(1 - argument), b.sizes(1), 4, 7, 8));
}

}  // namespace

std::vector<Row> conv_rows() {
  constexpr uint32_t kGeometry = in(3) | in(4) | in(5) | in(6) | in(7) | in(8), kBoth = in(2) | kGeometry;
  return {
      {"conv_nd(Tensor input, Tensor weight, Tensor? bias=None, ints stride=1, ints padding=0, ints dilation=1, "
       "bool transposed=False, ints output_padding=0, int groups=1)",
       "Cross-correlation of input (N, C, ...) with weight (O, C / groups, ...) over one to three dimensions, plus "
       "bias (O,): (N, O, ...). Transposed, the gradient of that: input (N, O, ...) and bias (C,) give (N, C, ...), "
       "with output_padding further places at the ends.",
       types::conv_nd,
       conv_nd_forward,
       conv_nd_backward,
       {in(1) | kGeometry, in(0) | kGeometry, kGeometry},
       kKeepSizes | kNoMethod},
      {"conv_nd_backward(Tensor grad, Tensor other, int argument, ints sizes, ints stride, ints padding, "
       "ints dilation, bool transposed, int groups)",
       "The gradient of conv_nd for its input (argument 0, `other` being the weight) or its weight (argument 1, "
       "`other` "
       "being the input), which has the given sizes.",
       types::conv_nd_backward,
       conv_nd_backward_forward,
       conv_nd_backward_backward,
       {in(1) | kBoth, in(0) | kBoth},
       kKeepSizes | kHidden},
  };
}

}  // namespace torchlite
