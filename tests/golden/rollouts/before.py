"""Advantage actor-critic over short rollouts of several walks at once."""

import numpy as np
import torch
from torch import nn, optim
from torch.distributions import Categorical


class Walks:
    """Agents that push points to the left or to the right; those that stray begin anew."""

    def __init__(self, seed, count):
        self.random = np.random.default_rng(seed)
        self.places = self.random.normal(size=(count, 4))

    def step(self, pushes):
        self.places = 0.9 * self.places + 0.2 * (pushes[:, None] - 1) + 0.1 * self.random.normal(size=self.places.shape)
        rewards = 1 - np.abs(self.places).sum(1)
        strayed = rewards < -2
        self.places[strayed] = self.random.normal(size=(strayed.sum(), 4))
        return self.places.copy(), rewards, strayed


class Agent(nn.Module):
    def __init__(self, features, actions, temperature=1.0):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(features, 24), nn.Tanh())
        self.policy = nn.Linear(24, actions)
        self.value = nn.Linear(24, 1)
        self.scale = nn.Parameter(torch.ones(1, actions) / temperature)

    def forward(self, seen):
        hidden = self.body(seen)
        return Categorical(logits=self.scale * self.policy(hidden)), self.value(hidden).squeeze(-1)


def advantages(values, rewards, going_on, last, gamma=0.95, decay=0.9):
    """Generalised advantage estimates."""
    values = values + [last]
    total, found = 0, []
    for turn in reversed(range(len(rewards))):
        error = rewards[turn] + gamma * going_on[turn] * values[turn + 1] - values[turn]
        total = error + gamma * decay * going_on[turn] * total
        found.insert(0, total)
    return found


def score(agent, turns=4):
    """What the agent is rewarded with on walks of its own."""
    walks, rewarded = Walks(7, 2), 0
    seen = walks.places
    for _ in range(turns):
        choice, _ = agent(torch.as_tensor(seen, dtype=torch.float32))
        seen, rewards, _ = walks.step(choice.probs.argmax(-1).numpy())
        rewarded += rewards.mean()
    return rewarded


torch.manual_seed(0)
walks = Walks(1, 5)
agent = Agent(4, 3)
optimizer = optim.RMSprop(agent.parameters(), lr=3e-3)
seen = walks.places.copy()
scores = []

for update in range(8):
    log_probs, values, rewards, going_on = [], [], [], []
    entropy = 0.0
    for turn in range(6):
        seen = torch.as_tensor(seen, dtype=torch.float32)
        choice, value = agent(seen)
        push = choice.sample()
        log_prob = choice.log_prob(push)
        entropy += choice.entropy().mean()
        seen, reward, strayed = walks.step(push.numpy())

        log_probs.append(log_prob)
        values.append(value)
        rewards.append(torch.as_tensor(reward, dtype=torch.float32))
        going_on.append(torch.as_tensor(~strayed, dtype=torch.float32))
    if update % 4 == 3:
        scores.append(np.mean([score(agent) for _ in range(2)]))
        print(f"score {scores[-1]:.3f}")

    with torch.no_grad():
        _, last = agent(torch.as_tensor(seen, dtype=torch.float32))
    # how much better each turn went than the critic expected
    gained = torch.stack(advantages(values, rewards, going_on, last)).detach()
    log_probs = torch.stack(log_probs)
    values = torch.stack(values)
    expected = gained + values.detach()
    loss = -(log_probs * gained).mean() + 0.5 * (expected - values).pow(2).mean() - 0.01 * entropy

    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{update}: {loss.item():.4f}")
