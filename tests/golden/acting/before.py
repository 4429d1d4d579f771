from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])
gamma = 0.99


class Walk:
    """A small environment: an agent that pushes a point to the left or to the right."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.place = self.random.normal(size=4)
        self.turns, self.length = 0, int(self.random.integers(3, 7))
        return self.place

    def step(self, action):
        self.turns += 1
        self.place = 0.9 * self.place + 0.2 * action + 0.1 * self.random.normal(size=4)
        return self.place, float(1 - np.abs(self.place).sum()), self.turns == self.length


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.dropout = nn.Dropout(0.4)
        self.actor = nn.Linear(16, 3)
        self.critic = nn.Linear(16, 1)

        # what happens in an episode
        self.saved_actions = []
        self.rewards = []

    def forward(self, x):
        x = F.relu(self.dropout(self.hidden(x)))
        return F.softmax(self.actor(x), dim=-1), self.critic(x)


torch.manual_seed(0)
env = Walk(0)
model = ActorCritic()
optimizer = optim.Adam(model.parameters(), lr=1e-2)
eps = np.finfo(np.float32).eps.item()


def select_action(state):
    state = torch.from_numpy(state).float()
    probs, value = model(state)
    m = Categorical(probs)
    action = m.sample()
    model.saved_actions.append(SavedAction(m.log_prob(action), value))
    return action.item()


def finish_episode():
    R = 0
    saved_actions = model.saved_actions
    policy_losses = []
    value_losses = []
    returns = deque()
    for r in model.rewards[::-1]:
        R = r + gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)

    # the value is what the critic expects
    for (log_prob, value), R in zip(saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))

    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    return loss.item()


for episode in range(6):
    state, done = env.reset(), False
    while not done:
        action = select_action(state)
        state, reward, done = env.step(action)
        model.rewards.append(reward)
    print(f"{episode}: {finish_episode():.4f}")
