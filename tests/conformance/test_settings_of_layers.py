"""What torch's layers keep of their arguments, and Flax's do not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

SCRIPT = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)
        self.fc = nn.Linear(8, out_features=4)
        self.wide = nn.Linear(width, 2)
        self.table = nn.Embedding(10, 8)

    def forward(self, x):
        return x * {0} + 0 * self.fc(torch.zeros(2, 8)).sum()


net = Net()
out = net(torch.ones(2))
"""


@pytest.mark.parametrize(
    "setting",
    ["self.fc.in_features", "self.fc.out_features", "self.conv.stride[1]", "self.conv.kernel_size[0]",
     "self.table.embedding_dim", "self.table.num_embeddings", "self.wide.in_features", "self.conv.dilation[0]"],
)  # fmt: skip
def test_a_number_that_a_layer_keeps(setting: str) -> None:
    script = SCRIPT.format(setting)
    ours, theirs = (rewritten.executed(text)["out"] for text in (str(rewritten.clean(script).text), script))
    np.testing.assert_array_equal(np.asarray(ours), theirs.detach().numpy())


def test_what_is_not_written_out_is_refused() -> None:
    found = rewritten.conversion(SCRIPT.format("len(self.conv.padding_mode)")).report.diagnostics
    assert [(one.code, one.message.partition(": ")[2]) for one in found] == [
        ("MIG301", "a setting that Flax's layer does not keep")
    ]
