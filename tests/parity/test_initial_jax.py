"""Initial weights of models whose parts are replaced once they are made."""

from pathlib import Path
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from parity.codes import ParityError
from parity.initial_jax import Weights
from parity.record import Recording

MANIFEST = """{"format": "migrate-weights", "version": 1, "source": "a.py", "target": "linen", "models": [
 {"class": "Net", "leaves": [
   {"flax": "params/fc/kernel", "torch": "fc.weight", "moves": [["permute", 1, 0]], "shape": [null, null]},
   {"flax": "params/fc/bias", "torch": "fc.bias", "moves": [], "shape": [null]}], "unused": [], "ties": []}]}"""


class Net(nn.Module):
    new_fc: Any = None

    def setup(self) -> None:
        self.fc = nn.Dense(5) if self.new_fc is None else self.new_fc.copy()

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.fc(x)


def weights(tmp_path: Path, *widths: int) -> Weights:
    """Those of a torch run with a model for each width of `fc`: filled with 1, 2 and so on."""
    manifest, recording = tmp_path / "weights.json", Recording()
    manifest.write_text(MANIFEST, encoding="utf-8")
    for number, width in enumerate(widths):
        name = f"Net#{number}" if number else "Net"
        recording.models.append(name)
        recording.initial[f"{name}|fc.weight"] = np.full((width, 3), number + 1, np.float32)
        recording.initial[f"{name}|fc.bias"] = np.full(width, number + 1, np.float32)
    return Weights(str(manifest), recording)


def filled(found: Weights, module: nn.Module) -> tuple[int, float]:
    """The width of `fc`, and what its bias is filled with."""
    variables = found.initial(module, lambda: module.init(jax.random.key(0), jnp.ones((1, 3))))
    bias = np.asarray(variables["params"]["fc"]["bias"])
    return len(bias), float(bias[0])


def test_a_copy_with_new_parts_is_the_model_that_it_is_a_copy_of(tmp_path: Path) -> None:
    found = weights(tmp_path, 2)
    assert filled(found, Net()) == (5, 0)  # as it was made: torch has the new part by then
    with pytest.raises(ParityError, match="has the shape"):
        found.check(Net())
    model = Net(new_fc=nn.Dense(2))
    assert filled(found, model) == (2, 1)
    found.check(model)


def test_a_model_that_is_made_with_its_new_part_is_one_of_its_own(tmp_path: Path) -> None:
    found = weights(tmp_path, 5, 2, 2)
    assert filled(found, Net()) == (5, 1)
    assert filled(found, Net(new_fc=nn.Dense(2))) == (2, 2)
    assert filled(found, Net(new_fc=nn.Dense(2, use_bias=True, name="other"))) == (2, 3)
    found.check(Net())


def test_a_model_whose_parts_nobody_can_replace_is_refused_at_once(tmp_path: Path) -> None:
    found = weights(tmp_path, 2)
    with pytest.raises(ParityError):
        filled(found, Net(new_fc=nn.Dense(7)))
