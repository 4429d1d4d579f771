"""Tensors that a list, a dict, an object or a loop holds: a change in place reaches them in torch, and a variable that
is bound again would not."""

import pytest

from tests.conformance import rewritten

SEEN = {
    "loop over a list": """
        held = [torch.zeros(2) for _ in range(3)]
        for each in held:
            each.add_(1)
    """,
    "operator in a loop": """
        held = {"a": torch.zeros(2)}
        for key, each in held.items():
            each += 1
    """,
    "data of a loop": """
        held = {"a": torch.zeros(2)}
        for key, each in held.items():
            each.data.copy_(torch.ones(2))
    """,
    "place in a loop": """
        held = [torch.zeros(2)]
        for number, each in enumerate(held):
            each[0] = 3.0
    """,
    "rows of a tensor": """
        held = torch.zeros(2, 2)
        for row, other in zip(held, torch.ones(2)):
            row += other
    """,
    "parts of a tensor": """
        held = torch.zeros(4)
        for part in held.split(2):
            part.fill_(2)
    """,
    "parts by a function": """
        held = torch.zeros(4)
        for part in torch.chunk(held, 2):
            part += 1
    """,
    "get of a dict": """
        held = {"a": torch.zeros(2)}
        x = held.get("a")
        x.add_(1)
    """,
    "next of a list": """
        held = [torch.zeros(2)]
        x = next(iter(held))
        x.add_(1)
    """,
    "the same type": """
        held = torch.zeros(2)
        x = held.type_as(torch.ones(1))
        x += 1
    """,
    "ravelled": """
        held = torch.zeros(2, 2)
        x = torch.ravel(held)
        x.add_(1)
    """,
    "an entry made of a name": """
        held = torch.zeros(2)
        table = {"a": held}
        table["a"] += 1
    """,
    "an entry set to another": """
        table = {}
        table["a"] = torch.zeros(2)
        table["b"] = table["a"]
        table["b"] += torch.ones(2)
        held = table["a"]
    """,
    "one tensor several times": """
        held = [torch.zeros(2)] * 2
        held[0] += 1
    """,
    "what a function gives back": """
        def same(x):
            return x

        held = torch.zeros(2)
        x = same(held)
        x.add_(1)
    """,
    "an attribute of two names": """
        class Sums:
            def __init__(self):
                self.x = torch.zeros(2)
                self.y = self.x

            def add(self):
                self.x += 1

        sums = Sums()
        sums.add()
        held = sums.y
    """,
}


def script(text: str) -> str:
    lines = [line[8:] for line in text.splitlines()]
    return "\n".join(["import torch", *lines, "print(held)", ""])


@pytest.mark.parametrize("text", SEEN.values(), ids=SEEN.keys())
def test_what_is_seen_elsewhere_is_not_bound_again(text: str) -> None:
    held = rewritten.executed(script(text))["held"]
    parts = held.values() if isinstance(held, dict) else held
    assert all(part.ne(0).any() for part in parts), "torch changes what is held"
    report = rewritten.conversion(script(text)).report
    assert [each.code for each in report.diagnostics] == ["MIG303"], report.as_text()


ALONE = """
import torch

rows = []
for row in [torch.zeros(2) for _ in range(2)]:
    row += 1
    rows.append(row.tolist())


class Mean:
    def __init__(self):
        self.total = torch.zeros(2)

    def add(self, x):
        self.total += x


mean = Mean()
mean.add(torch.ones(2))
copy = mean.total.clone()
copy[copy > 0] = 5.0
sums = {"a": torch.zeros(2), "b": torch.zeros(2)}
sums["a"] += torch.ones(2)
told = rows, mean.total.tolist(), copy.tolist(), sums["a"].tolist(), sums["b"].tolist()
"""


def test_what_nothing_else_sees_is_bound_again() -> None:
    theirs, ours = rewritten.both(ALONE)
    assert theirs["told"] == ours["told"]
