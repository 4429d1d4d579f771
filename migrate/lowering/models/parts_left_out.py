"""Parts that a script takes out of a model once it has its weights.

    model.load_state_dict(weights)
    model.aux_logits = False
    model.aux = None

A Flax module makes its parts anew from its fields: a copy with another field, and weights without those of the parts,
is the same if the field decides these parts and nothing else, which is checked.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Model, Optimizer
from migrate.known.states import State
from migrate.lowering.models.cropping import Cropping
from migrate.lowering.statements.blocks import run_before
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.weights import weights_of


class PartsLeftOut(Cropping):
    """Assignments of False and None to attributes of a model."""

    def changed_model(self, target: cst.Attribute, value: Expr) -> list[Statement] | None:
        """What becomes of an assignment to a part of a model, and of those after it that take out more; None where it
        does something else."""
        model = self.kind_of(target.value)
        block = self.blocks[-1]
        row = _assigned_in_a_row(block.statements[block.index :])
        off = [name for name, value in row.items() if value is False]
        if not isinstance(model, Model) or not isinstance(target.value, cst.Name) or len(off) != 1 or len(row) == 1:
            return self.cut_part(target, value)
        parts = [name for name in row if name not in off]
        made = self.left_out(target.value.value, model, off[0], parts)
        block.replace(block.index + 1, block.index + len(row), [])
        return made

    def left_out(self, name: str, model: Model, field: str, parts: Sequence[str]) -> list[Statement]:
        """The copy of a model without some parts, and its weights without theirs."""
        place, facts = model.place, self.script.classes.get(model.cls)
        known = [kind for other, kind in self.env.kinds.items() if other != name]
        others = any((isinstance(kind, Model) and kind.place == place) or isinstance(kind, Optimizer) for kind in known)
        own = place is not None and (place.scope, place.name) == (self.scope, name) and not self.passed_in(place)
        if place is None or facts is None or not own or others or not decides(facts, field, parts):
            raise Unsupported("MIG204", f"{name}.{field} is changed after its module was made")
        written = [facts.renamed.get(part, part) for part in parts]
        leaves = [leaf.flax.split("/") for leaf in weights_of(self.script, model.cls)]
        collections = dict.fromkeys(collection for collection, part, *_ in leaves if part in written)
        if not set(written) <= {part for _, part, *_ in leaves}:
            raise Unsupported("MIG204", f"{name}.{field} is changed after its module was made")
        made: list[Statement] = [nodes.statement(f"{name} = {name}.clone({field}=False)")]
        loaded = {place} - self.ready if self.is_loaded(name) else set()
        self.ready |= loaded
        for collection in collections:
            weights = self.read(State(collection, place))
            made.append(
                nodes.statement("{p} = {left}", p=self.write(State(collection, place)), left=_without(weights, written))
            )
        self.ready -= loaded
        return made

    def is_loaded(self, name: str) -> bool:
        """Whether a model has its weights from a file here, which it may have in this branch alone."""
        before = run_before(self.blocks)
        lines = [statement for statement in before if isinstance(statement, cst.SimpleStatementLine)]
        return any(nodes.dotted(call.func) == f"{name}.load_state_dict" for line in lines for call in usage.calls(line))


def _without(weights: Expr, parts: Sequence[str]) -> Expr:
    """A dict of weights without those of some parts."""
    test = f'!= "{parts[0]}"' if len(parts) == 1 else f"not in ({json.dumps(list(parts))[1:-1]})"
    return cst.parse_expression(f"{{name: value for name, value in {nodes.code(weights)}.items() if name {test}}}")


def _assigned_in_a_row(statements: Sequence[Statement]) -> dict[str, object]:
    """What statements in a row make False or None of one object: attribute -> value."""
    found: dict[str, object] = {}
    owners: set[str] = set()
    for statement in statements:
        small = suites.alone(statement)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        value = nodes.literal(small.value) if isinstance(small, cst.Assign) else ...
        if not isinstance(target, cst.Attribute) or (value is not False and value is not None):
            break
        owners.add(nodes.code(target.value))
        if len(owners) > 1 or target.attr.value in found:
            break
        found[target.attr.value] = value
    return found


def decides(facts: ClassFacts, field: str, parts: Sequence[str]) -> bool:
    """Whether all that a constructor does with a field is to keep it, and to make just these parts where it holds,
    which are None where it does not."""
    init = facts.method("__init__")
    built = [method for name in facts.built if (method := facts.method(name)) is not None]
    if init is None or facts.bases or facts.inherited or field in facts.rebinds or facts.kept_as.get(field) != field:
        return False
    tests, made, absent = 0, list[cst.CSTNode](), list[cst.CSTNode]()
    for statement in suites.suite_of(init.body.body):
        if isinstance(statement, cst.If) and nodes.dotted(statement.test) in (field, f"self.{field}"):
            tests += 1
            made += suites.suite_of(statement.body.body)
            if statement.orelse is not None:
                absent += suites.suite_of(statement.orelse.body.body)
        elif set(parts) & usage.attributes_set(statement):
            absent.append(statement)
    uses = usage.loads(init.body).count(field) + usage.paths(init.body).count(f"self.{field}")
    elsewhere = any(field in usage.attributes_of_self(method) for method in built)
    kept = uses == tests + _KEEPING and not elsewhere
    return kept and sorted(map(_sets, made)) == sorted(parts) == sorted(_sets(one, to_none=True) for one in absent)


_KEEPING = 2  # the names of a field in `self.aux_logits = aux_logits`


def _sets(statement: cst.CSTNode, to_none: bool = False) -> str:
    """The attribute that a statement sets, and does no more; "" for others."""
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign | cst.AnnAssign) or small.value is None:
        return ""
    target = small.targets[0].target if isinstance(small, cst.Assign) else small.target
    none = nodes.is_literal(small.value, None)
    return (nodes.dotted(target) or "").removeprefix("self.") if none or not to_none else ""
