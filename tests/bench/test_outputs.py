"""Digests of outputs: the same for the same input, another one for another."""

from pathlib import Path

import pytest

from tests.bench import outputs


def test_a_digest_changes_with_the_output_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script.py"
    said = []
    for text in ("torch.ones(2)", "torch.ones(2)", "torch.ones(3)"):
        script.write_text(f"import torch\n\nx = {text}\n")
        outputs.main([str(tmp_path)])
        said.append(capsys.readouterr().out)
    assert said[0] == said[1] != said[2]
