"""Displays, subscripts and comprehensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import (
    ITERATOR,
    Host,
    Items,
    Kind,
    Module,
    Plain,
    Tensor,
    is_batch,
)
from migrate.known.row_kinds import NamedRow
from migrate.known.weight_kinds import Parameters, StateDict, Weight, WeightTree
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.elements import (
    DICT,
    dict_kind,
    item_kind,
    loop_kind,
    members_of,
    part_kind,
    repeated_unknown,
)
from migrate.lowering.expressions.known_to_jit import need_value
from migrate.lowering.expressions.layers_apart import taken_apart
from migrate.lowering.expressions.made_outside import MadeOutside
from migrate.lowering.expressions.packed_elements import elements_of
from migrate.lowering.expressions.passed_on import each_of
from migrate.lowering.expressions.results_of_transformers import entry_of_result
from migrate.lowering.expressions.scalars import is_indexed_by_numbers
from migrate.lowering.expressions.static_masks import BY_DATA
from migrate.lowering.optimizers.parameter_groups import ParameterGroups
from migrate.lowering.parts import Parts
from migrate.lowering.plainer.loops_written_out import LoopsWrittenOut
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.updates.traced_effects import refuse_formatted
from migrate.lowering.weights.chosen_weights import ChosenWeights
from migrate.lowering.weights.lists_in_files import list_from_file
from migrate.lowering.weights.saved_entries import note_saved_dict
from migrate.lowering.weights.weight_dicts import dict_of_weights, refuse_key
from migrate.lowering.weights.weight_trees import each_of_tree
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr


class Containers(ChosenWeights, ParameterGroups, LoopsWrittenOut, MadeOutside, Binding):
    """Displays, subscripts and comprehensions."""

    def _elements(self, elements: Sequence[cst.BaseElement], type: str) -> tuple[list[cst.BaseElement], Items]:
        made: list[cst.BaseElement] = []
        kinds: list[Kind] = []
        counted = True  # whether it is known how many there are
        for element in elements:
            value = self.usable(self.expr(element.value))
            self.refuse_stateful(value.kind)
            made.append(element.with_changes(value=layouts.first(value)))
            if not isinstance(element, cst.StarredElement):
                kinds.append(value.kind)
            elif isinstance(value.kind, Items) and value.kind.items is not None:
                kinds += value.kind.items
            else:
                kinds.append(loop_kind(value.kind, id(element)))
                counted = False
        members = members_of(kinds, [each.value for each in elements], type)
        whole = members or Items(tuple(kinds), type=type)
        return made, whole if counted else Items(None, whole.joined(), type)

    def expr_Tuple(self, node: cst.Tuple) -> Value:
        made, kind = self._elements(node.elements, "tuple")
        return Value(node.with_changes(elements=made), kind)

    def expr_List(self, node: cst.List) -> Value:
        made, kind = self._elements(node.elements, "list")
        return Value(node.with_changes(elements=made), kind)

    def expr_Set(self, node: cst.Set) -> Value:
        return Value(node.with_changes(elements=self._elements(node.elements, "set")[0]), Plain())

    def expr_Dict(self, node: cst.Dict) -> Value:
        if node in self.unit.rows:
            return Value(node, NamedRow())
        group = self.written_group(node) if self.context in HOST_CONTEXTS else None
        if group is not None:
            return Value(node, group)
        note_saved_dict(self, node)
        made, kinds = [], list[Kind]()
        for element in node.elements:
            value = self.usable(self.expr(element.value))
            self.refuse_stateful(value.kind)
            kinds.append(value.kind)
            changes = {"value": layouts.first(value)}
            if isinstance(element, cst.DictElement):
                changes["key"] = self.node(element.key)
            made.append(element.with_changes(**changes))
        entries = [each for each in node.elements if isinstance(each, cst.DictElement)]
        values, keys = [each.value for each in entries], [each.key for each in entries]
        members = members_of(kinds, values, DICT, keys) if len(entries) == len(kinds) else None
        return Value(node.with_changes(elements=made), members or dict_kind(kinds))

    def expr_FormattedString(self, node: cst.FormattedString) -> Value:
        refuse_formatted(self, node)
        parts = []
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                part = self.formatted_part(part, node.quote)
            parts.append(part)
        return Value(node.with_changes(parts=parts), Plain("str"))

    def formatted_part(self, part: cst.FormattedStringExpression, quote: str) -> cst.FormattedStringExpression:
        """What is put into a text, with what its format is made of."""
        inner = [
            self.formatted_part(one, quote) if isinstance(one, cst.FormattedStringExpression) else one
            for one in part.format_spec or ()
        ]
        made = part.with_changes(expression=_requoted(self.node(part.expression), quote))
        return made.with_changes(format_spec=inner) if inner else made

    def expr_ConcatenatedString(self, node: cst.ConcatenatedString) -> Value:
        left, right = self.node(node.left), self.node(node.right)
        return Value(node.with_changes(left=left, right=right), Plain("str"))

    def expr_Subscript(self, node: cst.Subscript) -> Value:
        length = self.axis_length(node)
        if length is not None:
            return length
        group = self.group_of(node.value)
        if group is not None:
            return self.group_item(node, group)
        if self.groups_of(node.value) is not None:
            raise Unsupported("MIG401", f"{nodes.code(node)}: a parameter group as a value")
        base = taken_apart(self, self.expr(node.value))
        if isinstance(base.kind, StateDict) and self.root(base.kind.place) in self.script.groups:
            raise Unsupported("MIG306", f"{nodes.code(node)}: by a name of torch's, of what JAX has in a tree")
        if isinstance(base.kind, WeightTree):
            raise Unsupported("MIG302", f"`{nodes.code(node)}`: one of the weights, which Flax has in another order")
        part = (
            entry_of_result(self, node, base)
            or elements_of(node, base)
            or self.numbered_weight(node, base.kind)
            or self.part_of_tuple(node, base)
        )
        if part is not None:
            return part
        cut = self.cut_outside(node, base) or list_from_file(self, node, base)
        if cut is not None:
            return cut
        slices: list[cst.SubscriptElement] = []
        indices: list[Value | None] = []
        values = [self.expr(each.slice.value) if isinstance(each.slice, cst.Index) else None for each in node.slice]
        arrays = any(value is not None and isinstance(value.kind, Tensor) for value in values)
        if isinstance(base.kind, Host) and arrays:
            base = self.as_array(base)  # a batch of torch's takes no array of JAX's
        for element, value in zip(node.slice, values, strict=True):
            index = element.slice
            if isinstance(index, cst.Index) and value is not None:
                refuse_key(node, base.kind, value.kind)
                if isinstance(base.kind, Tensor):
                    value = self.index(index.value, value)
                elif is_indexed_by_numbers(base):
                    value = self.as_scalar(value)
                indices.append(value)
                index = index.with_changes(value=layouts.first(value))
            elif isinstance(index, cst.Slice):
                parts = {part: getattr(index, part) for part in ("lower", "upper", "step")}
                bounds = {part: self.expr(found) for part, found in parts.items() if found is not None}
                for value in bounds.values():
                    need_value(self, value.node)
                if is_indexed_by_numbers(base):
                    bounds = {part: self.as_scalar(value) for part, value in bounds.items()}
                index = index.with_changes(**{part: layouts.first(value) for part, value in bounds.items()})
                indices.append(None)
            slices.append(element.with_changes(slice=index))
        made = node.with_changes(value=nodes.parenthesized(layouts.first(base)), slice=slices)
        return Value(made, item_kind(base.kind, node, indices))

    def index(self, node: Expr, value: Value) -> Value:
        """An index of a tensor: torch also takes lists, JAX does not."""
        traced = self.under_jit or self.context not in HOST_CONTEXTS
        if traced and self.is_static_mask(node):
            return Value(self.worked_out(value.node, node), value.kind)
        if traced and self.is_mask(node, value) and not self.is_constant_mask(node):
            raise Unsupported("MIG302", BY_DATA)
        if isinstance(value.kind, Items) and value.kind.type == "list":
            return Value(nodes.call("jnp.array", value.node), Tensor("int"))
        return self.as_array(value)

    def part_of_tuple(self, node: cst.Subscript, base: Value) -> Value | None:
        """`x.max(1)[1]` where the call has become a tuple: its element."""
        index = node.slice[0].slice
        position = nodes.literal(index.value) if isinstance(index, cst.Index) else None
        if not isinstance(base.node, cst.Tuple) or isinstance(node.value, cst.Tuple) or not isinstance(position, int):
            return None
        count = len(base.node.elements)
        if not isinstance(base.kind, Items) or not -count <= position < count:
            return None
        return Value(self.unheld(base.node.elements[position].value), part_kind(base.kind, position % count, count))

    def axis_length(self, node: cst.Subscript) -> Value | None:
        """`x.shape[i]` or `x.size()[i]` of a value whose channels are last: the length is looked up where the axis is
        now."""
        shape = node.value
        if isinstance(shape, cst.Call) and not shape.args and nodes.code(shape.func).endswith(".size"):
            shape = shape.func
        if not isinstance(shape, cst.Attribute) or shape.attr.value not in ("shape", "size") or len(node.slice) != 1:
            return None
        index = node.slice[0].slice
        axis = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
        base = self.expr(shape.value) if isinstance(shape.value, cst.Name) else None
        if base is None or not isinstance(axis, int):
            return None
        return layouts.length(base, axis)

    def _comprehension(self, node: cst.BaseComp) -> Value:
        tree = self.over_groups(node) or self.tree_value(node)
        if tree is not None:
            return tree
        inner = self.inner({})
        node, made_for = inner.over_gradients(node) or (
            node,
            inner.under_torch_names_in(node) or inner.over_chosen_in(node) or inner.comp_for(node.for_in, self),
        )
        if isinstance(node, cst.ListComp | cst.GeneratorExp) and self.is_counted(node.for_in):
            inner.turn_keys = []
        if isinstance(node, cst.DictComp):
            value = inner.expr(node.value)
            made = node.with_changes(key=inner.node(node.key), value=layouts.first(value), for_in=made_for)
            if is_batch(value.kind):
                return Value(made, Host("batch"))
            return Value(made, dict_of_weights(self, inner, node, value.kind) or dict_kind([value.kind]))
        assert isinstance(node, cst.ListComp | cst.GeneratorExp | cst.SetComp)
        element = inner.expr(node.elt)
        made = node.with_changes(elt=layouts.first(element), for_in=made_for)
        if isinstance(element.kind, Weight) and _as_they_are(made):
            return Value(made.for_in.iter, Items(None, element.kind, "list"))
        if inner.turn_keys:
            made = made.with_changes(for_in=self.with_keys(made_for, inner.turn_keys, usage.loads(node.elt)))
        outside = isinstance(node.elt, cst.Name) and node.elt.value not in usage.target_names(node.for_in.target)
        if isinstance(element.kind, Module) and outside:
            times = self.known_items(node.for_in.iter)
            if times is None:
                raise repeated_unknown(node)
            return Value(made, Items((element.kind,) * len(times)))
        type = ITERATOR if isinstance(node, cst.GeneratorExp) else "list"
        return Value(made, Items(None, element.kind, type))

    def over_groups(self, node: cst.BaseComp) -> Value | None:
        """`[group["lr"] for group in optimizer.param_groups]`: what it gives for each; None of anything else."""
        groups = self.group_items(node.for_in.iter) or ()
        plain = isinstance(node.for_in.target, cst.Name) and not node.for_in.ifs and node.for_in.inner_for_in is None
        if not groups or not plain or not isinstance(node, cst.ListComp | cst.GeneratorExp):
            return None
        name = nodes.code(node.for_in.target)
        return self.expr(cst.List([cst.Element(nodes.substituted(node.elt, {name: group})) for group in groups]))

    def is_counted(self, each: cst.CompFor) -> bool:
        """Whether it is known before how many turns a comprehension takes."""
        if each.ifs or each.inner_for_in is not None:
            return False
        if isinstance(each.iter, cst.Call):
            return nodes.dotted(each.iter.func) == "range"
        if isinstance(each.iter, cst.List | cst.Tuple):
            return not any(isinstance(element, cst.StarredElement) for element in each.iter.elements)
        kind = self.kind_of(each.iter)
        listed = isinstance(kind, Items) and kind.type in ("list", "tuple")
        loaded = isinstance(kind, Host) and kind.what == "loader"
        return nodes.dotted(each.iter) is not None and (listed or loaded)

    def with_keys(self, each: cst.CompFor, names: Sequence[cst.Name], read: Sequence[str]) -> cst.CompFor:
        """The `for` of a comprehension that draws: each turn has keys of its own."""
        alone, times = len(names) == 1, _turns(each.iter)
        shape = times if alone else nodes.tuple_of([times, cst.Integer(str(len(names)))])
        keys = nodes.call("jax.random.split", self.fresh_key(), shape)
        if nodes.code(each.iter) == f"range({nodes.code(times)})" and not {*usage.target_names(each.target)} & {*read}:
            return each.with_changes(target=names[0] if alone else nodes.tuple_of(names, parentheses=False), iter=keys)
        own = names[0] if alone else nodes.tuple_of(names)
        target = nodes.tuple_of([nodes.expression(nodes.code(each.target)), own], parentheses=False)
        return each.with_changes(target=target, iter=nodes.call("zip", each.iter, keys))

    def expr_ListComp(self, node: cst.ListComp) -> Value:
        if isinstance(node.elt, cst.Name) and self.context in HOST_CONTEXTS and node.for_in.ifs:
            selection = self.filtered_parameters(node)
            models = self.whole_models(selection)
            if selection is not None:
                made = self.listed(selection)
                return made if models is None else replace(made, kind=Parameters(models))
        return self._comprehension(node)

    def expr_GeneratorExp(self, node: cst.GeneratorExp) -> Value:
        return self._comprehension(node)

    expr_SetComp = expr_DictComp = _comprehension

    def over_chosen_in(self, node: cst.BaseComp) -> cst.CompFor | None:
        """The `for` of a comprehension over those parameters for which tests of their names hold; None for others."""
        each = node.for_in
        if isinstance(node, cst.DictComp) or not each.ifs or each.inner_for_in is not None:
            return None
        assert isinstance(node, cst.ListComp | cst.GeneratorExp | cst.SetComp)
        chosen = self.chosen(each.target, each.iter, [condition.test for condition in each.ifs], usage.loads(node.elt))
        if chosen is None:
            return None
        target, value = chosen
        self.bind(target, each_of(self, value.kind, id(each)))
        return each.with_changes(target=target, iter=value.node, ifs=[])

    def comp_for(self, node: cst.CompFor, around: Parts | None = None) -> cst.CompFor:
        """The `for` of a comprehension, whose variables are bound in this (inner) scope. `around`: the scope that it
        stands in, which evaluates once what the first `for` goes over."""
        iterated = taken_apart(self, (around or self).expr(node.iter))
        if isinstance(iterated.kind, WeightTree):
            iterated = each_of_tree(iterated)
        self.bind(node.target, each_of(self, iterated.kind, id(node)))
        tests = [(condition, self.node(condition.test)) for condition in node.ifs]
        ifs = [one.with_changes(test=test) for one, test in tests if nodes.literal(test) is not True]
        inner = self.comp_for(node.inner_for_in) if node.inner_for_in else None
        return node.with_changes(iter=layouts.first(iterated), ifs=ifs, inner_for_in=inner)


def _as_they_are(node: cst.ListComp | cst.GeneratorExp | cst.SetComp) -> bool:
    """Whether a comprehension gives what it goes over, a list of nobody else's: `(p for p in model.parameters())`."""
    each = node.for_in
    alone = (
        isinstance(each.iter, cst.Call)
        and not each.ifs
        and each.inner_for_in is None
        and not isinstance(node, cst.SetComp)
    )
    return alone and isinstance(node.elt, cst.Name) and nodes.code(node.elt) == nodes.code(each.target)


def _turns(iterable: Expr) -> Expr:
    """How many turns a loop takes over what is counted."""
    if isinstance(iterable, cst.Call) and len(iterable.args) == 1:
        return iterable.args[0].value
    if isinstance(iterable, cst.List | cst.Tuple):
        return cst.Integer(str(len(iterable.elements)))
    return nodes.call("len", iterable)


def _requoted(node: Expr, quote: str) -> Expr:
    """An expression that can stand in an f-string of the given quotes: before Python 3.12 it may not hold them."""
    other = "'" if quote[0] == '"' else '"'
    made = nodes.visited(node, _Requote(other)) if quote in nodes.code(node) else node
    if quote in nodes.code(made):
        raise Unsupported("MIG302", f"`{nodes.code(made)}` inside an f-string with the same quotes")
    return made


class _Requote(cst.CSTTransformer):
    """Puts plain strings into the other quotes."""

    def __init__(self, quote: str) -> None:
        super().__init__()
        self.quote = quote

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        text = updated_node.raw_value
        if len(updated_node.quote) != 1 or self.quote in text or "\\" in text:
            return updated_node
        return updated_node.with_changes(value=f"{updated_node.prefix}{self.quote}{text}{self.quote}")
