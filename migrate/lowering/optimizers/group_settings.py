"""Hyperparameters that change while a script trains, and the parameter groups that have them.

`group["lr"] = rate`: the state of the optimizer keeps them (`optax.inject_hyperparams`). The groups of an optimizer
share each of them, of a learning rate theirs may be a multiple, unless the script sets that of one of them: then all
have their own (`head_learning_rate`). Loops over groups are written out, but for those that only set what is shared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ParameterGroup
from migrate.known.kinds import Items, Number, Optimizer, Place, Tensor
from migrate.known.states import OPT_STATE, State
from migrate.known.weight_kinds import OptimizerGroups, StateDict
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.plainer.loops_written_out import bound_names
from migrate.lowering.statements.state import StateAccess
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

# Hyperparameters that are followed, as optax calls them.
FOLLOWED = {"lr": "learning_rate", "weight_decay": "weight_decay", "momentum": "momentum"}
_ALONE = (ParameterGroup("", ()),)


class GroupSettings(StateAccess, Binding):
    """`optimizer.param_groups`, and what is read and set of it."""

    def groups_of(self, node: Expr) -> OptimizerGroups | None:
        """The parameter groups of an optimizer, by their attribute or in its state dict; None of anything else."""
        if isinstance(node, cst.Attribute) and node.attr.value == "param_groups":
            kind = self.expr(node.value).kind
            return OptimizerGroups(kind.place) if isinstance(kind, Optimizer) else None
        if isinstance(node, cst.Subscript) and "state_dict" in nodes.code(node.value) and _key(node) == "param_groups":
            kind = self.expr(node.value).kind
            of_optimizer = isinstance(kind, StateDict) and self.root(kind.place) in self.script.groups
            return OptimizerGroups(kind.place) if of_optimizer and isinstance(kind, StateDict) else None
        return None

    def groups(self, optimizer: Place) -> tuple[ParameterGroup, ...]:
        """What is known of the parameter groups of an optimizer, or of those that a name may stand for."""
        roots = sorted(self.roots(optimizer))
        found = [self.script.groups[root] for root in roots if root in self.script.groups]
        if not found or all(groups == found[0] for groups in found):
            return found[0] if found else _ALONE
        labels = {tuple(group.label for group in groups) for groups in found}
        if len(labels) > 1 and any(len(groups) > 1 for groups in found):
            raise Unsupported("MIG401", f"{optimizer.name} is one of several optimizers, of other parameter groups")
        return tuple(_in_common(groups) for groups in zip(*found, strict=True))

    def group_items(self, node: Expr) -> list[Expr] | None:
        """The groups of an optimizer, one by one; None of anything else."""
        found = self.groups_of(node) if _of_groups(node) else None
        if found is None:
            return None
        return [nodes.expression(f"{{g}}[{n}]", g=node) for n in range(len(self.groups(found.optimizer)))]

    # -- reading ------------------------------------------------------------------------------------------------------

    def group_of(self, node: Expr) -> OptimizerGroups | None:
        """The parameter group that an expression is, `group` or `optimizer.param_groups[0]`; None of anything else."""
        if isinstance(node, cst.Name):
            kind = self.kind_of(node)
            return kind if isinstance(kind, OptimizerGroups) else None
        found = self.groups_of(node.value) if isinstance(node, cst.Subscript) and _of_groups(node.value) else None
        if found is None or not isinstance(node, cst.Subscript):
            return None
        index = node.slice[0].slice
        number = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
        groups = self.groups(found.optimizer)
        if type(number) is not int or not -len(groups) <= number < len(groups):
            raise Unsupported("MIG401", f"{nodes.code(node)}: which of the parameter groups it is, is not known")
        return OptimizerGroups(found.optimizer, one=True, number=number % len(groups))

    def group_item(self, node: cst.Subscript, kind: OptimizerGroups) -> Value:
        """`group["lr"]`: the rate as it is now."""
        key = _key(node) or ""
        written = self.constant_setting(kind, key)
        if written is not None:
            value = self.expr(written)
            return Value(nodes.parenthesized(value.node), value.kind)
        self.follow_setting(node, kind, key)
        value = self.setting(kind, key)
        if self.under_jit:
            return Value(value, Tensor("float", 0))
        return Value(value, Number())

    def constant_setting(self, kind: OptimizerGroups, key: str) -> Expr | None:
        """What a group has under a key that stays as it is: `group["name"]`; None of others."""
        root = self.root(kind.optimizer)
        groups = self.groups(kind.optimizer)
        if key == "lr" or (root, key) in self.script.changing or kind.number is None:
            return None
        if (root, key) in self.script.first_rates:
            return self.first_rate(kind, groups[kind.number])
        written = dict(groups[kind.number].options).get(key)
        value = None if written is None else cst.parse_expression(written)
        if value is not None and nodes.literal(value) is ...:
            raise Unsupported("MIG401", f'"{key}" of a parameter group of {kind.optimizer.name}, which is {written}')
        return value

    def first_rate(self, kind: OptimizerGroups, group: ParameterGroup) -> Expr:
        """The rate that a group starts with."""
        written = dict(group.options).get("lr", "")
        if not isinstance(nodes.literal(nodes.expression(written)) if written else ..., int | float):
            raise Unsupported("MIG401", f"the rate that {kind.optimizer.name} starts with is no number that is written")
        return nodes.expression(written)

    def setting(self, kind: OptimizerGroups, key: str) -> Expr:
        """A hyperparameter of a group as it is now."""
        groups, root = self.groups(kind.optimizer), self.root(kind.optimizer)
        name = FOLLOWED[key]
        if len(groups) > 1 and (root, key) in self.script.separate:
            if kind.number is None:
                raise Unsupported("MIG401", f'"{key}" of one of several parameter groups')
            name = f"{groups[kind.number].label}_{name}"
        read = self.in_state(kind.optimizer, name)
        return self.in_group(read, kind) if name == "learning_rate" else read

    def in_state(self, optimizer: Place, name: str) -> Expr:
        """A hyperparameter in the state of an optimizer."""
        state = self.read(State(OPT_STATE, optimizer))
        found = nodes.expression(f'optax.tree_utils.tree_get({{state}}, "{name}")', state=state)
        return found if self.under_jit else nodes.expression("{rate}.item()", rate=found)

    def in_group(self, rate: Expr, kind: OptimizerGroups) -> Expr:
        """The rate of a group, by that which they share."""
        groups = self.groups(kind.optimizer)
        multiples = [group.multiple for group in groups]
        if not any(multiples):
            return rate
        if kind.number is None or "?" in multiples:
            raise Unsupported("MIG401", "the learning rate of one of several parameter groups")
        multiple = multiples[kind.number]
        return nodes.expression(f"{{rate}} * ({multiple})", rate=rate) if multiple else rate

    def rates_of_groups(self, rate: Expr, optimizer: Place) -> list[Expr]:
        """The rates of all groups, by that which they share: what `get_last_lr()` lists."""
        count = len(self.groups(optimizer))
        return [self.in_group(rate, OptimizerGroups(optimizer, one=True, number=number)) for number in range(count)]

    def follow_setting(self, node: cst.Subscript, kind: OptimizerGroups, key: str) -> None:
        """Has the optimizer keep a hyperparameter in its state."""
        if key not in FOLLOWED:
            raise Unsupported("MIG401", f"{nodes.code(node)}: this item of a parameter group is not followed")
        roots = self.roots(kind.optimizer)
        if key == "lr":
            self.script.scheduled |= roots
        else:
            self.script.changing |= {(root, key) for root in roots}

    # -- setting ------------------------------------------------------------------------------------------------------

    def set_hyperparameter(self, target: cst.Subscript, written: Expr) -> list[Statement]:
        """`group["lr"] = value`, of one group, or (`number` None) of all that share it."""
        kind = self.group_of(target.value)
        assert kind is not None
        key, roots = _key(target) or "", self.roots(kind.optimizer)
        if key not in FOLLOWED and self.keeps_first_rate(target, written, self.root(kind.optimizer)):
            self.script.first_rates.add((self.root(kind.optimizer), key))
            return []
        self.follow_setting(target, kind, key)
        groups = self.groups(kind.optimizer)
        scales = key == "lr" and _scales(target, written) and (kind.number is None or len(groups) == 1)
        for root in roots if key == "lr" else ():
            self.script.proportional[root] = self.script.proportional.get(root, True) and scales
            self.script.set_by_hand.add(root)
            self.rates.pop(root, None)  # a scheduler that is made from here on starts with what is set
        if len(groups) > 1 and (kind.number is not None or any((root, key) in self.script.separate for root in roots)):
            self.script.separate |= {(root, key) for root in roots}
        apart = len(groups) > 1 and any((root, key) in self.script.separate for root in roots)
        labels = [group.label for group in groups] if kind.number is None else [groups[kind.number].label]
        names = [f"{label}_{FOLLOWED[key]}" for label in labels] if apart else [FOLLOWED[key]]
        if scales and isinstance(written, cst.BinaryOperation):
            right = self.node(written.right)
            value: Expr = written.with_changes(left=self.in_state(kind.optimizer, "learning_rate"), right=right)
        else:
            value = self.node(written)
        return [self.set_hyperparameters(kind.optimizer, dict.fromkeys(names, value))]

    def keeps_first_rate(self, target: cst.Subscript, written: Expr, root: Place) -> bool:
        """Whether a group keeps the rate that it was made with: `group["initial_lr"] = group["lr"]`."""
        same = isinstance(written, cst.Subscript) and _key(written) == "lr" and written.value.deep_equals(target.value)
        return same and root in self.rates and not self.heads and root.scope == self.scope

    # -- loops --------------------------------------------------------------------------------------------------------

    def rate_loop(self, node: cst.For) -> list[Statement] | None:
        """`for group in optimizer.param_groups: group["lr"] = lr`: the statements alone where that sets what all groups
        share, and else those of every turn; None for other loops."""
        inside = [one for one in _iterated(node.iter) if _of_groups(one)]
        found = [groups for groups in map(self.groups_of, inside) if groups is not None]
        if not found:
            return None
        (kind, *_), own = found, {root for root, _ in self.script.separate}
        groups = self.groups(kind.optimizer)
        shared = len(groups) > 1 and self.root(kind.optimizer) not in own
        if shared and isinstance(node.target, cst.Name) and node.iter is inside[0] and _only_sets(node):
            self.bind(node.target, OptimizerGroups(kind.optimizer, one=True))
            return suites.with_comments(self.suite(node.body.body), node)
        items = self.known_items(self.with_items(node.iter, len(groups)))
        bound = [bound_names(node.target, item) for item in items or ()]
        leaves = any(True for _ in every(node.body, (cst.Break, cst.Continue)))
        if node.orelse is not None or leaves or items is None or None in bound:
            raise Unsupported("MIG401", f"`for {nodes.code(node.target)} in {nodes.code(node.iter)}`")
        made: list[Statement] = []
        for names in bound:
            turn = [left for one in suites.suite_of(node.body.body) for left in self.of_group_turn(one, names or {})]
            made += turn
            if suites.exits(turn):
                break
        text = "".join(map(nodes.code, made))
        if (node, text) not in self.unit.whole:
            self.unit.whole[node, text] = made
        return suites.with_comments(self.suite(self.unit.whole[node, text]), node)

    def with_items(self, node: Expr, count: int) -> Expr:
        """`zip(optimizer.param_groups, rates)` with the items of a list that is not written out."""
        if not isinstance(node, cst.Call):
            return node
        args: list[cst.Arg] = []
        for arg in node.args:
            kind = self.kind_of(arg.value)
            listed = isinstance(kind, Items) and kind.type in ("list", "tuple") and nodes.dotted(node.func) == "zip"
            listed = listed and self.known_items(arg.value) is None
            items = [nodes.expression(f"{{x}}[{number}]", x=arg.value) for number in range(count if listed else 0)]
            value = nodes.tuple_of(items) if listed else self.with_items(arg.value, count)
            args.append(arg.with_changes(value=value))
        return node.with_changes(args=args)

    def of_group_turn(self, statement: Statement, names: dict[str, Expr]) -> list[Statement]:
        """A statement of a loop over groups in one turn."""
        asked = nodes.visited(cst.Module([nodes.substituted(statement, names)]), _Asked(self)).body
        for one in every(cst.Module(asked), (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
            self.unit.stands_for(one, statement)
        return [left for one in asked if not suites.is_pass(one) for left in self.branch_of(one)]


class _Asked(cst.CSTTransformer):
    """What is asked of a group that is known: `"lr_scale" in group`, `group.get("lr_scale", 1.0)`, and
    `group.update(lr=rate)`."""

    def __init__(self, scope: GroupSettings) -> None:
        super().__init__()
        self.scope = scope

    def has(self, group: Expr, key: str) -> bool | None:
        """Whether a group has a key; None of what is no group."""
        if not isinstance(group, cst.Subscript) or not _of_groups(group.value):
            return None
        kind = self.scope.group_of(group)
        if kind is None or kind.number is None:
            return None
        first = (self.scope.root(kind.optimizer), key) in self.scope.script.first_rates
        known = dict(self.scope.groups(kind.optimizer)[kind.number].options)
        return first or key in known or key in ("lr", "params")

    def leave_Comparison(self, original_node: cst.Comparison, updated_node: cst.Comparison) -> Expr:
        (first, *more), key = updated_node.comparisons, nodes.literal(updated_node.left)
        if more or not isinstance(first.operator, cst.In | cst.NotIn) or not isinstance(key, str):
            return updated_node
        has = self.has(first.comparator, key)
        return updated_node if has is None else nodes.name(str(has is isinstance(first.operator, cst.In)))

    def leave_If(
        self, original_node: cst.If, updated_node: cst.If
    ) -> cst.If | cst.FlattenSentinel[Statement] | cst.RemovalSentinel:
        told = nodes.literal(updated_node.test)
        if not isinstance(told, bool):
            return updated_node
        if told:
            return cst.FlattenSentinel(suites.suite_of(updated_node.body.body))
        if isinstance(updated_node.orelse, cst.Else):
            return cst.FlattenSentinel(suites.suite_of(updated_node.orelse.body.body))
        return updated_node.orelse if updated_node.orelse is not None else cst.RemoveFromParent()

    def leave_IfExp(self, original_node: cst.IfExp, updated_node: cst.IfExp) -> Expr:
        told = nodes.literal(updated_node.test)
        return updated_node if not isinstance(told, bool) else updated_node.body if told else updated_node.orelse

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        func, args = updated_node.func, [arg.value for arg in updated_node.args]
        if not isinstance(func, cst.Attribute) or func.attr.value != "get" or not 0 < len(args) < 3:
            return updated_node
        key = nodes.literal(args[0])
        has = self.has(func.value, key) if isinstance(key, str) else None
        if has is None:
            return updated_node
        default = args[1] if len(args) > 1 else nodes.name("None")
        return nodes.expression("{group}[{key}]", group=func.value, key=args[0]) if has else default

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        call = suites.alone(updated_node)
        call = call.value if isinstance(call, cst.Expr) else None
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            return updated_node
        group, method = call.func.value, call.func.attr.value
        pairs = _pairs(call) if method in ("update", "setdefault") and self.has(group, "lr") is not None else []
        if not pairs:
            return updated_node
        if method == "setdefault" and self.has(group, str(nodes.literal(pairs[0][0]))):
            return updated_node.with_changes(body=[cst.Pass()])
        lines = [nodes.statement("{group}[{key}] = {value}", group=group, key=key, value=value) for key, value in pairs]
        return cst.FlattenSentinel([line for line in lines if isinstance(line, cst.SimpleStatementLine)])


def _in_common(groups: Sequence[ParameterGroup]) -> ParameterGroup:
    """What groups of several optimizers have in common."""
    first, *others = groups
    alike = tuple(pair for pair in first.options if all(pair in other.options for other in others))
    return replace(first, options=alike, multiple=first.multiple if len({one.multiple for one in groups}) == 1 else "?")


def _pairs(call: cst.Call) -> list[tuple[Expr, Expr]]:
    """Keys and values that a call of `update` or `setdefault` gives."""
    if [arg.keyword for arg in call.args] == [None, None]:
        return [(call.args[0].value, call.args[1].value)]
    (first, *_) = (arg.value for arg in call.args)
    if isinstance(first, cst.Dict) and len(call.args) == 1:
        return [(each.key, each.value) for each in first.elements if isinstance(each, cst.DictElement)]
    return [(cst.SimpleString(f'"{arg.keyword.value}"'), arg.value) for arg in call.args if arg.keyword is not None]


def _key(node: cst.Subscript) -> str | None:
    """The text in `group["lr"]`."""
    key = nodes.looked_up(node)
    return key if isinstance(key, str) else None


def _of_groups(node: Expr) -> bool:
    """Whether an expression is written as parameter groups are."""
    if isinstance(node, cst.Subscript):
        return _key(node) == "param_groups"
    return isinstance(node, cst.Attribute) and node.attr.value == "param_groups"


def _iterated(node: Expr) -> Iterator[Expr]:
    """What a loop goes through, in `enumerate` and `zip` as well."""
    yield node
    if isinstance(node, cst.Call) and nodes.dotted(node.func) in ("enumerate", "zip", "list", "reversed"):
        for arg in node.args:
            yield from _iterated(arg.value)


def _scales(target: cst.Subscript, written: Expr) -> bool:
    """Whether a rate becomes a multiple of what it was: `group["lr"] = group["lr"] * 0.1`."""
    if not isinstance(written, cst.BinaryOperation) or not isinstance(written.operator, cst.Multiply | cst.Divide):
        return False
    group = set(usage.loads(target.value))
    return written.left.deep_equals(target) and not group & set(usage.loads(written.right))


def _only_sets(loop: cst.For) -> bool:
    """Whether a loop over groups does no more than to set items of each, to the same in every turn."""
    body = suites.suite_of(loop.body.body)
    group = nodes.code(loop.target)
    asked = [one for one in every(loop.body, cst.Name) if one.value == group]
    items = [
        one for one in every(loop.body, cst.Subscript) if nodes.dotted(one.value) == group and _key(one) in FOLLOWED
    ]
    carried = [name for name in usage.stores(body) if name != group and usage.reads_first(body, name)]
    return len(asked) == len(items) and not carried and all(_is_set(one, group) for one in body)


def _is_set(statement: Statement, group: str) -> bool:
    if isinstance(statement, cst.If):
        inner: Sequence[Statement] = suites.suite_of(statement.body.body)
        inner = [*inner, *(suites.suite_of(statement.orelse.body.body) if statement.orelse is not None else ())]
        return all(_is_set(one, group) for one in inner) and not isinstance(statement.orelse, cst.If)
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign | cst.AugAssign):
        return False
    (target, *more) = [one.target for one in small.targets] if isinstance(small, cst.Assign) else [small.target]
    of_group = isinstance(target, cst.Subscript) and nodes.dotted(target.value) == group
    local = isinstance(target, cst.Name) and isinstance(small, cst.Assign) and not usage.calls(small.value)
    return not more and (of_group or local)
