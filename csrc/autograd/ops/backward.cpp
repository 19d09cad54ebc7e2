// Backward: what the gradient of a row sees.
#include <bit>

#include "autograd/observer.h"
#include "autograd/ops/op_node.h"

namespace torchlite {

Backward::Backward(Node* node, Gradients& grads, bool record)
    : node_(node), grads_(grads), record_(record), needs_(0), result_(static_cast<size_t>(node->n_inputs)) {
  OpNode* self = static_cast<OpNode*>(node);
  const Op& op = op_of(node);
  Edge* edges = op_node_edges(node);
  int edge = 0;
  for (uint32_t left = self->variable_mask; left; left &= left - 1) {
    int i = std::countr_zero(left);
    int n = i == op.list_index ? list_size(i) : 1;
    for (int k = 0; k < n; ++k, ++edge)
      if (edges[edge].function) needs_ |= 1u << i;
  }
}

int Backward::list_size(int i) const {
  // All edges that do not belong to the other arguments.
  OpNode* self = static_cast<OpNode*>(node_);
  return node_->n_inputs - std::popcount(self->variable_mask & ~(1u << i));
}

int Backward::edge_of(int i) const {
  OpNode* self = static_cast<OpNode*>(node_);
  const Op& op = op_of(node_);
  uint32_t below = self->variable_mask & ((1u << i) - 1);
  int edge = std::popcount(below);
  if (op.list_index >= 0 && (below >> op.list_index) & 1) edge += list_size(op.list_index) - 1;
  return edge;
}

bool Backward::needs_element(int i, int k) const {
  return static_cast<bool>(op_node_edges(node_)[edge_of(i) + k].function);
}

namespace {

// Position among the saved values of bit `bit` of the mask.
int saved_position(OpNode* self, int bit, int n_saved) {
  const Op& op = op_of(self);
  uint32_t below = self->saved_mask & ((1u << bit) - 1);
  int position = std::popcount(below);
  if (op.list_index >= 0 && (below >> op.list_index) & 1) position += n_saved - std::popcount(self->saved_mask);
  return position;
}

Value unpack(OpNode* self, const SavedVariable& saved, bool record) {
  // Another run of this node, in another thread or in a finalizer, may release it between two operations.
  if (self->released && saved.is_none()) buffers_freed();
  if (!record) {
    if (Tensor* t = saved.unpack_data(self)) return Value(PyRef<Tensor>::borrow(t));
    return Value(saved.unpack(self));
  }
  PyRef<> o = saved.unpack(self);
  // A hidden result: a tensor without history.
  if (is_tensor(o.get())) return Value(new_leaf(std::move(o).cast<Tensor>()));
  return Value(std::move(o));
}

}  // namespace

Value Backward::value(int i) const {
  OpNode* self = static_cast<OpNode*>(node_);
  const Op& op = op_of(self);
  if (!((self->saved_mask >> i) & 1) && (op.default_mask >> i) & 1)
    return Value(op.params[static_cast<size_t>(i)].default_value.copy());
  if (!((self->saved_mask >> i) & 1))
    runtime_error("%s: argument %d was not saved: its bit is missing in `uses`", op.name.c_str(), i);
  int at = saved_position(self, i, static_cast<int>(op_node_n_saved(self)));
  if (i != op.list_index) return unpack(self, op_node_saved(self)[at], record_);
  int n = static_cast<int>(op_node_n_saved(self)) - std::popcount(self->saved_mask) + 1;
  std::vector<Value> list;
  for (int k = 0; k < n; ++k) list.push_back(unpack(self, op_node_saved(self)[at + k], record_));
  return Value(list);
}

PyRef<> saved_argument(OpNode* self, int i) {
  const Op& op = op_of(self);
  const Param& p = op.params[static_cast<size_t>(i)];
  if ((self->saved_mask >> i) & 1) {
    int at = saved_position(self, i, static_cast<int>(op_node_n_saved(self)));
    return unpack(self, op_node_saved(self)[at], true).release();
  }
  if (self->variable_mask && (op.default_mask >> i) & 1) return p.default_value.copy();
  raise(PyExc_AttributeError, "%s: '%s' is kept only where a gradient needs it", node_name(self), p.name.c_str());
}

Value Backward::element(int i, int k) const { return value(i)[k]; }

Value Backward::output(int i) const {
  OpNode* self = static_cast<OpNode*>(node_);
  if (!(self->saved_mask & out(i)))
    runtime_error("%s: result %d was not saved: its bit is missing in `uses`", op_of(self).name.c_str(), i);
  int at = saved_position(self, 31 - i, static_cast<int>(op_node_n_saved(self)));
  return unpack(self, op_node_saved(self)[at], record_);
}

bool Backward::has_value(int i) const {
  return ((static_cast<OpNode*>(node_)->saved_mask | op_of(node_).default_mask) >> i) & 1;
}
bool Backward::has_output(int i) const { return static_cast<OpNode*>(node_)->saved_mask & out(i); }

bool Backward::on_host() const {
  for (const PyRef<Variable>& g : grads_)
    if (g) return g->data->device() == kCPU;
  return true;
}

int64_t Backward::integer(int i) const { return constant_to_int(value(i).object()); }
double Backward::number(int i) const { return constant_to_double(value(i).object()); }

namespace {
// A zero gradient made by operations, from the first gradient that arrived.
PyRef<Variable> recorded_zero(Node* node, const Gradients& grads, int i) {
  PyRef<Variable> zero = zero_gradient(node, i);
  if (!call_observer) return zero;
  for (const PyRef<Variable>& g : grads) {
    if (!g) continue;
    Value made =
        call<"zeros_of">(Value(g.copy()), std::vector<int64_t>(zero->data->sizes().begin(), zero->data->sizes().end()));
    if (made.dtype() != zero->data->dtype) made = call<"cast">(made, static_cast<int64_t>(zero->data->dtype));
    return made.take<Variable>();
  }
  return zero;
}
}  // namespace

Value Backward::grad(int i) {
  PyRef<Variable>& g = grads_[static_cast<size_t>(i)];
  if (!g) g = record_ ? recorded_zero(node_, grads_, i) : zero_gradient(node_, i);
  if (!record_) return Value(PyRef<Tensor>::borrow(g->data.get()));
  // One volatile gradient among others must not make the whole result volatile.
  if (g->is_volatile) return Value(new_leaf(PyRef<Tensor>::borrow(g->data.get())));
  return Value(g.copy());
}

namespace {
const OutputInfo* input_info(const Node* node, int edge) {
  if (!node->extra || node->extra->inputs.empty()) return nullptr;
  return node->extra->inputs[static_cast<size_t>(edge)].get();
}
}  // namespace

std::vector<int64_t> Backward::sizes(int i) const {
  const OutputInfo* in = input_info(node_, edge_of(i));
  if (!in)
    runtime_error("%s: sizes of argument %d were not kept: the row needs kKeepSizes", op_of(node_).name.c_str(), i);
  return in->sizes;
}

std::vector<int64_t> Backward::element_sizes(int i, int k) const {
  const OutputInfo* in = input_info(node_, edge_of(i) + k);
  if (!in)
    runtime_error("%s: sizes of argument %d were not kept: the row needs kKeepSizes", op_of(node_).name.c_str(), i);
  return in->sizes;
}

Device Backward::device(int i) const {
  const OutputInfo* in = input_info(node_, edge_of(i));
  if (!in)
    runtime_error("%s: the device of argument %d was not kept: the row needs kKeepSizes", op_of(node_).name.c_str(), i);
  return in->device;
}

DType Backward::dtype(int i) const {
  const OutputInfo* in = input_info(node_, edge_of(i));
  return in ? in->dtype : grads_[0]->data->dtype;
}

Value Backward::fit(int edge, Value g) const {
  const OutputInfo* in = input_info(node_, edge);
  if (!in) return g;
  if (!(g.sizes() == Dims(in->sizes))) {
    // As many elements: nothing to sum, be it for dimensions of size 1 or for operands that were paired in order.
    bool same_count = g.tensor()->numel == Dims(in->sizes).product();
    g = same_count ? call<"reshape">(g, in->sizes) : call<"sum_to">(g, in->sizes);
  }
  if (g.dtype() != in->dtype) g = call<"cast">(g, static_cast<int64_t>(in->dtype));
  return g;
}

const Op& Backward::op() const { return op_of(node_); }

int Backward::n_results() const {
  return op().row->outputs == 1 || !node_->extra ? 1 : static_cast<int>(node_->extra->outputs.size());
}

PyRef<Variable> Backward::grad_variable(int i) {
  if (record_) return grad(i).take<Variable>();
  PyRef<Variable>& g = grads_[static_cast<size_t>(i)];
  if (!g) g = zero_gradient(node_, i);
  return g.copy();
}

bool Backward::is_differentiable(int i) const {
  if ((op().row->non_differentiable >> i) & 1) return false;
  return op().row->outputs == 1 || is_floating(node_->extra->outputs[static_cast<size_t>(i)].dtype);
}

OutputInfo Backward::gradient_type(int i, int k) const {
  if (const OutputInfo* in = input_info(node_, edge_of(i) + k)) return *in;
  // As the first result, whatever became of its gradient.
  if (op().row->outputs > 1) return node_->extra->outputs[0];
  const Tensor* t = grads_[0]->data.get();
  return {t->dtype, t->device(), {t->sizes().begin(), t->sizes().end()}};
}

void Backward::set(int i, Value g) { set_element(i, 0, std::move(g)); }

void Backward::set_element(int i, int k, Value g) {
  int edge = edge_of(i) + k;
  if (g.is_none() || !op_node_edges(node_)[edge].function) return;
  g = fit(edge, std::move(g));
  PyRef<Variable>& slot = result_[static_cast<size_t>(edge)];
  if (is_variable(g.object())) {
    slot = g.take<Variable>();
  } else if (record_) {
    slot = new_leaf(g.take<Tensor>());
  } else if (grads_[0] && grads_[0]->data.object() == g.object()) {
    slot = grads_[0].copy();  // passed on as it is
  } else {
    slot = new_volatile(g.take<Tensor>());
  }
}

}  // namespace torchlite
