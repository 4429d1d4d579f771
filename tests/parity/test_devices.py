"""Scripts whose author had a GPU, compared where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from parity.compare import compare_script
from parity.devices_torch import NOTE

pytestmark = pytest.mark.usefixtures("runs_are_forked")

MLP = Path(__file__).parent / "scripts" / "mlp"
MOVED = {
    "model = Net()": 'device = torch.device("cuda:0")\ntorch.cuda.set_device(device)\nmodel = Net().cuda().to(device)',
    "x = torch.randn(90, 8)": 'x = torch.randn(90, 8, device="cuda")',
    "inputs, targets in loader:": "inputs, targets in loader:\n        inputs, targets = inputs.to(0), targets.cuda()",
}


def test_what_would_go_to_a_gpu_stays_on_the_cpu(tmp_path: Path) -> None:
    text = (MLP / "train.py").read_text(encoding="utf-8")
    for plain, moved in MOVED.items():
        assert plain in text
        text = text.replace(plain, moved)
    text += 'torch.save(model.state_dict(), "weights.pt")\ntorch.cuda.synchronize()\n'
    text += 'model.load_state_dict(torch.load("weights.pt", map_location="cuda"))\n'
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    files = tmp_path / "train.py", MLP / "train_jax.py"
    result = compare_script(*files, MLP / "weights.json", steps=20, perturbed_runs=0, float64=False)
    assert result.exit_code == 0, (result.first_difference, result.errors)
    assert NOTE in result.notes


def test_scripts_for_the_cpu_have_no_such_note() -> None:
    files = MLP / "train.py", MLP / "train_jax.py"
    result = compare_script(*files, MLP / "weights.json", steps=2, perturbed_runs=0, float64=False)
    assert NOTE not in result.notes
