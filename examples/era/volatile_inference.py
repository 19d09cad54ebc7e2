"""Trains a classifier, then evaluates it on volatile Variables: no graph is built, nothing is kept."""
from __future__ import print_function

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.autograd import Variable

torch.manual_seed(7)


def spirals(n):
    """Two interleaved spirals with noise."""
    t = torch.rand(n) * 3.5 + 0.5
    labels = (torch.rand(n) > 0.5).long()
    angle = t * 1.6 + labels.float() * 3.14159
    points = torch.stack([t * torch.cos(angle), t * torch.sin(angle)], 1)
    return points + torch.randn(n, 2) * 0.08, labels


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.fc1 = nn.Linear(2, 64)
        self.fc2 = nn.Linear(64, 64)
        self.fc3 = nn.Linear(64, 2)

    def forward(self, x):
        x = F.tanh(self.fc1(x))
        x = F.dropout(F.tanh(self.fc2(x)), p=0.1, training=self.training)
        return F.log_softmax(self.fc3(x))


model = Net()
optimizer = optim.Adam(model.parameters(), lr=0.01)
train_x, train_y = spirals(512)
test_x, test_y = spirals(256)

model.train()
for _ in range(60):
    order = torch.randperm(train_x.size(0))
    for batch in order.split(64):
        optimizer.zero_grad()
        loss = F.nll_loss(model(Variable(train_x[batch])), Variable(train_y[batch]))
        loss.backward()
        optimizer.step()

model.eval()
data, target = Variable(test_x, volatile=True), Variable(test_y)
output = model(data)
print("volatile:", output.volatile, " requires_grad:", output.requires_grad, " grad_fn:", output.grad_fn)
test_loss = F.nll_loss(output, target).data[0]
prediction = output.data.max(1)[1]
correct = prediction.eq(target.data).sum()
print("test loss {:.4f}  accuracy {}/{}".format(test_loss, correct, test_x.size(0)))
try:
    F.nll_loss(output, target).backward()
except RuntimeError as e:
    print("backward refused:", e)
