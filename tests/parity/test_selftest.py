"""The gate's own test: mistakes are caught, correct ports pass; and the thresholds of its peers beside it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parity import gate_cli, judge, peers, selftest
from parity.selftest import CORRECT, MISTAKES, Tried
from parity.selftest_models import Port

CLEAR = 100.0  # how far beyond its limit the weakest mistake must stand: a gate that just notices is luck


@pytest.fixture(scope="module")
def tried() -> list[Tried]:
    return list(selftest.run())


def test_all_mistakes_are_caught_and_all_correct_ports_pass(tried: list[Tried]) -> None:
    assert len(tried) == len(MISTAKES) + len(CORRECT)
    assert {one.name: [c.message for c in one.findings] for one in tried if not one.as_expected} == {}


def test_there_are_enough_of_both_and_each_is_another() -> None:
    assert len(MISTAKES) >= 25 and len(CORRECT) >= 4
    assert len({repr(port) for _, port in MISTAKES.values()}) == len(MISTAKES)
    assert Port() not in [port for _, port in MISTAKES.values()]


def test_no_mistake_is_caught_by_a_hair(tried: list[Tried]) -> None:
    margins = {one.name: one.clearest.value / one.clearest.limit for one in tried if one.clearest and not one.correct}
    assert {name: margin for name, margin in margins.items() if margin < CLEAR} == {}


def test_a_forward_mistake_is_found_in_the_forward_pass_and_an_optimizers_in_the_weights(tried: list[Tried]) -> None:
    first = {one.name: one.findings[0].tensor for one in tried if not one.correct}
    assert first["GELU by tanh"] == "logits"
    assert first["label smoothing"] == "loss"
    assert first["optax's weight decay"].endswith("after step 1")
    assert first["the biased running variance"] == "norm.running_var after step 1"


def test_the_command_fails_where_a_mistake_is_missed(
    tried: list[Tried], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(selftest, "run", lambda: iter(tried))
    assert gate_cli.self_test() == 0
    assert f"{len(MISTAKES)} of {len(MISTAKES)} mistakes caught" in capsys.readouterr().out
    blind = Tried("a mistake", "gpt", False, (), {}, {})
    monkeypatch.setattr(selftest, "run", lambda: iter([*tried, blind]))
    assert gate_cli.self_test() == 1
    assert "missed: a mistake" in capsys.readouterr().out


def test_peers_thresholds() -> None:
    random = np.random.RandomState(0)
    logits = np.float32(random.standard_normal((40, 10)))
    permuted = logits[::-1].copy()
    finding = judge.undecided("s", "jit", "logits", "")
    tried = [
        Tried("the same", "gpt", True, (), {"logits": logits}, {"logits": logits.copy()}),
        Tried("rows in another order", "gpt", False, (finding,), {"logits": logits}, {"logits": permuted}),
    ]
    scores = {score.gate: (score.caught, score.alarms) for score in peers.scores(tried)}
    assert scores["PaDiff, README, means, atol 1e-4"] == (0, 0)  # a mean does not see an order
    assert scores["torch.testing.assert_close"] == (1, 0)
    assert scores["MaxText, KL below 0.015"] == (1, 0)
    ours = peers.scores(tried)[-1]
    assert (ours.gate, ours.caught_everywhere, ours.alarms_everywhere) == ("migrate gate", 1, 0)


def test_the_workflows_command_is_the_one_that_is_tested() -> None:
    makefile = (Path(__file__).parents[2] / "Makefile").read_text()
    assert "python -m parity.peers" in makefile
