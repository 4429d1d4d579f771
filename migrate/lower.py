"""The lowering of one file: scopes are made here, and the rounds that are run until nothing new is learned."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import libcst as cst

from migrate import nodes
from migrate.diagnostics import Diagnostic
from migrate.kinds import UNKNOWN, Device, Function, Host, Kind, Model, Never, Number, Plain, SelfModule, Tensor
from migrate.lower_modules import Modules
from migrate.lower_statements import after_dropped
from migrate.nodes import Statement
from migrate.scope import Environment, Helper, Unit
from migrate.script import ClassFacts, FunctionFacts, Script
from migrate.source import SourceFile

ROUNDS = 9


class Lowering(Modules):
    """The lowering of one scope: the module, a function, or a method."""

    def __init__(
        self, unit: Unit, context: str, scope: str = "", cls: str = "", env: Environment | None = None
    ) -> None:
        self.unit = unit
        self.script = unit.script
        self.context = context
        self.scope = scope
        self.cls = cls
        self.env = env or Environment()
        self.before: list[Statement] = []
        self.following: list = []
        self.facts: FunctionFacts | None = None
        self.pending: list = []
        self.ready: set = set()
        self.rates: dict = {}
        self.optimizer_models: dict = {}
        self.ran_key = False
        self.changed_modes = set()

    @staticmethod
    def for_function(outer: Lowering, facts: FunctionFacts) -> Lowering:
        """A function or a method of the user's own class."""
        seen = Environment(dict(outer.script.finals.get(outer.scope, {})), outer=outer.env.outer)
        seen.kinds.update({name: kind for name, kind in outer.env.kinds.items() if name not in seen.kinds})
        env = Environment(outer=seen, modes=dict(facts.entry_modes))
        made = Lowering(outer.unit, "method" if outer.context == "method" else "function", facts.qualname, "", env)
        made.facts = facts
        made.rates, made.optimizer_models = outer.rates, outer.optimizer_models
        params = facts.node.params
        for number, parameter in enumerate([*params.params, *params.kwonly_params]):
            name = parameter.name.value
            if outer.context == "method" and number == 0:
                env.kinds.update({k: v for k, v in outer.script.attributes.get(outer.scope, {}).items()})
                env.kinds[name] = Plain("self")
                continue
            kind = facts.params.get(name, Never())
            annotation = nodes.code(parameter.annotation.annotation) if parameter.annotation else ""
            if isinstance(kind, Never):
                kind = Number() if annotation in ("int", "float", "bool") else UNKNOWN
                if annotation in ("torch.Tensor", "Tensor"):
                    kind = Tensor()
            env.kinds[name] = kind
        for star in (params.star_arg, params.star_kwarg):
            if isinstance(star, cst.Param):
                env.kinds[star.name.value] = UNKNOWN
        facts.returns = Never()
        return made

    @staticmethod
    def for_class(outer: Lowering, name: str) -> Lowering:
        """The methods of a class that is no module."""
        made = copy.copy(outer)
        made.context, made.scope = "method", name
        made.env = outer.env
        return made

    @staticmethod
    def for_method(outer: Lowering, facts: ClassFacts, context: str, method: str) -> Lowering:
        """`__init__` or another method of a module class."""
        seen = Environment(dict(outer.script.finals.get(outer.scope, {})), outer=outer.env.outer)
        seen.kinds.update({name: kind for name, kind in outer.env.kinds.items() if name not in seen.kinds})
        env = Environment({"self": SelfModule(facts.name)}, outer=seen)
        made = Lowering(outer.unit, context, f"{facts.name}.{method}", facts.name, env)
        made.rates, made.optimizer_models = {}, {}
        return made


@dataclass(frozen=True)
class Lowered:
    """The lowered statements of a file, before helpers and imports are put in."""

    body: tuple[tuple[int, tuple[Statement, ...]], ...]
    helpers: tuple[Helper, ...]
    snippets: frozenset[str]
    diagnostics: tuple[Diagnostic, ...]
    script: Script
    refused: frozenset[str]


def lower(source: SourceFile) -> Lowered:
    """Lowers a file again and again until what is known of it no longer changes; the last round is the result."""
    script = Script()
    stored = nodes.stores(source.module.body)
    unit = Unit(source, script)
    before = ""
    for _ in range(ROUNDS):
        _prepare(unit, source, stored)
        body = _round(unit, source)
        after = _fingerprint(script)
        if after == before:
            break
        before = after
    return Lowered(
        tuple(body),
        tuple(unit.helpers),
        frozenset(unit.snippets),
        tuple(unit.diagnostics),
        script,
        frozenset(unit.refused),
    )


def _prepare(unit: Unit, source: SourceFile, stored: list[str]) -> None:
    unit.diagnostics, unit.helpers, unit.snippets, unit.refused = [], [], set(), set()
    unit.taken = _all_stores(source.module)
    unit.constants = _constants(source.module, stored)
    unit.key = "key" if "key" not in unit.taken else "rng_key"


def _round(unit: Unit, source: SourceFile) -> list[tuple[int, tuple[Statement, ...]]]:
    script = unit.script
    for facts in script.functions.values():
        facts.next_round()
    _own_keys(script)
    env = Environment({"__name__": Plain("str"), "__file__": Plain("str")})
    lowering = Lowering(unit, "module", env=env)
    made: list[tuple[int, tuple[Statement, ...]]] = []
    statements = [s for s in source.module.body if isinstance(s, cst.SimpleStatementLine | cst.BaseCompoundStatement)]
    _module_suite(unit, lowering, statements, made)
    lowering.finish_inits(source.module)
    script.finals[""] = dict(env.kinds)
    script.loads["loader"] = int(any(isinstance(kind, Host) for kind in _all_kinds(script, env)))
    script.loads["module key"] = int(lowering.module_needs_key)
    if lowering.module_needs_key and not lowering.ran_key:
        _insert_key(unit, made)
    return made


def _module_suite(unit: Unit, lowering: Lowering, statements: list[Statement], made: list) -> None:
    """The statements of the file, one at a time so that helpers know before which statement they go."""
    dropped: list[cst.EmptyLine] = []
    index = 0
    while index < len(statements):
        unit.anchor = index
        region = lowering.region_at(statements, index)
        width = region.width if region is not None else 1
        lowering.following.insert(0, statements[index + width :])
        lowered = lowering.guarded(statements[index], region)
        lowering.following.pop(0)
        lowered = lowered + lowering.late_inits(statements[index])
        if lowered:
            lowered, dropped = after_dropped(dropped, lowered, first=not made), []
        else:
            dropped += lowering.kept_lines(statements[index])
        made.append((index, tuple(lowered)))
        index += width


def _insert_key(unit: Unit, made: list[tuple[int, tuple[Statement, ...]]]) -> None:
    """Makes the key right before the first statement that uses it."""
    for position, (index, statements) in enumerate(made):
        for number, statement in enumerate(statements):
            if isinstance(statement, cst.FunctionDef | cst.ClassDef):
                continue
            if unit.key in nodes.loads(statement):
                key = nodes.statement(f"{unit.key} = jax.random.key(0)").with_changes(
                    leading_lines=statement.leading_lines
                )
                rest = statement.with_changes(leading_lines=[])
                made[position] = (index, (*statements[:number], key, rest, *statements[number + 1 :]))
                return


def _own_keys(script: Script) -> None:
    """A function that is called from the module alone, as `main()` is, makes its key itself; others are given one."""
    for facts in script.functions.values():
        callers = script.callers.get(facts.qualname, [])
        seeds = "manual_seed" in nodes.code(facts.node) and not facts.seeds
        alone = callers == [""] and not script.loads["module seeds"]
        facts.local_key = facts.needs_key and (seeds or alone)


def _all_kinds(script: Script, env: Environment) -> list[Kind]:
    kinds = list(env.kinds.values())
    for facts in script.functions.values():
        kinds += list(facts.params.values())
    for finals in script.finals.values():
        kinds += list(finals.values())
    return [kind for kind in kinds if isinstance(kind, Host) and kind.what == "loader"]


def _all_stores(module: cst.Module) -> set[str]:
    class Stores(cst.CSTVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.found: set[str] = set()

        def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
            self.found |= set(nodes.stores(node.body)) | {p.name.value for p in node.params.params}

    visitor = Stores()
    module.visit(visitor)
    return visitor.found | set(nodes.stores(module.body))


def _constants(module: cst.Module, stored: list[str]) -> set[str]:
    """Module-level names that are bound once, outside loops: a jitted function may close over them."""
    once = {name for name in stored if stored.count(name) == 1}
    for statement in module.body:
        if isinstance(statement, cst.For | cst.While):
            once -= set(nodes.stores(statement))
    return once


def _fingerprint(script: Script) -> str:
    """What is known, as text that changes when it does (origins and node identities left out)."""
    parts = [repr(sorted(script.places.items())), repr(script.parameters_of), repr(sorted(script.optimizers))]
    parts += [repr(sorted(map(repr, group))) for group in (script.scheduled, script.accumulated, script.zeroed_late)]
    parts += [repr(len(group)) for group in (script.host_sites, script.wanted, script.kept)]
    parts += [repr(sorted(script.device_used)), repr(dict(script.loads)), repr(sorted(script.callers.items()))]
    for name, facts in script.functions.items():
        parts.append(f"{name} {facts.params} {facts.returns} {sorted(facts.found_reads)} {sorted(facts.found_writes)}")
        parts.append(f"{facts.entry_modes} {facts.exit_modes} {facts.local_key} {facts.seeds}")
    for name, facts in script.classes.items():
        parts.append(f"{name} {facts.attributes} {facts.children} {facts.renamed} {facts.ties} {facts.own_trains}")
        parts.append(
            f"{sorted(facts.own_draws)} {facts.field_types} {facts.own_stats} {facts.field_kinds} {sorted(facts.buffers)}"
        )
        inits = {layer: {w: nodes.code(n) for w, n in given.items()} for layer, given in facts.initializers.items()}
        parts.append(repr(inits))
    parts.append(repr({place: [nodes.code(a) for a in e.arguments] for place, e in script.examples.items()}))
    for name, facts in script.functions.items():
        parts.append(f"{name} {[(site.scope, sorted(site.bound)) for site in facts.found_calls]}")
    return "\n".join(parts)


__all__ = ["Device", "Function", "Lowered", "Lowering", "Model", "lower"]
