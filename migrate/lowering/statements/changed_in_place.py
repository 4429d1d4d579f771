"""Changes of a part of a tensor, and augmented assignments: a new array under the same name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Host, Items, Kind, Model, Module, ModuleClass, Number, Plain, Tensor, TorchName, join
from migrate.known.weight_kinds import Parameters, Selection, StateDict, Weight
from migrate.layers.table import TABLE
from migrate.lowering.expressions.masked import is_scalar
from migrate.lowering.host.data_loading import for_torch
from migrate.lowering.modules.changed_buffers import ChangedBuffers
from migrate.lowering.modules.named_rows import NamedRows, refuse_open_dict
from migrate.lowering.optimizers.optimizer_statements import OptimizerStatements
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.attributes_in_place import changes_own
from migrate.lowering.statements.donated import is_alone
from migrate.lowering.statements.filled_dicts import FilledDicts
from migrate.lowering.statements.other_names import kept_twice
from migrate.lowering.updates.leaves import Leaves
from migrate.lowering.weights.selections import filled_on
from migrate.rules.rule import Value, power_of_integers
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class ChangedInPlace(Leaves, OptimizerStatements, ChangedBuffers, NamedRows, FilledDicts):
    """`x[i] = v`, `x[mask] = v`, `x[i] += v`, `x += v`."""

    def item_assignment(
        self, line: cst.SimpleStatementLine, small: cst.Assign, target: cst.Subscript
    ) -> list[Statement]:
        """`x[i] = v`: a new array under the same name."""
        entry = self.row_entry(target, small.value)
        if entry is not None:
            return entry
        if self.group_of(target.value) is not None:
            return self.set_hyperparameter(target, small.value)
        target = self.in_one_subscript(target)
        base = self.expr(target.value)
        refuse_entry(target, base.kind, self.scope)
        refuse_open_dict(target, base.kind)
        whole = self.whole_of(small.value, target) if isinstance(base.kind, Tensor) else None
        value = self.expr(small.value if whole is None else whole)
        if isinstance(base.kind, Tensor) and base.kind.dtype == "bool" and isinstance(nodes.literal(value.node), int):
            value = replace(value, node=nodes.name(str(bool(nodes.literal(value.node)))))
        if not isinstance(base.kind, Tensor):
            self.refuse_frozen(target.value)
            if isinstance(base.kind, Host) and base.kind.what == "tensor":
                self.sink(value.kind)  # it feeds a loader, and so does what it holds
                value = Value(for_torch(value), base.kind)
            self.share([], small.value)
            self.note_entry(target, value.kind)
            lowered = self.expr(target)
            self.put_in(target, small.value, value.kind)
            return suites.rebuilt(
                line, small, small.with_changes(value=layouts.first(value), targets=[nodes.target(lowered.node)])
            )
        if not (isinstance(target.value, cst.Name) or self.variable_of(target) or self.is_own(target.value)):
            raise Unsupported("MIG303", f"{nodes.code(target.value)} is changed in place")
        self.own(target.value)
        one = whole is not None or is_scalar(value)
        if one or isinstance(value.kind, Tensor):
            masked = self.masked_part(target, base, value, rows=not one)
            if masked is not None:
                return self.bound_again(line, target, masked)
        lowered = self.expr(target).node
        assert isinstance(lowered, cst.Subscript)
        place = lowered.with_changes(value=cst.Attribute(layouts.first(base), cst.Name("at")))
        if self.may_have_an_axis_more(
            value, small.value, self.rank_of_part(target, base)
        ):  # torch leaves out leading axes of one element
            place = place.with_changes(slice=[_NEW_AXIS, *lowered.slice])
        given = layouts.first(self.as_array(value))
        if isinstance(value.kind, Tensor) and self.may_be_donated(target):
            self.unit.use_snippet("set_part")
            made = nodes.call("set_part", layouts.first(base), _index_of(place), given)
        else:
            made = nodes.call(cst.Attribute(place, cst.Name("set")), given)
        return self.bound_again(line, target, made)

    def may_be_donated(self, target: cst.Subscript) -> bool:
        """Whether a place by numbers is set in a loop on the host, of a tensor whose memory is nothing else's."""
        on_host = self.context in HOST_CONTEXTS and self.region is None and not self.under_jit and self.loops
        indices = _indices(target)
        numbers = len(indices) == len(target.slice) and all(isinstance(self.expr(i).kind, Number) for i in indices)
        return bool(on_host and numbers) and isinstance(target.value, cst.Name) and is_alone(self, target.value.value)

    def is_own(self, node: Expr) -> bool:
        """Whether a tensor that an object keeps is seen by nothing else where a method changes it."""
        path = nodes.dotted(node) or ""
        if self.context != "method" or self.facts is None or path.rpartition(".")[0] != "self":
            return False
        return changes_own(suites.suite_of(self.facts.node.body.body), path, self.fresh)

    def own_entry(self, target: Expr) -> None:
        """Declines to bind an entry or an attribute again where the tensor in it has another name."""
        if not isinstance(target, cst.Subscript | cst.Attribute) or self.context == "setup":
            return
        if not self.is_own(target) and kept_twice(self, target):
            raise Unsupported("MIG303", f"{nodes.code(target)} is changed in place, and may be seen under another name")

    def in_one_subscript(self, target: cst.Subscript) -> cst.Subscript:
        """`x[i, j]` for `x[i][j]`, the same part of a tensor where all that comes before the last index are numbers and
        that has no slices: those would tell where the axes of an array beside them go."""
        inner = target.value
        if not isinstance(inner, cst.Subscript) or any(not isinstance(e.slice, cst.Index) for e in target.slice):
            return target
        inner = self.in_one_subscript(inner)
        numbers = [self.expr(index).kind for index in _indices(inner)]
        if len(numbers) < len(inner.slice) or not all(isinstance(kind, Number) for kind in numbers):
            return target
        if not isinstance(self.expr(inner.value).kind, Tensor):
            return target
        before = [each.with_changes(comma=cst.MaybeSentinel.DEFAULT) for each in inner.slice]
        return target.with_changes(value=inner.value, slice=[*before, *target.slice])

    def rank_of_part(self, target: cst.Subscript, base: Value) -> int:
        """How many axes `x[i, :2]` has; -1 where x or an index does not tell."""
        rank = base.kind.rank if isinstance(base.kind, Tensor) else -1
        numbers = [self.expr(index).kind for index in _indices(target)]
        return rank - len(numbers) if rank >= 0 and all(isinstance(kind, Number) for kind in numbers) else -1

    def may_have_an_axis_more(self, value: Value, written: Expr, rank: int) -> bool:
        """Whether a value that is set has the axes of the part, as far as they are known (`rank` many), and one of one
        element before them: something that it is made of was given one (`x.reshape(1, -1)`)."""
        if not isinstance(value.kind, Tensor):
            return False
        if value.kind.rank >= 0 and rank >= 0:
            return value.kind.rank > rank
        body = self.own_body
        made_of = [written, *_made_of(body, usage.loads(written))]
        return any(_adds_an_axis(call) for each in made_of for call in usage.calls(each))

    def chained(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`x[i] = y = v`: y is v, then each part is set; None where no part of a tensor is set."""
        targets = [target.target for target in small.targets]
        parts = [each for each in targets if isinstance(each, cst.Subscript)]
        if len(targets) == 1 or not any(isinstance(self.kind_of(part.value), Tensor) for part in parts):
            return None
        named = next((each for each in targets if isinstance(each, cst.Name)), None)
        if named is None or any(named.value in usage.loads(each) for each in targets if each is not named):
            named = nodes.name(self.unit.own("value"))
        rest = [each for each in targets if nodes.dotted(each) != named.value]
        made = [cst.Assign([nodes.target(named)], small.value), *(cst.Assign([nodes.target(t)], named) for t in rest)]
        lines = [
            cst.SimpleStatementLine([one], leading_lines=[] if n else line.leading_lines) for n, one in enumerate(made)
        ]
        return [lowered for each in lines for lowered in self.statement(each)]

    def refuse_frozen(self, target: Expr) -> None:
        """Declines a change of what a module keeps, in a method that Flax runs when the module is frozen."""
        path = nodes.dotted(target) or ""
        if self.context == "forward" and not self.has_no_module and path.startswith("self."):
            raise Unsupported("MIG201", f"{path} is changed in a method: a Flax module is frozen there")

    def bound_again(self, line: cst.SimpleStatementLine, target: cst.Subscript, value: Expr) -> list[Statement]:
        """What stands for a change of a part of a tensor: its name, or the variable of a module, has a new value."""
        variable = self.variable_of(target)
        if variable is not None:
            return self.set_variable(line, variable, self.without_gradient(value, Tensor()))
        return suites.assigned(line, target.value, value)

    def masked_part(self, target: cst.Subscript, base: Value, value: Value, rows: bool = False) -> Expr | None:
        """What `x[mask] = value` makes of x, where the value is one number or has the shape of x, or has a row for each
        True (`rows`); None where the index is no mask, and on the host where the mask may be an index as it is."""
        index = target.slice[0].slice if len(target.slice) == 1 else None
        if not isinstance(index, cst.Index) or isinstance(index.value, cst.Tuple):
            return None
        mask = self.expr(index.value)
        if not self.is_mask(index.value, mask) or not isinstance(base.kind, Tensor):
            return None
        mask = self.as_array(mask)
        filling = {"x": layouts.first(base), "m": layouts.first(mask), "v": layouts.first(value)}
        keeps_type = base.kind.dtype == "float" or isinstance(nodes.literal(value.node), int) or value.kind == base.kind
        if not rows and keeps_type and self.same_shape(index.value, mask, target.value, base):
            return nodes.expression("jnp.where({m}, {v}, {x})", **filling)
        if self.context in HOST_CONTEXTS and not self.under_jit:
            return None
        snippet = "set_rows_where" if rows else "set_where"
        self.unit.use_snippet(snippet)
        return nodes.expression(f"{snippet}({{x}}, {{m}}, {{v}})", **filling)

    def changed_part(
        self, line: cst.SimpleStatementLine, small: cst.AugAssign, target: cst.Subscript
    ) -> list[Statement] | None:
        """`x[i] += v`: a new array under the same name; None where x is no tensor."""
        target = self.in_one_subscript(target)
        base = self.expr(target.value)
        if not isinstance(base.kind, Tensor):
            return None
        operator = _OPERATORS.get(type(small.operator).__name__)
        bound = isinstance(target.value, cst.Name) or self.variable_of(target) or self.is_own(target.value)
        if operator is None or not bound:
            raise Unsupported("MIG303", f"{nodes.code(target)} is changed in place")
        self.own(target.value)
        change = layouts.first(self.array(small.value))
        changed = nodes.expression(f"{{x}} {operator[0]} {{v}}", x=layouts.first(base), v=change)
        if is_scalar(self.expr(small.value)):
            masked = self.masked_part(target, base, Value(changed, base.kind))
            if masked is not None:
                return self.bound_again(line, target, masked)
        lowered = self.expr(target).node
        assert isinstance(lowered, cst.Subscript)
        place = lowered.with_changes(value=nodes.expression("{x}.at", x=lowered.value))
        if not _distinct(target, [self.expr(index) for index in _indices(target)]):
            # an index that comes twice counts once in torch, twice in `.at[].add`
            change = nodes.expression(f"{{part}} {operator[0]} {{v}}", part=lowered, v=change)
            return self.bound_again(line, target, nodes.call(cst.Attribute(place, cst.Name("set")), change))
        if operator[0] == "-":
            change = nodes.expression("-{x}", x=change)
        return self.bound_again(line, target, nodes.call(cst.Attribute(place, cst.Name(operator[1])), change))

    def is_part_of_model(self, target: cst.CSTNode) -> bool:
        """Whether an assignment changes a model, or a part of one, after it was made."""
        path = (nodes.dotted(target) or "").replace(".module.", ".").split(".")  # DataParallel's
        kind = self.kind_of_name(".".join(path[:-1])) if len(path) > 1 else None
        if isinstance(kind, ModuleClass):
            return f"{kind.cls}.{path[-1]}" in self.script.functions
        if isinstance(kind, TorchName):
            return kind.name in TABLE
        if isinstance(kind, Model):
            return path[-1] != "requires_grad"
        owner = self.kind_of_name(path[0])
        if isinstance(owner, Module):
            return self.building and len(path) > 1
        facts = self.script.classes.get(owner.cls) if isinstance(owner, Model) and len(path) > 2 else None
        return facts is not None and isinstance(facts.attributes.get(path[1]), Module) and path[-1] != "requires_grad"

    def small_AugAssign(self, line: cst.SimpleStatementLine, small: cst.AugAssign) -> list[Statement]:
        if self.context == "setup" and isinstance(small.operator, cst.AddAssign) and self.is_held(small.target):
            more = nodes.call(cst.Attribute(small.target, nodes.name("extend")), small.value)
            return self.statement(line.with_changes(body=[cst.Expr(more)]))
        if self.context == "setup" and isinstance(small.value, cst.List | cst.Tuple):
            self.note_listed([small.value])
        if isinstance(small.target, cst.Subscript):
            if self.group_of(small.target.value) is not None:
                return self.set_hyperparameter(small.target, nodes.augmented(small))
            base = self.expr(small.target.value)
            refuse_entry(small.target, base.kind, self.scope)
            part = self.changed_part(line, small, small.target)
            if part is not None:
                return part
        if isinstance(self.kind_of(small.target), Parameters | Selection):
            raise filled_on(small)
        target, value = self.expr(small.target), self.expr(small.value)
        variable = None if isinstance(small.target, cst.Subscript) else self.variable_of(small.target)
        if variable is not None:
            given = self.without_gradient(layouts.first(self.as_array(value)), value.kind)
            return self.set_variable(line, variable, small.with_changes(value=given))
        self.refuse_frozen(small.target)
        if self.context in HOST_CONTEXTS and self.is_part_of_model(small.target):
            raise Unsupported("MIG204", f"{nodes.code(small.target)} is changed after its module was made")
        weight = target.kind if isinstance(target.kind, Weight) else None
        if weight is not None and (weight.live or weight.place is not None or not isinstance(small.target, cst.Name)):
            raise Unsupported("MIG204", f"{nodes.code(small.target)} is changed after its module was made")
        tensor = isinstance(target.kind, Tensor) or isinstance(value.kind, Tensor)
        if isinstance(target.kind, Tensor):
            self.own(small.target)
        if tensor:
            self.own_entry(small.target)
            value = self.as_array(value)
        if isinstance(small.operator, cst.PowerAssign) and power_of_integers(target.kind, value.kind):
            power = cst.Assign([cst.AssignTarget(small.target)], nodes.augmented(small))
            return self.statement(line.with_changes(body=[power]))
        if isinstance(small.target, cst.Name):
            name = small.target.value
            self.env.definitions.pop(name, None)
            if target.layout == "last" or value.layout == "last":
                both = layouts.agree([target, value])
                if any(one.layout == "last" for one in both):
                    return suites.rebuilt(line, small, small.with_changes(value=both[1].node))
                left = layouts.first(target)
                symbol = _OPERATORS[type(small.operator).__name__][0]
                self.env.last.pop(name, None)
                made = nodes.expression(f"{{a}} {symbol} {{b}}", a=left, b=layouts.first(value))
                return suites.assigned(line, small.target, made)
            if tensor and self.changed_leaf(small.target) is None:
                stays = type(value.kind) is Kind and isinstance(target.kind, Tensor)  # whatever it is changed by
                joins = isinstance(target.kind, Number | Tensor) and not stays
                self.env.kinds[name] = join(target.kind, value.kind) if joins else target.kind
            elif isinstance(target.kind, Items) and isinstance(value.kind, Items):
                empty = target.kind.items == ()
                element = value.kind.joined() if empty else join(target.kind.joined(), value.kind.joined())
                self.env.kinds[name] = Items(None, element, target.kind.type)
        made = small.with_changes(value=layouts.first(value))
        if isinstance(small.target, cst.Subscript) and isinstance(target.node, cst.Subscript):
            made = made.with_changes(target=target.node)  # its index may be written with torch
        return suites.rebuilt(line, small, made)


# In-place operators: the operator, and the method of `.at[...]`.
_OPERATORS = {
    "AddAssign": ("+", "add"),
    "SubtractAssign": ("-", "add"),
    "MultiplyAssign": ("*", "multiply"),
    "DivideAssign": ("/", "divide"),
}


_NEW_AXIS = cst.SubscriptElement(
    cst.Index(cst.Name("None")), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
)


def _made_of(body: cst.CSTNode, names: Sequence[str]) -> Iterator[Expr]:
    """What names are bound to in a block, and the names in that, and so on."""
    assigned = list(every(body, cst.Assign))
    seen, pending = set[str](), set(names)
    while pending:
        seen |= pending
        found = [each for each in assigned if pending & set(usage.stores(each))]
        pending = {name for each in found for name in usage.loads(each.value)} - seen
        yield from (each.value for each in found)


def _adds_an_axis(call: cst.Call) -> bool:
    """`x.reshape(1, -1)`, `x.unsqueeze(0)`, `torch.rand(1, n)`."""
    method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
    given = [nodes.literal(arg.value) for arg in call.args]
    if method in ("rand", "randn", "zeros", "ones") and len(given) > 1:
        return given[0] == 1
    return (method in ("reshape", "view") and given[:1] == [1]) or (method == "unsqueeze" and given == [0])


def _indices(target: cst.Subscript) -> list[Expr]:
    return [element.slice.value for element in target.slice if isinstance(element.slice, cst.Index)]


def _index_of(place: cst.Subscript) -> Expr:
    """What stands in the brackets of `x.at[i, j]`."""
    parts = _indices(place)
    return parts[0] if len(parts) == 1 else nodes.tuple_of(parts)


def _distinct(target: cst.Subscript, indices: list[Value]) -> bool:
    """Whether an index surely names no place twice: slices, numbers and masks, not lists and tensors of numbers."""
    return all(
        isinstance(value.kind, Number | Plain)
        or isinstance(value.node, cst.Ellipsis)
        or (isinstance(value.kind, Tensor) and (value.kind.dtype == "bool" or value.kind.rank == 0))
        for value in indices
    )


def refuse_entry(target: cst.Subscript, kind: Kind, scope: str) -> None:
    """Declines to change an entry of a state dict whose model is not known in a scope: in JAX it is a tree."""
    if isinstance(kind, StateDict) and (not kind.place.name or kind.place.scope not in ("", scope)):
        told = "an entry of a state dict of a model that is not known here, which is a tree in JAX"
        raise Unsupported("MIG306", f"{nodes.code(target)} is {told}: map over the trees instead")
