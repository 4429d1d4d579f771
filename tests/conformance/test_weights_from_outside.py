"""Weights that a script gives its model from outside, in both frameworks: values, and initial distributions."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from weight_port import port_state_dict

SCRIPT = """import numpy as np
import torch
import torch.nn as nn
from torch.nn import init


FUNCTIONS

class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 40, padding_idx=1)
        self.rnn = nn.LSTM(40, 30, num_layers=2, bidirectional=True, batch_first=True)
        self.cell = nn.GRUCell(60, 20)
        self.conv = nn.Conv1d(20, 30, 2)
        self.head = nn.Sequential(nn.Linear(30, 60), nn.ReLU(), nn.Linear(60, 70))
        self.fc = nn.Linear(70, 80)

    def forward(self, x):
        y = self.cell(self.rnn(self.table(x))[0].mean(1))
        return self.fc(self.head(self.conv(y[..., None].expand(-1, -1, 3)).mean(-1)))


torch.manual_seed(0)
table = torch.arange(2000.0).reshape(50, 40)
rows = np.arange(2000.0).reshape(50, 40)
net = M()
BODY
optimizer = torch.optim.SGD(net.parameters(), lr=0.0)
x = torch.ones(3, 4, dtype=torch.long)
loss = net(x).square().mean()
optimizer.zero_grad()
loss.backward()
optimizer.step()
"""
FUNCTIONS = {
    "uniform": """def uniform(m):
    for name, param in m.named_parameters():
        nn.init.uniform_(param.data, -0.08, 0.08)
""",
    "by_name": """def by_name(m):
    for name, param in m.named_parameters():
        if "weight" in name:
            nn.init.normal_(param.data, mean=0, std=0.01)
        else:
            nn.init.constant_(param.data, 0.25)
""",
    "by_short_name": """def by_short_name(m):
    for name, param in m.named_parameters():
        if name == "bias":
            nn.init.constant_(param, 2.0)
        elif "fc" in name:
            nn.init.constant_(param, 3.0)
""",
    "every": """def every(m):
    for p in m.parameters():
        nn.init.constant_(p, 0.5)
""",
}
SET = {
    "copied": "net.table.weight.data.copy_(table)",
    "copied from numpy": "net.table.weight.data.copy_(torch.from_numpy(rows))",
    "copied where no gradient is recorded": "with torch.no_grad():\n    net.table.weight.copy_(table)",
    "one for all": "with torch.no_grad():\n    net.fc.bias.copy_(torch.tensor(0.5).expand(80))",
    "the data": "net.fc.weight.data = table[:40].reshape(20, 80).repeat(4, 1)[:, :70]",
    "a parameter": "net.fc.weight = nn.Parameter(table.reshape(80, 25).repeat(1, 4)[:, :70])",
    "integers": "net.fc.bias.data.copy_(torch.arange(80))",
    "a row": "net.table.weight.data[0] = torch.zeros(40)",
    "rows": "net.table.weight.data[2:5] = 1.5\nnet.fc.weight.data[:, 0] = table[0].repeat(2)",
    "a dense layer in a row": "net.head[0].weight.data[3] = 1.0\nnet.head[2].bias.data.copy_(torch.ones(70))",
    "a convolution": "net.conv.weight.data.copy_(table.reshape(-1)[:1200].reshape(30, 20, 2))",
    "another weight": "net.fc.bias.data.copy_(net.fc.weight.data[:, 0])",
    "filled": "net.fc.bias.data.fill_(0.5)\nnet.fc.weight.data.zero_()",
    "by nn.init": "init.constant_(net.fc.bias, val=0.3)\ninit.ones_(net.head[2].weight)\ninit.zeros_(net.cell.bias_hh)",
    "one after the other": "init.constant_(net.fc.bias, 1.0)\ninit.constant_(net.fc.bias, 2.0)",
    "all": "net.apply(every)",
    "by the names that modules inside have": "net.apply(by_short_name)",
    "in a function": "def fill(m):\n    m.table.weight.data.copy_(table)\n    m.fc.bias.data[1] = 2\nfill(net)",
    "under a test": "if table.shape[0] > 3:\n    net.table.weight.data.copy_(table)",
    "in a loop": "for i in range(3):\n    net.table.weight.data[i] = i",
    "beside what is kept": "kept = net.table.weight.detach().clone()\nnet.table.weight.data.copy_(table)",
}


def script(body: str) -> str:
    """The script with some lines in it, and the functions that they name."""
    functions = [text for name, text in FUNCTIONS.items() if f"apply({name})" in body]
    return SCRIPT.replace("FUNCTIONS", "\n\n".join(functions)).replace("BODY", body)


def weights(body: str) -> tuple[dict[str, Any], dict[str, Any], set[str]]:
    """The weights of both, by their names in Flax, and those that torch's run has set: they are equal in two runs."""
    source = script(body)
    made = rewritten.clean(source)
    entry = rewritten.model_weights(made)

    def flat(seed: int) -> dict[str, np.ndarray]:
        with torch.random.fork_rng():
            net = rewritten.executed(source.replace("manual_seed(0)", f"manual_seed({seed})"))["net"]
            ported = port_state_dict({name: leaf.numpy() for name, leaf in net.state_dict().items()}, entry)
        return {
            jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(ported["params"])
        }

    theirs, again = flat(0), flat(1)
    params = rewritten.executed(made.text)["params"]
    ours = {jax.tree_util.keystr(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(params)}
    assert ours.keys() == theirs.keys()
    assert all(ours[name].shape == theirs[name].shape and ours[name].dtype == np.float32 for name in ours)
    return ours, theirs, {name for name, leaf in theirs.items() if (leaf == again[name]).all()}


@pytest.mark.parametrize("form", SET)
def test_what_is_set_is_what_torch_has(form: str) -> None:
    ours, theirs, told = weights(SET[form])
    parts = {name for name, leaf in theirs.items() if name not in told and (leaf == leaf.round()).any()}
    assert told or parts or form == "another weight"
    for name in told:
        np.testing.assert_array_equal(ours[name], theirs[name])
    for name in parts:  # of which some elements are set
        whole = theirs[name] == theirs[name].round()
        np.testing.assert_array_equal(np.asarray(ours[name])[whole], theirs[name][whole])


DRAWN = {
    "uniform": ("net.apply(uniform)", ["weight_ih_l1_reverse", "bias_hh_l0", "head']['layers_0']['kernel", "table"]),
    "by name": ("net.apply(by_name)", ["weight_hh_l0", "fc']['kernel", "conv']['kernel"]),
    "a loop": ("for name, p in net.named_parameters():\n    nn.init.normal_(p, std=0.1)", ["cell']['weight_ih", "fc"]),
    "one": ("init.xavier_uniform_(net.fc.weight)\ninit.normal_(net.table.weight, std=0.02)", ["fc']['kernel", "table"]),
    "in a row": ("init.kaiming_normal_(net.head[2].weight)\nnet.head[0].weight.data.uniform_(-1, 1)", ["head"]),
    "a cell": ("init.xavier_normal_(net.cell.weight_hh)\ninit.kaiming_uniform_(net.cell.weight_ih)", ["cell"]),
    "a convolution": ("init.kaiming_uniform_(net.conv.weight, nonlinearity='relu')", ["conv']['kernel"]),
}


@pytest.mark.parametrize("form", DRAWN)
def test_what_is_drawn_is_distributed_as_in_torch(form: str) -> None:
    body, concerned = DRAWN[form]
    ours, theirs, _ = weights(body)
    names = [name for name in ours if any(part in name for part in concerned)]
    assert len(names) >= len(concerned)
    for name in names:
        drawn = np.asarray(ours[name]).ravel(), np.asarray(theirs[name]).ravel()
        if theirs[name].std() == 0:
            np.testing.assert_array_equal(ours[name], theirs[name])
        else:
            assert kolmogorov_smirnov(*drawn) < SAME_DISTRIBUTION, name


AGAIN = """for fold in range(2):
    net.apply(every)
    loss = net(torch.ones(3, 4, dtype=torch.long)).square().mean()
    loss.backward()
"""
REFUSED = {
    "in a loop, where it was made before": "for fold in range(2):\n    net.apply(every)",
    "in terms of itself": "net.fc.weight.data *= 0.5",
    "in terms of itself, in a loop": "for _ in range(2):\n    net.fc.weight.data.relu_()",
    "one layer of several": "init.orthogonal_(net.rnn.weight_hh_l0)",
    "some of the layers alone": (
        "for name, p in net.named_parameters():\n    if '_l0' in name:\n        nn.init.zeros_(p)"
    ),
    "the weight of another one": "net.fc.bias.data = net.fc.bias",
    "what is no tensor": "net.fc.weight.data = float(input())",
}


@pytest.mark.parametrize("form", REFUSED)
def test_what_would_be_another_thing_is_refused(form: str) -> None:
    source = script(REFUSED[form])
    codes = {found.code for found in rewritten.conversion(source).report.diagnostics}
    assert codes & {"MIG204", "MIG302"}, codes


APPLY = "def init_linear(m):\n    if isinstance(m, nn.Linear):\n        nn.init.zeros_(m.weight)\n\n\n"
IN_FUNCTIONS = {  # whether it surely runs once, whatever is in it
    "def fill(m):\n    nn.init.zeros_(m.fc.weight)\n\n\nfill(net)": True,
    "def fill(m):\n    m.apply(init_linear)\n\n\nfill(net)": True,
    "def fill(m):\n    m.apply(init_linear)\n\n\ndef main():\n    fill(net)\n\n\nmain()": True,
    "def fill(m):\n    m.apply(init_linear)\n\n\nif rows.sum() > 0:\n    fill(net)": False,
    "def fill(m):\n    m.apply(init_linear)\n\n\nfor fold in range(2):\n    fill(net)": False,
    "def fill(m):\n    m.apply(init_linear)\n\n\ndef main(on):\n    if on:\n        fill(net)\n\n\nmain(False)": False,
    "class Trainer:\n    def __init__(self, net):\n        self.net = net\n\n    def reset(self):\n"
    "        self.net.apply(init_linear)\n\n\ntrainer = Trainer(net)": False,
}


@pytest.mark.parametrize("body", IN_FUNCTIONS)
def test_what_a_function_fills_is_filled_where_that_surely_runs(body: str) -> None:
    made = rewritten.conversion(script(APPLY + body if "init_linear" in body else body))
    if not IN_FUNCTIONS[body]:
        assert "MIG204" in {found.code for found in made.report.diagnostics}
        return
    assert made.report.exit_code == 0, made.report.as_text()
    assert not np.asarray(rewritten.executed(made.text)["params"]["fc"]["kernel"]).any()


def test_the_device_of_some_weight() -> None:
    made = rewritten.clean(script("device = list(net.parameters())[0].device\nnet.to(device)"))
    assert "device" not in made.text.replace("on_all_devices", "")


ALONE = """import torch
import torch.nn as nn
from torch.nn import init

row = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1))
for p in row.parameters():
    init.ones_(p)
init.constant_(row[0].bias, 0.5)
row[2].bias.data.fill_(0.25)
one = nn.Linear(4, 2)
init.ones_(one.weight)
y = row(torch.ones(2, 4)), one(torch.ones(2, 4))
"""


def test_a_model_without_a_class_takes_initial_weights() -> None:
    text = rewritten.clean(ALONE).text
    row, one = rewritten.executed(text)["y"]
    np.testing.assert_allclose(row, np.full((2, 1), 3 * 4.5 + 0.25))
    assert "bias_init=nn.initializers.constant(0.5)" in text and one.shape == (2, 2)
