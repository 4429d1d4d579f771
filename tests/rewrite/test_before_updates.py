"""What a script does before `backward()`: values that leave JAX for a loss, clips of no gradients."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate import manifest as manifests
from migrate.files.source import parse
from migrate.pipeline import convert
from parity.compare import compare_script

pytestmark = pytest.mark.usefixtures("runs_are_forked")

ADVANTAGES = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.pi, self.value = nn.Linear(4, 16), nn.Linear(16, 2), nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.fc(x))
        return F.softmax(self.pi(x), dim=1), self.value(x)


agent = Agent()
optimizer = torch.optim.SGD(agent.parameters(), lr=0.1)
for episode in range(4):
    s, r = torch.randn(6, 4), torch.rand(6, 1)
    target = r + 0.9 * agent(s + 0.1)[1]
    delta = target - agent(s)[1]
    DELTA

    advantages, advantage = [], 0.0
    for one in delta[::-1]:
        advantage = 0.8 * advantage + one[0]
        advantages.append([advantage])
    advantages.reverse()
    advantages = torch.tensor(advantages, dtype=torch.float)

    pi, v = agent(s)
    loss = -(torch.log(pi[:, :1]) * advantages).mean() + F.smooth_l1_loss(v, TARGET)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
CLIPPED = """\
import torch
import torch.nn as nn

model = nn.Linear(4, 3)
other = nn.Linear(3, 3)
optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.1)
for i in range(4):
    x, y = torch.randn(8, 4), torch.randn(8, 3)
    optimizer.zero_grad()
    BEFORE
    loss = (model(x) - y).square().mean() + other(y).square().mean()
    WITHIN
    loss.backward()
    AFTER
    optimizer.step()
"""
CLIP = "nn.utils.clip_grad_norm_(model.parameters(), 0.01)"


def assert_equal(source: str, folder: Path) -> str:
    """Converts a script without findings, holds its steps against torch's, and returns the output."""
    made = convert(parse("x.py", source))
    assert not made.report.diagnostics, made.report.as_text()
    before, after, weights = (folder / name for name in ("x.py", "x_jax.py", "weights.json"))
    before.write_text(source)
    after.write_text(made.text)
    weights.write_text(manifests.dumps(made.manifest))
    result = compare_script(before, after, weights, steps=4)
    assert result.exit_code == 0, (result.first_difference, result.errors)
    assert len(result.steps) == 4
    return made.text


def problems(source: str) -> str:
    """The messages of a script that is refused."""
    return " ".join(found.message for found in convert(parse("x.py", source)).report.diagnostics)


def test_values_that_leave_jax_are_ready_before_the_update(tmp_path: Path) -> None:
    source = ADVANTAGES.replace("DELTA", "delta = delta.detach().numpy()").replace("TARGET", "target.detach()")
    text = assert_equal(source, tmp_path)
    assert "pi, v = agent.apply" in text.partition("def train_step")[2].partition("return params")[0]


def test_a_gradient_that_goes_past_them_is_refused() -> None:
    source = ADVANTAGES.replace("DELTA", "delta = delta.detach().numpy()").replace("TARGET", "target")
    assert "takes values out of JAX" in problems(source)


def test_a_clip_of_no_gradients_does_nothing(tmp_path: Path) -> None:
    source = CLIPPED.replace("BEFORE", CLIP).replace("WITHIN", CLIP).replace("AFTER", "pass")
    assert "clip" not in assert_equal(source, tmp_path)


@pytest.mark.parametrize(
    ("within", "after"),
    [
        (f"norm = {CLIP}", "print(norm)"),
        ("loss.backward(retain_graph=True)\n    " + CLIP, "pass"),
    ],
)
def test_a_clip_of_what_grows_afterwards_is_refused(within: str, after: str) -> None:
    source = CLIPPED.replace("    BEFORE\n", "").replace("WITHIN", within).replace("AFTER", after)
    assert "clips gradients that backward() adds to afterwards" in problems(source)
