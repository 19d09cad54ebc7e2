// The registry: rows become Ops with parsed signatures and a backward type each.
#include "autograd/ops/op.h"

#include <bit>
#include <map>
#include <memory>

#include "autograd/ops/op_node.h"

namespace torchlite {

std::vector<Op*> op_table;

namespace {

std::map<std::string, Op*, std::less<>> by_name;

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

[[noreturn]] void bad_row(const Row& row, const char* why) { value_error("operation '%s': %s", row.signature, why); }

[[noreturn]] void bad_signature(const Row& row, const char* why) {
  value_error("operation '%s': %s in its signature", row.signature, why);
}

bool is_identifier(std::string_view s) {
  return !s.empty() && !isdigit(static_cast<unsigned char>(s.front())) &&
         std::all_of(s.begin(), s.end(), [](unsigned char c) { return c == '_' || isalnum(c); });
}

Kind parse_kind(const Row& row, std::string_view s) {
  if (s == "Tensor") return Kind::Tensor;
  if (s == "Tensor|Scalar" || s == "Scalar|Tensor") return Kind::TensorOrScalar;
  if (s == "Tensor[]") return Kind::TensorList;
  if (s == "Scalar" || s == "float") return Kind::Scalar;
  if (s == "int") return Kind::Int;
  if (s == "ints") return Kind::Ints;
  if (s == "bool") return Kind::Bool;
  if (s == "str") return Kind::Str;
  if (s == "any") return Kind::Any;
  bad_signature(row, "unknown kind");
}

// "Scalar alpha=1": kind, name and default, the latter a Python literal.
Param parse_param(const Row& row, std::string_view text) {
  Param p{};
  size_t equals = text.find('=');
  std::string_view head = trim(text.substr(0, equals));
  size_t space = head.rfind(' ');
  if (space == std::string_view::npos) bad_signature(row, "a parameter without a kind");
  std::string_view kind = trim(head.substr(0, space));
  p.name = std::string(trim(head.substr(space)));
  if (kind.ends_with("...")) {
    kind.remove_suffix(3);
    if (kind == "int") kind = "ints";
    p.variadic = true;
  }
  if (kind.ends_with("?")) {
    kind.remove_suffix(1);
    p.optional = true;
  }
  p.kind = parse_kind(row, kind);
  if (!is_identifier(p.name)) bad_signature(row, "a parameter whose name is no identifier");
  if (p.name == "out") bad_signature(row, "a parameter called out, which is where results are written");
  if (equals != std::string_view::npos) {
    std::string literal(trim(text.substr(equals + 1)));
    PyRef<> globals = check(PyDict_New());
    p.default_value = PyRef<>::steal(PyRun_String(literal.c_str(), Py_eval_input, globals.get(), globals.get()));
    if (!p.default_value) {
      if (!PyErr_ExceptionMatches(PyExc_Exception)) throw PyError();
      PyErr_Clear();  // replaced by an error that names the operation
      bad_signature(row, "a default that is no literal");
    }
  }
  return p;
}

std::string display_name(std::string_view name) {
  std::string out;
  bool upper = true;
  for (char c : name) {
    if (c == '_') {
      upper = true;
    } else {
      out += upper ? static_cast<char>(toupper(c)) : c;
      upper = false;
    }
  }
  return out;
}

// What a row says of its results and arguments has to fit its signature.
void check_row(const Op& op, const Row& row) {
  if (!row.types) bad_row(row, "it has no type rule");
  if (row.outputs < 1 || row.hidden_outputs < 0) bad_row(row, "it has no results");
  if (row.outputs + row.hidden_outputs > kMaxOutputs) bad_row(row, "too many results");
  if (row.uses.size() > op.params.size()) bad_row(row, "more `uses` than parameters");
  bool has_self = op.self_index >= 0 && op.params[static_cast<size_t>(op.self_index)].kind == Kind::Tensor;
  if ((row.flags & (kInPlace | kInPlaceOnly)) && op.self_index < 0)
    bad_row(row, "an in-place form needs a parameter called self");
  if ((row.flags & (kInPlace | kInPlaceOnly)) && row.outputs + row.hidden_outputs > 1)
    bad_row(row, "an in-place form has one result, which is in self, and no hidden ones");
  if ((row.flags & kReduceToNumber) && !has_self) bad_row(row, "a reduction needs a tensor called self");
  if ((row.flags & kView) && (op.params.empty() || op.params[0].kind != Kind::Tensor))
    bad_row(row, "a view needs a tensor as its first parameter");
}

// The parts of "name(parameters)".
std::pair<std::string_view, std::string_view> split_signature(const Row& row) {
  std::string_view s = row.signature;
  size_t paren = s.find('(');
  if (paren == std::string_view::npos || !s.ends_with(")")) bad_signature(row, "no parentheses");
  return {trim(s.substr(0, paren)), s.substr(paren + 1, s.size() - paren - 2)};
}

std::unique_ptr<Op> make_op(const Row& row, size_t index) {
  auto op = std::make_unique<Op>();
  op->row = &row;
  op->index = static_cast<uint16_t>(index);
  op->name = operation_name(row);
  op->display_name = row.display_name ? row.display_name : display_name(op->name);
  op->in_place_name = op->name + "_";
  op->params = parse_parameters(row);
  op->self_index = op->list_index = op->dim_index = op->keepdim_index = -1;
  for (int i = 0; i < static_cast<int>(op->params.size()); ++i) {
    const Param& p = op->params[static_cast<size_t>(i)];
    if (p.name == "self") op->self_index = i;
    if (p.name == "dim") op->dim_index = i;
    if (p.name == "keepdim") op->keepdim_index = i;
    if (p.kind == Kind::TensorList && op->list_index >= 0) bad_signature(row, "two lists of tensors");
    if (p.kind == Kind::TensorList) op->list_index = i;
    if (is_tensor_kind(p.kind)) op->tensor_mask |= 1u << i;
    if (p.kind == Kind::Tensor) op->no_number_mask |= 1u << i;
  }
  check_row(*op, row);
  std::ranges::copy(row.uses, op->uses);
  uint32_t all = 0;
  for (uint32_t mask : row.uses) all |= mask;
  for (size_t i = 0; i < op->params.size(); ++i)
    if (op->params[i].default_value && !((op->tensor_mask >> i) & 1)) op->default_mask |= all & (1u << i);
  op->max_saved = static_cast<uint16_t>(std::popcount(all));
  op->max_edges = static_cast<uint16_t>(std::popcount(op->tensor_mask));
  op->type_name = "torchlite._C._functions." + op->display_name + "Backward";
  op->constant_type_name = "torchlite._C._functions." + op->display_name + "ConstantBackward";
  return op;
}

}  // namespace

std::string operation_name(const Row& row) {
  std::string name(split_signature(row).first);
  if (!is_identifier(name)) bad_signature(row, "a name that is no identifier");
  return name;
}

std::vector<Param> parse_parameters(const Row& row) {
  std::vector<Param> params;
  std::string_view rest = split_signature(row).second;
  while (!trim(rest).empty()) {
    // A comma inside a default's brackets does not part parameters.
    size_t end = 0;
    for (int depth = 0; end < rest.size() && (depth > 0 || rest[end] != ','); ++end) {
      if (rest[end] == '(' || rest[end] == '[') ++depth;
      if (rest[end] == ')' || rest[end] == ']') --depth;
    }
    Param p = parse_param(row, rest.substr(0, end));
    if (params.size() == kMaxParams) bad_signature(row, "too many parameters");
    for (const Param& other : params)
      if (other.name == p.name) bad_signature(row, "two parameters of one name");
    params.push_back(std::move(p));
    rest = end < rest.size() ? rest.substr(end + 1) : std::string_view();
  }
  bool required = false;
  for (auto p = params.rbegin(); p != params.rend(); ++p) {
    p->leading = p->default_value && required;
    required = required || !p->default_value;
  }
  return params;
}

const Op& find_op(std::string_view name) {
  auto it = by_name.find(name);
  if (it == by_name.end()) runtime_error("there is no operation named '%s'", std::string(name).c_str());
  return *it->second;
}

Op& add_op(const Row& row, PythonRow* python) {
  std::unique_ptr<Op> made = make_op(row, op_table.size());
  for (const Op* other : op_table)
    if (other->name == made->name || other->display_name == made->display_name) bad_row(row, "the name is taken");
  if (op_table.size() >= kMaxOps) bad_row(row, "the table is full: raise kMaxOps");
  made->python = python;
  op_table.reserve(op_table.size() + 1);
  auto entry = by_name.emplace(made->name, nullptr).first;
  Op* op = made.release();  // for the life of the process, as its node type is
  try {
    init_op_node_type(*op);
  } catch (...) {
    by_name.erase(entry);
    throw;
  }
  entry->second = op;
  op_table.push_back(op);
  return *op;
}

void build_op_table() {
  for (std::span<const Row> rows :
       {pointwise_rows(), reduce_rows(), shape_rows(), index_rows(), blas_rows(), nn_rows(), rnn_rows()})
    for (const Row& row : rows) add_op(row);
}

const char* Call::name() const { return op.name.c_str(); }

std::vector<Tensor*> Call::tensors(int i) const {
  std::vector<Tensor*> out;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(args[i]); ++k) out.push_back(as_tensor(PyTuple_GET_ITEM(args[i], k)));
  return out;
}

int64_t constant_to_int(PyObject* o) {
  int overflow = 0;
  int64_t v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow) raise(PyExc_OverflowError, "%R does not fit an int of 64 bits", o);
  if (v == -1 && PyErr_Occurred()) throw PyError();
  return v;
}

double constant_to_double(PyObject* o) {
  double v = PyFloat_AsDouble(o);
  if (v == -1.0 && PyErr_Occurred()) throw PyError();
  return v;
}

int64_t Call::integer(int i) const { return constant_to_int(args[i]); }
double Call::number(int i) const { return constant_to_double(args[i]); }
const char* Call::str(int i) const {
  const char* s = PyUnicode_AsUTF8(args[i]);
  if (!s) throw PyError();
  return s;
}

}  // namespace torchlite
