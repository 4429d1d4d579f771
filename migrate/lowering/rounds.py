"""The lowering of a project: the rounds that are run over its files until nothing new is learned."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Diagnostic, our_fault
from migrate.files.borrowed import Borrowed
from migrate.files.imports import Written
from migrate.files.source import SourceFile
from migrate.kept import names_of_kept
from migrate.known.kinds import (
    Host,
    Plain,
)
from migrate.known.script import Script
from migrate.known.states import STATE_WORDS
from migrate.lowering.lowering import Lowering
from migrate.lowering.statements import keys
from migrate.lowering.statements.keys import Body
from migrate.lowering.unit import Environment, Helper, Unit
from migrate.syntax import nodes, suites, usage
from migrate.syntax.changing import attributes_changed, changing
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

ROUNDS = 12


@dataclass(frozen=True)
class Lowered:
    """The lowered statements of a file, before helpers and imports are put in."""

    body: tuple[tuple[int, tuple[Statement, ...]], ...]
    helpers: tuple[Helper, ...]
    snippets: Mapping[str, str]  # name in the output -> snippet
    diagnostics: tuple[Diagnostic, ...]
    script: Script
    refused: frozenset[str]
    source: SourceFile  # what was lowered
    scope: str = ""
    wanted: frozenset[str] = frozenset()  # names that other files of the project take from this one
    unrolled: Mapping[Statement, Sequence[Statement]] = field(default_factory=dict)  # loops over members -> their turns

    @property
    def parts(self) -> list[tuple[int, Sequence[Statement]]]:
        """All code of the output: each statement and helper with the input's top-level statement that it belongs to."""
        return [*self.body, *((helper.anchor, helper.code) for helper in self.helpers)]

    @property
    def rebound(self) -> frozenset[str]:
        """The names of snippets, which the input may have imported from torch. Where code that stays torch uses the
        same name, it stays torch's."""
        return frozenset(self.snippets) - names_of_kept(statement for _, made in self.parts for statement in made)


@dataclass(frozen=True)
class Input:
    """One file of a project to lower: the name of its module scope, the modules of the project that it imports by their
    scopes, those that it imports and nobody converts, with the reason, the package of the installed library that it is
    part of, the imports that nothing is used of, the names of installed packages whose files are converted too, the
    functions that were put into it to compute for a loss what was kept while acting, what was put into classes of the
    project since they inherit it, and the classes of which the bases in other files may be written out."""

    source: SourceFile
    scope: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    unread: Mapping[str, str] = field(default_factory=dict)
    library: str = ""
    passed: Mapping[Written, str] = field(default_factory=dict)
    borrowed: Mapping[str, Borrowed] = field(default_factory=dict)
    computed_again: frozenset[str] = frozenset()
    inherited: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    inheriting: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    reaching: frozenset[str] = frozenset()


def lower_project(
    inputs: Sequence[Input],
    submodules: Mapping[str, Mapping[str, str]] | None = None,
    broken: dict[str, Diagnostic] | None = None,
    data_parallel: bool = False,
) -> list[Lowered]:
    """Lowers the files of a project, those that others import first, again and again until what is known of them no
    longer changes; the last round is the result. `submodules`: package -> name -> scope of what is in it.
    `broken` takes, by scope, the files in which a bug of our own shows: nothing is known of what they define."""
    script = Script(parallel=data_parallel)
    script.submodules = {package: dict(names) for package, names in (submodules or {}).items()}
    script.checkpoints = any(_CHECKPOINTS.search(found.source.text) for found in inputs)
    script.computed_again = frozenset(name for found in inputs for name in found.computed_again)
    for found in inputs:
        script.inherited |= found.inherited
        script.inheriting |= found.inheriting
        script.reaching |= found.reaching
    script.attributes_read = usage.attributes_read(found.source.text for found in inputs)
    script.attributes_changed = attributes_changed(found.source.module for found in inputs)
    units = [Unit(i.source, script, i.scope, i.links, i.unread, i.library, i.passed, i.borrowed) for i in inputs]
    by_scope = {unit.scope: unit for unit in units}
    stored = [_all_stores(unit.source.module) for unit in units]
    own_methods = frozenset(name for unit in units for name in _methods(unit.source.module))
    state_words = STATE_WORDS & set().union(*stored)
    for unit, names in zip(units, stored, strict=True):
        unit.others = by_scope
        unit.own_methods = own_methods
        unit.taken = names | state_words
        unit.constants = _constants(unit.source.module)
        unit.changing = changing(unit.source.module)
        unit.settled = _settled(unit.source.module)
        unit.key = "rng_key" if "key" in state_words else "key"
        unit.imports_torch = bool(_TORCH.search(unit.source.text))
    broken = {} if broken is None else broken
    if not any(unit.imports_torch for unit in units):
        return [_lowered(unit, _as_it_is(unit)) for unit in units]
    written = frozenset(id(node) for unit in units for node in unit.source.positions)
    before = ""
    bodies: list[Body] = []
    for _ in range(ROUNDS):
        _next_round(script)
        bodies = [_survived(unit, broken) for unit in units]
        script.loads["loader"] = int(_has_loader(script))
        after = _fingerprint(script, written)
        stale = script.accumulated - script.summed  # marked before all was known
        if after == before and stale:
            script.accumulated -= stale
        elif after == before and (script.settled or not script.left_open):
            break
        script.settled, before = script.settled or after == before, after
    else:
        said = f"still unsettled after {ROUNDS} rounds"
        for unit in units:
            unit.diagnostics.append(Diagnostic(unit.source.path, 0, 0, "MIG901", said))
    return [_lowered(unit, body) for unit, body in zip(units, bodies, strict=True)]


_TORCH = re.compile(r"^\s*(import\s(.*,)?|from\s)\s*(torch|einops\.layers\.torch)\b", re.MULTILINE)
_CHECKPOINTS = re.compile(r"\b(save|load_state_dict)\(")


def _as_it_is(unit: Unit) -> Body:
    return [(number, (statement,)) for number, statement in enumerate(suites.suite_of(unit.source.module.body))]


def _lowered(unit: Unit, body: Body) -> Lowered:
    return Lowered(
        tuple(body),
        tuple(unit.helpers),
        unit.snippets,
        tuple(unit.diagnostics),
        unit.script,
        frozenset(unit.refused),
        unit.source,
        unit.scope,
        frozenset(unit.script.wanted_of.get(unit.scope, ())),
        {statement: made for (statement, _), made in unit.unrolled.items()},
    )


def _next_round(script: Script) -> None:
    """What the last round found is what this one goes by."""
    for facts in {id(found): found for found in script.functions.values()}.values():  # one for all that inherit it
        facts.next_round()
    for facts in script.classes.values():
        facts.asked, facts.found_asked = facts.found_asked, {}
        facts.asked_at, facts.found_asked_at = facts.found_asked_at, {}
        facts.fillings, facts.found_fillings = facts.found_fillings, {}
        facts.stilled, facts.found_stilled = facts.found_stilled, set()
        facts.frozen_parts, facts.found_frozen_parts = facts.found_frozen_parts, set()
    script.attributes, script.found_attributes = script.found_attributes, {}
    script.made_kinds, script.found_made_kinds = script.found_made_kinds, defaultdict(dict)
    script.device_used, script.found_device_used = script.found_device_used, set()
    script.left_open = False
    script.summed.clear()
    script.called_first, script.found_called_first = script.found_called_first, set()
    script.zeroed_first, script.found_zeroed_first = script.found_zeroed_first, set()
    script.lacking, script.found_lacking = script.found_lacking, set()
    script.updated.clear()
    script.kept_sites.clear()
    script.going_on.clear()
    script.drawing.clear()
    script.finished.clear()
    script.initialising, script.found_initialising = script.found_initialising, {}
    script.frozen_last, script.frozen = script.frozen, {}
    keys.assign(script)


def _survived(unit: Unit, broken: dict[str, Diagnostic]) -> Body:
    """A round of one file. What goes wrong in it is reported there, and costs no other file."""
    if unit.scope in broken:
        return []
    try:
        return _round(unit)
    except Exception as error:
        broken[unit.scope] = our_fault(unit.source.path, error)
    unit.script.finals[unit.scope] = {}
    return []


def _round(unit: Unit) -> Body:
    """Lowers one file; forgets what the round before found, all but the script."""
    unit.diagnostics, unit.helpers, unit.snippets = [], [], {}
    unit.refused, unit.refused_reads = set(), set()
    script, statements = unit.script, suites.suite_of(unit.source.module.body)
    env = Environment({"__name__": Plain("str"), "__file__": Plain("str")})
    lowering = Lowering(unit, "module", unit.scope, env=env)
    made = _module_suite(lowering, statements)
    lowering.finish_inits()
    script.finals[unit.scope] = dict(env.kinds)
    drawing = keys.drawing(script, unit.scope)
    if lowering.module_needs_key or drawing:
        script.module_keys.add(unit.scope)
    else:
        script.module_keys.discard(unit.scope)
    if len(unit.others) > 1:
        script.gone[unit.scope] = _gone(unit, statements, made)
    if lowering.module_needs_key or drawing:
        keys.insert(unit.key, made, lowering.ran_key, drawing)
    return made


def _gone(unit: Unit, before: Sequence[Statement], after: Body) -> set[str]:
    """Names that the top level of a file bound and its output does not bind any more. What a refused statement would
    have bound stays: importing it fails there, with its code."""
    kept = set(usage.stores([statement for _, statements in after for statement in statements]))
    return set(usage.stores(before)) - kept - unit.refused


def _module_suite(lowering: Lowering, statements: Sequence[Statement]) -> Body:
    """The statements of the file, each with its position so that helpers know before which statement they go."""
    made: Body = []
    dropped: list[cst.EmptyLine] = []
    for index, original, lowered in lowering.lowered_each(statements, anchored=True):
        if lowered:
            lowered, dropped = suites.after_dropped(dropped, lowered, first=not made), []
        else:
            dropped += suites.kept_lines(original)
        made.append((index, tuple(lowered)))
    return made


def _has_loader(script: Script) -> bool:
    known = [*script.finals.values(), *(facts.params for facts in script.functions.values())]
    return any(isinstance(kind, Host) and kind.what == "loader" for kinds in known for kind in kinds.values())


def _all_stores(module: cst.Module) -> set[str]:
    functions = list(every(module, cst.FunctionDef))
    parameters = {p.name.value for function in functions for p in function.params.params}
    return parameters | set(usage.stores([*module.body, *(function.body for function in functions)]))


def _methods(module: cst.Module) -> set[str]:
    """The methods of classes, those of autograd functions left out: `backward` is torch's there."""
    return {
        method.name.value
        for node in every(module, cst.ClassDef)
        if not any(nodes.code(base.value).endswith("Function") for base in node.bases)
        for method in node.body.body
        if isinstance(method, cst.FunctionDef)
    }


def _constants(module: cst.Module) -> set[str]:
    """Module-level names that are bound once, outside loops: a jitted function may close over them."""
    stored = Counter(usage.stores(module.body))
    once = {name for name, times in stored.items() if times == 1}
    for statement in module.body:
        if isinstance(statement, cst.For | cst.While):
            once -= set(usage.stores(statement))
    return once


def _settled(module: cst.Module) -> dict[str, int]:
    """Module-level names that no loop binds, with the number of the last statement that does: what comes after it has
    them as constants."""
    statements = suites.suite_of(module.body)
    looped = {
        name
        for statement in statements
        if isinstance(statement, cst.For | cst.While)
        for name in usage.stores(statement)
    }
    last = {name: number for number, statement in enumerate(statements) for name in usage.stores(statement)}
    return {name: number for name, number in last.items() if name not in looped}


_ORIGINS = re.compile(r"origins?=(frozenset\([^)]*\)|\d+)")


def _fingerprint(script: Script, written: frozenset[int]) -> str:
    """What is known, as text that changes when it does (origins and node identities left out). Of the nodes that
    something is known of, those of the input count: others are made anew in each round."""
    parts = [repr(sorted(script.places.items())), repr(script.parameters_of), repr(sorted(script.optimizers.items()))]
    parts += [repr(sorted(map(repr, group))) for group in (script.scheduled, script.accumulated)]
    parts += [
        repr(sorted(map(repr, group)))
        for group in (script.composed, script.cycled.items(), script.stepped.items(), script.passed_on)
    ]
    parts += [
        repr(sorted((place, sorted(found)) for place, found in group.items()))
        for group in (script.frozen, script.switched)
    ]
    parts += [
        repr(sorted(map(repr, script.proportional.items()))),
        repr([sorted(map(repr, known)) for known in (script.groups.items(), script.separate, script.changing)]),
        repr([sorted(map(repr, known)) for known in (script.first_rates, script.set_by_hand)]),
        repr(
            (
                sorted(script.own_optimizers),
                sorted(script.own_schedulers.items()),
                sorted(script.written_out),
                sorted(map(repr, script.optimizer_axes.items())),
                sorted(map(repr, script.injecting.items())),
            )
        ),
    ]
    parts += [
        repr(sorted(map(repr, group)))
        for group in (
            script.found_zeroed_first,
            script.found_lacking,
            script.doubled,
            script.leaves,
            script.inspected,
            script.half,
        )
    ]
    parts += [repr(len(group & written)) for group in (script.host_sites, script.wanted, script.kept)]
    parts += [
        repr([*map(sorted, (script.found_device_used, script.initialisers))]),
        repr(
            (
                *map(sorted, (script.host_functions, script.host_classes, script.holding_tensors)),
                *map(sorted, (script.copies, script.early, script.unfed, script.eager)),
                sorted(script.handed),
                sorted(script.given_up),
                sorted(script.perhaps_loaded),
                sorted(script.averaging.items()),
                sorted((holder, sorted(models)) for holder, models in script.kept_outputs.items()),
                sorted(script.foreign_models),
                *map(sorted, (script.by_value, script.hashed, script.owned)),
                sorted((model, sorted(found)) for model, found in script.holders.items()),
                script.parallel,
                script.distributed,
            )
        ),
        repr(dict(script.loads)),
        repr(sorted((name, sorted(given)) for name, given in script.made_with.items())),
        repr(sorted((name, sorted(files)) for name, files in script.maker_files.items())),
        repr(sorted(script.made_second)),
        repr(sorted((name, sorted(map(repr, kinds.items()))) for name, kinds in script.found_made_kinds.items())),
        repr(sorted(script.module_keys)),
        repr((sorted(script.listed), sorted(script.followed), sorted(script.mixed_rows), sorted(script.selves))),
        repr(sorted(script.module_seeds)),
        repr(sorted((file, sorted(names)) for file, names in script.gone.items())),
        repr(script.finals) if script.gone else "",
        repr(sorted(script.callers.items())),
        repr((sorted(script.found_called_first), sorted(script.read_early))),
    ]
    parts.append(repr(script.found_attributes))
    for name, facts in script.functions.items():
        parts.append(
            f"{name} {facts.found_params} {facts.result} {sorted(facts.found_reads)} {sorted(facts.found_writes)} "
            f"{sorted(facts.found_given.items())} {sorted(facts.found_kept)} {sorted(facts.found_omitted)} "
            f"{sorted(facts.found_arrays)}"
        )
        parts.append(repr([(draw.name, nodes.code(draw.node)) for draw in facts.found_draws]))
        parts.append(
            f"{facts.builds} {facts.copies_parts} {facts.makes_models} {facts.takes_mode} {sorted(facts.initializers)}"
        )
        parts.append(f"{facts.entry_modes} {facts.exit_modes} {facts.local_key} {facts.seeds} {sorted(facts.told)}")
    for name, facts in script.classes.items():
        parts.append(
            f"{name} {facts.attributes} {facts.children} {facts.renamed} {facts.ties} {facts.shared} {facts.own_trains}"
            f" {facts.other_names} {facts.holds_parts} {sorted(facts.read_outside)} {sorted(facts.shown)}"
            f" {sorted(facts.replaced)}"
        )
        drawing = sorted(facts.draws_statically)
        parts.append(f"{sorted(facts.own_draws)} {drawing} {facts.field_types} {facts.own_stats} {facts.field_kinds}")
        parts.append(f"{sorted(facts.buffers)} {facts.bases} {facts.sets_up} {facts.reports} {sorted(facts.emptied)}")
        parts.append(f"{facts.own_always} {sorted(facts.variables)} {sorted(facts.sown)} {sorted(facts.concrete)}")
        inits = {layer: {w: nodes.code(n) for w, n in given.items()} for layer, given in facts.initializers.items()}
        parts.append(repr(inits))
        parts.append(repr({path: nodes.code(made) for path, made in facts.found_asked.items()}))
        parts.append(
            repr([sorted(facts.found_asked_at.items(), key=str), sorted(facts.found_fillings, key=str), facts.runs])
        )
        parts.append(repr(sorted(facts.found_stilled)))
        parts.append(repr(sorted(facts.found_frozen_parts)))
        parts.append(repr({method: [nodes.code(test) for test in tests] for method, tests in facts.under.items()}))
    parts.append(repr({place: [nodes.code(a) for a in e.arguments] for place, e in script.examples.items()}))
    parts.append(repr({place: sorted(called) for place, called in script.method_examples.items()}))
    parts.append(repr({cls: sorted(inside) for cls, inside in script.found_initialising.items()}))
    for name, facts in script.functions.items():
        parts.append(f"{name} {[(site.scope, sorted(site.bound)) for site in facts.found_calls]}")
        parts.append(repr([(name, sorted(models)) for name, models in sorted(facts.found_behind.items())]))
        touched = (facts.found_uses, facts.found_sets, facts.keeps)
        parts.append(f"{[*map(sorted, touched)]} {facts.found_traced}")
    return _ORIGINS.sub("", "\n".join(parts))
