"""Weights that would be made inside a loop, or never: each is said, however deep the first use of the model is."""

from __future__ import annotations

import pytest

from tests.conformance import rewritten

SCRIPT = """import copy

import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 2)

    def forward(self, x):
        return self.fc(x.view(-1, x.shape[1] * x.shape[-1]))


class Worker:
    def __init__(self, x):
        self.x = x

    def work(self, model):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = model(self.x).square().mean()
        loss.backward()
        optimizer.step()
        return model.state_dict()


model = Net()
for turn in range(2):
    worker = Worker(torch.randn(4, 2, 3))
    WORK
"""
COPIED = "state = worker.work(copy.deepcopy(model))"
NAMED = "own = copy.deepcopy(model)\n    state = worker.work(own)"


@pytest.mark.parametrize("work", [COPIED, NAMED])
def test_a_model_that_is_first_used_in_a_loop(work: str) -> None:
    found = rewritten.conversion(SCRIPT.replace("WORK", f"{work}\n    model.load_state_dict(state)"))
    assert [one.code for one in found.report.diagnostics] == ["MIG402"]
    assert "model is used before an example" in found.report.diagnostics[0].message


def test_a_model_that_is_shared_by_two_others_is_refused() -> None:
    held = """class Holder(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x)


first, second = Holder(model), Holder(model)
print(first(torch.ones(1, 2, 3)), second(torch.ones(1, 2, 3)), model(torch.ones(1, 2, 3)))
"""
    source = SCRIPT.partition("for turn")[0] + held
    assert rewritten.conversion(source).report.exit_code == 1


FEDERATED = """import copy

import torch
import torch.nn as nn


def average(states):
    mean = COPY
    for key in mean.keys():
        for other in states[1:]:
            mean[key] += other[key]
        mean[key] = torch.div(mean[key], len(states))
    return mean


nets = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2)), nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2))
one, two = nets
print(one(torch.ones(1, 3)), two(torch.ones(1, 3)))
states = []
states.append(copy.deepcopy(one.state_dict()))
states.append(two.state_dict())
one.load_state_dict(average(states))
"""


@pytest.mark.parametrize("copied", ["copy.deepcopy(states[0])", "states[0]"])
def test_entries_of_state_dicts_in_a_list_are_refused(copied: str) -> None:
    """In JAX they are trees: adding their entries would fail when run."""
    found = rewritten.conversion(FEDERATED.replace("COPY", copied)).report.diagnostics
    assert {one.code for one in found} == {"MIG306"} and "mean[key]" in found[0].message
