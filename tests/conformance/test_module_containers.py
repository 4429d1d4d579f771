"""How module classes put their parts together: outputs, gradients and weights in both frameworks, or a code."""

from __future__ import annotations

import pytest

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import assert_same

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
FILLED_LATER = """class M(nn.Module):
    def __init__(self, width=4, depth=2):
        super().__init__()
        net = nn.Sequential()
        net.add_module("first", nn.Linear(width, 5))
        for i in range(2):
            net.add_module(f"middle{i}", nn.Linear(5, 5))
        net.add_module(name="last", module=nn.Tanh())
        self.net = net
        self.row = nn.Sequential()
        for _ in range(depth):
            self.row.append(nn.Linear(5, 5))
            self.row.append(nn.ReLU())
        self.kept = nn.Sequential(self.kept_row(1), self.kept_row(depth))
        self.heads = nn.ModuleDict({"a": nn.Linear(5, 3)})
        self.heads["b"] = nn.Linear(5, 3)
        self.heads.update({"c": nn.Linear(5, 3)})
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(depth)])
        self.layers += [nn.Linear(3, 3)]
        self.layers.insert(0, nn.LayerNorm(3))

    def kept_row(self, n):
        row = nn.Sequential()
        for i in range(n):
            row.add_module("{}_{}".format("kept", i), nn.Linear(5, 5))
            row.add_module(module=nn.Tanh(), name="tanh{:d}".format(i))
        return row

    def forward(self, x):
        x = self.row(self.kept(self.net(x)))
        x = self.heads["a"](x) + self.heads["b"](x) * self.heads["c"](x)
        for layer in self.layers:
            x = layer(x)
        return x
"""
NAMED_IN_LOOPS = """class M(nn.Module):
    def __init__(self, sizes=(4, 5, 6)):
        super().__init__()
        for i, (a, b) in enumerate(zip(sizes[:-1], sizes[1:])):
            self.add_module("fc%d" % i, nn.Linear(a, b))
            setattr(self, "norm{}".format(i), nn.LayerNorm(b))
        self.scales = {"low": 1.0, "high": 2.0}
        for name, value in self.scales.items():
            self.register_buffer(f"{name}_scale", torch.full((6,), value), persistent=False)
        for name in ("query", "key"):
            setattr(self, name, nn.Linear(6, 6))

    def forward(self, x):
        for i in range(2):
            x = getattr(self, "norm{}".format(i))(getattr(self, "fc%d" % i)(x))
        return self.query(x) * self.low_scale + self.key(x) * self.high_scale
"""
SEVERAL_TIMES = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.Linear(4, 4)
        self.layers = nn.ModuleList([layer, nn.Linear(4, 4), layer])
        self.row = nn.Sequential(*[layer for _ in range(2)])
        self.again = nn.ModuleList([nn.Linear(4, 4)] * 3)
        self.heads = nn.ModuleDict({"x": layer})
        self.scale = nn.Parameter(torch.ones(4))
        self.same_scale = self.scale

    def forward(self, x):
        for layer in [*self.layers, *self.again]:
            x = layer(x).relu()
        return self.heads["x"](self.row(x)) * self.scale + self.same_scale
"""
KEYWORDS_HANDED_ON = """class Conv(nn.Module):
    def __init__(self, inputs, outputs, *args, **kwargs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, bias=False, **kwargs)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)), inplace=True)


class Scaled(Conv):
    def __init__(self, scale, **kwargs):
        super().__init__(3, 4, **kwargs)
        self.scale = scale

    def forward(self, x, **unused):
        return super().forward(x) * self.scale


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Scaled(2.0, kernel_size=3, padding=1)
        self.second = Conv(4, 4, "ignored", kernel_size=(1, 3), stride=2)

    def forward(self, x):
        return self.second(self.first(x, mask=None))
"""
PARTS_IN_ORDER = """class Base(nn.Module):
    activation = nn.ReLU

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = self.activation()


class M(Base):
    activation = nn.Tanh

    def __init__(self):
        super().__init__()
        self.third = nn.Linear(4, 4)

    def forward(self, x):
        for part in self.children():
            x = part(x)
        for name, part in self.named_children():
            x = part(x) * len(name)
        return x
"""
ONE_AFTER_ANOTHER = """from collections import OrderedDict


class Layer(nn.Sequential):
    def __init__(self, inputs, grown):
        super(Layer, self).__init__()
        self.norm = nn.BatchNorm1d(inputs)
        self.add_module("act", nn.ReLU(inplace=True))
        self.add_module("conv", nn.Conv1d(inputs, grown, 1, bias=False))

    def forward(self, x):
        return torch.cat([x, super(Layer, self).forward(x)], 1)


class Block(nn.Sequential):
    def __init__(self, depth, inputs, grown):
        super().__init__()
        for i in range(depth):
            layer = Layer(inputs + i * grown, grown)
            self.add_module("layer%d" % (i + 1), layer)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = Block(2, 3, 2)
        layers = OrderedDict()
        layers["conv"] = nn.Conv1d(7, 4, 1)
        layers["act"] = nn.Tanh()
        self.last = nn.Sequential(layers)

    def forward(self, x):
        return self.last(self.block(x))
"""
COPIES_AND_KEYS = """import copy


def clones(module, number):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(number)])


class Inner(nn.Module):
    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, x):
        return self.part(x).relu()


class M(nn.Module):
    def __init__(self, names=("a", "b")):
        super().__init__()
        c = copy.deepcopy
        part = nn.Linear(4, 4)
        self.layers = clones(Inner(c(part)), 2)
        self.heads = nn.ModuleDict({name: nn.Linear(4, 3) for name in names})
        self.scales = nn.ParameterDict({k: nn.Parameter(torch.zeros(n)) for k, n in (("u", 3), ("v", 1))})
        self.offset = nn.Buffer(torch.arange(3.0), persistent=False)
        self.mean = nn.Buffer(torch.zeros(3))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        x = sum(head(x) * self.scales["u"] for head in self.heads.values()) + self.scales["v"] + self.offset
        if self.training:
            self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return x - self.mean
"""
TIED = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.table = nn.Embedding(6, 4)
        self.head = nn.Linear(4, 6)
        self.head.weight = self.table.weight

    def forward(self, x):
        return self.head(self.second(self.first(self.table(x))).relu())
"""
NAMED_ROWS = """from collections import OrderedDict


class M(nn.Module):
    def __init__(self, widths=(4, 5, 5), n=3):
        super().__init__()
        layers = OrderedDict()
        for i in range(len(widths) - 1):
            layers[f"fc{i}"] = nn.Linear(widths[i], widths[i + 1])
            if i < len(widths) - 2:
                layers["act%d" % i] = nn.ReLU()
        self.row = nn.Sequential(layers)
        pairs = []
        for i in range(n):
            pairs.append((f"fc{i}", nn.Linear(5, 5)))
            pairs.append((f"act{i}", nn.Tanh()))
        self.pairs = nn.Sequential(OrderedDict(pairs))
        self.last = nn.Sequential(OrderedDict([(f"norm{i}", nn.LayerNorm(5)) for i in range(n - 1)]))

    def forward(self, x):
        return self.last(self.pairs(self.row(x)))
"""
REPLACED = """class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.fc(x))


class M(Base):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 6)
        self.act = nn.Tanh()
        blocks = [nn.Linear(6, 6), nn.Tanh()]
        self.net = nn.Sequential(*blocks * 2)

    def forward(self, x):
        return self.net(super().forward(x))
"""
STAGES = """class M(nn.Module):
    def __init__(self, repeats=(1, 2), widths=(5, 6, 4)):
        super().__init__()
        assert len(repeats) == 2
        if len(widths) != 3:
            raise ValueError("three widths")
        self.widths = widths
        names = [f"stage{i}" for i in [2, 3]]
        last, before = 4, 0
        for name, repeat, width in zip(names, repeats, self.widths[1:]):
            layers = [nn.Linear(last, width)]
            for i in range(repeat - 1):
                layers.append(nn.Linear(width, width))
            setattr(self, name, nn.Sequential(*layers))
            last = width
        self.head = nn.Linear(width, repeat)

    def forward(self, x):
        return self.head(self.stage3(self.stage2(x)))
"""
CHOSEN_BY_STAGE = """def upsample(width, out):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(width, out, 3, padding=1))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 1)

    def forward(self, x):
        return x + self.conv(x)


class M(nn.Module):
    def __init__(self, widths=(3, 4, 2)):
        super().__init__()
        self.stages = nn.ModuleList([])
        for i, (a, b) in enumerate(zip(widths[:-1], widths[1:])):
            last = i == len(widths) - 2
            self.stages.append(nn.ModuleList([Block(a), upsample(a, b) if not last else nn.Conv2d(a, b, 3)]))
        self.end = nn.BatchNorm2d(widths[-1])

    def forward(self, x):
        for block, resize in self.stages:
            x = block(x)
            x = resize(x)
        return self.end(x).mean(3)
"""
MIXED_ROWS = """class Block(nn.Sequential):
    def __init__(self, c_in, c_out):
        super().__init__(nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU6())


class Residual(nn.Module):
    def __init__(self, width, expand, norm=None):
        super().__init__()
        norm = norm or nn.BatchNorm2d
        layers = []
        if expand != 1:
            layers.append(Block(width, width * expand))
        layers += [nn.Conv2d(width * expand, width, 1), nn.ReLU()]
        layers.extend([norm(width)])
        self.conv = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.conv(x)


class M(nn.Module):
    def __init__(self, expands=(1, 2)):
        super().__init__()
        row = [Block(3, 4)]
        for expand in expands:
            row.append(Residual(4, expand))
        row.append(nn.MaxPool2d(2))
        self.row = nn.Sequential(*row)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        return self.head(self.row(x).mean([2, 3]))
"""
GIVEN_LAYERS = """class Normed(nn.Sequential):
    def __init__(self, c_in, c_out, size=3, norm=nn.BatchNorm2d, act=nn.ReLU, inplace=True, bias=None, conv=nn.Conv2d):
        if bias is None:
            bias = norm is None
        layers = [conv(c_in, c_out, size, padding=size // 2, bias=bias)]
        if norm is not None:
            layers.append(norm(c_out))
        if act is not None:
            params = {} if inplace is None else {"inplace": inplace}
            layers.append(act(**params))
        super().__init__(*layers)
        self.width = c_out
        if self.__class__ == Normed:
            raise TypeError("this is a base")


class Normed2d(Normed):
    def __init__(self, c_in, c_out, size=3, norm=nn.BatchNorm2d, act=nn.ReLU, inplace=True, bias=None):
        super().__init__(c_in, c_out, size, norm, act, inplace, bias, nn.Conv2d)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Normed2d(3, 4)
        self.rest = nn.Sequential(Normed2d(4, 4, 1, act=nn.ReLU6), Normed2d(4, 5, norm=None), Normed2d(5, 4, act=None))

    def forward(self, x):
        return self.rest(self.first(x))
"""
OF_TWO_LENGTHS = """from collections import OrderedDict


class Row(nn.Module):
    def __init__(self, n=2):
        super().__init__()
        layers = OrderedDict()
        for i in range(n):
            layers[f"fc{i}"] = nn.Linear(4, 4)
        self.net = nn.Sequential(layers)

    def forward(self, x):
        if not isinstance(self.net, nn.Sequential):
            return x
        return self.net(x)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Sequential(Row(3), Row(2))

    def forward(self, x):
        return self.rows(x)
"""
REGISTERED_BY_A_LOOP = """class Head(nn.Module):
    def __init__(self, width, out):
        super().__init__()
        self.W = nn.Parameter(torch.randn(width, out))
        self.a = nn.Linear(out, out)

    def forward(self, x):
        return self.a(x @ self.W)


class M(nn.Module):
    def __init__(self, width=4, count=12):
        super().__init__()
        self.heads = [Head(width, 2) for _ in range(count)]
        for i, head in enumerate(self.heads):
            self.add_module("head_{}".format(i), head)
        self.last = [nn.Linear(2 * count, 3), nn.Linear(3, 3)]
        for number, layer in enumerate(self.last):
            self.add_module(f"last{number}", layer)

    def forward(self, x):
        x = torch.cat([head(x) for head in self.heads], dim=1)
        return self.last[1](self.last[0](x).relu())
"""
MOVING_ROWS = """class Centred(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.g = nn.Parameter(torch.ones(1, width, 1, 1))

    def forward(self, x):
        return x * self.g - x.mean(dim=1, keepdim=True)


class M(nn.Module):
    def __init__(self, sizes=(4, 5, 4), depth=2):
        super().__init__()
        layers = []
        width = 4
        for size in sizes:
            layers.append(nn.Sequential(nn.Conv2d(width, size, 3, padding=1), Centred(size)))
            width = size
        self.layers = nn.Sequential(*layers)
        self.more = nn.Sequential(*[nn.Sequential(Centred(4), nn.Conv2d(4, 4, 1)) for _ in range(depth)])
        first = nn.Sequential(nn.Conv2d(4, 4, 1), Centred(4))
        self.last = nn.Sequential(first, nn.Sequential(nn.Conv2d(4, 4, 1), Centred(4)))

    def forward(self, x):
        return self.last(self.more(self.layers(x)))
"""
ARGUMENTS_BY_NAME = """def with_prefix(prefix, given):
    return {name[len(prefix):]: value for name, value in given.items() if name.startswith(prefix)}


class M(nn.Module):
    def __init__(self, first_width=5, first_depth=2, second_width=3, second_depth=1):
        super().__init__()
        given = dict(locals())
        layers, width = [], 4
        for prefix in ("first_", "second_"):
            own = with_prefix(prefix, given)
            for _ in range(own["depth"]):
                layers.append(nn.Linear(width, own["width"]))
                width = own["width"]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return self.layers(x)
"""
FORMS = {
    "arguments by their names": (ARGUMENTS_BY_NAME, Sample("M()", (3, 4))),
    "rows of rows that leave their channels elsewhere": (MOVING_ROWS, Sample("M()", (2, 4, 4, 4))),
    "lists that a loop registers": (REGISTERED_BY_A_LOOP, Sample("M()", (3, 4))),
    "rows of two lengths": (OF_TWO_LENGTHS, Sample("M()", (3, 4))),
    "rows whose base is given the classes of their layers": (GIVEN_LAYERS, Sample("M()", (2, 3, 6, 6))),
    "lists of layers that want their channels in different places": (MIXED_ROWS, Sample("M()", (2, 3, 6, 6))),
    "one of two that want their channels in different places": (CHOSEN_BY_STAGE, Sample("M()", (2, 3, 6, 5))),
    "stages by the items of arguments whose lengths are insisted on": (STAGES, Sample("M((2, 3), (5, 7, 6))", (3, 4))),
    "layers that replace those of a base, and a row of layers twice": (REPLACED, Sample("M()", (3, 4))),
    "rows of layers with names": (NAMED_ROWS, Sample("M()", (3, 4))),
    "layers that a subclass of nn.Sequential adds by name": (ONE_AFTER_ANOTHER, Sample("M()", (2, 3, 5))),
    "copies, and keys that are written out": (COPIES_AND_KEYS, Sample("M()", (3, 4))),
    "weights that are tied, with biases": (TIED, Sample("M()", (3, 5), 6)),
    "containers that are filled later": (FILLED_LATER, Sample("M()", (3, 4))),
    "attributes that loops name": (NAMED_IN_LOOPS, Sample("M()", (3, 4))),
    "modules that are part of lists several times": (SEVERAL_TIMES, Sample("M()", (3, 4))),
    "keywords that constructors hand on": (KEYWORDS_HANDED_ON, Sample("M()", (2, 3, 6, 6))),
    "all parts in their order": (PARTS_IN_ORDER, Sample("M()", (3, 4))),
}


@pytest.mark.parametrize("name", FORMS)
def test_the_same_from_the_same_weights(name: str, float64: None) -> None:
    text, sample = FORMS[name]
    assert_same(HEAD + text, sample)


@pytest.mark.parametrize(
    ("made", "forward", "said"),
    [
        ("self.a = nn.Linear(4, 4)", 'self.register_buffer("b", x)', "MIG301 nn.Module.register_buffer inside"),
        ("self.a = 0", "self.a += 1", "MIG201 self.a is changed in a method"),
        ("self.a = []", "self.a.append(x)", "MIG201 self.a is changed in a method"),
        ("self.a = {}", 'self.a["x"] = x', "MIG201 self.a is changed in a method"),
        ("b = [nn.Tanh()]; self.a = nn.Sequential(*(b + b))", "x = self.a(x)", "MIG201 (b + b): the same module"),
        (
            "b = nn.Tanh(); c = []; c += [b]; c += [b]; self.a = nn.Sequential(*c)",
            "x = self.a(x)",
            "MIG201 b: the same module",
        ),
        ("self.a = nn.Linear(4, 4)", "x = list(self._modules.values())[0](x)", "MIG301 self._modules"),
        ("self.a = nn.ModuleList([nn.Linear(4, 4)] * width)", "x = self.a[0](x)", "MIG201 [nn.Linear(4, 4)] * width"),
        (
            "b = nn.Tanh(); self.a = nn.ModuleList(); self.a.append(b); self.a.append(b)",
            "x = self.a[0](x)",
            "MIG201 b: the same module",
        ),
        ("self.a = (lambda c: nn.Linear(c, c))(4)", "x = self.a(x)", "MIG201 (lambda c: nn.Linear(c, c)) makes a"),
        (
            "n = 1; self.n = locals()['n']; self.a = nn.Linear(4, 4)",
            "x = self.a(x)",
            "MIG201 locals() of a constructor",
        ),
        (
            "self.a = [nn.Tanh()]\n        for i, m in enumerate(self.a):\n            self.add_module(f'a{i + 1}', m)",
            "x = self.a[0](x)",
            "MIG201 self.a is a plain list of modules",
        ),
        (
            "a = [nn.Tanh()]; self.a = a\n        for i, m in enumerate(self.a): self.add_module(f'a{i}', m)",
            "x = self.a[0](x)",
            "MIG201 self.a is a plain list of modules",
        ),
        (
            "net = nn.Sequential(nn.Tanh()); self.a = net[0]",
            "x = self.a(x)",
            "MIG201 net is taken apart in a constructor",
        ),
    ],
)
def test_what_is_refused(made: str, forward: str, said: str) -> None:
    head = f"class M(nn.Module):\n    def __init__(self, width=4):\n        super().__init__()\n        {made}\n\n"
    found = rewritten.conversion(f"{HEAD}{head}    def forward(self, x):\n        {forward}\n        return x\n").report
    assert any(f"{one.code} {one.message}".startswith(said) for one in found.diagnostics), found.diagnostics


ANOTHER_NAME = """class M(nn.Module):
    def __init__(self, names=("a", "b")):
        super().__init__()
        for n in names:
            self.add_module(n, nn.Linear(4, 4))

    def forward(self, x):
        names = ["b", "a"] if len(x) > 1 else ["a"]
        for n in names:
            x = getattr(self, n)(x)
        return x
"""


def test_a_loop_whose_turns_are_not_known_is_refused() -> None:
    found = rewritten.conversion(HEAD + ANOTHER_NAME).report.diagnostics
    said = "MIG201 getattr(self, n), which may be any of several modules"
    assert any(f"{one.code} {one.message}".startswith(said) for one in found), found
