// The op table: a differentiable operation is one row.
//
// A row declares an operation once: its signature (which arguments are tensors, which constants), the forward on
// Tensors, the gradient in the library's own operations, and what the gradient needs. Eager calls on Tensors and
// Variables, methods, functions, in-place twins, the backward type and the tests all come from the row.
//
// A signature reads like a Python one, with kinds:
//   mul(Tensor self, Tensor|Scalar other)
//   sum(Tensor self, int? dim=None, bool keepdim=False)
//   cat(Tensor[] tensors, int dim=0)            view(Tensor self, int... sizes)
// `?` allows None, `int...` takes ints or one sequence of them, `any` is an arbitrary Python constant. A default in
// front of a required parameter (addmm(Scalar beta=1, Tensor self, Scalar alpha=1, Tensor mat1, Tensor mat2)) is the
// era's optional leading argument: missing positional arguments are missing from the left. In the method form the
// parameter called `self` is the object.
//
// A row's functions see the arguments in the order of the signature.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/function.h"
#include "autograd/ops/value.h"

namespace torchlite {

enum class Kind : uint8_t { Tensor, TensorOrScalar, TensorList, Scalar, Int, Ints, Bool, Str, Any };

struct Param {
  std::string name;
  Kind kind;
  bool optional;          // None is allowed
  bool variadic;          // int...
  bool leading;           // has a default, and a required parameter follows
  PyRef<> default_value;  // empty: required
};

inline bool is_tensor_kind(Kind k) { return k <= Kind::TensorList; }

inline constexpr int kMaxParams = 12;  // at most 16: OpNode::variable_mask has a bit for each
inline constexpr int kMaxOutputs = 6;
inline constexpr size_t kMaxOps = 320;

// Results of a forward.
struct Outputs {
  PyRef<Tensor> v[kMaxOutputs];
  Outputs() = default;
  Outputs(PyRef<Tensor>&& a) { v[0] = std::move(a); }
  Outputs(PyRef<Tensor>&& a, PyRef<Tensor>&& b) {
    v[0] = std::move(a);
    v[1] = std::move(b);
  }
  Outputs(PyRef<Tensor>&& a, PyRef<Tensor>&& b, PyRef<Tensor>&& c) {
    v[0] = std::move(a);
    v[1] = std::move(b);
    v[2] = std::move(c);
  }
};

struct Op;

// A constant argument as a number; throws where it is none.
int64_t constant_to_int(PyObject* o);
double constant_to_double(PyObject* o);

// Arguments of a forward: Tensors where the signature has tensors, constants elsewhere. All borrowed.
struct Call {
  const Op& op;
  PyObject* const* args;
  // In-place form: the tensor to write, which is also args[0]. A forward may write the result there and return it; if
  // it returns another tensor, that is copied into it afterwards.
  Tensor* out = nullptr;

  const char* name() const;
  bool is_none(int i) const { return args[i] == Py_None; }
  bool is_tensor(int i) const { return torchlite::is_tensor(args[i]); }
  Tensor* tensor(int i) const { return as_tensor(args[i]); }
  Tensor* optional_tensor(int i) const { return is_none(i) ? nullptr : tensor(i); }
  std::vector<Tensor*> tensors(int i) const;
  int64_t integer(int i) const;
  bool boolean(int i) const { return args[i] == Py_True; }
  double number(int i) const;
  std::vector<int64_t> ints(int i) const { return parse_dims(args[i]); }
  const char* str(int i) const;
  // Argument i as a dimension of a tensor with `ndim` dimensions.
  int dim(int i, int ndim) const { return wrap_dim(integer(i), ndim, name()); }
};

// Masks for `Row::uses`.
constexpr uint32_t in(int i) { return 1u << i; }
constexpr uint32_t out(int i = 0) { return 1u << (31 - i); }

// The state of a row's backward. Gradients are Values: Tensors in a plain backward, Variables when the gradient's own
// graph is recorded; operations on them do the right thing in both cases.
class Backward {
 public:
  Backward(Node* node, Gradients& grads, bool record);
  // Gradient of output i (zeros where none arrived).
  Value grad(int i = 0);
  bool has_grad(int i) const { return static_cast<bool>(grads_[static_cast<size_t>(i)]); }
  // Whether argument i needs a gradient (for a list: whether any element does).
  bool needs(int i) const { return (needs_ >> i) & 1; }
  bool needs_element(int i, int k) const;
  int list_size(int i) const;
  // Argument i as it was in the forward: a Value for a tensor (its bit must be in `uses`), or the constant.
  Value value(int i) const;
  Value element(int i, int k) const;  // of a list
  Value output(int i = 0) const;
  bool is_none(int i) const { return value(i).is_none(); }
  int64_t integer(int i) const;
  bool boolean(int i) const { return value(i).object() == Py_True; }
  double number(int i) const;
  std::vector<int64_t> ints(int i) const { return parse_dims(value(i).object()); }
  // Sizes and element type of tensor argument i.
  std::vector<int64_t> sizes(int i) const;
  DType dtype(int i) const;
  // Where it lies; the row needs kKeepSizes.
  Device device(int i) const;
  std::vector<int64_t> element_sizes(int i, int k) const;
  // The gradient of argument i. Where the argument was broadcast or cast it is summed and cast back.
  void set(int i, Value g);
  void set_element(int i, int k, Value g);
  // Whether argument i, or result i, was saved: a row's `uses` ask for it only where some gradient needs it.
  bool has_value(int i) const;
  bool has_output(int i) const;
  // Whether the gradients lie on the host.
  bool on_host() const;
  // Whether the gradient's own graph is being recorded (fused kernels fall back to differentiable operations then).
  bool recording() const { return record_; }
  Gradients take() { return std::move(result_); }

  // For gradients that are written in Python:
  const Op& op() const;
  // How many results the forward had (a row may leave out its last ones).
  int n_results() const;
  // The gradient of output i as a Variable, volatile in a plain backward.
  PyRef<Variable> grad_variable(int i);
  // Whether a gradient can arrive for result i.
  bool is_differentiable(int i) const;
  // What the gradient of argument i (its element k) is brought to.
  OutputInfo gradient_type(int i, int k) const;

 private:
  int edge_of(int i) const;
  Value fit(int edge, Value g) const;
  Node* node_;
  Gradients& grads_;
  bool record_;
  uint32_t needs_;
  Gradients result_;
};

enum RowFlags : uint32_t {
  kInPlace = 1,          // has an in-place twin `name_`
  kView = 2,             // the result shares memory with argument 0
  kReduceToNumber = 4,   // on Tensors, a full reduction gives a Python number (dim is None)
  kNoMethod = 8,         // function only
  kNoFunction = 16,      // method only
  kKeepSizes = 32,       // the backward asks for sizes() of its arguments
  kInPlaceOnly = 64,     // only the in-place form exists (copy_, zero_)
  kHidden = 128,         // neither method nor function of the package: used by gradients and by torchlite.nn
  kCompare = 256,        // compared, so never differentiable; results are Byte
  kLeaf = 512,           // results are leaves: the graph ends here
  kOpenSizes = 1024,     // elements may decide a size of the result (masks)
  kDotNumber = 4096,     // on Tensors, the product of two vectors is a Python number
  kConstantName = 2048,  // with a number for an operand the node is called <Name>ConstantBackward, as in the era
};

struct TypeCall;
struct TypeInfo;
struct PythonRow;

struct Row {
  const char* signature;
  const char* doc;
  // Element types and sizes of the results from those of the arguments (types.h).
  std::vector<TypeInfo> (*types)(TypeCall&);
  Outputs (*forward)(Call&);
  // nullptr: not differentiable (results never require a gradient).
  void (*backward)(Backward&) = nullptr;
  // uses[i]: what the gradient of the i-th argument needs of the forward: in(k) arguments (constants too), out(k)
  // results. Only what some needed gradient uses is saved.
  std::vector<uint32_t> uses = {};
  uint32_t flags = 0;
  int outputs = 1;
  // Further results of the forward that are only saved, never returned: activations a fused backward needs. They
  // follow the visible ones in Outputs and in the out(k) masks.
  int hidden_outputs = 0;
  // Results that carry no gradient (indices): bit k.
  uint32_t non_differentiable = 0;
  // Tensor arguments that no gradient flows to: in(i). A Variable that requires grad is refused there.
  uint32_t no_gradient = 0;
  // Op::display_name where the era had another name than the signature has; nullptr: from that one.
  const char* display_name = nullptr;
};

struct Op {
  std::string name;          // "mul"
  std::string display_name;  // "Mul": of the backward type and in the IR
  const Row* row;
  uint16_t index;
  std::vector<Param> params;
  int self_index;                 // of the parameter called self; -1 if there is none
  int list_index;                 // of the Tensor[] parameter; -1
  int dim_index, keepdim_index;   // of the parameters called dim and keepdim; -1
  uint32_t tensor_mask;           // parameters of a tensor kind
  uint32_t no_number_mask;        // those of them that a number cannot stand for
  uint32_t default_mask;          // constant parameters with a default that some gradient uses
  uint32_t uses[kMaxParams];      // Row::uses, one for each parameter
  uint16_t max_edges, max_saved;  // of an OpNode (without a list)
  std::string type_name, in_place_name, text_signature;
  PyTypeObject node_type;       // <Name>Backward
  PythonRow* python = nullptr;  // of a row that is declared in Python
  // The node's type where a number stands for an operand: another name of the same layout; nullptr: as always.
  std::unique_ptr<PyTypeObject> constant_node_type;
  std::string constant_type_name;

  bool differentiable() const { return row->backward != nullptr; }
};

extern std::vector<Op*> op_table;
// All operations, in order of index: those of C++ at import, those declared in Python as they are declared.
inline const std::vector<Op*>& all_ops() { return op_table; }
const Op& find_op(std::string_view name);
// A further operation. Throws ValueError for a row that is not well formed, and then adds nothing. The row and `python`
// live for the life of the process.
Op& add_op(const Row& row, PythonRow* python = nullptr);
// What a row's signature says.
std::string operation_name(const Row& row);
std::vector<Param> parse_parameters(const Row& row);

// Runs `op` on canonical arguments (one per parameter, in order; Variables, Tensors or constants). With a Variable
// among them the result is a Variable and a graph is recorded; else it is a Tensor. Several results come in a tuple.
// `hidden`, if given, receives the hidden results at their positions.
PyRef<> call_op(const Op& op, PyObject* const* args, Outputs* hidden = nullptr);
// The in-place form: writes the result into args[self], which is returned.
PyRef<> call_op_in_place(const Op& op, PyObject* const* args);
// Only the forward, on Tensors and constants.
Outputs run_forward(const Op& op, PyObject* const* args);

struct OpNode : Node {
  uint32_t saved_mask;     // what is in `saved`, in the order of the bits
  uint16_t variable_mask;  // arguments that were Variables: each has an edge (a list has one per element)
  uint16_t n_saved;        // without a list
  // Edge edges[op.max_edges]; SavedVariable saved[op.max_saved] follow, of which the first n_inputs and n_saved exist;
  // with a list they lie in arrays of their own (op_node.h).
};

// Rows whose arguments lie on a CUDA device, by implementations over arrays (array_rows.cpp).
class ArrayRows {
 public:
  virtual ~ArrayRows() = default;
  // False if no argument lies on a device, or if the row's own forward serves devices as well (views).
  virtual bool forward(Call& c, Outputs* out) = 0;
  // False if the row's own backward serves.
  virtual bool backward(const Op& op, Backward& b) = 0;
};
// nullptr until a CUDA tensor was first asked for.
extern ArrayRows* array_rows;

// The forward of a row, wherever the arguments lie.
inline Outputs forward_of(Call& c) {
  if (array_rows) [[unlikely]] {
    Outputs out;
    if (array_rows->forward(c, &out)) return out;
  }
  return c.op.row->forward(c);
}

void init_array_rows(PyObject* module);

// Rows by family; each file under ops/ defines one.
std::span<const Row> pointwise_rows();
std::span<const Row> reduce_rows();
std::span<const Row> shape_rows();
std::span<const Row> index_rows();
std::span<const Row> blas_rows();
std::span<const Row> nn_rows();
std::span<const Row> rnn_rows();

void init_ops(PyObject* module, PyObject* functions_module);

}  // namespace torchlite
