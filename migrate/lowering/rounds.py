"""The lowering of a project: the rounds that are run over its files until nothing new is learned."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from migrate.diagnostics import Diagnostic, our_fault
from migrate.files.borrowed import Borrowed
from migrate.files.imports import Written
from migrate.files.source import SourceFile
from migrate.kept import names_of_kept
from migrate.known.by_round import Fingerprint
from migrate.known.kinds import (
    Host,
    Kind,
    Plain,
)
from migrate.known.script import Script
from migrate.known.states import STATE_WORDS
from migrate.lowering.host.graphs import gives_graphs, is_graph
from migrate.lowering.lowering import Lowering
from migrate.lowering.modules.changing_methods import methods_that_change
from migrate.lowering.plainer.copied_input import Edits, Placing, edited
from migrate.lowering.statements import keys
from migrate.lowering.statements.keys import Body
from migrate.lowering.unit import Environment, Helper, Unit
from migrate.lowering.weights.checkpoint_files import save_objects
from migrate.numpy_copies import results_changed
from migrate.options import DEFAULT, CheckpointFormat, Options
from migrate.syntax import nodes, suites, usage
from migrate.syntax.changing import ObjectClasses, attributes_changed, changing
from migrate.syntax.command_line import list_options
from migrate.syntax.modes import switching_around
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

# As many as the longest chain of calls may need along which a round tells one link more; circles end before.
ROUNDS = 60


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
    project since they inherit it, the classes of which the bases in other files may be written out, and those whose
    forward passes take and return what they keep from call to call, with the names of that."""

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
    handed_on: Mapping[str, str] = field(default_factory=dict)

    def visited(self, made: Placing) -> Input:
        """The same with its tree made anew; itself where nothing comes out otherwise."""
        module = self.source.module.visit(made)
        same = module.deep_equals(self.source.module)
        return self if same else replace(self, source=self.source.with_module(module, made.positions))

    def edited(self, edits: Edits) -> Input:
        """The same with some edits of its source; itself where there are none."""
        return replace(self, source=edited(self.source, edits)) if edits else self


def lower_project(
    inputs: Sequence[Input],
    submodules: Mapping[str, Mapping[str, str]] | None = None,
    broken: dict[str, Diagnostic] | None = None,
    options: Options = DEFAULT,
) -> list[Lowered]:
    """Lowers the files of a project, those that others import first, again and again until what is known of them no
    longer changes; the last round is the result. `submodules`: package -> name -> scope of what is in it.
    `broken` takes, by scope, the files in which a bug of our own shows: nothing is known of what they define."""
    script = Script(parallel=options.data_parallel, orbax=options.checkpoints is CheckpointFormat.orbax)
    script.submodules = {package: dict(names) for package, names in (submodules or {}).items()}
    script.checkpoints = any(_CHECKPOINTS.search(found.source.text) for found in inputs)
    script.pickles = script.checkpoints and save_objects(found.source.module for found in inputs)
    script.computed_again = frozenset(name for found in inputs for name in found.computed_again)
    for found in inputs:
        script.inherited |= found.inherited
        script.inheriting |= found.inheriting
        script.reaching |= found.reaching
    script.switching = frozenset(name for found in inputs for name in switching_around(found.source.module))
    script.list_options = list_options(found.source.module for found in inputs)
    script.attributes_read = usage.attributes_read(found.source.text for found in inputs)
    script.goes_through_weights = usage.goes_through_weights(found.source.text for found in inputs)
    script.attributes_changed = attributes_changed(found.source.module for found in inputs)
    script.results_changed = results_changed(found.source.module for found in inputs)
    script.changing_methods = methods_that_change([found.source.module for found in inputs])
    script.own_classes = ObjectClasses([found.source.module for found in inputs], script.attributes_changed)
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
    met: list[tuple[str, bool]] = []  # what was known after each round, and whether that had settled before
    bodies: list[Body] = []
    for _ in range(ROUNDS):
        script.next_round()
        keys.assign(script)
        bodies = [_survived(unit, broken) for unit in units]
        script.loads["loader"] = int(_has_loader(script))
        after, before = Fingerprint(written).of(script), met[-1][0] if met else ""
        stale = script.accumulated - script.summed  # marked before all was known
        if after == before and stale:
            script.accumulated -= stale
        elif after == before and (script.settled or not script.left_open):
            break
        elif after != before and _goes_in_circles((after, script.settled), met):
            _report_unsettled(units)
            break
        script.settled = script.settled or after == before
        met.append((after, script.settled))
    else:
        _report_unsettled(units)
    return [_lowered(unit, body) for unit, body in zip(units, bodies, strict=True)]


def _goes_in_circles(found: tuple[str, bool], met: Sequence[tuple[str, bool]]) -> bool:
    """Whether the rounds only repeat what they have found before, and the last of them would find what this one has."""
    number = len(met)
    return found in met and (ROUNDS - 1 - number) % (number - max(i for i, one in enumerate(met) if one == found)) == 0


def _report_unsettled(units: Sequence[Unit]) -> None:
    for unit in units:
        said = f"still unsettled after {ROUNDS} rounds"
        unit.diagnostics.append(Diagnostic(unit.source.path, 0, 0, "MIG901", said))


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
    unit.refused, unit.refused_reads, unit.static_masks = set(), set(), {}
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
    settled: dict[int, list[str]] = defaultdict(list)
    for name, last in lowering.unit.settled.items():
        settled[last].append(name)
    for index, original, lowered in lowering.lowered_each(statements, anchored=True):
        lowered = [*lowered, *_arrays_of_graphs(lowering, index, settled[index])]
        if lowered:
            lowered, dropped = suites.after_dropped(dropped, lowered, first=not made), []
        else:
            dropped += suites.kept_lines(original)
        made.append((index, tuple(lowered)))
    return made


def _arrays_of_graphs(lowering: Lowering, index: int, names: Sequence[str]) -> list[Statement]:
    """The statements that make arrays of graphs, behind the last one that binds them."""
    unit = lowering.unit
    made: list[Statement] = []
    for name in names:
        if not is_graph(lowering.kind_of_name(name)) or not _surely_binds(unit, index, name):
            continue
        unit.graphs.add(name)
        fields = unit.script.graph_fields.get((unit.scope, name), ())
        if fields:
            unit.use_snippet("arrays_of")
            told = ", ".join(f'"{one}"' for one in fields)
            made.append(nodes.statement(f"{name}_arrays = arrays_of({name}, {told})"))
    return made


def _surely_binds(unit: Unit, index: int, name: str) -> bool:
    """Whether a name is bound behind a top-level statement that binds it: a branch may not, unless one before has."""
    statements = suites.suite_of(unit.source.module.body)
    if isinstance(statements[index], cst.SimpleStatementLine):
        return True
    before = [one for one in statements[:index] if isinstance(one, cst.SimpleStatementLine)]
    return isinstance(statements[index], cst.If) and name in usage.stores(before)


def _has_loader(script: Script) -> bool:
    known = [*script.finals.values(), *(facts.params for facts in script.functions.values())]
    return any(_is_loader(kind) or gives_graphs(kind) for kinds in known for kind in kinds.values())


def _is_loader(kind: Kind) -> bool:
    return isinstance(kind, Host) and kind.what == "loader"


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
