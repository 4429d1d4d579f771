"""Arrays of numpy's that a script writes to while a tensor shares them."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

HEAD = "import numpy as np\nimport torch\n\na = np.zeros(3)\n"
NOW = "is changed in place, and in torch `t`, which shares its memory, with it"

SHARED = {
    "an entry": "t = torch.from_numpy(a)\na[0] = 5\nprint(t)\n",
    "all of it": "t = torch.from_numpy(a)\na += 5\nprint(t)\n",
    "by a method": "t = torch.from_numpy(a)\na.fill(5)\nprint(t)\n",
    "by a function": "t = torch.from_numpy(a)\nnp.random.shuffle(a)\nprint(t)\n",
    "through a view": "t = torch.from_numpy(a).view(3, 1)[1:]\na[1] = 5\nprint(t)\n",
    "of another maker": "t = torch.as_tensor(a)\na[0] = 5\nprint(t)\n",
    "in a branch": "t = torch.from_numpy(a)\nif a.sum() == 0:\n    a[0] = 5\nprint(t)\n",
    "in a loop": "t = torch.from_numpy(a)\nfor i in range(3):\n    print(t)\n    a[i] = 5\n",
    "in a function": "def f(a):\n    t = torch.from_numpy(a)\n    a[0] = 5\n    return t\n\n\nprint(f(a))\n",
}
OWN = {
    "written before": "a[0] = 5\nt = torch.from_numpy(a)\nprint(t)\n",
    "read no more": "t = torch.from_numpy(a)\nprint(t)\na[0] = 5\n",
    "another array by then": "t = torch.from_numpy(a)\na = np.ones(3)\na[0] = 5\nprint(t)\n",
    "another tensor by then": "t = torch.from_numpy(a)\nt = t * 2\na[0] = 5\nprint(t)\n",
    "made again in each turn": "for i in range(3):\n    a[i] = 5\n    t = torch.from_numpy(a)\n    print(t)\n",
    "a copy": "t = torch.tensor(a)\na[0] = 5\nprint(t)\n",
    "a copy of another type": "t = torch.from_numpy(a).float()\na[0] = 5\nprint(t)\n",
    "a tensor of its name": "a = torch.from_numpy(a)\na[0] = 5\nprint(a)\n",
    "a list": "b = [1.0, 2.0]\nt = torch.as_tensor(b)\nb[0] = 5.0\nprint(t)\n",
}


@pytest.mark.parametrize("code", SHARED.values(), ids=SHARED)
def test_a_tensor_that_would_change_with_it_is_told(code: str) -> None:
    made = rewritten.conversion(HEAD + code)
    (found,) = made.report.diagnostics
    assert (found.code, found.message) == ("MIG303", f"`a` {NOW}")
    line = (HEAD + code).splitlines()[found.line - 1]
    assert any(written in line for written in ("a[", "a +=", "fill", "shuffle"))


@pytest.mark.parametrize("code", OWN.values(), ids=OWN)
def test_others_print_what_torch_prints(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    rewritten.executed(HEAD + code)
    theirs = capsys.readouterr().out
    rewritten.executed(rewritten.clean(HEAD + code).text)
    ours = capsys.readouterr().out
    assert numbers(ours) == numbers(theirs)


def numbers(shown: str) -> list[float]:
    text = shown.replace("torch.float64", "").replace("tensor", "")
    return [float(word) for word in "".join(c if c in "0123456789.-" else " " for c in text).split()]
