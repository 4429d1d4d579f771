"""Each code is raised by a small source that deserves it, at its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrate.diagnostics import CODES, Diagnostic, ExitCode, Fatal
from migrate.files.source import load, parse
from migrate.pipeline import convert

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


x = torch.ones(4, 3)
"""
LOOP = (
    HEAD
    + """model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
)


MODULE = """import torch
import torch.nn as nn


class M(BASE):
    def __init__(self):
        super().__init__()
        LINE

    def forward(self, x):
        return x
"""


def module(line: str, base: str = "nn.Module") -> str:
    """A module class with one line of its constructor."""
    return MODULE.replace("LINE", line).replace("BASE", base)


INIT = "def start(m):\n    for part in m.children():\n        part.weight.zero_()\n\n\n"
MAKE = "def make(model):\n    return [optim.SGD(model.parameters(), lr=0.1)]\n\n\n"

# code: the source, and the line that it points to ("" for the file as a whole)
SOURCES: dict[str, tuple[str, str]] = {
    "MIG001": ("def broken(:\n    pass\n", "def broken(:"),
    "MIG101": ("import math\n\nprint(math.pi)\n", ""),
    "MIG201": (module("pass", "nn.LSTMCell"), "class M(nn.LSTMCell):"),
    "MIG202": (
        module("self.odd = nn.FractionalMaxPool2d(2, output_size=2)"),
        "        self.odd = nn.FractionalMaxPool2d(2, output_size=2)",
    ),
    "MIG203": (
        module("self.words = nn.Embedding(9, 4, max_norm=1.0)"),
        "        self.words = nn.Embedding(9, 4, max_norm=1.0)",
    ),
    "MIG204": (LOOP.replace("model = Net()\n", INIT + "model = Net()\nmodel.apply(start)\n"), "model.apply(start)"),
    "MIG301": (HEAD + "print(torch.special.bessel_j0(x))\n", "print(torch.special.bessel_j0(x))"),
    "MIG302": (HEAD + "print(F.gumbel_softmax(x, eps=0.1))\n", "print(F.gumbel_softmax(x, eps=0.1))"),
    "MIG303": (HEAD + "y = x\nprint(x.add_(1), y)\n", "print(x.add_(1), y)"),
    "MIG304": (HEAD + "activations = [torch.dropout]\n", "activations = [torch.dropout]"),
    "MIG307": (
        HEAD.replace(
            "        return self.fc(x)", "        while x.sum() > 0:\n            x = x - 1\n        return self.fc(x)"
        ),
        "        while x.sum() > 0:",
    ),
    "MIG401": (LOOP.replace("loss.backward()", "loss.backward(inputs=[x])"), "    loss = model(x).sum()"),
    "MIG402": (
        HEAD + "class Pair(Net):\n    def forward(self, x, y):\n        return self.fc(x[y])\n\n\n"
        "model = Pair()\nprint(model.state_dict())\n",
        "model = Pair()",
    ),
    "MIG404": (
        LOOP.replace("optimizer = optim.SGD(model.parameters(), lr=0.1)", MAKE + "optimizer = make(model)[0]"),
        "    return [optim.SGD(model.parameters(), lr=0.1)]",
    ),
}
MODES = """
model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
for epoch in range(3):
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
    model.eval()
    print(model(x).sum().item())
"""
SOURCES["MIG306"] = (SOURCES["MIG404"][0], "    optimizer.zero_grad()")
SOURCES["MIG403"] = (
    HEAD.replace("self.fc = ", "self.drop = nn.Dropout(0.5)\n        self.fc = ").replace(
        "self.fc(x)", "self.fc(self.drop(x))"
    )
    + MODES,
    "    loss = model(x).sum()",
)
SOURCES["MIG502"] = (
    LOOP.replace("    loss = model(x).sum()", "    with torch.cuda.amp.autocast():\n        loss = model(x).sum()"),
    "    with torch.cuda.amp.autocast():",
)

SOURCES["MIG503"] = (
    HEAD + 'torch.distributed.init_process_group("gloo")\n',
    'torch.distributed.init_process_group("gloo")',
)
SOURCES["MIG504"] = (
    HEAD + "def initialise(net):\n    for m in net.modules():\n        if isinstance(m, nn.Linear):\n"
    "            nn.init.zeros_(m.bias)\n",
    "def initialise(net):",
)
SOURCES["MIG505"] = (HEAD + "print(torch.utils.checkpoint(Net()))\n", "print(torch.utils.checkpoint(Net()))")
SOURCES["MIG507"] = (
    HEAD
    + "class Sized(nn.Module):\n    def __init__(self, config):\n        super().__init__()\n"
    + "        config.half = config.size // 2\n        self.fc = nn.Linear(config.size, config.half)\n"
    + "    def forward(self, x):\n        return self.fc(x)\n",
    "    def __init__(self, config):",
)
SOURCES["MIG519"] = (
    HEAD.replace(
        "        return self.fc(x)", "        self.last = self.fc(x) + self.last\n        return self.last"
    ).replace("        self.fc = ", "        self.last = None\n        self.fc = ")
    + "net = Net()\nnet.last = torch.zeros(2)\nprint(net(torch.ones(3)))\n",
    "class Net(nn.Module):",
)
SOURCES["MIG520"] = (
    HEAD.replace("        self.fc = ", "        self.norm = nn.BatchNorm1d(3)\n        self.fc = ")
    + "net = Net()\nnet(torch.ones(2, 3))\nfor name, value in net.state_dict().items():\n    print(name)\n",
    "for name, value in net.state_dict().items():",
)
SOURCES["MIG508"] = (
    HEAD
    + "class Sampled(nn.Module):\n    def __init__(self, width, rows=0):\n        super().__init__()\n"
    + "        self.fc = nn.Linear(width, width)\n        if rows > 1 and width:\n"
    + "            self.register_buffer('rows', torch.zeros(rows, width))\n"
    + "            nn.init.orthogonal_(self.rows[0])\n"
    + "    def forward(self, x):\n        return self.fc(x)\n"
    + "model = Sampled(3, rows=1)\n",
    "            nn.init.orthogonal_(self.rows[0])",
)


def diagnostics(source: str) -> tuple[Diagnostic, ...]:
    """What is said of a source, as a report or as the end of it."""
    try:
        return convert(parse("x.py", source)).report.diagnostics
    except Fatal as end:
        return (end.diagnostic,)


@pytest.mark.parametrize("code", SOURCES)
def test_code(code: str) -> None:
    source, line = SOURCES[code]
    found = [diagnostic for diagnostic in diagnostics(source) if diagnostic.code == code]
    assert found, f"{code} is not among {[str(diagnostic) for diagnostic in diagnostics(source)]}"
    assert found[0].source == line
    assert found[0].line == (source.split("\n").index(line) + 1 if line else 0)


@pytest.mark.parametrize(
    "use",
    [
        "model = nn.Linear(3, 1)\nfor x in other.rows:\n    print(model(x[x > 0]))\n",
        "model = nn.Bilinear(3, 2, 1)\nprint(model.state_dict())\n",
    ],
)
def test_weights_that_are_not_made_are_told_of_once(use: str) -> None:
    """Not where they are read as well."""
    assert [found.code for found in diagnostics(HEAD + "import other\n\n" + use)] == ["MIG402"]


def test_a_branch_that_some_module_may_take_needs_a_person() -> None:
    source = SOURCES["MIG508"][0]
    for made in ("Sampled(3, rows=2)", "Sampled(3, rows=int(input()))", "Sampled(*map(int, input().split()))"):
        assert "MIG204" in {found.code for found in diagnostics(source.replace("Sampled(3, rows=1)", made))}
    assert "MIG204" in {found.code for found in diagnostics(source.replace("model = Sampled(3, rows=1)\n", ""))}


def test_a_branch_of_a_function_that_no_call_takes_needs_nobody() -> None:
    source = HEAD + (
        "def show(x, path=None, net=None):\n"
        "    if path is not None and len(path):\n        torch.jit.wait(path)\n"
        "    if net is None or path:\n        torch.jit.wait(x)\n"
        "    print(x)\n\n"
        "model = Net()\nmodel(torch.ones(2, 3))\nshow(torch.ones(3), None, model)\n"
    )
    assert [found.code for found in diagnostics(source)] == ["MIG508", "MIG508"]
    assert all("nothing calls it so" in found.message for found in diagnostics(source))
    for call in ("show(torch.ones(3), 'a', model)", "show(torch.ones(3), net=model, path=input())", "f = show"):
        assert "MIG301" in {found.code for found in diagnostics(source + call + "\n")}


def test_a_script_that_is_understood_gets_no_finding() -> None:
    assert diagnostics(LOOP) == ()


def test_binary_file(tmp_path: Path) -> None:
    path = tmp_path / "x.py"
    path.write_bytes(b"\x00\x01\x02")
    with pytest.raises(Fatal, match="MIG002"):
        load(path)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(Fatal, match="MIG003"):
        load(tmp_path / "x.py")


def test_our_own_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> str:
        raise RecursionError

    monkeypatch.setattr("migrate.pipeline.emit", fail)
    with pytest.raises(Fatal, match="MIG900"):
        convert(parse("x.py", LOOP))


def test_rounds_that_do_not_settle_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("migrate.lowering.rounds.ROUNDS", 1)
    found = convert(parse("x.py", LOOP)).report
    assert "MIG901" in {one.code for one in found.diagnostics} and found.exit_code is ExitCode.FINDINGS


def test_long_chains_of_calls_settle() -> None:
    links = [f"def f{i}(x):\n    return f{i + 1}(x)\n" for i in range(16)]
    last = "def f16(x):\n    return x.view(-1).size(0)\n"
    found = convert(parse("x.py", "\n".join(["import torch\n", *links, last, "print(f0(torch.ones(3, 4)))\n"])))
    assert found.report.exit_code is ExitCode.DONE and "x.reshape(-1)" in found.text


# 205 needs a project of several files, 305 a name that only our own fault loses, 501 is raised by nothing yet.
UNTESTED = (205, 305, 501)


def test_each_code_is_raised_in_some_test() -> None:
    tests = Path(__file__).parents[1]
    texts = [path.read_text() for pattern in ("*.py", "report.txt") for path in tests.rglob(pattern)]
    silent = {code for code in CODES if not any(code in text for text in texts)}
    assert silent <= {f"MIG{number}" for number in UNTESTED}


def test_an_initialiser_that_assigns_is_not_ignored() -> None:
    start = "def start(m):\n    name = m.__class__.__name__\n    if name.find('Linear') != -1:\n"
    start += "        m.weight = make(m)\n\n\n"
    assert diagnostics(LOOP.replace("model = Net()\n", start + "model = Net()\nmodel.apply(start)\n"))


@pytest.mark.parametrize(
    ("before", "turn", "after"),
    [
        ("offset = 0", "p.grad.mul_(offset)\n        offset += p.numel()", ""),
        ("total = torch.zeros(1)", "total += p.grad.norm()\n        p.grad.clamp_(-1, 1)", "print(total)"),
        ("", "norm = p.grad.norm()\n        p.grad.div_(norm)", "print(norm)"),
        ("offset = 0", "p.data.fill_(offset)\n        offset += 1", ""),
    ],
)
def test_what_goes_on_from_one_parameter_to_the_next(before: str, turn: str, after: str) -> None:
    """The loop is a map over all parameters: what a turn leaves behind would be lost without a word."""
    loop = f"    {before}\n    for p in model.parameters():\n        {turn}\n    {after}\n    optimizer.step()"
    found = diagnostics(LOOP.replace("    optimizer.step()", loop))
    assert ["goes on from one parameter to the next" in one.message for one in found] == [True]


def test_weights_changed_by_hand() -> None:
    assert diagnostics(LOOP.replace("for step", "model.fc.weight.data *= 2\nfor step"))


def test_a_change_in_place_that_another_name_sees() -> None:
    assert diagnostics(HEAD + "y = x\nx[0] += 1\nprint(y)\n")


def test_a_layer_that_a_call_changes_in_place() -> None:
    """The layer would lose its norm without a word."""
    found = diagnostics(module("self.part = nn.Linear(3, 2)\n        nn.utils.weight_norm(self.part)"))
    assert [each.code for each in found] == ["MIG202"]
    assert "write self.part = nn.utils.weight_norm(self.part)" in found[0].message


def test_a_decorator_of_torch() -> None:
    assert diagnostics(HEAD + "@torch.autograd.profiler.record_function\ndef f():\n    pass\n")


@pytest.mark.parametrize("attribute", ["values", "indices"])
def test_named_parts_of_a_result(attribute: str) -> None:
    text = convert(parse("x.py", HEAD + f"print(torch.max(x, 1).{attribute})\n")).text
    assert f").{attribute}" not in text


def test_an_array_that_grows_in_a_loop_is_worth_a_note() -> None:
    found = diagnostics(HEAD + "for i in range(3):\n    x = torch.cat((x, x[:1]))\n")
    assert [one.code for one in found] == ["MIG501"]
    assert not diagnostics(HEAD + "x = torch.cat((x, x[:1]))\n")


def test_python_draws_in_a_forward_pass_are_not_frozen() -> None:
    source = "import random\n" + HEAD + "class N(nn.Module):\n    def forward(self, x):\n"
    found = diagnostics(source + "        return x * random.gauss(1, 3)\n")
    assert [one.code for one in found] == ["MIG302"]


def test_gradients_that_are_zeroed_only_after_a_step_start_at_zero() -> None:
    source = HEAD + "model = nn.Sequential(nn.Linear(3, 1))\noptimizer = optim.SGD(model.parameters(), lr=0.1)\n"
    source += "for i in range(4):\n    loss = model(torch.ones(2, 3)).sum()\n    loss.backward()\n"
    text = convert(
        parse("x.py", source + "    if i % 2:\n        optimizer.step()\n        optimizer.zero_grad()\n")
    ).text
    zeros = "grads = jax.tree.map(jnp.zeros_like, params)"
    assert text.count(zeros) == 1 and text.index(zeros) < text.index("for i in range(4)")
    assert "params, opt_state, grads = optimizer_update(params, opt_state, grads)" in text  # which clears them again
