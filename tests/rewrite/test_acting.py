"""Outputs that a script keeps while acting: what makes it wrong to compute them again is refused, and says why."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = (Path(__file__).parents[1] / "golden" / "acting_in_place" / "before.py").read_text(encoding="utf-8")
TERMS, EPS = 16, float(np.finfo(np.float32).eps)  # sums of at most seven numbers, some of the other sign
MORE = "        policy_loss = sum(-log_prob * G for log_prob, G in zip(log_probs, returns))\n"
LOOP = (
    "        policy_loss, weight = 0, 1.0\n"
    "        for log_prob, G in zip(log_probs, returns):\n"
    "            policy_loss = policy_loss - log_prob * G * weight\n"
)


def findings(text: str) -> list[str]:
    """The messages about a script that is changed."""
    assert text != SCRIPT
    return [found.message for found in convert(parse("t.py", text)).report.diagnostics]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "        G = 0\n",
            "        aux = policy(torch.ones(4)).sum()\n        optimizer.zero_grad()\n        aux.backward()\n"
            "        optimizer.step()\n        G = 0\n",
            "`optimizer.step()` may change its weights before the loss",
        ),
        (
            "            log_probs.append(dist.log_prob(action))\n            entropies.append(dist.entropy())\n"
            "            state, reward, done = env.step(action.item())\n",
            "            state, reward, done = env.step(action.item())\n"
            "            log_probs.append(dist.log_prob(action) * state[0])\n"
            "            entropies.append(dist.entropy())\n",
            "state, which it is made of, has changed by then",
        ),
        (
            MORE,
            f"        print(log_probs[0].item())\n{MORE}",
            "`print(log_probs[0].item())` reads what was kept",
        ),
        (MORE, f"{LOOP}            weight = weight * 0.9\n", "weight goes from turn to turn"),
        (
            MORE,
            LOOP.replace("* weight", "* last").replace("weight", "last") + "            last = G\n",
            "last goes from turn to turn",
        ),
        ("        log_probs, rewards = [], []\n", "        rewards = []\n", "log_probs is not empty after the update"),
        ("        G = 0\n", "        policy.eval()\n        G = 0\n", "runs in another mode than while acting"),
        (
            "dist.log_prob(action))",
            "scaled(dist.log_prob(action)))\n            scale = scale * 0.9",
            "scaled(), which computes it, reads what may have changed",
        ),
        ("nn.Dropout(0.3)", "nn.BatchNorm1d(16)", "its model changes its statistics"),
        ("dist.log_prob(action))", "dist.log_prob(dist.sample()))", "draws, which acting"),
    ],
)
def test_what_would_differ_is_refused(old: str, new: str, reason: str) -> None:
    text = SCRIPT.replace(old, new)
    if reason.startswith("log_probs is not empty"):
        text = text.replace("    for episode", "    log_probs = []\n    for episode")
    if reason.startswith("scaled"):
        text = text.replace("def train(", "scale = 1.0\n\n\ndef scaled(x):\n    return x * scale\n\n\ndef train(")
        text = text.replace("    for episode in", "    global scale\n    for episode in")
    if reason.startswith("runs in"):
        text = text.replace("        state, done = env", "        policy.train()\n        state, done = env")
    assert any(reason in message for message in findings(text)), findings(text)


def test_what_is_computed_again_is_what_was_computed_while_acting(capsys: pytest.CaptureFixture[str]) -> None:
    """With the key of its dropout: the loss is minus the sum of what acting has printed."""
    loss = "        loss = -torch.stack(log_probs).sum()\n"
    start, end = SCRIPT.index("        G = 0\n"), SCRIPT.index("        optimizer.zero_grad()")
    told = "def told(dist, action):\n    return dist.log_prob(action).item()\n\n\n"
    text = f"{SCRIPT[:start]}{loss}{SCRIPT[end:]}".replace("def train(", f"{told}def train(")
    text = text.replace("            entropies.append(dist.entropy())\n", "            print(told(dist, action))\n")
    text = text.replace("{loss.item():.4f}", "{loss.item():.7f}")
    made = convert(parse("t.py", text))
    assert not made.report.diagnostics
    names: dict[str, Any] = {"__name__": __name__}  # dataclasses look their module up
    exec(compile(made.text, "t.py", "exec"), names)
    total = 0.0
    compared = 0
    for line in capsys.readouterr().out.splitlines():
        if ": " in line:
            np.testing.assert_allclose(-float(line.partition(": ")[2]), total, rtol=TERMS * EPS)
            total, compared = 0.0, compared + 1
        else:
            total += float(line)
    assert compared == 6 and re.search(r"rngs=\{\"dropout\": key\}", made.text)


ROLLOUTS = (Path(__file__).parents[1] / "golden" / "rollouts" / "before.py").read_text(encoding="utf-8")
ADDED = "        entropy += choice.entropy().mean()\n"


def rollouts(old: str, new: str) -> list[str]:
    """The messages about the rollouts with something changed."""
    assert old in ROLLOUTS
    return [found.message for found in convert(parse("t.py", ROLLOUTS.replace(old, new))).report.diagnostics]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    entropy = 0.0\n", "    entropy = 0.1\n"),  # not a sum of terms alone
        ("        entropy += ", "        entropy = 0.5 * entropy + "),
        (ADDED, ADDED.replace("+=", "-=")),
        (ADDED, ADDED + ADDED),
        ("        values.append(value)\n", "        values.append(value)\n        print(entropy)\n"),
        ("    return rewarded\n", "    return rewarded + 0 * float(entropy)\n"),  # another function reads it
    ],
)
def test_sums_that_are_more_than_their_terms_are_refused(old: str, new: str) -> None:
    assert any("the loss takes values out of JAX" in message for message in rollouts(old, new)), rollouts(old, new)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "    values = values + [last]\n",
            "    values.append(last)\n",
            "reads what was kept in another way",  # the function adds to the list itself
        ),
        ("    values = torch.stack(values)\n", "    values = torch.stack(values[:-1])\n", "in another way"),
        ("        log_prob = choice", "        push = push + 0\n        log_prob = choice", ""),
        (
            "        log_probs.append(log_prob)\n",
            "        seen_now = seen\n        log_probs.append(log_prob * torch.as_tensor(seen_now).mean())\n",
            "has changed by then",
        ),
        (
            "        log_probs.append(log_prob)\n",
            "        if strayed.all():\n            break\n        log_probs.append(log_prob)\n",
            "has changed by then",  # whose inputs are not kept ahead of a way out
        ),
    ],
)
def test_what_rollouts_keep_is_computed_again_or_refused(old: str, new: str, reason: str) -> None:
    found = rollouts(old, new)
    assert any(reason in message for message in found) if reason else not found, found


def test_lists_of_the_same_turns_have_their_inputs_once() -> None:
    """Of three that are read by a loss, one keeps what was seen; one of other turns has it for itself."""
    made = convert(parse("t.py", ROLLOUTS)).text
    assert "log_probs.append((seen, push))" in made
    assert "values.append" not in made and "entropies.append" not in made
    step = "        seen, reward, strayed"
    apart = ROLLOUTS.replace("        values.append(value)\n", "")
    apart = apart.replace(step, f"        if turn:\n            values.append(value)\n{step}")
    made = convert(parse("t.py", apart)).text
    assert "values.append(seen)" in made and "log_probs.append((seen, push))" in made


@pytest.mark.parametrize(
    ("told", "gone"),
    [("choice.log_prob(push)", True), ("torch.neg(-choice.log_prob(push))", True), ("scored(choice, push)", False)],
)
def test_what_only_a_list_has_read_goes_unless_it_may_do_more(told: str, gone: bool) -> None:
    """A function of the script's own may count, or print."""
    text = ROLLOUTS.replace("choice.log_prob(push)", told)
    text = text.replace("def score(", "def scored(choice, push):\n    return choice.log_prob(push)\n\n\ndef score(")
    made = convert(parse("t.py", text))
    assert not made.report.diagnostics
    turn = made.text[made.text.index("for turn in range(6)") : made.text.index("log_probs.append")]
    assert ("log_prob = " not in turn) is gone, turn


def test_what_is_still_asked_of_a_list_keeps_it() -> None:
    counted = ROLLOUTS.replace("    if update % 4", "    print(len(values))\n    if update % 4")
    made = convert(parse("t.py", counted))
    assert not made.report.diagnostics
    assert "print(len(values))" in made.text and "values.append(seen)" in made.text
