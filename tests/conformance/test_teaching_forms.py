"""Ways to write that courses and notebooks share: models that start from constants, trained in both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F

x, y = torch.linspace(-1, 1, 24).reshape(8, 3).sin(), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
losses = []


"""
TRAIN = """
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(4):
    optimizer.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
DETACHED = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 4), nn.Linear(4, 4)
        self.last = nn.Linear(4, 3)
        self.first.weight.detach().fill_(0.3)
        self.first.bias.detach().zero_()
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight.detach(), 0.3)
                if m.bias is not None:
                    m.bias.detach().detach().zero_()
        nn.init.constant_(self.last.weight.detach(), -0.2)
        nn.init.constant_(self.last.bias, 0.1)

    def forward(self, x):
        return self.last(torch.tanh(self.second(self.first(x * torch.tensor([1.0, 2.0, 3.0])))))

net = Net()
"""
GROWING = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = nn.Linear(1, 1)
        nn.init.constant_(self.part.weight, 0.3)
        nn.init.constant_(self.part.bias, 0.1)

    def forward(self, x):
        seen = torch.FloatTensor()
        for column in range(x.size(1)):
            seen = torch.cat((seen, self.part(x[:, column:column + 1]) * (column + 1)), 1)
        return seen

net = Net()
"""
AFTER_GROWING = """
@torch.no_grad()
def predicted(net, batches):
    scores, labels = torch.tensor([]), torch.tensor([])
    for each, label in batches:
        scores = torch.cat((scores, net(each)), dim=0)
        labels = torch.cat((labels, label), dim=0)
    return scores, labels

scores, labels = predicted(net, [(x[:5], y[:5]), (x[5:], y[5:])])
losses += [*scores.flatten().tolist(), *labels.tolist()]
kinds = [str(labels.dtype).removeprefix("torch."), tuple(torch.cat([torch.tensor([]), torch.zeros(2, 3)], -1).shape)]
"""
SIZES = """class Table(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.inner = nn.Embedding(count, width)
        nn.init.constant_(self.inner.weight, 0.3)
        self.scale = nn.Parameter(torch.arange(width) * 0.1)

    def forward(self, x):
        return self.inner(x) * self.scale

class Net(nn.Module):
    def __init__(self, count, width):
        super().__init__()
        self.table = Table(count, width)
        shared = self.table.inner.weight
        n_count, n_width = shared.size()
        self.head = nn.Linear(n_width, n_count, bias=False)
        self.head.weight = shared
        self.side = nn.Linear(self.head.weight.shape[1], self.table.inner.weight.size(0))
        nn.init.constant_(self.side.weight, 0.1)
        nn.init.constant_(self.side.bias, 0.1)
        self.bias = nn.Parameter(torch.arange(n_count) * 0.1)

    def forward(self, x):
        h = self.table((x[:, 0] > 0).long())
        return self.head(h) + self.side(h) + self.bias

net = Net(3, 5)
"""
FILLED_OUTSIDE = """def filled(m, weight, bias=0.1):
    if isinstance(m, nn.Conv1d) or isinstance(m, nn.Linear):
        m.weight.data.fill_(weight)
        nn.init.constant_(m.bias, bias)

class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(1, 2, 2)
        self.last = nn.Linear(4, 3)

    def weight_init(self, weight):
        for m in self._modules:
            filled(self._modules[m], weight)

    def forward(self, x):
        return self.last(torch.tanh(self.conv(x[:, None] * torch.tensor([1.0, 2.0, 3.0]))).flatten(1))

class Second(nn.Module):
    def __init__(self):
        super(Second, self).__init__()
        self.parts = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 3))

    def weight_init(self, weight, scale=0.5):
        \"\"\"Fills the layers.\"\"\"
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.constant_(m.weight, weight * scale)
                if m.bias is not None:
                    m.bias.data.zero_()
            elif isinstance(m, nn.BatchNorm1d):
                m.weight.data.fill_(1)

    def forward(self, x):
        return self.parts(x * torch.tensor([1.0, 2.0, 3.0]))

net, other = First(), None
net = First()
other = Second()
net.weight_init(weight=0.3)
other = other.to("cpu")
other.weight_init(-0.2)
losses += other(x).flatten().tolist()
"""
FORMS = {
    "weights filled by methods, from outside": HEAD
    + FILLED_OUTSIDE.replace("net, other = First(), None\n", "")
    + TRAIN,
    "weights filled behind detach": HEAD + DETACHED + TRAIN,
    "arrays that begin with nothing": HEAD + GROWING + TRAIN + AFTER_GROWING,
    "sizes of weights in constructors": HEAD + SIZES + TRAIN,
}


@pytest.mark.parametrize("source", FORMS.values(), ids=FORMS)
def test_forms(source: str) -> None:
    theirs, ours = rewritten.both(source)
    assert len(theirs["losses"]) == len(ours["losses"]) >= 4
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5, atol=1e-7)  # float32, of a few steps
    assert theirs.get("kinds") == ours.get("kinds")


ADVERSARIAL = """class GAN(nn.Module):
    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 4))
        self.critic = nn.Sequential(nn.Conv2d(1, 2, 2), nn.LeakyReLU(), nn.Flatten(), nn.Linear(2, 1))
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Conv2d)):
                nn.init.constant_(m.weight, 0.3)
                nn.init.constant_(m.bias, 0.1)

    def generator_forward(self, z):
        return self.generator(z)

    def critic_forward(self, img):
        return model.critic(img).view(-1)

model = GAN()
model = model.to("cpu")
real = torch.linspace(-1, 1, 16).reshape(4, 1, 2, 2)
generator_optimizer = torch.optim.SGD(model.generator.parameters(), lr=0.1)
critic_optimizer = torch.optim.SGD(model.critic.parameters(), lr=0.1)
for step in range(3):
    model = model.train()
    made = model.generator_forward(x[:4])
    loss = -model.critic_forward(made.view(real.size(0), 1, 2, 2)).mean()
    generator_optimizer.zero_grad()
    loss.backward()
    generator_optimizer.step()
    losses.append(loss.item())
    for _ in range(2):
        judged = model.critic_forward(real).mean()
        loss = model.critic_forward(made.view(real.size(0), 1, 2, 2).detach()).mean() - judged
        critic_optimizer.zero_grad()
        loss.backward()
        critic_optimizer.step()
        losses.append(loss.item())
        for p in model.critic.parameters():
            p.data.clamp_(-0.25, 0.25)
    with torch.no_grad():
        for p in model.generator[0].parameters():
            p.mul_(0.9)
"""


def test_methods_name_the_one_object_and_loops_change_parts() -> None:
    """A class that has methods in the place of a forward pass, and names its only object; weights of a part that are
    kept within bounds."""
    theirs, ours = rewritten.both(HEAD + ADVERSARIAL)
    assert len(theirs["losses"]) == 9
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


def test_objects_that_are_not_all_filled_keep_torchs_weights() -> None:
    """Of two objects of a class only one is given other weights: its constructor cannot tell."""
    found = rewritten.conversion(HEAD + FILLED_OUTSIDE + TRAIN).report
    assert found.exit_code == 1


CHILDREN = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 4), nn.Linear(4, 3)
        nn.init.constant_(self.first.weight, 0.3)
        nn.init.constant_(self.first.bias, 0.1)
        nn.init.constant_(self.last.weight, -0.2)
        nn.init.constant_(self.last.bias, 0.1)

    def forward(self, x):
        for m in self.children():
            x = torch.tanh(m(x))
        return x

net = Net()
"""


def test_children_in_a_forward_pass_are_no_modules_to_be_filled() -> None:
    theirs, ours = rewritten.both(HEAD + CHILDREN + TRAIN)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, of a few steps


@pytest.mark.parametrize("second", ["other.weight_init(-0.2)", "other.weight_init(0.3, 0.4)"])
def test_objects_that_are_filled_otherwise_are_refused(second: str) -> None:
    """One constructor cannot fill two objects with different numbers."""
    text = HEAD + FILLED_OUTSIDE.replace("net = First()", "net = Second()") + TRAIN
    assert rewritten.conversion(text.replace("other.weight_init(-0.2)", second)).report.exit_code == 1


def test_an_object_that_is_not_the_only_one_is_no_self() -> None:
    """A second model of the class makes the name in a method another object."""
    second = HEAD + ADVERSARIAL.replace("real = ", "other = GAN()\nreal = ")
    assert any("model" in one.message for one in rewritten.conversion(second).report.diagnostics)


SUMMED_UP = """import torch
import torch.nn as nn
import torchinfo
from torchinfo import summary as table
from torchsummary import summary


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Dropout(0.5))
        self.last = nn.Linear(8, 2)

    def forward(self, x):
        return self.last(self.body(x).mean((2, 3)))

class Names(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, x):
        return self.table(x)

net = Net()
summary(net, input_size=(3, 9, 9), device="cpu")
torchinfo.summary(net, (4, 3, 9, 9), col_names=["num_params"])
told = str(table(net, input_data=torch.zeros(2, 3, 8, 8), verbose=0))
summary(net.body, (3, 7, 7))
table(Names(), input_size=(2, 6), dtypes=[torch.long])
"""


def test_tables_of_layers_are_those_of_flax(capsys: pytest.CaptureFixture[str]) -> None:
    """torchsummary and torchinfo print tables of torch's modules: Flax has one of its own."""
    text = rewritten.clean(SUMMED_UP).text
    assert "import torchinfo" not in text and "torchsummary" not in text
    names = rewritten.executed(text)
    assert "Net Summary" in names["told"] and "params" not in names
    printed = capsys.readouterr().out
    assert printed.count("Net Summary") == 3 and printed.count("Names Summary") == 1


def test_a_table_tells_the_input_that_weights_are_made_with() -> None:
    counted = SUMMED_UP + "count = sum(p.numel() for p in net.parameters())\n"
    assert rewritten.executed(rewritten.clean(counted).text)["count"] == 3 * 8 * 9 + 8 + 2 * 8 + 8 * 2 + 2


FOREIGN = """import pickle
import torch
import torch.nn as nn
import thop
import wandb
from loguru import logger

net = nn.Linear(3, 2)
print(net(torch.ones(2, 3)).shape)
logger.info(net)
"""
TAKES_A_MODEL = {
    "wandb.watch": "wandb.watch(net, log='all')\n",
    "run.watch": "run = wandb.init()\nrun.watch(net)\n",
    "thop.profile": "flops, count = thop.profile(net, inputs=(torch.ones(2, 3),))\n",
    "pickle.dumps": "kept = pickle.dumps(net)\n",
}


@pytest.mark.parametrize(("called", "line"), TAKES_A_MODEL.items(), ids=TAKES_A_MODEL)
def test_other_packages_are_given_no_model_of_flax(called: str, line: str) -> None:
    assert rewritten.conversion(FOREIGN).report.exit_code == 0
    (found,) = rewritten.conversion(FOREIGN + line).report.diagnostics
    assert found.code == "MIG301" and found.message.startswith(f"{called} takes a model with its weights")


UNKNOWN_SIZES = HEAD + """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.last = nn.Linear(ASKED, 3)

    def forward(self, x):
        return self.last(self.parts[1](x))

net = Net()
""" + TRAIN  # fmt: skip


@pytest.mark.parametrize("asked", ["self.parts[0].weight.shape[0]", "self.parts[0].bias.numel()"])
def test_sizes_that_are_not_known_are_refused(asked: str) -> None:
    """Flax has no weights in `setup`."""
    (found, *_) = rewritten.conversion(UNKNOWN_SIZES.replace("ASKED", asked)).report.diagnostics
    assert found.code == "MIG302" and "what the layer is given is not known here" in found.message
