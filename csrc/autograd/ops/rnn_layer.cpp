// Whole recurrent layers: one GEMM for the inputs of all steps, then per step one small GEMM and a fused cell. The
// backward does one small GEMM per step and one large one per weight.
//
// Sizes: T steps, B sequences, I inputs, H hidden units, G gates. Weights are (G H, I) and (G H, H).
#include <cstring>

#include "autograd/ops/nn.h"
#include "autograd/ops/rnn.h"
#include "autograd/ops/types.h"
#include "tensor/gemm.h"
#include "tensor/kernels/elementwise.h"
#include "tensor/kernels/reduce.h"
#include "tensor/kernels/rnn.h"
#include "utils/gil.h"

namespace torchlite {

namespace {

using Sizes = std::vector<int64_t>;
using kernels::BinaryKind;

// A layer's operands in the kernels' form: contiguous, Float or Double. Absent biases stay null.
struct Layer {
  PyRef<Tensor> x, h0, w_ih, w_hh, b_ih, b_hh;
  int64_t steps, batch, inputs, hidden, gates;  // gates: G H
  bool reverse;

  // Position in time of the k-th step that is run.
  int64_t time(int64_t k) const { return reverse ? steps - 1 - k : k; }
  DType dtype() const { return x->dtype; }

  template <class T>
  const T* bias(const PyRef<Tensor>& b) const {
    return b ? b->ptr<T>() : nullptr;
  }

  PyRef<Tensor> over_time(int64_t width) const {
    int64_t sizes[] = {steps, batch, width};
    return new_tensor(dtype(), {sizes, 3});
  }
  PyRef<Tensor> state() const {
    int64_t sizes[] = {batch, hidden};
    return new_tensor(dtype(), {sizes, 2});
  }
  // The input's part of the gates of all steps: x w_ih^T.
  PyRef<Tensor> input_gates() const {
    PyRef<Tensor> out = over_time(gates);
    gemm(matrix_of(x.get(), inputs), matrix_of(w_ih.get(), inputs).t(), matrix_of(out.get(), gates));
    return out;
  }
  // Step `t` of a tensor over time, as memory and as a matrix.
  template <class T>
  T* at(const PyRef<Tensor>& over_time, int64_t t) const {
    return over_time->ptr<T>() + t * batch * over_time->size(2);
  }
  MatrixRef matrix_at(const PyRef<Tensor>& over_time, int64_t t, int64_t count = 1) const {
    int64_t width = over_time->size(2);
    return {dtype(), over_time->bytes() + t * batch * width * itemsize(dtype()), count * batch, width, false};
  }
};

// Names of the arguments (input, h0, ..., w_ih, w_hh, b_ih, b_hh) lie `shift` further on with a c0.
Layer make_layer(const char* name, Tensor* x, Tensor* h0, Tensor* w_ih, Tensor* w_hh, Tensor* b_ih, Tensor* b_hh,
                 int64_t gate_count, bool reverse, const Tensor* c0 = nullptr) {
  require_one_type(name, {x, h0, c0, w_ih, w_hh, b_ih, b_hh});
  if (x->ndim != 3)
    runtime_error("%s: input must have size (steps, batch, inputs), but has size %s", name,
                  format_dims(x->sizes()).c_str());
  Layer l;
  l.steps = x->size(0);
  l.batch = x->size(1);
  l.inputs = x->size(2);
  l.hidden = h0->ndim ? h0->size(h0->ndim - 1) : 0;
  l.gates = gate_count * l.hidden;
  l.reverse = reverse;
  auto require = [&](const Tensor* t, const char* argument, Sizes sizes) {
    if (t && !(t->sizes() == Dims(sizes)))
      runtime_error("%s: '%s' must have size %s for an input of size %s and %lld hidden units, but has size %s", name,
                    argument, format_dims(sizes).c_str(), format_dims(x->sizes()).c_str(),
                    static_cast<long long>(l.hidden), format_dims(t->sizes()).c_str());
  };
  require(h0, "h0", {l.batch, l.hidden});
  require(c0, "c0", {l.batch, l.hidden});
  require(w_ih, "w_ih", {l.gates, l.inputs});
  require(w_hh, "w_hh", {l.gates, l.hidden});
  require(b_ih, "b_ih", {l.gates});
  require(b_hh, "b_hh", {l.gates});
  if (l.steps == 0) runtime_error("%s: the input has no steps: its size is %s", name, format_dims(x->sizes()).c_str());
  l.x = floating_operand(x, name, "input");
  l.h0 = floating_operand(h0, name, "h0");
  l.w_ih = floating_operand(w_ih, name, "w_ih");
  l.w_hh = floating_operand(w_hh, name, "w_hh");
  if (b_ih) l.b_ih = floating_operand(b_ih, name, "b_ih");
  if (b_hh) l.b_hh = floating_operand(b_hh, name, "b_hh");
  return l;
}

// The layer of a backward; `shift` is 1 where argument 2 is c0. Biases are not needed.
Layer saved_layer(Backward& b, const char* name, int shift, int64_t gate_count, int reverse_index) {
  Value x = b.value(0), h0 = b.value(1), w_ih = b.value(2 + shift), w_hh = b.value(3 + shift);
  return make_layer(name, x.tensor(), h0.tensor(), w_ih.tensor(), w_hh.tensor(), nullptr, nullptr, gate_count,
                    b.boolean(reverse_index));
}

PyRef<Tensor> copy_of(const Layer& l, const void* memory) {
  PyRef<Tensor> out = l.state();
  std::memcpy(out->bytes(), memory, static_cast<size_t>(out->numel * itemsize(out->dtype)));
  return out;
}

// Sets the gradients that follow from those of the gates: of the input, the weights and the biases. `dinput` and
// `dhidden` are the gradients of the two parts of the gates over all steps (one and the same for most cells).
void set_weight_gradients(Backward& b, const Layer& l, const PyRef<Tensor>& output, const PyRef<Tensor>& dinput,
                          const PyRef<Tensor>& dhidden, int shift, DType dtype) {
  auto set = [&](int i, PyRef<Tensor> g) { b.set(i, Value(to_dtype(g.get(), dtype))); };
  if (b.needs(0)) {
    PyRef<Tensor> dx = l.over_time(l.inputs);
    gemm(matrix_of(dinput.get(), l.gates), matrix_of(l.w_ih.get(), l.inputs), matrix_of(dx.get(), l.inputs));
    set(0, std::move(dx));
  }
  if (b.needs(2 + shift)) {
    PyRef<Tensor> dw = new_like(l.w_ih.get());
    gemm(matrix_of(dinput.get(), l.gates).t(), matrix_of(l.x.get(), l.inputs), matrix_of(dw.get(), l.inputs));
    set(2 + shift, std::move(dw));
  }
  if (b.needs(3 + shift)) {
    // The state before each step is the output one step earlier, and h0 for the first.
    PyRef<Tensor> dw = new_like(l.w_hh.get());
    gemm(l.matrix_at(dhidden, l.time(0)).t(), matrix_of(l.h0.get(), l.hidden), matrix_of(dw.get(), l.hidden));
    if (l.steps > 1) {
      PyRef<Tensor> rest = new_like(dw.get());
      gemm(l.matrix_at(dhidden, l.reverse ? 0 : 1, l.steps - 1).t(),
           l.matrix_at(output, l.reverse ? 1 : 0, l.steps - 1), matrix_of(rest.get(), l.hidden));
      with_float(l.dtype(), [&]<class T>() { kernels::axpy(T(1), rest->ptr<T>(), dw->ptr<T>(), dw->numel); });
    }
    set(3 + shift, std::move(dw));
  }
  auto bias_gradient = [&](const PyRef<Tensor>& d) {
    PyRef<Tensor> db = new_tensor(l.dtype(), {&l.gates, 1});
    with_float(l.dtype(), [&]<class T>() {
      GilRelease unlocked(d->numel);
      kernels::sum_rows(d->ptr<T>(), l.steps * l.batch, l.gates, false, db->ptr<T>());
    });
    return db;
  };
  if (b.needs(4 + shift)) set(4 + shift, bias_gradient(dinput));
  if (b.needs(5 + shift)) set(5 + shift, bias_gradient(dhidden));
}

// What flows back into the state: starts as the gradient of the last state, or zero.
PyRef<Tensor> state_gradient(Backward& b, const Layer& l, int output) {
  if (!b.has_grad(output)) {
    PyRef<Tensor> zero = l.state();
    std::memset(zero->bytes(), 0, static_cast<size_t>(zero->numel * itemsize(zero->dtype)));
    return zero;
  }
  PyRef<Tensor> g = floating_operand(b.grad(output).tensor(), "backward", "gradient");
  return g.get() == b.grad(output).tensor() ? clone(g.get()) : std::move(g);  // it is written
}

PyRef<Tensor> output_gradient(Backward& b) {
  return b.has_grad(0) ? floating_operand(b.grad(0).tensor(), "backward", "gradient") : PyRef<Tensor>();
}

// ---- LSTM ---------------------------------------------------------------------------------------------------------

Outputs lstm_forward(Call& c) {
  Layer l = make_layer("lstm", c.tensor(0), c.tensor(1), c.tensor(3), c.tensor(4), c.optional_tensor(5),
                       c.optional_tensor(6), 4, c.boolean(7), c.tensor(2));
  PyRef<Tensor> c0 = floating_operand(c.tensor(2), "lstm", "c0");
  PyRef<Tensor> gates = l.input_gates(), output = l.over_time(l.hidden), cells = l.over_time(l.hidden),
                tanh_c = l.over_time(l.hidden);
  int64_t sizes[] = {l.batch, l.gates};
  PyRef<Tensor> hidden_gates = new_tensor(l.dtype(), {sizes, 2}), h_n, c_n;
  with_float(l.dtype(), [&]<class T>() {
    MatrixRef h = matrix_of(l.h0.get(), l.hidden);
    const T* previous = c0->ptr<T>();
    for (int64_t k = 0; k < l.steps; ++k) {
      int64_t t = l.time(k);
      gemm(h, matrix_of(l.w_hh.get(), l.hidden).t(), matrix_of(hidden_gates.get(), l.gates));
      {
        GilRelease unlocked(hidden_gates->numel);
        kernels::lstm_cell(l.at<T>(gates, t), hidden_gates->ptr<T>(), l.bias<T>(l.b_ih), l.bias<T>(l.b_hh), previous,
                           l.batch, l.hidden, l.at<T>(output, t), l.at<T>(cells, t), l.at<T>(gates, t),
                           l.at<T>(tanh_c, t));
      }
      h = l.matrix_at(output, t);
      previous = l.at<T>(cells, t);
    }
    h_n = copy_of(l, h.data);
    c_n = copy_of(l, previous);
  });
  DType dtype = c.tensor(0)->dtype;
  Outputs out(to_dtype(output.get(), dtype), to_dtype(h_n.get(), dtype), to_dtype(c_n.get(), dtype));
  out.v[3] = std::move(gates);
  out.v[4] = std::move(tanh_c);
  out.v[5] = std::move(cells);
  return out;
}

std::vector<Value> lstm_composite(const std::vector<Value>& a) {
  Value input = call<"linear">(a[0], a[3], a[5]), h = a[1], c = a[2];
  int64_t steps = a[0].sizes()[0];
  bool reverse = a[7].object() == Py_True;
  std::vector<Value> output(static_cast<size_t>(steps));
  for (int64_t k = 0; k < steps; ++k) {
    int64_t t = reverse ? steps - 1 - k : k;
    std::vector<Value> next = lstm_cell_composite(
        {call<"select">(input, 0, t), call<"linear">(h, a[4], a[6]), Value(nullptr), Value(nullptr), c});
    h = next[0];
    c = next[1];
    output[static_cast<size_t>(t)] = h;
  }
  return {call<"stack">(output), h, c};
}

void lstm_backward(Backward& b) {
  if (b.recording()) return differentiate(b, 8, 0b01111111, lstm_composite);
  Layer l = saved_layer(b, "lstm", 1, 4, 7);
  DType dtype = b.value(0).dtype();
  PyRef<Tensor> c0 = floating_operand(b.value(2).tensor(), "lstm", "c0");
  PyRef<Tensor> output = floating_operand(b.output(0).tensor(), "lstm", "output");
  Value gates_value = b.output(3), tanh_value = b.output(4), cells_value = b.output(5);
  auto hold = [](const Value& v) { return PyRef<Tensor>::borrow(v.tensor()); };
  PyRef<Tensor> gates = hold(gates_value), tanh_c = hold(tanh_value), cells = hold(cells_value);
  PyRef<Tensor> doutput = output_gradient(b), dh = state_gradient(b, l, 1), dc = state_gradient(b, l, 2);
  PyRef<Tensor> dgates = l.over_time(l.gates);
  with_float(l.dtype(), [&]<class T>() {
    for (int64_t k = l.steps - 1; k >= 0; --k) {
      int64_t t = l.time(k);
      {
        GilRelease unlocked(l.batch * l.gates);
        if (doutput) kernels::axpy(T(1), l.at<T>(doutput, t), dh->ptr<T>(), dh->numel);
        const T* previous = k == 0 ? c0->ptr<T>() : l.at<T>(cells, l.time(k - 1));
        kernels::lstm_cell_backward(dh->ptr<T>(), dc->ptr<T>(), l.at<T>(gates, t), l.at<T>(tanh_c, t), previous,
                                    l.batch, l.hidden, l.at<T>(dgates, t), dc->ptr<T>());
      }
      if (k > 0 || b.needs(1))
        gemm(l.matrix_at(dgates, t), matrix_of(l.w_hh.get(), l.hidden), matrix_of(dh.get(), l.hidden));
    }
  });
  set_weight_gradients(b, l, output, dgates, dgates, 1, dtype);
  b.set(1, Value(to_dtype(dh.get(), dtype)));
  b.set(2, Value(to_dtype(dc.get(), dtype)));
}

// ---- GRU ----------------------------------------------------------------------------------------------------------

Outputs gru_forward(Call& c) {
  Layer l = make_layer("gru", c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3), c.optional_tensor(4),
                       c.optional_tensor(5), 3, c.boolean(6));
  PyRef<Tensor> gates = l.input_gates(), output = l.over_time(l.hidden), hidden_n = l.over_time(l.hidden);
  int64_t sizes[] = {l.batch, l.gates};
  PyRef<Tensor> hidden_gates = new_tensor(l.dtype(), {sizes, 2}), h_n;
  with_float(l.dtype(), [&]<class T>() {
    MatrixRef h = matrix_of(l.h0.get(), l.hidden);
    for (int64_t k = 0; k < l.steps; ++k) {
      int64_t t = l.time(k);
      gemm(h, matrix_of(l.w_hh.get(), l.hidden).t(), matrix_of(hidden_gates.get(), l.gates));
      {
        GilRelease unlocked(hidden_gates->numel);
        kernels::gru_cell(l.at<T>(gates, t), hidden_gates->ptr<T>(), l.bias<T>(l.b_ih), l.bias<T>(l.b_hh),
                          static_cast<const T*>(h.data), l.batch, l.hidden, l.at<T>(output, t), l.at<T>(gates, t),
                          l.at<T>(hidden_n, t));
      }
      h = l.matrix_at(output, t);
    }
    h_n = copy_of(l, h.data);
  });
  DType dtype = c.tensor(0)->dtype;
  Outputs out(to_dtype(output.get(), dtype), to_dtype(h_n.get(), dtype), std::move(gates));
  out.v[3] = std::move(hidden_n);
  return out;
}

std::vector<Value> gru_composite(const std::vector<Value>& a) {
  Value input = call<"linear">(a[0], a[2], a[4]), h = a[1];
  int64_t steps = a[0].sizes()[0];
  bool reverse = a[6].object() == Py_True;
  std::vector<Value> output(static_cast<size_t>(steps));
  for (int64_t k = 0; k < steps; ++k) {
    int64_t t = reverse ? steps - 1 - k : k;
    h = gru_cell_composite(
        {call<"select">(input, 0, t), call<"linear">(h, a[3], a[5]), Value(nullptr), Value(nullptr), h})[0];
    output[static_cast<size_t>(t)] = h;
  }
  return {call<"stack">(output), h};
}

void gru_backward(Backward& b) {
  if (b.recording()) return differentiate(b, 7, 0b0111111, gru_composite);
  Layer l = saved_layer(b, "gru", 0, 3, 6);
  DType dtype = b.value(0).dtype();
  PyRef<Tensor> output = floating_operand(b.output(0).tensor(), "gru", "output");
  PyRef<Tensor> gates = PyRef<Tensor>::borrow(b.output(2).tensor());
  PyRef<Tensor> hidden_n = PyRef<Tensor>::borrow(b.output(3).tensor());
  PyRef<Tensor> doutput = output_gradient(b), dh = state_gradient(b, l, 1), through = l.state();
  PyRef<Tensor> dinput = l.over_time(l.gates), dhidden = l.over_time(l.gates);
  with_float(l.dtype(), [&]<class T>() {
    for (int64_t k = l.steps - 1; k >= 0; --k) {
      int64_t t = l.time(k);
      {
        GilRelease unlocked(l.batch * l.gates);
        if (doutput) kernels::axpy(T(1), l.at<T>(doutput, t), dh->ptr<T>(), dh->numel);
        const T* previous = k == 0 ? l.h0->ptr<T>() : l.at<T>(output, l.time(k - 1));
        kernels::gru_cell_backward(dh->ptr<T>(), l.at<T>(gates, t), l.at<T>(hidden_n, t), previous, l.batch, l.hidden,
                                   l.at<T>(dinput, t), l.at<T>(dhidden, t), dh->ptr<T>());
      }
      if (k == 0 && !b.needs(1)) break;
      gemm(l.matrix_at(dhidden, t), matrix_of(l.w_hh.get(), l.hidden), matrix_of(through.get(), l.hidden));
      kernels::axpy(T(1), through->ptr<T>(), dh->ptr<T>(), dh->numel);
    }
  });
  set_weight_gradients(b, l, output, dinput, dhidden, 0, dtype);
  b.set(1, Value(to_dtype(dh.get(), dtype)));
}

// ---- Elman --------------------------------------------------------------------------------------------------------

bool is_relu(const char* nonlinearity) {
  if (std::strcmp(nonlinearity, "tanh") == 0) return false;
  if (std::strcmp(nonlinearity, "relu") == 0) return true;
  value_error("rnn: nonlinearity must be 'tanh' or 'relu', but is '%s'", nonlinearity);
}
bool is_relu(const Value& nonlinearity) {
  const char* s = PyUnicode_AsUTF8(nonlinearity.object());
  if (!s) throw PyError();
  return is_relu(s);
}

Outputs rnn_forward(Call& c) {
  bool relu = is_relu(c.str(6));
  Layer l = make_layer("rnn", c.tensor(0), c.tensor(1), c.tensor(2), c.tensor(3), c.optional_tensor(4),
                       c.optional_tensor(5), 1, c.boolean(7));
  PyRef<Tensor> output = l.input_gates(), hidden_part = l.state(), h_n;
  with_float(l.dtype(), [&]<class T>() {
    const auto& add = kernels::binary_kernel<T>(BinaryKind::Add);
    for (const PyRef<Tensor>* bias : {&l.b_ih, &l.b_hh})
      if (*bias) add.right_row(output->ptr<T>(), (*bias)->ptr<T>(), output->ptr<T>(), l.steps * l.batch, l.gates);
    auto activate = kernels::unary_kernel<T>(relu ? kernels::UnaryKind::Relu : kernels::UnaryKind::Tanh);
    MatrixRef h = matrix_of(l.h0.get(), l.hidden);
    for (int64_t k = 0; k < l.steps; ++k) {
      T* step = l.at<T>(output, l.time(k));
      gemm(h, matrix_of(l.w_hh.get(), l.hidden).t(), matrix_of(hidden_part.get(), l.hidden));
      {
        GilRelease unlocked(hidden_part->numel);
        kernels::axpy(T(1), hidden_part->ptr<T>(), step, hidden_part->numel);
        activate(step, step, hidden_part->numel);
      }
      h = l.matrix_at(output, l.time(k));
    }
    h_n = copy_of(l, h.data);
  });
  DType dtype = c.tensor(0)->dtype;
  return {to_dtype(output.get(), dtype), to_dtype(h_n.get(), dtype)};
}

std::vector<Value> rnn_composite(const std::vector<Value>& a) {
  Value input = call<"linear">(a[0], a[2], a[4]), h = a[1];
  int64_t steps = a[0].sizes()[0];
  bool reverse = a[7].object() == Py_True, relu = is_relu(a[6]);
  std::vector<Value> output(static_cast<size_t>(steps));
  for (int64_t k = 0; k < steps; ++k) {
    int64_t t = reverse ? steps - 1 - k : k;
    h = call<"select">(input, 0, t) + call<"linear">(h, a[3], a[5]);
    h = relu ? call<"relu">(h) : call<"tanh">(h);
    output[static_cast<size_t>(t)] = h;
  }
  return {call<"stack">(output), h};
}

void rnn_backward(Backward& b) {
  if (b.recording()) return differentiate(b, 8, 0b00111111, rnn_composite);
  Layer l = saved_layer(b, "rnn", 0, 1, 7);
  bool relu = is_relu(b.value(6));
  DType dtype = b.value(0).dtype();
  PyRef<Tensor> output = floating_operand(b.output(0).tensor(), "rnn", "output");
  PyRef<Tensor> doutput = output_gradient(b), dh = state_gradient(b, l, 1), dgates = l.over_time(l.gates);
  with_float(l.dtype(), [&]<class T>() {
    auto activate = relu ? kernels::relu_backward<T> : kernels::tanh_backward<T>;
    for (int64_t k = l.steps - 1; k >= 0; --k) {
      int64_t t = l.time(k);
      {
        GilRelease unlocked(dh->numel);
        if (doutput) kernels::axpy(T(1), l.at<T>(doutput, t), dh->ptr<T>(), dh->numel);
        activate(dh->ptr<T>(), l.at<T>(output, t), l.at<T>(dgates, t), dh->numel);
      }
      if (k > 0 || b.needs(1))
        gemm(l.matrix_at(dgates, t), matrix_of(l.w_hh.get(), l.hidden), matrix_of(dh.get(), l.hidden));
    }
  });
  set_weight_gradients(b, l, output, dgates, dgates, 0, dtype);
  b.set(1, Value(to_dtype(dh.get(), dtype)));
}

// Every gradient of a layer comes from the same chain, so each uses all of it.
constexpr uint32_t first_arguments(int n) { return (1u << n) - 1; }

}  // namespace

std::vector<Row> rnn_layer_rows() {
  constexpr uint32_t lstm = first_arguments(8) | out(0) | out(3) | out(4) | out(5);
  constexpr uint32_t gru = first_arguments(7) | out(0) | out(2) | out(3);
  constexpr uint32_t rnn = first_arguments(8) | out(0);
  return {
      {.signature = "lstm(Tensor input, Tensor h0, Tensor c0, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, "
                    "Tensor? b_hh=None, bool reverse=False)",
       .doc =
           "(output, h_n, c_n) of one LSTM layer over input (steps, batch, inputs); output is (steps, batch, hidden). "
           "The weights' rows are the gates i, f, g, o. With reverse, time runs from the last step to the first.",
       .types = types::lstm,
       .forward = lstm_forward,
       .backward = lstm_backward,
       .uses = std::vector<uint32_t>(7, lstm),
       .flags = kNoMethod,
       .outputs = 3,
       .hidden_outputs = 3},
      {.signature = "gru(Tensor input, Tensor h0, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None, "
                    "bool reverse=False)",
       .doc =
           "(output, h_n) of one GRU layer over input (steps, batch, inputs). The weights' rows are the gates r, z, n.",
       .types = types::gru,
       .forward = gru_forward,
       .backward = gru_backward,
       .uses = std::vector<uint32_t>(6, gru),
       .flags = kNoMethod,
       .outputs = 2,
       .hidden_outputs = 2},
      {.signature = "rnn(Tensor input, Tensor h0, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None, "
                    "str nonlinearity='tanh', bool reverse=False)",
       .doc = "(output, h_n) of one Elman layer, h' = tanh or relu of w_ih x + b_ih + w_hh h + b_hh.",
       .types = types::rnn,
       .forward = rnn_forward,
       .backward = rnn_backward,
       .uses = std::vector<uint32_t>(6, rnn),
       .flags = kNoMethod,
       .outputs = 2},
  };
}

}  // namespace torchlite
