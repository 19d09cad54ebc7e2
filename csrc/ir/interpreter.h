// The interpreter: a lambda compiled once into a flat list of instructions, and run.
//
// Each value has a slot; an instruction lists the slots whose last use it is, which are emptied right after it, so that
// a replay never holds more than the values that are still needed. The stack depth does not depend on the program.
#pragma once

#include "ir/ir.h"

namespace torchlite::ir {

// Compiled form of one lambda: a Python object (`Program`), so that what it owns is visible to the collector.
struct Program : PyObject {
  struct Instruction {
    const Op* op;                      // nullptr: a Python Function
    PyObject* function;                // borrowed from the lambda
    uint32_t first_arg, n_args;        // in `args`
    uint32_t first_result, n_results;  // results have consecutive slots
    uint32_t n_visible;                // of the results; hidden ones follow
    uint32_t first_dead, n_dead;       // in `dead`
    int32_t reused;                    // the argument whose memory the result may take (Note [Buffer reuse]), or -1
  };
  struct Operand {
    int64_t slot;        // >= 0: a value; -1: `constant`; -2: a list, `first` and `count` in `operands`
    PyObject* constant;  // borrowed from the lambda
    uint32_t first, count;
  };

  // The parts of the lambda that the program refers to. Not the lambda itself, which may keep its program.
  PyRef<> params, captures, lets;
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
  std::vector<uint32_t> dead;
  std::vector<uint32_t> dead_params;  // parameters that nothing uses
  std::vector<uint32_t> outputs;      // slots that are returned
  uint32_t n_params, n_slots;
};

extern PyTypeObject Program_Type;

PyRef<Program> compile(const Lambda* lambda);
// The lambda's program, compiled on first use. Where it has open sizes, the one for the sizes of `inputs`.
PyRef<> program_for(Lambda* lambda, PyObject* const* inputs, Py_ssize_t n);

// Runs the program on Variables: gradients flow through it as through the calls that were traced. The captures are
// added behind `inputs`. Refuses, naming both sides, inputs that differ from the parameters in number, type, place or
// size. Where no input or capture requires grad and nothing is being traced, it runs on plain tensors; with `plain` it
// does so in any case, and the results have no history.
PyRef<> run_program(const Program* program, PyObject* const* inputs, Py_ssize_t n, bool plain = false);

void init_interpreter(PyObject* module);

}  // namespace torchlite::ir
