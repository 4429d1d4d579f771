"""Modules without weights of their own around models that go on under their own names, and objects of one class that
look at different models."""

from __future__ import annotations

import contextlib
import io

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import copy
import torch
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        nn.init.constant_(self.lin.weight, 0.2)
        nn.init.constant_(self.lin.bias, 0.05)
        self.norm = nn.BatchNorm1d(4)
    def forward(self, x, t):
        return self.norm(self.lin(x)) + t[:, None]

losses = []
"""
DIFFUSION = """
def extract(v, t, shape):
    out = torch.gather(v, index=t, dim=0).float()
    return out.view([t.shape[0]] + [1] * (len(shape) - 1))

class Trainer(nn.Module):
    def __init__(self, model, steps):
        super().__init__()
        self.model = model
        self.steps = steps
        self.register_buffer("betas", torch.linspace(0.1, 0.5, steps))
        alphas = 1.0 - self.betas
        bar = torch.cumprod(alphas, dim=0)
        self.register_buffer("scale", torch.sqrt(bar), persistent=False)
    def forward(self, x):
        t = torch.arange(x.shape[0], device=x.device) % self.steps
        noise = torch.ones_like(x)
        noisy = extract(self.scale, t, x.shape) * x + noise
        return F.mse_loss(self.model(noisy, t), noise, reduction="none")

class Sampler(nn.Module):
    def __init__(self, model, steps):
        super(Sampler, self).__init__()
        self.model = model
        self.steps = steps
    def denoised(self, x, t):
        return x - 0.1 * self.model(x, t)
    def forward(self, x):
        for step in reversed(range(self.steps)):
            x = self.denoised(x, x.new_ones([x.shape[0]], dtype=torch.long) * step)
        return torch.clip(x, -1, 1)

def average(source, target, decay):
    source_dict = source.state_dict()
    target_dict = target.state_dict()
    for key in source_dict.keys():
        target_dict[key].data.copy_(target_dict[key].data * decay + source_dict[key].data * (1 - decay))

def sampled(sampler, model, x):
    model.eval()
    with torch.no_grad():
        made = sampler(x)
    model.train()
    return made.sum().item()

def main(parallel):
    device = torch.device("cpu")
    net = Net()
    ema = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    trainer = Trainer(net, 3).to(device)
    net_sampler = Sampler(net, 3).to(device)
    ema_sampler = Sampler(ema, 3).to(device)
    if parallel:
        trainer = nn.DataParallel(trainer)
        net_sampler = nn.DataParallel(net_sampler)
    for step in range(4):
        optimizer.zero_grad()
        x = torch.arange(8.0).reshape(2, 4) / 10
        loss = trainer(x).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        average(net, ema, 0.9)
        losses.extend([loss.item(), sampled(net_sampler, net, x), sampled(ema_sampler, ema, x)])

main(False)
"""
# a net that averages may have no batches counted, which torch refuses to scale
PLAIN = HEAD.replace("        self.norm = nn.BatchNorm1d(4)\n", "").replace("self.norm(self.lin(x))", "self.lin(x)")


def _compared(text: str) -> str:
    theirs, ours = rewritten.both(text)
    assert len(theirs["losses"]) > 2
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=2e-5)  # float32 over some steps
    return rewritten.clean(text).text


def test_a_trainer_and_samplers_around_one_model() -> None:
    made = _compared(PLAIN + DIFFUSION)
    assert "class Trainer:" in made and "class Sampler:" in made


AROUND = """
class Criterion(nn.Module):
    def __init__(self, net, weight=2.0):
        super().__init__()
        self.net = net
        self.weight = weight
        self.loss = nn.MSELoss()
    def forward(self, x, y):
        return self.weight * self.loss(self.net(x, torch.zeros(3)), y)

class Metric(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
    def forward(self, x, y):
        return (self.net(x, torch.zeros(3)) - y).abs().mean()

x, y = torch.arange(12.0).reshape(3, 4) / 10, torch.ones(3, 4)
net = Net()
criterion = Criterion(net)
metric = Metric(net)
optimizer = torch.optim.SGD(PARAMETERS, lr=0.1, momentum=0.9)
for step in range(4):
    criterion.train()
    optimizer.zero_grad()
    loss = criterion(x, y)
    loss.backward()
    optimizer.step()
    metric.eval()
    with torch.no_grad():
        losses.extend([loss.item(), metric(x, y).item()])
"""


@pytest.mark.parametrize("parameters", ["net.parameters()", "criterion.parameters()"])
def test_what_is_said_of_one_is_said_of_the_model(parameters: str) -> None:
    _compared(HEAD + AROUND.replace("PARAMETERS", parameters))


def test_a_module_asked_for_its_weights_is_a_finding() -> None:
    asked = AROUND.replace("PARAMETERS", "net.parameters()") + "torch.save(criterion.state_dict(), 'all.pt')\n"
    made = rewritten.conversion(HEAD + asked)
    assert made.report.exit_code == 1


OBJECTS = """
class Scaled:
    def __init__(self, model, scale):
        self.model = model
        self.scale = scale
    def __call__(self, x):
        return self.model(x, torch.zeros(2)) * self.scale
    def error(self, x):
        return (self(x) - 1).pow(2).mean()

def measured(probe, x):
    with torch.no_grad():
        return probe(x).sum().item()

def main():
    first, second = Net(), Net()
    one = Scaled(first, 1.0)
    two = Scaled(second, 2.0)
    optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
    x = torch.arange(8.0).reshape(2, 4) / 10
    for step in range(3):
        optimizer.zero_grad()
        loss = one.error(x) + (two(x) + 1).pow(2).mean()
        loss.backward()
        optimizer.step()
        losses.extend([loss.item(), measured(one, x), measured(two, x)])

main()
"""


def test_objects_of_one_class_look_at_two_models() -> None:
    made = _compared(PLAIN + OBJECTS)
    assert made.count("class Scaled") == 1  # what comes out alike is written once


TOLD = """import os
import torch
from torch import nn

class Experiment:
    def __init__(self, gpu):
        self.gpu = gpu
        self.device = self._acquire_device()
        self.net = nn.Linear(2, 1).to(self.device)
    def _acquire_device(self):
        os.environ["MIGRATE_TEST_GPU"] = str(self.gpu)
        print("Use GPU" if torch.cuda.is_available() else "Use CPU")
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

Experiment(3)
print(os.environ.pop("MIGRATE_TEST_GPU"))
"""


def test_what_chooses_a_device_says_so() -> None:
    printed: list[str] = []
    for text in (TOLD, rewritten.clean(TOLD).text):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            rewritten.executed(text)
        printed.append(out.getvalue())
    assert printed == ["Use CPU\n3\n"] * 2


SHOWN = """import torch
from torch import nn
from torchvision.utils import make_grid

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
    def forward(self, x):
        return self.lin(x)

class Trainer:
    def __init__(self, net):
        self.net = net
    def loss(self, x):
        noise = torch.randn_like(x)
        keep = torch.randint(0, 2, (x.shape[0], 1)).float()
        return (self.net(x + keep * noise) - noise).pow(2).mean()
    def sampled(self, x):
        return self.net(x + torch.randint(0, 2, (x.shape[0], 1)).float())

net = Net()
trainer = Trainer(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    loss = trainer.loss(torch.ones(2, 4))
    loss.backward()
    optimizer.step()
    grid = make_grid(trainer.sampled(torch.ones(2, 4)))
"""


def test_what_is_shown_is_computed_in_jax() -> None:
    """What jit traces would draw once with torch, and keep that."""
    made = rewritten.clean(SHOWN).text
    assert "torch.randint" not in made and "make_grid(torch.from_numpy(np.array(" in made


COUNTED = """import torch
from torch import nn
from tqdm import trange

net = nn.Linear(4, 2)
nn.init.constant_(net.weight, 0.2)
nn.init.constant_(net.bias, 0.1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data, losses = torch.arange(32.0).reshape(8, 4) / 10, []
with trange(0, 8, 2, desc="steps", disable=True) as bar:
    for i in bar:
        optimizer.zero_grad()
        loss = net(data[i : i + 2]).pow(2).mean() * (1 + i)
        loss.backward()
        optimizer.step()
        bar.set_postfix(loss=loss.item())
        losses.append(loss.item())
"""


def test_a_counter_that_shows_progress() -> None:
    _compared(COUNTED)


BETWEEN = """
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 1)
        nn.init.constant_(self.lin.weight, 0.3)
        nn.init.constant_(self.lin.bias, 0.05)
    def forward(self, x):
        return torch.sigmoid(self.lin(x))

maker, judge = Net(), Judge()
of_maker = torch.optim.SGD(maker.parameters(), lr=0.05)
of_judge = torch.optim.SGD(judge.parameters(), lr=0.05)
noise = torch.arange(48.0).reshape(4, 3, 4) / 48
for step in range(4):
    real = torch.ones(3, 4)
    fake = maker(noise[step], torch.zeros(3))
    judge.zero_grad()
    told = judge(real).mean()
    judged = judge(fake).mean()
    d_loss = 1 - told + judged
    d_loss.backward(retain_graph=True)
    of_judge.step()
    maker.zero_grad()
    fake = maker(noise[step], torch.zeros(3))
    judged = judge(fake).mean()
    g_loss = F.mse_loss(fake, real) - judged
    g_loss.backward()
    fake = maker(noise[step], torch.zeros(3))
    judged = judge(fake).mean()
    of_maker.step()
    losses.extend([g_loss.item(), d_loss.item(), told.item(), judged.item()])
losses.append(maker.norm.running_mean.sum().item())
"""


def test_passes_between_backward_and_the_step() -> None:
    """SRGAN looks at what it makes with the weights of before the step; statistics are counted each time."""
    _compared(HEAD + BETWEEN)
