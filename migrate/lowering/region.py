"""An update region: the statements of one block that go forward, call `backward()` and, where it is in the same block,
step the optimizer.

What the loss depends on becomes the body of `loss_fn`; what is read afterwards comes back in `metrics`; every other
statement stays on the host, in its order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from migrate import nodes, usage
from migrate.nodes import Expr, Statement
from migrate.rules.rule import Value
from migrate.script import State

_HOST_METHODS = {"item", "tolist", "numpy", "cpu", "append", "add_scalar", "update", "write", "log", "set_postfix"}
_HOST_FUNCTIONS = {"print", "float", "int", "open", "input"}


@dataclass(frozen=True)
class Region:
    """The statements of an update, each in its part; zero_grad() and backward() are in none."""

    statements: list[Statement]
    loss: Expr
    before: list[Statement] = field(default_factory=list)  # host statements that prepare it
    traced: list[Statement] = field(default_factory=list)  # become loss_fn
    after: list[Statement] = field(default_factory=list)  # host statements that read its results
    clips: list[tuple[str, cst.Call]] = field(default_factory=list)  # (name bound, call)
    backward: Statement | None = None
    step: Statement | None = None  # None where the optimizer steps elsewhere: gradients accumulate
    supported: bool = True

    @property
    def optimizer(self) -> Expr | None:
        """The optimizer whose step ends the region."""
        call = call_of(self.step) if self.step is not None else None
        return call.func.value if call is not None and isinstance(call.func, cst.Attribute) else None


@dataclass
class Tracing:
    """What a loss function is found to need while it is lowered. `key_count` draws were counted before: a single one
    uses the step's key as it is."""

    states: list[State] = field(default_factory=list)
    changed: list[State] = field(default_factory=list)
    keys: int = 0
    key_count: int = 0
    inside: frozenset[str] = frozenset()  # names that the loss function binds
    cut: dict[str, Value] = field(default_factory=dict)  # inputs cut out of arrays: `x[i : i + n]`

    def read(self, state: State) -> None:
        """Notes that the loss function needs a piece of state."""
        if state not in self.states:
            self.states.append(state)

    def write(self, state: State) -> None:
        """Notes that it changes a piece of state."""
        if state not in self.changed:
            self.changed.append(state)
        self.read(state)

    def fresh_key(self, key: str) -> Expr:
        """The key of the next draw."""
        self.keys += 1
        return nodes.name(key) if self.key_count <= 1 else nodes.expression(f"keys[{self.keys - 1}]")


def call_of(statement: Statement) -> cst.Call | None:
    """The call of a statement that is nothing but a call."""
    if isinstance(statement, cst.SimpleStatementLine) and len(statement.body) == 1:
        small = statement.body[0]
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call):
            return small.value
    return None


def method_call_of(statement: Statement, method: str) -> cst.Attribute | None:
    """The `x.method` of a statement that is nothing but a call of it."""
    call = call_of(statement)
    func = call.func if call is not None else None
    return func if isinstance(func, cst.Attribute) and func.attr.value == method else None


def has_host_effects(statement: cst.CSTNode) -> bool:
    """Whether a statement takes values out of JAX or prints: it must not run inside a jitted function."""
    for call in usage.calls(statement):
        if isinstance(call.func, cst.Attribute):
            if call.func.attr.value in _HOST_METHODS:
                return True
        elif nodes.dotted(call.func) in _HOST_FUNCTIONS:
            return True
    return False
