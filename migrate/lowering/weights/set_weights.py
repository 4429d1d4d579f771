"""Weights that a script sets from outside of their model: `model.embedding.weight.data.copy_(vectors)`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Function, Host, Kind, Number, Place, Tensor
from migrate.known.states import PARAMS, State
from migrate.known.weight_kinds import Weight
from migrate.layers.moves import Permute
from migrate.lowering.initial.initializers_of_flax import without_data
from migrate.lowering.modules.layer_weights import in_order_of_flax
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.weights.weight_values import key_of, looked_up
from migrate.lowering.weights.weights_in_rows import WeightsInRows
from migrate.manifest import WILDCARD, Leaf
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites
from migrate.syntax.nodes import Expr, Statement


class SetWeights(WeightsInRows):
    """Statements that give a weight other values. Before the training run again they change nothing, so that weights
    that come from elsewhere may have them already."""

    def weight_statement(self, line: cst.SimpleStatementLine, small: cst.BaseSmallStatement) -> list[Statement] | None:
        """Lowers such a statement; None for any other."""
        if self.context not in HOST_CONTEXTS or self.under_jit:
            return None
        match small:
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Subscript() as target)]):
                return self.part_of_weight_set(line, small, target)
            case cst.Assign(targets=[cst.AssignTarget(target=cst.Attribute() as target)], value=value):
                return self.weight_assigned(line, target, value)
            case cst.AugAssign(target=cst.Subscript() as target) if self.set_leaf(target.value) is not None:
                self.refuse_twice(target)
                return self.part_of_weight_set(line, small, target)
            case cst.AugAssign(target=cst.Attribute() as target) if self.set_leaf(target) is not None:
                self.refuse_twice(target)
                method = _METHODS.get(type(small.operator))
                return self.weight_changed(line, target, method, [cst.Arg(small.value)]) if method else None
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=cst.Subscript() as target, attr=method), args=args)):
                return self.part_of_weight_called(line, target, method.value, args)
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=target, attr=cst.Name("copy_")), args=[arg])):
                return self.weight_copied(line, target, arg.value)
            case cst.Expr(value=cst.Call(func=cst.Attribute(value=target, attr=method), args=args)):
                again = method.value in _BOUNDING or (method.value in _CHANGING and bool(self.loops))
                return self.weight_changed(line, target, method.value, args) if again else None
        return None

    def weight_assigned(
        self, line: cst.SimpleStatementLine, target: cst.Attribute, value: Expr
    ) -> list[Statement] | None:
        """`model.fc.weight.data = v`, `model.fc.weight = nn.Parameter(v)`, and what a function of the script's gives,
        which torch lets be nothing but a parameter; None for other assignments."""
        given = isinstance(value, cst.Call) and isinstance(self.kind_of(value.func), Function)
        if target.attr.value != "data" and not given:
            made = value if isinstance(value, cst.Call) and self.torch_name(value.func) == _PARAMETER else None
            if made is None or len(made.args) != 1:
                return None
            value = made.args[0].value
        read = nodes.code(target).removesuffix(".data") in nodes.code(value)
        found = None if read and not given else self.set_leaf(target)  # it may be cut to length
        if found is None:
            return None
        values = self.other_values(value, may_share=False)
        return self.with_leaf(line, *found, values)

    def weight_copied(self, line: cst.SimpleStatementLine, target: Expr, value: Expr) -> list[Statement] | None:
        """`model.fc.weight.copy_(v)`; None for other calls."""
        found = self.set_leaf(target)
        return None if found is None else self.with_leaf(line, *found, self.other_values(value))

    def weight_changed(
        self, line: cst.SimpleStatementLine, target: Expr, method: str, args: Sequence[cst.Arg]
    ) -> list[Statement] | None:
        """`model.scale.data.clamp_(0, 4)`, and in a loop `model.scale.mul_(0.9)`; None for other calls."""
        found = self.set_leaf(target)
        if found is None:
            return None
        place, leaf = found
        if all(
            isinstance(nodes.literal(arg.value), float | int) or self.kind_of(arg.value) == Number() for arg in args
        ):
            leaf = replace(leaf, moves=())  # the order of axes is no matter
        before = self.weight_before(place, leaf)
        if before is None:
            return None
        name = self.unit.own("weight")
        self.env.kinds[name] = Tensor("float", len(leaf.shape or ()) or -1)
        made = self.expr(cst.Call(cst.Attribute(nodes.name(name), nodes.name(method.removesuffix("_"))), args))
        del self.env.kinds[name]
        return self.with_leaf(line, place, leaf, nodes.substituted(layouts.first(made), {name: before.node}))

    def weight_before(self, place: Place, leaf: Leaf, moved: bool = False) -> Value | None:
        """A weight as it is, as `weight_at` has it; a model that was fresh stays so."""
        fresh = place in self.untouched
        before = self.weight_at(place, leaf, moved)
        self.untouched |= {place} if fresh else set()
        return before

    def refuse_twice(self, target: Expr) -> None:
        """Declines what changes a weight by what it is, ahead of the training: weights that come from elsewhere may
        have the change already."""
        if not self.loops:
            raise _changed(target)

    def part_of_weight_called(
        self, line: cst.SimpleStatementLine, target: cst.Subscript, method: str, args: Sequence[cst.Arg]
    ) -> list[Statement] | None:
        """`model.embedding.weight.data[0].zero_()`, and in a loop `model.fc.weight[0].mul_(0.9)`; None for other
        calls."""
        if method not in (*_SETTING, *_BOUNDING, *_CHANGING) or self.set_leaf(target.value) is None:
            return None
        if method in _CHANGING:
            self.refuse_twice(target)
        value = args[0].value if args else cst.Integer("0")
        if method not in _SETTING:
            value = cst.Call(cst.Attribute(target, nodes.name(method.removesuffix("_"))), args)
        return self.part_of_weight_set(line, cst.Assign([nodes.target(target)], value), target)

    def part_of_weight_set(
        self, line: cst.SimpleStatementLine, small: cst.Assign | cst.AugAssign, target: cst.Subscript
    ) -> list[Statement] | None:
        """`model.embedding.weight.data[0] = v`; None for other assignments."""
        found = self.set_leaf(target.value)
        if found is None:
            return None
        place, leaf = found
        before = self.weight_before(place, leaf)
        if before is None:
            raise _changed(target.value)
        name = self.unit.own("weight")
        self.env.kinds[name] = Tensor("float", len(leaf.shape or ()) or -1)
        own = target.with_changes(value=nodes.name(name))
        named = (
            small.with_changes(target=own)
            if isinstance(small, cst.AugAssign)
            else small.with_changes(targets=[nodes.target(own)], value=_in_terms_of(small.value, target, own))
        )
        (made, *others) = self.statement(cst.SimpleStatementLine([named])) or [line]
        del self.env.kinds[name]
        changed = made.body[0] if isinstance(made, cst.SimpleStatementLine) else None
        if others or not isinstance(changed, cst.Assign) or nodes.dotted(changed.targets[0].target) != name:
            raise _changed(target.value)
        return self.with_leaf(line, place, leaf, nodes.substituted(changed.value, {name: before.node}))

    def set_leaf(self, target: Expr) -> tuple[Place, Leaf] | None:
        """The weight of a model that an expression on the host stands for, where it is one array in torch and Flax."""
        found = self.leaf_in_row(without_data(target)) or self.leaf_of(target)
        if found is None or WILDCARD.search(found[1].flax):
            return None
        return found if all(isinstance(move, Permute) for move in found[1].moves) else None

    def other_values(self, node: Expr, may_share: bool = True) -> Expr:
        """What a weight is set to, in torch's order of axes. Only a tensor can be; a weight of a model is copied, since
        a step gives its memory away. `may_share`: torch copies, too."""
        value = self.expr(node)
        if isinstance(value.kind, Weight):
            if not may_share:
                raise Unsupported("MIG204", f"{nodes.code(node)} would be one tensor with it")
            return layouts.first(self.copied_weight(value))
        if type(value.kind) is Kind or value.kind == Host("data"):
            return nodes.call("jnp.asarray", value.node, nodes.expression("jnp.float32"))
        made = self.as_array(value)
        if not isinstance(made.kind, Tensor):
            raise Unsupported("MIG204", f"{nodes.code(node)} is not known to be a tensor")
        array = layouts.first(made)
        return array if made.kind.dtype == "float" else nodes.expression("{x}.astype(jnp.float32)", x=array)

    def with_leaf(self, line: cst.SimpleStatementLine, place: Place, leaf: Leaf, values: Expr) -> list[Statement]:
        """The statement that gives a weight values in torch's order of axes."""
        return self.set_moved(line, place, leaf, _of_its_own(in_order_of_flax(values, leaf.moves)))

    def set_moved(self, line: cst.SimpleStatementLine, place: Place, leaf: Leaf, moved: Expr) -> list[Statement]:
        """The statement that puts a weight among the others: into the dict, where nobody else has that yet."""
        self.script.weights_set.add((self.root(place), leaf.torch))
        keys, fresh = leaf.flax.split("/")[1:], place in self.untouched and not self.loops
        params = self.read(State(PARAMS, place))
        if fresh:
            self.untouched.add(place)
            target = looked_up(params, "/".join(keys))
            assert isinstance(target, cst.Subscript)
            return suites.assigned(line, target, moved)
        by_number = any("{" in key for key in keys)
        self.script.found_sets_by_number |= by_number
        if not (by_number or self.script.sets_by_number or len(keys) > _FEW_KEYS):
            return suites.assigned(line, self.write(State(PARAMS, place)), _merged(params, keys, moved))
        self.unit.use_snippet("with_weight")
        made = nodes.call("with_weight", params, key_of("/".join(keys)), moved)
        return suites.assigned(line, self.write(State(PARAMS, place)), made)


_FEW_KEYS = 2  # of dicts in dicts that are written out
_PARAMETER = "torch.nn.Parameter"
_SETTING = ("fill_", "zero_", "copy_")
_BOUNDING = ("clamp_", "clamp_min_", "clamp_max_", "clip_")  # run again, they change nothing
_CHANGING = ("mul_", "div_", "add_", "sub_")
_METHODS: dict[type[cst.BaseAugOp], str] = {
    cst.MultiplyAssign: "mul_",
    cst.DivideAssign: "div_",
    cst.AddAssign: "add_",
    cst.SubtractAssign: "sub_",
}


def _in_terms_of(value: Expr, target: cst.Subscript, own: cst.Subscript) -> Expr:
    """A value with another expression for what it starts with: `weight[0].mul(2)` of `model.fc.weight[0].mul(2)`."""
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute) and value.func.value is target:
        return value.with_changes(func=value.func.with_changes(value=own))
    return value


def _merged(tree: Expr, keys: Sequence[str], value: Expr) -> Expr:
    """A copy of a dict of dicts with another value at a path."""
    inner = value
    if len(keys) > 1:
        inner = _merged(nodes.expression(f'{{t}}["{keys[0]}"]', t=tree), keys[1:], value)
    return nodes.expression(f'{{**{{t}}, "{keys[0]}": {{v}}}}', t=tree, v=inner)


def _of_its_own(node: Expr) -> Expr:
    """An array that nobody else has: a step gives the memory of the weights away."""
    if isinstance(node, cst.Call) and nodes.dotted(node.func) == "jnp.asarray":
        return node.with_changes(func=nodes.expression("jnp.array"))
    known = isinstance(node, cst.Name | cst.Subscript) or (isinstance(node, cst.Attribute) and node.attr.value != "T")
    return nodes.call("jnp.copy", node) if known else node


def _changed(weight: Expr) -> Unsupported:
    return Unsupported("MIG204", f"{nodes.code(weight)} is changed after its module was made")
