// Pooling rows, over one to three dimensions.
#include "tensor/kernels/pool.h"

#include <algorithm>

#include "autograd/ops/nn.h"
#include "autograd/ops/types.h"
#include "autograd/ops/window.h"
#include "tensor/kernels/parallel.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;

// Calls body(window over channels [begin, end), begin) for ranges that together are all of them.
template <class Body>
void over_channels(const kernels::Window& w, const Body& body) {
  kernels::parallel_for(w.channels, std::max<int64_t>(1, 32768 / std::max<int64_t>(w.volume(), 1)),
                        [&](int64_t begin, int64_t end) {
                          kernels::Window part = w;
                          part.channels = end - begin;
                          body(part, begin);
                        });
}

// Results: the maxima and their flat positions in each plane.
Outputs max_pool_nd_forward(Call& c) {
  PyRef<Tensor> x = floating_operand(c.tensor(0), c.name(), "self");
  kernels::Window w = pool_window(c.op, c.args, 1, true, c.boolean(5), x->sizes());
  Sizes sizes = pool_sizes(w, x->sizes());
  PyRef<Tensor> y = new_tensor(x->dtype, sizes), index = new_tensor(DType::Long, sizes);
  {
    GilRelease unlocked(x->numel);
    with_float(x->dtype, [&]<class T>() {
      over_channels(w, [&](const kernels::Window& part, int64_t begin) {
        int64_t at = begin * w.positions();
        kernels::max_pool(part, x->ptr<T>() + begin * w.volume(), y->ptr<T>() + at, index->ptr<int64_t>() + at);
      });
    });
  }
  return {to_dtype(y.get(), c.tensor(0)->dtype), std::move(index)};
}

void max_pool_nd_backward(Backward& b) {
  Sizes sizes = b.sizes(0);
  Value planes = call<"reshape">(b.grad(), planes_of(b.grad().sizes()));
  Value index = call<"reshape">(b.output(1), planes_of(b.grad().sizes()));
  Sizes flat = planes_of(sizes);
  Value zeros = b.recording() ? call<"zeros_of">(b.grad(), flat)
                              : Value(new_zeros(b.grad().dtype(), flat, b.grad().tensor()->device()));
  b.set(0, call<"reshape">(call<"scatter_add">(zeros, 2, index, planes), sizes));
}

Outputs avg_pool_nd_forward(Call& c) {
  PyRef<Tensor> x = floating_operand(c.tensor(0), c.name(), "self");
  kernels::Window w = pool_window(c.op, c.args, 1, false, c.boolean(4), x->sizes());
  PyRef<Tensor> y = new_tensor(x->dtype, pool_sizes(w, x->sizes()));
  {
    GilRelease unlocked(x->numel);
    with_float(x->dtype, [&]<class T>() {
      over_channels(w, [&](const kernels::Window& part, int64_t begin) {
        kernels::avg_pool(part, c.boolean(5), x->ptr<T>() + begin * w.volume(), y->ptr<T>() + begin * w.positions());
      });
    });
  }
  return to_dtype(y.get(), c.tensor(0)->dtype);
}

// The mean is linear: its gradient is its transpose, and the gradient of that the mean again.
void avg_pool_nd_backward(Backward& b) {
  b.set(0,
        call<"avg_pool_nd_backward">(b.grad(), b.sizes(0), b.value(1), b.value(2), b.value(3), b.value(4), b.value(5)));
}

Outputs avg_pool_nd_backward_forward(Call& c) {
  PyRef<Tensor> g = floating_operand(c.tensor(0), c.name(), "grad");
  Sizes sizes = c.ints(1);
  kernels::Window w = pool_window(c.op, c.args, 2, false, c.boolean(5), sizes);
  require_pool_gradient(c.name(), w, sizes, g->sizes());
  PyRef<Tensor> dx = new_zeros(g->dtype, sizes);
  {
    GilRelease unlocked(dx->numel);
    with_float(g->dtype, [&]<class T>() {
      over_channels(w, [&](const kernels::Window& part, int64_t begin) {
        kernels::avg_pool_backward(part, c.boolean(6), g->ptr<T>() + begin * w.positions(),
                                   dx->ptr<T>() + begin * w.volume());
      });
    });
  }
  return to_dtype(dx.get(), c.tensor(0)->dtype);
}

void avg_pool_nd_backward_backward(Backward& b) {
  b.set(0, call<"avg_pool_nd">(b.grad(), b.value(2), b.value(3), b.value(4), b.value(5), b.value(6)));
}

}  // namespace

std::vector<Row> pool_rows() {
  constexpr uint32_t kConstants = in(1) | in(2) | in(3) | in(4) | in(5);
  return {
      {.signature = "max_pool_nd(Tensor self, ints kernel_size, ints? stride=None, ints padding=0, ints dilation=1, "
                    "bool ceil_mode=False)",
       .doc = "Largest element under a window that moves over each plane of self (N, C, ...), in one to three "
              "dimensions, and the flat position of each in its plane.",
       .types = types::max_pool_nd,
       .forward = max_pool_nd_forward,
       .backward = max_pool_nd_backward,
       .uses = {out(1)},
       .flags = kKeepSizes | kNoMethod,
       .outputs = 2,
       .non_differentiable = 2},
      {.signature = "avg_pool_nd(Tensor self, ints kernel_size, ints? stride=None, ints padding=0, "
                    "bool ceil_mode=False, bool count_include_pad=True)",
       .doc = "Mean under a window that moves over each plane of self (N, C, ...), in one to three dimensions. The "
              "padding counts as zeros if `count_include_pad`, else not at all.",
       .types = types::avg_pool_nd,
       .forward = avg_pool_nd_forward,
       .backward = avg_pool_nd_backward,
       .uses = {kConstants},
       .flags = kKeepSizes | kNoMethod},
      {.signature = "avg_pool_nd_backward(Tensor grad, ints sizes, ints kernel_size, ints? stride, ints padding, "
                    "bool ceil_mode, bool count_include_pad)",
       .doc = "The gradient of avg_pool_nd for an input of the given sizes.",
       .types = types::avg_pool_nd_backward,
       .forward = avg_pool_nd_backward_forward,
       .backward = avg_pool_nd_backward_backward,
       .uses = {kConstants | in(6)},
       .flags = kKeepSizes | kHidden},
  };
}

}  // namespace torchlite
