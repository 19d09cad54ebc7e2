"""Fits a polynomial of degree 3 to noisy points, with autograd and updates by hand."""
from __future__ import print_function

import torch
from torch.autograd import Variable

torch.manual_seed(1)

DEGREE = 3
W_TRUE = torch.FloatTensor([[-1.2], [0.5], [2.0]])
B_TRUE = 0.7


def make_features(x):
    """[x, x^2, x^3] for every x."""
    x = x.unsqueeze(1)
    return torch.cat([x ** i for i in range(1, DEGREE + 1)], 1)


def get_batch(size=64):
    x = torch.rand(size) * 2 - 1
    features = make_features(x)
    y = features.mm(W_TRUE) + B_TRUE + torch.randn(size, 1) * 0.02
    return Variable(features), Variable(y)


def describe(w, b):
    terms = ["{:+.2f} x^{}".format(w[i][0], i + 1) for i in range(DEGREE)]
    return "y = {:.2f} {}".format(b[0], " ".join(terms))


w = Variable(torch.randn(DEGREE, 1) * 0.1, requires_grad=True)
b = Variable(torch.zeros(1), requires_grad=True)
learning_rate = 0.3

for step in range(800):
    x, y = get_batch()
    prediction = x.mm(w) + b.expand(x.size(0), 1)
    loss = (prediction - y).pow(2).mean()

    if w.grad is not None:
        w.grad.data.zero_()
        b.grad.data.zero_()
    loss.backward()
    w.data -= learning_rate * w.grad.data
    b.data -= learning_rate * b.grad.data
    if step % 200 == 0:
        print("step {:4d}  loss {:.6f}".format(step, loss.data[0]))

print("loss {:.6f}".format(loss.data[0]))
print("learned  " + describe(w.data, b.data))
print("actual   " + describe(W_TRUE, [B_TRUE]))
