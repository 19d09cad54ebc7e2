// Devices and streams of a backward run.
//
// Note [Streams]
// A node remembers the stream that was current when it was made, if that was not the default one. A backward runs on the
// streams that are current where it is called. Before a node runs, that stream waits for the node's own, once a run; and
// when the run is over, each of those waits for it, so that the memory which the graph gives back is not written again
// before the backward has read it. Whatever happens, device and stream are afterwards as they were.
#pragma once

#include <utility>
#include <vector>

#include "autograd/function.h"
#include "tensor/cuda.h"

namespace torchlite {

// Remembers the current stream in a node that is being made.
void note_stream(Node* node);

// Nothing of it costs anything unless CUDA is in use.
class RunPlaces {
 public:
  RunPlaces();
  ~RunPlaces();
  RunPlaces(const RunPlaces&) = delete;
  RunPlaces& operator=(const RunPlaces&) = delete;
  // Orders what follows behind the forward of `node`. The node's device is current.
  void before(Node* node) {
    if (cuda) order(node);
  }

 private:
  void order(Node* node);
  PyRef<> former_;                                // device and stream
  std::vector<std::pair<PyRef<>, Device>> seen_;  // streams that a device's current one waits for; None: the default
};

// The device that a node with these gradients runs on.
inline Device place_of_gradients(const Gradients& grads) {
  if (!cuda) return kCPU;
  for (const PyRef<Variable>& g : grads)
    if (g && g->data->device() != kCPU) return g->data->device();
  return kCPU;
}

}  // namespace torchlite
