// Note [Engine scratch]
// A run numbers the nodes it reaches; a node carries the number (`slot`) and whose it is (`run`). A second run that is
// active at the same time (nested in a Function's backward, or of another thread while Python code lets go of the GIL)
// and reaches a node that a live run has marked keeps that node's number in a table of its own instead. So the common
// case costs two words per node and no hashing, and any number of runs may overlap.
//
// Order: a node is ready when all gradients for it have arrived; the youngest ready node runs first. The leaf
// accumulators count as youngest of all, so that gradients are added up as soon as they are complete.
#include "autograd/engine.h"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include "autograd/hooks.h"
#include "autograd/functions/accumulate_grad.h"
#include "autograd/places.h"
#include "autograd/ops/op.h"
#include "autograd/ops/sparse.h"
#include "autograd/stochastic.h"

namespace torchlite {

namespace {

uint32_t last_run = 0;
std::vector<uint32_t> active_runs;

bool is_active(uint32_t run) { return std::find(active_runs.begin(), active_runs.end(), run) != active_runs.end(); }

// Sum of two gradients for the same place. The sum of a plain backward is private to the engine until it is handed
// out, so a further one may be added into it; `private_sum` says that `a` is one.
PyRef<Variable> sum(PyRef<Variable> a, PyRef<Variable> b, bool* private_sum) {
  static const Op& add = find_op("add");
  static const Value one(1);
  if (a->is_volatile && b->is_volatile) {
    // Held: what hooks have kept of a gradient may be given other data by another thread.
    PyRef<Tensor> x = a->data.copy(), y = b->data.copy();
    PyObject* args[] = {x.object(), one.object(), y.object()};
    if (*private_sum && Py_REFCNT(a.get()) == 1 && Py_REFCNT(x.get()) == 2 && x->dtype == y->dtype &&
        x->sizes() == y->sizes() && !is_sparse(x.get())) {
      call_op_in_place(add, args);
      return a;
    }
    *private_sum = true;
    return new_volatile(call_op(add, args).cast<Tensor>());
  }
  // A volatile one must not make the sum volatile: the other has a history.
  auto with_history = [](PyRef<Variable> v) {
    return v->is_volatile ? new_leaf(PyRef<Tensor>::borrow(v->data.get())) : std::move(v);
  };
  *private_sum = false;
  a = with_history(std::move(a));
  b = with_history(std::move(b));
  PyObject* args[] = {a.object(), one.object(), b.object()};
  return call_op(add, args).cast<Variable>();
}

struct Task {
  PyRef<Node> node;
  PyRef<Variable> single;  // the gradient of a node's only output
  uint32_t dependencies : 27 = 0;
  bool needed : 1 = true;        // leads to something that is asked for
  bool private_sum : 1 = false;  // `single` is a sum made here
  bool stochastic : 1 = false;
  bool captured : 1 = false;
  bool leads_on : 1 = true;  // to something else that is asked for; a captured one that doesn't is not run
};

class Run;
thread_local Run* current_run = nullptr;

class Run {
 public:
  Run(bool keep_graph, const std::vector<Capture>& captures, bool only_captures)
      : keep_graph_(keep_graph), only_captures_(only_captures), captures_(captures), outer_(current_run) {
    do ++last_run;
    while (last_run == 0 || is_active(last_run));
    id_ = last_run;
    active_runs.push_back(id_);
    current_run = this;
  }
  ~Run() {
    current_run = outer_;
    active_runs.erase(std::find(active_runs.begin(), active_runs.end(), id_));
  }
  Run(const Run&) = delete;

  std::vector<PyRef<Variable>> execute(std::vector<Root>& roots);
  bool keeps_graph() const { return keep_graph_; }
  void add_callback(PyRef<> callback) { callbacks_.push_back(std::move(callback)); }

 private:
  using Slot = uint32_t;
  static constexpr Slot kNone = UINT32_MAX;

  Slot find(const Node* node) const {
    if (node->run == id_) return node->slot;
    if (foreign_.empty()) return kNone;
    auto it = foreign_.find(node);
    return it == foreign_.end() ? kNone : it->second;
  }

  // The node's number; `*fresh` if it was not known.
  Slot enter(Node* node, bool* fresh) {
    Slot slot = find(node);
    *fresh = slot == kNone;
    if (!*fresh) return slot;
    slot = static_cast<Slot>(tasks_.size());
    Task& task = tasks_.emplace_back();
    task.node = PyRef<Node>::borrow(node);
    if (node->run != 0 && node->run != id_ && is_active(node->run)) {
      foreign_.emplace(node, slot);
    } else {
      node->run = id_;
      node->slot = slot;
    }
    return slot;
  }

  void discover(const std::vector<Root>& roots);
  void mark_needed();
  void count_dependencies();
  void add_gradient(Slot slot, uint32_t nr, PyRef<Variable> g);
  void push(Slot slot) {
    heap_.emplace_back(uint64_t{tasks_[slot].node->sequence}, slot);
    std::push_heap(heap_.begin(), heap_.end());
  }
  void run_task(Slot slot);
  void capture(Slot slot, const Gradients& grads);
  void run_callbacks();

  RunPlaces places_;
  uint32_t id_;
  bool keep_graph_, only_captures_;
  bool any_stochastic_ = false;
  const std::vector<Capture>& captures_;
  Run* outer_;
  std::deque<Task> tasks_;
  std::unordered_map<const Node*, Slot> foreign_;
  std::unordered_map<Slot, Gradients> several_;  // gradients of the nodes with several outputs
  std::vector<std::pair<uint64_t, Slot>> heap_;
  std::vector<std::pair<Slot, size_t>> captured_;  // sorted: tasks and which capture each of them is
  std::vector<PyRef<Variable>> results_;
  std::vector<PyRef<>> callbacks_;
};

void Run::discover(const std::vector<Root>& roots) {
  std::vector<Slot> stack;
  std::unordered_set<const Node*> seen;  // by the search for stochastic Functions
  bool fresh;
  for (const Root& root : roots) {
    Slot slot = enter(root.function.get(), &fresh);
    if (fresh) stack.push_back(slot);
  }
  while (!stack.empty()) {
    Slot slot = stack.back();
    stack.pop_back();
    Node* node = tasks_[slot].node.get();
    if (stochastic_in_use)
      find_stochastic(node, seen, [&](Node* f) {
        Slot to = enter(f, &fresh);
        if (fresh) stack.push_back(to);
        any_stochastic_ = tasks_[to].stochastic = true;
      });
    Edge* edges = node->edges();
    for (int i = 0; i < node->n_inputs; ++i) {
      Node* next = edges[i].function.get();
      if (!next || !next->requires_grad) continue;
      Slot to = enter(next, &fresh);
      if (fresh) stack.push_back(to);
    }
  }
  for (size_t k = 0; k < captures_.size(); ++k) {
    Slot slot = captures_[k].function ? find(captures_[k].function.get()) : kNone;
    if (slot == kNone && captures_[k].function && only_captures_)
      runtime_error("differentiated input is unreachable: input %zu is part of another graph only", k);
    if (slot == kNone) runtime_error("One of the differentiated Variables appears to not have been used in the graph");
    tasks_[slot].captured = true;
    captured_.emplace_back(slot, k);
  }
  std::sort(captured_.begin(), captured_.end());
}

// With `only_captures`, keeps the nodes from which a capture can be reached.
void Run::mark_needed() {
  if (!only_captures_) return;
  struct Frame {
    Slot slot;
    int edge;
  };
  std::vector<char> visited(tasks_.size(), 0);
  std::vector<Frame> stack;
  for (Task& task : tasks_) {
    task.leads_on = task.stochastic;
    task.needed = task.captured || task.stochastic;
  }
  for (Slot start = 0; start < tasks_.size(); ++start) {
    if (visited[start]) continue;
    visited[start] = 1;
    stack.push_back({start, 0});
    while (!stack.empty()) {
      Frame& frame = stack.back();
      Task& task = tasks_[frame.slot];
      Node* node = task.node.get();
      if (frame.edge == node->n_inputs) {
        Slot done = frame.slot;
        stack.pop_back();
        if (!stack.empty() && tasks_[done].needed)
          tasks_[stack.back().slot].needed = tasks_[stack.back().slot].leads_on = true;
        continue;
      }
      Node* next = node->edges()[frame.edge++].function.get();
      if (!next || !next->requires_grad) continue;
      Slot to = find(next);
      if (tasks_[to].needed) task.needed = task.leads_on = true;
      if (!visited[to]) {
        visited[to] = 1;
        stack.push_back({to, 0});
      }
    }
  }
}

void Run::count_dependencies() {
  for (Task& task : tasks_) {
    if (!task.needed) continue;
    Node* node = task.node.get();
    if (!node->requires_grad) continue;
    Edge* edges = node->edges();
    for (int i = 0; i < node->n_inputs; ++i) {
      Node* next = edges[i].function.get();
      if (next && next->requires_grad) ++tasks_[find(next)].dependencies;
    }
  }
}

void Run::add_gradient(Slot slot, uint32_t nr, PyRef<Variable> g) {
  Task& task = tasks_[slot];
  if (!g || task.stochastic) return;
  if (task.node->n_outputs <= 1) {
    if (task.single) {
      bool private_sum = task.private_sum;
      g = sum(std::move(task.single), std::move(g), &private_sum);
      task.private_sum = private_sum;
    }
    task.single = std::move(g);
    return;
  }
  Gradients& several = several_[slot];
  if (several.empty()) several.resize(task.node->n_outputs);
  if (nr >= several.size())
    runtime_error("%s: there is no output %u, only %zu", node_name(task.node.get()), nr, several.size());
  PyRef<Variable>& place = several[nr];
  bool private_sum = false;
  place = place ? sum(std::move(place), std::move(g), &private_sum) : std::move(g);
}

void Run::capture(Slot slot, const Gradients& grads) {
  auto at = std::lower_bound(captured_.begin(), captured_.end(), std::pair(slot, size_t{0}));
  for (; at != captured_.end() && at->first == slot; ++at)
    if (uint32_t nr = captures_[at->second].output_nr; nr < grads.size()) results_[at->second] = grads[nr].copy();
}

void Run::run_task(Slot slot) {
  Task& task = tasks_[slot];
  // The task's own reference: the node must live while it runs, whatever its backward drops.
  PyRef<Node> node = task.node.copy();
  Gradients grads;
  if (node->n_outputs > 1) {
    grads = std::move(several_[slot]);
    several_.erase(slot);
    grads.resize(node->n_outputs);
    if (task.single) grads[0] = std::move(task.single);  // the node got another output since
  } else {
    grads.resize(1);
    grads[0] = std::move(task.single);
  }
  DeviceScope here(place_of_gradients(grads));
  places_.before(node.get());
  if (node->extra && !node->extra->pre_hooks.empty()) run_pre_hooks(node.get(), grads);
  bool is_accumulator = Py_TYPE(node.get()) == &AccumulateGrad_Type;
  if (task.captured) {
    capture(slot, grads);
    // Hooks of a captured leaf do not run, and its `.grad` stays as it is.
    if (is_accumulator || !task.leads_on) return;
  }
  Gradients result;
  bool any = task.stochastic || node->kind == NodeKind::Python;
  for (const PyRef<Variable>& g : grads) any = any || g;
  if (!any) {
    result.resize(static_cast<size_t>(node->n_inputs));
  } else if (node->extra && node->extra->post_hooks) {
    Gradients copies;
    for (const PyRef<Variable>& g : grads) copies.push_back(g.copy());
    result = node->node_class()->apply(node.get(), std::move(grads));
    run_post_hooks(node.get(), result, copies);
  } else {
    result = node->node_class()->apply(node.get(), std::move(grads));
  }
  if (result.size() != static_cast<size_t>(node->n_inputs) && !is_accumulator)
    runtime_error("Function '%s' returned an invalid number of outputs - expected %d, but got %zu",
                  node_name(node.get()), node->n_inputs, result.size());
  if (!keep_graph_ && any) node->node_class()->release(node.get());
  Edge* edges = node->edges();
  for (int i = 0; i < node->n_inputs; ++i) {
    Node* next = edges[i].function.get();
    if (!next || !next->requires_grad) continue;
    Slot to = find(next);
    if (to == kNone) continue;  // an edge that appeared while the run was going on
    Task& target = tasks_[to];
    if (!target.needed) continue;
    add_gradient(to, edges[i].nr, std::move(result[static_cast<size_t>(i)]));
    if (--target.dependencies == 0 && !target.stochastic) push(to);
  }
}

void Run::run_callbacks() {
  // By index: a callback may queue further ones.
  for (size_t i = 0; i < callbacks_.size(); ++i) {
    PyRef<> f = callbacks_[i].copy();
    check(PyObject_CallNoArgs(f.get()));
  }
}

std::vector<PyRef<Variable>> Run::execute(std::vector<Root>& roots) {
  results_.resize(captures_.size());
  discover(roots);
  mark_needed();
  count_dependencies();
  bool any = any_stochastic_;
  for (const Root& root : roots) any = any || root.function->requires_grad;
  if (!any) runtime_error("there are no graph nodes that require computing gradients");
  for (Root& root : roots) add_gradient(find(root.function.get()), root.output_nr, std::move(root.gradient));
  size_t pending = 0;
  for (Slot slot = 0; slot < tasks_.size(); ++slot) {
    Task& task = tasks_[slot];
    if (!task.needed || !task.node->requires_grad) continue;
    ++pending;
    if (task.stochastic || task.dependencies == 0) push(slot);
  }
  for (unsigned steps = 0; !heap_.empty(); ++steps) {
    if (steps % 32 == 31) check(PyErr_CheckSignals());
    std::pop_heap(heap_.begin(), heap_.end());
    Slot slot = heap_.back().second;
    heap_.pop_back();
    --pending;
    run_task(slot);
  }
  if (pending != 0) runtime_error("could not compute gradients for some functions");
  run_callbacks();
  return std::move(results_);
}

}  // namespace

std::vector<PyRef<Variable>> run_backward(std::vector<Root>& roots, bool keep_graph,
                                          const std::vector<Capture>& captures, bool only_captures) {
  Run run(keep_graph, captures, only_captures);
  return run.execute(roots);
}

std::vector<Value> grad_of(const std::vector<Value>& outputs, const std::vector<Value>& inputs,
                           const std::vector<Value>& grad_outputs) {
  std::vector<Root> roots;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Variable* v = as_variable(outputs[i].object());
    if (!grad_outputs[i] || grad_outputs[i].is_none() || !v->requires_grad) continue;
    roots.push_back({gradient_edge(v), v->output_nr, grad_outputs[i].ref().cast<Variable>()});
  }
  std::vector<Capture> captures;
  std::vector<size_t> positions;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i] || !is_variable(inputs[i].object())) continue;
    Variable* v = as_variable(inputs[i].object());
    if (!v->requires_grad) continue;
    captures.push_back({gradient_edge(v), v->output_nr});
    positions.push_back(i);
  }
  std::vector<Value> out(inputs.size());
  if (roots.empty() || captures.empty()) return out;
  std::vector<PyRef<Variable>> grads = run_backward(roots, true, captures, true);
  for (size_t k = 0; k < grads.size(); ++k)
    if (grads[k]) out[positions[k]] = Value(std::move(grads[k]));
  return out;
}

bool backward_keeps_graph() { return !current_run || current_run->keeps_graph(); }

void queue_callback(PyRef<> callback) {
  if (!current_run) runtime_error("queue_callback: no backward is running on this thread");
  current_run->add_callback(std::move(callback));
}

}  // namespace torchlite
