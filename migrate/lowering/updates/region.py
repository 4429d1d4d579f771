"""An update region: the statements of one block that go forward, call `backward()`, once or several times, and, where
that is in the same block, step the optimizers.

What each loss depends on becomes the body of a loss function; what is read afterwards comes back in `metrics`; every
other statement stays on the host, in its order.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import Draw
from migrate.known.kinds import Place
from migrate.known.states import State
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_TAKING = {"item", "tolist", "numpy"}
_TELLING = {"append", "add_scalar", "update", "write", "log", "set_postfix"}  # whose results nobody uses
_HOST_FUNCTIONS = {"print", "float", "int", "open", "input"}


@dataclass(frozen=True)
class Part:
    """One backward pass of a region. `replayed`: statements of earlier regions that its gradient goes through; they are
    computed once more in its loss function. `trained`: the models whose gradients the steps of the region use."""

    loss: Expr
    backward: Statement
    traced: list[Statement] = field(default_factory=list)  # become the loss function
    replayed: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)  # host statements that read its results
    trained: frozenset[Place] = frozenset()

    @property
    def body(self) -> list[Statement]:
        """All statements of the loss function."""
        return [*self.replayed, *self.traced]


@dataclass(frozen=True)
class ClipCall:
    """A statement that clips gradients: the name that it gives their norm, "_" for none, the call, and the test under
    which it does so, of numbers that stay as they are: `if grad_clip:`."""

    bound: str
    call: cst.Call
    test: Expr | None = None


@dataclass(frozen=True)
class Region:
    """The statements of an update, each in its part; zero_grad() and backward() are in none."""

    statements: list[Statement]
    parts: list[Part]
    before: list[Statement] = field(default_factory=list)  # host statements that prepare it
    clips: list[ClipCall] = field(default_factory=list)
    steps: list[Statement] = field(default_factory=list)  # empty where optimizers step elsewhere: gradients accumulate
    problem: str = ""  # why it cannot be a pure function

    @property
    def optimizers(self) -> list[Expr]:
        """The optimizers whose steps end the region."""
        calls = [call_of(step) for step in self.steps]
        return [call.func.value for call in calls if call is not None and isinstance(call.func, cst.Attribute)]


@dataclass(frozen=True)
class MicroBatches:
    """A loop that only sums gradients over micro batches. fetching: the loop without the statements that read its
    losses, which are `reading`. trained: the models whose gradients it begins with zeros, since the optimizer that
    `steps` is stepped right after it; none where the gradients are those of the script. `after`: what runs between."""

    statements: list[Statement]
    fetching: cst.For
    reading: list[Statement]
    backward: Statement
    trained: frozenset[Place] = frozenset()
    clips: list[ClipCall] = field(default_factory=list)
    steps: list[Statement] = field(default_factory=list)
    after: list[Statement] = field(default_factory=list)


@dataclass
class Gathering:
    """The lowering of such a loop: what its region, inside, has become. changing: what differs from turn to turn."""

    found: MicroBatches
    changing: frozenset[str]
    call: Statement | None = None
    taken: dict[str, str] = field(default_factory=dict)  # variable -> the metric that it takes


@dataclass(frozen=True)
class Clip:
    """A call of a clipping function: the snippet, the models whose gradients it takes together, its other
    arguments. `norm`: it returns the norm, too."""

    snippet: str
    models: tuple[Place, ...]
    arguments: list[Expr]
    norm: bool


@dataclass
class Tracing:
    """What a loss function is found to need while it is lowered. `key_count` draws of the whole step were counted
    before: a single one uses the step's key as it is. `first_key`: how many draws of the step come before its own."""

    states: list[State] = field(default_factory=list)
    changed: list[State] = field(default_factory=list)
    keys: int = 0
    key_count: int = 0
    first_key: int = 0
    replaying: bool = False  # what is lowered has been computed before: it must change no state, and draw nothing else
    again: list[Expr] = field(default_factory=list)  # the keys that it was computed with then
    # statements of this loss and of those before -> the numbers of the keys that they draw with
    drawn: dict[Statement, tuple[int, ...]] = field(default_factory=dict)
    inside: frozenset[str] = frozenset()  # names that the loss functions of the step have bound by now
    done: list[Statement] = field(default_factory=list)  # statements of the loss function that come before this one
    depth: int = 0  # how many blocks are around its statements
    constants: set[str] = field(default_factory=set)  # names that jit must know: those that a precision is written with
    variables: set[str] = field(default_factory=set)  # the script's own that it reads, under their names
    bare: list[Place] = field(default_factory=list)  # the models without weights that it applies
    draws: list[Draw] = field(default_factory=list)  # what the host draws before the step
    turn_key: Expr | None = None  # what was drawn with it before, while that is computed again
    in_loop: bool = False  # inside a loop of the loss function
    drawn_in_loop: bool = False  # what that loop draws takes a key from turn to turn
    cut: dict[str, Value] = field(default_factory=dict)  # inputs cut out of arrays: `x[i : i + n]`

    @property
    def next_key(self) -> int:
        """The number of the key of the next draw."""
        return self.first_key + self.keys

    def read(self, state: State) -> None:
        """Notes that the loss function needs a piece of state."""
        if state not in self.states:
            self.states.append(state)

    def write(self, state: State) -> None:
        """Notes that it changes a piece of state."""
        if self.replaying:
            raise Unsupported("MIG401", f"the gradient goes through a change of {state.what} in an earlier step")
        if state not in self.changed:
            self.changed.append(state)
        self.read(state)

    def fresh_key(self, key: str, keys: str) -> Expr:
        """The key of the next draw: `key` itself, or one of the `keys` that it is split into."""
        if self.replaying and (self.in_loop or not self.again):
            raise Unsupported("MIG401", "the gradient goes through random draws of an earlier step")
        if self.replaying:
            return self.again.pop(0)
        self.keys += 1
        return self.key_of(self.next_key - 1, key, keys)

    def key_of(self, number: int, key: str, keys: str) -> Expr:
        """The key of a draw of this step."""
        return nodes.name(key) if self.key_count <= 1 else nodes.expression(f"{keys}[{number}]")


def call_of(statement: Statement) -> cst.Call | None:
    """The call of a statement that is nothing but a call."""
    small = suites.alone(statement)
    return small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None


def method_call_of(statement: Statement, method: str) -> cst.Attribute | None:
    """The `x.method` of a statement that is nothing but a call of it."""
    call = call_of(statement)
    func = call.func if call is not None else None
    return func if isinstance(func, cst.Attribute) and func.attr.value == method else None


def weights_of_backward(call: cst.Call) -> list[cst.Arg]:
    """The gradient that a call of `backward()` starts from, as its argument; none for `backward(None)`."""
    given = [arg for arg in call.args if arg.keyword is None or arg.keyword.value == "gradient"]
    return [] if len(given) == 1 and nodes.is_literal(given[0].value, None) else given


def first_backward(suite: Sequence[Statement], start: int = 0) -> int | None:
    """Where the first statement of a suite is, from a place on, that is nothing but a call of `backward()`."""
    return next((at for at in range(start, len(suite)) if method_call_of(suite[at], "backward") is not None), None)


def goes_backward(branch: cst.If) -> bool:
    """Whether the first side of a branch calls `backward()` in a statement of its own."""
    return first_backward(suites.suite_of(branch.body.body)) is not None


def has_host_effects(statement: cst.CSTNode, own: Container[str] = ()) -> bool:
    """Whether a statement takes values out of JAX or prints: it must not run inside a jitted function. `own`: names of
    lists that such a function makes itself, to which it may append."""
    called = [call.func for call in usage.calls(statement)]
    told = [found.value.func for found in every(statement, cst.Expr) if isinstance(found.value, cst.Call)]
    return any(
        nodes.dotted(function) in _HOST_FUNCTIONS or _is_method(function, _TAKING) for function in called
    ) or any(_is_method(function, _TELLING) and not _appends(function, own) for function in told)


def _appends(function: cst.BaseExpression, own: Container[str]) -> bool:
    """Whether a function is a method that appends to one of some lists."""
    to = function.value if isinstance(function, cst.Attribute) and function.attr.value == "append" else None
    return isinstance(to, cst.Name) and to.value in own


def changed_by(statements: Sequence[Statement], numbers: Iterable[int]) -> set[str]:
    """The names that some of the statements change."""
    return {name for number in numbers for name in usage.changes(statements[number])}


def changed_for_loss(statement: Statement, stops: Callable[[Expr], bool]) -> set[str]:
    """The names that a statement binds, changes or, with values that stay in JAX and may have gradients, puts something
    into. `stops`: whether a context records no gradients; what is made there are constants for a loss."""
    contexts = [item.item for item in statement.items] if isinstance(statement, cst.With) else []
    grown = set[str]() if any(map(stops, contexts)) else usage.changed_by_methods(statement)
    changed = {*usage.changes(statement), *usage.filled(statement)}
    return changed if has_host_effects(statement, grown) else changed | grown


def numbers_taken(statement: Statement) -> dict[str, cst.Call]:
    """The numbers that a statement surely takes out of arrays to reckon with, by the names of those:
    `float(betas[epoch])`, `weight.item()`; none where two are of one name. Indices and arguments jit may have to
    know, but for what is surely no size."""
    if not isinstance(statement, cst.SimpleStatementLine):
        return {}
    closed = (cst.Lambda, cst.IfExp, cst.BooleanOperation, cst.BaseComp, cst.Subscript)
    reckoned = set(every(statement, cst.Call, closed=(*closed, cst.Arg)))
    found: dict[str, cst.Call] = {}
    for call in every(statement, cst.Call, closed=closed):
        plain = len(call.args) == 1 and not call.args[0].star and not call.args[0].keyword
        if nodes.dotted(call.func) == "float" and plain:
            array = call.args[0].value
        elif call in reckoned and _is_method(call.func, {"item"}) and isinstance(call.func, cst.Attribute):
            array = call.func.value
        else:
            continue
        name = next((path.rpartition(".")[2] for path in usage.paths(array)), "")
        if not name or name in found:
            return {}
        found[name] = call
    return found


def without_numbers_asked(statement: Statement) -> Statement:
    """A statement whose tests ask for arrays, `if x > 0:`, where they take a number out of JAX, `if x.item() > 0:`."""
    return nodes.visited(statement, _Tests())


class _Tests(cst.CSTTransformer):
    """Leaves `.item()` out of the tests of branches."""

    def leave_If(self, original_node: cst.If, updated_node: cst.If) -> cst.If:
        return updated_node.with_changes(test=nodes.visited(updated_node.test, WithoutItem()))

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> cst.IfExp:
        return updated_node.with_changes(test=nodes.visited(updated_node.test, WithoutItem()))


class WithoutItem(cst.CSTTransformer):
    """Leaves `.item()` out."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func = updated_node.func
        return func.value if isinstance(func, cst.Attribute) and func.attr.value == "item" else updated_node


def _is_method(function: cst.BaseExpression, names: Container[str]) -> bool:
    return isinstance(function, cst.Attribute) and function.attr.value in names


def loss_slice(statements: Sequence[Statement], loss: Expr | None, stops: Callable[[Expr], bool]) -> set[int]:
    """The statements that the loss depends on. `stops`: whether a context records no gradients."""
    return needed_for(statements, set(usage.loads(loss)) if loss is not None else set(), stops)


def needed_for(statements: Sequence[Statement], needed: set[str], stops: Callable[[Expr], bool]) -> set[int]:
    """The statements that names depend on. `stops`: whether a context records no gradients."""
    found: set[int] = set()
    for number in range(len(statements) - 1, -1, -1):
        statement = statements[number]
        call = call_of(statement)
        receiver = nodes.dotted(call.func.value) if call and isinstance(call.func, cst.Attribute) else None
        if changed_for_loss(statement, stops) & needed or (receiver in needed and not has_host_effects(statement)):
            found.add(number)
            if isinstance(statement, cst.SimpleStatementLine):
                needed -= set(usage.stores(statement)) - set(usage.loads(statement))
            needed |= usage.loads_from_before(statement)
    return found
