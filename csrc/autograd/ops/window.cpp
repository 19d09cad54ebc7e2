#include "autograd/ops/window.h"

#include <algorithm>

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;

// Argument i with a number for each of `n` dimensions: an int stands for all of them.
Sizes numbers(const Op& op, PyObject* const* args, int i, int n) {
  Sizes v = parse_dims(args[i]);
  if (v.size() == 1) v.resize(static_cast<size_t>(n), v[0]);
  if (v.size() != static_cast<size_t>(n))
    value_error("%s: argument '%s' must be an int or %d ints for an input of %d dimensions, but has %zu",
                op.name.c_str(), op.params[static_cast<size_t>(i)].name.c_str(), n, n + 2, v.size());
  return v;
}

void require_dimensions(const char* name, int ndim) {
  if (ndim < 3 || ndim > 5)
    runtime_error("%s: expected 3D, 4D or 5D tensor (N, C, ...), but got %d dimensions", name, ndim);
}

int64_t least(const Sizes& v) { return *std::min_element(v.begin(), v.end()); }

void require_valid(const char* name, const ConvGeometry& g) {
  if (least(g.padding) < 0) runtime_error("negative padding is not supported");
  if (least(g.output_padding) < 0) runtime_error("negative output_padding is not supported");
  if (least(g.stride) < 1 || least(g.dilation) < 1 || g.groups < 1)
    value_error("%s: stride, dilation and groups must be positive, but got %s, %s and %lld", name,
                format_dims(g.stride).c_str(), format_dims(g.dilation).c_str(), static_cast<long long>(g.groups));
}

void require_weight(const char* name, const ConvGeometry& g, Dims input, Dims weight) {
  bool fits =
      weight.n == input.n && weight[0] % g.groups == 0 && input[1] == (g.transposed ? weight[0] : weight[1] * g.groups);
  if (!fits)
    runtime_error("%s: weight of size %s does not fit %sinput of size %s with %lld groups", name,
                  format_dims(weight).c_str(), g.transposed ? "transposed " : "", format_dims(input).c_str(),
                  static_cast<long long>(g.groups));
}

// How far apart the first and last place of a window of `kernel` points are in dimension d.
int64_t extent(const ConvGeometry& g, size_t d, int64_t kernel) { return g.dilation[d] * (kernel - 1) + 1; }

}  // namespace

ConvGeometry conv_geometry(const Op& op, PyObject* const* args, int ndim) {
  require_dimensions(op.name.c_str(), ndim);
  int n = ndim - 2;
  ConvGeometry g{n,
                 numbers(op, args, 3, n),
                 numbers(op, args, 4, n),
                 numbers(op, args, 5, n),
                 numbers(op, args, 7, n),
                 args[6] == Py_True,
                 constant_to_int(args[8])};
  require_valid(op.name.c_str(), g);
  return g;
}

ConvGeometry conv_backward_geometry(const Op& op, PyObject* const* args, int ndim) {
  require_dimensions(op.name.c_str(), ndim);
  int n = ndim - 2;
  ConvGeometry g{n,
                 numbers(op, args, 4, n),
                 numbers(op, args, 5, n),
                 numbers(op, args, 6, n),
                 Sizes(static_cast<size_t>(n)),
                 args[7] == Py_True,
                 constant_to_int(args[8])};
  require_valid(op.name.c_str(), g);
  return g;
}

bool conv_argument(const Op& op, PyObject* const* args) {
  int64_t argument = constant_to_int(args[2]);
  if (argument != 0 && argument != 1)
    value_error("%s: argument must be 0 or 1, but is %lld", op.name.c_str(), static_cast<long long>(argument));
  return argument == 1;
}

Sizes conv_sizes(const char* name, const ConvGeometry& g, Dims input, Dims weight) {
  require_weight(name, g, input, weight);
  Sizes out{input[0], g.transposed ? weight[1] * g.groups : weight[0]};
  for (size_t d = 0; d < static_cast<size_t>(g.n); ++d) {
    int at = static_cast<int>(d) + 2;
    if (!g.transposed) {
      int64_t span = input[at] + 2 * g.padding[d] - extent(g, d, weight[at]);
      if (span < 0)
        runtime_error("%s: the kernel of size %s is larger than the padded input of size %s", name,
                      format_dims(weight).c_str(), format_dims(input).c_str());
      out.push_back(span / g.stride[d] + 1);
      continue;
    }
    if (g.output_padding[d] >= std::max(g.stride[d], g.dilation[d]))
      runtime_error(
          "%s: output_padding must be smaller than stride or dilation, but got %s for stride %s and dilation %s", name,
          format_dims(g.output_padding).c_str(), format_dims(g.stride).c_str(), format_dims(g.dilation).c_str());
    int64_t size = (input[at] - 1) * g.stride[d] - 2 * g.padding[d] + extent(g, d, weight[at]) + g.output_padding[d];
    if (size < 1)
      runtime_error("%s: the transposed input of size %s with a kernel of size %s lies within the padding %s", name,
                    format_dims(input).c_str(), format_dims(weight).c_str(), format_dims(g.padding).c_str());
    out.push_back(size);
  }
  return out;
}

Convolution::Convolution(const char* name, const ConvGeometry& g, Dims image, Dims weight, Dims map)
    : window{}, images(image.n ? image[0] : 0), groups(g.groups), features(weight.n ? weight[0] / g.groups : 0) {
  bool fits = weight.n == g.n + 2 && image.n == weight.n && map.n == weight.n && image[0] == map[0] &&
              map[1] == weight[0] && image[1] == weight[1] * g.groups && weight[0] % g.groups == 0;
  window.channels = weight.n > 1 ? weight[1] : 0;
  for (int d = 0; d < kernels::Window::kDims; ++d) {
    window.size[d] = window.out[d] = window.kernel[d] = window.stride[d] = window.dilation[d] = 1;
    int k = d - (kernels::Window::kDims - g.n);
    if (k < 0 || !fits) continue;
    size_t of = static_cast<size_t>(k);
    window.size[d] = image[k + 2];
    window.out[d] = map[k + 2];
    window.kernel[d] = weight[k + 2];
    window.stride[d] = g.stride[of];
    window.padding[d] = g.padding[of];
    window.dilation[d] = g.dilation[of];
    // A transposed convolution's output_padding may leave room for further positions.
    int64_t span = image[k + 2] + 2 * g.padding[of] - extent(g, of, weight[k + 2]);
    int64_t room = span < 0 ? 0 : span / g.stride[of] + 1;
    fits = g.transposed ? map[k + 2] <= room : map[k + 2] == room;
  }
  if (!fits)
    runtime_error("%s: sizes %s, %s and %s are not those of an input, a weight and a result of %s", name,
                  format_dims(g.transposed ? map : image).c_str(), format_dims(weight).c_str(),
                  format_dims(g.transposed ? image : map).c_str(),
                  g.transposed ? "a transposed convolution" : "a convolution");
}

bool Convolution::pointwise() const {
  for (int d = 0; d < kernels::Window::kDims; ++d)
    if (window.kernel[d] != 1 || window.stride[d] != 1 || window.padding[d] != 0 || window.size[d] != window.out[d])
      return false;
  return true;
}

kernels::Window pool_window(const Op& op, PyObject* const* args, int first, bool dilated, bool ceil_mode, Dims x) {
  const char* name = op.name.c_str();
  require_dimensions(name, x.n);
  int n = x.n - 2;
  Sizes kernel = numbers(op, args, first, n),
        stride = args[first + 1] == Py_None ? kernel : numbers(op, args, first + 1, n),
        padding = numbers(op, args, first + 2, n),
        spread = dilated ? numbers(op, args, first + 3, n) : Sizes(static_cast<size_t>(n), 1);
  if (std::min({least(kernel), least(stride), least(spread)}) < 1)
    value_error("%s: kernel_size, stride and dilation must be positive, but got %s, %s and %s", name,
                format_dims(kernel).c_str(), format_dims(stride).c_str(), format_dims(spread).c_str());
  kernels::Window w{};
  w.channels = x[0] * x[1];
  for (int d = 0; d < kernels::Window::kDims; ++d) {
    w.size[d] = w.out[d] = w.kernel[d] = w.stride[d] = w.dilation[d] = 1;
    int k = d - (kernels::Window::kDims - n);
    if (k < 0) continue;
    size_t of = static_cast<size_t>(k);
    if (padding[of] < 0 || 2 * padding[of] > kernel[of])
      runtime_error("%s: pad should be smaller than half of kernel size, but got padding %s for kernel %s", name,
                    format_dims(padding).c_str(), format_dims(kernel).c_str());
    w.size[d] = x[k + 2];
    w.kernel[d] = kernel[of];
    w.stride[d] = stride[of];
    w.padding[d] = padding[of];
    w.dilation[d] = spread[of];
    int64_t span = w.size[d] + 2 * padding[of] - spread[of] * (kernel[of] - 1) - 1;
    if (span < 0)
      runtime_error("%s: the kernel of size %s is larger than the padded input of size %s", name,
                    format_dims(kernel).c_str(), format_dims(x).c_str());
    w.out[d] = (span + (ceil_mode ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
    // The last window starts inside the image or its left border.
    if (ceil_mode && (w.out[d] - 1) * w.stride[d] >= w.size[d] + padding[of]) --w.out[d];
  }
  return w;
}

Sizes pool_sizes(const kernels::Window& w, Dims x) {
  Sizes sizes{x[0], x[1]};
  for (int d = kernels::Window::kDims - (x.n - 2); d < kernels::Window::kDims; ++d) sizes.push_back(w.out[d]);
  return sizes;
}

void require_pool_gradient(const char* name, const kernels::Window& w, Dims x, Dims grad) {
  Sizes expected = pool_sizes(w, x);
  if (!(grad == Dims(expected)))
    runtime_error("%s: the gradient has size %s, but the result has size %s", name, format_dims(grad).c_str(),
                  format_dims(expected).c_str());
}

}  // namespace torchlite
