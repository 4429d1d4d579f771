"""What module classes hold besides layers: outputs, gradients and state after a call, in both frameworks."""

from __future__ import annotations

import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from migrate.layers.layer import Sample
from tests.conformance import rewritten
from tests.conformance.run_layer import assert_same

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
PARAMETER_LISTS = """class M(nn.Module):
    def __init__(self, number=2, sizes=(4, 5)):
        super().__init__()
        self.kernels = nn.ParameterList([nn.Parameter(torch.randn(4, 4)) for _ in range(number)])
        self.biases = nn.ParameterList([nn.Parameter(torch.zeros(4)), torch.ones(4)])
        self.scales = nn.ParameterDict({"left": nn.Parameter(torch.randn(4)), "right": nn.Parameter(torch.ones(4))})
        self.filled = nn.ParameterList()
        for size in sizes:
            self.filled.append(nn.Parameter(torch.randn(size) * 0.5))
        self.counted = nn.ParameterList(nn.Parameter(torch.randn(size, 1)) for size in sizes)

    def forward(self, x):
        for kernel, bias in zip(self.kernels, self.biases):
            x = torch.tanh(x @ kernel + bias)
        for name, scale in self.scales.items():
            x = x * scale.unsqueeze(0)
        x = x + self.scales["left"] - self.scales.right.pow(2)
        return x.sum() + len(self.kernels) * self.filled[1].sum() + sum(column.sum() for column in self.counted)
"""
MASKED = """class M(nn.Module):
    def __init__(self, n=3):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.mask = self.others(n)
        self.register_buffer("lower", torch.ones(n, n, dtype=torch.bool).tril())

    def others(self, n):
        mask = torch.ones((n, n), dtype=bool)
        for i in range(n):
            mask[i, i] = 0
        return mask

    def forward(self, x):
        x = self.fc(x)
        products = x @ x.T
        return products[self.mask].reshape(len(x), -1).logsumexp(1) + products[self.lower].mean()
"""
PADDED_BY_COUNTS = """class Block(nn.Module):
    def __init__(self, shape, width=2):
        super().__init__()
        channels = shape[0]
        self.net = nn.Sequential(
            nn.ReflectionPad2d(channels),
            nn.Conv2d(channels, 4, 3),
            nn.ReplicationPad2d((width, 1, 0, width)),
            nn.ZeroPad2d((-width, channels, width, -1)),
            nn.Conv2d(4, channels, 3),
        )

    def forward(self, x):
        return self.net(x)


class M(nn.Module):
    def __init__(self, shape=(2, 5, 6)):
        super().__init__()
        self.block = Block(shape)

    def forward(self, x):
        return self.block(x)
"""
GIVEN_BY_LAMBDA = """class Mlp(nn.Module):
    def __init__(self, width, act_layer=nn.ReLU):
        super().__init__()
        self.fc = nn.Linear(width, width)
        self.act = act_layer()

    def forward(self, x):
        return self.act(self.fc(x))


class M(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        gelu = lambda: nn.GELU(approximate="tanh")
        self.mlp = Mlp(width, act_layer=gelu)
        self.other = Mlp(width)

    def forward(self, x):
        return self.other(self.mlp(x))
"""
FOLLOWING = """class M(nn.Module):
    def __init__(self, width=4, decay=0.9):
        super().__init__()
        self.decay = decay
        self.linear = nn.Linear(width, width)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("steps", torch.tensor(0))
        self.register_buffer("rows", torch.randn(3, width))
        self.register_buffer("constant", torch.ones(width) * 2, persistent=False)

    def forward(self, x):
        x = self.linear(x)
        if self.training:
            with torch.no_grad():
                self.mean.mul_(self.decay).add_(x.mean(0), alpha=1 - self.decay)
            self.steps += 1
            self.rows[0] = x[0].detach()
            self.rows[1:] += 1.0
        return (x - self.mean) * self.constant + self.rows.sum(0) * self.steps
"""
REMEMBERING = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(1, 4))
        self.linear = nn.Linear(4, 4)

    @torch.no_grad()
    def scale(self, x):
        return x.square().mean()

    def forward(self, x):
        self.last = 0.5 * self.last + x.detach().mean()
        self.last.copy_(self.last[:, :1] * 2)
        with torch.no_grad():
            gate = torch.sigmoid(self.linear(x))
        with torch.no_grad():
            shift = x * 2
            shift = shift + self.linear(shift)
        return self.linear(x) * gate - self.last * self.scale(x) + shift
"""
PACKED = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.RNN(3, 4, 2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(8, 4, bidirectional=True)
        self.lstm = nn.LSTM(8, 4, num_layers=2, proj_size=3, batch_first=True)
        self.tag = nn.Sequential(nn.Linear(3, 4), nn.Tanh())

    def forward(self, x):
        lengths = torch.tensor([3, 5, 2])
        start = torch.ones(4, 3, 4) * x.mean()
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        seen, hidden = self.rnn(packed, start)
        inside, last = self.gru(seen)
        padded, _ = nn.utils.rnn.pad_packed_sequence(inside, total_length=6)
        ordered = nn.utils.rnn.pack_padded_sequence(padded.transpose(0, 1), [6, 5, 1], batch_first=True)
        outputs, (h, c) = self.lstm(ordered)
        labels = nn.utils.rnn.pack_padded_sequence(torch.arange(21).reshape(7, 3) % 4, [6, 5, 1])
        loss = nn.functional.cross_entropy(self.tag(outputs.data), labels[0], ignore_index=3)
        outputs, known = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, padding_value=2.0)
        return outputs, hidden, last, h, c * known.sum(), loss
"""
STEPPED = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 4)
        self.lower = nn.LSTMCell(1, 4)
        self.upper = nn.LSTMCell(4, 4, bias=False)

    def forward(self, x):
        hidden, outputs = x.new_zeros(5, 4), []
        trace = []
        for row in x.unbind(1):
            hidden = self.cell(row, hidden)
            trace.append(hidden)
        h, c = hidden, torch.tanh(hidden)
        state = (c, h)
        for value in x[:, :, 0].split(1, dim=1):
            h, c = self.lower(value, (h, c))
            state = self.upper(h, state)
            outputs += [state[0]]
        for _ in range(2):
            h, c = self.lower(h[:, :1], (h, c))
            outputs += [c]
        return torch.stack(trace, dim=1), torch.cat(outputs, dim=1) * value
"""
REUSED = """class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.middle = nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(3):
            x = self.middle(x).clamp(min=0)
        return x
"""
LISTS_OR_NONE = """class Stage(nn.Module):
    def __init__(self, stride):
        super().__init__()
        if stride > 1:
            self.down = nn.ModuleList([nn.Conv2d(2, 3, 2, stride)])
            self.more = nn.ModuleList([nn.Conv2d(3, 2, 1)])
        else:
            self.down = nn.ModuleList()
            self.more = []

    def forward(self, x):
        for layer in self.down:
            x = layer(x)
        for layer in self.more:
            x = layer(x)
        return x


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.stage = Stage(2)

    def forward(self, x):
        return self.stage(x)
"""
A_FLAG_THAT_NOBODY_PASSES = """def default(value, otherwise):
    return value if value is not None else otherwise


class M(nn.Module):
    def __init__(self, halves=True):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.halves = halves

    def forward(self, x, halve=None):
        halve = default(halve, self.training) and self.halves
        x = self.linear(x)
        if halve:
            x = x / 2
        return x
"""
REGISTERED = """from diffusers import ConfigMixin, ModelMixin, register_to_config


class M(ModelMixin, ConfigMixin):
    @register_to_config
    def __init__(self, width=4, sizes=(4, 3), scale=None):
        super().__init__()
        self.width = width
        scale = scale or self.config.sizes[1]
        self.linears = nn.ModuleList([nn.Linear(self.config.width, size) for size in self.config.sizes])
        self.twice = 2 * scale

    def forward(self, x):
        x = self.linears[0](x) / self.config.width
        return self.linears[1](x) * (self.twice if self.config.scale is None else self.config.scale)
"""
UNCALLED = """class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.spare = nn.Linear(4, 4)
        self.spare_inner = Inner()
        self.used = Inner()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.used(x) * self.scale
"""
KEPT = """def attention(q, k):
    weights = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
    return weights @ k, weights


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.attn = None
        self.conv = nn.Conv1d(3, 3, 1)

    def forward(self, x):
        y, self.attn = attention(self.conv(x), x)
        self.seen = self.conv(y)
        self.gate = torch.sigmoid(self.seen + self.attn.mean())
        return self.gate * y
"""
MADE_IN_PASSING = """class Scores(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.act = nn.Softmax(-1)

    def forward(self, q):
        return self.act(q * self.scale), q.sum()


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        scores, total = Scores(2.0)(self.fc(x))
        scorer = Scores(total)
        h = nn.MaxPool1d(2)(nn.ReLU()(scorer(scores)[0])[None])[0]
        return nn.Softmax(dim=-1)(h) * total
"""
READ_AND_TAKEN_APART = """class M(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fc = nn.Linear(width, 3)
        self.spare = nn.Linear(4, 4)
        self.book = nn.Embedding(5, 4)
        self.net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Dropout(0.0), nn.Linear(4, 4))

    def forward(self, x):
        h = F.linear(x, self.fc.weight, self.fc.bias) @ self.fc.weight
        near = (h.pow(2).sum(1, keepdim=True) - 2 * h @ self.book.weight.t()).softmax(1) @ self.book.weight
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                h = layer(h) * 2
            elif not isinstance(layer, (nn.ReLU, nn.Dropout)):
                raise ValueError(layer)
            else:
                h = layer(h)
        return h + self.net[0](near) * len(self.net), self.spare(x), self.fc.weight.norm() + self.net[-1].bias.sum()
"""
BY_NAME = """class Block(nn.Sequential):
    def __init__(self, size, width=4):
        super().__init__(nn.Linear(size, width), nn.PReLU(width), nn.Tanh())


class Last(nn.Sequential):
    def __init__(self):
        super(Last, self).__init__(nn.Linear(4, 4), nn.Tanh())

    def forward(self, x):
        return super().forward(x * 2)


class M(nn.Module):
    def __init__(self, depth=2, bias=False):
        super().__init__()
        self.depth = depth
        for i in range(depth):
            self.add_module("block" + str(i), Block(4))
            setattr(self, f"norm_{i}", nn.LayerNorm(4))
        self.add_module("last", Last())
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 2), "b": nn.Linear(4, 2)})
        self.register_buffer("mask", None)

    def forward(self, x):
        for i in range(self.depth):
            x = getattr(self, f"norm_{i}")(getattr(self, "block" + str(i))(x))
        x = self.last(x) if self.mask is None else x * self.mask
        return {name: head(x).relu() for name, head in self.heads.items()}, sum(h(x) for h in self.heads.values())
"""
FUNCTIONS_AS_VALUES = """from functools import partial


class Inner(nn.Module):
    def __init__(self, activation=F.relu):
        super().__init__()
        self.activation = activation
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        x += 1
        return self.activation(self.fc(x)).clamp(max=2)

    @torch.no_grad()
    def scale(self, x):
        return self.fc(x)


class M(nn.Module):
    def __init__(self, final=torch.tanh):
        super().__init__()
        self.inner = Inner(F.elu)
        self.final = final
        self.low = partial(torch.clamp, min=0.1)

    def forward(self, x):
        h = x * 2
        h = self.inner(h)
        h[:, 0], h[:, 1] = h[:, 1].clone(), h[:, 0].clone()
        for function in [torch.sigmoid, self.final]:
            h = function(h)
        with torch.set_grad_enabled(False):
            still = h * 3
        scaled = partial(torch.clamp, max=5)(self.inner.scale(x))
        return self.low(h) * scaled + still, max(x.sum(), x.mean()), list(map(torch.exp, [x, h]))
"""
IN_SEVERAL_PLACES = """class Core(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.fc = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.fc(x))


class Wrap(nn.Module):
    def __init__(self, inner, scale):
        super().__init__()
        self.core = inner
        self.out = nn.Linear(4, 4)
        self.scale = scale

    def forward(self, x):
        return self.out(self.core(x)) * self.scale


class M(nn.Module):
    def __init__(self):
        super().__init__()
        core = Core(4)
        self.one = Wrap(core, 1.0)
        self.two = Wrap(core, scale=2.0)
        core = nn.Linear(4, 4)
        self.first = core
        self.second = nn.Sequential(core, nn.ReLU(), nn.Linear(4, 4))
        self.third = self.first

    def forward(self, x):
        return self.one(x) + self.two(x) * self.third(x) + self.first(x) * self.second(x * 2)
"""
FORMS = {
    "an activation that a lambda makes": (GIVEN_BY_LAMBDA, Sample("M()", (3, 4))),
    "padding by a number that has a name": (PADDED_BY_COUNTS, Sample("M()", (3, 2, 5, 6))),
    "masks that a constructor makes": (MASKED, Sample("M()", (3, 4))),
    "modules without weights that a forward pass makes": (MADE_IN_PASSING, Sample("M()", (3, 4))),
    "modules in several places": (IN_SEVERAL_PLACES, Sample("M()", (3, 4))),
    "what is kept for others to look at": (KEPT, Sample("M()", (2, 3, 4))),
    "weights that are read, and an nn.Sequential taken apart": (READ_AND_TAKEN_APART, Sample("M()", (3, 4))),
    "attributes by name, and classes of layers in a row": (BY_NAME, Sample("M()", (3, 4))),
    "functions of torch as values": (FUNCTIONS_AS_VALUES, Sample("M()", (3, 4))),
    "modules that nothing calls": (UNCALLED, Sample("M()", (3, 4))),
    "a flag that nobody passes": (A_FLAG_THAT_NOBODY_PASSES, Sample("M()", (3, 4))),
    "cells stepped in a loop": (STEPPED, Sample("M()", (5, 3, 3))),
    "a layer used in a loop": (REUSED, Sample("M()", (3, 4))),
    "packed sequences": (PACKED, Sample("M()", (3, 5, 3))),
    "buffers that follow in train mode": (FOLLOWING, Sample("M()", (3, 4))),
    "buffers that change in both modes, and no_grad": (REMEMBERING, Sample("M()", (3, 4))),
    "lists of parameters": (PARAMETER_LISTS, Sample("M()", (3, 4))),
    "settings that a constructor registers": (REGISTERED, Sample("M()", (3, 4))),
    "lists of layers that may be empty": (LISTS_OR_NONE, Sample("M()", (2, 2, 4, 5))),
}


@pytest.fixture(autouse=True)
def diffusers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the library of that name adds to a model, in short."""

    def register_to_config(init: Callable[..., None]) -> Callable[..., None]:
        def registering(self: Any, *given: Any, **named: Any) -> None:
            bound = inspect.signature(init).bind(self, *given, **named)
            bound.apply_defaults()
            self.config = types.SimpleNamespace(**bound.arguments)
            init(self, *given, **named)

        return registering

    library: Any = types.ModuleType("diffusers")
    library.ModelMixin, library.ConfigMixin = torch.nn.Module, type("ConfigMixin", (), {})
    library.register_to_config = register_to_config
    monkeypatch.setitem(sys.modules, "diffusers", library)


@pytest.mark.parametrize("name", FORMS)
def test_the_same_from_the_same_weights(name: str, float64: None) -> None:
    text, sample = FORMS[name]
    assert_same(HEAD + text, sample)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("nn.Linear(4, 4)", "torch.nn.Linear is made in a forward pass, with new weights at each call"),
        ("nn.Dropout(0.1)", "torch.nn.Dropout is made in a forward pass, in train mode at each call"),
        ("M(self.depth - 1)", "M is made in a forward pass, with new weights at each call"),
    ],
)
def test_what_a_forward_pass_makes_anew_is_refused(made: str, said: str) -> None:
    text = f"""class M(nn.Module):
    def __init__(self, depth=0):
        super().__init__()
        self.depth = depth
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return {made}(self.fc(x))
"""
    found = rewritten.conversion(HEAD + text).report.diagnostics
    assert [(one.code, one.message) for one in found] == [("MIG201", said)]
