"""Example inputs for `model.init`."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten


def test_an_example_that_doubles_at_each_turn_is_refused() -> None:
    """Written out, what the model is called with has 3**7 factors."""
    lines = "".join(f"    a{i + 1} = a{i} * a{i} + a{i}\n" for i in range(7))
    source = "import torch\nimport torch.nn as nn\n\nmodel = nn.Sequential(nn.Linear(3, 1))\n\n\n"
    source += f"def run(a0):\n{lines}    return model(a7)\n\n\nprint(run(torch.ones(2, 3)))\n"
    conversion = convert(parse("x.py", source))
    assert [found.message for found in conversion.report.diagnostics if found.code == "MIG402"] == [
        "the example would be too long: what it is made of is used many times over"
    ]
    assert len(conversion.text) < 3_000


NET = """import torch
import torch.nn as nn
from torch.utils.data import DataLoader


class Block(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(before, after, 3), nn.BatchNorm2d(after))

    def forward(self, x):
        return self.layers(x)


class Net(nn.Module):
    def __init__(self, channels, width=8):
        super().__init__()
        self.first = Block(2 * channels, width)
        self.second = {second}

    def forward(self, x):
        return self.second(self.first(x))


def train(model, images):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in DataLoader(images + 1, 4):
        optimizer.zero_grad()
        loss = model(x).sum()
        loss.backward()
        optimizer.step()


model = Net(1 + 1)
model.load_state_dict(torch.load("net.pt"))
train(model, torch.ones(8, 4, 9, 9))
"""


def test_a_model_of_convolutions_alone_tells_its_example() -> None:
    conversion = convert(parse("x.py", NET.format(second="nn.Conv2d(width, 1, 1)")))
    assert "model.init(subkey, jnp.zeros((1, 2 * (1 + 1), 64, 64)))" in conversion.text


def test_so_does_one_that_is_never_called() -> None:
    source = NET.format(second="nn.Conv2d(width, 1, 1)").replace("train(model, torch.ones(8, 4, 9, 9))\n", "")
    conversion = convert(parse("x.py", source))
    assert "model.init(subkey, jnp.zeros((1, 2 * (1 + 1), 64, 64)))" in conversion.text


def test_a_layer_that_goes_by_the_size_of_the_image_does_not() -> None:
    conversion = convert(parse("x.py", NET.format(second="nn.Sequential(nn.Flatten(), nn.Linear(8 * 7 * 7, 1))")))
    assert "jnp.zeros((1" not in conversion.text


def test_a_name_gives_way_to_an_expression_in_parentheses() -> None:
    """The example of a model that a function is given, in terms of the function's caller."""
    source = """import torch
import torch.nn as nn


def run(model, n):
    return model(torch.zeros(n * 2, 3))


model = nn.Linear(3, 1)
print(run(model, 1 + 2))
"""
    assert "model.init(subkey, jnp.zeros(((1 + 2) * 2, 3)))" in convert(parse("x.py", source)).text


def test_one_that_joins_its_inputs_tells_them_by_what_its_first_layer_adds_up() -> None:
    source = """import copy
import torch
import torch.nn as nn


class Critic(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.l1 = nn.Linear(states + actions, 8)
        self.l2 = nn.Linear(8, 1)

    def forward(self, state, action):
        sa = torch.cat([state, action], 1)
        return self.l2(torch.relu(self.l1(sa)))


def run(states, actions, sample):
    critic = Critic(states, actions)
    target = copy.deepcopy(critic)
    return target(*sample())
"""
    own = 'critic.init(key, jnp.zeros((1, states)), jnp.zeros((1, actions)))["params"]'
    conversion = convert(parse("x.py", source))
    assert not conversion.report.diagnostics
    assert own in conversion.text
    joined_later = source.replace("nn.Linear(states + actions, 8)", "nn.Linear(states, 8)")
    joined_later = joined_later.replace("nn.Linear(8, 1)", "nn.Linear(8 + actions, 1)")
    joined_later = joined_later.replace("sa = torch.cat([state, action], 1)", "q = torch.relu(self.l1(state))")
    joined_later = joined_later.replace("torch.relu(self.l1(sa))", "torch.cat([q, action], 1)")
    for one in (joined_later, joined_later.replace("8 + actions", "actions + 8").replace("[q, action]", "[action, q]")):
        conversion = convert(parse("x.py", one))
        assert not conversion.report.diagnostics
        assert own in conversion.text
    other = convert(parse("x.py", joined_later.replace("8 + actions", "9 + actions")))
    assert {found.code for found in other.report.diagnostics} == {"MIG402"}  # it is not known what has how many


OWN = """import torch
import torch.nn as nn


class Policy(nn.Module):
    def __init__(self, features, actions):
        super().__init__()
        self.mean = nn.Linear(features, actions)
        self.log_std = nn.Parameter(torch.zeros(1, actions))

    def forward(self, x):
        return self.mean(x), self.log_std.exp()


states = []
policy = Policy(4, 2)
for i in range(3):
    states.append(torch.ones(4) * i)
mean, std = policy(torch.stack(states))
print(mean.shape, std)
"""


def test_vectors_of_its_own_go_with_any_batch_of_features(capsys: pytest.CaptureFixture[str]) -> None:
    """An input that is stacked from a list is not at hand where the model is made."""
    names = rewritten.executed(rewritten.clean(OWN).text)
    assert names["params"]["log_std"].shape == (1, 2) and names["params"]["mean"]["kernel"].shape == (4, 2)
    assert "(3, 2)" in capsys.readouterr().out


def test_what_goes_with_one_length_alone_is_no_vector() -> None:
    source = OWN.replace("torch.zeros(1, actions)", "torch.zeros(1, 3, features)").replace(
        "self.mean(x)", "self.mean(x + self.log_std)"
    )
    report = convert(parse("x.py", source)).report
    assert any("is empty yet" in found.message for found in report.diagnostics)


TWO = """import torch
import torch.nn as nn


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        return self.fc(x)


class Inner(Outer):
    pass


x = torch.ones(4, 3)
outer = Outer()
inner = Inner()
optimizer = torch.optim.SGD([*outer.parameters(), *inner.parameters()], lr=0.1)
loss = {forward}.sum()
loss.backward()
optimizer.step()
"""


def test_a_model_waits_for_the_one_whose_output_it_is_given() -> None:
    conversion = convert(parse("x.py", TWO.format(forward="outer(inner(x))")))
    assert not conversion.report.diagnostics
    assert conversion.text.index("inner.init(") < conversion.text.index("outer.init(")


def test_a_model_takes_what_another_one_takes_that_is_made_alike() -> None:
    conversion = convert(parse("x.py", TWO.format(forward="outer(inner(x))").replace("inner = Inner", "inner = Outer")))
    assert not conversion.report.diagnostics
    assert "outer.init(subkey, x)" in conversion.text and "inner.init(subkey, x)" in conversion.text


def test_models_of_one_class_are_told_apart_by_their_order() -> None:
    """Where they are made by other expressions, what each takes may differ."""
    source = TWO.format(forward="outer(inner(x))").replace("inner = Inner()", "inner = Outer(*())")
    (found,) = convert(parse("x.py", source)).report.diagnostics
    assert found.code == "MIG402" and "make inner before outer" in found.message


DRAWING = """import random

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Pairs(Dataset):
    def __getitem__(self, index):
        return torch.full((3,), float(index)), torch.full((3,), float(random.randrange(8)))

    def __len__(self):
        return 8


random.seed(0)
loader = DataLoader(Pairs(), batch_size=4)
model = nn.Linear(3, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
seen = []
for a, b in loader:
    seen += b[:, 0].tolist()
    loss = (model(a) - b).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""


def test_an_example_of_data_that_python_draws_changes_no_draw() -> None:
    theirs, ours = rewritten.both(DRAWING)
    assert ours["seen"] == theirs["seen"]


BACKWARDS = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, t):
        return self.layer(x) * t[:, None]


torch.manual_seed(0)
model = Net()
with torch.no_grad():
    model.layer.weight.fill_(0.1)
    model.layer.bias.fill_(0.2)


def sample(steps):
    x = torch.ones(2, 3)
    with torch.no_grad():
        for i in reversed(range({start}steps)):
            x = model(x, torch.ones(2) * (i + 1))
    return x


print(sample(4).sum().item())
"""


@pytest.mark.parametrize("start", ["", "1, "])
def test_a_loop_that_counts_backwards_tells_its_first_number(start: str, capsys: pytest.CaptureFixture[str]) -> None:
    source = BACKWARDS.format(start=start)
    rewritten.executed(source)
    theirs = float(capsys.readouterr().out)
    rewritten.executed(rewritten.clean(source).text)
    assert float(capsys.readouterr().out) == pytest.approx(theirs, rel=1e-6)


LOGGED = """import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Logger:
    def log_every(self, iterable, freq, header=None):
        for obj in iterable:
            YIELD


def run(model, loader, optimizer):
    logger = Logger()
    for step, (x, y) in enumerate(logger.log_every(loader, 2, "train")):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


loader = DataLoader(TensorDataset(torch.randn(16, 4), torch.randn(16, 2)), batch_size=4, shuffle=True)
model = nn.Linear(4, 2)
run(model, loader, torch.optim.SGD(model.parameters(), lr=0.1))
"""
OF_THE_LOADER = "loader.collate_fn([loader.dataset[0]])"


def test_a_generator_that_hands_on_a_loader_draws_no_batch() -> None:
    made = rewritten.clean(
        LOGGED.replace("YIELD", "print(header)\n            yield obj\n            print(freq)")
    ).text
    assert f"example = {OF_THE_LOADER}\n" in made and "next(" not in made


OTHERS = ["yield obj[1], obj[0]", "if freq:\n                yield obj", "yield obj\n            yield obj"]


@pytest.mark.parametrize("given", OTHERS)
def test_one_that_does_more_is_asked_itself(given: str) -> None:
    made = rewritten.conversion(LOGGED.replace("YIELD", given)).text
    assert OF_THE_LOADER not in made and 'log_every(loader, 2, "train")' in made.replace("'", '"')


@pytest.mark.parametrize(
    ("drawn", "made"),
    [
        ("torch.randperm(32)[:8]", "jnp.zeros((1, 4))"),
        ("torch.randperm(32, generator=g)[4:8]", "jnp.zeros((1, 4))"),
        ("torch.randint(0, 32, (8,))", "jnp.zeros((1, 4))"),
        ("torch.randint(high=32, size=(8,))", "jnp.zeros((1, 4))"),
        ("np.random.choice(3, 2)", "jnp.ones((3, 4))[:1]"),
    ],
)
def test_rows_that_are_drawn_are_one_row(drawn: str, made: str) -> None:
    """The model is made before the data are: nothing is drawn for its example, and torch is not asked."""
    source = f"""import numpy as np
import torch
from torch import nn

g = torch.Generator().manual_seed(3)
net = nn.Linear(4, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, z = torch.randn(32, 4), torch.ones(3, 4)
for i in range(5):
    rows = {drawn}
    loss = net({"z" if "np" in drawn else "x"}[rows]).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    text = rewritten.clean(source).text
    assert f"net.init(subkey, {made})" in text and "torch." not in text
    rewritten.executed(text)


OF_METHODS = """import torch
import torch.nn as nn
import torch.nn.functional as F

X, Y = torch.arange(24.0).reshape(8, 3), torch.arange(8) % 2


class Trainer:
    def __init__(self):
        self.net = nn.Linear(3, 2)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def take(self, x, y):
        self.x = x
        self.y = y

    def step(self):
        loss = F.cross_entropy(self.net(self.x), self.y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


trainer = Trainer()
for i in range(0, 8, 4):
    trainer.take(X[i : i + 4], Y[i : i + 4])
    print(trainer.step() > 0)
"""


def test_what_another_method_keeps_is_none_that_the_constructor_has(capsys: pytest.CaptureFixture[str]) -> None:
    text = rewritten.clean(OF_METHODS).text
    assert "self.net.init(subkey, X[:1])" in text
    rewritten.executed(text)
    assert capsys.readouterr().out == "True\nTrue\n"


def test_what_two_methods_keep_is_not_read_before(capsys: pytest.CaptureFixture[str]) -> None:
    other = OF_METHODS.replace("    def step", "    def double(self):\n        self.x = self.x * 2\n\n    def step")
    rewritten.executed(rewritten.clean(other.replace("    print(", "    trainer.double()\n    print(")).text)
    assert capsys.readouterr().out == "True\nTrue\n"
