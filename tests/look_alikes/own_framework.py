"""The user's own little framework: `Tensor`, `Block`, `view`, `train`, `backward`, `no_grad` and `optim` are his."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass, field
from typing import Callable, Iterator, List

_grad_enabled = True


@contextlib.contextmanager
def no_grad() -> Iterator[None]:
    global _grad_enabled
    before, _grad_enabled = _grad_enabled, False
    try:
        yield
    finally:
        _grad_enabled = before


@dataclass(eq=False)
class Tensor:
    data: float
    requires_grad: bool = False
    grad: float = 0.
    parents: tuple = ()
    grad_fn: Callable | None = None

    def __add__(self, other: Tensor) -> Tensor:
        return Tensor(self.data + other.data, True, parents=(self, other), grad_fn=lambda g: (g, g))

    def __mul__(self, other: Tensor) -> Tensor:
        return Tensor(self.data * other.data, True, parents=(self, other),
                      grad_fn=lambda g: (g * other.data, g * self.data))

    def tanh(self) -> Tensor:
        t = math.tanh(self.data)
        return Tensor(t, True, parents=(self,), grad_fn=lambda g: (g * (1 - t * t),))

    def view(self, *shape): return self
    def detach(self): return Tensor(self.data)
    def item(self): return self.data
    def requires_grad_(self, on=True):
        self.requires_grad = on
        return self

    def backward(self, g: float = 1.) -> None:
        self.grad += g
        if self.grad_fn is not None and _grad_enabled:
            for parent, each in zip(self.parents, self.grad_fn(g)):
                parent.backward(each)


class Block:
    """A block of text, drawn in a frame; not a block of layers."""

    def __init__(self, lines: List[str], width=None):
        self.lines = lines
        self.width = width or max(map(len, lines))

    def forward(self, steps=1):
        return Block(self.lines[steps:] + self.lines[:steps], self.width)

    def view(self, start, end):
        return Block(self.lines[start:end])

    def __repr__(self):
        bar = '+' + '-' * self.width + '+'
        return '\n'.join([bar, *('|' + line.ljust(self.width) + '|' for line in self.lines), bar])


class Train:
    """One with carriages."""
    def __init__(self): self.carriages: list[str] = []
    def train(self, name): self.carriages.append(name); return self
    def eval(self): return len(self.carriages)
    def step(self): return self.carriages.pop(0)
    def to(self, station): return f"{self!r} to {station}"
    def cpu(self): return "no such station"


class optim:
    class Adam:
        def __init__(self, params, lr=0.1):
            self.params, self.lr = params, lr

        def zero_grad(self):
            for p in self.params:
                p.grad = 0.

        def step(self):
            with no_grad():
                for p in self.params:
                    p.data -= self.lr * p.grad


class nn:
    class Module: pass
    class Linear(Module):
        def __init__(self, *sizes): self.sizes = sizes
    class functional:
        relu = staticmethod(lambda x: max(x, 0))


F = nn.functional
w, b = Tensor(.5).requires_grad_(), Tensor(0.).requires_grad_()
optimizer = optim.Adam([w, b], lr=.05)
for epoch in range(20):
    optimizer.zero_grad()
    loss = (w * Tensor(2.) + b).tanh()
    loss.backward()
    optimizer.step()
print(loss.item(), loss.detach().view(-1).item(), F.relu(-3), nn.Linear(2, 3).sizes)
print(Block(["one", "two", "three"]).forward().view(0, 2))
print(Train().train("a").train("b").eval(), Train().to("Bern"))
