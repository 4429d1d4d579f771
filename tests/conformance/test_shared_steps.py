"""Steps that a base class has for all models that inherit from it: ten of them in both frameworks."""

from __future__ import annotations

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten
from tests.conformance.test_training_forms import EXACT, HEAD, trained

BASE = """def accuracy(outputs, y):
    near = (outputs - y).abs() < 0.5
    return torch.tensor(torch.sum(near).item() / len(near))


class Base(nn.Module):
    def training_step(self, batch):
        x, y = batch
        out = self(x)
        return F.mse_loss(out, y)

    def validation_step(self, batch):
        x, y = batch
        out = self(x)
        return {"loss": F.mse_loss(out, y).detach(), "near": accuracy(out, y), "top": (out.argmax(1) == 0).float()}

    def validation_epoch_end(self, outputs):
        losses = [one["loss"] for one in outputs]
        near = torch.stack([one["near"] for one in outputs]).mean()
        return {"loss": torch.stack(losses).mean().item(), "near": near.item()}

    def score(self, x):
        return self.scaled(self.weighed(x)).mean()


"""
NET = HEAD.replace("class Net(nn.Module)", BASE + "class Net(Base)")
NET = NET.replace(
    "\n\nx = torch",
    "\n    def weighed(self, x):\n        return self.head(self.features(x))\n"
    "\n    def scaled(self, x):\n        return 2 * x\n\n\nx = torch",
)
STATS = NET.replace("nn.LayerNorm(5)", "nn.BatchNorm1d(5)")
EVALUATE = """@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    outputs = [model.validation_step(batch) for batch in batches]
    return model.validation_epoch_end(outputs)


batches = [(x[:4], y[:4]), (x[4:], y[4:])]
optimizer = optim.SGD(model.parameters(), lr=0.1)
for step in range(10):
    model.train()
    loss = model.training_step((x, y))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    result = evaluate(model, batches)
    losses += [loss.item(), result["loss"], result["near"]]
"""
SCORED = """optimizer = optim.SGD(model.parameters(), lr=0.01)
for step in range(10):
    optimizer.zero_grad()
    loss = model.score(x)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
OTHER = """class Wide(Base):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 2)

    def forward(self, x):
        return self.lin(x)


"""
CHOICE = "model = {'net': Net, 'wide': Wide}[chosen]()\n"
SCORE = "    def score(self, x):\n        return self.scaled(self.weighed(x)).mean()\n"  # which Wide has not
CHOSEN = STATS.replace(SCORE, "").replace("\n\nx = torch", f"\n\n{OTHER}x = torch").replace("model = Net()\n", CHOICE)

FORMS = {
    "a step of the base": NET + EVALUATE,
    "a step of the base, with batch statistics": STATS + EVALUATE,
    "stars for torch's own constructor": STATS.replace(
        "    def __init__(self):\n", "    def __init__(self, *args, **kwargs):\n"
    ).replace("super().__init__()", "super().__init__(*args, **kwargs)")
    + EVALUATE,
    "methods that only those have that inherit": NET + SCORED,
}


@pytest.mark.parametrize("name", FORMS)
def test_steps_alike(name: str, float64: None) -> None:
    theirs, ours = trained(FORMS[name])
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)
    assert len(set(theirs["losses"])) > 8
    assert all(isinstance(value, float) for value in ours.get("result", {}).values())


def test_what_needs_no_trace_keeps_its_numbers() -> None:
    text = convert(parse("train.py", NET + EVALUATE)).text
    assert '"loss": jnp.stack(losses).mean().item(), "near": near.item()}' in text


@pytest.mark.parametrize("chosen", ["net", "wide"])
def test_one_of_several_classes(chosen: str) -> None:
    """The steps are the base's for each of them: what one that is chosen takes is what it takes alone."""
    together = rewritten.executed(rewritten.clean(f"{CHOSEN}{EVALUATE}").text.replace("[chosen]", f"[{chosen!r}]"))
    alone = CHOSEN.replace(CHOICE, f"model = {chosen.title()}()\n")
    ours = rewritten.executed(rewritten.clean(alone + EVALUATE).text)
    np.testing.assert_allclose(together["losses"], ours["losses"], rtol=1e-6)
    assert len(set(ours["losses"])) > 8


def test_a_method_that_a_step_runs_is_traced() -> None:
    logging = NET.replace(
        "        return F.mse_loss(out, y)\n",
        "        loss = F.mse_loss(out, y)\n        self.kept(loss)\n        return loss\n\n"
        "    def kept(self, loss):\n        return loss.item()\n",
    )
    text = convert(parse("train.py", logging + EVALUATE)).text
    assert "return jax.lax.stop_gradient(loss)" in text
