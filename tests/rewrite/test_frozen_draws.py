"""Numbers that Python or numpy draws: on the host only, never inside what jit traces."""

import numpy as np

from migrate.files.source import parse
from migrate.pipeline import convert
from tests.conformance import rewritten

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


def findings(script: str) -> list[tuple[str, int]]:
    return [(found.code, found.line) for found in convert(parse("train.py", script)).report.diagnostics]


def test_a_function_that_a_loss_calls_is_given_what_the_host_draws() -> None:
    conversion = convert(parse("train.py", SCRIPT))
    assert not conversion.report.diagnostics
    assert "def penalty(model, params, x, drawn):" in conversion.text
    assert "\n    drawn = np.random.random((4, 1))\n" in conversion.text


def test_draws_by_another_name_are_found() -> None:
    script = SCRIPT.replace("import numpy as np", "from numpy import random as dice").replace("np.random.", "dice.")
    assert "\n    drawn = dice.random((4, 1))\n" in convert(parse("train.py", script)).text


def test_how_often_must_be_known() -> None:
    in_a_branch = SCRIPT.replace("    noise =", "    noise = 1\n    if x.shape[0] > 2:\n        noise =")
    assert ("MIG302", 12) in findings(in_a_branch)
    after_a_return = SCRIPT.replace("    noise =", "    if x.shape[0] > 2:\n        return x.sum()\n    noise =")
    assert ("MIG302", 12) in findings(after_a_return)


def test_a_clock_is_not_drawn_from() -> None:
    script = SCRIPT.replace("import numpy as np", "import time").replace("np.random.random((4, 1))", "[time.time()]")
    assert findings(script) == [("MIG302", 10)]


def test_draws_stay_in_their_order() -> None:
    loss = "    loss = penalty(net, torch.randn(4, 3))\n"
    later = "    scale = np.random.random()\n    loss = loss * scale\n"
    assert findings(SCRIPT.replace(loss, loss + later)) == [("MIG401", 16)]


STEERED = """\
import random
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.last = nn.Linear(3, 1)

    def forward(self, x):
        for _ in range(random.randint(0, 2)):
            x = torch.relu(self.first(x))
        return self.last(x)


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    optimizer.zero_grad()
    loss = (net(torch.randn(4, 3)) ** 2).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_number_that_steers_a_loop_is_static_and_leaves_unread_weights_alone() -> None:
    conversion = convert(parse("train.py", STEERED))
    assert not conversion.report.diagnostics
    assert '["params"]' in conversion.text and "drawn=2)" in conversion.text  # the example runs every layer
    assert '@jax.jit(static_argnames="drawn"' in conversion.text
    assert "updates, opt_state = update_where_read(optimizer, loss_fn, grads, opt_state, params)" in conversion.text


def test_torch_counts_the_steps_of_each_weight_apart() -> None:
    assert findings(STEERED.replace("SGD", "Adam").replace(", momentum=0.9", "")) == [("MIG401", 22)]


def test_an_example_draws_nothing_from_numpy() -> None:
    """`model.init` must not use up a draw that the loop would have had."""
    drawn = "x = torch.FloatTensor(np.random.normal(0, 1, (4, 3)))\n    optimizer.zero_grad()"
    loop = SCRIPT.replace("optimizer.zero_grad()", drawn).replace("penalty(net, torch.randn(4, 3))", "net(x).sum()")
    head, _, rest = loop.partition("def penalty")
    output = convert(parse("train.py", head + rest[rest.index("for _") :])).text
    assert "net.init(subkey, jnp.asarray(np.zeros((4, 3)), jnp.float32))" in output
    assert output.count("np.random.normal") == 1


PEEKED = """\
import numpy as np
import torch
from torch import nn

np.random.seed(5)


def batch(size):
    return torch.from_numpy(np.random.rand(size, 2, 4)).float()


net = nn.Sequential(nn.Conv1d(2, 3, 3), nn.Flatten(), nn.Linear(6, 1))
for _ in range(2):
    inputs = batch(3)
    print(net(inputs).shape)
"""


def test_an_example_takes_no_draws_of_the_functions_that_make_it() -> None:
    text = rewritten.clean(PEEKED).text
    assert "without_drawing(lambda: batch(3))" in str(text)
    drawn = np.random.RandomState(5).rand(2, 3, 2, 4)
    np.testing.assert_array_equal(rewritten.executed(str(text))["inputs"], drawn[1].astype(np.float32))


def test_a_model_of_dense_layers_needs_no_draws_for_its_example() -> None:
    script = PEEKED.replace("nn.Conv1d(2, 3, 3), nn.Flatten(), nn.Linear(6, 1)", "nn.Linear(4, 3), nn.ReLU()")
    assert "net.init(subkey, jnp.zeros((1, 4)))" in str(rewritten.clean(script).text)


OWN_KEYS = """import torch

first = torch.rand(3)


def one():
    return torch.rand(3)


def other():
    return torch.rand(3)


drawn = [first, one(), other()]
"""


def test_functions_that_make_their_own_keys_draw_other_numbers() -> None:
    names = rewritten.executed(convert(parse("x.py", OWN_KEYS)).text)
    assert len({tuple(numbers.tolist()) for numbers in names["drawn"]}) == 3
