"""Objects of the script's own, whose models and optimizers are used from outside their class: both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance.test_training_forms import EXACT, trained

NET = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.out = nn.Linear(4, 2)

    def forward(self, x):
        return self.out(torch.tanh(self.norm(self.fc(x))))


"""
HEAD = (
    NET
    + """class Agent:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)

    def update(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.net(x) - y).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.item()


losses, rates = [], []
x = torch.linspace(-2, 3, 24).reshape(8, 3)
y = torch.sin(torch.linspace(0, 5, 16)).reshape(8, 2)
model = Net()
agent = Agent(model)
"""
)
FORMS = {
    "trained by the script": """
for step in range(6):
    agent.net.train()
    agent.optimizer.zero_grad()
    loss = (agent.net(x) - y).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(agent.net.parameters(), 1.0)
    agent.optimizer.step()
    agent.scheduler.step()
    losses.append(loss.item())
    rates.append(agent.scheduler.get_last_lr()[0])
    agent.net.eval()
    losses.append(agent.net(x).mean().item())
""",
    "trained by its methods": """
for step in range(6):
    losses.append(agent.update(x, y))
    rates.append(agent.optimizer.param_groups[0]["lr"])
    for group in agent.optimizer.param_groups:
        group["lr"] = 0.05
agent.net.eval()
with torch.no_grad():
    losses.append(agent.net(x).mean().item())
    losses.append(sum(p.sum().item() for p in agent.net.parameters()))
""",
    "of a class that inherits from another": """
class Robust(Agent):
    def update(self, x, y):
        self.optimizer.zero_grad()
        loss = self.error(x, y)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def error(self, x, y):
        return (self.net(x) - y).abs().mean()


other = Net()
robust = Robust(other)
for step in range(6):
    losses.append(agent.update(x, y) + robust.update(x, y))
robust.net.eval()
losses.append(robust.net(x).sum().item())
""",
    "given batches of a loader, and a number that makes shapes": """
class Sized:
    def __init__(self, net, width):
        self.net = net
        self.width = width
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def update(self, x, y):
        padded = torch.cat([self.net(x), torch.zeros(x.size(0), self.width)], dim=1)
        loss = (padded[:, : y.size(1)] - y).square().sum() / x.size(0)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def run(worker):
    data = torch.utils.data.TensorDataset(x, y)
    for rows, goals in torch.utils.data.DataLoader(data, batch_size=2):
        losses.append(worker.update(rows, goals))


other = Net()
run(Sized(other, 3))
losses += losses
""",
    "with methods between the gradients and the step": """
class Slower(Agent):
    def slow_down(self):
        for group in self.optimizer.param_groups:
            group["lr"] *= 0.9

    def update(self, x, y):
        self.optimizer.zero_grad()
        loss = (self.net(x) - y).square().mean()
        loss.backward()
        self.slow_down()
        self.optimizer.step()
        return loss.item()


other = Net()
slower = Slower(other)
for step in range(5):
    losses.append(slower.update(x, y))
""",
    "of two objects of a class": """
other = Net()
second = Agent(other)
for step in range(5):
    losses.append(agent.update(x, y) + 2 * second.update(y.new_ones(8, 3) * x, y))
    second.net.eval()
    with torch.no_grad():
        losses.append((agent.net(x) - second.net(x)).abs().sum().item())
    second.net.train()
    agent.scheduler.step()
""",
    "given to functions by keyword alone": """
def fit(*, network, optimizer, x, y, scale=1.0, scheduler=None):
    network.train()
    loss = (network(x) - y).square().mean() * scale
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if scheduler is not None:
        scheduler.step()
    return loss.item()


other = Net()
adam = torch.optim.Adam(other.parameters(), 0.1)
schedule = torch.optim.lr_scheduler.StepLR(adam, 2, 0.5)
for step in range(3):
    losses.append(fit(network=other, optimizer=adam, x=x, y=y, scheduler=schedule))
    losses.append(fit(x=x, y=y, network=other, optimizer=adam, scale=3.0))
""",
    "given to functions": """
def fit(worker, x, y):
    worker.net.train()
    loss = (worker.net(x) - y).square().mean()
    worker.optimizer.zero_grad()
    loss.backward()
    worker.optimizer.step()
    return loss.item()


def score(network):
    network.eval()
    return network(x).sum().item()


for step in range(5):
    losses.append(fit(agent, x, y))
    losses.append(score(agent.net))
""",
}


@pytest.mark.parametrize("form", FORMS)
def test_same_losses(form: str, float64: None) -> None:
    theirs, ours = trained(HEAD + FORMS[form])
    assert len(ours["losses"]) == len(theirs["losses"]) >= 5
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    np.testing.assert_allclose(ours["rates"], theirs["rates"], rtol=1e-6)


def codes(text: str) -> list[str]:
    return [f"{found.code} {found.message}" for found in convert(parse("train.py", text)).report.diagnostics]


def test_one_of_several_objects_is_refused() -> None:
    text = HEAD + "other = Agent(Net())\nprint(agent.optimizer.param_groups)\n"
    (found,) = codes(text + "for each in (agent, other):\n    each.update(x, y)\n")
    assert found.startswith("MIG404 agent.optimizer belongs to one of several objects")


def test_another_object_of_the_class_in_a_method_is_refused() -> None:
    text = HEAD.replace(
        "    def update(",
        "    def take(self, other):\n        self.net.load_state_dict(other.net.state_dict())\n\n    def update(",
    )
    found = codes(text + "second = Agent(Net())\nsecond.take(agent)\nprint(second.update(x, y))\n")
    assert any(one.startswith(("MIG404 other.net belongs", "MIG306 .state_dict() of other.net")) for one in found)


def test_a_class_of_several_bases_is_refused() -> None:
    text = HEAD + "class Named:\n    name = 'an agent'\n\n\nclass Own(Agent, Named):\n    pass\n\n\n"
    text += "Own(model).update(x, y)\n"
    assert any(found.startswith("MIG404 Own inherits from Agent, whose objects have models") for found in codes(text))


def named_alike(name: str) -> str:
    """The first form with a variable of that name in the loss."""
    return HEAD + FORMS["trained by the script"].replace("- y", f"- {name} * y").replace(
        "\nfor", f"\n{name} = x.mean()\nfor", 1
    )


def test_a_variable_of_the_name_of_a_model_in_a_loss(float64: None) -> None:
    theirs, ours = trained(named_alike("net"))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


def test_a_variable_of_the_name_of_an_optimizer_in_a_loss_is_refused() -> None:
    found = codes(named_alike("optimizer"))
    assert any(one.startswith("MIG401 the loss reads agent.optimizer and another optimizer") for one in found)
