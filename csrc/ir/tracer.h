// The tracer: records the operations on Variables between `enter` and `exit` as a Lambda.
//
// Each thread has a stack of tracing states; an operation is recorded by every state on it, so that a trace made
// inside another one is inlined into that. A state knows Variables by address and is told when one dies, so it keeps no
// run alive: after `exit` nothing but types, operations and constants is left.
#pragma once

#include "ir/ir.h"

namespace torchlite::ir {

struct TraceOptions {
  // A Variable from outside becomes a further parameter that the lambda carries bound, instead of an error.
  bool capture = false;
  // Each let remembers the file, line and function of its call.
  bool locations = false;
};

// Starts a trace whose parameters are the Variables of `inputs`, a tuple.
void tracer_enter(PyObject* inputs, TraceOptions options);
// Ends the innermost trace of this thread; its lambda returns the Variables of `outputs`, a tuple. The trace ends even
// if an output was not traced, which throws.
PyRef<Lambda> tracer_exit(PyObject* outputs);
// Drops the innermost trace, if there is one. Returns whether there was.
bool tracer_abort() noexcept;
// How many traces this thread is recording.
int tracer_depth();
// The local that stands for `v` in the innermost trace, or nullptr (borrowed).
Local* trace_local(Variable* v);

void init_tracer(PyObject* module);

}  // namespace torchlite::ir
