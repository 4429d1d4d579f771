"""Models whose forward pass goes through other layers where an argument says so: all of them have weights."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

NET = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(2, 2)
        self.a = nn.Linear(2, 3)
        self.b = nn.Linear(2, 3)
        self.heads = nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Linear(2, 3)})
        for p in self.parameters():
            nn.init.constant_(p, 0.2)

    def take(self, x):
        return self.b(x)

    def forward(self, x, task="a", scale=1.0):
        x = self.trunk(x) * scale
        FORWARD


x = torch.ones(1, 2)
net = Net()
"""
FORWARDS = {
    "a branch that ends": 'if task == "a":\n            return self.a(x)\n        return self.b(x)',
    "two sides": """if task == "a":
            x = self.a(x)
        else:
            x = self.b(x)
        return 2 * x""",
    "an expression": 'return self.a(x) if task == "a" else self.b(x)',
    "a method": 'if task != "a":\n            return self.take(x)\n        return self.a(x)',
    "a dict of parts": "return self.heads[task](x)",
}
CALLS = {
    "by place": 'y = net(x, "a") + 2 * net(x, "b")\n',
    "by default, and by name": 'y = net(x) + 2 * net(x, task="b", scale=3.0)\n',
    "the other one first": 'y = net(x, "b")\ny = y + net(x)\n',
    "in a step": """optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(2):
    loss = net(x).sum() + net(x, "b").square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
y = net(x, "b")
""",
}


@pytest.mark.parametrize("calls", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_outputs_are_torchs(forward: str, calls: str) -> None:
    theirs, ours = rewritten.both(NET.replace("FORWARD", forward) + calls)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)  # sums of 2, five times


def test_the_model_is_made_by_a_call_of_each() -> None:
    made = rewritten.clean(NET.replace("FORWARD", FORWARDS["an expression"]) + CALLS["by place"]).text
    assert 'method=lambda model, x: (model(x, task="a"), model(x, task="b"))' in made


@pytest.mark.parametrize(
    "code",
    ['y = net(x, "a")\n', "y = net(x, scale=2.0) + net(x, scale=3.0)\n", 'y = net(x, "b") + net(2 * x, "b")\n'],
)
def test_one_way_is_one_call(code: str) -> None:
    """What only scales decides nothing, and what no call goes through needs no weights."""
    made = rewritten.clean(NET.replace("FORWARD", FORWARDS["two sides"]) + code).text
    assert "method=lambda" not in made


MORE = 'x = self.a(x)\n        if task == "b":\n            x = self.b(x @ torch.ones(3, 2))\n        return x'


@pytest.mark.parametrize("calls", ['y = net(x) + net(x, "b")\n', 'y = net(x, "b") + net(x)\n'])
def test_a_call_that_goes_through_more_is_enough(calls: str) -> None:
    text = NET.replace("FORWARD", MORE) + calls
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)
    made = rewritten.clean(text).text
    assert 'net.init(subkey, x, task="b")' in made


OPTIONAL = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.embedding = nn.Embedding(classes, 2)
        for p in self.parameters():
            nn.init.constant_(p, 0.2)

    def forward(self, x, scale=2.0, label=None):
        h = self.fc(x) * scale
        if label is not None:
            h = h + self.embedding(label)
        return h


x, label = torch.ones(3, 2), torch.tensor([0, 1, 3])
net = Net()
"""
GIVEN = {
    "by place": "y = net(x, 1.0, label)\n",
    "by name": "y = net(x, label=label)\n",
    "not by the first call": "y = net(x)\ny = y + net(x, label=label)\n",
    "maybe": "y = 0\nfor other in (label, None):\n    y = y + net(x, 1.0, other)\n",
    "in a step": """optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(2):
    loss = net(x, label=label).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
y = net(x, label=label)
""",
}


@pytest.mark.parametrize("code", GIVEN.values(), ids=GIVEN)
def test_an_optional_argument_that_brings_a_part_in_is_one_of_the_example(code: str) -> None:
    theirs, ours = rewritten.both(OPTIONAL + code)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)  # sums of 2, five times


ROWS = {
    "all parts by number": ("self.heads[k](x)", "y = sum(net(x, k) for k in range(3))\n", "range(len(model.heads))"),
    "two by literals": ("self.heads[k](x)", "y = net(x, 0) + net(x, 2)\n", "model(x, 2)"),
    "so many": ("sum(self.heads[i](x) for i in range(k))", "y = net(x, 1) + net(x, 3)\n", ""),
}


@pytest.mark.parametrize(("forward", "code", "made"), ROWS.values(), ids=ROWS)
def test_parts_of_a_row_by_number(forward: str, code: str, made: str) -> None:
    text = f"""import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.heads = nn.ModuleList([nn.Linear(2, 2) for _ in range(count)])
        for p in self.parameters():
            nn.init.constant_(p, 0.2)

    def forward(self, x, k):
        return {forward}


x = torch.ones(1, 2)
net = Net(3)
{code}"""
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)
    assert made in rewritten.clean(text).text


HANDED = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(2, 2)
        self.condition = nn.Linear(3, 2)
        for p in self.parameters():
            nn.init.constant_(p, 0.2)

    def forward(self, x, c=None):
        h = self.fc(x)
        return h if c is None else h + self.condition(c)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.blocks = nn.ModuleList([Block() for _ in range(2)])

    def forward(self, x, given=None):
        FORWARD


x, c = torch.ones(1, 2), torch.ones(1, 3)
net = Net()
y = net(x)
y = y + net(x, c) + net(x)
"""
HANDING = {
    "to a part": "return self.first(x, given)",
    "by name": "return self.first(x, c=given)",
    "to each in a row": "for block in self.blocks:\n            x = block(x, given)\n        return x",
    "to some in a row": "return self.blocks[1](self.blocks[0](x, given), given)",
}


@pytest.mark.parametrize("forward", HANDING.values(), ids=HANDING)
def test_one_that_is_handed_on_is_one_of_the_example(forward: str) -> None:
    theirs, ours = rewritten.both(HANDED.replace("FORWARD", forward))
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)
    assert "given=c)" in rewritten.clean(HANDED.replace("FORWARD", forward)).text


MANY = {
    "by each literal of a loop": ('for task in ("a", "b"):\n    y = y + net(x, task)\n', ""),
    "by a list that is named": ('tasks = ["b", "a"]\nfor i, task in enumerate(tasks):\n    y = y + net(x, task)\n', ""),
    "by the keys of a dict": ('for task, w in {"a": 1.0, "b": 2.0}.items():\n    y = y + w * net(x, task)\n', ""),
    "by either": ('for i in range(3):\n    task = "a" if i % 2 else "b"\n    y = y + net(x, task)\n', ""),
    "by a lookup": ('tasks = ["a", "b"]\nfor i in range(3):\n    y = y + net(x, tasks[i % 2])\n', ""),
    "by a function's callers": ('def of(task):\n    return net(x, task)\n\n\ny = of("a") + of(task="b")\n', ""),
    "by its default": ('def of(task="b"):\n    return net(x, task)\n\n\ny = of("a") + of()\n', ""),
    "by what is not known": (
        'import json\n\nfor task in json.loads(\'["a", "b"]\'):\n    y = y + net(x, task)\n',
        'model(x, task=""',
    ),
}


@pytest.mark.parametrize(("code", "made"), MANY.values(), ids=MANY)
@pytest.mark.parametrize("forward", FORWARDS.values(), ids=FORWARDS)
def test_an_argument_that_may_be_several(forward: str, code: str, made: str) -> None:
    text = NET.replace("FORWARD", forward) + f"y = 0\n{code}"
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)
    assert made in rewritten.clean(text).text or forward == FORWARDS["a dict of parts"]


TESTED = {
    "three": ('if task == "a":\n            return self.a(x)\n        elif task == "b":\n            return self.b(x)\n'
              '        else:\n            return self.c(x)', '"a"', '"b"', '"z"'),
    "within another": ('if task != "a":\n            if task in ("b", "d"):\n                return self.b(x)\n'
                       "            return self.c(x)\n        return self.a(x)", '"a"', '"d"', '"c"'),
    "by a number": ("if task > 1:\n            return self.a(x)\n        return self.b(x) if task == 1 else self.c(x)",
                    "0", "1", "2"),
    "by two": ("if task and deep:\n            return self.a(x)\n        return self.b(x) if deep else self.c(x)",
               "True", "True, True", "False, True"),
    "in a method": ("return self.choose(x, task)", '"a"', '"b"', '"z"'),
    "in a method, by number": ("return self.so_many(x, task)", "1", "2", "3"),
    "the first ones": ("return sum(layer(x) for layer in self.rows[:task])", "1", "2", "3"),
    "in a part": ("return self.part(x, task)", "True", "False", "True"),
}  # fmt: skip


PART = """

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(2, 3), nn.Linear(2, 3)

    def forward(self, x, on):
        return self.a(x) if on else self.b(x)
"""


@pytest.mark.parametrize("name", TESTED)
@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
def test_tests_of_arguments(name: str, told: bool) -> None:
    """Not told: what the model is given stands in tuples."""
    forward, *given = TESTED[name]
    calls = " + ".join(f"net(x, {each})" for each in given)
    looped = ", ".join(f"({each})" if "," in each else f"({each}, False)" for each in given)
    text = f"""import torch
from torch import nn
{PART if "self.part" in forward else ""}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(2, 3), nn.Linear(2, 3), nn.Linear(2, 3)
        self.rows = nn.ModuleList([nn.Linear(2, 3) for _ in range(3)])
        self.part = {"Part()" if "self.part" in forward else "None"}

    def choose(self, x, name):
        if name == "a":
            return self.a(x)
        return self.b(x) if name == "b" else self.c(x)

    def so_many(self, x, count):
        y = 0
        for i in range(count):
            y = y + self.rows[i](x)
        return y

    def forward(self, x, task, deep=False):
        {forward}


x = torch.ones(1, 2)
net = Net()
"""
    if told:
        text += f"y = {calls}\n"
    else:
        text += f"y = 0\nfor task, deep in [{looped}]:\n    y = y + net(x, task, deep)\n"
    made = rewritten.clean(text)
    names = rewritten.executed(made.text)
    assert names["y"].shape == (1, 3)
    used = {"a", "b", "c"} if "self.part" not in forward else {"part"}
    used = {"rows_0", "rows_1", "rows_2"} if "rows" in forward or "so_many" in forward else used
    assert set(names["params"]) == used


@pytest.mark.parametrize("given", ["*(x, c)", '**{"x": x, "given": c}', "**batch", "*row"])
def test_arguments_that_are_unpacked(given: str) -> None:
    code = f'batch = {{"x": x, "given": c}}\nrow = (x, c)\ny = net(x) + net({given})\n'
    text = HANDED.partition("y = net(x)")[0].replace("FORWARD", HANDING["to a part"])
    theirs, ours = rewritten.both(text + code)
    np.testing.assert_allclose(np.asarray(ours["y"]), theirs["y"].detach().numpy(), rtol=1e-5)


@pytest.mark.parametrize("given", ["*rows[0]", "**dict(x=x, given=c)"])
def test_arguments_that_are_unpacked_and_not_known(given: str) -> None:
    text = HANDED.partition("y = net(x)")[0].replace("FORWARD", HANDING["to a part"])
    made = rewritten.conversion(text + f"rows = [(x, c), (x,)]\ny = net(x) + net({given})\n")
    assert [(one.code, "whether it gives given" in one.message) for one in made.report.diagnostics] == [
        ("MIG402", True)
    ]


def test_layers_that_are_only_given_what_the_model_has_made() -> None:
    forward = 'return self.fc(x) if way == "in" else self.out(x)'
    text = f"""import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.out = nn.Linear(4, 2), nn.Linear(2, 4)

    def forward(self, x, way):
        {forward}


net = Net()
z = net(torch.ones(1, 4), "in")
y = net(z, "out")
"""
    made = rewritten.conversion(text)
    assert [one.code for one in made.report.diagnostics] == ["MIG402"]
    assert 'what it has made itself, way="out"' in made.report.diagnostics[0].message
