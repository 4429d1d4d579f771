"""Numbers that Python or numpy draws: on the host only, never inside what jit traces."""

from migrate.pipeline import convert
from migrate.source import parse

SCRIPT = """\
import numpy as np
import torch
from torch import nn

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def penalty(model, x):
    noise = torch.FloatTensor(np.random.random((4, 1)))
    return (model(x * noise) ** 2).mean()


for _ in range(3):
    optimizer.zero_grad()
    loss = penalty(net, torch.randn(4, 3))
    loss.backward()
    optimizer.step()
"""


def test_a_function_that_a_loss_calls_draws_nothing_on_the_host() -> None:
    report = convert(parse("train.py", SCRIPT)).report
    assert [(found.code, found.line) for found in report.diagnostics] == [("MIG302", 10)]


def test_an_example_draws_nothing_from_numpy() -> None:
    """`model.init` must not use up a draw that the loop would have had."""
    drawn = "x = torch.FloatTensor(np.random.normal(0, 1, (4, 3)))\n    optimizer.zero_grad()"
    loop = SCRIPT.replace("optimizer.zero_grad()", drawn).replace("penalty(net, torch.randn(4, 3))", "net(x).sum()")
    head, _, rest = loop.partition("def penalty")
    output = convert(parse("train.py", head + rest[rest.index("for _") :])).text
    assert "net.init(subkey, jnp.asarray(np.zeros((4, 3)), jnp.float32))" in output
    assert output.count("np.random.normal") == 1
