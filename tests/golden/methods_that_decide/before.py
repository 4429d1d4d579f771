"""Q-learning whose network chooses the actions itself, now and then at random: methods for the host, not for jit."""

import random
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Walk:
    """A point that drifts, and is pushed to one side or the other."""

    def __init__(self, seed):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.turn, self.state = 0, self.rng.uniform(-0.5, 0.5, 4).astype(np.float32)
        return self.state

    def any_action(self):
        return int(self.rng.randint(2))

    def step(self, action):
        self.turn += 1
        pushed = 0.9 * self.state + 0.1 * (2 * action - 1) + self.rng.uniform(-0.1, 0.1, 4)
        self.state = pushed.astype(np.float32)
        return self.state, float(1 - abs(self.state[0])), self.turn >= 12


class Qnet(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.actions = actions
        self.fc1 = nn.Linear(states, 32)
        self.dropout = nn.Dropout(0.2)
        self.fc2 = nn.Linear(32, actions)

    def forward(self, x):
        return self.fc2(self.dropout(F.relu(self.fc1(x))))

    def best(self, x):
        return self.forward(x).max(1)[1]

    def act(self, state, epsilon):
        if random.random() > epsilon:
            state = torch.FloatTensor(state).unsqueeze(0)
            q_value = self.forward(state)
            action = q_value.max(1)[1].item()
        else:
            action = random.randrange(self.actions)
        return action

    def sample_action(self, obs, epsilon):
        out = self(obs)
        coin = np.random.rand()
        if coin < epsilon:
            return env.any_action()
        else:
            return out.argmax().item()

    def turns_to(self, state, action, most=5):
        """How often a state is halved until its best action is another one."""
        self.eval()
        x, turns = torch.from_numpy(state)[None], 0
        while turns < most:
            if self.best(x) == action:
                break
            x, turns = x / 2, turns + 1
        self.train()
        return turns, F.relu(self.fc1(x)).mean().item()

    def explore(self, state):
        # as often as not
        with torch.no_grad():
            return self.act(state, 0.5) if self.best(torch.from_numpy(state)[None]).item() else 0


def train(q, q_target, memory, optimizer):
    for s, a, r, s_prime in random.sample(memory, 4):
        s, s_prime = torch.from_numpy(s)[None], torch.from_numpy(s_prime)[None]
        target = r + 0.98 * q_target(s_prime).max(1)[0].detach()
        loss = F.smooth_l1_loss(q(s)[:, a], target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


random.seed(0)
np.random.seed(0)
torch.manual_seed(0)
env = Walk(0)
q, q_target = Qnet(4, 2), Qnet(4, 2)
q_target.load_state_dict(q.state_dict())
optimizer = optim.Adam(q.parameters(), lr=5e-3)
memory = deque(maxlen=50)
for episode in range(4):
    s, done, score = env.reset(), False, 0.0
    q.eval()
    while not done:
        a = q.sample_action(torch.from_numpy(s).float(), 0.2)
        if a:
            a = q.act(s, 0.1)
        elif episode == 0:
            a = q.explore(s)
        s_prime, r, done = env.step(a)
        memory.append((s, a, r, s_prime))
        s, score = s_prime, score + r
    q.train()
    loss = train(q, q_target, memory, optimizer)
    turns, hidden = q.turns_to(s, 1)
    print(f"{episode}: {score:.3f} {loss:.5f} {turns} {hidden:.5f}")
