"""REINFORCE with stochastic functions: a policy learns to balance a pole on a cart.

The environment is a small one of its own: a pole that falls unless the cart is pushed under it. An episode ends when
the pole leans too far or after MAX_STEPS.
"""
from __future__ import print_function

import argparse
import math
from itertools import count

import torch
import torch.autograd as autograd
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.autograd import Variable

parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.99, help="discount factor")
parser.add_argument("--seed", type=int, default=5)
parser.add_argument("--episodes", type=int, default=120)
args = parser.parse_args()
torch.manual_seed(args.seed)

MAX_STEPS = 100


class Pole(object):
    """State: position and speed of the cart, angle of the pole and its speed. Actions: push left (0) or right (1)."""

    def reset(self):
        self.state = [float(v) for v in torch.rand(4) * 0.1 - 0.05]
        return torch.FloatTensor(self.state)

    def step(self, action):
        x, v, angle, spin = self.state
        force = 10.0 if action == 1 else -10.0
        # A point mass of 0.1 on a massless rod of half-length 0.5 upon a cart of 1.0, in steps of 0.02 s.
        total, rod, dt = 1.1, 0.05, 0.02
        push = (force + rod * spin ** 2 * math.sin(angle)) / total
        torque = 9.8 * math.sin(angle) - math.cos(angle) * push
        angular = torque / (0.5 * (4.0 / 3 - 0.1 * math.cos(angle) ** 2 / total))
        linear = push - rod * angular * math.cos(angle) / total
        self.state = [x + dt * v, v + dt * linear, angle + dt * spin, spin + dt * angular]
        done = abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.21
        return torch.FloatTensor(self.state), 1.0, done


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(4, 32)
        self.affine2 = nn.Linear(32, 2)
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        return F.softmax(self.affine2(F.relu(self.affine1(x))))


policy = Policy()
optimizer = optim.Adam(policy.parameters(), lr=1e-2)


def select_action(state):
    probs = policy(Variable(state.unsqueeze(0)))
    action = probs.multinomial()
    policy.saved_actions.append(action)
    return action.data[0][0]


def finish_episode():
    total, returns = 0, []
    for r in policy.rewards[::-1]:
        total = r + args.gamma * total
        returns.insert(0, total)
    returns = torch.Tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    for action, r in zip(policy.saved_actions, returns):
        action.reinforce(r)
    optimizer.zero_grad()
    autograd.backward(policy.saved_actions, [None for _ in policy.saved_actions])
    optimizer.step()
    del policy.rewards[:]
    del policy.saved_actions[:]


env = Pole()
lengths = []
for episode in range(args.episodes):
    state = env.reset()
    for t in count(1):
        state, reward, done = env.step(select_action(state))
        policy.rewards.append(reward)
        if done or t >= MAX_STEPS:
            break
    lengths.append(t)
    finish_episode()
    if episode % 20 == 19:
        print("episode {:4d}  mean length of the last 20: {:.1f}".format(episode + 1, sum(lengths[-20:]) / 20.0))

print("first 20: {:.1f}  last 20: {:.1f}".format(sum(lengths[:20]) / 20.0, sum(lengths[-20:]) / 20.0))
