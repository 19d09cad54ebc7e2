// Several elementwise operations as one, evaluated block by block so that what lies between them stays in the cache.
//
// The code is a little register program, one instruction behind the other:
//
//   code ::= instruction; ...; -> r, ...
//   instruction ::= name operand ...            an operation of the table below; its result is the next register
//   operand ::= r | #number                     a register: the inputs come first, then the results in order
//
// "mul 0 1; add 2 #0.5; -> 3" is x * y + 0.5. Inputs that are of one size, Float or Double, and contiguous run in
// blocks by the very kernels of the single operations; any others run operation by operation. Both give the bits of the
// operations that the code stands for.
#include <charconv>
#include <memory>

#include "autograd/ops/elementwise.h"
#include "autograd/ops/types.h"
#include "tensor/kernels/parallel.h"

namespace torchlite {

std::vector<Row> fused_rows();

namespace {

using kernels::BinaryKind;
using kernels::UnaryKind;

enum class Shape : uint8_t { Unary, Binary, Scaled, Gradient };

struct Instruction {
  const char* name;  // of the operation in the op table
  Shape shape;
  UnaryKind unary = {};
  BinaryKind binary = {};
};

// Scaled: a + number b, or a - number b, where number is not 1.
constexpr Instruction kInstructions[] = {
    {"add", Shape::Binary, {}, BinaryKind::Add},
    {"sub", Shape::Binary, {}, BinaryKind::Sub},
    {"mul", Shape::Binary, {}, BinaryKind::Mul},
    {"div", Shape::Binary, {}, BinaryKind::Div},
    {"add_scaled", Shape::Scaled, {}, BinaryKind::Add},
    {"sub_scaled", Shape::Scaled, {}, BinaryKind::Sub},
    {"neg", Shape::Unary, UnaryKind::Neg},
    {"abs", Shape::Unary, UnaryKind::Abs},
    {"sqrt", Shape::Unary, UnaryKind::Sqrt},
    {"square", Shape::Unary, UnaryKind::Square},
    {"exp", Shape::Unary, UnaryKind::Exp},
    {"log", Shape::Unary, UnaryKind::Log},
    {"tanh", Shape::Unary, UnaryKind::Tanh},
    {"sigmoid", Shape::Unary, UnaryKind::Sigmoid},
    {"relu", Shape::Unary, UnaryKind::Relu},
    {"tanh_backward", Shape::Gradient},
    {"sigmoid_backward", Shape::Gradient},
    {"relu_backward", Shape::Gradient},
};

struct Operand {
  int32_t reg = -1;  // -1: `number`
  double number = 0;
};

struct Step {
  const Instruction* instruction;
  Operand a, b;
  double scale = 1;
  int32_t result;
  int32_t scratch = -1;  // where the result lies while a block is worked on; -1: in an output
};

struct Code {
  int32_t n_inputs = 0, n_registers = 0, n_scratch = 0;
  std::vector<Step> steps;
  std::vector<int32_t> outputs;
  std::vector<int32_t> output_of;  // by register: which output, or -1
};

[[noreturn]] void bad_code(std::string_view text, const char* why) {
  value_error("fused_elementwise: %s in the code '%.200s'", why, std::string(text).c_str());
}

class Parser {
 public:
  Parser(std::string_view text, int32_t n_inputs) : text_(text), rest_(text) {
    code_.n_inputs = code_.n_registers = n_inputs;
  }

  Code parse() {
    while (!accept("->")) {
      step();
      if (!accept(";")) bad_code(text_, "a ';' is missing");
    }
    do {
      Operand o = operand();
      if (o.reg < 0) bad_code(text_, "a number is returned");
      code_.outputs.push_back(o.reg);
    } while (accept(","));
    if (!rest_.empty() || code_.outputs.size() > static_cast<size_t>(kMaxOutputs)) bad_code(text_, "bad results");
    code_.output_of.assign(static_cast<size_t>(code_.n_registers), -1);
    for (size_t k = 0; k < code_.outputs.size(); ++k) {
      if (code_.outputs[k] < code_.n_inputs) bad_code(text_, "an input is returned");
      code_.output_of[static_cast<size_t>(code_.outputs[k])] = static_cast<int32_t>(k);
    }
    allocate();
    return std::move(code_);
  }

 private:
  bool accept(std::string_view token) {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  double number() {
    double value;
    auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc()) bad_code(text_, "a number is missing");
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return value;
  }

  Operand operand() {
    if (accept("#")) return {-1, number()};
    double reg = number();
    if (!(reg >= 0 && reg < code_.n_registers)) bad_code(text_, "a register is used before it is set");
    return {static_cast<int32_t>(reg), 0};
  }

  void step() {
    accept("");
    std::string_view name = rest_.substr(0, rest_.find(' '));
    Step s{};
    for (const Instruction& i : kInstructions)
      if (name == i.name) s.instruction = &i;
    if (!s.instruction) bad_code(text_, "an unknown operation");
    rest_.remove_prefix(name.size());
    s.a = operand();
    if (s.instruction->shape != Shape::Unary) s.b = operand();
    if (s.instruction->shape == Shape::Scaled) s.scale = operand().number;
    bool two_numbers = s.a.reg < 0 && (s.b.reg < 0 || s.instruction->shape == Shape::Unary);
    bool registers_only = s.instruction->shape == Shape::Scaled || s.instruction->shape == Shape::Gradient;
    if (two_numbers || (registers_only && (s.a.reg < 0 || s.b.reg < 0))) bad_code(text_, "a number for a tensor");
    s.result = code_.n_registers++;
    code_.steps.push_back(s);
  }

  // Scratch blocks by liveness; a result may take the block of an operand that dies (kernels allow that).
  void allocate() {
    std::vector<size_t> last(static_cast<size_t>(code_.n_registers), 0);
    for (size_t i = 0; i < code_.steps.size(); ++i)
      for (const Operand& o : {code_.steps[i].a, code_.steps[i].b})
        if (o.reg >= 0) last[static_cast<size_t>(o.reg)] = i;
    std::vector<int32_t> block(static_cast<size_t>(code_.n_registers), -1), free;
    for (size_t i = 0; i < code_.steps.size(); ++i) {
      Step& s = code_.steps[i];
      for (const Operand& o : {s.a, s.b}) {
        if (o.reg < 0 || last[static_cast<size_t>(o.reg)] != i || block[static_cast<size_t>(o.reg)] < 0) continue;
        free.push_back(std::exchange(block[static_cast<size_t>(o.reg)], -1));
      }
      if (code_.output_of[static_cast<size_t>(s.result)] >= 0) continue;
      if (free.empty()) free.push_back(code_.n_scratch++);
      s.scratch = block[static_cast<size_t>(s.result)] = free.back();
      free.pop_back();
    }
  }

  std::string_view text_, rest_;
  Code code_;
};

// The parsed form of a code, kept from call to call by the identity of the str, which is held meanwhile.
std::shared_ptr<const Code> code_of(PyObject* text, int32_t n_inputs) {
  struct Known {
    PyRef<> text;
    std::shared_ptr<const Code> code;
  };
  static auto* known = new Known[256]();
  Known& k = known[(reinterpret_cast<uintptr_t>(text) >> 4) * 0x9E3779B97F4A7C15u >> 56];
  if (k.text.get() == text && k.code->n_inputs == n_inputs) return k.code;
  const char* utf8 = PyUnicode_AsUTF8(text);
  if (!utf8) throw PyError();
  auto code = std::make_shared<const Code>(Parser(utf8, n_inputs).parse());
  k.text = PyRef<>::borrow(text);
  k.code = code;
  return code;
}

// ---- in blocks ----------------------------------------------------------------------------------------------------

constexpr int64_t kScratchBytes = 65536, kLargestBlock = 2048, kGrain = 32768;

template <class T>
void run_step(const Step& s, const T* a, const T* b, T* y, int64_t n) {
  switch (s.instruction->shape) {
    case Shape::Unary: kernels::unary_kernel<T>(s.instruction->unary)(a, y, n); return;
    case Shape::Binary: {
      const kernels::BinaryKernel<T>& k = kernels::binary_kernel<T>(s.instruction->binary);
      if (a && b) k.same(a, b, y, n);
      else if (a) k.right_scalar(a, static_cast<T>(s.b.number), y, n);
      else k.left_scalar(static_cast<T>(s.a.number), b, y, n);
      return;
    }
    case Shape::Scaled: {
      double sign = s.instruction->binary == BinaryKind::Add ? 1 : -1;
      // y = a, y += scale b: where y is b's block, through a copy of b.
      T held[kLargestBlock];
      if (y == b) b = static_cast<const T*>(std::memcpy(held, b, static_cast<size_t>(n) * sizeof(T)));
      if (y != a) std::memcpy(y, a, static_cast<size_t>(n) * sizeof(T));
      kernels::axpy(static_cast<T>(sign * s.scale), b, y, n);
      return;
    }
    case Shape::Gradient:
      if (s.instruction->name[0] == 't') kernels::tanh_backward(a, b, y, n);
      else if (s.instruction->name[0] == 's') kernels::sigmoid_backward(a, b, y, n);
      else kernels::relu_backward(a, b, y, n);
      return;
  }
}

template <class T>
void run_blocks(const Code& code, const T* const* inputs, T* const* outputs, int64_t n) {
  int64_t block = kScratchBytes / static_cast<int64_t>(sizeof(T)) / std::max(1, code.n_scratch) / 64 * 64;
  block = std::clamp<int64_t>(block, 64, kLargestBlock);
  kernels::parallel_for(n, kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) char scratch[kScratchBytes];
    T* const blocks = reinterpret_cast<T*>(scratch);
    const T* where[256];  // of each register, for the block at hand
    for (int64_t at = begin; at < end; at += block) {
      int64_t count = std::min(block, end - at);
      for (int32_t i = 0; i < code.n_inputs; ++i) where[i] = inputs[i] + at;
      for (const Step& s : code.steps) {
        T* y =
            s.scratch >= 0 ? blocks + s.scratch * block : outputs[code.output_of[static_cast<size_t>(s.result)]] + at;
        run_step<T>(s, s.a.reg >= 0 ? where[s.a.reg] : nullptr, s.b.reg >= 0 ? where[s.b.reg] : nullptr, y, count);
        where[s.result] = y;
      }
    }
  });
}

bool fits_blocks(const Code& code, const std::vector<Tensor*>& inputs) {
  const Tensor* first = inputs[0];
  if (!is_loop_type(first->dtype) || code.n_registers > 256 || code.n_scratch > 128) return false;
  for (const Tensor* t : inputs)
    if (t->dtype != first->dtype || !t->contiguous || !on_host(t) || !(t->sizes() == first->sizes())) return false;
  return true;
}

// ---- one by one ---------------------------------------------------------------------------------------------------

Outputs run_single(const Code& code, const std::vector<Tensor*>& inputs) {
  std::vector<PyRef<>> registers;
  for (Tensor* t : inputs) registers.push_back(PyRef<>::borrow(t));
  auto value = [&](const Operand& o) {
    return o.reg >= 0 ? registers[static_cast<size_t>(o.reg)].copy() : check(PyFloat_FromDouble(o.number));
  };
  for (const Step& s : code.steps) {
    Shape shape = s.instruction->shape;
    const Op& op = find_op(shape == Shape::Scaled ? (s.instruction->binary == BinaryKind::Add ? "add" : "sub")
                                                  : s.instruction->name);
    PyRef<> a = value(s.a), b = value(s.b), scale = check(PyFloat_FromDouble(s.scale));
    // add and sub take their factor in the middle.
    PyObject* args[3] = {a.get(), b.get(), nullptr};
    if (op.params.size() == 3) {
      args[1] = scale.get();
      args[2] = b.get();
    }
    registers.push_back(PyRef<>(std::move(run_forward(op, args).v[0])));
  }
  Outputs out;
  for (size_t k = 0; k < code.outputs.size(); ++k)
    out.v[k] = registers[static_cast<size_t>(code.outputs[k])].copy().cast<Tensor>();
  return out;
}

// The types of the registers, by the rules of the operations that the code stands for.
TypeInfos fused_types(TypeCall& c) {
  if (c.list.empty()) value_error("fused_elementwise: there has to be an input");
  std::shared_ptr<const Code> code = code_of(c.constant(1), static_cast<int32_t>(c.list.size()));
  TypeInfos registers = c.list;
  for (const Step& s : code->steps) {
    bool scaled = s.instruction->shape == Shape::Scaled;
    TypeCall step{find_op(!scaled ? s.instruction->name : s.instruction->binary == BinaryKind::Add ? "add" : "sub")};
    PyRef<> held[3];
    auto set = [&](size_t i, const Operand& o) {
      if (o.reg >= 0) step.types[i] = &registers[static_cast<size_t>(o.reg)];
      else step.constants[i] = (held[i] = check(PyFloat_FromDouble(o.number))).get();
    };
    size_t n = step.op.params.size();
    set(0, s.a);
    if (n == 3) step.constants[1] = (held[1] = check(PyFloat_FromDouble(s.scale))).get();
    if (n > 1) set(n - 1, s.b);
    registers.push_back(torchlite::infer_types(step).at(0));
  }
  TypeInfos out;
  for (int32_t r : code->outputs) out.push_back(registers[static_cast<size_t>(r)]);
  return out;
}

Outputs fused_forward(Call& c) {
  std::vector<Tensor*> inputs = c.tensors(0);
  if (inputs.empty()) value_error("fused_elementwise: there has to be an input");
  std::shared_ptr<const Code> code = code_of(c.args[1], static_cast<int32_t>(inputs.size()));
  if (!fits_blocks(*code, inputs)) return run_single(*code, inputs);
  Outputs out;
  for (size_t k = 0; k < code->outputs.size(); ++k) out.v[k] = new_like(inputs[0]);
  int64_t n = inputs[0]->numel;
  with_elements(inputs[0], [&]<class T>(T*) {
    const T* sources[256];
    T* targets[kMaxOutputs];
    for (size_t i = 0; i < inputs.size(); ++i) sources[i] = inputs[i]->ptr<T>();
    for (size_t k = 0; k < code->outputs.size(); ++k) targets[k] = out.v[k]->ptr<T>();
    GilRelease unlocked(n);
    run_blocks<T>(*code, sources, targets, n);
  });
  return out;
}

}  // namespace

std::vector<Row> fused_rows() {
  return {
      {.signature = "fused_elementwise(Tensor[] inputs, str code)",
       .doc =
           "Elementwise operations in one pass: the registers that `code`, such as 'mul 0 1; tanh 2; -> 3', returns.",
       .types = fused_types,
       .forward = fused_forward,
       .flags = kHidden,
       .outputs = kMaxOutputs},
  };
}

}  // namespace torchlite
