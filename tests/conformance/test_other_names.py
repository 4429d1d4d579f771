"""Tensors that are changed in place and had other names, which are bound again before anything reads them."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = "import torch\n\nstore = torch.zeros(2, 3)\nout = []\nkept = []\n"


def turns(*lines: str) -> str:
    return HEAD + "for turn in range(3):\n" + "".join(f"    {line}\n" for line in lines)


EQUAL = {
    "views made anew in each turn": turns(
        "for step in range(2):",
        "    store[step] = torch.arange(3.0) + turn + step",
        "flat = store.view(-1)",
        "other = flat[1:]",
        "out.append(float(flat.sum() + other.sum()))",
    ),
    "one name after the other": turns(
        "store[0] = store[1] + turn", "store[1] += 1", "flat = store.reshape(-1)", "out.append(float(flat.sum()))"
    ),
    "a view of itself alone": turns(
        "table = torch.arange(3.0)[:, None] - torch.arange(2.0)[None]",
        "table = table.t().contiguous().unsqueeze(0)",
        "table[:, :, 0] += turn",
        "table[0, 1] *= 2",
        "table = table.view(-1)",
        "table[1] -= 4",
        "table *= 3",
        "out.append(float((table * torch.arange(6.0)).sum()))",
    ),
    "two targets": turns(
        "last = 0.0",
        "for step in reversed(range(2)):",
        "    store[step] = last = torch.ones(3) * turn + 0.5 * last",
        "out.append(float(store.sum() + last.sum()))",
    ),
    "two parts at once": HEAD + "store[0] = store[1] = torch.arange(3.0)\nout.append(float(store.sum()))\n",
    "a name in an index": HEAD + "i = 0\nstore[i] = i = torch.tensor(1)\nout.append(float(store.sum() + i))\n",
    "a value with an axis more": turns(
        "row = torch.ones(3).reshape(1, -1)",
        "if turn > 1:",
        "    row = torch.zeros(3)",
        "store[turn % 2] = row + turn",
        "out.append(float(store[0].sum()))",
    ),
}
REFUSED = {
    "seen by another name before": turns(
        "row = torch.arange(3.0) + turn", "other = row", "row = row.contiguous()", "row[0] += 5", "out.append(other)"
    ),
    "read by the name of a view of a view": turns(
        "store[0] = torch.ones(3) * turn", "if turn: out.append(float(flat.sum()))", "flat = store.view(-1).detach()"
    ),
    "a view of itself and another": turns(
        "row = torch.arange(3.0) + turn", "flat = row.view(-1)", "row = row[None]", "row[0, 0] = 5", "out.append(flat)"
    ),
    "read at the start of a turn that follows another way": turns(
        "if turn: out.append(float(flat.sum()))",
        "if turn != 1: flat = store.view(-1)",
        "store[0] = torch.ones(3) * turn",
    ),
    "read in the next turn": turns(
        "store[0] = torch.ones(3) * turn", "if turn: out.append(float(flat.sum()))", "flat = store.view(-1)"
    ),
    "read where a turn ends early": turns(
        "if turn: out.append(float(flat.sum()))",
        "store[0] = torch.ones(3) * turn",
        "if turn == 1: continue",
        "flat = store.view(-1)",
    ),
    "kept in a list": turns("store[0] = torch.ones(3) * turn", "flat = store.view(-1)", "kept.append(flat)"),
    "read by a function": "import torch\n\nout = []\n\n\ndef show():\n    out.append(float(flat.sum()))\n\n\n"
    + turns("store[0] = torch.ones(3) * turn", "if turn: show()", "flat = store.view(-1)").removeprefix("import torch"),
    "added to a list": turns("store[0] = torch.ones(3) * turn", "flat = store.view(-1)", "kept += [flat]"),
    "in a container": turns(
        "store[0] = torch.ones(3) * turn", "if turn: out.append(float(kept['a'].sum()))", "kept = dict(a=store)"
    ),
    "a view by a function": turns(
        "store[0] = torch.ones(3) * turn", "if turn: out.append(float(flat.sum()))", "flat = torch.flatten(store)"
    ),
    "read by the same statement": HEAD + "flat = store.view(-1)\nprint(store.add_(1), flat)\n",
    "read in a block": HEAD + "flat = store.view(-1)\nif store.add_(1).sum() > 0:\n    print(flat)\n",
    "on one line": HEAD + "flat = store.view(-1)\nstore.add_(1); print(flat)\n",
    "given to an object": turns("store[0] = torch.ones(3)", "flat = store.view(-1)", "kept.__iadd__([flat])"),
}


@pytest.mark.parametrize("name", EQUAL)
def test_what_nothing_else_sees_is_changed(name: str) -> None:
    made = rewritten.clean(EQUAL[name])
    theirs, ours = rewritten.executed(EQUAL[name]), rewritten.executed(made.text)
    np.testing.assert_allclose(ours["out"], theirs["out"], rtol=1e-6)


@pytest.mark.parametrize("name", REFUSED)
def test_what_another_name_sees_is_refused(name: str) -> None:
    found = rewritten.fresh(REFUSED[name]).report.diagnostics
    assert "MIG303" in {one.code for one in found}


IN_A_MODULE = """import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop, self.flat = nn.Dropout(0.0), nn.Identity()
        self.scale = nn.Parameter(torch.tensor([[1.0], [2.0], [3.0]]))

    def forward(self, x):
        BODY


x = torch.arange(9.0).reshape(3, 3) / 7
model = Model()
out = model(x)
before = x.sum().item()
"""
FORWARD = {
    "sizes are no memory": (
        "h = x * self.scale",
        "n, size = h.size(0), h.size()[1:]",
        "h += torch.ones(size)",
        "return h.sum(1) * n",
    ),
    "a view whose tensor nobody reads": (
        "made = x * self.scale",
        "h = made.transpose(0, 1)",
        "if n := len(x):",
        "    h += x[:1] * n",
        "return self.drop(h).tril()",
    ),
    "a part and the whole, read before": (
        "made = torch.tanh(x)",
        "total = made.sum()",
        "row = made[0]",
        "row *= 3",
        "return row + total",
    ),
}
SEEN = {
    "the tensor of a view is read": ("made = x * 2", "h = made.t()", "h += 1", "return made + h"),
    "a layer that gives back what it is given": ("h = self.flat(x)", "h += 1", "return h"),
    "an argument": ("h = x.t()", "h += 1", "return h"),
    "a weight": ("h = self.scale.t()", "h += 1", "return h"),
    "kept in a list": ("made = x * 2", "all = [made]", "h = made.t()", "h += 1", "return h + all[0]"),
    "read in the next turn": (
        "made = x * 2",
        "for _ in range(2):",
        "    h = made.t()",
        "    h += 1",
        "return h",
    ),
}


def module(lines: tuple[str, ...]) -> str:
    return IN_A_MODULE.replace("BODY", "\n        ".join(lines))


@pytest.mark.parametrize("lines", FORWARD.values(), ids=FORWARD)
def test_in_a_forward_pass(lines: tuple[str, ...]) -> None:
    theirs, ours = rewritten.both(module(lines))
    np.testing.assert_allclose(ours["out"], theirs["out"].detach(), rtol=1e-6)
    assert ours["before"] == pytest.approx(theirs["before"])


@pytest.mark.parametrize("lines", SEEN.values(), ids=SEEN)
def test_what_somebody_sees_in_a_forward_pass_is_refused_or_torchs(lines: tuple[str, ...]) -> None:
    made = rewritten.conversion(module(lines))
    if made.report.exit_code == 0:
        theirs, ours = rewritten.executed(module(lines)), rewritten.executed(made.text)
        np.testing.assert_allclose(ours["out"], theirs["out"].detach(), rtol=1e-6)
        assert ours["before"] == pytest.approx(theirs["before"])
    else:
        assert {found.code for found in made.report.diagnostics} & {"MIG303"}
