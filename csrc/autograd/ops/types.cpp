// Element types and the rules of elementwise operations.
#include "autograd/ops/types.h"

#include <algorithm>

#include "autograd/ops/backcompat.h"
#include "tensor/cuda.h"
#include "utils/numpy_api.h"

namespace torchlite {

namespace {
using Sizes = std::vector<int64_t>;

bool same_size(const TypeInfo& a, const TypeInfo& b) { return a.dims() == b.dims(); }

// The exact number 1, with which a scaling is left out.
bool is_one(PyObject* o) {
  if (PyFloat_CheckExact(o)) return PyFloat_AS_DOUBLE(o) == 1.0;
  return PyLong_CheckExact(o) && constant_to_double(o) == 1.0;
}

// What an operand contributes to a promotion: a type, or a number that takes the type of what is beside it.
struct Operand {
  bool weak = false;
  bool weak_float = false;
  DType dtype = DType::Long;

  Operand() = default;
  explicit Operand(DType t) : dtype(t) {}
  Operand(const TypeCall& c, int i) {
    if (c.is_tensor(i)) {
      dtype = c.type(i).dtype;
      return;
    }
    PyObject* o = c.constant(i);
    bool exact = PyFloat_CheckExact(o) || PyLong_CheckExact(o) || PyBool_Check(o);
    if (!exact && PyArray_IsScalar(o, Generic)) {
      PyRef<> descr = check(reinterpret_cast<PyObject*>(PyArray_DescrFromScalar(o)));
      int type = reinterpret_cast<PyArray_Descr*>(descr.get())->type_num;
      if (type != NPY_BOOL) {
        if (!dtype_of_numpy(type, &dtype))
          type_error("%s: argument '%s' is a %.100s, which no tensor can hold", c.name(),
                     c.op.params[static_cast<size_t>(i)].name.c_str(), type_name(o));
        return;
      }
    }
    weak = true;
    weak_float = PyFloat_Check(o);
    dtype = weak_float ? DType::Double : DType::Long;
  }
};

// The smallest floating type that NumPy joins an integer type with.
DType floating_beside(DType t) {
  switch (t) {
    case DType::Byte:
    case DType::Char: return DType::Half;
    case DType::Short: return DType::Float;
    case DType::Int:
    case DType::Long: return DType::Double;
    default: return t;
  }
}

Operand promote(const Operand& a, const Operand& b) {
  if (a.weak && b.weak) {
    Operand out = a.weak_float ? a : b;
    out.weak_float = a.weak_float || b.weak_float;
    return out;
  }
  if (a.weak) return promote(b, a);
  if (!b.weak) return Operand(types::promote(a.dtype, b.dtype));
  return b.weak_float && !is_floating(a.dtype) ? Operand(DType::Double) : a;
}

Sizes sizes_of(const TypeCall& c, int i) { return c.is_tensor(i) ? c.type(i).sizes : Sizes{}; }

}  // namespace

Device TypeCall::device() const {
  for (size_t i = 0; i < op.params.size(); ++i)
    if (types[i]) return types[i]->device;
  return list.empty() ? kCPU : list[0].device;
}

void require_one_place(const TypeCall& call) {
  const TypeInfo* first = nullptr;
  auto require_device = [&](const TypeInfo& t) {
    if (!first) first = &t;
    if (t.device != first->device)
      raise(first->device == kCPU || t.device == kCPU ? PyExc_TypeError : PyExc_RuntimeError,
            "%s: all tensors must be in one place, but got a %s and a %s", call.name(),
            place_of(first->dtype, first->device).c_str(), place_of(t.dtype, t.device).c_str());
  };
  for (size_t i = 0; i < call.op.params.size(); ++i)
    if (call.types[i]) require_device(*call.types[i]);
  for (const TypeInfo& t : call.list) require_device(t);
}

TypeInfos infer_types(TypeCall& call) {
  if (!call.op.row->types) runtime_error("%s: the row has no type rule", call.name());
  require_one_place(call);
  return call.op.row->types(call);
}

namespace types {

DType promote(DType a, DType b) {
  if (a == b) return a;
  if (is_floating(a) || is_floating(b)) return std::max(floating_beside(a), floating_beside(b));
  if (std::max(a, b) == DType::Char) return DType::Short;  // Byte and Char
  return std::max(a, b);
}

DType promote(const TypeCall& c, int i, int j) { return torchlite::promote(Operand(c, i), Operand(c, j)).dtype; }

DType ufunc_floating(DType t) { return floating_beside(t); }

void require_floating(const TypeCall& c, int i) {
  if (!is_floating(c.type(i).dtype))
    type_error("%s: argument '%s' must be a Float, Double or HalfTensor, but is a %sTensor", c.name(),
               c.op.params[static_cast<size_t>(i)].name.c_str(), info(c.type(i).dtype).name);
}

void require_one_type(const TypeCall& c, std::initializer_list<int> positions) {
  const TypeInfo* first = nullptr;
  for (int i : positions) {
    if (!c.is_tensor(i)) continue;
    if (!first) first = &c.type(i);
    if (c.type(i).dtype != first->dtype)
      type_error("%s: all tensors must have one type, but got %s and %s", c.name(), info(first->dtype).name,
                 info(c.type(i).dtype).name);
  }
}

Sizes broadcast(const TypeCall& c, int i, int j) {
  if (!c.is_tensor(i)) return sizes_of(c, j);
  if (!c.is_tensor(j)) return sizes_of(c, i);
  return paired_sizes(c.name(), c.type(i).sizes, c.type(j).sizes);
}

TypeInfos same(TypeCall& c) {
  for (size_t i = 0; i < c.op.params.size(); ++i)
    if (c.types[i]) return {*c.types[i]};
  return {c.list.at(0)};
}

TypeInfos floating_same(TypeCall& c) {
  require_floating(c, 0);
  return {c.type(0)};
}

TypeInfos ufunc_floating(TypeCall& c) { return c.result(ufunc_floating(c.type(0).dtype), c.type(0).sizes); }
TypeInfos kernel_floating(TypeCall& c) { return c.result(double_unless_floating(c.type(0).dtype), c.type(0).sizes); }
TypeInfos reciprocal(TypeCall& c) { return kernel_floating(c); }

TypeInfos gradient_map(TypeCall& c) {
  DType g = c.type(0).dtype, x = c.type(1).dtype;
  DType type = g == DType::Half && x == DType::Half       ? DType::Half
               : g == DType::Double || x == DType::Double ? DType::Double
                                                          : DType::Float;
  return c.result(type, broadcast_sizes(c.sizes(0), c.sizes(1), c.name()));
}

TypeInfos binary(TypeCall& c) { return c.result(promote(c, 0, 1), broadcast(c, 0, 1)); }

TypeInfos scaled_sum(TypeCall& c) {
  Operand b(c, 2);
  if (!is_one(c.constant(1))) b = torchlite::promote(b, Operand(c, 1));
  return c.result(torchlite::promote(Operand(c, 0), b).dtype, broadcast(c, 0, 2));
}

TypeInfos divide(TypeCall& c) {
  auto integral = [&](int i) { return c.is_tensor(i) ? !is_floating(c.type(i).dtype) : PyLong_Check(c.constant(i)); };
  DType t = promote(c, 0, 1);
  bool whole = integral(0) && integral(1);
  return c.result(whole ? t : double_unless_floating(t), broadcast(c, 0, 1));
}

TypeInfos power(TypeCall& c) {
  PyObject* e = c.constant(1);
  bool square = e && c.is_tensor(0) && (PyFloat_CheckExact(e) || PyLong_CheckExact(e)) && constant_to_double(e) == 2.0;
  return square ? TypeInfos{c.type(0)} : binary(c);
}

TypeInfos binary_floating(TypeCall& c) {
  DType a = ufunc_floating(c.type(0).dtype), b = ufunc_floating(c.type(1).dtype);
  return c.result(promote(a, b), broadcast(c, 0, 1));
}

TypeInfos lerp(TypeCall& c) {
  Operand self(c, 0), way = torchlite::promote(torchlite::promote(Operand(c, 1), self), Operand(c, 2));
  Sizes sizes = broadcast(c, 1, 0);
  return c.result(torchlite::promote(self, way).dtype, paired_sizes(c.name(), c.type(0).sizes, sizes));
}

namespace {
TypeInfos add_to(TypeCall& c, Operand product) {
  if (!is_one(c.constant(1))) product = torchlite::promote(product, Operand(c, 1));
  return c.result(torchlite::promote(Operand(c, 0), product).dtype,
                  paired_sizes(c.name(), c.type(0).sizes, broadcast(c, 2, 3)));
}
}  // namespace

TypeInfos add_product(TypeCall& c) { return add_to(c, Operand(promote(c, 2, 3))); }
TypeInfos add_quotient(TypeCall& c) { return add_to(c, Operand(double_unless_floating(promote(c, 2, 3)))); }
TypeInfos compare(TypeCall& c) { return c.result(DType::Byte, broadcast(c, 0, 1)); }

TypeInfos where(TypeCall& c) {
  Sizes sizes = c.type(0).sizes;
  for (int i : {1, 2})
    if (c.is_tensor(i)) sizes = broadcast_sizes(sizes, c.sizes(i), c.name());
  return c.result(promote(c, 1, 2), std::move(sizes));
}

TypeInfos masked_fill(TypeCall& c) { return c.result(c.type(0).dtype, paired_sizes(c.name(), c.sizes(0), c.sizes(1))); }

TypeInfos clamp(TypeCall& c) {
  if (c.is_none(1) && c.is_none(2)) value_error("clamp requires specifying at least one of min and max arguments");
  Operand t(c, 0);
  for (int i : {1, 2})
    if (!c.is_none(i)) t = torchlite::promote(t, Operand(c, i));
  return c.result(t.dtype, c.type(0).sizes);
}

TypeInfos to_device(TypeCall& c) { return {{c.type(0).dtype, static_cast<Device>(c.integer(1)), c.type(0).sizes}}; }

TypeInfos cast(TypeCall& c) {
  int64_t type = c.integer(1);
  if (type < 0 || type >= kDTypes) value_error("cast: no element type has number %S", c.constant(1));
  return c.result(static_cast<DType>(type), c.type(0).sizes);
}

TypeInfos copy(TypeCall& c) {
  const TypeInfo &self = c.type(0), &src = c.type(1);
  bool fits = c.boolean(2) && src.ndim() <= self.ndim();
  for (int i = 1; fits && i <= src.ndim(); ++i) {
    int64_t s = src.dims()[src.ndim() - i];
    fits = s == 1 || s == self.dims()[self.ndim() - i];
  }
  if (!fits && !same_size(self, src) && self.numel() != src.numel())
    runtime_error(
        "copy_: inconsistent tensor size, expected src of size %s to have the same number of elements as "
        "self of size %s, or to broadcast to it",
        format_dims(src.dims()).c_str(), format_dims(self.dims()).c_str());
  return {self};
}

void refuse_fractions(const char* name, const char* argument, const char* type) {
  runtime_error("%s: logical operations are supported on ByteTensors only, and on other integers, but %s is a %s", name,
                argument, type);
}

TypeInfos integers(TypeCall& c) {
  for (int i : {0, 1}) {
    bool tensor = c.is_tensor(i);
    if (tensor ? is_floating(c.type(i).dtype) : PyFloat_Check(c.constant(i)))
      refuse_fractions(c.name(), i ? "other" : "self",
                       tensor ? (std::string(info(c.type(i).dtype).name) + "Tensor").c_str() : "float");
  }
  return binary(c);
}

TypeInfos byte_only(TypeCall& c) {
  if (c.type(0).dtype != DType::Byte)
    runtime_error("%s: logical operations are supported on ByteTensors only, but got %sTensor", c.name(),
                  info(c.type(0).dtype).name);
  return {c.type(0)};
}

}  // namespace types

}  // namespace torchlite
