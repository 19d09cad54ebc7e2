// How Python sees the engine: `_ImperativeEngine`.
#include "autograd/engine.h"
#include "utils/method.h"

namespace torchlite {

namespace {

struct Arguments {
  PyObject* variables = nullptr;
  PyObject* gradients = nullptr;
  int keep_graph = 0;
  PyObject* inputs = nullptr;
  int only_inputs = 0;
};

std::vector<Root> parse_roots(const Arguments& a) {
  for (PyObject* t : {a.variables, a.gradients})
    if (!PyTuple_Check(t)) runtime_error("variables argument is expected to be a tuple, but got %s", type_name(t));
  Py_ssize_t n = PyTuple_GET_SIZE(a.variables);
  if (n != PyTuple_GET_SIZE(a.gradients))
    runtime_error("got %zd variables and %zd gradients", n, PyTuple_GET_SIZE(a.gradients));
  std::vector<Root> roots;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(a.variables, i);
    if (!is_variable(o)) runtime_error("element %zd of variables tuple is not a Variable", i);
    Variable* v = as_variable(o);
    if (v->is_volatile) runtime_error("element %zd of variables tuple is volatile", i);
    PyRef<Node> function = gradient_edge(v);
    if (!function) runtime_error("element %zd of variables tuple does not require grad", i);
    PyObject* g = PyTuple_GET_ITEM(a.gradients, i);
    PyRef<Variable> gradient;
    if (is_variable(g)) {
      gradient = PyRef<Variable>::borrow(as_variable(g));
      const Tensor *x = v->data.get(), *y = gradient->data.get();
      if (!(x->sizes() == y->sizes()))
        runtime_error("element %zd of gradients tuple has size %s, but the corresponding Variable has size %s", i,
                      format_dims(y->sizes()).c_str(), format_dims(x->sizes()).c_str());
      if (x->dtype == y->dtype && x->device() != y->device() && x->device() != kCPU && y->device() != kCPU)
        runtime_error(
            "element %zd of gradients tuple has data on device %d, but the corresponding Variable is on device %d", i,
            y->device(), x->device());
      if (x->dtype != y->dtype || x->device() != y->device())
        runtime_error("element %zd of gradients tuple has data of type %s, but the corresponding Variable has type %s",
                      i, type_name(gradient->data.object()), type_name(v->data.object()));
    } else if (g != Py_None) {
      runtime_error("element %zd of gradients tuple is not a Variable or None", i);
    } else if (v->requires_grad) {
      runtime_error("element %zd of gradients tuple is None, but the corresponding Variable requires grad", i);
    }
    roots.push_back({std::move(function), v->output_nr, std::move(gradient)});
  }
  return roots;
}

std::vector<Capture> parse_inputs(const Arguments& a) {
  std::vector<Capture> captures;
  if (!PyTuple_Check(a.inputs)) runtime_error("inputs argument has to be a tuple");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(a.inputs); ++i) {
    PyObject* o = PyTuple_GET_ITEM(a.inputs, i);
    if (!is_variable(o)) runtime_error("all inputs have to be Variables, but got %s", type_name(o));
    Variable* v = as_variable(o);
    // A leaf whose accumulator is gone was used by no living graph.
    PyRef<Node> function = v->grad_fn ? v->grad_fn.copy() : PyRef<Node>();
    if (!function && v->accumulator) function = gradient_edge(v);
    captures.push_back({std::move(function), v->output_nr});
  }
  return captures;
}

PyObject* engine_run_backward(PyObject*, PyObject* args, PyObject* kwargs) {
  return guard([&]() -> PyObject* {
    static const char* const names[] = {"variables", "grad_variables", "keep_graph", "inputs", "only_inputs", nullptr};
    Arguments a;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOp|Op:run_backward", const_cast<char**>(names), &a.variables,
                                     &a.gradients, &a.keep_graph, &a.inputs, &a.only_inputs))
      throw PyError();
    std::vector<Root> roots = parse_roots(a);
    bool capture = a.inputs && a.inputs != Py_None;
    std::vector<Capture> captures;
    if (capture) captures = parse_inputs(a);
    std::vector<PyRef<Variable>> grads = run_backward(roots, a.keep_graph, captures, capture && a.only_inputs);
    if (!capture) return none();
    PyRef<> out = check(PyTuple_New(static_cast<Py_ssize_t>(grads.size())));
    for (size_t i = 0; i < grads.size(); ++i)
      PyTuple_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), grads[i] ? grads[i].release_object() : none());
    return out.release();
  });
}

PyObject* engine_queue_callback(PyObject*, PyObject* callback) {
  return guard([&]() -> PyObject* {
    if (!PyCallable_Check(callback))
      type_error("queue_callback: argument 'callback' must be callable, not %.100s", type_name(callback));
    queue_callback(PyRef<>::borrow(callback));
    return none();
  });
}

PyMethodDef engine_methods[] = {
    {"run_backward", method(engine_run_backward), METH_VARARGS | METH_KEYWORDS,
     "run_backward(variables, grad_variables, keep_graph, inputs=None, only_inputs=False)\n\n"
     "Runs backward from a tuple of Variables with a tuple of gradients. With `inputs`, returns their gradients."},
    {"queue_callback", engine_queue_callback, METH_O,
     "Calls callback() after the backward that is running on this thread has succeeded."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

PyTypeObject ImperativeEngine_Type = {
    .ob_base = PyVarObject_HEAD_INIT(nullptr, 0).tp_name = "torchlite._C._ImperativeEngine",
    .tp_basicsize = sizeof(PyObject),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .tp_doc = "The backward engine. It has no state of its own: every instance is as good as another.",
    .tp_methods = engine_methods,
    .tp_new = PyType_GenericNew,
};

void init_engine(PyObject* module) {
  check(PyType_Ready(&ImperativeEngine_Type));
  check(PyModule_AddType(module, &ImperativeEngine_Type));
}

}  // namespace torchlite
