"""Turns of a loop that are given up where a loss is not finite: the step of such a turn is not made."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

HEAD = f"""import math
{rewritten.NET}net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
losses, total = [], 0.0
xs = [torch.ones(2, 4), torch.full((2, 4), float("nan")), torch.ones(2, 4), torch.ones(2, 4)]
"""
BACK = """optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""
SKIP = """if torch.isnan(loss):
        continue
    """
LOOPS = {
    "continue": SKIP + BACK,
    "of a number": f"""value = loss.item()
    if not math.isfinite(value):
        continue
    total += value
    {BACK}""",
    "break": f"""if not torch.isfinite(loss).all():
        print("stop")
        break
    {BACK}""",
    "what follows the test": f"""{SKIP}total = total + loss.item()
    {BACK}""",
    "two tests": f"""{SKIP}if loss.item() < 4:
        break
    {BACK}""",
    "cleared first": SKIP + BACK.partition("\n    ")[2],
    "behind the pass": f"""optimizer.zero_grad()
    loss.backward()
    {SKIP}optimizer.step()
    losses.append(loss.item())
""",
    "cleared last": f"{SKIP}{BACK.partition('    ')[2]}    optimizer.zero_grad()\n",
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_turn_that_is_given_up_makes_no_step(name: str) -> None:
    first = "optimizer.zero_grad()\n    " if name == "cleared first" else ""
    text = f"{HEAD}for x in xs:\n    {first}loss = (net(x) ** 2).mean()\n    {LOOPS[name]}y = net(torch.ones(1, 4))\n"
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)
    np.testing.assert_allclose(ours["y"], theirs["y"].detach(), rtol=1e-5)
    assert ours["total"] == pytest.approx(theirs["total"], rel=1e-5)


def test_so_it_does_in_functions() -> None:
    text = f"""{HEAD}

def step(x):
    loss = (net(x) ** 2).mean()
    if torch.isnan(loss):
        return None
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


for x in xs:
    value = step(x)
    losses.append(0.0 if value is None else value)
"""
    theirs, ours = rewritten.both(text)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=1e-5)


REFUSED = {
    "within a try": f"""try:
        if math.isnan(loss.item()):
            continue
    finally:
        total += 1
    {BACK}""",
    "gradients are read": f"{SKIP}{BACK}print(net.fc.weight.grad is None)\n",
    "no gradients are cleared": f"{SKIP}loss.backward()\n    optimizer.step()\n",
    "what the loss needs follows": f"{SKIP}loss = loss * 2\n    {BACK}",
}


@pytest.mark.parametrize("name", REFUSED)
def test_others_are_told(name: str) -> None:
    made = rewritten.conversion(f"{HEAD}for x in xs:\n    loss = (net(x) ** 2).mean()\n    {REFUSED[name]}")
    told = [one.message for one in made.report.diagnostics if one.code == "MIG401"]
    assert any("gives up the turn ahead of backward()" in one or "leaves the loop" in one for one in told), told
