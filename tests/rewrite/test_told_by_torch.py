"""What only tells of torch's own workings, and schedules that go on from nowhere."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

TRAINED = """import torch
from torch import nn
from torch.optim.lr_scheduler import MultiStepLR, ReduceLROnPlateau, StepLR
from torch.utils.tensorboard import SummaryWriter

start = int("0")
x, y = torch.ones(4, 3), torch.zeros(4, 1)
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = SCHEDULER
for epoch in range(start, 4):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step(METRIC)
rate = optimizer.param_groups[0]["lr"]
"""
LOSS = TRAINED.replace("METRIC", "loss.item()")
STEPS = TRAINED.replace("METRIC", "")


@pytest.mark.parametrize(
    ("text", "scheduler"),
    [
        (LOSS, "ReduceLROnPlateau(optimizer, 'min', patience=0, verbose=True)"),
        (LOSS, "ReduceLROnPlateau(optimizer=optimizer, verbose=True, factor=0.5)"),
        (STEPS, "StepLR(optimizer, 2, verbose=True)"),
    ],
)
def test_schedulers_that_print(text: str, scheduler: str) -> None:
    told = rewritten.conversion(text.replace("SCHEDULER", scheduler))
    assert [one.code for one in told.report.diagnostics] == ["MIG518"] and "verbose" not in told.text
    quiet = rewritten.conversion(text.replace("SCHEDULER", scheduler.replace("verbose=True", "verbose=False")))
    assert quiet.report.diagnostics == () and quiet.text == told.text


def test_the_graph_of_a_model_is_left_out() -> None:
    text = STEPS.replace("SCHEDULER", "StepLR(optimizer, 2)")
    drawn = text + "writer = SummaryWriter()\nwriter.add_graph(model, x)\nwriter.close()\n"
    made = rewritten.conversion(drawn)
    assert [one.code for one in made.report.diagnostics] == ["MIG518"]
    assert "add_graph" not in made.text and "writer.close()" in made.text


def test_a_schedule_of_a_new_optimizer_starts_at_its_beginning() -> None:
    text = STEPS.replace("SCHEDULER", "MultiStepLR(optimizer, milestones=[2], last_epoch=start - 1)")
    theirs, ours = rewritten.both(text)
    assert ours["rate"] == pytest.approx(theirs["rate"], rel=1e-7) == pytest.approx(0.01)
    for source in (text, rewritten.clean(text).text):
        with pytest.raises(KeyError, match="initial_lr"):
            rewritten.executed(source.replace('int("0")', 'int("2")'))


def test_one_of_a_loaded_optimizer_is_refused() -> None:
    text = STEPS.replace("SCHEDULER", "MultiStepLR(optimizer, milestones=[2], last_epoch=start - 1)")
    loading = 'optimizer.load_state_dict(torch.load("saved.pt"))\nscheduler = '
    assert "last_epoch=" in rewritten.conversion(text.replace("scheduler = ", loading)).report.as_text()


def test_memory_is_told_as_jax_counts_it() -> None:
    told = rewritten.executed(rewritten.clean("import torch\n\ntold = torch.cuda.memory_summary()\n").text)["told"]
    assert isinstance(told, str)


@pytest.mark.parametrize(
    ("told", "codes"),
    [
        ("torch.set_default_tensor_type('torch.FloatTensor')", []),
        ("torch.set_default_tensor_type(torch.cuda.FloatTensor)", []),
        ("torch.set_default_dtype(torch.float)", []),
        ("torch.set_default_dtype(torch.float64)", ["MIG301"]),
        ("torch.set_default_tensor_type('torch.DoubleTensor')", ["MIG301"]),
    ],
)
def test_the_type_of_new_tensors(told: str, codes: list[str]) -> None:
    made = rewritten.conversion(f"import torch\n\n{told}\nx = torch.zeros(3)\n")
    assert [one.code for one in made.report.diagnostics] == codes


COMPILED = """import torch
from torch import nn


def logged(module):
    print(type(module).__name__)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 1)

    def forward(self, x):
        if not torch.jit.is_scripting() and not torch.jit.is_tracing():
            x = x * 2
        if torch.jit.is_scripting() or torch.jit.is_tracing():
            x = x * 3
        if self.training:
            torch.cuda.empty_cache()

            x = x + 1
        return self.fc(x)
"""


def test_several_questions_about_compilers_are_settled_and_leave_no_trace() -> None:
    made = rewritten.clean(COMPILED).text
    forward = made[made.index("def __call__") :]
    assert forward == (
        "def __call__(self, x):\n        x = x * 2\n        if self.training:\n            x = x + 1\n"
        "        return self.fc(x)\n"
    )
