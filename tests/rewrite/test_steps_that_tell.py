"""Steps of modules that tell their trainer something: where that cannot be followed, it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.files.source import parse
from migrate.lowering.plainer.steps_that_tell import with_told_returned
from migrate.lowering.rounds import Input

TEXT = Path(__file__).parents[1].joinpath("golden/steps_that_tell/before.py").read_text()
TOLD = "self.plot('loss', l, train=True)"
UNCLEAR = {
    "now and then": (TOLD, f"if self.trainer.epoch:\n            {TOLD}"),
    "before the loss is changed": (TOLD, f"{TOLD}\n        l = l * 2"),
    "by a key that is told late": (TOLD, "self.plot(str(l), l, train=True)"),
    "through a board that others have": ("trainer.fit(", "print(model.board.points)\ntrainer.fit("),
    "in a step whose result is used at once": ("loss = self.model.training_step(batch)", "loss = self.run(batch)"),
    "by a trainer that tells itself": ("self.train_batch_idx += 1", "self.model.plot('index', 1, True)"),
    "with a method of the module": ("self.board.draw(x, ", "self.board.draw(self.loss(x, x), "),
}


def _taken(text: str) -> str:
    (made,) = with_told_returned([Input(parse("x.py", text))])
    return made.source.module.code


@pytest.mark.parametrize("why", UNCLEAR)
def test_what_cannot_be_followed_stays(why: str) -> None:
    old, new = UNCLEAR[why]
    assert old in TEXT
    text = TEXT.replace(old, new)
    text = (
        text.replace(
            "    def fit_epoch",
            "    def run(self, batch):\n        return self.model.training_step(batch) + 1\n\n    def fit_epoch",
        )
        if "run(" in new
        else text
    )
    assert _taken(text) == text


def test_keys_of_which_some_steps_tell_some() -> None:
    """A class that tells more than its base does: each tells its own, in an order that both keep to."""
    more = """

class Other(Module):
    def training_step(self, batch):
        l = self.loss(batch)
        self.plot('loss', l, train=True)
        self.plot('accuracy', l, train=True)
        return l


class Trainer"""
    told = _taken(TEXT.replace("\n\nclass Trainer", more, 1))
    assert 'for key in sorted(logged, key=("loss", "accuracy", "error").index):' in told
    other_way = more.replace("'loss', l", "'first', l").replace("'accuracy', l", "'loss', l")
    assert 'key=("first", "loss", "error").index' in _taken(TEXT.replace("\n\nclass Trainer", other_way, 1))


def test_keys_that_jit_would_sort_are_told_in_their_order() -> None:
    assert 'for key in ("loss", "error"):' in _taken(TEXT)
    assert "for key, value in logged.items():\n                self.plot(key, value, train=True)" in _taken(
        TEXT.replace("'error'", "'losses'")
    )
