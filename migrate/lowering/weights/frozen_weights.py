"""Statements that freeze weights, or free them: which weights require no gradient, as far as the script has run.

Where every line of the script has weights that surely require a gradient and others that surely do not, optimizers say
so, and these statements disappear. Where a branch tells, or an optimizer that was made before trains on, the output has
a set with the names of the parts that are frozen by now, and these statements change it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.frozen import Leaves
from migrate.known.kinds import Model, Place
from migrate.known.states import FROZEN, State
from migrate.known.weight_kinds import Selection
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.statements.state import StateAccess
from migrate.lowering.weights.leaves import leaves_of
from migrate.lowering.weights.made_without_gradient import frozen_as_made, still_of
from migrate.lowering.weights.selections import Selections
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class FrozenWeights(Selections, Binding):
    """What statements freeze and free."""

    def freeze(self, selection: Selection, on: bool, node: cst.CSTNode, surely: bool = True) -> list[Statement]:
        """`requires_grad = False` of some weights. Whole models that are switched off and on while it trains lose
        nothing: each step takes the gradients of the models that it trains alone. Neither do those that have trained by
        then and are frozen for good. `surely`: it does so whenever the line runs."""
        made: list[Statement] = []
        for place, chosen in selection.leaves:
            root, leaves = self.root(place), frozenset(chosen)
            known = self.script.frozen
            if on and (still_of(self.script, root) | frozen_as_made(self.script, root)) & leaves:
                told = f"{nodes.code(node).strip()}: of a weight that was made without a gradient"
                raise Unsupported("MIG401", told)
            own = self.facts is None or root.scope == self.scope  # it is made here, each time
            once = own and surely and not self.loops and not self.conditions
            whole = leaves == {leaf.flax for leaf in leaves_of(self.script, root)}
            trained = (self.scope, root) in self.script.updated
            if root not in known.switching and once and trained and whole and not on:
                known.finished.add((self.scope, root))
            elif root not in known.switching and not once and surely and self._loses_nothing(root, whole, on, node):
                known.switched.setdefault(root, set()).add(on)
            elif leaves:
                anew = surely and not once and self._optimizer_follows(root)
                made += self._freeze_leaves(place, leaves, on, (once, anew), node)
        return made

    def _loses_nothing(self, root: Place, whole: bool, on: bool, node: cst.CSTNode) -> bool:
        return whole and (self.surely_of(root) or self.switched_back(node, on))

    def _freeze_leaves(
        self, place: Place, leaves: Leaves, on: bool, when: tuple[bool, bool], node: cst.CSTNode
    ) -> list[Statement]:
        """Notes what is frozen from here on; of a model of which the output keeps it, the statement that says so.
        `when`: whether that is once, and whether a branch makes the optimizer of the model anew behind it."""
        root, known, (once, anew) = self.root(place), self.script.frozen, when
        known.found_together.setdefault(root, set()).add(leaves)
        here = place.scope in (self.scope, self.scope.rpartition(".")[0])  # not where an object has taken it over
        known.found_begun.setdefault(root, (id(node), once and here and root not in self.captured))
        in_turn = (self.facts is None or root.scope == self.scope) and not self.loops
        if on and root in (known.filtered_by_now if in_turn else known.filtered):
            told = f"{nodes.code(node).strip()}: after an optimizer was given what was not frozen then"
            raise Unsupported("MIG401", f"{told}, as a branch tells")
        before = self.frozen_by_script(root)
        after = before - leaves if on else before | leaves
        if root in self.script.handed and not once:
            if self.facts is not None:
                self.script.going_on.add(self.facts.qualname)  # it may be told where the function is called
            told = f"{nodes.code(node).strip()}: which weights are frozen is told while it runs"
            raise Unsupported("MIG401", told)
        if root in known.switching:
            self._note_frozen(root, leaves, after, once)
            return [self._keep_frozen(place, leaves, on, known.found_begun[root] == (id(node), True))]
        if once:
            self._next_phase(root)
            self._note_frozen(root, leaves, after, once)
        elif anew:
            known.found_perhaps[root] = self.perhaps_frozen(root) | leaves
            known.inside[root] = id(self.blocks[-1]), after
        else:
            known.switching.add(root)
        return []

    def _note_frozen(self, root: Place, leaves: Leaves, after: Leaves, once: bool) -> None:
        known = self.script.frozen
        perhaps = self.perhaps_frozen(root)
        known.found_perhaps[root] = perhaps - leaves if once else perhaps | leaves
        if once:
            known.found_phases[root] = (*known.found_phases.get(root, ())[:-1], after)

    def _next_phase(self, root: Place) -> None:
        """Begins a phase of the training of a model that has trained: what trained it until now no longer does."""
        known = self.script.frozen
        if (self.scope, root) not in self.script.updated:
            return
        known.found_phases[root] = (*known.found_phases.get(root, (frozenset(),)), known.now(root))
        known.outdated |= {(self.scope, optimizer) for optimizer in self._optimizers_of(root)}

    def _optimizers_of(self, root: Place) -> set[Place]:
        return {
            self.root(optimizer)
            for optimizer, models in self.script.optimizers.items()
            if root in map(self.root, models)
        }

    def _optimizer_follows(self, root: Place) -> bool:
        """Whether the block makes the only optimizer of a model anew after a statement that freezes."""
        block = self.blocks[-1]
        for statement in block.statements[block.index + 1 :]:
            small = suites.alone(statement)
            if isinstance(small, cst.Assign) and isinstance(small.value, cst.Call) and len(small.targets) == 1:
                made = self.torch_name(small.value.func) or ""
                if made.startswith("torch.optim.") and "lr_scheduler" not in made:
                    return self._optimizers_of(root) <= {self.place_of(small.targets[0].target)}
            if {"backward", "step"} & set(usage.attributes(statement)):
                return False
        return False

    def _keep_frozen(self, place: Place, leaves: Leaves, on: bool, first: bool) -> Statement:
        """`frozen |= {"backbone"}`. `first`: nothing has set it before."""
        root, state = self.root(place), State(FROZEN, place)
        parts = self.script.frozen.parts(root)
        names = [name for name, found in parts.items() if found <= leaves]
        listed = _set_of(names)
        if on and len(names) == len(parts):
            return nodes.statement("{f} = frozenset()", f=self.write(state))
        if first or (not on and len(names) == len(parts)):
            text = "{f} = frozenset()" if on else "{f} = frozenset({s})"
            return nodes.statement(text, f=self.write(state), s=listed)
        self.read(state)
        return nodes.statement("{f} -= {s}" if on else "{f} |= {s}", f=self.write(state), s=listed)

    def surely_of(self, model: Place) -> bool:
        """Whether the conditions at hand tell no more than that a model is there: one that is not has no weights."""
        return all(self._model_there(test) == model for test in self.conditions)

    def _model_there(self, test: Expr) -> Place | None:
        """The model that a test asks for, `model is not None`; None for other tests."""
        match test:
            case cst.Comparison(comparisons=[cst.ComparisonTarget(operator=cst.IsNot(), comparator=other)]):
                kind = self.kind_of(test.left)
                place = kind.place if isinstance(kind, Model) and nodes.is_literal(other, None) else None
                return None if place is None else self.root(place)
        return None

    def switched_back(self, node: cst.CSTNode, on: bool) -> bool:
        """Whether a branch that switches weights off switches them on again, whichever of the two `node` does: it is
        left through its end alone."""
        body = self.blocks[-1].statements
        here = next((i for i, one in enumerate(body) if node in every(one, cst.CSTNode)), None)
        if here is None:
            return False
        texts = [nodes.code(one.with_changes(leading_lines=[])) for one in body]
        other = re.sub(r"\b(True|False)\b", lambda word: str(word[0] == "False"), texts[here])
        there = [i for i, text in enumerate(texts) if text == other and (i < here if on else i > here)]
        between = body[slice(*sorted((here, there[0])))] if there else []
        leaving = (cst.Return, cst.Break, cst.Continue, cst.Raise)
        return bool(there) and not any(next(every(one, leaving), None) for one in between)


def nothing_frozen(scope: StateAccess, place: Place) -> list[Statement]:
    """What is frozen of a model when it is made, where the output keeps that: nothing; empty where the first
    statement that freezes says so."""
    known, root = scope.script.frozen, scope.root(place)
    if root not in known.switching or known.begun.get(root, (0, False))[1]:
        return []
    return [nodes.statement("{f} = frozenset()", f=scope.write(State(FROZEN, place)))]


def frozen_as_received(scope: StateAccess, place: Place, made_as: Place) -> list[Statement]:
    """Notes what is frozen of a model that a function has made for its caller, of which that keeps it."""
    known, leaves = scope.script.frozen, scope.script.frozen.last(made_as)
    if not known.any_of(made_as) and place not in known.switching:
        return []
    known.found_phases[place] = (leaves,)
    known.found_together.setdefault(place, set()).update(known.at_once(made_as))
    if made_as in scope.script.given_up and {place, made_as} & known.switching:
        known.switching |= {place, made_as}
        return []
    if place not in known.switching:
        return []
    known.found_begun[place] = (0, True)
    parts = sorted(name for name, found in known.parts(place).items() if found <= leaves)
    value = nodes.call("frozenset", *([_set_of(parts)] if parts else []))
    return [nodes.statement("{f} = {v}", f=scope.write(State(FROZEN, place)), v=value)]


def _set_of(names: Sequence[str]) -> Expr:
    if not names:  # the parts are not known before the next round
        return nodes.expression("set()")
    return cst.Set([cst.Element(cst.SimpleString(f'"{name}"')) for name in names])
