"""Lists of what training steps give, that a comprehension makes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = f"""import numpy as np
{rewritten.NET}
def step(net, optimizer, x):
    loss = (net(x) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
xs, x = [torch.ones(2, 4), torch.zeros(2, 4), 2 * torch.ones(2, 4)], 5.0
CODE
"""
CODES = {
    "a list": "losses = [step(net, optimizer, x) for x in xs]",
    "turns that nobody asks": "losses = [step(net, optimizer, xs[0]) for _ in range(3)]",
    "of some": "losses = [2 * step(net, optimizer, x) for i, x in enumerate(xs) if i != 1]",
    "a sum": "losses = sum(step(net, optimizer, x) for x in xs)",
    "within calls": "losses = float(np.mean([step(net, optimizer, x) for x in xs]))",
    "in a loop": "losses = []\nfor epoch in range(2):\n    losses.append(sum([step(net, optimizer, x) for x in xs]))",
    "of a function": "def epoch():\n    return [step(net, optimizer, each) for each in xs]\n\n\nlosses = epoch()",
}


@pytest.mark.parametrize("code", CODES.values(), ids=CODES)
def test_losses_are_torchs(code: str) -> None:
    """A variable of the script's that the comprehension hides stays what it is."""
    theirs, ours = rewritten.both(SCRIPT.replace("CODE", code))
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    assert ours["x"] == 5.0


@pytest.mark.parametrize(
    "code",
    [
        "losses = any(step(net, optimizer, x) > 1 for x in xs)",
        "losses = [step(net, optimizer, x) for x in sorted(xs)] + [min(xs)]",
    ],
)
def test_where_it_may_not_be_the_same_it_is_told(code: str) -> None:
    """`any` ends early, and another call of the statement may come first."""
    made = rewritten.conversion(SCRIPT.replace("CODE", code))
    assert "MIG404" in [one.code for one in made.report.diagnostics]
