// Rows that read and write parts of a tensor named by keys, index tensors or masks.
//
// Reading and adding at the same positions are each other's gradient; a write's gradient is zero at the written
// positions for the tensor written to, and what was read there for the value.
#include "autograd/ops/backcompat.h"
#include "autograd/ops/op.h"
#include "autograd/ops/types.h"
#include "tensor/index_kernels.h"
#include "tensor/indexing.h"
#include "tensor/views.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;

// Zeros beside the gradient.
Value zeros(Backward& b, const Sizes& sizes) {
  if (b.recording()) return call<"zeros_of">(b.grad(), sizes);
  return Value(new_zeros(b.grad().dtype(), sizes, b.grad().tensor()->device()));
}

// `g` for an argument of size `sizes` that was broadcast as NumPy's assignment does: further leading ones are allowed.
Value sum_to_value(Value g, const Sizes& sizes) {
  if (g.sizes() == Dims(sizes)) return g;
  if (g.sizes().product() != Dims(sizes).product()) {
    size_t ones = 0;
    while (ones < sizes.size() && sizes[ones] == 1) ++ones;
    g = call<"sum_to">(g, Sizes(sizes.begin() + static_cast<std::ptrdiff_t>(ones), sizes.end()));
  }
  return call<"reshape">(g, sizes);
}

// Runs f(target) on a contiguous tensor with the contents of argument 0: the tensor written in place where that is
// possible, else a copy. `source`, if any, is a tensor that f reads.
template <class F>
Outputs written(Call& c, const Tensor* source, F&& f) {
  bool direct = c.out && c.out->contiguous && !(source && source->storage.get() == c.out->storage.get());
  PyRef<Tensor> target = direct ? PyRef<Tensor>::borrow(c.out) : clone(c.tensor(0));
  f(target.get());
  return target;
}

// ---- keys ---------------------------------------------------------------------------------------------------------

// The key with NumPy arrays in place of its "@k" (Note [Index keys]).
PyRef<> resolve_key(PyObject* key, PyObject* indices) {
  Py_ssize_t n = PyTuple_GET_SIZE(key);
  PyRef<> out = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* item = PyTuple_GET_ITEM(key, i);
    PyRef<> resolved = PyRef<>::borrow(item);
    if (PyUnicode_Check(item)) {
      const char* text = PyUnicode_AsUTF8(item);
      if (!text) throw PyError();
      Py_ssize_t k = text[0] == '@' ? std::atoi(text + 1) : -1;
      if (k < 0 || k >= PyTuple_GET_SIZE(indices))
        index_error("index: the key names '%s', but there are %zd index tensors", text, PyTuple_GET_SIZE(indices));
      Tensor* t = as_tensor(PyTuple_GET_ITEM(indices, k));
      // On a device the tensor stands for itself: index_tensor takes its array.
      PyObject* array = t->device() == kCPU ? numpy_view(t) : t;
      resolved =
          t->dtype == DType::Byte && t->device() == kCPU
              ? check(PyArray_CastToType(reinterpret_cast<PyArrayObject*>(array), PyArray_DescrFromType(NPY_BOOL), 0))
              : PyRef<>::borrow(array);
    }
    PyTuple_SET_ITEM(out.get(), i, resolved.release());
  }
  return out;
}

PyObject* key_argument(Call& c, int i) {
  if (!PyTuple_Check(c.args[i])) type_error("%s: the key must be a tuple, not %.100s", c.name(), type_name(c.args[i]));
  return c.args[i];
}

Outputs index_forward(Call& c) {
  Tensor* self = c.tensor(0);
  bool is_view;
  PyRef<Tensor> part = index_tensor(self, resolve_key(key_argument(c, 1), c.args[2]).get(), &is_view);
  if (part->ndim == 0 && self->ndim > 0) {
    int64_t one = 1;
    part = views::view(part.get(), {&one, 1});
  }
  return part;
}
void index_backward(Backward& b) { b.set(0, call<"index_backward">(b.grad(), b.sizes(0), b.value(1), b.value(2))); }

Outputs index_backward_forward(Call& c) {
  PyRef<Tensor> part = PyRef<Tensor>::borrow(c.tensor(0));
  PyRef<Tensor> whole = new_zeros(part->dtype, c.ints(1));
  PyObject* key = key_argument(c, 2);
  std::vector<Tensor*> indices = c.tensors(3);
  bool repeats = false;  // a mask names each position once
  for (Tensor* t : indices) repeats = repeats || t->dtype != DType::Byte;
  if (repeats && PyTuple_GET_SIZE(key) == 1 && whole->ndim > 0) {
    // One index tensor for dimension 0: rows.
    PyRef<Tensor> flat_index = views::reshape(indices[0], Sizes{-1});
    Sizes rows(whole->sizes().begin(), whole->sizes().end());
    rows[0] = flat_index->numel;
    PyRef<Tensor> flat_part = views::reshape(part.get(), rows);
    index_put(whole.get(), 0, flat_index.get(), flat_part.get(), true, c.name());
    return whole;
  }
  if (part->numel == 1) part = views::reshape(part.get(), Sizes{});  // what the key means may be 0-d
  PyRef<> resolved = resolve_key(key, c.args[3]);
  // NumPy's ufunc.at trusts the sizes of what it is given.
  PyRef<Tensor> selected = tensor_from_result(check(PyObject_GetItem(numpy_view(whole.get()), resolved.get())));
  if (part->numel != 1 && !(selected->sizes() == part->sizes()))
    runtime_error("index_backward: the gradient has size %s, but the index selects size %s",
                  format_dims(part->sizes()).c_str(), format_dims(selected->sizes()).c_str());
  if (!repeats) {
    assign_index(whole.get(), resolved.get(), part.object());
  } else {
    add_at(whole.get(), resolved.get(), part.get());
  }
  return whole;
}
void index_backward_backward(Backward& b) {
  Value g = call<"index">(b.grad(), b.value(2), b.value(3));
  b.set(0, call<"reshape">(g, b.sizes(0)));
}

Outputs set_index_forward(Call& c) {
  PyRef<> key = resolve_key(key_argument(c, 1), c.args[2]);
  PyRef<Tensor> target = c.out ? PyRef<Tensor>::borrow(c.out) : clone(c.tensor(0));
  PyRef<> value = PyRef<>::borrow(c.args[3]);
  if (c.is_tensor(3) && c.tensor(3)->storage.get() == target->storage.get()) value = clone(c.tensor(3));
  assign_index(target.get(), key.get(), value.get());
  return target;
}
void set_index_backward(Backward& b) {
  Value key = b.value(1), indices = b.value(2);
  if (b.needs(0)) b.set(0, call<"set_index">(b.grad(), key, indices, 0));
  if (b.needs(3)) b.set(3, sum_to_value(call<"index">(b.grad(), key, indices), b.sizes(3)));
}

// ---- index tensors ------------------------------------------------------------------------------------------------

Outputs index_select_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return index_select(self, c.dim(1, self->ndim), c.tensor(2), c.name());
}
void index_select_backward(Backward& b) {
  Sizes sizes = b.sizes(0);
  if (sizes.empty()) b.set(0, call<"sum_to">(b.grad(), sizes));
  else b.set(0, call<"index_add">(zeros(b, sizes), b.integer(1), b.value(2), b.grad()));
}

Outputs index_add_forward(Call& c) {
  return written(c, c.tensor(3),
                 [&](Tensor* t) { index_put(t, c.dim(1, t->ndim), c.tensor(2), c.tensor(3), true, c.name()); });
}
void index_add_backward(Backward& b) {
  if (b.needs(0)) b.set(0, b.grad());
  if (b.needs(3)) b.set(3, call<"reshape">(call<"index_select">(b.grad(), b.integer(1), b.value(2)), b.sizes(3)));
}

Outputs index_copy_forward(Call& c) {
  return written(c, c.tensor(3),
                 [&](Tensor* t) { index_put(t, c.dim(1, t->ndim), c.tensor(2), c.tensor(3), false, c.name()); });
}
void index_copy_backward(Backward& b) {
  if (b.needs(0)) b.set(0, call<"index_fill">(b.grad(), b.integer(1), b.value(2), 0));
  if (b.needs(3)) b.set(3, call<"reshape">(call<"index_select">(b.grad(), b.integer(1), b.value(2)), b.sizes(3)));
}

Outputs index_fill_forward(Call& c) {
  return written(c, nullptr, [&](Tensor* t) { index_fill(t, c.dim(1, t->ndim), c.tensor(2), c.number(3), c.name()); });
}
void index_fill_backward(Backward& b) { b.set(0, call<"index_fill">(b.grad(), b.integer(1), b.value(2), 0)); }

Outputs gather_forward(Call& c) {
  Tensor* self = c.tensor(0);
  return gather(self, c.dim(1, self->ndim), c.tensor(2), c.name());
}
void gather_backward(Backward& b) {
  b.set(0, call<"scatter_add">(zeros(b, b.sizes(0)), b.integer(1), b.value(2), b.grad()));
}

Outputs scatter_forward(Call& c) {
  const Tensor* source = c.is_tensor(3) ? c.tensor(3) : nullptr;
  return written(c, source, [&](Tensor* t) {
    int dim = c.dim(1, t->ndim);
    if (c.is_tensor(3)) scatter(t, dim, c.tensor(2), c.tensor(3), false, c.name());
    else scatter_fill(t, dim, c.tensor(2), c.number(3), c.name());
  });
}
void scatter_backward(Backward& b) {
  if (b.needs(0)) b.set(0, call<"scatter">(b.grad(), b.integer(1), b.value(2), 0));
  if (b.needs(3)) b.set(3, call<"gather">(b.grad(), b.integer(1), b.value(2)));
}

Outputs scatter_add_forward(Call& c) {
  return written(c, c.tensor(3),
                 [&](Tensor* t) { scatter(t, c.dim(1, t->ndim), c.tensor(2), c.tensor(3), true, c.name()); });
}
void scatter_add_backward(Backward& b) {
  if (b.needs(0)) b.set(0, b.grad());
  if (b.needs(3)) b.set(3, call<"gather">(b.grad(), b.integer(1), b.value(2)));
}

// ---- masks --------------------------------------------------------------------------------------------------------

Outputs masked_select_forward(Call& c) {
  Tensor *self = c.tensor(0), *mask = c.tensor(1);
  PyRef<Tensor> paired_mask = paired(self, mask, false, "self and mask");
  if (paired_mask) mask = paired_mask.get();
  Sizes sizes = broadcast_sizes(self->sizes(), mask->sizes(), c.name());
  PyRef<Tensor> full_mask = expand_mask(mask, sizes, c.name());
  return masked_select(views::expand(self, sizes).get(), full_mask.get());
}
void masked_select_backward(Backward& b) {
  Value mask = b.value(1);
  Sizes sizes = paired_sizes("masked_select", b.sizes(0), mask.sizes());
  b.set(0, call<"masked_scatter">(zeros(b, sizes), paired_to(sizes, mask), b.grad()));
}

Outputs masked_scatter_forward(Call& c) {
  PyRef<Tensor> paired_mask = paired(c.args[0], c.args[1], true, "self and mask");
  PyRef<Tensor> mask = expand_mask(paired_mask ? paired_mask.get() : c.tensor(1), c.tensor(0)->sizes(), c.name());
  return written(c, c.tensor(2), [&](Tensor* t) { masked_scatter(t, mask.get(), c.tensor(2), c.name()); });
}
void masked_scatter_backward(Backward& b) {
  Value mask = paired_with(b.grad(), b.value(1));
  if (b.needs(0)) b.set(0, call<"masked_fill">(b.grad(), mask, 0));
  if (b.needs(2)) {
    Sizes sizes = b.sizes(2);
    Value used = call<"masked_select">(b.grad(), mask);
    int64_t numel = Dims(sizes).product();
    if (used.sizes()[0] != numel) used = call<"narrow_backward">(used, Sizes{numel}, 0, 0);
    b.set(2, call<"reshape">(used, sizes));
  }
}

}  // namespace

std::span<const Row> index_rows() {
  constexpr uint32_t kKey = in(1) | in(2);  // a key and its index tensors, or a dimension and its index
  static const std::vector<Row> rows = {
      {"index(Tensor self, any key, Tensor[] indices)",
       "self[key], the key's index tensors apart. A view for ints and slices, else a copy.",
       types::index,
       index_forward,
       index_backward,
       {kKey},
       kView | kKeepSizes | kHidden | kOpenSizes},
      {"index_backward(Tensor self, ints sizes, any key, Tensor[] indices)",
       "Zeros of `sizes` with self added at `key`.",
       types::given_sizes,
       index_backward_forward,
       index_backward_backward,
       {in(2) | in(3)},
       kKeepSizes | kHidden},
      {.signature = "set_index(Tensor self, any key, Tensor[] indices, Tensor|Scalar value)",
       .doc = "A copy of self with `value` at `key`.",
       .types = types::same,
       .forward = set_index_forward,
       .backward = set_index_backward,
       .uses = {kKey, 0, 0, kKey},
       .flags = kInPlace | kKeepSizes | kHidden,
       .display_name = "SetItem"},

      {"index_select(Tensor self, int dim, Tensor index)",
       "The slices of self along `dim` that a 1-d LongTensor names.",
       types::index_select,
       index_select_forward,
       index_select_backward,
       {kKey},
       kKeepSizes},
      {"index_add(Tensor self, int dim, Tensor index, Tensor source)",
       "self with the slices of `source` added at the slices that `index` names; repeated indices add up.",
       types::index_put,
       index_add_forward,
       index_add_backward,
       {0, 0, 0, kKey},
       kInPlace | kKeepSizes},
      {"index_copy(Tensor self, int dim, Tensor index, Tensor source)",
       "self with the slices that `index` names replaced by those of `source`.",
       types::index_put,
       index_copy_forward,
       index_copy_backward,
       {kKey, 0, 0, kKey},
       kInPlace | kKeepSizes},
      {"index_fill(Tensor self, int dim, Tensor index, Scalar value)",
       "self with the slices that `index` names filled.",
       types::index_fill,
       index_fill_forward,
       index_fill_backward,
       {kKey},
       kInPlace},
      {"gather(Tensor self, int dim, Tensor index)",
       "The elements that `index` names along `dim`: out[i, j] = self[index[i, j], j] for dim 0.",
       types::gather,
       gather_forward,
       gather_backward,
       {kKey},
       kKeepSizes},
      {"scatter(Tensor self, int dim, Tensor index, Tensor|Scalar src)",
       "self with src[i, j] written at [index[i, j], j] (for dim 0).",
       types::scatter,
       scatter_forward,
       scatter_backward,
       {kKey, 0, 0, kKey},
       kInPlace | kKeepSizes},
      {"scatter_add(Tensor self, int dim, Tensor index, Tensor src)",
       "self with src[i, j] added at [index[i, j], j] (for dim 0).",
       types::scatter,
       scatter_add_forward,
       scatter_add_backward,
       {0, 0, 0, kKey},
       kInPlace | kKeepSizes},
      {"masked_select(Tensor self, Tensor mask)",
       "The elements where a ByteTensor mask is 1, as a 1-d tensor.",
       types::masked_select,
       masked_select_forward,
       masked_select_backward,
       {in(1)},
       kKeepSizes | kOpenSizes},
      {"masked_scatter(Tensor self, Tensor mask, Tensor source)",
       "self with the elements where `mask` is 1 replaced by those of `source`, in order.",
       types::masked_scatter,
       masked_scatter_forward,
       masked_scatter_backward,
       {in(1), 0, in(1)},
       kInPlace | kKeepSizes},
  };
  return rows;
}

}  // namespace torchlite
