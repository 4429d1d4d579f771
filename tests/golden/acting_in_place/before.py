import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions import Categorical


class Walk:
    """An environment that changes in place what it has returned."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)

    def reset(self):
        self.place = self.random.normal(size=4)
        self.turns, self.length = 0, int(self.random.integers(3, 7))
        return self.place

    def step(self, action):
        self.turns += 1
        self.place *= 0.9
        self.place += 0.2 * action
        return self.place, float(1 - np.abs(self.place).sum()), self.turns == self.length


def train(env, policy, optimizer, episodes):
    for episode in range(episodes):
        state, done = env.reset(), False
        log_probs, rewards = [], []
        entropies = []
        while not done:
            logits = policy(torch.tensor(state, dtype=torch.float32))
            dist = Categorical(logits=logits)
            action = dist.sample()
            log_probs.append(dist.log_prob(action))
            entropies.append(dist.entropy())
            state, reward, done = env.step(action.item())
            rewards.append(reward)

        G = 0
        returns = []
        for r in reversed(rewards):
            G = r + 0.9 * G
            returns.insert(0, G)
        policy_loss = sum(-log_prob * G for log_prob, G in zip(log_probs, returns))
        entropy = torch.stack(entropies).mean()
        bonus = 0
        for value in entropies:
            bonus += 0.001 * value**2
        loss = policy_loss / len(log_probs) - 0.01 * entropy - bonus
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"{episode}: {loss.item():.4f}")


torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Dropout(0.3), nn.Linear(16, 3))
train(Walk(1), policy, optim.SGD(policy.parameters(), lr=0.05), 6)
