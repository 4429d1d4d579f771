"""What models of torchvision and its like are built with: outputs, gradients and state, in both frameworks."""

from __future__ import annotations

import pytest

from migrate.layers.layer import Sample
from tests.conformance.run_layer import assert_same

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
RELATIVE_PLACES = """class M(nn.Module):
    def __init__(self, window_size=(2, 3), heads=2):
        super().__init__()
        self.window_size, self.heads = window_size, heads
        self.qkv = nn.Linear(4, 12)
        self.table = nn.Parameter(torch.randn((2 * window_size[0] - 1) * (2 * window_size[1] - 1), heads))
        self.define_index()

    def define_index(self):
        rows = torch.arange(self.window_size[0])
        columns = torch.arange(self.window_size[1])
        places = torch.flatten(torch.stack(torch.meshgrid(rows, columns, indexing="ij")), 1)
        relative = places[:, :, None] - places[:, None, :]
        relative = relative.permute(1, 2, 0).contiguous()
        relative[:, :, 0] += self.window_size[0] - 1
        relative[:, :, 1] += self.window_size[1] - 1
        relative[:, :, 0] *= 2 * self.window_size[1] - 1
        self.register_buffer("index", relative.sum(-1).flatten())

    def forward(self, x):
        n = self.window_size[0] * self.window_size[1]
        bias = self.table[self.index].view(n, n, -1).permute(2, 0, 1).contiguous().unsqueeze(0)
        qkv = self.qkv(x).reshape(x.size(0), x.size(1), 3, self.heads, 2).permute(2, 0, 3, 1, 4)
        attention = (qkv[0] @ qkv[1].transpose(-2, -1) + bias).softmax(-1)
        return (attention @ qkv[2]).transpose(1, 2).flatten(2)
"""
ANNOTATED_ROWS = """from collections import OrderedDict


class M(nn.Module):
    def __init__(self, width=4, depth=2):
        super().__init__()
        layers: "OrderedDict[str, nn.Module]" = OrderedDict()
        layers["inner"] = nn.Conv2d(3, width, 3, padding=1)
        # normalised before it is cut off
        layers["norm"] = nn.BatchNorm2d(width)
        layers["act"] = nn.ReLU()
        self.layers = nn.Sequential(layers)
        heads: list[nn.Module] = []
        for _ in range(depth):
            heads.append(nn.Conv2d(width, width, 1))
        self.heads = nn.Sequential(*heads)

    def forward(self, x):
        return self.heads(self.layers(x))
"""
ROWS_BY_NAME = """from collections import OrderedDict


def told(number):
    return number


class Block(nn.Module):
    def __init__(self, width, drop=0.0):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 1)
        self.drop = nn.Dropout(drop)

    def forward(self, x):
        return x.tanh() + self.drop(self.conv(x)) / 4


class M(nn.Module):
    def __init__(self, depth=2, sizes=(1, 2, 1), width=4, wide=True):
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for i in range(told(depth)):
            layers[f"z_layer_{i}"] = Block(width)
        layers["head"] = Block(width)
        if wide:
            layers["act"] = nn.Tanh()
        self.layers = nn.Sequential(layers)
        self.features = nn.Sequential(OrderedDict([("conv0", nn.Conv2d(3, width, 1)), ("act0", nn.Tanh())]))
        for i, size in enumerate(told(sizes)):
            block = nn.Sequential(*[Block(width) for _ in range(size)])
            self.features.add_module("stage%d" % (i + 1), block)
            if i != len(sizes) - 1:
                self.features.add_module("between%d" % (i + 1), nn.Conv2d(width, width, 1))
        self.features.add_module("norm5", nn.GroupNorm(2, width))
        blocks = []
        for i in range(told(depth)):
            blocks.append((f"block{i + 1}", Block(width)))
        self.trunk = nn.Sequential(OrderedDict(blocks))
        stem = nn.Sequential()
        for i in range(told(depth)):
            stem.add_module(f"conv_{i}", nn.Conv2d(width, width, 3, padding=1, bias=False))
            stem.add_module(f"norm_{i}", nn.BatchNorm2d(width))
            stem.add_module(f"act_{i}", nn.ReLU())
        stem.add_module("last", nn.Conv2d(width, 2, 1))
        self.stem = stem

    def forward(self, x):
        x = self.trunk(self.layers(self.features(x)))
        for layer in self.layers:
            x = layer(x)
        return self.stem(x)
"""
LAYERS_BY_THEIR_FUNCTIONS = """class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Groups(nn.GroupNorm):
    def forward(self, x):
        return F.group_norm(x.double(), self.num_groups, self.weight, bias=self.bias, eps=self.eps)


class Scaled(nn.Linear):
    def forward(self, x):
        return 2 * F.linear(input=x, weight=self.weight, bias=self.bias)


class M(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 1)
        self.norm = LayerNorm2d(width, eps=1e-4)
        self.groups = Groups(2, width)
        self.head = Scaled(width, 2)

    def forward(self, x):
        return self.head(self.groups(self.norm(self.conv(x))).mean((2, 3)))
"""
SIZES_OF_SIZES = """import itertools


def for_each(x, n):
    return tuple(x) if isinstance(x, tuple) else tuple(itertools.repeat(x, n))


class Padded(nn.Module):
    def __init__(self, width, kernel_size=3, padding=None):
        super().__init__()
        if padding is None:
            if isinstance(kernel_size, int):
                padding = kernel_size // 2
            else:
                kernel_size = for_each(kernel_size, 2)
                padding = tuple(size // 2 for size in kernel_size)
        self.conv = nn.Conv2d(width, width, kernel_size, padding=padding)

    def forward(self, x):
        return self.conv(x)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(Padded(3), nn.Tanh(), Padded(3, (3, 1)), nn.Tanh(), Padded(3, (1, 3), (0, 1)))

    def forward(self, x):
        return self.layers(x)
"""
LISTS_WITH_NAMES = """def rows(width, depth):
    made = nn.ModuleList()
    for _ in range(depth):
        made.append(nn.Linear(width, width))
    return made


class M(nn.Module):
    def __init__(self, width=4, depth=2):
        super().__init__()
        layers = nn.ModuleList([])
        for _ in range(depth):
            layers.append(nn.ModuleList([nn.Linear(width, width), nn.LayerNorm(width)]))
        self.layers = layers
        first = nn.ModuleList([nn.Linear(width, width)])
        first.extend([nn.Linear(width, width)])
        self.first = first
        self.pairs = nn.ModuleList()
        for _ in range(depth):
            pair = nn.ModuleList()
            pair.append(nn.Linear(width, width))
            pair.append(nn.LayerNorm(width))
            self.pairs.append(pair)
        self.more = rows(width, depth)

    def forward(self, x):
        for fc, norm in [*self.layers, *self.pairs]:
            x = norm(fc(x))
        for fc in [*self.first, *self.more]:
            x = fc(x).tanh()
        return x
"""
SIZES_OF_MADE_LAYERS = """class Stage(nn.Module):
    def __init__(self, entry, out, kernel, stride=None, conv=nn.Conv2d, pool=nn.MaxPool2d):
        super().__init__()
        padding = kernel // 2 if isinstance(kernel, int) else tuple(k // 2 for k in kernel)
        self.conv = conv(entry, out, kernel, padding=padding)
        self.first = pool(2, stride=1)
        self.pool = pool(2)
        self.own = nn.AvgPool2d(2, stride)
        self.stride = stride

    def forward(self, x):
        return F.max_pool2d(self.own(self.pool(self.first(self.conv(x)))), 2, self.stride)


class M(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.wide = Stage(3, width, (1, 3), stride=1)
        self.last = Stage(width, width, 3)

    def forward(self, x):
        return self.last(self.wide(x))
"""
SHIFTED = """from torch.amp import autocast
from torch.nn.attention import SDPBackend, sdpa_kernel


@autocast("cuda", enabled=False)
def turned(x):
    return torch.stack((-x[..., 1], x[..., 0]), dim=-1)


class M(nn.Module):
    def __init__(self, shift=1):
        super().__init__()
        self.shift = shift
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        shifts = ((1, -1, 0, 0), (0, 0, -1, 1))
        x = torch.cat((x, *map(lambda shift: F.pad(x, shift), shifts)), dim=1)
        x = F.pad(x, (0, 0, self.shift, -self.shift), value=2.0)
        with sdpa_kernel([SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION]):
            x = F.scaled_dot_product_attention(x, x, x)
        return turned(self.fc(x))
"""
FORMS = {
    "widths that cut, kernels that are chosen, autocast that is off": (SHIFTED, Sample("M()", (2, 3, 3, 4))),
    "lists of modules that have names": (LISTS_WITH_NAMES, Sample("M()", (3, 4))),
    "sizes of layers that are made by value": (SIZES_OF_MADE_LAYERS, Sample("M()", (2, 3, 26, 26))),
    "sizes of sizes": (SIZES_OF_SIZES, Sample("M()", (3, 3, 4, 4))),
    "layers by their functions": (LAYERS_BY_THEIR_FUNCTIONS, Sample("M()", (3, 3, 4, 4))),
    "rows that are filled by name": (ROWS_BY_NAME, Sample("M()", (3, 3, 4, 4))),
    "rows with annotations": (ANNOTATED_ROWS, Sample("M()", (3, 3, 4, 4))),
    "tables of relative positions": (RELATIVE_PLACES, Sample("M()", (3, 6, 4))),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_from_the_same_weights(name: str, float64: None) -> None:
    text, sample = FORMS[name]
    assert_same(HEAD + text, sample)
