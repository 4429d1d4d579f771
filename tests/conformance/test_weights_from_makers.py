"""Functions that make models and read weights for them, in both frameworks: the golden script of that name."""

from __future__ import annotations

import runpy
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest
import torch

GOLDEN = Path(__file__).parents[1] / "golden" / "weights_from_makers"


class Published:
    """Weights of another package's: torch's, under torch's names."""

    def __init__(self, weights: dict[str, torch.Tensor]) -> None:
        self.weights = weights

    def get_state_dict(self, progress: bool) -> dict[str, torch.Tensor]:
        return self.weights


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[dict, dict]:
    library = types.ModuleType("checkpoints_of_others")
    library.Published = Published  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "checkpoints_of_others", library)
    return runpy.run_path(str(GOLDEN / "before.py")), runpy.run_path(str(GOLDEN / "after.py"))


def test_weights_of_torchs_come_with_the_model(scripts: tuple[dict, dict], monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, ours = scripts
    with torch.random.fork_rng():
        torch.manual_seed(2)
        model = theirs["Classifier"](8, 2).eval()
        for name, buffer in model.named_buffers():
            if name.endswith("running_var"):
                buffer.uniform_(0.5, 2.0)
            elif name.endswith("running_mean"):
                buffer.normal_()
        x = torch.randn(5, 4)
    expected = model(x).detach().numpy()
    weights = model.state_dict()
    parallel = {f"module.{name}": weight for name, weight in weights.items()}
    monkeypatch.setattr(torch.hub, "load_state_dict_from_url", lambda url, map_location: parallel)
    for params, stats, made in (
        ours["small_classifier"](Published(weights)),
        ours["deep_classifier"](weights),
        ours["classifier_of_the_web"](pretrained=True, width=8, depth=2),
    ):
        assert made.depth == 2
        given = made.apply({"params": params, "batch_stats": stats}, x.numpy())
        np.testing.assert_allclose(given, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(KeyError, match=r"tail\.weight is no weight"):
        ours["deep_classifier"]({**weights, "tail.weight": weights["head.weight"]})


def test_weights_that_no_one_read_are_made_by_the_caller(
    scripts: tuple[dict, dict], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _, ours = scripts
    params, stats, model = ours["small_classifier"]()
    assert params is None and stats is None and model.width == 8
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["train"])
    ours["main"]()
    saved, _ = ours["autoencoder"](2, "autoencoder.pt")
    monkeypatch.setattr(sys, "argv", ["train", "autoencoder.pt"])
    ours["main"]()
    again, _ = ours["autoencoder"](2, "autoencoder.pt")
    changed = jax.tree.map(lambda a, b: float(abs(a - b).max()), saved, again)
    assert max(jax.tree.leaves(changed)) > 0  # it went on from there: made anew from the same key, nothing would change
