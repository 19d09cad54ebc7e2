"""A character-level recurrent network by hand: weights are Variables, time is a Python loop."""
from __future__ import print_function

import math

import torch
import torch.nn.functional as F
from torch.autograd import Variable

torch.manual_seed(2)

TEXT = ("a rose is a rose is a rose. the sea is the sea is the sea. " * 8)
chars = sorted(set(TEXT))
index = {c: i for i, c in enumerate(chars)}
V, H, STEPS = len(chars), 48, 25


def parameter(*size):
    return Variable(torch.randn(*size) / math.sqrt(size[0]), requires_grad=True)


embed, w_h, w_out = parameter(V, H), parameter(H, H), parameter(H, V)
b_h, b_out = Variable(torch.zeros(1, H), requires_grad=True), Variable(torch.zeros(1, V), requires_grad=True)
parameters = [embed, w_h, w_out, b_h, b_out]
memory = [torch.zeros(p.size()) for p in parameters]


def step(char, hidden):
    """Scores of the next character and the next hidden state; `char` is a Variable with one index."""
    hidden = F.tanh(embed.index_select(0, char) + hidden.mm(w_h) + b_h)
    return hidden.mm(w_out) + b_out, hidden


def sample(start, length):
    """Characters drawn from the network. Volatile inputs: no graph is built."""
    hidden = Variable(torch.zeros(1, H), volatile=True)
    char, out = start, start
    for _ in range(length):
        scores, hidden = step(Variable(torch.LongTensor([index[char]]), volatile=True), hidden)
        assert scores.volatile and scores.grad_fn is None
        probabilities = F.softmax(scores * 2).data.view(-1)
        char = chars[torch.multinomial(probabilities, 1)[0]]
        out += char
    return out


hidden = Variable(torch.zeros(1, H))
position, losses = 0, []
for iteration in range(300):
    if position + STEPS + 1 > len(TEXT):
        position, hidden = 0, Variable(torch.zeros(1, H))
    piece = [index[c] for c in TEXT[position:position + STEPS + 1]]
    position += STEPS

    loss = 0
    hidden = Variable(hidden.data)  # cut the history: backward stops here
    for t in range(STEPS):
        scores, hidden = step(Variable(torch.LongTensor(piece[t:t + 1])), hidden)
        loss = loss + F.cross_entropy(scores, Variable(torch.LongTensor(piece[t + 1:t + 2])))
    loss = loss / STEPS

    for p in parameters:
        if p.grad is not None:
            p.grad.data.zero_()
    loss.backward()
    for p, m in zip(parameters, memory):
        gradient = p.grad.data.clamp_(-5, 5)
        m.addcmul_(1, gradient, gradient)
        p.data.addcdiv_(-0.1, gradient, (m + 1e-8).sqrt())  # Adagrad
    losses.append(loss.data[0])
    if iteration % 100 == 0:
        print("iteration {:4d}  loss {:.4f}".format(iteration, losses[-1]))

print("loss {:.4f} -> {:.4f}".format(losses[0], sum(losses[-10:]) / 10))
print("sample: " + sample("a", 60))
