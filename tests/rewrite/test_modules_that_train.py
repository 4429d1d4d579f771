"""Modules that train themselves, as a module and what trains it (the golden of that name runs in both frameworks)."""

from pathlib import Path

import pytest

from migrate.files.source import parse
from migrate.lowering.plainer.modules_that_train import with_trainers_apart
from migrate.lowering.rounds import Input

AGENT = (Path(__file__).parents[1] / "golden" / "modules_that_train" / "before.py").read_text(encoding="utf-8")
MADE = "    model = ActorCritic(4, 2).to(device)\n"


def apart(text: str) -> str:
    (made,) = with_trainers_apart([Input(parse("x.py", text))])
    return made.source.module.code


def test_an_object_is_called_as_what_it_is_now() -> None:
    made = apart(AGENT.replace(MADE, MADE + "    model.eval()\n    model.updates = 3\n    print(model.state_dict())\n"))
    for line in ("model.net.to(device)", "model.net.eval()", "model.updates = 3", "print(model.net.state_dict())"):
        assert f"    {line}\n" in made
    assert "model.net.pi(torch.from_numpy(s)" in made
    assert "clip_grad_norm_(self.net.parameters(), 1.0)" in made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MADE, MADE + "    model.scale = 3.0\n"),  # which the module has a copy of
        (MADE, MADE + "    agents = [model]\n"),
        (MADE, MADE + "    show(model)\n"),
        ("self.data.append(transition)", "remember(self, transition)"),
        ("nn.Module", "Base"),
    ],
)
def test_what_may_mean_something_else_stays(before: str, after: str) -> None:
    text = AGENT.replace(before, after)
    assert text != AGENT
    assert apart(text) == text
