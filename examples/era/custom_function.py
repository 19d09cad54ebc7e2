"""A two-layer network whose ReLU is a Function of its own: once in the old style, once in the new one."""
from __future__ import print_function

import torch
from torch.autograd import Function, Variable, gradcheck


class OldReLU(Function):
    """An instance is called once; forward and backward see tensors."""

    def forward(self, input):
        self.save_for_backward(input)
        return input.clamp(min=0)

    def backward(self, grad_output):
        input, = self.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


class ReLU(Function):
    """The class is applied; backward sees Variables, so that it can be differentiated again."""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        input, = ctx.saved_variables
        return grad_output * (input > 0).type_as(grad_output)


def train(relu, steps=500, learning_rate=1e-6):
    torch.manual_seed(0)
    n, d_in, d_hidden, d_out = 64, 100, 50, 10
    dtype = torch.FloatTensor
    x = Variable(torch.randn(n, d_in).type(dtype), requires_grad=False)
    y = Variable(torch.randn(n, d_out).type(dtype), requires_grad=False)
    w1 = Variable(torch.randn(d_in, d_hidden).type(dtype), requires_grad=True)
    w2 = Variable(torch.randn(d_hidden, d_out).type(dtype), requires_grad=True)

    losses = []
    for _ in range(steps):
        y_pred = relu(x.mm(w1)).mm(w2)
        loss = (y_pred - y).pow(2).sum()
        losses.append(loss.data[0])
        loss.backward()
        for w in (w1, w2):
            w.data -= learning_rate * w.grad.data
            w.grad.data.zero_()
    return losses


old = train(lambda v: OldReLU()(v))
new = train(ReLU.apply)
print("old style: loss {:.2f} -> {:.4f}".format(old[0], old[-1]))
print("new style: loss {:.2f} -> {:.4f}".format(new[0], new[-1]))
test = Variable(torch.randn(4, 5).double(), requires_grad=True)
print("gradcheck:", gradcheck(ReLU.apply, (test,), eps=1e-6, atol=1e-4))
