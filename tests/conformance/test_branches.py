"""Branches on the values of tensors in a forward pass: `jax.lax.cond` gives what torch gives, on both sides."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from migrate.diagnostics import Severity
from tests.conformance import rewritten

HEAD = "import torch\nimport torch.nn as nn\n\n\nclass M(nn.Module):\n    def forward(self, x):\n"

CONVERTED = {
    "two values": "if x.sum() > 0:\n    x = x * 2\nelse:\n    x = x - 1\nreturn x",
    "one side only": "y = x ** 2\nif y.mean() > 0.5:\n    y += 3\nreturn y * x",
    "early return": "if x.max() > 1:\n    return x.exp()\nreturn x * 3",
    "early return, several statements": ("if (x > 0).all():\n    return x.exp()\ny = x * 3\nz = y + 1\nreturn z * y"),
    "an expression": "y = x if x.mean() > 0 else -x\nreturn y",
    "several names": (
        "a = x + 1\nb = x\nif a.sum() > 0:\n    c = a * 2\n    a = c + b\nelse:\n    b = a * 5\nreturn a * b"
    ),
    "elif": "if x.sum() > 1:\n    y = x * 2\nelif x.sum() > -1:\n    y = x * 3\nelse:\n    y = x * 4\nreturn y",
    "and, or, not": (
        "if not (x > 5).any() and x.sum() > 0:\n    x = x * 2\n"
        "if (x < 0).all() or x.sum() > 3:\n    x = x * 7\nreturn x"
    ),
    "item": "if x.sum().item() > 0:\n    x = x * 2\nreturn x",
    "NaN on the side not taken": "if x.min() > 0:\n    y = x.log()\nelse:\n    y = x * 2\nreturn y",
    "a change in place": "y = x * 1\nif x.sum() > 0:\n    y.add_(1)\n    z = y * 2\nelse:\n    z = y * 3\nreturn y + z",
    "nothing but changes in place": "y = x * 1\nif x.sum() > 0:\n    y.add_(1).mul_(2)\nreturn y",
    "nested": "if x.sum() > 0:\n    if x.max() > 1:\n        x = x * 2\n    else:\n        x = x * 3\nreturn x",
}
VALUES = [
    np.array(v) for v in ([0.5, 2.0, 1.0], [-0.5, -2.0, -1.0], [-0.2, 0.3, 0.1], [0.0, 0.0, 0.0], [2.0, -9.0, 0.5])
]

LEFT = {
    "a loop": "while x.sum() > 1:\n    x = x / 2\nreturn x",
    "plain numbers": "scale = 2 if x.sum() > 0 else 3\nreturn x.repeat(scale)",
    "a side that raises": 'if x.isnan().any():\n    raise ValueError("NaN")\nreturn x',
    "a side that prints": 'if x.sum() > 0:\n    print("positive")\n    x = x * 2\nreturn x',
    "one side alone binds it": "if x.sum() > 0:\n    y = x\nreturn y",
    "a draw": "if x.sum() > 0:\n    x = x + torch.randn(3)\nreturn x",
    "a number": "return x[: int(x.sum())]",
    "a list": "return torch.zeros(len(x.tolist()))",
    "a chain of comparisons": "if -1 < x.sum() < 1:\n    x = x * 2\nreturn x",
    "truth of numbers": "if x.sum() and x.max() > 0:\n    x = x * 2\nreturn x",
}


def source(body: str) -> str:
    return HEAD + "".join(f"        {line}\n" for line in body.split("\n"))


@pytest.mark.parametrize("body", CONVERTED.values(), ids=CONVERTED)
def test_converted(body: str, float64: None) -> None:
    text = rewritten.clean(source(body)).text
    theirs, ours = rewritten.executed(source(body))["M"](), rewritten.executed(text)["M"]()
    assert "jax.lax.cond(" in text
    run = jax.jit(jax.value_and_grad(lambda x: ours.apply({}, x).sum()))
    for value in VALUES:
        x = torch.tensor(value, requires_grad=True)
        loss = theirs(x).sum()
        loss.backward()
        found, gradient = run(jnp.asarray(value))
        np.testing.assert_array_almost_equal_nulp(np.asarray(found), loss.detach().numpy(), 4)
        np.testing.assert_array_almost_equal_nulp(np.asarray(gradient), x.grad.numpy(), 4)


@pytest.mark.parametrize("body", LEFT.values(), ids=LEFT)
def test_left(body: str) -> None:
    made = rewritten.conversion(source(body))
    (found, *_) = made.report.diagnostics
    assert found.code == "MIG307", str(found)
    assert found.source.strip() in body


def test_a_function_that_a_forward_pass_calls_is_traced_too() -> None:
    helper = "def halved(x):\n    if x.sum() > 1:\n        return x / 2\n    return x\n\n\n"
    made = rewritten.clean(source("return halved(x)").replace("\n\n\nclass", f"\n\n\n{helper}class"))
    assert "return jax.lax.cond(x.sum() > 1, lambda: x / 2, lambda: x)" in made.text
    alone = rewritten.clean(f"import torch\n\n\n{helper}print(halved(torch.ones(3)))\n")
    assert "if x.sum() > 1:" in alone.text  # on the host the values are known


@pytest.mark.parametrize("test", ["(x == x).all(), 'NaN'", "torch.max(x).item() < 3", "float(x.min()) >= 0"])
def test_an_assertion_on_values_is_left_out_and_told(test: str) -> None:
    made = rewritten.conversion(source(f"assert {test}\nreturn x * 2"))
    assert [(found.code, found.severity) for found in made.report.diagnostics] == [("MIG512", Severity.NOTE)]
    assert "assert" not in made.text
