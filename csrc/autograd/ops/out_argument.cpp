#include "autograd/ops/out_argument.h"

#include <cstring>
#include <utility>
#include <vector>

#include "autograd/ops/bind.h"
#include "tensor/cuda.h"
#include "tensor/python_tensor.h"
#include "tensor/views.h"

namespace torchlite {

namespace {

bool any_variable(const Op& op, const ParsedArgs& a) {
  for (size_t i = 0; i < op.params.size(); ++i) {
    if (is_variable(a.values[i])) return true;
    if (static_cast<int>(i) != op.list_index) continue;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(a.values[i]); ++k)
      if (is_variable(PyTuple_GET_ITEM(a.values[i], k))) return true;
  }
  return false;
}

const Tensor* first_tensor(const Op& op, const ParsedArgs& a) {
  for (size_t i = 0; i < op.params.size(); ++i) {
    if (is_tensor(a.values[i])) return as_tensor(a.values[i]);
    if (static_cast<int>(i) == op.list_index && PyTuple_GET_SIZE(a.values[i]))
      return as_tensor(PyTuple_GET_ITEM(a.values[i], 0));
  }
  return nullptr;
}

// Results go into a tensor of their own class. Those of comparisons and sums of integers also go into one of the
// operands' class, which they had in the era.
bool accepts(const Tensor* out, const Tensor* result, const Tensor* operand) {
  if (out->dtype == result->dtype) return true;
  if (!operand || out->dtype != operand->dtype) return false;
  bool compared = result->dtype == DType::Byte;
  bool summed = result->dtype == DType::Long && !is_floating(operand->dtype);
  return compared || summed;
}

// Sizes and strides of tensors, which they go back to unless all is done. A storage that has grown since stays so;
// nobody sees that.
class Resizing {
 public:
  Resizing() = default;
  Resizing(const Resizing&) = delete;
  ~Resizing() {
    if (done) return;
    ErrorGuard keep;
    for (auto& [tensor, view] : before_) views::take(tensor, view.get());
  }

  void resize(Tensor* t, Dims sizes) {
    if (t->sizes() == sizes) return;
    before_.emplace_back(t, alias(t));
    torchlite::resize(t, sizes);
  }

  bool done = false;

 private:
  std::vector<std::pair<Tensor*, PyRef<Tensor>>> before_;
};

// Whether the result's elements are the target's as they lie: copying them cannot fail.
bool lie_alike(const Tensor* target, const Tensor* result) {
  return target->device() == kCPU && target->dtype == result->dtype && target->contiguous && result->contiguous;
}

// A result on the memory of a tensor that is about to be resized is copied first.
void part_from_targets(std::vector<PyRef<Tensor>>& results, const std::vector<Tensor*>& targets) {
  for (PyRef<Tensor>& r : results)
    for (const Tensor* t : targets)
      if (r->storage.get() == t->storage.get() && !(r->sizes() == t->sizes())) {
        r = clone(r.get());
        break;
      }
}

}  // namespace

Py_ssize_t find_out(PyObject* kwnames) {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), "out") == 0) return k;
  return -1;
}

PyObject* call_op_out(const Op& op, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, Py_ssize_t at) {
  const char* name = op.name.c_str();
  Py_ssize_t n_keywords = PyTuple_GET_SIZE(kwnames);
  PyObject* out = args[n + at];
  std::vector<PyObject*> rest(args, args + n);
  PyRef<> names = check(PyTuple_New(n_keywords - 1));
  for (Py_ssize_t k = 0, kept = 0; k < n_keywords; ++k) {
    if (k == at) continue;
    rest.push_back(args[n + k]);
    PyTuple_SET_ITEM(names.get(), kept++, new_ref(PyTuple_GET_ITEM(kwnames, k)));
  }
  ParsedArgs a;
  parse_args(op, nullptr, rest.data(), n, names.get(), a);
  if (out == Py_None) return to_python(op, a, call_op(op, a.values));

  bool tuple = PyTuple_Check(out) || PyList_Check(out);
  PyRef<> outs = check(tuple ? PySequence_Tuple(out) : PyTuple_Pack(1, out));
  bool with_variable = any_variable(op, a);
  std::vector<Tensor*> targets;
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(outs.get()); ++k) {
    PyObject* o = PyTuple_GET_ITEM(outs.get(), k);
    if (is_variable(o) || with_variable)
      type_error(
          "%s: 'out' takes the results of tensors only: what is written there is not part of a graph, so a "
          "Variable can be neither 'out' nor an argument",
          name);
    if (!is_tensor(o))
      type_error("%s: 'out' must be a tensor%s, not %.100s", name, op.row->outputs > 1 ? " or a tuple of them" : "",
                 type_name(o));
    for (Tensor* other : targets)
      if (other == as_tensor(o)) runtime_error("%s: 'out' has the same tensor twice", name);
    targets.push_back(as_tensor(o));
  }

  PyRef<> returned = call_op(op, a.values);
  bool several = PyTuple_Check(returned.get());
  size_t n_results = several ? static_cast<size_t>(PyTuple_GET_SIZE(returned.get())) : 1;
  if (targets.size() != n_results || (tuple && !several && op.row->outputs == 1))
    type_error("%s: 'out' must be %s%zu tensor%s, since there %s as many results, but it is %s%zu", name,
               n_results > 1 ? "a tuple of " : "", n_results, n_results > 1 ? "s" : "", n_results > 1 ? "are" : "is",
               tuple ? "a sequence of " : "", targets.size());
  std::vector<PyRef<Tensor>> results;
  const Tensor* operand = first_tensor(op, a);
  for (size_t k = 0; k < n_results; ++k) {
    PyObject* r = several ? PyTuple_GET_ITEM(returned.get(), static_cast<Py_ssize_t>(k)) : returned.get();
    results.push_back(PyRef<Tensor>::borrow(as_tensor(r)));
    if (!accepts(targets[k], results[k].get(), operand))
      type_error("%s: 'out' must be a %s, as result %zu is, not a %s", name,
                 class_name(&TensorTypes[static_cast<int>(results[k]->dtype)]).c_str(), k,
                 class_name(Py_TYPE(targets[k])).c_str());
    if (targets[k]->device() != results[k]->device())
      runtime_error("%s: 'out' is on %s, but result %zu is on %s", name, place_name(targets[k]->device()).c_str(), k,
                    place_name(results[k]->device()).c_str());
    require_writable(targets[k], name);
  }
  returned.reset();
  part_from_targets(results, targets);
  // What may fail for want of memory comes before the first element is written, as far as can be.
  for (PyRef<Tensor>& r : results)
    if (r->device() == kCPU) r = contiguous(r.get());
  Resizing resizing;
  for (size_t k = 0; k < n_results; ++k) resizing.resize(targets[k], results[k]->sizes());
  for (size_t k = 0; k < n_results; ++k)
    if (!lie_alike(targets[k], results[k].get())) copy_into(targets[k], results[k].get());
  for (size_t k = 0; k < n_results; ++k)
    if (Tensor* r = results[k].get(); lie_alike(targets[k], r) && r->numel)
      std::memmove(targets[k]->bytes(), r->bytes(), static_cast<size_t>(r->numel * itemsize(r->dtype)));
  resizing.done = true;
  return new_ref(tuple ? outs.get() : out);
}

}  // namespace torchlite
