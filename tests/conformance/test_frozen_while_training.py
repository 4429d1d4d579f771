"""Weights that a script freezes, or frees, as settings and branches tell, and in the middle of its training."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from migrate.lowering.optimizers.labels import negated
from tests.conformance import rewritten

HEAD = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 3), nn.Tanh())
        self.head = nn.Linear(3, 2)
        nn.init.constant_(self.body[0].weight, 0.3)
        nn.init.constant_(self.body[0].bias, 0.2)
        nn.init.constant_(self.body[2].weight, 0.1)
        nn.init.constant_(self.body[2].bias, 0.0)
        nn.init.constant_(self.head.weight, 0.3)
        nn.init.constant_(self.head.bias, 0.2)

    def forward(self, x):
        return self.head(self.body(x))
"""
DATA = """

x = torch.sin(torch.arange(32.0)).reshape(8, 4)
y = x[:, :2] * 2
losses = []
freezing = True
"""
MODEL = HEAD + DATA + "model = Net()\n"
STEP = """for epoch in range(6):
    MEANWHILE
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
LOOP = STEP.replace("    MEANWHILE\n", "")
OFF = "for p in model.body.parameters():\n    p.requires_grad = False\n"
ON = OFF.replace("False", "True")


def indented(text: str, by: int = 4) -> str:
    return "".join(" " * by + line for line in text.splitlines(keepends=True)).strip()


def meanwhile(text: str) -> str:
    return STEP.replace("MEANWHILE", indented(text))


SGD = "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)\n"
ADAM = "optimizer = torch.optim.Adam(model.parameters(), lr=0.1)\n"
HALF_WAY = "if epoch == 3:\n"
FORMS = {
    # a setting tells
    "under a setting": f"if freezing:\n    {indented(OFF)}\n" + SGD + LOOP,
    "under a setting that is off": f"freezing = False\nif freezing:\n    {indented(OFF)}\n" + SGD + LOOP,
    "by a flag": "for p in model.body.parameters():\n    p.requires_grad = not freezing\n" + SGD + LOOP,
    "by a flag of a module": "model.body.requires_grad_(not freezing)\n" + ADAM + LOOP,
    "what is left of it, filtered": f"if freezing:\n    {indented(OFF)}\n"
    "optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1)\n" + LOOP,
    "what is left of it, sorted and shown": f"""if freezing:
    {indented(OFF)}
trained = model.parameters()
if freezing:
    trained = []
    for name, p in model.named_parameters():
        if p.requires_grad == True:
            trained.append(p)
            print("trained")
optimizer = torch.optim.SGD(trained, lr=0.1, momentum=0.9)
"""
    + LOOP,
    # in the middle of training
    "freed by the same optimizer": OFF + ADAM + meanwhile(HALF_WAY + "    " + indented(ON)),
    "frozen in the middle": SGD + meanwhile(HALF_WAY + "    " + indented(OFF)),
    "frozen and freed": ADAM + meanwhile(f"if epoch == 2:\n    {indented(OFF)}\nif epoch == 4:\n    {indented(ON)}"),
    "freed layer by layer": "model.requires_grad_(False)\nmodel.head.requires_grad_(True)\n"
    + SGD
    + meanwhile(
        "if epoch == 2:\n    model.body[2].requires_grad_(True)\nif epoch == 4:\n    model.body.requires_grad_(True)"
    ),
    "two phases, one optimizer": OFF + SGD + LOOP + ON + LOOP,
    "two phases, two optimizers": OFF + SGD + LOOP + ON + ADAM + LOOP,
    "two phases, those filtered": OFF
    + "optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.1)\n"
    + LOOP
    + ON
    + ADAM
    + LOOP,
    "another optimizer in a branch": OFF
    + ADAM.replace("model.par", "model.head.par")
    + meanwhile(HALF_WAY + "    " + indented(ON) + "\n    " + SGD),
    "in a function": OFF
    + ADAM
    + """

def fit(model, optimizer, epochs):
    for epoch in range(epochs):
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())


fit(model, optimizer, 3)
"""
    + ON
    + "fit(model, optimizer, 3)\n",
    "gradients that add up": OFF
    + SGD
    + meanwhile(HALF_WAY + "    " + indented(ON))
    .replace("    optimizer.zero_grad()\n", "")
    .replace("    optimizer.step()\n", "    if epoch % 2:\n        optimizer.step()\n        optimizer.zero_grad()\n"),
    "with a schedule": OFF
    + SGD
    + "scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)\n"
    + meanwhile(HALF_WAY + "    " + indented(ON)).replace("step()\n", "step()\n    scheduler.step()\n"),
    "in groups with rates of their own": OFF
    + """optimizer = torch.optim.SGD(
    [{"params": model.body.parameters(), "lr": 0.05}, {"params": model.head.parameters()}], lr=0.1, momentum=0.9
)
for epoch in range(6):
    if epoch == 3:
        model.body.requires_grad_(True)
    if epoch == 4:
        optimizer.param_groups[0]["lr"] = 0.02
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
""",
    "made and frozen by a function": """def build():
    model = Net()
    for p in model.body.parameters():
        p.requires_grad = False
    return model


model = build()
"""
    + ADAM
    + meanwhile(HALF_WAY + "    " + indented(ON)),
    "in a trainer": """class Trainer:
    def __init__(self, model):
        self.model = model
        for p in self.model.body.parameters():
            p.requires_grad = False
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.1)

    def free(self):
        for p in self.model.body.parameters():
            p.requires_grad = True

    def fit(self, epochs):
        for epoch in range(epochs):
            if epoch == 3:
                self.free()
            self.optimizer.zero_grad()
            loss = ((self.model(x) - y) ** 2).mean()
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())


trainer = Trainer(model)
trainer.fit(6)
""",
    "in a trainer, with gradients that add up": """class Trainer:
    def __init__(self, model):
        self.model = model
        for p in self.model.body.parameters():
            p.requires_grad = False
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def fit(self, epochs):
        for epoch in range(epochs):
            if epoch == 3:
                self.model.body.requires_grad_(True)
            loss = ((self.model(x) - y) ** 2).mean()
            loss.backward()
            losses.append(loss.item())
            if epoch % 2:
                nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
                self.optimizer.step()
                self.optimizer.zero_grad()


trainer = Trainer(model)
trainer.fit(8)
""",
    "by methods of the model": """class Freezing(Net):
    def freeze(self):
        for p in self.body.parameters():
            p.requires_grad = False

    def free(self):
        for p in self.body.parameters():
            p.requires_grad = True


model = Freezing()
model.freeze()
"""
    + ADAM
    + meanwhile(HALF_WAY + "    model.free()"),
    # gradients and counts
    "clipped": OFF
    + SGD
    + LOOP.replace("    optimizer.step", "    nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n    optimizer.step"),
    "clipped as it is freed": OFF
    + SGD
    + meanwhile(HALF_WAY + "    " + indented(ON)).replace(
        "    optimizer.step",
        "    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n"
        "    losses.append(norm.item())\n    optimizer.step",
    ),
    "clipped, what requires gradients": OFF
    + SGD
    + LOOP.replace(
        "    optimizer.step",
        "    nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 0.1)\n    optimizer.step",
    ),
    "clipped, a bias alone frozen": "model.body[0].bias.requires_grad = False\n"
    + SGD
    + LOOP.replace("    optimizer.step", "    nn.utils.clip_grad_norm_(model.parameters(), 0.1)\n    optimizer.step"),
    "counted": OFF
    + "losses.append(sum(p.numel() for p in model.parameters() if p.requires_grad))\n"
    + "losses.append(sum(p.numel() for p in model.parameters()))\n"
    + SGD
    + LOOP,
    "counted under a setting": f"if freezing:\n    {indented(OFF)}\n"
    + "losses.append(sum(p.numel() for p in model.parameters() if p.requires_grad))\n"
    + SGD
    + LOOP,
    "counted one by one": OFF
    + """trained, frozen = 0, 0
for name, p in model.named_parameters():
    if p.requires_grad:
        trained += p.numel()
    if not p.requires_grad:
        frozen += p.numel()
losses += [trained, frozen]
"""
    + SGD
    + LOOP,
    # which they are
    "modules counted": """ct = 0
for child in model.children():
    ct += 1
    if ct < 2:
        for p in child.parameters():
            p.requires_grad = False
"""
    + SGD
    + LOOP,
    "modules by name": """for name, child in model.named_children():
    if name in ["head"]:
        for p in child.parameters():
            p.requires_grad = True
    else:
        child.requires_grad_(False)
"""
    + SGD
    + LOOP,
    "some of a row": "for layer in model.body[:2]:\n    for p in layer.parameters():\n        p.requires_grad_(False)\n"
    + SGD
    + LOOP,
    "the last but some": "for layer in list(model.body.children())[:-2]:\n    layer.requires_grad_(False)\n"
    + SGD
    + LOOP,
    "by class": "for m in model.modules():\n    if isinstance(m, nn.Linear):\n        m.bias.requires_grad = False\n"
    + SGD
    + LOOP,
    "the first weights": "for i, p in enumerate(model.parameters()):\n    if i < 3:\n        p.requires_grad = False\n"
    + SGD
    + LOOP,
    "by the names of parts": 'for name in ["body"]:\n    for p in getattr(model, name).parameters():\n'
    "        p.requires_grad = False\n" + SGD + LOOP,
    "by words": 'words = ["head", "body.2"]\nfor name, p in model.named_parameters():\n'
    "    p.requires_grad = any(name.startswith(word) for word in words)\n" + SGD + LOOP,
}


@pytest.mark.parametrize("name", FORMS)
def test_losses_are_those_of_torch(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    theirs, ours = rewritten.both(MODEL + FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=2e-5)  # float32, over some steps
    printed = capsys.readouterr().out.splitlines()
    assert printed[: len(printed) // 2] == printed[len(printed) // 2 :]
    if "off" not in name and "clipped" not in name:  # it makes a difference
        optimizer = ADAM if "torch.optim.Adam" in FORMS[name] else SGD
        plain = rewritten.executed(MODEL + optimizer + LOOP)["losses"]
        assert theirs["losses"][: len(plain)] != pytest.approx(plain, rel=1e-3)


def test_what_is_known_before_it_trains_is_told_by_the_optimizer_alone() -> None:
    for name in ("two phases, two optimizers", "another optimizer in a branch", "modules counted"):
        assert "frozen=" not in rewritten.clean(MODEL + FORMS[name]).text


def test_a_step_is_told_what_is_frozen() -> None:
    text = rewritten.clean(MODEL + FORMS["freed by the same optimizer"]).text
    assert 'frozen = frozenset({"body"})' in text
    assert "    if epoch == 3:\n        frozen = frozenset()\n" in text
    assert '@jax.jit(static_argnames="frozen", ' in text


CONSTRUCTOR = HEAD.replace("def __init__(self):", "def __init__(self, freeze=False):").replace(
    "\n    def forward", "\n        FREEZE\n\n    def forward"
)
FREEZES = {
    "a branch": "if freeze:\n    for p in self.body.parameters():\n        p.requires_grad = False",
    "a flag": "self.body.requires_grad_(not freeze)",
    "an attribute": "self.freeze = freeze\nif self.freeze:\n    self.body.requires_grad_(False)",
    "a method": "if freeze:\n    self.freeze_body()",
}
METHOD = """
    def freeze_body(self):
        for p in self.body.parameters():
            p.requires_grad = False
"""


@pytest.mark.parametrize("given", ["freeze=True", "", "freezing", "freeze=freezing"])
@pytest.mark.parametrize("how", FREEZES)
def test_a_constructor_freezes_as_its_argument_says(how: str, given: str) -> None:
    head = CONSTRUCTOR.replace("FREEZE", indented(FREEZES[how], 8)) + (METHOD if how == "a method" else "")
    text = head + DATA + f"model = Net({given})\n" + SGD + LOOP
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    plain = rewritten.executed(MODEL + SGD + LOOP)["losses"]
    assert (theirs["losses"] == pytest.approx(plain, rel=1e-3)) == (not given)


def test_what_a_constructor_makes_after_it_has_frozen_the_others_is_trained() -> None:
    """That of all that it has by then is another thing than of all that it has in the end."""
    head = CONSTRUCTOR.replace(
        "        self.head = ", "        if freeze:\n            self.requires_grad_(False)\n        self.head = "
    ).replace("        FREEZE\n\n", "")
    made = rewritten.conversion(head + DATA + "model = Net(freeze=True)\n" + SGD + LOOP)
    assert [found.code for found in made.report.diagnostics] == ["MIG204"]


@pytest.mark.parametrize(
    "optimizer", [SGD, SGD.replace("model.parameters()", "[p for p in model.parameters() if p.requires_grad]")]
)
def test_a_function_makes_a_model_and_freezes_all_but_a_new_head(optimizer: str) -> None:
    text = (
        HEAD
        + """

class Head(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.out = nn.Linear(3, outputs)
        nn.init.constant_(self.out.weight, 0.3)
        nn.init.constant_(self.out.bias, 0.2)

    def forward(self, x):
        return self.out(x)


def build(outputs, freeze):
    model = Net()
    if freeze:
        for p in model.parameters():
            p.requires_grad = False
    model.head = Head(outputs)
    return model

"""
        + DATA
        + "model = build(2, freezing)\n"
        + optimizer
        + LOOP
    )
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    plain = rewritten.executed(MODEL + SGD + LOOP)["losses"]
    assert theirs["losses"] != pytest.approx(plain, rel=1e-3)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (  # an optimizer has what was not frozen when it was made, for good
            f"if freezing:\n    {indented(OFF)}\n"
            "optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)\n"
            + LOOP
            + ON
            + LOOP,
            "after an optimizer was given what was not frozen then",
        ),
        (  # nothing clears the gradients of the body, which grow from step to step
            "optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)\n"
            + LOOP.replace(
                "    optimizer.step", "    nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n    optimizer.step"
            ),
            "gradients of weights that no optimizer has",
        ),
        (
            "for layer in list(model.body.children())[:len(x)]:\n    layer.requires_grad_(False)\n" + SGD + LOOP,
            "MIG301",
        ),
    ],
)
def test_what_is_refused(text: str, said: str) -> None:
    assert said in rewritten.conversion(MODEL + text).report.as_text()


def _unfrozen(update: Any, frozen: tuple[str, ...], state: Any) -> Any:
    import jax.numpy as jnp

    return update({"w": jnp.ones(2)}, state, {"w": jnp.ones(2)}, frozen=frozen)


def test_a_frozen_part_keeps_the_state_of_its_optimizer() -> None:
    import jax
    import jax.numpy as jnp
    import optax

    from migrate.snippets.unless_frozen import unless_frozen

    optimizer = unless_frozen("body", optax.adam(0.1))
    state = optimizer.init({"w": jnp.ones(2)})
    updates, kept = _unfrozen(optimizer.update, ("body",), state)
    assert not updates["w"].any()
    assert jax.tree.all(jax.tree.map(jnp.array_equal, kept, state))
    updates, moved = _unfrozen(optimizer.update, ("head",), state)
    assert updates["w"].all()
    assert not jax.tree.all(jax.tree.map(jnp.array_equal, moved, state))


@pytest.mark.parametrize(
    "test",
    [
        'name in ("a", "b")',
        'name not in ("a", "b")',
        'name == "a"',
        'name != "a"',
        "rank >= 2",
        "rank < 2",
        "given",
        'name in ("a", "c") and given',
        'name == "a" or rank < 2',
        'name.startswith(("a in b", "c"))',
    ],
)
def test_the_opposite_of_a_test_of_names(test: str) -> None:
    opposite = negated(test)
    for name, rank, given in itertools.product(("a", "b", "c", "a in b"), (1, 2), (False, True)):
        told = {"name": name, "rank": rank, "given": given}
        assert bool(eval(opposite, {}, told)) is not bool(eval(test, {}, told)), opposite


TABLE = """import torch
import torch.nn as nn


class Steps(nn.Module):
    def __init__(self, count, depth):
        super().__init__()
        table = torch.stack([torch.sin(torch.arange(4.0) * number) for number in range(count)])
        self.table = nn.Sequential(nn.Embedding.from_pretrained(table), nn.Linear(4, 4))
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.constant_(layer.weight, 0.2)
                nn.init.zeros_(layer.bias)

    def forward(self, t):
        x = self.table(t)
        for block in self.blocks:
            x = torch.relu(block(x))
        return x


def made(depth):
    return Steps(10, depth)


model = made(2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(3):
    optimizer.zero_grad()
    loss = (model(torch.tensor([1, 3])) - 1).pow(2).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    losses.append(loss.item())
"""


def test_a_frozen_table_beside_layers_that_are_counted_as_the_script_runs() -> None:
    theirs, ours = rewritten.both(TABLE)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=2e-5)
    assert '.startswith("table/layers_0/")' in rewritten.clean(TABLE).text
