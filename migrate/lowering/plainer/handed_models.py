"""Models that become parts of another one, and go on under their own names: `encoder = Encoder(); model = AE(encoder)`.

In Flax the weights of a part are its owner's. From there on, its name stands for the attribute that it became:
`encoder(x)` is `model.encoder(x)`. What was trained or loaded before brings its weights along:
`params["encoder"] = encoder_params`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ClassNode
from migrate.known.facts import ClassFacts
from migrate.known.kinds import Model, Module, ModuleClass
from migrate.known.qualified import spelled
from migrate.lowering.expressions.arguments import argument_names
from migrate.lowering.modules.given_parts import GivenParts
from migrate.lowering.scope import HOST_CONTEXTS
from migrate.lowering.statements.blocks import Block
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import MOVED, unchained
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


class HandedModels(GivenParts):
    """Names of modules that a model takes as its parts."""

    def read_in_owner(self, block: Block) -> None:
        """Where the statement at hand makes a module that a model of the same block takes: what reads the module
        afterwards reads the attribute of that model, and what freezes it before does so afterwards."""
        if self.cls or self.building or self.context not in HOST_CONTEXTS or len(self.blocks) > 1:
            return
        start = block.index
        name, value = suites.name_and_value(block.statements[start])
        made = unchained(value, MOVED) if value is not None else None
        if not name or not isinstance(made, cst.Call) or name in self.taken_by or not self.makes_part(made):
            return
        left = block.statements[start + 1 :]
        readers = [number for number, one in enumerate(left) if name in usage.loads(one)]
        owners = ((number, self.owner_in(left[number], name)) for number in readers)
        taking, owner = next((found for found in owners if found[1] is not None), (0, None))
        if owner is None or name in usage.stores(left) or _read_in_definitions(block.statements, name):
            return
        cls, path = owner
        before = [left[number] for number in readers if number < taking]
        after = [left[number] for number in readers if number > taking]
        again = usage.loads(left[taking]).count(name) > 1 or any(self.takes_module(one, name) for one in after)
        root = path.partition(".")[0]
        own = next((n for n in range(len(before), 0, -1) if not _only_prepares(before[n - 1], name)), 0)
        frozen = any(_only_prepares(one, name) and not _only_places(one, name) for one in before[:own])
        if again or frozen or usage.stores(left).count(root) > 1 or not (before or after or made is not value):
            return
        if own:
            self.grafted[name] = path
        else:
            self.taken_by[name] = cls
        self.move(block, start, name, nodes.expression(path), [*before[own:], left[taking], *after], before[own:])
        if made is not value and not own:
            plain = _with_value(block.statements[start], made)
            self.unit.stands_for(plain, block.statements[start])
            block.statements[start] = plain

    def move(
        self, block: Block, start: int, name: str, path: Expr, readers: Sequence[Statement], before: Sequence[Statement]
    ) -> None:
        """Puts the attribute of the owner in the place of a name, in the statements that read it: those before the
        owner is made come behind it."""
        taking = readers[len(before)]
        pairs = list(zip(block.statements[start + 1 :], block.positions[start + 1 :], strict=True))
        made: list[tuple[Statement, int]] = []
        late = [(one, position) for one, position in pairs if one in before]
        for one, position in pairs:
            if one in before:
                continue
            made.append((one, position))
            made += late if one is taking else []
        for number, (one, position) in enumerate(made):
            if one is taking or one not in readers:
                continue
            copy = nodes.substituted(one, {name: path})
            self.unit.stands_for(copy, one)
            made[number] = (copy, position)
        kept = [pair for pair in made if not _only_places(pair[0], nodes.code(path))]
        block.statements[start + 1 :] = [one for one, _ in kept]
        block.positions[start + 1 :] = [position for _, position in kept]

    def owner_in(self, statement: Statement, name: str) -> tuple[str, str] | None:
        """The class of the model that a statement makes with a module, and the attribute that this becomes, as
        "model.encoder"; None of other statements."""
        owner, value = suites.name_and_value(statement)
        call = unchained(value, MOVED) if value is not None else None
        kind = self.kind_of(call.func) if isinstance(call, cst.Call) else None
        facts = self.script.classes.get(kind.cls) if isinstance(kind, ModuleClass) else None
        if not owner or facts is None or not isinstance(call, cst.Call):
            return None
        fields = argument_names(call.args, facts.fields[: facts.positional])
        for arg, field in zip(call.args, fields, strict=True):
            if nodes.dotted(arg.value) == name and field:
                attribute = attribute_of(facts, field)
                return (facts.name, f"{owner}.{attribute}") if attribute else None
        return None

    def grafted_part(self, written: Expr, value: Value, cls: str) -> Value:
        """An argument of the constructor of a class outside of any other: what is a model so far becomes its part."""
        if self.cls or not isinstance(value.kind, Model):
            return value
        if (nodes.dotted(written) or "") not in self.grafted:
            self.script.around_models.add(cls)
            taken = f"{nodes.code(written)}, which has weights of its own, becomes a part of a {spelled(cls)}"
            raise Unsupported("MIG404", f"{taken}: in Flax the weights of a part are its owner's")
        self.script.classes[cls].holds_parts = True
        option = self.script.classes[value.kind.cls].children.get("", ClassNode(value.kind.cls))
        return replace(value, kind=Module((option,)))

    def takes_module(self, statement: Statement, name: str) -> bool:
        """Whether a statement makes a module of a name."""
        made = [call for call in every(statement, cst.Call) if self.constructs(call)]
        return any(nodes.dotted(arg.value) == name for call in made for arg in call.args)


def attribute_of(facts: ClassFacts, field: str) -> str:
    """The attribute that a constructor makes of its argument, once and as it is; "" where there is no such."""
    init = facts.method("__init__")
    if init is None or field in usage.stores(init.body) or usage.loads(init.body).count(field) != 1:
        return ""
    for statement in suites.suite_of(init.body.body):
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Assign) and len(small.targets) == 1 and nodes.dotted(small.value) == field:
            root, _, attribute = (nodes.dotted(small.targets[0].target) or "").partition(".")
            return attribute if root == init.params.params[0].name.value and "." not in attribute else ""
    return ""


def _with_value(statement: Statement, value: Expr) -> Statement:
    line = cst.ensure_type(statement, cst.SimpleStatementLine)
    return line.with_changes(body=[cst.ensure_type(line.body[0], cst.Assign).with_changes(value=value)])


def _only_places(statement: Statement, path: str) -> bool:
    """Whether a statement is `net.to(device)` and no more."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Expr):
        return False
    placed = unchained(small.value, MOVED)
    return placed is not small.value and nodes.dotted(placed) == path


def _only_prepares(statement: Statement, name: str) -> bool:
    """Whether a statement puts a module on a device, or freezes its weights, and does nothing else."""
    if isinstance(statement, cst.For):
        over = nodes.code(statement.iter) == f"{name}.parameters()"
        target = nodes.dotted(statement.target)
        frozen = (f"{target}.requires_grad = False", f"{target}.requires_grad_(False)")
        body = suites.suite_of(statement.body.body)
        return over and statement.orelse is None and all(nodes.code(one).strip() in frozen for one in body)
    return _only_places(statement, name)


def _read_in_definitions(statements: Sequence[Statement], name: str) -> bool:
    """Whether a function or a class reads a name, which may be called at any time."""
    definitions = every(cst.Module(list(statements)), (cst.FunctionDef, cst.ClassDef, cst.Lambda))
    return any(name in usage.loads(one) for one in definitions)
