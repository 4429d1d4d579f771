"""Models that a script saves as a whole: a file has their weights, which go into a model of the same class."""

from __future__ import annotations

from migrate.files.source import parse
from migrate.pipeline import convert

CLASS = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


"""
SAVED = """model = Net()
print(model(torch.ones(1, 3)))
torch.save(model, "net.pt")
"""
READ = """loaded = torch.load("net.pt", weights_only=False)
loaded.eval()
print(loaded(torch.ones(1, 3)))
"""


def test_under_a_name_of_its_own() -> None:
    made = convert(parse("x.py", CLASS + SAVED + READ))
    assert not made.report.diagnostics
    assert "loaded_params = jax.tree.map(jnp.copy, model_params)\n" in made.text
    assert 'loaded_params = serialization.from_bytes(loaded_params, Path("net.pt").read_bytes())\n' in made.text


def test_of_two_models_the_one_that_was_saved_is_meant() -> None:
    made = convert(parse("x.py", CLASS + "first = Net()\nprint(first(torch.zeros(1, 3)))\n" + SAVED + READ))
    assert not made.report.diagnostics
    assert "loaded_params = jax.tree.map(jnp.copy, model_params)\n" in made.text


def test_a_model_that_is_only_read_is_refused() -> None:
    made = convert(parse("x.py", CLASS + READ))
    told = [(found.code, found.line, found.message) for found in made.report.diagnostics]
    assert told == [("MIG302", 15, "loaded.eval: a file holds the weights of a model; load them into one")]


def test_a_dict_in_another_file_is_no_model() -> None:
    more = 'state = torch.load("state.pt")\nmodel.load_state_dict(state["model"])\n'
    made = convert(parse("x.py", CLASS + SAVED + more + READ))
    assert not made.report.diagnostics
    assert 'state = serialization.msgpack_restore(Path("state.pt").read_bytes())\n' in made.text
    assert "loaded_params = serialization.from_bytes(" in made.text
