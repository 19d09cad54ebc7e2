// Copies, fills and casts.
#include "autograd/ops/elementwise.h"
#include "autograd/ops/types.h"
#include "tensor/cuda.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

// The tensor to write: in place, or a new one like self.
PyRef<Tensor> target(Call& c) {
  if (!c.out) return new_tensor(c.tensor(0)->dtype, c.tensor(0)->sizes(), c.tensor(0)->device());
  require_writable(c.out, c.name());
  return PyRef<Tensor>::borrow(c.out);
}

void fill(Tensor* x, PyObject* value) {
  static NumpyFunction copyto("copyto");
  double v;
  if (is_loop_type(x->dtype) && x->contiguous && on_host(x) && exact_number(value, &v)) {
    GilRelease unlocked(x->numel);
    with_elements(x,
                  [&](auto* p) { kernels::fill(static_cast<std::remove_reference_t<decltype(*p)>>(v), p, x->numel); });
    return;
  }
  if (!on_host(x)) return cuda->fill(x, value);
  call_numpy(copyto.get(), {numpy_view(x), value});
}

// src into out: same size, broadcast or, as the era did, any size with as many elements, in order.
Outputs copy_forward(Call& c) {
  PyRef<Tensor> written = target(c);
  Tensor *dst = written.get(), *src = c.tensor(1);
  bool broadcast = c.boolean(2);
  if (src->sizes() == dst->sizes()) {
    if (src->contiguous && dst->contiguous && src->dtype == dst->dtype && on_host(src) && on_host(dst)) {
      if (dst->numel) std::memmove(dst->bytes(), src->bytes(), static_cast<size_t>(dst->numel * itemsize(dst->dtype)));
    } else {
      copy_into(dst, src);
    }
    return written;
  }
  copy_elements(dst, src, broadcast, "copy_");
  return written;
}

}  // namespace

std::span<const Row> copy_rows() {
  static const std::vector<Row> rows = {
      {.signature = "fill(Tensor self, Scalar value)",
       .doc = "Sets every element to `value`.",
       .types = types::same,
       .forward = [](Call& c) -> Outputs {
         PyRef<Tensor> y = target(c);
         fill(y.get(), c.args[1]);
         return y;
       },
       .backward = [](Backward& b) { b.set(0, zeros_like(b.grad())); },
       .flags = kInPlaceOnly | kNoFunction},
      {.signature = "zero(Tensor self)",
       .doc = "Sets every element to 0.",
       .types = types::same,
       .forward = [](Call& c) -> Outputs {
         PyRef<Tensor> y = target(c);
         if (y->contiguous && on_host(y.get())) {
           if (y->numel) std::memset(y->bytes(), 0, static_cast<size_t>(y->numel * itemsize(y->dtype)));
         } else {
           PyRef<> number = check(PyLong_FromLong(0));
           fill(y.get(), number.get());
         }
         return y;
       },
       .backward = [](Backward& b) { b.set(0, zeros_like(b.grad())); },
       .flags = kInPlaceOnly | kNoFunction},
      {.signature = "copy(Tensor self, Tensor src, bool broadcast=True)",
       .doc = "Copies src into self, converting its type and broadcasting it. A size that does not broadcast but has "
              "as many elements is copied in order, with a UserWarning if `broadcast`.",
       .types = types::copy,
       .forward = copy_forward,
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, zeros_like(b.grad()));
             if (b.needs(1)) b.set(1, b.grad());
           },
       .flags = kInPlaceOnly | kNoFunction},
      {.signature = "clone(Tensor self)",
       .doc = "A contiguous copy.",
       .types = types::same,
       .forward = [](Call& c) -> Outputs { return clone(c.tensor(0)); },
       .backward = [](Backward& b) { b.set(0, b.grad()); }},
      {.signature = "zeros_of(Tensor self, ints sizes)",
       .doc = "Zeros of the given sizes and of the type of self: a constant in gradients.",
       .types = types::given_sizes,
       .forward = [](Call& c) -> Outputs { return new_zeros(c.tensor(0)->dtype, c.ints(1), c.tensor(0)->device()); },
       .flags = kHidden},
      {.signature = "detach(Tensor self)",
       .doc = "A leaf on the same memory that needs no gradient.",
       .types = types::same,
       .forward = [](Call& c) -> Outputs { return alias(c.tensor(0)); },
       .flags = kView | kLeaf | kHidden},
      {.signature = "to_device(Tensor self, int device)",
       .doc = "A copy on the CUDA device of that number, -1 being the host; the gradient is copied back.",
       .types = types::to_device,
       .forward = [](Call& c) -> Outputs {
         Tensor* self = c.tensor(0);
         int64_t device = c.integer(1);
         if (device < kCPU || device > INT16_MAX) value_error("to_device: there is no device %S", c.args[1]);
         PyRef<Tensor> y = new_tensor(self->dtype, self->sizes(), static_cast<Device>(device));
         copy_into(y.get(), self);
         return y;
       },
       .backward = [](Backward& b) { b.set(0, call<"to_device">(b.grad(), static_cast<int64_t>(b.device(0)))); },
       .flags = kHidden | kKeepSizes},
      {.signature = "cast(Tensor self, int dtype)",
       .doc = "A copy in the element type numbered `dtype`; the gradient is cast back.",
       .types = types::cast,
       .forward = [](Call& c) -> Outputs {
         int64_t type = c.integer(1);
         if (type < 0 || type >= kDTypes) value_error("cast: no element type has number %S", c.args[1]);
         PyRef<Tensor> y = to_dtype(c.tensor(0), static_cast<DType>(type));
         return y.get() == c.tensor(0) ? clone(y.get()) : std::move(y);
       },
       .backward = [](Backward& b) { b.set(0, b.grad()); },
       .flags = kHidden,
       .display_name = "Type"},
  };
  return rows;
}

}  // namespace torchlite
