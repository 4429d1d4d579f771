"""Soft actor-critic: continuous actions, twin critics with targets, a temperature that is trained as well."""

from typing import NamedTuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

BATCH, GAMMA, TAU, DELAY, WARM_UP = 8, 0.99, 0.05, 2, 4


class Box:
    def __init__(self, low, high):
        self.low, self.high = np.array(low, np.float32), np.array(high, np.float32)
        self.shape = self.low.shape


class Plane:
    observation_space = Box([-9.0] * 3, [9.0] * 3)
    action_space = Box([-2.0, -1.0], [1.0, 1.0])

    def reset(self):
        self.x = np.random.randn(1, 3).astype(np.float32)
        return self.x

    def step(self, action):
        push = np.concatenate([action, action[:, :1]], axis=1)
        self.x = (0.9 * self.x + 0.1 * push + 0.1 * np.random.randn(1, 3)).astype(np.float32)
        return self.x, -np.abs(self.x).sum(axis=1)


class Samples(NamedTuple):
    observations: torch.Tensor
    actions: torch.Tensor
    next_observations: torch.Tensor
    rewards: torch.Tensor


class ReplayBuffer:
    def __init__(self):
        self.kept = []

    def add(self, *turn):
        self.kept.append(turn)

    def sample(self, size):
        rows = [self.kept[i] for i in np.random.randint(0, len(self.kept), size=size)]
        return Samples(*(torch.tensor(np.concatenate(each)) for each in zip(*rows)))


class Critic(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.fc1 = nn.Linear(np.prod(env.observation_space.shape) + np.prod(env.action_space.shape), 32)
        self.fc2 = nn.Linear(32, 1)

    def forward(self, x, a):
        x = torch.cat([x, a], 1)
        x = F.relu(self.fc1(x))
        return self.fc2(x)


class Actor(nn.Module):
    def __init__(self, env):
        super().__init__()
        self.fc1 = nn.Linear(np.prod(env.observation_space.shape), 32)
        self.mean = nn.Linear(32, np.prod(env.action_space.shape))
        self.log_std = nn.Linear(32, np.prod(env.action_space.shape))
        self.register_buffer("scale", torch.tensor((env.action_space.high - env.action_space.low) / 2.0))
        self.register_buffer("bias", torch.tensor((env.action_space.high + env.action_space.low) / 2.0))

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return self.mean(x), -5 + 3.5 * (torch.tanh(self.log_std(x)) + 1)

    def get_action(self, x):
        mean, log_std = self(x)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t)
        log_prob -= torch.log(self.scale * (1 - y_t.pow(2)) + 1e-6)
        return y_t * self.scale + self.bias, log_prob.sum(1, keepdim=True)


np.random.seed(1)
torch.manual_seed(1)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
env = Plane()
actor = Actor(env).to(device)
qf1 = Critic(env).to(device)
qf2 = Critic(env).to(device)
qf1_target = Critic(env).to(device)
qf2_target = Critic(env).to(device)
qf1_target.load_state_dict(qf1.state_dict())
qf2_target.load_state_dict(qf2.state_dict())
q_optimizer = optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=1e-2)
actor_optimizer = optim.Adam(list(actor.parameters()), lr=1e-2)
target_entropy = -torch.prod(torch.Tensor(env.action_space.shape)).item()
log_alpha = torch.zeros(1, requires_grad=True, device=device)
alpha = log_alpha.exp().item()
alpha_optimizer = optim.Adam([log_alpha], lr=1e-2)
rb = ReplayBuffer()
obs = env.reset()
for step in range(24):
    actions, _ = actor.get_action(torch.Tensor(obs).to(device))
    actions = actions.detach()
    actions += torch.normal(0, actor.scale * 0.1)
    actions = actions.cpu().numpy().clip(env.action_space.low, env.action_space.high)
    next_obs, rewards = env.step(actions)
    rb.add(obs, actions, next_obs, rewards.astype(np.float32))
    obs = next_obs
    if step >= WARM_UP:
        data = rb.sample(BATCH)
        with torch.no_grad():
            next_actions, next_log_pi = actor.get_action(data.next_observations)
            q1_next = qf1_target(data.next_observations, next_actions)
            q2_next = qf2_target(data.next_observations, next_actions)
            next_value = torch.min(q1_next, q2_next) - alpha * next_log_pi
            q_value = data.rewards.flatten() + GAMMA * next_value.view(-1)
        q1_loss = F.mse_loss(qf1(data.observations, data.actions).view(-1), q_value)
        q2_loss = F.mse_loss(qf2(data.observations, data.actions).view(-1), q_value)
        q_loss = q1_loss + q2_loss
        q_optimizer.zero_grad()
        q_loss.backward()
        q_optimizer.step()

        if step % DELAY == 0:
            for _ in range(DELAY):
                pi, log_pi = actor.get_action(data.observations)
                q_pi = torch.min(qf1(data.observations, pi), qf2(data.observations, pi))
                actor_loss = (alpha * log_pi - q_pi).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()

                with torch.no_grad():
                    _, log_pi = actor.get_action(data.observations)
                alpha_loss = (-log_alpha.exp() * (log_pi + target_entropy)).mean()
                alpha_optimizer.zero_grad()
                alpha_loss.backward()
                alpha_optimizer.step()
                alpha = log_alpha.exp().item()

        for param, target_param in zip(qf1.parameters(), qf1_target.parameters()):
            target_param.data.copy_(TAU * param.data + (1 - TAU) * target_param.data)
        for param, target_param in zip(qf2.parameters(), qf2_target.parameters()):
            target_param.data.copy_(TAU * param.data + (1 - TAU) * target_param.data)
        print(f"{step} {q_loss.item():.4f} {alpha:.4f}")
