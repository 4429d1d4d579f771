"""`--checkpoints orbax`: checkpoints as folders that Orbax restores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orbax.checkpoint as ocp
import pytest
from flax import serialization

from migrate.files.source import parse
from migrate.options import CheckpointFormat, Options
from migrate.pipeline import Conversion, convert
from tests.conformance import rewritten

SCRIPT = """import os
import shutil
import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.norm = nn.BatchNorm1d(2)
        nn.init.constant_(self.fc.weight, 0.1)
        nn.init.constant_(self.fc.bias, 0.0)

    def forward(self, x):
        return self.norm(self.fc(x))


def train(epochs, path):
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    start, losses = 0, []
    if os.path.isfile(path):
        checkpoint = torch.load(path)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start = checkpoint["epoch"] + 1
        assert checkpoint["name"] == "net"
    for epoch in range(start, epochs):
        x = torch.linspace(-1, 1, 12).reshape(3, 4) ** 2 * (epoch + 1)
        loss = ((model(x) - x[:, :2]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epochs - 1, "name": "net"}
    torch.save(state, path)
    return losses


whole = train(4, "FOLDER/whole.pth")
parts = train(2, "FOLDER/last.pth") + train(4, "FOLDER/last.pth")
"""


def converted(text: str) -> Conversion:
    return convert(parse("x.py", text), Options(checkpoints=CheckpointFormat.orbax))


def executed(text: str) -> dict[str, Any]:
    made = converted(text)
    assert made.report.exit_code == 0, made.report.as_text()
    return rewritten.executed(made.text)


def test_a_run_goes_on_from_them(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    theirs = rewritten.executed(SCRIPT.replace("FOLDER", str(tmp_path / "torch")))
    ours = executed(SCRIPT.replace("FOLDER", str(tmp_path)))
    assert ours["parts"] == pytest.approx(ours["whole"], rel=1e-6)  # float32
    assert ours["whole"] == pytest.approx(theirs["whole"], rel=1e-4)  # Adam divides by the root of small squares
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "last.pth")
    assert restored["epoch"] == 3 and restored["name"] == "net"
    assert restored["model"]["params"]["fc"]["kernel"].shape == (4, 2)


def test_what_was_ported_from_torch_is_read_as_well(tmp_path: Path) -> None:
    """`migrate port-weights` writes msgpack."""
    (tmp_path / "ported.msgpack").write_bytes(serialization.to_bytes({"w": np.ones(2), "epoch": 3}))
    read = executed(SCRIPT.replace("FOLDER", str(tmp_path)))["restore_with_orbax"]
    assert read(tmp_path / "ported.msgpack")["epoch"] == 3


KEEPING = """from __future__ import annotations

import os
import torch
import torch.nn as nn
from pathlib import Path
from shutil import copyfile

model = nn.Linear(2, 1)
model(torch.ones(1, 2))


def keep(path, best):
    torch.save(model.state_dict(), path)
    copyfile(path, best)
    found = [os.path.isfile(path), Path(best).exists()]
    os.remove(path)
    return [*found, os.path.exists(path)]


def drop(path: Path):
    torch.save(model.state_dict(), path)
    found = path.is_file()
    path.unlink()
    return [found, path.exists()]


first = [*keep("FOLDER/last.pth", "FOLDER/best.pth"), *drop(Path("FOLDER") / "last.pth")]
second = [*keep("FOLDER/last.pth", "FOLDER/best.pth"), *drop(Path("FOLDER") / "last.pth")]
"""


def test_they_are_copied_and_removed_as_folders(tmp_path: Path) -> None:
    names = executed(KEEPING.replace("FOLDER", str(tmp_path)))
    assert names["first"] == names["second"] == [True, True, False, True, False]
    assert ocp.PyTreeCheckpointer().restore(tmp_path / "best.pth")["kernel"].shape == (2, 1)


def test_files_of_other_kinds_are_left() -> None:
    text = converted(
        'import os\nimport torch\n\ntorch.save(torch.ones(2), "x.pth")\nprint(os.path.isfile("y.csv"))\n'
    ).text
    assert 'os.path.isfile("y.csv")' in text


OPEN = 'with open("x.pth", "wb") as file:\n    torch.save(model.state_dict(), file)\n'
READ = 'import io\n\nmodel.load_state_dict(torch.load(io.BytesIO(b"")))\n'
OBJECT = """def save(args, path):
    torch.save({"model": model.state_dict(), "args": args, "lr": args.lr}, path)
"""


@pytest.mark.parametrize("text", [OPEN, READ, OBJECT])
def test_what_orbax_cannot_hold_is_refused(text: str) -> None:
    made = converted(f"import torch\nimport torch.nn as nn\n\nmodel = nn.Linear(2, 1)\n{text}")
    assert [found.code for found in made.report.diagnostics] == ["MIG302"], made.report.as_text()
