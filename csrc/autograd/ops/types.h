// Type rules: the element types and sizes of an operation's results from those of its arguments, without any data.
//
// A row names its rule in `Row::types`. Rules are written once a family; what they refuse is what the forward refuses,
// with the operation's name and both values. They decide nothing that depends on elements: a size that does is kOpenSize
// in the result, and an index out of range is the forward's to find.
#pragma once

#include <vector>

#include "autograd/ops/op.h"

namespace torchlite {

inline constexpr int64_t kOpenSize = -1;

struct TypeInfo {
  DType dtype;
  Device device;
  std::vector<int64_t> sizes;

  Dims dims() const { return sizes; }
  int ndim() const { return static_cast<int>(sizes.size()); }
  int64_t numel() const { return dims().product(); }
};

using TypeInfos = std::vector<TypeInfo>;

// Arguments of a rule, in the order of the signature. A tensor has a type; everything else is the constant itself.
struct TypeCall {
  const Op& op;
  const TypeInfo* types[kMaxParams] = {};  // nullptr where the argument is a constant
  PyObject* constants[kMaxParams] = {};    // nullptr where it is a tensor
  TypeInfos list = {};                     // of the Tensor[] argument

  const char* name() const { return op.name.c_str(); }
  bool is_tensor(int i) const { return types[i] != nullptr; }
  bool is_none(int i) const { return constants[i] == Py_None; }
  const TypeInfo& type(int i) const { return *types[i]; }
  Dims sizes(int i) const { return types[i]->dims(); }
  PyObject* constant(int i) const { return constants[i]; }
  int64_t integer(int i) const { return constant_to_int(constants[i]); }
  double number(int i) const { return constant_to_double(constants[i]); }
  bool boolean(int i) const { return constants[i] == Py_True; }
  std::vector<int64_t> ints(int i) const { return parse_dims(constants[i]); }
  int dim(int i, int ndim) const { return wrap_dim(integer(i), ndim); }
  Device device() const;  // of the first tensor
  TypeInfos result(DType dtype, std::vector<int64_t> sizes) const { return {{dtype, device(), std::move(sizes)}}; }
};

using TypeRule = TypeInfos (*)(TypeCall&);

// Throws unless all tensors lie in one place.
void require_one_place(const TypeCall& call);
// The result types of `op` by its row's rule. RuntimeError if the row has none.
TypeInfos infer_types(TypeCall& call);

namespace types {

// ---- element types (NumPy's promotion) ----------------------------------------------------------------------------
DType promote(DType a, DType b);
// The type of arguments i and j together; a Python number takes the type of the tensor beside it.
DType promote(const TypeCall& c, int i, int j);
// That of a function of real numbers: integers become floating as NumPy's ufuncs make them.
DType ufunc_floating(DType t);
inline DType double_unless_floating(DType t) { return is_floating(t) ? t : DType::Double; }
// That in which a sum is given: integers as Long.
inline DType summed(DType t) { return is_floating(t) ? t : DType::Long; }
void require_floating(const TypeCall& c, int i);
// Every tensor of positions i.. has the type of the first.
void require_one_type(const TypeCall& c, std::initializer_list<int> positions);
// The broadcast of arguments i and j, or the sizes of i where both have equally many elements.
std::vector<int64_t> broadcast(const TypeCall& c, int i, int j);

// ---- elementwise (types.cpp) --------------------------------------------------------------------------------------
TypeInfos same(TypeCall& c);             // as the first tensor argument
TypeInfos floating_same(TypeCall& c);    // ... which has to be floating
TypeInfos ufunc_floating(TypeCall& c);   // functions of one number by NumPy
TypeInfos kernel_floating(TypeCall& c);  // functions of one number by our kernels: integers give Double
TypeInfos reciprocal(TypeCall& c);
TypeInfos gradient_map(TypeCall& c);  // (grad, x, ...): floating, broadcast
TypeInfos binary(TypeCall& c);        // (a, b)
TypeInfos scaled_sum(TypeCall& c);    // (a, alpha, b)
TypeInfos divide(TypeCall& c);
TypeInfos power(TypeCall& c);
TypeInfos binary_floating(TypeCall& c);  // atan2
TypeInfos lerp(TypeCall& c);
TypeInfos add_product(TypeCall& c);   // (self, value, a, b) with a * b
TypeInfos add_quotient(TypeCall& c);  // ... with a / b
TypeInfos compare(TypeCall& c);       // (a, b): Byte
TypeInfos where(TypeCall& c);
TypeInfos masked_fill(TypeCall& c);
TypeInfos clamp(TypeCall& c);
TypeInfos cast(TypeCall& c);
TypeInfos to_device(TypeCall& c);
TypeInfos copy(TypeCall& c);
[[noreturn]] void refuse_fractions(const char* name, const char* argument, const char* type);
TypeInfos integers(TypeCall& c);   // (a, b) without fractions: bitwise_and, lshift
TypeInfos byte_only(TypeCall& c);  // bitwise_not

// ---- reductions and products (types_reduce.cpp) -------------------------------------------------------------------
TypeInfos sum(TypeCall& c);       // (self, dim, keepdim)
TypeInfos mean(TypeCall& c);      // (self, dim, keepdim)
TypeInfos variance(TypeCall& c);  // (self, dim, unbiased, keepdim)
TypeInfos norm(TypeCall& c);      // (self, p, dim, keepdim)
TypeInfos dist(TypeCall& c);
TypeInfos running(TypeCall& c);   // (self, dim): cumsum, cumprod
TypeInfos extremum(TypeCall& c);  // max, min
TypeInfos arg_extremum(TypeCall& c);
TypeInfos truth(TypeCall& c);
TypeInfos take_along(TypeCall& c);
TypeInfos put_along(TypeCall& c);
TypeInfos prod_backward(TypeCall& c);
TypeInfos sort(TypeCall& c);
TypeInfos topk(TypeCall& c);
TypeInfos kthvalue(TypeCall& c);
TypeInfos median(TypeCall& c);
TypeInfos mode(TypeCall& c);
TypeInfos matrix_product(TypeCall& c);
TypeInfos matrix_vector(TypeCall& c);
TypeInfos dot(TypeCall& c);
TypeInfos outer_product(TypeCall& c);
TypeInfos batch_product(TypeCall& c);
TypeInfos general_product(TypeCall& c);
TypeInfos addmm(TypeCall& c);
TypeInfos addbmm(TypeCall& c);
TypeInfos baddbmm(TypeCall& c);
TypeInfos addmv(TypeCall& c);
TypeInfos addr(TypeCall& c);

// ---- sizes and positions (types_shape.cpp) ------------------------------------------------------------------------
TypeInfos view(TypeCall& c);
TypeInfos transpose(TypeCall& c);
TypeInfos matrix_transpose(TypeCall& c);
TypeInfos permute(TypeCall& c);
TypeInfos expand(TypeCall& c);
TypeInfos sum_to(TypeCall& c);
TypeInfos squeeze(TypeCall& c);
TypeInfos unsqueeze(TypeCall& c);
TypeInfos flip(TypeCall& c);
TypeInfos narrow(TypeCall& c);
TypeInfos select(TypeCall& c);
TypeInfos unfold(TypeCall& c);
TypeInfos given_sizes(TypeCall& c);  // (self, sizes, ...): of self's type
TypeInfos repeat(TypeCall& c);
TypeInfos cat(TypeCall& c);
TypeInfos stack(TypeCall& c);
TypeInfos matrix(TypeCall& c);  // tril, triu
TypeInfos diag(TypeCall& c);
TypeInfos trace(TypeCall& c);
TypeInfos index(TypeCall& c);
TypeInfos index_select(TypeCall& c);
TypeInfos index_put(TypeCall& c);  // (self, dim, index, source)
TypeInfos index_fill(TypeCall& c);
TypeInfos gather(TypeCall& c);
TypeInfos scatter(TypeCall& c);
TypeInfos masked_select(TypeCall& c);
TypeInfos masked_scatter(TypeCall& c);

// ---- networks (types_nn.cpp) --------------------------------------------------------------------------------------
TypeInfos linear(TypeCall& c);
TypeInfos embedding(TypeCall& c);
TypeInfos embedding_backward(TypeCall& c);
TypeInfos embedding_gather(TypeCall& c);
TypeInfos dropout(TypeCall& c);
TypeInfos softmax(TypeCall& c);
TypeInfos class_loss(TypeCall& c);  // nll_loss, cross_entropy
TypeInfos class_weights(TypeCall& c);
TypeInfos nll_loss_backward(TypeCall& c);
TypeInfos cross_entropy_backward(TypeCall& c);
TypeInfos pair_loss(TypeCall& c);           // (input, target, size_average)
TypeInfos weighted_pair_loss(TypeCall& c);  // (input, target, weight, size_average)
TypeInfos conv_nd(TypeCall& c);
TypeInfos conv_nd_backward(TypeCall& c);
TypeInfos max_pool_nd(TypeCall& c);
TypeInfos avg_pool_nd(TypeCall& c);
TypeInfos avg_pool_nd_backward(TypeCall& c);
TypeInfos batch_norm(TypeCall& c);
TypeInfos batch_norm_backward(TypeCall& c);
TypeInfos lstm_cell(TypeCall& c);
TypeInfos gru_cell(TypeCall& c);
TypeInfos lstm(TypeCall& c);
TypeInfos gru(TypeCall& c);
TypeInfos rnn(TypeCall& c);

}  // namespace types

}  // namespace torchlite
