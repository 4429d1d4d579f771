"""Weights by torch's names, in both frameworks: the golden script of that name, executed."""

from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path

import flax.linen as nn
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.snippets.state_dict import state_dict
from migrate.snippets.with_state_dict import with_state_dict

GOLDEN = Path(__file__).parents[1] / "golden" / "weights_by_name"


class TinyModel:
    """The other library's: its linear layers are stored the other way round, and it counts."""

    @staticmethod
    def from_pretrained(size: int) -> TinyModel:
        return TinyModel()

    def state_dict(self) -> dict[str, torch.Tensor]:
        random = torch.Generator().manual_seed(3)
        shapes = {"tokens.weight": (32, 8), "positions.weight": (16, 8), "norm.counter": ()}
        for block in range(2):
            names = ("norm.weight", "norm.bias", "linear.weight")
            shapes |= {f"blocks.{block}.{name}": (8, 8) if name == "linear.weight" else (8,) for name in names}
        made = {name: torch.randn(shape, generator=random) for name, shape in shapes.items()}
        return {**made, "head.weight": made["tokens.weight"]}


def test_the_script_says_the_same(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    library = types.ModuleType("checkpoints_of_others")
    library.TinyModel = TinyModel  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "checkpoints_of_others", library)
    with torch.random.fork_rng():
        theirs = runpy.run_path(str(GOLDEN / "before.py"))
    *names, total = capsys.readouterr().out.splitlines()
    ours = runpy.run_path(str(GOLDEN / "after.py"))
    *our_names, our_total = capsys.readouterr().out.splitlines()
    assert our_names == names and len(names) == 9
    value = torch.as_tensor(float(total.partition("(")[2].partition(",")[0]))
    rounded = 12 * 32 * 2**-24  # a sum of so many logits in float32, in an order that each framework chooses
    torch.testing.assert_close(torch.as_tensor(float(our_total)), value, rtol=rounded, atol=0)
    assert ours["model"].config.length == theirs["model"].config.length == 6
    assert ours["params"]["positions"]["embedding"].shape == (6, 8)


NAMES = {"b.{0}.weight": ("b_{0}/kernel", (1, 0)), "b.{0}.bias": ("b_{0}/bias", None), "tied": ("b_0/bias", None)}


def _params() -> dict[str, dict[str, jnp.ndarray]]:
    return {f"b_{i}": {"kernel": jnp.full((2, 3), float(i)), "bias": jnp.full(3, float(i))} for i in (10, 2, 0)}


def test_names_come_in_torchs_order() -> None:
    """By number, not as text, and the weights of one module together."""
    names = [f"b.{i}.{kind}" for i in (0, 2, 10) for kind in ("weight", "bias")]
    assert list(state_dict(_params(), NAMES)) == [*names, "tied"]


class _Masked(nn.Module):
    def setup(self):
        self.table, self.blocks = nn.Embed(4, 2), [_Block(), _Block()]

    def __call__(self, x):
        return self.table(x)


class _Block(nn.Module):
    def setup(self):
        self.mask = jnp.tril(jnp.ones((2, 2)))


def test_constants_are_among_the_weights() -> None:
    """Read where they are, and never put anywhere."""
    names = {"table.weight": ("table/embedding", None), "blocks.{0}.mask": None, "absent.mask": None}
    model, params = _Masked(), {"table": {"embedding": jnp.zeros((4, 2))}}
    weights = state_dict(params, names, model)
    assert list(weights) == ["table.weight", "blocks.0.mask", "blocks.1.mask"]
    np.testing.assert_array_equal(weights["blocks.1.mask"], [[1, 0], [1, 1]])
    assert with_state_dict(params, weights, names, model).keys() == {"table"}
    with pytest.raises(ValueError, match="is a constant of the model"):
        with_state_dict(params, {**weights, "blocks.0.mask": jnp.ones((2, 2))}, names, model)


def test_one_name_of_a_tied_weight_is_enough() -> None:
    weights = state_dict(_params(), NAMES)
    weights["tied"] = jnp.ones(3)
    np.testing.assert_array_equal(with_state_dict(_params(), weights, NAMES)["b_0"]["bias"], np.ones(3))
    weights["b.0.bias"] = jnp.full(3, 2.0)
    with pytest.raises(ValueError, match="tied is one weight with another"):
        with_state_dict(_params(), weights, NAMES)


@pytest.mark.parametrize(
    ("change", "error"), [({"b.0.bias": jnp.ones(4)}, ValueError), ({"other": jnp.ones(3)}, KeyError)]
)
def test_what_does_not_fit_is_refused(change: dict[str, jnp.ndarray], error: type[Exception]) -> None:
    """As torch's load_state_dict does."""
    with pytest.raises(error):
        with_state_dict(_params(), {**state_dict(_params(), NAMES), **change}, NAMES)
