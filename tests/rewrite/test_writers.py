"""What TensorBoard is told: numpy's arrays, which it takes, and not jax's, which it does not."""

from __future__ import annotations

from migrate.files.source import parse
from migrate.pipeline import convert

TEXT = """import torch
import torch.nn as nn
from torch.utils.tensorboard import SummaryWriter

model = nn.Linear(3, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(4, 3)
with SummaryWriter("runs") as writer:
    for step in range(3):
        loss = model(x).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        writer.add_scalar("loss", loss, step)
        writer.add_scalars("both", {"loss": loss, "item": loss.item()}, step)
        writer.add_scalar("lr", opt.param_groups[0]["lr"], step)
        for name, p in model.named_parameters():
            writer.add_histogram(name, p, step)
"""


def test_a_writer_takes_what_numpy_has() -> None:
    made = convert(parse("x.py", TEXT))
    assert not made.report.diagnostics
    for line in (
        'writer.add_scalar("loss", np.asarray(loss), step)',
        'writer.add_scalars("both", jax.device_get({"loss": loss, "item": loss.item()}), step)',
        'writer.add_scalar("lr", optax.tree_utils.tree_get(opt_state, "learning_rate").item(), step)',
        "writer.add_histogram(name, np.asarray(p), step)",
    ):
        assert line in made.text


def test_a_graph_is_left_out() -> None:
    made = convert(parse("x.py", TEXT + "    writer.add_graph(model, x)\n"))
    assert [found.code for found in made.report.diagnostics] == ["MIG518"]
