"""Several statements on a line, and choices between two calls, mean what they mean on lines of their own."""

from __future__ import annotations

from tests.conformance.rewritten import clean

HEAD = """import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)); opt = torch.optim.SGD(model.parameters(), 0.1)
loader = DataLoader(TensorDataset(torch.randn(12, 3), torch.randint(0, 2, (12,))), batch_size=4)
a = 1;  b = 2  # kept as it is
"""  # noqa: E501


def test_an_update_on_one_line() -> None:
    made = clean(
        HEAD
        + """print("a") if a else print("b")
for x, y in loader:
    opt.zero_grad(); loss = nn.functional.cross_entropy(model(x), y)
    loss.backward(); opt.step()
"""
    ).text
    assert 'a = 1;  b = 2  # kept as it is\nprint("a") if a else print("b")\n' in made
    assert made.count("train_step(params, batch_stats, opt_state, x, y)") == 2


def test_a_mode_chosen_in_an_expression_counts() -> None:
    """Batch statistics change where it trains, and the state of an optimizer that a call leaves out is not lost."""
    made = clean(
        HEAD
        + """
def phase(loader, optimizer=None):
    train = optimizer is not None
    model.train() if train else model.eval()
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad() if train else None
        if train:
            loss.backward()
            optimizer.step()
    return loss.item()


for epoch in range(2):
    print(phase(loader, opt), phase(loader))
"""
    ).text
    assert "params, batch_stats, opt_state, metrics = train_step(" in made
    assert "opt_state, result = phase(params, batch_stats, loader, opt_state, opt)" in made
    assert "_, result_2 = phase(params, batch_stats, loader, opt_state=None)" in made


def test_a_list_that_the_loss_goes_through_is_filled_in_the_step() -> None:
    """What looks for `backward()` behind the loop that fills it finds it in the middle of a line, too."""
    made = clean(
        HEAD
        + """
x, y = torch.randn(4, 3), torch.randint(0, 2, (4,))
for epoch in range(3):
    losses = []
    for scale in (1.0, 2.0):
        losses.append(nn.functional.cross_entropy(model(scale * x), y))
    opt.zero_grad(); sum(losses).backward(); opt.step()
"""
    ).text
    assert "value_and_grad" in made and made.count("losses.append") == 1
