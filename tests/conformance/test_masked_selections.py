"""What jit can follow of a selection by a boolean mask, whose own shape depends on the data: in both frameworks."""

from __future__ import annotations

import pytest

from tests.conformance import run_example
from tests.conformance.examples import parse
from tests.conformance.rewritten import clean, fresh

# torch, its inputs, and what is to be read in the output
FOLLOWED = [
    ("x[x > 0].sum()", "x: f32[3, 4]", "x.sum(where=x > 0)"),
    ("torch.mean(x[y > 2])", "x: f32[3, 4]; y: idx4[3]", "masked_mean(x, y > 2)"),
    ("x[~y].sum()", "x: f32[3, 4]; y: bool[3]", "masked_sum(x, ~y)"),
    ("x.view(3, 4).masked_select(y.view(3, 4) > 1).sum()", "x: f32[3, 4]; y: idx4[3, 4]", ".sum(where=y.reshape("),
    ("torch.masked_select(x.view(3, 4), y.view(3, 1) > 1).mean()", "x: f32[3, 4]; y: idx4[3, 1]", ".mean(where="),
    ("(x > 0).masked_select(x < z).sum()", "x: f32[3, 4]; z: f32[4]", "jnp.where(x < z, x > 0, 0).sum()"),
    ("torch.sum(x.masked_select(y > 1))", "x: f32[3, 4]; y: idx4[4]", "jnp.where(y > 1, x, 0).sum()"),
    ("x.masked_select(y > 1).sum()", "x: f32[4]; y: idx4[3, 4]", "jnp.where(y > 1, x, 0).sum()"),
    ("(x[(y > 1) & (y < 3)] * 2 - 1).abs().sum()", "x: f32[3, 4]; y: idx4[3]", "masked_sum("),
    ("(x - z)[x > 0].clamp(min=0.1).mean()", "x: f32[3, 4]; z: f32[3, 4]", "masked_mean(clamp("),
    ("x.exp()[y > 1].max()", "x: f32[3, 4]; y: idx4[3]", "masked_max(jnp.exp(x), y > 1)"),
    ("torch.min(x.exp()[x.exp() > 1])", "x: f32[3, 4]", "jnp.exp(x).min(where=jnp.exp(x) > 1, initial=jnp.inf)"),
    ("F.mse_loss(x.view(3, 4)[y > 1], z.view(3, 4)[y > 1])", "x: f32[3, 4]; z: f32[3, 4]; y: idx4[3]", None),
    ("F.cross_entropy(x[y != 3], y[y != 3])", "x: f32[2, 5, 4]; y: idx4[2, 5]", "jnp.where(y == 3, -100, y)"),
    ("F.cross_entropy(x[y > 0], y[y > 0], reduction='sum')", "x: f32[5, 4]; y: idx4[5]", "where(~(y > 0), -100, y)"),
]  # fmt: skip
PUT = """import torch
import torch.nn as nn


class M(nn.Module):
    def forward(self, x, z):
        x = x * 1
        x[x > 1] = x[x > 1] * z.mean()
        x[x < 0] = x.mean()
        return x
"""
DECLINED = [
    ("x[y > 1]", "x: f32[3, 4]; y: idx4[3]"),
    ("x.masked_select(y > 1).mean()", "x: f32[3, 4]; y: idx4[4]"),
    ("x.masked_select(y > 1).max()", "x: f32[3, 4]; y: idx4[3, 4]"),
    ("x[y > 1].max()", "x: f32[3, 4]; y: idx4[3]"),  # of integers there is no infinity to start from
    ("x[~y]", "x: f32[3, 4]; y: bool[3]"),
    ("(x[y > 1] * z).sum()", "x: f32[3, 4]; y: idx4[3]; z: f32[4]"),  # z may have as many rows as are selected
    ("(x[y > 1] - z[y > 1]).sum()", "x: f32[3, 4]; y: idx4[3]; z: f32[3, 1]"),  # axes that are not known
    ("(x[y > 1] * x[y > 2]).sum()", "x: f32[3, 4]; y: idx4[3]"),
    ("x[y > 1].cumsum(0).sum()", "x: f32[3, 4]; y: idx4[3]"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "inputs", "written"), FOLLOWED, ids=[text for text, _, _ in FOLLOWED])
def test_what_a_selection_comes_down_to(text: str, inputs: str, written: str | None, float64: None) -> None:
    (made,) = parse(f">>> {text}  # {inputs}\n?\n")
    output = clean(made.source()).text
    assert written is None or written in output
    found = run_example.check(made, output, "float64", eager=False)
    assert not found, "\n".join(difference.what for difference in found)


def test_what_is_put_where_a_mask_is_true(float64: None) -> None:
    (made,) = parse(">>> ?  # x: f32[3, 4]; z: f32[3, 4]\n?\n")
    object.__setattr__(made, "source", lambda: PUT)
    assert not run_example.check(made, clean(PUT).text, "float64", eager=False)


@pytest.mark.parametrize(("text", "inputs"), DECLINED, ids=[text for text, _ in DECLINED])
def test_what_keeps_a_shape_of_the_data_is_declined(text: str, inputs: str) -> None:
    (made,) = parse(f">>> {text}  # {inputs}\n?\n")
    (found,) = fresh(made.source()).report.diagnostics
    assert found.code == "MIG302" and ("boolean mask" in found.message or "masked_select has a" in found.message)


def test_a_function_that_a_traced_one_calls_is_traced() -> None:
    source = """import torch
import torch.nn as nn


def kept(x):
    return x[x > 0]


class M(nn.Module):
    def forward(self, x):
        return kept(x).sum()
"""
    found = fresh(source).report.diagnostics[0]
    assert found.code == "MIG302" and found.line == 6
