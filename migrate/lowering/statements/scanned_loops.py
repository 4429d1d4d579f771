"""A loop of a forward pass over time becomes `nn.scan`, where torch's own demands prove that it is the same.

A scan wants a state that keeps its shape and its type. torch's recurrent cells ask for that: what they return is as
what they were given. A loop whose state passes through such cells alone is one scan; any other stays, and jit unrolls
it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import Items, Kind, Module, Tensor, TorchName
from migrate.layers.table import TABLE
from migrate.lowering.expressions.arguments import Arguments
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement

_CELLS = ("torch.nn.LSTMCell", "torch.nn.GRUCell", "torch.nn.RNNCell")


@dataclass(frozen=True)
class Scan:
    """A loop that can be a scan.

    carried: the names of its state. lists: those of the lists that each turn appends to; `arrays`: of them, those that
    can as well be what the scan gives. left: other names that it leaves to what follows. xs: what is scanned over,
    along `axis`; None for `length` turns of nothing.
    """

    carried: tuple[str, ...]
    lists: tuple[str, ...]
    arrays: frozenset[str]
    left: tuple[str, ...]
    element: str
    xs: Expr | None
    axis: int = 0
    length: Expr | None = None


class ScannedLoops(Arguments):
    """Loops over time."""

    def scan_of(self, node: cst.For) -> Scan | None:
        """What a loop is as a scan; None where that is not known to be the same."""
        if self.context != "forward" or self.has_no_module or node.orelse is not None or self.precision is not None:
            return None
        body = suites.suite_of(node.body.body)
        appended = [_appended(statement) for statement in body]
        steps = [statement for statement, to in zip(body, appended, strict=True) if to is None]
        lists = [to[0] for to in appended if to is not None]
        if not isinstance(node.target, cst.Name) or not all(map(_binds_names, steps)):
            return None
        if self.script.classes[self.cls].own_stats:  # its setup runs inside once more, where only parameters are lifted
            return None
        stored = list(dict.fromkeys(usage.stores(steps)))
        carried = tuple(name for name in stored if usage.reads_first(steps, name))
        own = [name for name in (*stored, node.target.value) if name not in carried]
        left = tuple(name for name in own if self.live(name))
        touched = {*usage.loads(steps), *stored}
        if not carried or len(set(lists)) < len(lists) or touched & set(lists) or set(left) & self.env.kinds.keys():
            return None
        if not all(isinstance(self.env.kinds.get(name), Items) for name in lists):
            return None
        try:
            with self.unit.discarding():
                keeps = [name for step in steps for name in self.kept_by_cell(step)]
                if sorted(keeps) != sorted(carried) or not all(self.starts_as_tensor(name) for name in carried):
                    return None
                if not all(self.still(call) for step in body for call in usage.calls(step)):
                    return None
        except Unsupported:  # which is said where the loop itself is lowered
            return None
        over = self.scanned_over(node, steps)
        if over is None:
            return None
        xs, axis, length = over
        arrays = frozenset(filter(self.only_joined, lists))
        return Scan(carried, tuple(lists), arrays, left, node.target.value if xs is not None else "_", xs, axis, length)

    def kept_by_cell(self, statement: Statement) -> list[str]:
        """The names that a statement `h, c = self.cell(x, (h, c))` leaves in their shapes and types."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        call = small.value if isinstance(small, cst.Assign) else None
        if not isinstance(small, cst.Assign) or not isinstance(call, cst.Call):
            return []
        kind = self.expr(call.func).kind
        options = kind.options if isinstance(kind, Module) else ()
        if not options or not all(isinstance(one, LayerNode) and one.torch in _CELLS for one in options):
            return []
        state = [arg.value for arg in call.args if arg.keyword is not None and arg.keyword.value == "hx"]
        state += [arg.value for arg in call.args[1:2] if arg.keyword is None]
        (target, *others) = small.targets
        same = len(state) == 1 and _names(state[0]) == _names(target.target) and not others
        return _names(target.target) if same else []

    def starts_as_tensor(self, name: str) -> bool:
        """Whether a name surely holds a tensor, or a tuple of them, as a cell returns it."""
        kind = self.env.kinds.get(name)
        if isinstance(kind, Items):
            return kind.type == "tuple" and kind.items is not None and all(map(_is_tensor, kind.items))
        return _is_tensor(kind)

    def still(self, call: cst.Call) -> bool:
        """Whether a call in the loop only computes: it draws nothing, and changes no state."""
        base = self.expr(call.func.value).kind if isinstance(call.func, cst.Attribute) else None
        if isinstance(base, Tensor | TorchName | Items) and isinstance(call.func, cst.Attribute):
            return not call.func.attr.value.endswith("_")
        kind = self.expr(call.func).kind
        if isinstance(kind, Module):
            return all(map(self.is_still, kind.options))
        return base is None and isinstance(kind, TorchName)

    def is_still(self, node: Node) -> bool:
        """The same of a module."""
        if isinstance(node, ListNode | ChoiceNode):
            return all(map(self.is_still, node.children))
        if isinstance(node, ClassNode):
            script = self.script
            return not (script.draws(node.cls) or script.trains(node.cls) or script.changes_state(node.cls, "train"))
        layer = TABLE.get(node.torch)
        return layer is not None and not layer.trains and all(one.collection == "params" for one in layer.weights)

    def scanned_over(self, node: cst.For, steps: Sequence[Statement]) -> tuple[Expr | None, int, Expr | None] | None:
        """What a loop runs over, the axis, and how many turns where it runs over nothing."""
        assert isinstance(node.target, cst.Name)
        call = node.iter
        if isinstance(call, cst.Call) and nodes.dotted(call.func) == "range":
            if node.target.value in usage.loads(steps):
                return None
            return (None, 0, self.node(call.args[0].value)) if len(call.args) == 1 else None
        parts = self.parts_along(call) if isinstance(call, cst.Call) else None
        if parts is not None:
            array, axis, whole = parts
            return (nodes.call("jnp.expand_dims", array, cst.Integer(str(axis + 1))) if whole else array), axis, None
        value = self.expr(call)
        return (layouts.first(value), 0, None) if isinstance(value.kind, Tensor) else None

    def parts_along(self, call: cst.Call) -> tuple[Expr, int, bool] | None:
        """The tensor and the axis of `x.unbind(1)` or `x.split(1, dim=1)`; whether its parts keep that axis."""
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        if not isinstance(call.func, cst.Attribute) or method not in ("unbind", "split"):
            return None
        of_torch = self.torch_name(call.func) is not None
        args = list(call.args[1:] if of_torch else call.args)
        value = self.expr(call.args[0].value if of_torch and call.args else call.func.value)
        keeps = method == "split"
        if keeps and not nodes.is_literal(args.pop(0).value if args else None, 1):
            return None
        axis = nodes.literal(args[0].value) if args else 0
        usable = isinstance(value.kind, Tensor) and isinstance(axis, int) and axis >= 0 and len(args) <= 1
        return (layouts.first(value), axis, keeps) if usable and isinstance(axis, int) else None

    def only_joined(self, name: str) -> bool:
        """Whether a list is new, and what follows the loop only joins its elements: jnp takes an array for it."""
        if len(self.blocks) != 1:
            return False
        block = self.blocks[-1]
        before, after = block.statements[: block.index], block.statements[block.index + 1 :]
        mentions = [statement for statement in before if name in (*usage.loads(statement), *usage.stores(statement))]
        if len(mentions) != 1 or not is_new_list(mentions[0], {name}):
            return False
        for statement in after:
            joined = [call for call in usage.calls(statement) if self.joins(call, name)]
            if len(joined) != usage.loads(statement).count(name):
                return False
            if name in usage.stores(statement):
                return bool(joined) and isinstance(statement, cst.SimpleStatementLine)
        return True

    def joins(self, call: cst.Call, name: str) -> bool:
        """Whether a call is `torch.stack(xs)` or `torch.cat(xs)`."""
        joining = self.torch_name(call.func) in ("torch.stack", "torch.cat", "torch.concat")
        return joining and bool(call.args) and nodes.dotted(call.args[0].value) == name

    def as_scan(self, node: cst.For, scan: Scan, body: Sequence[Statement]) -> list[Statement] | None:
        """The loop as a scan; `body` is what its body became. None where that does more than bind names."""
        appended = dict(filter(None, map(_appended, body)))
        steps = [statement for statement in body if _appended(statement) is None]
        drawn = "make_rng" in nodes.code(cst.Module(steps))
        if tuple(appended) != scan.lists or drawn or not all(map(_binds_names, steps)):
            return None
        listed = {nodes.code(value): name for name, value in appended.items()}
        given = appended | {name: nodes.name(name) for name in scan.left if name not in listed}
        names = ["steps"] if len(given) == 1 else [f"steps_{number}" for number in range(1, len(given) + 1)]
        gathered = {name: self.unused_here(own) for name, own in zip(given, names, strict=True)}
        gathered |= {name: name for name in scan.arrays}
        self.gathered |= scan.arrays
        function = self.unused_here("step")
        state = _one([nodes.name(name) for name in scan.carried])
        values = nodes.bare_tuple([state, _one(list(given.values()))])
        made = self.scanned_function(function, scan, steps, cst.SimpleStatementLine([cst.Return(values)]))
        call = nodes.call(function, nodes.name("self"), state, scan.xs or nodes.name("None"))
        targets = nodes.bare_tuple([state, _one(list(map(nodes.name, gathered.values())), nothing="_")])
        scanned = nodes.statement("{targets} = {call}", targets=targets, call=call)
        after: list[Statement] = [scanned.with_changes(leading_lines=[cst.EmptyLine(indent=False)])]
        after += [nodes.statement(f"{name} = {gathered[listed.get(name, name)]}[-1]") for name in scan.left]
        after += [nodes.statement(f"{name}.extend({gathered[name]})") for name in scan.lists if name not in scan.arrays]
        return [made.with_changes(leading_lines=node.leading_lines), *after]

    def scanned_function(self, name: str, scan: Scan, steps: Sequence[Statement], last: Statement) -> cst.FunctionDef:
        """One turn as a function of the state and an element."""
        carry, unpacked = scan.carried[0], list[Statement]()
        if len(scan.carried) > 1:
            carry = self.unused_here("carry")
            unpacked = [nodes.statement(f"{', '.join(scan.carried)} = {carry}")]
        options: dict[str, Expr] = {"in_axes": cst.Integer(str(scan.axis))} if scan.axis else {}
        options |= {} if scan.length is None else {"length": scan.length}
        decorator = nodes.expression('partial(nn.scan, variable_broadcast="params", split_rngs={"params": False})')
        assert isinstance(decorator, cst.Call)
        decorator = decorator.with_changes(args=nodes.extended(decorator.args, options))
        made = suites.function(name, ["self", carry, scan.element], [*unpacked, *steps, last])
        return made.with_changes(decorators=[cst.Decorator(decorator)])

    def unused_here(self, wanted: str) -> str:
        """A name that this method does not use."""
        assert self.facts is not None
        return usage.unused_name(wanted, {*usage.loads(self.facts.node), *usage.stores(self.facts.node.body)})


def _one(values: Sequence[Expr], nothing: str = "None") -> Expr:
    """Some values as one: nothing, the only one, or a tuple."""
    return nodes.tuple_of(values) if len(values) > 1 else values[0] if values else nodes.name(nothing)


def _is_tensor(kind: Kind | None) -> bool:
    return isinstance(kind, Tensor) and not kind.optional


def _names(node: cst.CSTNode) -> list[str]:
    """The names that an expression or a target consists of; none where it is more than names."""
    names = usage.target_names(node)
    count = len(node.elements) if isinstance(node, cst.Tuple) else 1
    return names if len(names) == count else []


def _binds_names(statement: Statement) -> bool:
    """Whether a statement does no more than bind names."""
    small = suites.alone(statement)
    return isinstance(small, cst.Assign) and all(_names(target.target) for target in small.targets)


def _appended(statement: Statement) -> tuple[str, Expr] | None:
    """The list and the element of `xs.append(x)` or `xs += [x]`."""
    small = suites.alone(statement)
    if isinstance(small, cst.AugAssign) and isinstance(small.operator, cst.AddAssign):
        values = nodes.elements(small.value) if isinstance(small.value, cst.List) else []
        return (small.target.value, values[0]) if isinstance(small.target, cst.Name) and len(values) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    if isinstance(call, cst.Call) and len(call.args) == 1 and isinstance(call.func, cst.Attribute):
        to = call.func.value
        if call.func.attr.value == "append" and isinstance(to, cst.Name):
            return to.value, call.args[0].value
    return None


def without_new_lists(made: Sequence[Statement], names: Collection[str]) -> list[Statement]:
    """Statements without `x = []` for some names; the comments of those go to the next."""
    left: list[Statement] = []
    dropped: list[cst.EmptyLine] = []
    for statement in made:
        if is_new_list(statement, names):
            dropped += suites.kept_lines(statement)
        else:
            left += suites.after_dropped(dropped, [statement], first=not left)
            dropped = []
    return left


def is_new_list(statement: Statement, names: Collection[str]) -> bool:
    """Whether a statement is `x = []` for one of the names."""
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or not isinstance(small.value, cst.List):
        return False
    return not small.value.elements and nodes.dotted(small.targets[0].target) in names
