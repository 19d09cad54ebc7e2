"""Hooks look at gradients on their way back, and change them."""
from __future__ import print_function

import torch
import torch.nn as nn
from torch.autograd import Variable

torch.manual_seed(4)

# A recurrence that makes gradients explode: one matrix, applied 30 times.
w = Variable(torch.eye(8) * 1.6, requires_grad=True)
x = Variable(torch.ones(1, 8))


def unroll(hook=None):
    h, norms = x, []
    for _ in range(30):
        h = h.mm(w)
        if hook is not None:
            h.register_hook(hook)
        h.register_hook(lambda g: norms.append(g.data.norm()))
    w.grad = None
    h.sum().backward()
    return norms


def clip(gradient):
    norm = gradient.data.norm()
    return gradient * (1.0 / norm) if norm > 1 else None


free, clipped = unroll(), unroll(clip)
print("norms without clipping: {:.1f} ... {:.3g}".format(free[0], free[-1]))
print("norms with clipping:    {:.1f} ... {:.3g}".format(clipped[0], clipped[-1]))

# A handle takes its hook off again.
seen = []
handle = w.register_hook(lambda g: seen.append(g.size()))
unroll()
handle.remove()
unroll()
print("calls of a removed hook: {}".format(len(seen)))

# Hooks of modules see inputs, outputs and gradients of a layer.
model = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))
shapes = []
model[1].register_forward_hook(lambda module, input, output: shapes.append(("forward", tuple(output.size()))))
model[1].register_backward_hook(
    lambda module, grad_input, grad_output: shapes.append(("backward", tuple(grad_output[0].size()))))
model(Variable(torch.randn(5, 8))).sum().backward()
print("layer: {}".format(shapes))

# A hook on a node of the graph sees the gradients of its inputs and outputs.
a = Variable(torch.ones(3), requires_grad=True)
product = a * 3
product.grad_fn.register_hook(lambda grad_inputs, grad_outputs: print(
    "node: {} -> {}".format(grad_outputs[0].data.tolist(), grad_inputs[0].data.tolist())))
product.sum().backward()
