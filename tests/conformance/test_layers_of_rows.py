"""Layers that a script makes, fills and puts into an `nn.Sequential`, where each has a name of its own."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = """import torch

first = torch.nn.Linear(4, 5, bias=True)
second = torch.nn.Linear(5, 3)  # the last one
act, drop = torch.nn.Tanh(), None
relu = torch.nn.ReLU()
torch.nn.init.constant_(first.weight, 0.25)
torch.nn.init.zeros_(first.bias)
second.weight.data.fill_(-0.5)

# the model
model = torch.nn.Sequential(first, relu, second, relu)
torch.nn.init.constant_(second.bias, 1.5)
x = torch.linspace(-1, 2, 12).reshape(3, 4).cos()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for step in range(4):
    optimizer.zero_grad()
    loss = (model(x) - 0.3).pow(2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
IN_A_FUNCTION = re.sub(r"^(?=[^i\n])", "    ", TEXT.partition("\n\n")[2], flags=re.M)
FORMS = {
    "at module level": TEXT,
    "in a function": f"import torch\n\n\ndef main():\n{IN_A_FUNCTION}    return losses\n\n\nlosses = main()\n",
    "an activation in two rows": TEXT.replace(
        "# the model", "other = torch.nn.Sequential(torch.nn.Linear(4, 2), relu)"
    ),
    "placed": TEXT.replace("second, relu)", "second, relu).to(torch.device('cpu'))"),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_the_row_is_trained_alike(text: str) -> None:
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)  # float32, four steps
    made = rewritten.clean(text).text
    assert "# the last one" in made and "first" not in made and "relu =" not in made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(first, relu, second, relu)", "(first, relu, second, relu, second)"),  # one layer in two places
        ("losses = []", "losses = [first(x).sum().item()]"),
        ("losses = []", "losses = []\nfirst = second"),
        ("losses = []", "losses = []\nfor second in (1, 2):\n    pass"),
    ],
)
def test_a_layer_with_another_use_is_not_written_there(old: str, new: str) -> None:
    wide = TEXT.replace("Linear(5, 3)", "Linear(5, 5)")
    assert old in wide
    assert rewritten.conversion(wide.replace(old, new)).report.exit_code == 1
