"""What agents and adversaries do around their updates: memories that become arrays, targets that follow, steps of a
critic before the one of a generator, and losses of the last turn of a loop."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

STATES = np.linspace(-1, 1, 24).reshape(8, 3).astype(np.float32)
REWARDS = [0.1 * n for n in range(8)]
losses = []
"""
POLICY = (
    "policy = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))\n"
    "nn.init.constant_(policy[0].weight, 0.3)\nnn.init.zeros_(policy[0].bias)\n"
    "nn.init.constant_(policy[2].weight, -0.2)\nnn.init.zeros_(policy[2].bias)\n"
    "optimizer = torch.optim.SGD(policy.parameters(), lr=0.5)\n"
)
EPISODE = (
    "for episode in range(3):\n"
    "    states, actions, rewards = [], [], []\n"
    "    for n in range(4):\n"
    "        states.append(STATES[n + episode])\n"
    "        actions.append(n % 2)\n"
    "        rewards.append(REWARDS[n])\n"
)
STEP = "    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n    losses.append(loss.item())\n"
MEMORIES = {
    "stacked in the loss": (
        "",
        "    logits = policy(torch.tensor(np.stack(states)))\n"
        "    returns = torch.tensor(rewards)\n"
        "    loss = (F.cross_entropy(logits, torch.tensor(actions), reduction='none') * returns).mean()\n",
    ),
    "picked by a range": (
        "",
        "    logits = policy(torch.as_tensor(np.array(states)))\n"
        "    logp = F.log_softmax(logits, dim=-1)[torch.arange(len(actions)), torch.as_tensor(np.array(actions))]\n"
        "    loss = -(logp * torch.from_numpy(np.array(rewards, dtype=np.float32))).mean()\n",
    ),
    "in a function": (
        "def compute_loss(obs, act, weights):\n"
        "    obs = torch.as_tensor(np.array(obs), dtype=torch.float32)\n"
        "    act = torch.as_tensor(np.array(act))\n"
        "    logp = torch.distributions.Categorical(logits=policy(obs)).log_prob(act)\n"
        "    return -(logp * torch.as_tensor(np.array(weights), dtype=torch.float32)).mean()\n\n\n",
        "    loss = compute_loss(states, actions, rewards)\n",
    ),
}


@pytest.mark.parametrize(("function", "loss"), MEMORIES.values(), ids=MEMORIES)
def test_memories(function: str, loss: str) -> None:
    """numpy takes no tracers: what it makes of lists is made before the step."""
    theirs, ours = rewritten.both(HEAD + POLICY + function + EPISODE + loss + STEP)
    assert len(theirs["losses"]) == len(ours["losses"]) == 3
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5, atol=1e-6)  # float32, of a few steps


AGENT = """
class Agent:
    def __init__(self):
        self.local = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        self.target = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        nn.init.constant_(self.local[0].weight, 0.3)
        nn.init.constant_(self.local[0].bias, 0.1)
        nn.init.constant_(self.local[2].weight, -0.2)
        nn.init.constant_(self.local[2].bias, 0.2)
        nn.init.constant_(self.target[0].weight, 0.3)
        nn.init.constant_(self.target[0].bias, 0.1)
        nn.init.constant_(self.target[2].weight, -0.2)
        nn.init.constant_(self.target[2].bias, 0.2)
        self.optimizer = torch.optim.SGD(self.local.parameters(), lr=0.1)

    def learn(self, s):
        wanted = self.target(s).detach().mean(1) + 1
        loss = F.mse_loss(self.local(s).mean(1), wanted)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        UPDATE
        return loss.item()

    METHOD


agent = Agent()
s = torch.from_numpy(STATES)
for _ in range(3):
    agent.learn(s)
learnt = [weight.sum().item() for weight in agent.local.parameters()]
followed = [weight.sum().item() for weight in agent.target.parameters()]
"""
UPDATES = {
    "a method that is given both": (
        "self.soft_update(self.local, self.target, 0.5)",
        "def soft_update(self, local, target, tau):\n"
        "        for t, l in zip(target.parameters(), local.parameters()):\n"
        "            t.data.copy_(tau * l.data + (1.0 - tau) * t.data)",
    ),
    "a method of both": (
        "self.soft_update()",
        "def soft_update(self):\n"
        "        for t, l in zip(self.target.parameters(), self.local.parameters()):\n"
        "            t.data.copy_(0.5 * l.data + 0.5 * t.data)",
    ),
}


@pytest.mark.parametrize(("update", "method"), UPDATES.values(), ids=UPDATES)
def test_targets_that_follow(update: str, method: str) -> None:
    """Two models that are made alike without a class have the same weights."""
    theirs, ours = rewritten.both(HEAD + AGENT.replace("UPDATE", update).replace("METHOD", method))
    assert theirs["learnt"] != theirs["followed"]
    for name in ("learnt", "followed"):  # Flax has the bias of a layer before its kernel
        np.testing.assert_allclose(sorted(ours[name]), sorted(theirs[name]), rtol=1e-5)  # float32, of a few steps


GAN = """
G, D = nn.Linear(2, 3), nn.Linear(3, 1)
nn.init.constant_(G.weight, 0.3)
nn.init.constant_(G.bias, 0.1)
nn.init.constant_(D.weight, -0.2)
nn.init.constant_(D.bias, 0.2)
g_optimizer = torch.optim.SGD(G.parameters(), lr=0.1)
d_optimizer = torch.optim.SGD(D.parameters(), lr=0.1)
real = torch.from_numpy(STATES)
for n in range(3):
    for turn in range(2):
        z = torch.full((8, 2), 0.5 + turn + n)
        fake = G(z)
        critic = -(D(real).mean() - D(fake).tanh().mean())
        D.zero_grad()
        critic.backward(retain_graph=True)
        d_optimizer.step()
    AGAIN
    loss = -D(fake).tanh().mean()
    G.zero_grad()
    loss.backward()
    g_optimizer.step()
    losses += [critic.item(), loss.item()]
"""


@pytest.mark.parametrize("again", ["pass", "fake = G(z)"])
def test_a_critic_steps_more_often(again: str) -> None:
    """The generator's loss goes on from the last turn of the critic's loop."""
    theirs, ours = rewritten.both(HEAD + GAN.replace("AGAIN", again))
    assert len(theirs["losses"]) == len(ours["losses"]) == 6
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5, atol=1e-6)  # float32, of a few steps


ACTOR = """
class Memory:
    def __init__(self):
        self.states, self.actions = [], []


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.action_layer = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Softmax(dim=-1))
        self.value_layer = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        for layers in (self.action_layer, self.value_layer):
            nn.init.constant_(layers[0].weight, 0.3)
            nn.init.constant_(layers[0].bias, 0.1)
            nn.init.constant_(layers[2].weight, -0.2)
            nn.init.constant_(layers[2].bias, 0.2)

    def act(self, state, memory):
        state = torch.from_numpy(state).float()
        probs = self.action_layer(state)
        memory.states.append(state)
        memory.actions.append(torch.argmax(probs))
        return probs.argmax().item()

    def evaluate(self, state, action):
        dist = torch.distributions.Categorical(self.action_layer(state))
        return dist.log_prob(action), torch.squeeze(self.value_layer(state)), dist.entropy()


class PPO:
    def __init__(self):
        self.policy = ActorCritic()
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.1)
        self.policy_old = ActorCritic()
        self.policy_old.load_state_dict(self.policy.state_dict())

    def update(self, memory):
        states = torch.stack(memory.states).detach()
        actions = torch.stack(memory.actions).detach()
        for _ in range(2):
            logprobs, values, entropy = self.policy.evaluate(states, actions)
            loss = (-logprobs * (1 - values.detach()) + 0.5 * (values - 1) ** 2 - 0.01 * entropy).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        self.policy_old.load_state_dict(self.policy.state_dict())


memory = Memory()
ppo = PPO()
for n in range(4):
    ppo.policy_old.act(STATES[n], memory)
ppo.update(memory)
"""


def test_a_memory_is_empty_when_the_agent_is_made() -> None:
    """Its weights are made of the features that its parts take, and no key is asked for that nothing draws with."""
    theirs, ours = rewritten.both(HEAD + ACTOR)
    assert len(theirs["losses"]) == len(ours["losses"]) == 2
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of two steps
    assert '"sample"' not in rewritten.clean(HEAD + ACTOR).text


TARGETS = """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 2), nn.Linear(3, 1)
        nn.init.constant_(self.a.weight, 0.3)
        nn.init.constant_(self.a.bias, 0.1)
        nn.init.constant_(self.b.weight, -0.2)
        nn.init.constant_(self.b.bias, 0.2)

    def forward(self, x):
        return {"a": self.a(x), "b": self.b(x)}


from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(torch.from_numpy(STATES), torch.arange(8) % 2), batch_size=4)
net = Heads()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
terms = {"a": nn.CrossEntropyLoss(), "b": nn.MSELoss()}
weights = {"a": 1.0, "b": 0.5}
for epoch in range(2):
    for x, y in loader:
        out = net(x)
        targets = {"a": y, "b": y.float().unsqueeze(1)}
        parts = {k: terms[k](out[k], targets[k]) for k in terms}
        loss = sum(weights[k] * parts[k] for k in parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def test_targets_of_several_tasks() -> None:
    """A dict of batches is an input of the step."""
    theirs, ours = rewritten.both(HEAD + TARGETS)
    assert len(theirs["losses"]) == len(ours["losses"]) == 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps
    assert "jax.tree.map(jnp.asarray, targets)" in rewritten.clean(HEAD + TARGETS).text


BUFFER = """
class Critic(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.l1, self.l2 = nn.Linear(states + actions, 4), nn.Linear(4, 1)

    def forward(self, state, action):
        return self.l2(torch.tanh(self.l1(torch.cat([state, action], 1))))


class Buffer:
    def __init__(self, size=1000):
        self.state, self.action = np.zeros((size, 3)), np.zeros((size, 1))

    def sample(self, n):
        found = np.random.randint(0, 8, size=n)
        return torch.FloatTensor(self.state[found]), torch.FloatTensor(self.action[found])


class Agent:
    def __init__(self):
        self.critic = Critic(3, 1)
        self.optimizer = torch.optim.SGD(self.critic.parameters(), lr=0.1)

    def train(self, buffer):
        state, action = buffer.sample(4)
        loss = F.mse_loss(self.critic(state, action), torch.ones(4, 1))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        losses.append(loss.item())


agent, buffer = Agent(), Buffer()
agent.train(buffer)
agent.train(buffer)
"""


def test_no_buffer_is_made_for_an_example() -> None:
    made = rewritten.clean(HEAD + BUFFER).text
    assert "init(" in made and "Buffer()." not in made and "jnp.zeros((1, 3)), jnp.zeros((1, 1))" in made
    assert len(rewritten.executed(made)["losses"]) == 2


ACTING = """
kept, rewards = [], []


def select_action(state):
    state = torch.from_numpy(state)
    c = torch.distributions.Categorical(logits=policy(state))
    action = c.probs.argmax()
    kept.append(c.log_prob(action))
    action = action.item()
    return action


for episode in range(3):
    state = STATES[episode]
    for n in range(4):
        action = select_action(state)
        state = STATES[(n + action) % 8]
        rewards.append(REWARDS[n] + float(state[0]))
    loss = []
    for log_prob, reward in zip(kept, rewards):
        loss.append(-log_prob * reward)
    loss = torch.stack(loss).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    del kept[:]
    del rewards[:]
"""


@pytest.mark.parametrize("returned", ["    action = action.item()\n    return action\n", "    return action.item()\n"])
def test_a_number_that_has_the_name_of_a_tensor_has_no_gradient(returned: str) -> None:
    text = HEAD + POLICY + ACTING.replace("    action = action.item()\n    return action\n", returned)
    assert rewritten.conversion(text).report.exit_code == 0
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps
