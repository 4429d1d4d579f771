"""Arrays that `.numpy()` gives and the script changes in place: the output has a copy, since JAX's are read-only. Where
the tensor is used further on, torch changes that as well, and the script is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = """import random
import numpy as np
import torch


def scores(x):
    return torch.sin(x) * 3 + x


x = torch.linspace(-2, 2, 6).reshape(2, 3)
"""
CHANGED = {
    "added to": "found = scores(x).numpy()\nfound += 0.5",
    "an entry": "found = scores(x).detach().cpu().numpy()\nfound[0] = 7.0",
    "an entry of an entry": "found = scores(x).numpy()\nfound[0][1:] *= 2",
    "a mask": "found = scores(x).numpy()\nfound[found > 1] = 1",
    "sorted": "found = scores(x).data.numpy()\nfound.sort()",
    "out": "found = scores(x).numpy()\nnp.clip(found, -1, 1, out=found)",
    "a function of numpy's": "found = scores(x).numpy()\nnp.fill_diagonal(found, 0.0)",
    "a view": "found = scores(x).numpy()\nrow = found[0]\nrow += 1",
    "of a view": "found = scores(x).numpy().reshape(-1)[1:]\nfound *= 2",
    "rows": "found = []\nfor row in scores(x).numpy():\n    row += 1\n    found.append(row)",
    "two": "found, other = scores(x).numpy(), scores(2 * x).numpy()\nfound += other\nother -= 1",
    "a sum": "found = scores(x).sum().numpy()\nfound += 1",
    "a name that is said no more": "y = scores(x)\nfound = y.numpy()\nfound += 1",
    "the name of the tensor": "found = scores(x)\nfound = found.numpy()\nfound += 1",
    "the name of a row": """found = 0
for row in scores(x):
    row = row.numpy()
    row *= 2
    found = found + row""",
    "a function": """def act(x, noise=0.5):
    a = scores(x).numpy()
    if noise:
        a += noise
    return a

found = act(x)""",
    "what a function returns": "def act(x):\n    return scores(x).numpy()[0]\n\nfound = act(x)\nfound += 1",
    "what a method returns": """class Agent:
    def act(self, x):
        a = scores(x).numpy()
        return a

agent = Agent()
found = agent.act(x)
found[0] = 0.0""",
    "a method": """class Agent:
    def __init__(self):
        self.last = scores(x).numpy()
        self.last += 1

    def act(self, x):
        action = scores(x).numpy()
        action += 0.25
        return action + self.last

found = Agent().act(x)""",
}


@pytest.mark.parametrize("form", CHANGED)
def test_what_is_changed_is_a_copy(form: str) -> None:
    theirs, ours = rewritten.both(f"{HEAD}{CHANGED[form]}\n")
    np.testing.assert_allclose(ours["found"], theirs["found"], rtol=1e-6)  # float32


@pytest.mark.parametrize("read", ["y", "y.sum()"])
def test_a_tensor_that_is_used_further_on_is_refused(read: str) -> None:
    source = f"{HEAD}y = scores(x)\nfound = y.detach().numpy()\nfound += 1\nprint({read})\n"
    (found,) = rewritten.conversion(source).report.diagnostics
    assert (found.code, found.line) == ("MIG303", 12) and "`found`" in found.message


def test_a_tensor_of_the_callers_is_refused() -> None:
    source = f"{HEAD}def doubled(x):\n    x = x.numpy()\n    x *= 2\n    return x\n\nfound = doubled(x)\nprint(x)\n"
    assert [one.code for one in rewritten.conversion(source).report.diagnostics] == ["MIG303"]


def test_what_is_only_read_is_none() -> None:
    text = rewritten.clean(f"{HEAD}y = scores(x)\nfound = y.numpy()\nfound = found + 1\n").text
    assert "np.asarray(y)" in text and "np.array(" not in text


def test_the_scripts_own_arrays_stay_what_they_are() -> None:
    own = "rows = [[1.0, 2.0]]\nfound = np.asarray(rows)\nfound += 1\nother = np.asarray(found)\nother += 1\n"
    theirs, ours = rewritten.both(f"{HEAD}{own}y = scores(x).numpy()\n")
    assert ours["found"].tolist() == theirs["found"].tolist() == [[3.0, 4.0]]
