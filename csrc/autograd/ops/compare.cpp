// Comparisons, logic on masks, and what masks choose: where, masked_fill, clamp.
#include <functional>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/types.h"
#include "tensor/kernels/select.h"
#include "utils/numpy_api.h"

namespace torchlite {

using kernels::BinaryKind;

namespace {

NumpyFunction np_not_equal("not_equal"), np_where("where"), np_copyto("copyto"), np_maximum("maximum"),
    np_minimum("minimum");

// An operand of a loop: the elements of a tensor, or a number standing for all of them.
struct Operand {
  double as_double;
  float as_float;
  Tensor* tensor = nullptr;

  // False if `o` is neither a number nor a contiguous tensor of the type and sizes.
  bool set(PyObject* o, const Tensor* like) {
    if (!is_tensor(o)) {
      // A number takes the type of the tensor beside it, as in NumPy.
      if (!exact_number(o, &as_double)) return false;
      as_float = static_cast<float>(as_double);
      return true;
    }
    tensor = as_tensor(o);
    return tensor->dtype == like->dtype && tensor->contiguous && on_host(tensor) && tensor->sizes() == like->sizes();
  }
  int step() const { return tensor ? 1 : 0; }
  template <class T>
  const T* data() const {
    if (tensor) return tensor->ptr<T>();
    if constexpr (std::is_same_v<T, float>) {
      return &as_float;
    } else {
      return &as_double;
    }
  }
};

// Elements up to which a plain loop costs less than calling NumPy's, which is vectorised.
inline constexpr int64_t kShortCompare = 512;

template <OpName Name, class F>
Outputs compare_forward(Call& c) {
  static NumpyFunction f(Name.text);
  PyObject *a = c.args[0], *b = c.args[1];
  Tensor* like = is_tensor(a) ? as_tensor(a) : is_tensor(b) ? as_tensor(b) : nullptr;
  Operand x, y;
  if (like && is_loop_type(like->dtype) && like->numel <= kShortCompare && x.set(a, like) && y.set(b, like)) {
    PyRef<Tensor> result = new_tensor(DType::Byte, like->sizes());
    with_elements(like, [&](auto* p) {
      using T = std::remove_reference_t<decltype(*p)>;
      const T *l = x.data<T>(), *r = y.data<T>();
      uint8_t* q = result->ptr<uint8_t>();
      for (int64_t i = 0; i < like->numel; ++i) q[i] = F()(l[i * x.step()], r[i * y.step()]);
    });
    return result;
  }
  return apply_binary(c.name(), f, a, b);
}

template <OpName Name>
Outputs bitwise_forward(Call& c) {
  static NumpyFunction f(Name.text);
  for (int i : {0, 1}) {
    PyObject* o = c.args[i];
    if (is_tensor(o) ? is_floating(as_tensor(o)->dtype) : PyFloat_Check(o))
      types::refuse_fractions(c.name(), i ? "other" : "self", type_name(o));
  }
  return apply_binary(c.name(), f, c.args[0], c.args[1], c.out);
}

// A mask as NumPy's bool.
PyRef<> bool_mask(Tensor* mask) {
  PyRef<> zero = check(PyLong_FromLong(0));
  return call_numpy(np_not_equal.get(), {numpy_view(mask), zero.get()});
}

PyObject* numpy_operand(PyObject* o) { return is_tensor(o) ? numpy_view(as_tensor(o)) : o; }

Outputs where_forward(Call& c) {
  Tensor* mask = c.tensor(0);
  PyObject *a = c.args[1], *b = c.args[2];
  Tensor* like = is_tensor(a) ? as_tensor(a) : is_tensor(b) ? as_tensor(b) : nullptr;
  Operand x, y;
  if (like && is_loop_type(like->dtype) && mask->dtype == DType::Byte && mask->contiguous && on_host(mask) &&
      mask->sizes() == like->sizes() && x.set(a, like) && y.set(b, like)) {
    PyRef<Tensor> result = new_like(like);
    GilRelease unlocked(like->numel);
    with_elements(result.get(), [&](auto* q) {
      using T = std::remove_reference_t<decltype(*q)>;
      kernels::select<T>(mask->ptr<uint8_t>(), x.data<T>(), x.step(), y.data<T>(), y.step(), q, result->numel);
    });
    return result;
  }
  require_broadcast(c.name(), c.args[0], a, nullptr);
  require_broadcast(c.name(), c.args[0], b, nullptr);
  require_broadcast(c.name(), a, b, nullptr);
  PyRef<> condition = bool_mask(mask);
  return tensor_from_result(call_numpy(np_where.get(), {condition.get(), numpy_operand(a), numpy_operand(b)}));
}

Outputs masked_fill_forward(Call& c) {
  Tensor *x = c.tensor(0), *mask = c.tensor(1);
  double value;
  bool is_number = exact_number(c.args[2], &value);
  // One pass where the result is new: the source is then x itself.
  bool loop = is_number && is_loop_type(x->dtype) && x->contiguous && mask->dtype == DType::Byte && mask->contiguous &&
              mask->sizes() == x->sizes() && on_host(x) && on_host(mask);
  if (loop) {
    if (c.out) require_writable(c.out, c.name());
    PyRef<Tensor> result = c.out ? PyRef<Tensor>::borrow(c.out) : new_like(x);
    GilRelease unlocked(result->numel);
    with_elements(result.get(), [&](auto* q) {
      using T = std::remove_reference_t<decltype(*q)>;
      T v = static_cast<T>(value);
      kernels::select<T>(mask->ptr<uint8_t>(), &v, 0, x->ptr<T>(), 1, q, result->numel);
    });
    return result;
  }
  PyRef<Tensor> result, paired_mask = paired(x, mask, c.out, "self and mask");
  if (paired_mask) mask = paired_mask.get();
  std::vector<int64_t> sizes = broadcast_sizes(x->sizes(), mask->sizes(), c.name());
  if (c.out) {
    require_broadcast(c.name(), x, mask, c.out);
    require_writable(c.out, c.name());
    result = PyRef<Tensor>::borrow(c.out);
  } else if (Dims(sizes) == x->sizes()) {
    result = clone(x);
  } else {
    result = new_tensor(x->dtype, sizes);
    copy_into(result.get(), x);
  }
  PyRef<> condition = bool_mask(mask);
  PyRef<> keywords = check(Py_BuildValue("{s:O}", "where", condition.get()));
  call_numpy(np_copyto.get(), {numpy_view(result.get()), c.args[2]}, keywords.get());
  return result;
}

Outputs clamp_forward(Call& c) {
  if (c.is_none(1) && c.is_none(2)) value_error("clamp requires specifying at least one of min and max arguments");
  if (c.is_none(2)) return binary(c.name(), BinaryKind::Maximum, np_maximum, c.args[0], c.args[1], c.out);
  if (c.is_none(1)) return binary(c.name(), BinaryKind::Minimum, np_minimum, c.args[0], c.args[2], c.out);
  // In place too the lower limit goes into a new tensor: a failure at the upper one leaves self unchanged.
  PyRef<Tensor> low = binary(c.name(), BinaryKind::Maximum, np_maximum, c.args[0], c.args[1], nullptr);
  return binary(c.name(), BinaryKind::Minimum, np_minimum, low.get(), c.args[2],
                is_loop_type(low->dtype) ? low.get() : nullptr);
}

void clamp_backward(Backward& b) {
  Value x = b.value(0), outside;
  if (!b.is_none(1)) outside = call<"lt">(x, b.value(1));
  if (!b.is_none(2)) {
    Value above = call<"gt">(x, b.value(2));
    outside = outside ? call<"bitwise_or">(outside, above) : above;
  }
  b.set(0, call<"masked_fill">(b.grad(), outside, 0));
}

Outputs not_forward(Call& c) {
  static NumpyFunction subtract("subtract");
  if (c.tensor(0)->dtype != DType::Byte)
    runtime_error("bitwise_not: logical operations are supported on ByteTensors only, but got %s",
                  type_name(c.args[0]));
  PyRef<> one = check(PyLong_FromLong(1));
  return apply_ufunc(subtract, {one.get(), c.args[0]}, c.out);
}

}  // namespace

std::span<const Row> compare_rows() {
  static const std::vector<Row> rows = {
      {.signature = "eq(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "1 where self == other, else 0: a ByteTensor.",
       .types = types::compare,
       .forward = compare_forward<"equal", std::equal_to<>>,
       .flags = kCompare | kInPlace},
      {.signature = "ne(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "1 where self != other, else 0: a ByteTensor.",
       .types = types::compare,
       .forward = compare_forward<"not_equal", std::not_equal_to<>>,
       .flags = kCompare | kInPlace},
      {.signature = "lt(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "1 where self < other, else 0: a ByteTensor.",
       .types = types::compare,
       .forward = compare_forward<"less", std::less<>>,
       .flags = kCompare | kInPlace},
      {.signature = "le(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "1 where self <= other, else 0: a ByteTensor.",
       .types = types::compare,
       .forward = compare_forward<"less_equal", std::less_equal<>>,
       .flags = kCompare | kInPlace},
      {.signature = "gt(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "1 where self > other, else 0: a ByteTensor.",
       .types = types::compare,
       .forward = compare_forward<"greater", std::greater<>>,
       .flags = kCompare | kInPlace},
      {.signature = "ge(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "1 where self >= other, else 0: a ByteTensor.",
       .types = types::compare,
       .forward = compare_forward<"greater_equal", std::greater_equal<>>,
       .flags = kCompare | kInPlace},
      {.signature = "bitwise_and(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self & other on integer tensors.",
       .types = types::integers,
       .forward = bitwise_forward<"bitwise_and">,
       .flags = kInPlace},
      {.signature = "bitwise_or(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self | other on integer tensors.",
       .types = types::integers,
       .forward = bitwise_forward<"bitwise_or">,
       .flags = kInPlace},
      {.signature = "bitwise_xor(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self ^ other on integer tensors.",
       .types = types::integers,
       .forward = bitwise_forward<"bitwise_xor">,
       .flags = kInPlace},
      {.signature = "bitwise_not(Tensor self)",
       .doc = "1 - self: the opposite mask. RuntimeError unless self is a ByteTensor.",
       .types = types::byte_only,
       .forward = not_forward,
       .flags = kInPlace},
      {.signature = "lshift(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self << other on integer tensors.",
       .types = types::integers,
       .forward = bitwise_forward<"left_shift">,
       .flags = kInPlace},
      {.signature = "rshift(Tensor|Scalar self, Tensor|Scalar other)",
       .doc = "self >> other on integer tensors.",
       .types = types::integers,
       .forward = bitwise_forward<"right_shift">,
       .flags = kInPlace},
      {.signature = "where(Tensor condition, Tensor|Scalar a, Tensor|Scalar b)",
       .doc = "a where condition is nonzero, else b; all three broadcast. The gradient of what was not chosen is 0.",
       .types = types::where,
       .forward = where_forward,
       .backward =
           [](Backward& b) {
             if (b.needs(1)) b.set(1, select(b.value(0), b.grad(), 0));
             if (b.needs(2)) b.set(2, select(b.value(0), 0, b.grad()));
           },
       .uses = {0, in(0), in(0)},
       .flags = kNoMethod},
      {.signature = "masked_fill(Tensor self, Tensor mask, Scalar value)",
       .doc = "self with `value` where mask is nonzero; mask broadcasts.",
       .types = types::masked_fill,
       .forward = masked_fill_forward,
       .backward =
           [](Backward& b) {
             if (b.needs(0)) b.set(0, call<"masked_fill">(b.grad(), paired_with(b.grad(), b.value(1)), 0));
           },
       .uses = {in(1)},
       .flags = kInPlace},
      {.signature = "clamp(Tensor self, Scalar? min=None, Scalar? max=None)",
       .doc = "self limited to [min, max]; ValueError if both are missing. The gradient is 0 outside, 1 at the limits.",
       .types = types::clamp,
       .forward = clamp_forward,
       .backward = clamp_backward,
       .uses = {in(0) | in(1) | in(2)},
       .flags = kInPlace},
  };
  return rows;
}

}  // namespace torchlite
