"""Updates that an object makes in several methods, as models of GANs do that keep inputs, outputs and losses."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import itertools

import torch
import torch.nn.functional as F
from torch import nn

X, Y = torch.arange(24.0).reshape(8, 3) / 10, torch.linspace(-1, 1, 24).reshape(8, 3)


class Net(nn.Module):
    def __init__(self, outputs=3):
        super().__init__()
        self.lin = nn.Linear(3, outputs)
        nn.init.constant_(self.lin.weight, 0.2)
        nn.init.constant_(self.lin.bias, 0.05)

    def forward(self, x):
        return torch.tanh(self.lin(x))


"""
CRITERION = """class Criterion(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("one", torch.tensor(1.0))
        self.register_buffer("zero", torch.tensor(0.0))
        self.loss = nn.MSELoss()

    def __call__(self, guess, real):
        target = self.one if real else self.zero
        return self.loss(guess, target.expand_as(guess))


"""
ONE = """class Model:
    def __init__(self):
        self.net = Net()
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

METHODS

losses, model = [], Model()
for i in range(0, 8, 4):
    model.take(X[i : i + 4], Y[i : i + 4])
    model.optimize()
    losses += [model.loss.item(), model.out.sum().item()]
"""
TAKE = """    def take(self, x, y):
        self.x, self.y = x, y
"""
FORWARD = """
    def forward(self):
        self.out = self.net(self.x)
"""
BACKWARD = """
    def backward(self):
        self.loss = self.criterion(self.out, self.y)
        self.loss.backward()
"""
OPTIMIZE = """
    def optimize(self):
        self.forward()
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()
"""
METHODS = {
    "one method": """
    def optimize(self):
        self.out = self.net(self.x)
        self.loss = self.criterion(self.out, self.y)
        self.optimizer.zero_grad()
        self.loss.backward()
        self.optimizer.step()
""",
    "forward and backward": FORWARD + BACKWARD + OPTIMIZE,
    "forward alone": FORWARD
    + """
    def optimize(self):
        self.forward()
        self.loss = self.criterion(self.out, self.y)
        self.optimizer.zero_grad()
        self.loss.backward()
        self.optimizer.step()
""",
    "backward and the step": """
    def update(self):
        self.optimizer.zero_grad()
        self.loss.backward()
        self.optimizer.step()

    def optimize(self):
        self.out = self.net(self.x)
        self.loss = self.criterion(self.out, self.y)
        self.update()
""",
    "a loss that is returned": """
    def loss_of(self):
        self.out = self.net(self.x)
        return self.criterion(self.out, self.y)

    def update(self):
        self.optimizer.zero_grad()
        self.loss.backward()
        self.optimizer.step()

    def optimize(self):
        self.loss = self.loss_of()
        self.update()
""",
    "methods in methods": FORWARD
    + """
    def error(self):
        self.forward()
        self.loss = self.criterion(self.out, self.y)

    def backward(self):
        self.error()
        self.loss.backward()

    def optimize(self):
        self.optimizer.zero_grad()
        self.backward()
        self.optimizer.step()
""",
    "forward for tests as well": FORWARD
    + BACKWARD
    + OPTIMIZE
    + """        self.test()

    def test(self):
        with torch.no_grad():
            self.forward()
""",
}


@pytest.mark.parametrize("name", METHODS)
def test_losses_are_torchs(name: str) -> None:
    theirs, ours = rewritten.both(HEAD + ONE.replace("METHODS\n", TAKE + METHODS[name]))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


CYCLE = """class Cycle:
    def __init__(self):
        self.G_A, self.G_B, self.D_A, self.D_B = Net(), Net(), Net(1), Net(1)
        self.criterion = Criterion()
        self.l1 = nn.L1Loss()
        both = itertools.chain(self.G_A.parameters(), self.G_B.parameters())
        self.optimizer_G = torch.optim.Adam(both, lr=0.01, betas=(0.5, 0.999))
        both = itertools.chain(self.D_A.parameters(), self.D_B.parameters())
        self.optimizer_D = torch.optim.Adam(both, lr=0.01, betas=(0.5, 0.999))

    def take(self, data):
        self.real_A, self.real_B = data["A"], data["B"]

    def forward(self):
        self.fake_B = self.G_A(self.real_A)
        self.back_A = self.G_B(self.fake_B)
        self.fake_A = self.G_B(self.real_B)
        self.back_B = self.G_A(self.fake_A)

    def backward_of(self, net, real, fake):
        loss = (self.criterion(net(real), True) + self.criterion(net(fake.detach()), False)) * 0.5
        loss.backward()
        return loss

    def backward_D_A(self):
        self.loss_D_A = self.backward_of(self.D_A, self.real_B, self.fake_B)

    def backward_D_B(self):
        self.loss_D_B = self.backward_of(self.D_B, self.real_A, self.fake_A)

    def backward_G(self):
        self.loss_G_A = self.criterion(self.D_A(self.fake_B), True)
        self.loss_G_B = self.criterion(self.D_B(self.fake_A), True)
        self.loss_A = self.l1(self.back_A, self.real_A) * 10
        self.loss_B = self.l1(self.back_B, self.real_B) * 10
        self.loss_G = self.loss_G_A + self.loss_G_B + self.loss_A + self.loss_B
        self.loss_G.backward()

    def freeze(self, nets, trained=False):
        for net in nets:
            for p in net.parameters():
                p.requires_grad = trained

    def optimize(self):
        self.forward()
        self.freeze([self.D_A, self.D_B], False)
        self.optimizer_G.zero_grad()
        self.backward_G()
        self.optimizer_G.step()
        self.freeze([self.D_A, self.D_B], True)
        self.optimizer_D.zero_grad()
        self.backward_D_A()
        self.backward_D_B()
        self.optimizer_D.step()


losses, model = [], Cycle()
for i in range(0, 8, 4):
    model.take({"A": X[i : i + 4], "B": Y[i : i + 4]})
    model.optimize()
    losses += [getattr(model, name).item() for name in ("loss_G", "loss_A", "loss_B", "loss_D_A", "loss_D_B")]
"""


def test_two_generators_and_two_discriminators() -> None:
    theirs, ours = rewritten.both(HEAD + CRITERION + CYCLE)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4)  # of Adam's first steps: g / |g|


AGENT = """class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(6, 1)
        nn.init.constant_(self.lin.weight, 0.1)
        nn.init.constant_(self.lin.bias, 0.02)

    def forward(self, state, action):
        return self.lin(torch.cat([state, action], 1))


class Agent:
    def __init__(self):
        self.actor, self.critic = Net(), Critic()
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=0.01)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=0.01)

METHODS

losses, agent = [], Agent()
for i in range(0, 8, 4):
    agent.update(X[i : i + 4], Y[i : i + 4], Y[i : i + 4, :1])
    losses += [agent.critic_loss.item(), agent.actor_loss.item()]
"""
AGENTS = {
    "a method that steps": """    def step(self, optimizer, loss):
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    def update(self, state, action, reward):
        self.critic_loss = F.mse_loss(self.critic(state, action), reward)
        self.step(self.critic_optimizer, self.critic_loss)
        self.actor_loss = -self.critic(state, self.actor(state)).mean()
        self.step(self.actor_optimizer, self.actor_loss)
""",
    "an update before another one": """    def update_critic(self, state, action, reward):
        self.error = reward - self.critic(state, action)
        self.critic_loss = self.error.pow(2).mean()
        self.critic_optimizer.zero_grad()
        self.critic_loss.backward()
        self.critic_optimizer.step()

    def update(self, state, action, reward):
        self.update_critic(state, action, reward)
        self.value = self.critic(state, self.actor(state))
        self.actor_loss = -self.value.mean()
        self.actor_optimizer.zero_grad()
        self.actor_loss.backward()
        self.actor_optimizer.step()
""",
    "parts that methods keep": """    def encode(self, state):
        out = self.actor(state)
        self.mean, self.spread = out[:, :2], out[:, 2:]

    def cost(self, reward):
        self.bias = (self.mean - reward).pow(2).mean()
        self.width = self.spread.abs().mean()
        return self.bias + self.width

    def update(self, state, action, reward):
        self.encode(state)
        self.actor_loss = self.cost(reward)
        self.actor_optimizer.zero_grad()
        self.actor_loss.backward()
        self.actor_optimizer.step()
        self.critic_loss = self.bias
""",
}


@pytest.mark.parametrize("name", AGENTS)
def test_updates_of_agents(name: str) -> None:
    text = HEAD + AGENT.replace("METHODS\n", AGENTS[name])
    if name == "parts that methods keep":
        text = text.replace("        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=0.01)\n", "")
        text = text.replace("self.actor, self.critic = Net(), Critic()", "self.actor = Net()")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-4)  # of Adam's first steps: g / |g|


def test_a_criterion_without_weights_goes_with_the_step() -> None:
    one = ONE.replace("self.criterion = nn.MSELoss()", "self.criterion = Criterion()").replace("METHODS\n", TAKE)
    optimize = METHODS["one method"].replace("self.criterion(self.out, self.y)", "self.criterion(self.out, True)")
    theirs, ours = rewritten.both(HEAD + CRITERION + one.replace("\n\nlosses", optimize + "\n\nlosses"))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


def test_what_a_method_may_change_in_between_is_told() -> None:
    """`scale` gives the output another value, by a name that the loss cannot follow."""
    scale = "\n    def scale(self):\n        for _ in range(2):\n            self.out = self.out * 2\n"
    optimize = METHODS["forward alone"].replace(
        "        self.forward()\n", "        self.forward()\n        self.scale()\n"
    )
    made = rewritten.conversion(HEAD + ONE.replace("METHODS\n", TAKE + scale + optimize))
    assert [one.code for one in made.report.diagnostics] == ["MIG401"]


def test_what_a_subclass_writes_anew_is_not_its_bases() -> None:
    """The forward pass of `Model` is not that of `Doubled`, whose objects `optimize` works on."""
    text = HEAD + ONE.replace("METHODS\n", TAKE + METHODS["forward and backward"])
    other = "class Doubled(Model):\n    def forward(self):\n        self.out = 2 * self.net(self.x)\n\n\n"
    text = text.replace("losses, model = [], Model()", f"{other}losses, model = [], Doubled()")
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
