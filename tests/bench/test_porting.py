"""The measurement of ports works, small: memory stays bounded, and a copy is measured beside it."""

import json

import pytest

from migrate import manifest as manifests
from tests.bench import porting


def test_a_sharded_sparse_checkpoint_in_little_memory(tmp_path, capsys):
    assert porting.huge(tmp_path, 0.01)
    assert "GB in 1 GB" in capsys.readouterr().out
    index = json.loads((tmp_path / "model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 1


@pytest.mark.parametrize("target", ["o.msgpack", "o"])
def test_memory_does_not_grow_with_the_tensors(tmp_path, target):
    """A matrix of 256 MB, transposed, compared, turned back and compared, within 200 MB."""
    keys = {"lm_head.weight": (32_000, 4096), "model.norm.weight": (4,)}
    porting.write_safetensors(tmp_path, keys, "BF16", 2, sparse=True)
    weights = manifests.dumps(porting.manifest(keys))
    index = tmp_path / "model.safetensors.index.json"
    found = porting.measure(porting.THERE_AND_BACK, index, tmp_path / target, weights, 4 * 10**8)
    assert 0 < found["anonymous"] <= porting.LIMIT_ANONYMOUS
