// Recurrent cells, each one fused operation. Whole layers are in rnn_layer.cpp.
#include "autograd/ops/rnn.h"

#include "autograd/engine.h"
#include "autograd/ops/nn.h"
#include "autograd/ops/types.h"
#include "tensor/kernels/rnn.h"
#include "utils/gil.h"

namespace torchlite {

void differentiate(Backward& b, int n_arguments, uint32_t tensor_mask,
                   std::vector<Value> (*composite)(const std::vector<Value>& arguments)) {
  std::vector<Value> arguments, inputs, grads;
  for (int i = 0; i < n_arguments; ++i) {
    Value v = b.value(i);
    if (((tensor_mask >> i) & 1) && !v.is_none())
      v = call<"view">(v, std::vector<int64_t>(v.sizes().begin(), v.sizes().end()));
    inputs.push_back(((tensor_mask >> i) & 1) && !v.is_none() && b.needs(i) ? v : Value());
    arguments.push_back(std::move(v));
  }
  std::vector<Value> outputs = composite(arguments);
  for (size_t k = 0; k < outputs.size(); ++k)
    grads.push_back(b.has_grad(static_cast<int>(k)) ? b.grad(static_cast<int>(k)) : Value(nullptr));
  std::vector<Value> result = grad_of(outputs, inputs, grads);
  for (int i = 0; i < n_arguments; ++i)
    if (result[static_cast<size_t>(i)]) b.set(i, std::move(result[static_cast<size_t>(i)]));
}

void require_one_type(const char* function, std::initializer_list<const Tensor*> tensors) {
  const Tensor* first = nullptr;
  for (const Tensor* t : tensors) {
    if (!t) continue;
    if (!first) first = t;
    if (!is_floating(t->dtype))
      type_error("%s: expected floating tensors, but got a %sTensor", function, info(t->dtype).name);
    if (t->dtype != first->dtype)
      type_error("%s: all tensors must have one type, but got %s and %s", function, info(first->dtype).name,
                 info(t->dtype).name);
  }
}

namespace {

using Sizes = std::vector<int64_t>;

// Operands of a cell in the kernels' form: contiguous, Float or Double; absent biases stay null.
struct CellOperands {
  PyRef<Tensor> input, hidden, input_bias, hidden_bias, state;
  int64_t batch, size;

  CellOperands(Call& c, int64_t gates) {
    Tensor *input_gates = c.tensor(0), *hidden_gates = c.tensor(1), *previous = c.tensor(4);
    Tensor *ih = c.optional_tensor(2), *hh = c.optional_tensor(3);
    require_one_type(c.name(), {input_gates, hidden_gates, ih, hh, previous});
    if (previous->ndim != 2)
      runtime_error("%s: the state must have size (batch, hidden), but has size %s", c.name(),
                    format_dims(previous->sizes()).c_str());
    batch = previous->size(0);
    size = previous->size(1);
    require(c, input_gates, "input_gates", {batch, gates * size});
    require(c, hidden_gates, "hidden_gates", {batch, gates * size});
    if (ih) require(c, ih, "bias_ih", {gates * size});
    if (hh) require(c, hh, "bias_hh", {gates * size});
    input = floating_operand(input_gates, c.name(), "input_gates");
    hidden = floating_operand(hidden_gates, c.name(), "hidden_gates");
    state = floating_operand(previous, c.name(), "state");
    if (ih) input_bias = floating_operand(ih, c.name(), "bias_ih");
    if (hh) hidden_bias = floating_operand(hh, c.name(), "bias_hh");
  }
  static void require(Call& c, const Tensor* t, const char* argument, const Sizes& sizes) {
    if (!(t->sizes() == Dims(sizes)))
      runtime_error("%s: '%s' must have size %s, but has size %s", c.name(), argument, format_dims(sizes).c_str(),
                    format_dims(t->sizes()).c_str());
  }
  DType dtype() const { return input->dtype; }
};

template <class T>
const T* data(const PyRef<Tensor>& t) {
  return t ? t->ptr<T>() : nullptr;
}

// Half results leave as Half.
PyRef<Tensor> narrowed(PyRef<Tensor> t, DType dtype) { return to_dtype(t.get(), dtype); }

// ---- LSTM ---------------------------------------------------------------------------------------------------------

Outputs lstm_cell_forward(Call& c) {
  CellOperands o(c, 4);
  PyRef<Tensor> h = new_like(o.state.get()), cell = new_like(o.state.get()), tanh_c = new_like(o.state.get());
  PyRef<Tensor> gates = new_like(o.input.get());
  with_float(o.dtype(), [&]<class T>() {
    GilRelease unlocked(gates->numel);
    kernels::lstm_cell(data<T>(o.input), data<T>(o.hidden), data<T>(o.input_bias), data<T>(o.hidden_bias),
                       data<T>(o.state), o.batch, o.size, h->ptr<T>(), cell->ptr<T>(), gates->ptr<T>(),
                       tanh_c->ptr<T>());
  });
  DType dtype = c.tensor(0)->dtype;
  Outputs out(narrowed(std::move(h), dtype), narrowed(std::move(cell), dtype), std::move(gates));
  out.v[3] = std::move(tanh_c);
  return out;
}

void lstm_cell_backward(Backward& b) {
  if (b.recording()) return differentiate(b, 5, 0b11111, lstm_cell_composite);
  Value gates = b.output(2), tanh_c = b.output(3);
  PyRef<Tensor> previous = floating_operand(b.value(4).tensor(), "lstm_cell", "c");
  DType dtype = b.value(4).dtype();
  PyRef<Tensor> dh, dc;
  if (b.has_grad(0)) dh = floating_operand(b.grad(0).tensor(), "lstm_cell", "gradient");
  if (b.has_grad(1)) dc = floating_operand(b.grad(1).tensor(), "lstm_cell", "gradient");
  PyRef<Tensor> dgates = new_like(gates.tensor()), dprevious = new_like(previous.get());
  with_float(dgates->dtype, [&]<class T>() {
    GilRelease unlocked(dgates->numel);
    kernels::lstm_cell_backward(data<T>(dh), data<T>(dc), gates.tensor()->ptr<T>(), tanh_c.tensor()->ptr<T>(),
                                previous->ptr<T>(), previous->size(0), previous->size(1), dgates->ptr<T>(),
                                dprevious->ptr<T>());
  });
  b.set(4, Value(narrowed(std::move(dprevious), dtype)));
  Sizes width{dgates->size(1)};
  Value g(narrowed(std::move(dgates), dtype));
  for (int bias = 2; bias <= 3; ++bias)
    if (b.needs(bias)) b.set(bias, call<"sum_to">(g, width));
  b.set(0, g);
  b.set(1, std::move(g));
}

// ---- GRU ----------------------------------------------------------------------------------------------------------

Outputs gru_cell_forward(Call& c) {
  CellOperands o(c, 3);
  PyRef<Tensor> h = new_like(o.state.get()), hidden_n = new_like(o.state.get()), gates = new_like(o.input.get());
  with_float(o.dtype(), [&]<class T>() {
    GilRelease unlocked(gates->numel);
    kernels::gru_cell(data<T>(o.input), data<T>(o.hidden), data<T>(o.input_bias), data<T>(o.hidden_bias),
                      data<T>(o.state), o.batch, o.size, h->ptr<T>(), gates->ptr<T>(), hidden_n->ptr<T>());
  });
  return {narrowed(std::move(h), c.tensor(0)->dtype), std::move(gates), std::move(hidden_n)};
}

void gru_cell_backward(Backward& b) {
  if (b.recording()) return differentiate(b, 5, 0b11111, gru_cell_composite);
  Value gates = b.output(1), hidden_n = b.output(2);
  PyRef<Tensor> previous = floating_operand(b.value(4).tensor(), "gru_cell", "h");
  DType dtype = b.value(4).dtype();
  PyRef<Tensor> dh = floating_operand(b.grad().tensor(), "gru_cell", "gradient");
  PyRef<Tensor> dinput = new_like(gates.tensor()), dhidden = new_like(gates.tensor());
  PyRef<Tensor> dprevious = new_like(previous.get());
  with_float(dinput->dtype, [&]<class T>() {
    GilRelease unlocked(dinput->numel);
    kernels::gru_cell_backward(dh->ptr<T>(), gates.tensor()->ptr<T>(), hidden_n.tensor()->ptr<T>(), previous->ptr<T>(),
                               previous->size(0), previous->size(1), dinput->ptr<T>(), dhidden->ptr<T>(),
                               dprevious->ptr<T>());
  });
  Sizes width{dinput->size(1)};
  Value input(narrowed(std::move(dinput), dtype)), hidden(narrowed(std::move(dhidden), dtype));
  if (b.needs(2)) b.set(2, call<"sum_to">(input, width));
  if (b.needs(3)) b.set(3, call<"sum_to">(hidden, width));
  b.set(4, Value(narrowed(std::move(dprevious), dtype)));
  b.set(0, std::move(input));
  b.set(1, std::move(hidden));
}

Value with_bias(const Value& x, const Value& bias) { return bias.is_none() ? x : x + bias; }

}  // namespace

std::vector<Value> lstm_cell_composite(const std::vector<Value>& a) {
  Value gates = with_bias(with_bias(a[0] + a[1], a[2]), a[3]);
  int64_t n = a[4].sizes()[1];
  auto gate = [&](int64_t k) { return call<"narrow">(gates, 1, k * n, n); };
  Value c = call<"sigmoid">(gate(1)) * a[4] + call<"sigmoid">(gate(0)) * call<"tanh">(gate(2));
  Value h = call<"sigmoid">(gate(3)) * call<"tanh">(c);
  return {h, c};
}

std::vector<Value> gru_cell_composite(const std::vector<Value>& a) {
  Value input = with_bias(a[0], a[2]), hidden = with_bias(a[1], a[3]);
  int64_t n = a[4].sizes()[1];
  auto part = [&](const Value& x, int64_t k) { return call<"narrow">(x, 1, k * n, n); };
  Value r = call<"sigmoid">(part(input, 0) + part(hidden, 0)), z = call<"sigmoid">(part(input, 1) + part(hidden, 1));
  Value candidate = call<"tanh">(part(input, 2) + r * part(hidden, 2));
  return {candidate + z * (a[4] - candidate)};
}

std::span<const Row> rnn_rows() {
  static const std::vector<Row> rows = [] {
    // The fused backward uses the activations; the arguments are kept for Note [Gradient of a fused operation].
    constexpr uint32_t arguments = in(0) | in(1) | in(2) | in(3) | in(4);
    constexpr uint32_t lstm = arguments | out(2) | out(3), gru = arguments | out(1) | out(2);
    std::vector<Row> all = {
        {.signature = "lstm_cell(Tensor input_gates, Tensor hidden_gates, Tensor? bias_ih, Tensor? bias_hh, Tensor c)",
         .doc = "(h', c') of an LSTM cell from the gates i, f, g, o (batch, 4 hidden) before their functions: c' = "
                "sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c').",
         .types = types::lstm_cell,
         .forward = lstm_cell_forward,
         .backward = lstm_cell_backward,
         .uses = {lstm, lstm, lstm, lstm, lstm},
         .flags = kNoMethod,
         .outputs = 2,
         .hidden_outputs = 2},
        {.signature = "gru_cell(Tensor input_gates, Tensor hidden_gates, Tensor? bias_ih, Tensor? bias_hh, Tensor h)",
         .doc = "h' of a GRU cell from the two parts of the gates r, z, n (batch, 3 hidden): n = tanh(input_n + r "
                "hidden_n), h' = (1 - z) n + z h.",
         .types = types::gru_cell,
         .forward = gru_cell_forward,
         .backward = gru_cell_backward,
         .uses = {gru, gru, gru, gru, gru},
         .flags = kNoMethod,
         .hidden_outputs = 2},
    };
    std::vector<Row> layers = rnn_layer_rows();
    all.insert(all.end(), layers.begin(), layers.end());
    return all;
  }();
  return rows;
}

}  // namespace torchlite
