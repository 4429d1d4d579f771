"""The lowering of one file: the rounds that are run until nothing new is learned."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate import nodes, suites, usage
from migrate.diagnostics import Diagnostic
from migrate.kinds import (
    Host,
    Plain,
)
from migrate.lowering.lowering import Lowering
from migrate.lowering.unit import Environment, Helper, Unit
from migrate.nodes import Statement
from migrate.script import (
    Script,
)
from migrate.source import SourceFile

ROUNDS = 12


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
    unit = Unit(source, script)
    before = ""
    for _ in range(ROUNDS):
        _prepare(unit, source)
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


_TORCH = re.compile(r"^\s*(import|from)\s+torch\b", re.MULTILINE)


def _prepare(unit: Unit, source: SourceFile) -> None:
    """Forgets what the round before found, all but the script."""
    unit.diagnostics, unit.helpers, unit.snippets, unit.refused = [], [], set(), set()
    unit.taken = _all_stores(source.module)
    unit.constants = _constants(source.module)
    unit.key = "key" if "key" not in unit.taken else "rng_key"
    unit.imports_torch = bool(_TORCH.search(source.text))


def _round(unit: Unit, source: SourceFile) -> list[tuple[int, tuple[Statement, ...]]]:
    script = unit.script
    for facts in script.functions.values():
        facts.next_round()
    script.attributes, script.found_attributes = script.found_attributes, {}
    script.device_used, script.found_device_used = script.found_device_used, set()
    script.summed.clear()
    _own_keys(script)
    env = Environment({"__name__": Plain("str"), "__file__": Plain("str")})
    lowering = Lowering(unit, "module", env=env)
    made = _module_suite(lowering, suites.suite_of(source.module.body))
    lowering.finish_inits()
    script.finals[""] = dict(env.kinds)
    script.loads["loader"] = int(_has_loader(script, env))
    script.loads["module key"] = int(lowering.module_needs_key)
    if lowering.module_needs_key and not lowering.ran_key:
        _insert_key(unit, made)
    return made


def _module_suite(lowering: Lowering, statements: Sequence[Statement]) -> list[tuple[int, tuple[Statement, ...]]]:
    """The statements of the file, each with its position so that helpers know before which statement they go."""
    made: list[tuple[int, tuple[Statement, ...]]] = []
    dropped: list[cst.EmptyLine] = []
    for index, original, lowered in lowering.lowered_each(statements, anchored=True):
        if lowered:
            lowered, dropped = suites.after_dropped(dropped, lowered, first=not made), []
        else:
            dropped += suites.kept_lines(original)
        made.append((index, tuple(lowered)))
    return made


def _insert_key(unit: Unit, made: list[tuple[int, tuple[Statement, ...]]]) -> None:
    """Makes the key right before the first statement that uses it."""
    for position, (index, statements) in enumerate(made):
        for number, statement in enumerate(statements):
            if isinstance(statement, cst.FunctionDef | cst.ClassDef):
                continue
            if unit.key in usage.loads(statement):
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


def _has_loader(script: Script, env: Environment) -> bool:
    known = [env.kinds, *script.finals.values(), *(facts.params for facts in script.functions.values())]
    return any(isinstance(kind, Host) and kind.what == "loader" for kinds in known for kind in kinds.values())


def _all_stores(module: cst.Module) -> set[str]:
    class Stores(cst.CSTVisitor):
        def __init__(self) -> None:
            super().__init__()
            self.found: set[str] = set()

        def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
            self.found |= set(usage.stores(node.body)) | {p.name.value for p in node.params.params}

    visitor = Stores()
    module.visit(visitor)
    return visitor.found | set(usage.stores(module.body))


def _constants(module: cst.Module) -> set[str]:
    """Module-level names that are bound once, outside loops: a jitted function may close over them."""
    stored = Counter(usage.stores(module.body))
    once = {name for name, times in stored.items() if times == 1}
    for statement in module.body:
        if isinstance(statement, cst.For | cst.While):
            once -= set(usage.stores(statement))
    return once


def _fingerprint(script: Script) -> str:
    """What is known, as text that changes when it does (origins and node identities left out)."""
    parts = [repr(sorted(script.places.items())), repr(script.parameters_of), repr(sorted(script.optimizers))]
    parts += [repr(sorted(map(repr, group))) for group in (script.scheduled, script.accumulated, script.zeroed_first)]
    parts += [repr(len(group)) for group in (script.host_sites, script.wanted, script.kept)]
    parts += [
        repr(sorted(script.found_device_used | script.initialisers)),
        repr(dict(script.loads)),
        repr(sorted(script.callers.items())),
    ]
    parts.append(repr(script.found_attributes))
    for name, facts in script.functions.items():
        parts.append(
            f"{name} {facts.found_params} {facts.returns} {sorted(facts.found_reads)} {sorted(facts.found_writes)}"
        )
        parts.append(f"{facts.entry_modes} {facts.exit_modes} {facts.local_key} {facts.seeds}")
    for name, facts in script.classes.items():
        parts.append(f"{name} {facts.attributes} {facts.children} {facts.renamed} {facts.ties} {facts.own_trains}")
        parts.append(f"{sorted(facts.own_draws)} {facts.field_types} {facts.own_stats} {facts.field_kinds}")
        parts.append(f"{sorted(facts.buffers)}")
        inits = {layer: {w: nodes.code(n) for w, n in given.items()} for layer, given in facts.initializers.items()}
        parts.append(repr(inits))
    parts.append(repr({place: [nodes.code(a) for a in e.arguments] for place, e in script.examples.items()}))
    for name, facts in script.functions.items():
        parts.append(f"{name} {[(site.scope, sorted(site.bound)) for site in facts.found_calls]}")
    return "\n".join(parts)
