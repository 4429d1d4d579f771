"""Classes that inherit from a layer of torch's and use its weights themselves."""

from __future__ import annotations

import jax
import numpy as np
import pytest
import torch

from tests.conformance import rewritten
from tests.conformance.statistics import SAME_DISTRIBUTION, kolmogorov_smirnov
from tests.conformance.test_training_forms import EXACT, FOUR_STEPS, trained

HEAD = """import math
import torch
import torch.nn as nn
import torch.nn.functional as F


"""
NET = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = A, B

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


x = X
"""
ROWS, IMAGES = "torch.arange(12.0).reshape(3, 4) / 10", "torch.arange(270.0).reshape(2, 3, 9, 5) / 270"
FORMS = {
    "masked": (
        '''class MaskedLinear(nn.Linear):
    """A mask on the weights."""

    def __init__(self, n, m, bias=True):
        super().__init__(n, m, bias)
        self.register_buffer("mask", torch.tril(torch.ones(m, n)))

    def forward(self, x, cond=None):
        return F.linear(x, self.mask * self.weight, self.bias)''',
        ("MaskedLinear(4, 6)", "MaskedLinear(6, 2, bias=False)", ROWS),
    ),
    "no bias, and its type": (
        """class Linear(torch.nn.Linear):
    def __init__(self, in_features, out_features):
        super().__init__(in_features, 2 * out_features, bias=False)

    def forward(self, x):
        return F.linear(x, self.weight.type_as(x))[:, : self.out_features // 2]""",
        ("Linear(4, 6)", "Linear(6, 2)", ROWS),
    ),
    "whatever the layer is given": (
        """class Cosine(nn.Linear):
    def __init__(self, *args, scale=3.0, **kwargs):
        super(Cosine, self).__init__(*args, **kwargs)
        self.scale = scale

    def forward(self, x):
        return self.scale * super().forward(x) / self.weight.norm()""",
        ("Cosine(4, out_features=6)", "Cosine(6, 2, scale=2.0, bias=False)", ROWS),
    ),
    "filled otherwise": (
        """class Linear(nn.Linear):
    def reset_parameters(self):
        nn.init.constant_(self.weight, 0.25)
        if self.bias is not None:
            nn.init.zeros_(self.bias)""",
        ("Linear(4, 6)", "Linear(6, 2, False)", ROWS),
    ),
    "standardized": (
        """class StdConv2d(nn.Conv2d):
    def forward(self, x):
        v, m = torch.var_mean(self.weight, dim=[1, 2, 3], keepdim=True, unbiased=False)
        w = (self.weight - m) / torch.sqrt(v + 1e-4)
        return F.conv2d(x, w, self.bias, self.stride, self.padding, self.dilation, self.groups)""",
        ("StdConv2d(3, 6, kernel_size=3, padding=1, bias=False)", "StdConv2d(6, 4, (2, 3), stride=(2, 1))", IMAGES),
    ),
    "padded by itself": (
        """class Same(nn.Conv2d):
    def __init__(self, n, m, kernel_size, stride=1, groups=1):
        super().__init__(n, m, kernel_size, stride, 0, 1, groups, bias=True)
        self.stride = self.stride if len(self.stride) == 2 else [self.stride[0]] * 2

    def forward(self, x):
        kh, kw = self.weight.size()[-2:]
        high = max((math.ceil(x.size(2) / self.stride[0]) - 1) * self.stride[0] + kh - x.size(2), 0)
        wide = max((math.ceil(x.size(3) / self.stride[1]) - 1) * self.stride[1] + self.kernel_size[1] - x.size(3), 0)
        x = F.pad(x, [wide // 2, wide - wide // 2, high // 2, high - high // 2])
        return F.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)""",
        ("Same(3, 6, 3, 2)", "Same(6, 4, (3, 2), groups=2)", IMAGES),
    ),
    "causal": (
        """class Causal(nn.Conv1d):
    def __init__(self, n, m, width):
        super().__init__(n, m, width, padding=width - 1)

    def forward(self, x):
        return super().forward(x)[..., : -self.padding[0]]""",
        ("Causal(3, 6, 3)", "Causal(6, 4, 2)", "torch.arange(54.0).reshape(2, 3, 9) / 54"),
    ),
    "a table": (
        """class Scaled(nn.Embedding):
    def forward(self, x):
        return F.embedding(x.long(), self.weight) * self.weight.size(1) ** 0.5""",
        ("Scaled(9, 4)", "nn.Linear(4, 2)", "torch.tensor([[0, 3], [8, 3]])"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_they_train_as_in_torch(form: str, float64: None) -> None:
    defined, (first, second, given) = FORMS[form]
    net = NET.replace("A, B", f"{first}, {second}").replace("X", given)
    theirs, ours = trained(HEAD + defined + "\n" + net + FOUR_STEPS)
    np.testing.assert_allclose(ours["losses"], theirs["losses"], rtol=EXACT)


STARTS = {  # how the layer is made, and what it is given
    "Linear": ("50, 90", "torch.ones(1, 50)"),
    "Conv2d": ("40, 60, 3, groups=2", "torch.ones(1, 40, 4, 4)"),
    "Conv1d": ("40, 60, 5", "torch.ones(1, 40, 6)"),
    "Embedding": ("50, 90", "torch.ones(1, 3).long()"),
}


@pytest.mark.parametrize("layer", STARTS)
def test_they_start_from_the_same_distribution(layer: str) -> None:
    sizes, given = STARTS[layer]
    text = f"class Own(nn.{layer}):\n    def weights(self):\n        return self.weight\n"
    made = rewritten.clean(f"{HEAD}{text}\n\nlayer = Own({sizes})\ny = layer({given})\n")
    ours = jax.tree.leaves(rewritten.executed(made.text)["params"])
    torch.manual_seed(0)
    module = rewritten.executed(f"{HEAD}layer = nn.{layer}({sizes})\n")["layer"]
    theirs = [parameter.detach().numpy() for parameter in module.parameters()]
    for one, other in zip(sorted(ours, key=np.ndim), sorted(theirs, key=np.ndim), strict=True):
        assert one.shape == other.shape
        assert kolmogorov_smirnov(np.asarray(one), other) < SAME_DISTRIBUTION


ASKED = (
    HEAD
    + FORMS["masked"][0]
    + NET.replace("A, B", "MaskedLinear(4, 6), nn.Linear(6, 2)").replace("X", ROWS)
    + """

def init(m):
    if isinstance(m, TEST):
        nn.init.constant_(m.weight, 0.3)


torch.manual_seed(0)
net = Net()
net.apply(init)
y = net(x).sum().item()
"""
)


@pytest.mark.parametrize("test", ["nn.Linear", "(nn.Conv2d, nn.Linear)", "MaskedLinear"])
def test_they_are_still_layers_of_that_sort(test: str) -> None:
    made = rewritten.executed(rewritten.clean(ASKED.replace("TEST", test)).text)
    first, second = made["params"]["a"]["weight"], made["params"]["b"]["kernel"]
    assert np.all(np.asarray(first) == np.float32(0.3))
    assert np.all(np.asarray(second) == np.float32(0.3)) == (test != "MaskedLinear")


LISTED = "\nKINDS = [nn.Linear]\n\ndef init"
OTHERWISE = {
    "by a list": ASKED.replace("isinstance(m, TEST)", "type(m) in KINDS").replace("\n\ndef init", LISTED),
    "by a name of its own": ASKED.replace("TEST", "Linear").replace("import math", "from torch.nn import Linear"),
}


@pytest.mark.parametrize("form", OTHERWISE)
def test_what_asks_otherwise_is_not_followed(form: str) -> None:
    report = rewritten.conversion(OTHERWISE[form]).report.as_text()
    assert "MIG201 MaskedLinear inherits from nn.Linear" in report


def test_types_say_nothing() -> None:
    typed = ASKED.replace("TEST", "nn.Linear").replace("def init(m)", "def init(m: nn.Linear | None)")
    assert rewritten.conversion(typed).report.exit_code == 0
