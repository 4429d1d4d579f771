"""What jit traces prints values, not tracers; and a function that runs again draws anew."""

from migrate.files.source import parse
from migrate.pipeline import convert

SCRIPT = """\
import torch
from torch import nn

net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def penalty(model, x):
    loss = (model(x + torch.randn_like(x)) ** 2).mean()
    print(f"loss {loss.item():.2f}", x.shape)
    return loss


for _ in range(2):
    optimizer.zero_grad()
    loss = penalty(net, torch.zeros(4, 3))
    loss.backward()
    optimizer.step()
"""
PRINT = '    print(f"loss {loss.item():.2f}", x.shape)\n'


def findings(script: str) -> list[tuple[str, int]]:
    return [(found.code, found.line) for found in convert(parse("train.py", script)).report.diagnostics]


def test_a_print_shows_values_at_every_step() -> None:
    conversion = convert(parse("train.py", SCRIPT))
    assert not conversion.report.diagnostics
    assert '    jax.debug.print("loss {:.2f} {}", loss, str(x.shape))\n' in conversion.text


def test_what_cannot_be_printed_is_refused() -> None:
    assert findings(SCRIPT.replace("x.shape)", "file=None)")) == [("MIG307", 10)]
    assert findings(SCRIPT.replace("loss {", "{{loss}} {")) == [("MIG307", 10)]
    assert findings(SCRIPT.replace(PRINT, '    open("log").write(f"{loss.item()}")\n')) == [("MIG307", 10)]


def test_a_shape_is_printed_at_every_step_as_well() -> None:
    made = convert(parse("train.py", SCRIPT.replace(PRINT, '    print("shape", x.shape, "{", end)\n'))).text
    assert '    jax.debug.print("shape {} {} {}", str(x.shape), "{", end)\n' in made


def test_a_function_that_a_loop_calls_is_given_its_key() -> None:
    assert "def penalty(model, params, x, key):" in convert(parse("train.py", SCRIPT)).text
    once = "import torch\n\n\ndef noise():\n    return torch.randn(3)\n\n\nprint(noise())\n"
    assert "def noise():" in convert(parse("train.py", once)).text
    for again in ("print(noise())\n" + "print(noise())\n", "for _ in range(2):\n    print(noise())\n"):
        assert "def noise(key):" in convert(parse("train.py", once.replace("print(noise())\n", again))).text


def test_a_method_that_no_forward_pass_calls_may_show_weights() -> None:
    source = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.randn(()))

    def forward(self, x):
        return self.a * x

    def string(self):
        return f"y = {self.a.item()} x"


net = Net()
print(net(torch.ones(3)), net.string())
"""
    made = convert(parse("x.py", source))
    assert made.report.exit_code == 0, made.report.as_text()
    traced = source.replace("self.a * x", "(self.a * x, self.string())")
    assert [found.code for found in convert(parse("x.py", traced)).report.diagnostics] == ["MIG307"]
