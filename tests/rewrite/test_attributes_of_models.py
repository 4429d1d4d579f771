"""What a script keeps on a model besides."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance import rewritten

TEXT = (
    rewritten.NET
    + """def train():
    model = Net()
    model.run_id = "first"
    model.best_loss = 1e9
    x = torch.linspace(-1, 2, 24).reshape(6, 4).cos()
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(6):
        opt.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        opt.step()
        if loss.item() < model.best_loss:
            model.best_loss = loss.item()
    return model.run_id, model.best_loss


model_run_id = "taken"
shown = train()
"""
)


def test_it_is_a_variable() -> None:
    theirs, ours = rewritten.both(TEXT)
    assert ours["shown"][0] == theirs["shown"][0] == "first"
    np.testing.assert_allclose(ours["shown"][1], theirs["shown"][1], rtol=1e-5)  # float32, six steps
    made = rewritten.clean(TEXT).text
    assert 'model_run_id_2 = "first"' in made and "model_best_loss = loss.item()" in made


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("shown = train()", "shown = train()\nprint(getattr(Net(), 'best_loss'))"),
        ("return self.fc(x)", "return self.fc(x) * (self.best_loss > 0)"),
        ("    model.best_loss = 1e9", "    model.best_loss = 1e9\n    tell = lambda: model.best_loss"),
        ("model.best_loss = 1e9", "model.best_loss = 1e9\n    model.bias = 3"),
        ("model.best_loss = 1e9", "model.best_loss = 1e9\n    model.head = nn.Linear(1, 2)"),  # a part, in torch
        ("model.best_loss = 1e9", "model.best_loss = 1e9\n    model.loss = model.loss"),
    ],
)
def test_what_others_may_ask_for_needs_a_person(old: str, new: str) -> None:
    assert old in TEXT
    assert rewritten.conversion(TEXT.replace(old, new)).report.exit_code == 1
