// Convolution and pooling rows.
//
// Convolution is bilinear in input and weight, and its two gradients are bilinear again: conv2d, conv2d_input and
// conv2d_weight are each other's derivatives, so the family is closed under differentiation of any order.
#include "tensor/kernels/conv.h"

#include <cstring>

#include "autograd/ops/nn.h"
#include "autograd/ops/types.h"
#include "tensor/gemm.h"
#include "tensor/kernels/parallel.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;

// stride, padding, dilation and groups, from consecutive arguments.
struct Geometry {
  Sizes stride, padding, dilation;
  int64_t groups;
};

Sizes pair(const Call& c, int i) {
  Sizes v = c.ints(i);
  if (v.size() == 1) v.push_back(v[0]);
  if (v.size() != 2)
    value_error("%s: argument '%s' must be an int or two ints, but has %zu", c.name(),
                c.op.params[static_cast<size_t>(i)].name.c_str(), v.size());
  return v;
}

Geometry geometry(const Call& c, int first) {
  Geometry g{pair(c, first), pair(c, first + 1), pair(c, first + 2), c.integer(first + 3)};
  if (g.padding[0] < 0 || g.padding[1] < 0) runtime_error("negative padding is not supported");
  for (int d = 0; d < 2; ++d)
    if (g.stride[d] < 1 || g.dilation[d] < 1)
      value_error("%s: stride and dilation must be positive, but got %s and %s", c.name(),
                  format_dims(g.stride).c_str(), format_dims(g.dilation).c_str());
  if (g.groups < 1)
    value_error("%s: groups must be positive, but got %lld", c.name(), static_cast<long long>(g.groups));
  return g;
}

// The window of one group of channels over an image of `input` (N, C, H, W) with a kernel of `weight` (O, C/g, h, w).
kernels::Window window(const char* name, Dims input, Dims weight, const Geometry& g) {
  if (input.n != 4)
    runtime_error("%s: expected a 4D input (N, C, H, W), but got size %s", name, format_dims(input).c_str());
  if (weight.n != 4 || weight[1] * g.groups != input[1] || weight[0] % g.groups != 0)
    runtime_error("%s: weight of size %s does not fit input of size %s with %lld groups", name,
                  format_dims(weight).c_str(), format_dims(input).c_str(), static_cast<long long>(g.groups));
  kernels::Window w{};
  w.channels = weight[1];
  for (int d = 0; d < 2; ++d) {
    w.size[d] = input[2 + d];
    w.kernel[d] = weight[2 + d];
    w.stride[d] = g.stride[d];
    w.padding[d] = g.padding[d];
    w.dilation[d] = g.dilation[d];
    int64_t span = input[2 + d] + 2 * g.padding[d] - g.dilation[d] * (weight[2 + d] - 1) - 1;
    if (span < 0)
      runtime_error("%s: the kernel of size %s is larger than the padded input of size %s", name,
                    format_dims(weight).c_str(), format_dims(input).c_str());
    w.out[d] = span / g.stride[d] + 1;
  }
  return w;
}

void require_same_type(const Call& c, const Tensor* a, const Tensor* b) {
  if (a->dtype != b->dtype)
    runtime_error("%s: Input type (%s) and weight type (%s) should be the same", c.name(), info(a->dtype).name,
                  info(b->dtype).name);
}

template <class F>
void by_type(DType dtype, F&& f) {
  if (dtype == DType::Float) f(float());
  else f(double());
}

// Calls body(n, group, columns buffer of the calling thread) for every image and group.
struct Plan {
  kernels::Window window;
  int64_t images, groups, out_channels;  // out_channels of one group
  int64_t plane_in() const { return window.channels * window.size[0] * window.size[1]; }
  int64_t plane_out() const { return out_channels * window.positions(); }
};

void require_gradient_size(const Call& c, const Plan& p, const Tensor* g) {
  Sizes expected{p.images, p.out_channels * p.groups, p.window.out[0], p.window.out[1]};
  if (!(g->sizes() == Dims(expected)))
    runtime_error("%s: the gradient has size %s, but the convolution's result has size %s", c.name(),
                  format_dims(g->sizes()).c_str(), format_dims(expected).c_str());
}

MatrixRef block(const Tensor* t, int64_t offset, int64_t rows, int64_t columns) {
  return {t->dtype, t->bytes() + offset * itemsize(t->dtype), rows, columns};
}

void lower(const Plan& p, const Tensor* input, int64_t image_group, Tensor* columns) {
  GilRelease unlocked(columns->numel);
  by_type(input->dtype, [&]<class T>(T) {
    kernels::im2col(p.window, input->ptr<T>() + image_group * p.plane_in(), columns->ptr<T>());
  });
}

PyRef<Tensor> columns_for(const Plan& p, DType dtype) {
  return new_tensor(dtype, Sizes{p.window.points(), p.window.positions()});
}

Outputs conv2d_forward(Call& c) {
  PyRef<Tensor> x = floating_operand(c.tensor(0), "conv2d", "input"),
                w = floating_operand(c.tensor(1), "conv2d", "weight");
  require_same_type(c, c.tensor(0), c.tensor(1));
  Geometry g = geometry(c, 3);
  Plan p{window("conv2d", x->sizes(), w->sizes(), g), x->size(0), g.groups, w->size(0) / g.groups};
  Tensor* bias = c.optional_tensor(2);
  if (bias && (bias->ndim != 1 || bias->size(0) != w->size(0)))
    runtime_error("conv2d: bias of size %s does not fit weight of size %s", format_dims(bias->sizes()).c_str(),
                  format_dims(w->sizes()).c_str());
  if (bias && bias->dtype != c.tensor(0)->dtype)
    runtime_error("conv2d: Input type (%s) and bias type (%s) should be the same", info(c.tensor(0)->dtype).name,
                  info(bias->dtype).name);
  PyRef<Tensor> y = new_tensor(x->dtype, Sizes{p.images, w->size(0), p.window.out[0], p.window.out[1]});
  PyRef<Tensor> columns = columns_for(p, x->dtype);
  int64_t weights = p.out_channels * p.window.points();
  for (int64_t k = 0; k < p.images * p.groups; ++k) {
    lower(p, x.get(), k, columns.get());
    gemm(block(w.get(), (k % p.groups) * weights, p.out_channels, p.window.points()),
         block(columns.get(), 0, p.window.points(), p.window.positions()),
         block(y.get(), k * p.plane_out(), p.out_channels, p.window.positions()));
  }
  if (bias) {
    PyRef<Tensor> b = contiguous(floating_operand(bias, "conv2d", "bias").get());
    int64_t channels = w->size(0), plane = p.window.positions();
    GilRelease unlocked(y->numel);
    by_type(y->dtype, [&]<class T>(T) {
      T* out = y->ptr<T>();
      for (int64_t k = 0; k < p.images * channels; ++k, out += plane) {
        T v = b->ptr<T>()[k % channels];
        for (int64_t i = 0; i < plane; ++i) out[i] += v;
      }
    });
  }
  return to_dtype(y.get(), c.tensor(0)->dtype);
}

// Gradient of the input: the weight's transpose applied to g, folded back.
Outputs conv2d_input_forward(Call& c) {
  PyRef<Tensor> dy = floating_operand(c.tensor(0), "conv2d_input", "self"),
                w = floating_operand(c.tensor(1), "conv2d_input", "weight");
  Sizes sizes = c.ints(2);
  Geometry g = geometry(c, 3);
  Plan p{window("conv2d_input", sizes, w->sizes(), g), sizes[0], g.groups, w->size(0) / g.groups};
  require_same_type(c, c.tensor(0), c.tensor(1));
  require_gradient_size(c, p, dy.get());
  PyRef<Tensor> dx = new_zeros(dy->dtype, sizes);
  PyRef<Tensor> columns = columns_for(p, dy->dtype);
  int64_t weights = p.out_channels * p.window.points();
  for (int64_t k = 0; k < p.images * p.groups; ++k) {
    gemm(block(w.get(), (k % p.groups) * weights, p.out_channels, p.window.points()).t(),
         block(dy.get(), k * p.plane_out(), p.out_channels, p.window.positions()),
         block(columns.get(), 0, p.window.points(), p.window.positions()));
    GilRelease unlocked(columns->numel);
    by_type(dx->dtype,
            [&]<class T>(T) { kernels::col2im(p.window, columns->ptr<T>(), dx->ptr<T>() + k * p.plane_in()); });
  }
  return to_dtype(dx.get(), c.tensor(0)->dtype);
}

// Gradient of the weight: g times the transposed columns, summed over the images.
Outputs conv2d_weight_forward(Call& c) {
  PyRef<Tensor> x = floating_operand(c.tensor(0), "conv2d_weight", "self"),
                dy = floating_operand(c.tensor(1), "conv2d_weight", "grad");
  Sizes sizes = c.ints(2);
  Geometry g = geometry(c, 3);
  Plan p{window("conv2d_weight", x->sizes(), sizes, g), x->size(0), g.groups, sizes[0] / g.groups};
  require_same_type(c, c.tensor(0), c.tensor(1));
  require_gradient_size(c, p, dy.get());
  PyRef<Tensor> dw = new_zeros(x->dtype, sizes);
  PyRef<Tensor> columns = columns_for(p, x->dtype);
  PyRef<Tensor> part = new_tensor(x->dtype, Sizes{p.out_channels, p.window.points()});
  for (int64_t k = 0; k < p.images * p.groups; ++k) {
    lower(p, x.get(), k, columns.get());
    gemm(block(dy.get(), k * p.plane_out(), p.out_channels, p.window.positions()),
         block(columns.get(), 0, p.window.points(), p.window.positions()).t(), matrix_of(part.get(), part->size(1)));
    by_type(dw->dtype, [&]<class T>(T) {
      T* sum = dw->ptr<T>() + (k % p.groups) * part->numel;
      for (int64_t i = 0; i < part->numel; ++i) sum[i] += part->ptr<T>()[i];
    });
  }
  return to_dtype(dw.get(), c.tensor(0)->dtype);
}

// Arguments 3 to 6 of each row are stride, padding, dilation and groups.
Value conv(const Backward& b, const Value& x, const Value& w) {
  return call<"conv2d">(x, w, nullptr, b.value(3), b.value(4), b.value(5), b.value(6));
}
Value conv_input(const Backward& b, const Value& dy, const Value& w, const Sizes& sizes) {
  return call<"conv2d_input">(dy, w, sizes, b.value(3), b.value(4), b.value(5), b.value(6));
}
Value conv_weight(const Backward& b, const Value& x, const Value& dy, const Sizes& sizes) {
  return call<"conv2d_weight">(x, dy, sizes, b.value(3), b.value(4), b.value(5), b.value(6));
}

void conv2d_backward(Backward& b) {
  if (b.needs(0)) b.set(0, conv_input(b, b.grad(), b.value(1), b.sizes(0)));
  if (b.needs(1)) b.set(1, conv_weight(b, b.value(0), b.grad(), b.sizes(1)));
  if (b.needs(2)) {
    Value over_plane = call<"sum">(call<"reshape">(b.grad(), Sizes{b.grad().sizes()[0], b.grad().sizes()[1], -1}), 2);
    b.set(2, call<"sum">(over_plane, 0));
  }
}
void conv2d_input_backward(Backward& b) {
  if (b.needs(0)) b.set(0, conv(b, b.grad(), b.value(1)));
  if (b.needs(1)) b.set(1, conv_weight(b, b.grad(), b.value(0), b.sizes(1)));
}
void conv2d_weight_backward(Backward& b) {
  if (b.needs(0)) b.set(0, conv_input(b, b.value(1), b.grad(), b.sizes(0)));
  if (b.needs(1)) b.set(1, conv(b, b.value(0), b.grad()));
}

constexpr uint32_t kGeometry = in(3) | in(4) | in(5) | in(6);

// ---- pooling ------------------------------------------------------------------------------------------------------

kernels::Window pool_window(const Call& c, const Tensor* x) {
  if (x->ndim != 4)
    runtime_error("max_pool2d: expected a 4D input (N, C, H, W), but got size %s", format_dims(x->sizes()).c_str());
  Sizes kernel = pair(c, 1), stride = c.is_none(2) ? kernel : pair(c, 2), padding = pair(c, 3), dilation = pair(c, 4);
  bool ceil_mode = c.boolean(5);
  kernels::Window w{};
  w.channels = x->size(0) * x->size(1);
  for (int d = 0; d < 2; ++d) {
    if (kernel[d] < 1 || stride[d] < 1 || dilation[d] < 1)
      value_error("max_pool2d: kernel_size, stride and dilation must be positive, but got %s, %s and %s",
                  format_dims(kernel).c_str(), format_dims(stride).c_str(), format_dims(dilation).c_str());
    if (padding[d] < 0 || 2 * padding[d] > kernel[d])
      runtime_error("max_pool2d: pad should be smaller than half of kernel size, but got padding %s for kernel %s",
                    format_dims(padding).c_str(), format_dims(kernel).c_str());
    w.size[d] = x->size(2 + d);
    w.kernel[d] = kernel[d];
    w.stride[d] = stride[d];
    w.padding[d] = padding[d];
    w.dilation[d] = dilation[d];
    int64_t span = w.size[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    if (span < 0)
      runtime_error("max_pool2d: the kernel of size %s is larger than the padded input of size %s",
                    format_dims(kernel).c_str(), format_dims(x->sizes()).c_str());
    w.out[d] = (span + (ceil_mode ? stride[d] - 1 : 0)) / stride[d] + 1;
    // The last window starts inside the image or its left border.
    if (ceil_mode && (w.out[d] - 1) * stride[d] >= w.size[d] + padding[d]) --w.out[d];
  }
  return w;
}

// Results: the maxima and their flat positions in each plane.
Outputs max_pool2d_forward(Call& c) {
  PyRef<Tensor> x = floating_operand(c.tensor(0), "max_pool2d", "self");
  kernels::Window w = pool_window(c, x.get());
  Sizes sizes{x->size(0), x->size(1), w.out[0], w.out[1]};
  PyRef<Tensor> y = new_tensor(x->dtype, sizes), index = new_tensor(DType::Long, sizes);
  {
    GilRelease unlocked(x->numel);
    int64_t plane_in = w.size[0] * w.size[1], plane_out = w.positions();
    kernels::parallel_for(w.channels, std::max<int64_t>(1, 32768 / std::max<int64_t>(plane_in, 1)),
                          [&](int64_t begin, int64_t end) {
                            kernels::Window part = w;
                            part.channels = end - begin;
                            by_type(x->dtype, [&]<class T>(T) {
                              kernels::max_pool(part, x->ptr<T>() + begin * plane_in, y->ptr<T>() + begin * plane_out,
                                                index->ptr<int64_t>() + begin * plane_out);
                            });
                          });
  }
  return {to_dtype(y.get(), c.tensor(0)->dtype), std::move(index)};
}

Value zeros_beside(Backward& b, const Sizes& sizes) {
  return b.recording() ? call<"zeros_of">(b.grad(), sizes) : Value(new_zeros(b.grad().dtype(), sizes));
}

void max_pool2d_backward(Backward& b) {
  Sizes sizes = b.sizes(0);
  Value planes = call<"reshape">(b.grad(), Sizes{sizes[0], sizes[1], -1});
  Value index = call<"reshape">(b.output(1), Sizes{sizes[0], sizes[1], -1});
  Value zeros = zeros_beside(b, Sizes{sizes[0], sizes[1], sizes[2] * sizes[3]});
  b.set(0, call<"reshape">(call<"scatter_add">(zeros, 2, index, planes), sizes));
}

}  // namespace

std::vector<Row> conv_rows() {
  return {
      {"conv2d(Tensor input, Tensor weight, Tensor? bias=None, ints stride=1, ints padding=0, ints dilation=1, "
       "int groups=1)",
       "Cross-correlation of input (N, C, H, W) with weight (O, C / groups, h, w), plus bias (O,): (N, O, H', W').",
       types::conv2d,
       conv2d_forward,
       conv2d_backward,
       {in(1) | kGeometry, in(0) | kGeometry, 0},
       kKeepSizes | kNoMethod},
      {"conv2d_input(Tensor self, Tensor weight, ints sizes, ints stride, ints padding, ints dilation, int groups)",
       "Gradient of conv2d for its input, which has the given sizes.",
       types::conv2d_gradient,
       conv2d_input_forward,
       conv2d_input_backward,
       {in(1) | kGeometry, in(0) | kGeometry},
       kKeepSizes | kHidden},
      {"conv2d_weight(Tensor self, Tensor grad, ints sizes, ints stride, ints padding, ints dilation, int groups)",
       "Gradient of conv2d for its weight, which has the given sizes.",
       types::conv2d_gradient,
       conv2d_weight_forward,
       conv2d_weight_backward,
       {in(1) | kGeometry, in(0) | kGeometry},
       kKeepSizes | kHidden},
      {.signature = "max_pool2d(Tensor self, ints kernel_size, ints? stride=None, ints padding=0, ints dilation=1, "
                    "bool ceil_mode=False)",
       .doc =
           "Largest element under a window that moves over each plane of self (N, C, H, W), and the flat position of "
           "each in its plane.",
       .types = types::max_pool2d,
       .forward = max_pool2d_forward,
       .backward = max_pool2d_backward,
       .uses = {out(1)},
       .flags = kKeepSizes | kNoMethod,
       .outputs = 2,
       .non_differentiable = 2},
  };
}

}  // namespace torchlite
