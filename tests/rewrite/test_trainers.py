"""Training as people arrange it: wrappers for devices, objects without names, batches that models take apart."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten
from tests.conformance.rewritten import clean

HEAD = """import torch
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)

    def training_step(self, batch):
        x, y = batch
        return nn.functional.cross_entropy(self(x), y)


loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.zeros(8, dtype=torch.long)), batch_size=4)
"""


def test_no_model_is_wrapped() -> None:
    made = clean(
        HEAD
        + """model = Net()
if torch.cuda.device_count() > 1:
    model = nn.DataParallel(model)
raw = model.module if isinstance(model, (DDP, nn.DataParallel)) else model
torch.save(model.module.state_dict() if hasattr(model, "module") else model.state_dict(), "net.pt")
print(raw(torch.ones(1, 3)))
"""
    ).text
    assert "raw = model\n" in made
    assert 'Path("net.pt").write_bytes(serialization.to_bytes(params))' in made


def test_objects_get_the_names_that_their_function_has_for_them() -> None:
    made = clean(
        HEAD
        + """
def fit(model, optimizer):
    for batch in loader:
        loss = model.training_step(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def train():
    net = Net()
    fit(net, torch.optim.SGD(net.parameters(), lr=0.1))
    return net


train()
"""
    ).text
    assert "    optimizer = optax.sgd(0.1)\n    opt_state = optimizer.init(params)\n" in made
    assert "    params, opt_state = fit(net, params, optimizer, opt_state)\n    return params, net\n" in made
    assert made.endswith("\nparams, net = train()\n")
    assert "jax.tree.map(jnp.asarray, batch)" in made


def test_a_method_stands_for_the_forward_pass_that_a_class_has_not() -> None:
    made = clean(
        HEAD.replace("def forward(self, x)", "def score(self, x)").replace("self(x)", "self.score(x)")
        + """model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    loss = nn.functional.cross_entropy(model.score(x), y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""
    ).text
    assert 'params = model.init(subkey, jnp.asarray(example[0]), method="score")["params"]' in made
    assert 'model.apply({"params": params}, x, method="score")' in made


def test_two_losses_go_backward_through_draws_of_their_own() -> None:
    made = clean(
        HEAD.replace("self.fc(x)\n\n", "nn.functional.dropout(self.fc(x), training=self.training)\n\n")
        + """model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    one = model(x)
    two = model(x)
    first = nn.functional.cross_entropy(one, y)
    second = nn.functional.cross_entropy(two, y)
    first.backward()
    second.backward()
    optimizer.step()
"""
    ).text
    head, _, tail = made.partition("def second_fn(params):\n")
    assert head.count("model.clone(training=True).apply(") == tail.count("model.clone(training=True).apply(") == 1
    assert "keys[0]}" in head and "keys[1]}" in tail


def test_outputs_kept_without_gradients_are_constants() -> None:
    made = clean(
        HEAD
        + """model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    kept = []
    with torch.no_grad():
        kept.append(model(x))
    loss = nn.functional.cross_entropy(model(x) - kept[0], y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    ).text
    assert "kept.append(eval_step(params, x))" in made
    assert 'cross_entropy(model.apply({"params": params}, x) - kept[0], y)' in made


CHOSEN_LOADER = """import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


def get_loader(n):
    return DataLoader(TensorDataset(torch.ones(n, 4), torch.zeros(n, 2)), batch_size=4)


class Solver:
    def __init__(self, one, other, which):
        self.one, self.other, self.which = one, other, which
        self.net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        self.opt = torch.optim.SGD(self.net.parameters(), 0.1)

    def train(self, steps):
        if self.which == "one":
            loader = self.one
        elif self.which == "other":
            loader = self.other
        batches = iter(loader)
        for i in range(steps):
            x, y = next(batches)
            x, y = x.to("cpu"), y.to("cpu")
            loss = (self.net(x) - y).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()


which = "one"
one = other = None
if which in ["one", "both"]:
    one = get_loader(12)
if which in ["other", "both"]:
    other = get_loader(8)
told = Solver(one, other, which).train(3)
"""


def test_a_loader_that_may_be_none() -> None:
    """It is one where batches are taken of it; which one is not known where the weights are made."""
    made = rewritten.clean(CHOSEN_LOADER)
    assert "self.net.init(subkey, jnp.zeros((1, 4)))" in made.text
    assert rewritten.executed(made.text)["told"] > 0


FITTING = """class Trainer:
    def prepare(self, data):
        self.batches, self.others = data

    def fit(self, model, data):
        self.prepare(data)
        self.model = model
        self.optim = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            self.fit_epoch()

    def fit_epoch(self):
        for batch in self.batches:
            loss = self.model.training_step(batch)
            self.optim.zero_grad()
            with torch.no_grad():
                loss.backward()
                self.optim.step()
                print(loss.item())


model = Net()
trainer = Trainer()
trainer.fit(model, (loader, None))
print(sum(p.numel() for p in model.parameters()))
"""


def test_a_trainer_is_given_model_and_data_when_it_fits() -> None:
    made = clean(HEAD + FITTING).text
    assert "trainer.fit(model, params, (loader, None))" in made
    assert made.endswith("print(sum(p.size for p in jax.tree.leaves(trainer.params)))\n")
    assert made.count('method="training_step"') == 1  # in the loss alone


def test_what_a_model_is_called_with_is_followed_through_a_trainer() -> None:
    made = clean(HEAD.replace("nn.Linear(3, 2)", "nn.LazyLinear(2)") + FITTING).text
    assert "example = loader.collate_fn([loader.dataset[0]])" in made
    assert 'model.init(subkey, jax.tree.map(jnp.asarray, example), method="training_step")' in made


CLIPPED = FITTING.replace(
    "                self.optim.step()\n",
    """                self.clip_gradients(0.5, self.model)
                self.optim.step()
""",
).replace(
    "    def fit_epoch",
    """    def clip_gradients(self, limit, model):
        norm = torch.sqrt(sum(torch.sum(p.grad ** 2) for p in model.parameters()))
        if norm > limit:
            for param in model.parameters():
                param.grad[:] *= limit / norm

    def fit_epoch""",
)


HANDED_ON = CLIPPED.replace("        self.model = model\n", "        self.prepare_model(model)\n").replace(
    "    def fit_epoch", "    def prepare_model(self, model):\n        self.model = model\n\n    def fit_epoch"
)


@pytest.mark.parametrize("text", [CLIPPED, HANDED_ON])
def test_gradients_that_a_method_clips_are_kept_on_the_trainer(text: str) -> None:
    made = clean(HEAD + text).text
    assert "self.grads = jax.tree.map(jnp.zeros_like, params)" in made
    assert "trainer.fit(model, params, (loader, None))\n" in made
    rewritten.executed(made)


BASE = """import torch
import torch.nn as nn


class Own:
    def __init__(self, params):
        self.params = list(params)


class Task(nn.Module):
    def configure(self):
        return Own(self.parameters())


class Net(Task):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


model = Net()
print(model(torch.ones(1, 3)).shape)
print(len(model.configure().params))
"""


def test_weights_that_only_subclasses_have_are_no_empty_list() -> None:
    """They were, in silence."""
    found = rewritten.conversion(BASE).report.diagnostics
    assert any("Task, which only classes that inherit from it give weights" in one.message for one in found)
