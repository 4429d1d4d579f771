"""Q-learning from a replay buffer, whose samples are a named tuple of tensors, with a target network."""

import random
from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Samples(NamedTuple):
    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    dones: torch.Tensor
    rewards: torch.Tensor


class ReplayBuffer:
    def __init__(self, size, obs_dim, device="cpu"):
        self.observations = np.zeros((size, obs_dim), dtype=np.float32)
        self.next_observations = np.zeros((size, obs_dim), dtype=np.float32)
        self.actions = np.zeros((size, 1), dtype=np.int64)
        self.rewards = np.zeros((size, 1), dtype=np.float32)
        self.dones = np.zeros((size, 1), dtype=np.float32)
        self.size, self.pos, self.full = size, 0, False
        self.device = device

    def add(self, obs, next_obs, action, reward, done):
        self.observations[self.pos] = obs
        self.next_observations[self.pos] = next_obs
        self.actions[self.pos] = action
        self.rewards[self.pos] = reward
        self.dones[self.pos] = done
        self.pos += 1
        if self.pos == self.size:
            self.full = True
            self.pos = 0

    def sample(self, batch_size):
        upper_bound = self.size if self.full else self.pos
        inds = np.random.randint(0, upper_bound, size=batch_size)
        stored = (self.observations, self.actions, self.next_observations, self.dones, self.rewards)
        data = tuple(array[inds] for array in stored)
        return Samples(*tuple(map(self.to_torch, data)))

    def to_torch(self, array):
        return torch.tensor(array, device=self.device)


class QNetwork(nn.Module):
    def __init__(self, obs_dim, n):
        super().__init__()
        self.network = nn.Sequential(nn.Linear(obs_dim, 32), nn.ReLU(), nn.Linear(32, n))

    def forward(self, x):
        return self.network(x)


random.seed(1)
np.random.seed(1)
torch.manual_seed(1)
q_network = QNetwork(4, 2)
optimizer = optim.Adam(q_network.parameters(), lr=1e-3)
target_network = QNetwork(4, 2)
target_network.load_state_dict(q_network.state_dict())
rb = ReplayBuffer(1000, 4)
obs = np.random.randn(4).astype(np.float32)
for global_step in range(200):
    if random.random() < 0.3:
        action = np.random.randint(2)
    else:
        q_values = q_network(torch.Tensor(obs).unsqueeze(0))
        action = torch.argmax(q_values, dim=1).cpu().numpy()[0]
    next_obs = (0.9 * obs + 0.1 * action).astype(np.float32)
    rb.add(obs, next_obs, action, float(next_obs.sum()), float(global_step % 10 == 0))
    obs = next_obs
    if global_step > 20 and global_step % 4 == 0:
        data = rb.sample(16)
        with torch.no_grad():
            target_max, _ = target_network(data.next_observations).max(dim=1)
            td_target = data.rewards.flatten() + 0.99 * target_max * (1 - data.dones.flatten())
        old_val = q_network(data.observations).gather(1, data.actions).squeeze()
        loss = F.mse_loss(td_target, old_val)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(loss.item())
        if global_step % 20 == 0:
            for tp, qp in zip(target_network.parameters(), q_network.parameters()):
                tp.data.copy_(0.5 * qp.data + 0.5 * tp.data)
