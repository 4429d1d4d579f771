"""What a step in a function takes beside weights and arrays: settings, dicts, batches, objects that are called. Weights
start as constants, so that both frameworks train the same."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten

HEAD = """import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.fc = nn.Linear(3, args.width)
        self.unused = nn.BatchNorm1d(args.width)
        self.drop = nn.Dropout(0.0)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, -0.1)

    def forward(self, x):
        return self.drop(self.fc(x)) * self.args.scale


class Distance:
    def __init__(self, power):
        self.power = power

    def __call__(self, a, b):
        return ((a - b).abs().clamp(max=3) ** self.power).mean(1).sum()


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, i):
        return {"x": torch.full((3,), i / 6), "y": torch.full((2,), 1.0 - i)}


def weighed(net, batch, weights):
    return weights["first"] * F.mse_loss(net(batch["x"]), batch["y"])


WEIGHT_OF, TERMS = {"first": 0.7, "second": 0.2}, ("first", "second")
losses = []
x, y = torch.linspace(-2, 3, 12).reshape(4, 3), torch.linspace(0, 5, 8).reshape(4, 2)
"""
MAIN = """

def main(args):
    net = Net(args)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    weighted = nn.NLLLoss(torch.tensor([1.0, 2.0]), ignore_index=5)
    distance, factors, named = Distance(2), {{"first": 0.7}}, {{"first": 0.7, "name": "run"}}
    for batch in {batches}:
        {before}
        for turn in range(2):
            optimizer.zero_grad()
            loss = {loss}
            loss.backward()
            optimizer.step()
            losses.append(loss.item())


main(argparse.Namespace(width=2, scale=0.5))
"""
FLOAT32 = 1e-6  # the type of a loader's batches and of `linspace`
LOADER = "torch.utils.data.DataLoader(Rows(), batch_size=2)"
DICT = "a dict of arrays"
FORMS = {
    "settings that have no hash": ("range(3)", "F.mse_loss(net(x), y)"),
    "constants looked up one by one": (
        "range(3)",
        "F.mse_loss(net(x), y) * torch.tensor([WEIGHT_OF[name] for name in TERMS]).sum()",
    ),
    "an object that is called": ("range(3)", "distance(net(x), y)"),
    "a batch of torch's that is a dict": (LOADER, "weighed(net, batch, factors)"),
    "a number that a test reads": ("range(3)", "F.mse_loss(net(x), y) * 2 if turn > 0 else F.mse_loss(net(x), y)"),
    "a loss with weights of classes": (
        "range(3)",
        "weighted(F.log_softmax(net(x), dim=1), torch.tensor([0, 1, 1, 0]))",
    ),
    DICT: (LOADER, "F.mse_loss(net(batch['x']), batch['y'])"),
}


@pytest.mark.parametrize("name", FORMS)
def test_equal_losses(name: str, float64: None) -> None:
    batches, loss = FORMS[name]
    before = "batch = {k: v.to('cpu') for k, v in batch.items()}" if name == DICT else ""
    text = HEAD + MAIN.format(batches=batches, before=before, loss=loss)
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)
    assert len(set(theirs["losses"])) > 1


HELD = """
class Keeper:
    def __init__(self, net):
        self.net = net

    def halve(self):
        for p in self.net.parameters():
            p.data = p.data / 2


net = Net(argparse.Namespace(width=2, scale=0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
keeper = Keeper(net)
for step in range(4):
    optimizer.zero_grad()
    loss = F.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
    keeper.halve()
    losses.append(loss.item())
"""


def test_weights_that_an_object_holds(float64: None) -> None:
    """A step reads them from the object, and leaves them there."""
    theirs, ours = rewritten.both(HEAD + HELD)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


FOLDS = """
data = torch.utils.data.TensorDataset(x, y)
for fold in range(2):
    net = Net(argparse.Namespace(width=2, scale=0.5))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for a, b in torch.utils.data.DataLoader(data, batch_size=2):
        optimizer.zero_grad()
        loss = F.mse_loss(net(a), b)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def test_a_model_in_each_turn(float64: None) -> None:
    """Its example is not what a later statement of the turn before has bound."""
    theirs, ours = rewritten.both(HEAD + FOLDS)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


MIXED = """

def mixed(a, b):
    index = torch.randperm(a.size()[0]) * 0 + torch.arange(a.size()[0]).flip(0)
    return 0.3 * a + 0.7 * a[index, :], b[index], b


data = torch.utils.data.TensorDataset(x, y)
net = Net(argparse.Namespace(width=2, scale=0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
hits = 0
for a, b in torch.utils.data.DataLoader(data, batch_size=2):
    a, first, second = mixed(a, b)
    out = net(a)
    loss = 0.4 * F.mse_loss(out, first) + 0.6 * F.mse_loss(out, second)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    hits += (out.data < second.data).sum().item() + (out.data < first.data).sum().item()
    losses.append(loss.item())
"""


def test_a_batch_in_an_order_that_is_drawn(float64: None) -> None:
    """A tensor of torch's takes no index of JAX's, and is compared with no array."""
    theirs, ours = rewritten.both(HEAD + MIXED)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)
    assert ours["hits"] == theirs["hits"] > 0


STORED = """

net = Net(argparse.Namespace(width=2, scale=0.5))
store = torch.zeros(6, 3)
with torch.no_grad():
    for i in range(6):
        store[i] = torch.ones(3) * i / 6
    store[0] = net(x[:1]).sum()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for a, b in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(store, torch.zeros(6, 2)), batch_size=2):
    loss = F.mse_loss(net(a), b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


def test_data_that_are_set_after_they_were_made(float64: None) -> None:
    """What feeds a loader is torch's, and so is what it is set to."""
    made = rewritten.clean(HEAD + STORED).text
    assert "store[i] = torch.ones(3) * i / 6" in made
    theirs, ours = rewritten.executed(HEAD + STORED), rewritten.executed(made)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


ENDLESS = """

class Endless:
    def __init__(self, data):
        self.loader = torch.utils.data.DataLoader(data, batch_size=2)
        self.batches = iter(self.loader)

    def next(self):
        try:
            batch = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        return batch


endless = Endless(torch.utils.data.TensorDataset(x, y))
device = argparse.Namespace(name="cpu")
net = {net}
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(5):
    a, b = [t.to(device.name) for t in endless.next()]
    loss = F.mse_loss(net(a), b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
ITERATORS = """

def numbers():
    for number in range(20):
        yield torch.full((2, 3), number / 10)


batches = iter(torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=1))
numbered = numbers()
net = Net(argparse.Namespace(width=2, scale=0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(4):
    a, b = next(batches)
    loss = F.mse_loss(net(a), b) + net(next(numbered)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


def test_batches_of_an_iterator_that_an_object_holds(float64: None) -> None:
    """What a method puts in the place of an attribute is told by what is put there, not by what is not known yet. The
    example of `init` is no batch of it."""
    text = HEAD + ENDLESS.format(net="nn.Sequential(nn.Linear(3, 2))\nnn.init.constant_(net[0].weight, 0.2)")
    made = convert(parse("x.py", text))
    assert "endless.next()" not in made.text.split(".init(")[1].split("\n")[0]


def test_an_example_that_training_would_miss_is_refused() -> None:
    text = HEAD + ENDLESS.format(net="Net(argparse.Namespace(width=2, scale=0.5))")
    told = convert(parse("x.py", text)).report.as_text()
    assert "an example for net would take from endless what training then misses" in told


def test_batches_of_iterators(float64: None) -> None:
    """The example of `init` takes none of them, and a step is given a new one each time."""
    theirs, ours = rewritten.both(HEAD + ITERATORS)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


def stale(before: str, read: str, later: str) -> str:
    """A loss function that reads what the loop changes."""
    return (
        HEAD
        + f"{before}\n\n\ndef criterion(out):\n    return {read} * out.mean()\n\n\n"
        + "net = Net(argparse.Namespace(width=2, scale=0.5))\noptimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        + "for i in range(3):\n    optimizer.zero_grad()\n    loss = criterion(net(x))\n    loss.backward()\n"
        + f"    optimizer.step()\n    losses.append(loss.item())\n    {later}\n"
    )


READ = {
    "a number that is bound again": stale("beta = 0.5", "beta", "beta = i"),
    "a number that a function changes": stale(
        "def grow():\n    global beta\n    beta += 1\n\n\nbeta = 0.5", "beta", "grow()"
    ),
    "an item of a dict": stale("state = {'beta': 0.5}", "state['beta']", "state['beta'] += 1"),
    "an attribute": stale("class C:\n    beta = 1.0\n\n\nc = C()", "c.beta", "c.beta *= 2"),
    "an array in place": stale("queue = torch.zeros(4)", "queue.sum()", "queue[i] = 1.0"),
}


@pytest.mark.parametrize("name", READ)
def test_what_a_loss_reads_is_given_to_it(name: str, float64: None) -> None:
    """The loss function takes it as an argument: jit would keep its first value."""
    theirs, ours = rewritten.both(READ[name])
    assert len(set(theirs["losses"])) == 3
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


KEPT = "jit keeps its first value"
TELLING = stale("import tracker\n\nboard = tracker.Board()", "(1.0 + CALLED)", "pass")
REFUSED = {
    "a function of another package": (
        TELLING.replace("CALLED", "tracker.log(out, 0)"),
        "tracker.log of tracker, which is given",
    ),
    "an object of another package": (
        TELLING.replace("CALLED", "board.log(out, 0)"),
        "board.log of tracker, which is given",
    ),
    "a list that grows": (stale("seen = [1.0]", "seen[-1]", "seen.append(loss.item())"), KEPT),
    "a part in eval mode": (
        HEAD.replace(
            "        nn.init.constant_(self.fc.bias",
            "        self.drop.eval()\n        nn.init.constant_(self.fc.bias",
        )
        + "\n\nnet = Net(argparse.Namespace(width=2, scale=0.5))\nnet.train()\n",
        "a part of a Flax module has the mode",
    ),
    "a mode of its own": (
        HEAD.replace(
            "    def forward", "    def train(self, mode=True):\n        super().train(False)\n\n    def forward"
        ),
        "Net.train() is its own",
    ),
    "a frozen part": (
        HEAD.replace("nn.Linear(3, args.width)", "nn.Linear(3, args.width).requires_grad_(False)"),
        "freeze it where the model is made",
    ),
    "data that are set": (HEAD + "for a in [x]:\n    a.data = y\n", "an array of JAX's never changes"),
    "a dict of names": (
        HEAD + MAIN.format(batches="range(3)", before="", loss="distance(net(x), y) * named['first']"),
        "a dict of more than arrays",
    ),
    "an object that counts": (
        HEAD.replace("        return ((a - b)", "        self.power += 1\n        return ((a - b)")
        + MAIN.format(batches="range(3)", before="", loss="distance(net(x), y)"),
        "which changes in training",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    """Each would be left out, or fail as it runs."""
    text, said = REFUSED[name]
    assert said in convert(parse("train.py", text)).report.as_text()


MOVED = """

net = Net(argparse.Namespace(width=2, scale=0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
use_cuda = torch.cuda.is_available()
for batch in torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=1):
    a, b = batch
    a = a.view(a.size(0), -1)
    MOVES
    loss = F.mse_loss(net(a), b)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
MOVES = {
    "one by one": "if use_cuda:\n        a = a.cuda()\n        b = b.cuda(non_blocking=True)",
    "at once": "if torch.cuda.is_available():\n        a, b = torch.autograd.Variable(a).cuda(), b.cuda()",
    "on both sides": "if use_cuda:\n        a = torch.autograd.Variable(a.cuda())\n    else:\n"
    "        a = torch.autograd.Variable(a)",
    "in an expression": "a = a.cuda() if use_cuda else a",
    "beside something else": "if len(losses) > 1:\n        a = 2 * a.to('cuda' if use_cuda else 'cpu')\n"
    "        print(len(losses))",
}


@pytest.mark.parametrize("moves", MOVES)
def test_batches_that_some_machines_move(moves: str, float64: None) -> None:
    """They are arrays on every machine."""
    text = HEAD + MOVED.replace("MOVES", MOVES[moves])
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


STARRED = """

def pair(net, x):
    return net(x), net(2 * x)


net = Net(argparse.Namespace(width=2, scale=0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(3):
    both = net(x), y
    loss = F.mse_loss(*both, reduction="sum") + F.mse_loss(*pair(net, x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item() + F.l1_loss(*pair(net, x)).item())
"""


def test_a_pair_as_two_arguments(float64: None) -> None:
    theirs, ours = rewritten.both(HEAD + STARRED)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


GIVEN = """
class Judge(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, -0.1)

    {methods}


def train(given):
    net = Judge()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for step in range(3):
        loss = {loss}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


train(argparse.Namespace({settings}))
"""
# the methods of a model, the loss, and the object that the loss has an argument of
GIVEN_TO_MODELS = {
    "a number that a size is made of, through two methods: jit has to know it": (
        """def shortened(self, x, ratio):
        kept = int(x.shape[0] * (1 - ratio))
        return x[:kept]

    def forward(self, x, ratio=0.5):
        return self.fc(self.shortened(x, ratio)).pow(2).mean()""",
        "net(x, ratio=given.ratio)",
        "ratio=0.25",
    ),
    "an array, beside a test for None: no setting": (
        """def value(self, x, action=None):
        out = self.fc(x)
        if action is None:
            action = out.argmax(1)
        return torch.gather(out, 1, torch.reshape(action, (-1, 1))).sum()

    def forward(self, x):
        return self.value(x)""",
        "net.value(given.rows)",
        "rows=x",
    ),
}


@pytest.mark.parametrize("form", GIVEN_TO_MODELS)
def test_what_a_model_is_given_of_an_object(form: str, float64: None) -> None:
    methods, loss, settings = GIVEN_TO_MODELS[form]
    theirs, ours = rewritten.both(HEAD + GIVEN.format(methods=methods, loss=loss, settings=settings))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)


SIZED = """import torch
import torch.nn as nn


class Batch:
    def __init__(self):
        self.observations, self.rewards = torch.arange(6.0).reshape(2, 3), torch.ones(2, 1)


class Memory:
    def sample(self):
        return Batch()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        nn.init.constant_(self.fc.weight, 0.3)
        nn.init.constant_(self.fc.bias, -0.1)

    def values(self, x, action=None):
        return self.fc(x)


net, target, memory = Net(), Net(), Memory()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
losses = []
for step in range(3):
    if step > -1:
        data = memory.sample()
        with torch.no_grad():
            following = target.values(data.observations)
            places = (data.rewards * following).floor().clamp(0, 3)
            told = torch.zeros_like(following)
            for i in range(told.size(0)):
                told[i].index_add_(0, places[i].long(), following[i])
        loss = (net.values(data.observations) - told).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""


def test_sizes_of_arrays_are_no_values_of_numbers() -> None:
    made = rewritten.clean(SIZED)
    assert "static_argnames" not in made.text
    theirs, ours = rewritten.both(SIZED)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


FED_BACK = """

net = Net(argparse.Namespace(width=3, scale=0.5))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for step in range(4):
    optimizer.zero_grad()
    loss = 0
    given = torch.full((1, 3), 1.0 + step)
    for row in x:
        loss = loss + F.mse_loss(net(given), row[None])
        given = row[None] * 2
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


def test_what_the_first_turn_of_a_loss_is_given(float64: None) -> None:
    """It is made within the lines of the step, by none of its weights, and bound again by the turns of the loss."""
    theirs, ours = rewritten.both(HEAD + FED_BACK)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=FLOAT32)
