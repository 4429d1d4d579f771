"""torchvision's transforms outside of data sets: what gives tensors is known to, and takes no arrays."""

from __future__ import annotations

import pytest

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """
import torch
import torch.nn as nn
from PIL import Image
from torchvision import transforms
from torchvision.transforms import functional as TF

transform = {made}
model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
model.eval()
image = transform(Image.open("image.png")).unsqueeze(0).to("cpu")
with torch.no_grad():
    print(model(image))
"""
TENSORS = [
    "transforms.ToTensor()",
    "transforms.Compose([transforms.Resize(8), transforms.ToTensor(), transforms.Normalize([0.5], [0.5])])",
    "transforms.Compose([transforms.ToTensor(), transforms.RandomHorizontalFlip()])",
    "transforms.Compose([transforms.Resize(8), transforms.Compose([transforms.ToTensor()])])",
    '{"val": transforms.Compose([transforms.ToTensor()]), "train": transforms.ToTensor()}["val"]',
    "TF.to_tensor",
]
UNKNOWN = [
    "transforms.Resize(8)",
    "transforms.Compose([transforms.ToTensor(), transforms.ToPILImage()])",
    "transforms.Compose([transforms.ToTensor(), transforms.Lambda(lambda x: x)])",
    "transforms.Compose(steps)",
]


@pytest.mark.parametrize("made", TENSORS)
def test_what_gives_a_tensor(made: str) -> None:
    conversion = convert(parse("script.py", SCRIPT.format(made=made)))
    assert [found.code for found in conversion.report.diagnostics] == []
    assert '(Image.open("image.png")).unsqueeze(0)' in conversion.text
    assert "jnp.asarray(" in conversion.text


READ = """
import torch
import torch.nn as nn
import torchvision
from torchvision import transforms

transform = {made}
model = nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
model.eval()
image = transform(torchvision.io.read_image("image.png").float() / 255)
with torch.no_grad():
    print(model(image.unsqueeze(0)), image.permute(1, 2, 0).shape)
"""


@pytest.mark.parametrize(
    "made", ["transforms.Resize(8)", "transforms.Compose([transforms.Resize((8, 8)), transforms.CenterCrop(8)])"]
)
def test_what_gives_a_tensor_of_a_tensor(made: str) -> None:
    conversion = convert(parse("script.py", READ.format(made=made)))
    assert [found.code for found in conversion.report.diagnostics] == []
    assert "jnp.asarray(image.unsqueeze(0))" in conversion.text


@pytest.mark.parametrize("made", ["transforms.FiveCrop(8)", "transforms.Compose([transforms.ToPILImage()])"])
def test_what_gives_no_tensor_of_a_tensor(made: str) -> None:
    conversion = convert(parse("script.py", READ.format(made=made)))
    assert {found.code for found in conversion.report.diagnostics} == {"MIG306"}


@pytest.mark.parametrize("made", UNKNOWN)
def test_what_may_give_something_else(made: str) -> None:
    conversion = convert(parse("script.py", SCRIPT.format(made=made)))
    assert "MIG306" in [found.code for found in conversion.report.diagnostics]


def test_arrays_are_given_as_copies() -> None:
    script = SCRIPT.format(made="transforms.Normalize([0.5], [0.5])") + "    print(transform(model(image)).shape)\n"
    conversion = convert(parse("script.py", script))
    assert conversion.report.diagnostics == ()
    assert "transform(torch.from_numpy(np.array(eval_step(params, " in conversion.text
