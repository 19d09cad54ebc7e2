#include "autograd/saved_variable.h"

#include "autograd/function.h"

namespace torchlite {

void buffers_freed() {
  runtime_error(
      "Trying to backward through the graph a second time, but the buffers have already been freed. "
      "Specify retain_graph=True when calling backward the first time.");
}

SavedVariable::SavedVariable(Variable* v, const Node* owner) {
  if (!v) return;
  CounterRef& counter = counter_of(v);  // what may fail comes first
  counter_ = counter.share();
  value_ = PyRef<Tensor>::borrow(v->data.get());
  bool is_leaf = !v->grad_fn, is_output = v->grad_fn.get() == owner;
  if (is_leaf) {
    origin_ = PyRef<Variable>::borrow(v);
  } else if (!is_output) {
    origin_ = PyRef<Node>::borrow(v->grad_fn.get());
  }
  // Side by side: they share a word.
  version_ = counter->version;
  output_nr_ = v->output_nr;
  requires_grad_ = v->requires_grad;
  is_output_ = is_output && !is_leaf;
  is_leaf_ = is_leaf;
  is_constant_ = false;
}

SavedVariable SavedVariable::constant(PyObject* value) {
  SavedVariable s;
  s.is_constant_ = true;
  s.value_ = PyRef<>::borrow(value);
  return s;
}

bool SavedVariable::is_plain() const {
  auto plain = [](PyObject* o) {
    return PyLong_CheckExact(o) || PyFloat_CheckExact(o) || PyBool_Check(o) || o == Py_None || PyUnicode_CheckExact(o);
  };
  if (!is_constant_) return false;
  if (!PyTuple_CheckExact(value_.get())) return plain(value_.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(value_.get()); ++i)
    if (!plain(PyTuple_GET_ITEM(value_.get(), i))) return false;
  return true;
}

void SavedVariable::check_version(const Node* owner) const {
  if (counter_ && counter_->version != version_)
    runtime_error(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        "%s saved it at version %lld, it is now at version %lld",
        node_name(owner), static_cast<long long>(version_), static_cast<long long>(counter_->version));
}

Tensor* SavedVariable::unpack_data(const Node* owner) const {
  if (!value_ || is_constant_) return nullptr;
  check_version(owner);
  return as_tensor(value_.get());
}

PyRef<> SavedVariable::unpack(Node* owner) const {
  if (!value_) return none_ref();
  if (is_constant_) return value_.copy();
  check_version(owner);
  PyRef<Tensor> data = PyRef<Tensor>::borrow(as_tensor(value_.get()));
  if (is_leaf_) {
    Variable* leaf = as_variable(origin_.get());
    if (leaf->data.get() == data.get() && !leaf->grad_fn) return PyRef<>::borrow(leaf);
    // The leaf was given other data since: what was saved is the old data, as a value without history.
    return new_leaf(std::move(data));
  }
  PyRef<Node> grad_fn = is_output_ ? PyRef<Node>::borrow(owner) : PyRef<Node>::borrow(as_node(origin_.get()));
  if (!grad_fn) runtime_error("No grad_fn for non-leaf saved variable");
  // Shared first: making a Variable may run a finalizer, which may release the node that this is part of.
  CounterRef counter = counter_.share();
  PyRef<Variable> v = new_interior(std::move(data), std::move(grad_fn), output_nr_, requires_grad_);
  v->counter = std::move(counter);
  ++v->counter->variables;
  return v;
}

int SavedVariable::traverse(visitproc visit, void* arg) const {
  Py_VISIT(value_.get());
  Py_VISIT(origin_.get());
  return 0;
}

void SavedVariable::reset() noexcept {
  counter_.drop();
  origin_.reset();
  value_.reset();
}

}  // namespace torchlite
