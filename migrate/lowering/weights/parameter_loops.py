"""Loops over parameters: updates by hand, averages, weights kept within bounds, gradients that are read.

`for p in model.parameters(): p -= lr * p.grad` is one `jax.tree.map` over the parameters and the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from posixpath import commonpath

import libcst as cst

from migrate.apis import stops_gradients
from migrate.diagnostics import Unsupported
from migrate.known.kinds import Model, Place, Tensor
from migrate.known.states import BATCH_STATS, GRADS, PARAMS, State
from migrate.known.weight_kinds import WEIGHT_NAME, Selection, Weight, WeightTree
from migrate.lowering.models.model_methods import named_leaves
from migrate.lowering.scope import NOWHERE
from migrate.lowering.updates.accumulation import Accumulation
from migrate.lowering.weights.leaves import leaves_of
from migrate.lowering.weights.order_of_parameters import refuse_order
from migrate.lowering.weights.plain_weights import (
    Looped,
    PlainWeights,
    as_a_whole,
    augmented,
    chained,
    trees_of,
    with_bare_product,
    without_other_names,
)
from migrate.lowering.weights.selections import names_of_pair
from migrate.lowering.weights.set_by_name import SetByName
from migrate.manifest import WILDCARD
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import changes_its_variables, path_of_list, zipped
from migrate.weights import same_weights, weights_of


class ParameterLoops(Accumulation, SetByName):
    """Loops over the parameters of models."""

    def parameter_loop(self, node: cst.For) -> list[Statement] | None:
        """The statements for a loop that changes parameters or reads gradients; None for other loops."""
        copied = self.buffers_copied(node)
        if copied is not None:
            return copied
        node = self.in_parallel(node)
        looped = self.looped(node)
        if node.orelse is not None:
            return None
        if looped is None:
            self.note_lists_of_callers(node)
            return self.named_readings(node)
        plain = PlainWeights(looped)
        body, own = self.in_plain_terms(plain, suites.suite_of(node.body.body), looped)
        changed = {name for statement in body for name in usage.changes(statement)}
        if not changed & own and not plain.gradients:
            return None
        if changed & own:
            return self.changes(looped, body, own)
        return self.readings(node, looped, body, plain.gradients)

    def in_plain_terms(
        self, plain: PlainWeights, statements: Sequence[Statement], looped: Sequence[Looped]
    ) -> tuple[list[Statement], set[str]]:
        """The statements of a loop, one for each change of its variables, and the names of these."""
        body = [plain.visited(statement) for statement in self.flat(statements, looped)]
        own = {one.name for one in looped} | {one.gradient for one in looped}
        body = [as_a_whole(part, own) for statement in body for part in chained(statement)]
        return without_other_names(body, own), own

    def mapped_over(self, looped: Sequence[Looped], statements: Sequence[Statement]) -> list[Statement]:
        """The statements of a loop that changes its variables, as maps over their trees."""
        body, own = self.in_plain_terms(PlainWeights(looped), statements, looped)
        return self.changes(looped, body, own)

    def buffers_copied(self, node: cst.For) -> list[Statement] | None:
        """`for ours, theirs in zip(average.buffers(), model.buffers()): ours.copy_(theirs)`: the statistics of one
        model become those of the other, if they keep any; None for other loops."""
        sources = zipped(node.iter)
        calls = [one for one in sources if isinstance(one, cst.Call) and not one.args]
        functions = [call.func for call in calls if isinstance(call.func, cst.Attribute)]
        owners = [function.value for function in functions if function.attr.value == "buffers"]
        names = names_of_pair(node.target) if isinstance(node.target, cst.Tuple) else None
        kinds = [kind for kind in map(self.kind_of, owners) if isinstance(kind, Model) and kind.place is not None]
        if names is None or len(kinds) != 2 or len(sources) != 2:
            return None
        if not same_weights(self.script, *(kind.cls for kind in kinds)):
            return None
        body = nodes.code(node.body).strip().replace(".data", "")
        target = next((n for n, name in enumerate(names) if body == f"{name}.copy_({names[1 - n]})"), None)
        if target is None or node.orelse is not None:
            return None
        kept = {leaf.flax.partition("/")[0] for leaf in weights_of(self.script, kinds[0].cls)} - {PARAMS}
        if not kept <= {BATCH_STATS}:
            return None
        if not self.stats_of(kinds[0]):
            return []
        changed, source = (State(BATCH_STATS, kinds[n].place or NOWHERE) for n in (target, 1 - target))
        read = self.read(source)
        return [nodes.statement("{t} = jax.tree.map(jnp.copy, {s})", t=self.write(changed), s=read)]

    def looped(self, node: cst.For) -> list[Looped] | None:
        """The variables of a loop over parameters, with their models."""
        sources: Sequence[Expr] = zipped(node.iter)
        if sources and isinstance(node.target, cst.Tuple):
            bound = usage.target_names(node.target)
            names = bound if len(bound) == len(node.target.elements) else None
        else:
            names = names_of_pair(node.target)
            if names is not None and len(names) == 2 and names[0] in usage.loads(node.body):
                return None  # the name of the parameter is read
            names, sources = names and names[-1:], [node.iter]
        if names is None or len(names) != len(sources):
            return None
        found: list[Looped] = []
        classes: list[str | None] = []
        for name, source in zip(names, sources, strict=True):
            kind, path = self.kind_of(source), path_of_list(source)
            if isinstance(kind, WeightTree) and kind.listed and path:
                found.append(Looped(name, NOWHERE, f"{name}_grad", tree=path))
                classes.append(kind.cls)
                continue
            selected = self.selection(source)
            models = self.whole_models(selected)
            part = self.whole_part(selected) if models is None and len(sources) == 1 else ()
            if part and selected is not None:
                models = (selected.leaves[0][0],)
            if models is None or len(models) != 1:
                return None
            taken = "grad" in usage.loads(node) or self.torch_name(cst.Name("grad")) is not None
            gradient = "grad" if len(names) == 1 and not taken else f"{name}_grad"
            found.append(Looped(name, self.seen_here(models[0]), gradient, part=part))
            classes.append(self.script.places.get(self.root(models[0])))
        return found if self.are_alike(classes) else None

    def whole_part(self, selection: Selection | None) -> tuple[str, ...]:
        """Flax's names on the way to the part of a model whose weights a selection is; none of other selections."""
        if selection is None or len(selection.leaves) != 1 or selection.unless_frozen:
            return ()
        ((place, chosen),) = selection.leaves
        path = commonpath(chosen) if chosen else ""
        all_there = [leaf.flax for leaf in leaves_of(self.script, self.root(place)) if leaf.flax.startswith(f"{path}/")]
        keys = tuple(path.split("/")[1:])
        return keys if len(all_there) == len(chosen) and not any(map(WILDCARD.search, keys)) else ()

    def are_alike(self, classes: Sequence[str | None]) -> bool:
        """Whether models of some classes, None where one is not known, have the same weights."""
        first = classes[0] if classes else None
        return all(one == first or (one and first and same_weights(self.script, first, one)) for one in classes)

    def note_lists_of_callers(self, node: cst.For) -> None:
        """Notes a function that changes lists of its callers beside parameters: it is taken as if its body stood where
        it is called."""
        given = self.facts.parameter_names if self.facts is not None else ()
        sources = zipped(node.iter)
        lists = [one for one in sources if isinstance(one, cst.Name) and one.value in given]
        models = [self.whole_models(self.selection(one)) for one in sources]
        known = [one for one, whole in zip(sources, models, strict=True) if whole or one in lists]
        if self.facts is not None and any(models) and len(known) == len(sources) and changes_its_variables(node):
            self.script.going_on.add(self.facts.qualname)

    def looped_models(self, statement: Statement) -> set[Place]:
        """The models whose parameters a statement changes in such loops."""
        inner = suites.suite_of(statement.body.body) if isinstance(statement, cst.With) else [statement]
        found: set[Place] = set()
        for one in (self.in_parallel(each) if isinstance(each, cst.For) else each for each in inner):
            looped = self.looped(one) if isinstance(one, cst.For) else None
            if looped is not None and isinstance(one, cst.For):
                plain = PlainWeights(looped)
                changed = set(usage.changes(cst.Module([plain.visited(s) for s in suites.suite_of(one.body.body)])))
                found |= {self.root(loop.model) for loop in looped if loop.name in changed and not loop.tree}
        return found

    def flat(self, statements: Sequence[Statement], looped: Sequence[Looped]) -> list[Statement]:
        """The statements of a loop without what asks whether there is a gradient, which there always is."""
        made: list[Statement] = []
        for statement in statements:
            if isinstance(statement, cst.With) and all(
                isinstance(item.item, cst.Call) and stops_gradients(self.torch_name(item.item.func))
                for item in statement.items
            ):
                made += self.flat(suites.suite_of(statement.body.body), looped)
            elif isinstance(statement, cst.If) and statement.orelse is None:
                held = self.always(statement.test, looped)
                if held is None:
                    made.append(statement)
                elif held:
                    made += self.flat(suites.suite_of(statement.body.body), looped)
            else:
                made.append(statement)
        return made

    def always(self, test: Expr, looped: Sequence[Looped]) -> bool | None:
        """Whether a test holds for every parameter, as `p.grad is not None` does; None where that is not known."""
        text = nodes.code(test)
        trains = not any(self.script.frozen.any_of(self.root(one.model)) for one in looped)
        for one in looped:
            if text in (f"{one.name}.grad is not None", f"{one.name}.requires_grad") and trains:
                return True
            if text in (f"{one.name}.grad is None", f"not {one.name}.requires_grad") and trains:
                return False
        return None

    def tree(self, one: Looped, what: str) -> Expr:
        """The parameters or the gradients that a loop runs through."""
        if one.tree and what == GRADS:
            raise Unsupported("MIG301", f"{one.name}.grad, of what {one.tree} holds: tensors without a gradient")
        if one.tree:
            return nodes.expression(one.tree)
        root = self.root(one.model)
        if what == GRADS and self.script.frozen.any_of(root):
            raise Unsupported("MIG401", f"gradients of {one.model.name}, of which a part is frozen")
        tree = self.gradients(one.model) if what == GRADS else self.read(State(what, one.model))
        for key in one.part:
            tree = nodes.expression(f'{{tree}}["{key}"]', tree=tree)
        return tree

    def changes(self, looped: Sequence[Looped], body: Sequence[Statement], own: set[str]) -> list[Statement]:
        """One `jax.tree.map` for the parameters, or the gradients, of each model that changes, and for each tree of the
        script's own."""
        self.refuse_carried(body, own)
        return self.changes_in_order(looped, body, own) or self.changes_at_once(looped, body, own)

    def changes_in_order(self, looped: Sequence[Looped], body: Sequence[Statement], own: set[str]) -> list[Statement]:
        """A statement for each, in terms of those that have changed by then; none where one that changes later goes by
        what an earlier one was."""
        inner, values, trees = self.inner(dict.fromkeys(own, Tensor("float"))), dict[str, Expr](), trees_of(looped)
        last = {name: number for number, one in enumerate(body) for name in usage.changes(one)}
        made: list[Statement] = []
        for number, statement in enumerate(body):
            self.fold(inner, statement, values)
            for name in (name for name in trees if name in values and last[name] == number):
                value = values.pop(name)
                if any(name in usage.loads(other) for other in values.values()):
                    return []
                mapped = self.with_part(*trees[name], self.tree_mapped(looped, value))
                made.append(nodes.statement("{t} = {v}", t=self.tree_changed(*trees[name]), v=mapped))
        return made

    def changes_at_once(self, looped: Sequence[Looped], body: Sequence[Statement], own: set[str]) -> list[Statement]:
        """All of them in one statement, in terms of what they were before the loop."""
        inner, values, trees = self.inner(dict.fromkeys(own, Tensor("float"))), dict[str, Expr](), trees_of(looped)
        for statement in body:
            self.fold(inner, statement, values)
        changed = [name for name in trees if name in values]
        mapped = [self.with_part(*trees[name], self.tree_mapped(looped, values[name])) for name in changed]
        made = nodes.tuple_of(mapped, parentheses=False)
        targets = nodes.tuple_of([self.tree_changed(*trees[name]) for name in changed], parentheses=False)
        return [nodes.statement("{t} = {v}", t=targets, v=made)]

    def tree_mapped(self, looped: Sequence[Looped], value: Expr) -> Expr:
        """The map over trees that makes a value of all weights from a value of one."""
        trees = trees_of(looped)
        used = [name for name in trees if name in usage.loads(value)] or [looped[0].name]
        function: Expr = cst.Lambda(cst.Parameters([cst.Param(cst.Name(name)) for name in used]), nodes.bare(value))
        if isinstance(value, cst.Name):  # arrays of its own: a step gives the memory of its weights away
            function = nodes.expression("jnp.copy")
        return nodes.call("jax.tree.map", function, *(self.tree(*trees[name]) for name in used))

    def with_part(self, one: Looped, what: str, changed: Expr) -> Expr:
        """A tree of a model of which a loop changes a part: `params | {"critic": changed}`."""
        for depth in reversed(range(len(one.part))):
            outer = self.tree(replace(one, part=one.part[:depth]), what)
            changed = nodes.expression(
                "{outer} | {made}", outer=outer, made=nodes.dict_of([(one.part[depth], changed)])
            )
        return changed

    def tree_changed(self, one: Looped, what: str) -> Expr:
        """What a changed tree is assigned to."""
        if what == PARAMS and not one.tree:
            self.script.looped_over.add((self.scope, self.root(one.model)))
        return nodes.expression(one.tree) if one.tree else self.write(State(what, one.model))

    def refuse_carried(self, body: Sequence[Statement], own: set[str]) -> None:
        """Declines `offset += p.numel()`: what a turn leaves to the next one, or to what follows the loop."""
        changed = dict.fromkeys(name for statement in body for name in usage.changes(statement))
        for name in (name for name in changed if name not in own):
            if usage.reads_first(body, name) or self.next_access(name) == "load":
                raise Unsupported("MIG401", f"{name} goes on from one parameter to the next")

    def fold(self, inner: ParameterLoops, statement: Statement, values: dict[str, Expr]) -> None:
        """Adds a statement to what names stand for after it, in terms of what they were before the loop."""
        inner.before = []
        made = inner.statement(statement)
        for lowered in [*inner.before, *made]:
            small = lowered.body[0] if isinstance(lowered, cst.SimpleStatementLine) else None
            if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
                name, value = small.target.value, augmented(small)
            elif isinstance(small, cst.Assign) and isinstance(small.targets[0].target, cst.Name):
                name, value = small.targets[0].target.value, small.value
            else:
                raise Unsupported("MIG401", f"`{nodes.code(statement).strip()}` in a loop over parameters")
            if nodes.is_literal(value, None):
                value = nodes.call("jnp.zeros_like", nodes.name(name))
            values[name] = nodes.parenthesized(with_bare_product(nodes.substituted(value, values)))

    def readings(
        self, node: cst.For, looped: Sequence[Looped], body: Sequence[Statement], gradients: set[str]
    ) -> list[Statement]:
        """A loop over the leaves of the parameters, of the gradients, or of both."""
        refuse_order(node, body)
        trees = trees_of(looped)
        read = set(usage.loads(cst.Module(list(body))))
        used = [name for name in trees if name in read]
        leaves = [nodes.call("jax.tree.leaves", self.tree(*trees[name])) for name in used]
        for name in used:
            self.env.kinds[name] = Weight(live=True)
        block = node.body.with_changes(body=list(body))
        lowered = self.loop_body(block, list)
        target = nodes.name(used[0]) if len(used) == 1 else nodes.tuple_of([nodes.name(name) for name in used], False)
        iterated = leaves[0] if len(leaves) == 1 else nodes.call("zip", *leaves)
        return [node.with_changes(target=target, iter=iterated, body=suites.block_of(node.body, lowered))]

    def named_readings(self, node: cst.For) -> list[Statement] | None:
        """`for name, p in model.named_parameters():` where names and gradients are read; None for other loops."""
        names = names_of_pair(node.target)
        models = self.whole_models(self.selection(node.iter))
        if names is None or len(names) != 2 or models is None or len(models) != 1:
            return None
        name, parameter = names
        one = Looped(parameter, self.seen_here(models[0]), f"{parameter}_grad")
        plain = PlainWeights([one])
        body = [plain.visited(statement) for statement in self.flat(suites.suite_of(node.body.body), [one])]
        for statement in body:
            self.unit.stands_for(statement, node)
        changed = {changed for statement in body for changed in usage.changes(statement)}
        if not plain.gradients:
            return self.weights_set(node, body) or self.without_tests(node, one)
        if changed & {parameter, one.gradient}:
            return None
        refuse_order(node, body)
        iterated, gradients = named_leaves(self.tree(one, PARAMS)), self.tree(one, GRADS)
        found = nodes.expression('flatten_dict({g}, sep=".")[{n}]', g=gradients, n=nodes.name(name))
        self.env.kinds |= {name: WEIGHT_NAME, parameter: Weight(live=True), one.gradient: Weight()}
        lowered = self.loop_body(node.body.with_changes(body=body), list)
        lowered = [*suites.assigned(cst.SimpleStatementLine([]), nodes.name(one.gradient), found), *lowered]
        return [node.with_changes(iter=iterated, body=suites.block_of(node.body, lowered))]

    def without_tests(self, node: cst.For, one: Looped) -> list[Statement] | None:
        """A loop without `if p.requires_grad:`, which holds for every parameter; None where it asks no such thing."""
        inner = suites.suite_of(node.body.body)
        key = (node, (one.name, self.script.frozen.any_of(self.root(one.model))))
        if key not in self.unit.unrolled:
            body = self.flat(inner, [one])
            made = node if body == inner else node.with_changes(body=suites.block_of(node.body, body))
            self.unit.stands_for(made, node)
            self.unit.unrolled[key] = [made]
        (made,) = self.unit.unrolled[key]
        return None if made is node else self.statement(made)
