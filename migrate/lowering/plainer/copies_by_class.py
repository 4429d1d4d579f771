"""Functions, methods and classes that are given models of several classes: each class has a copy of its own.

What a function does with a model depends on its class: whether it keeps batch statistics, drops out, what its weights
are. So the input is taken as if it were written with one function for each. Copies that come out alike are one again
in the output: only what really differs is written twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.diagnostics import Diagnostic
from migrate.files.source import SourceFile
from migrate.known.facts import CallSite, FunctionFacts
from migrate.known.qualified import file_of, snake_case, spelled
from migrate.known.script import INLINE, Script, followed
from migrate.lowering.plainer.apex_as_torch import with_apex_as_torch
from migrate.lowering.plainer.arguments_kept import with_arguments_kept
from migrate.lowering.plainer.asked_by_callers import with_asked_by_callers
from migrate.lowering.plainer.attributes_handed_on import with_attributes_handed_on
from migrate.lowering.plainer.attributes_of_models import with_attributes_apart
from migrate.lowering.plainer.averages_by_name import with_averages_assigned
from migrate.lowering.plainer.bare_forms import with_bare_forms
from migrate.lowering.plainer.bases_elsewhere import with_names_of_bases
from migrate.lowering.plainer.checkpoint_folders import with_checkpoint_folders
from migrate.lowering.plainer.checkpoints_asked import with_checkpoints_unasked
from migrate.lowering.plainer.computed_again import with_inputs_kept, with_reasons
from migrate.lowering.plainer.constructors_of_bases import with_constructors_of_bases
from migrate.lowering.plainer.constructors_whole import with_constructors_whole
from migrate.lowering.plainer.copied_input import Anew, Placing
from migrate.lowering.plainer.copies_of_torch import with_functions_of_torch
from migrate.lowering.plainer.eval_where_made import with_eval_where_made
from migrate.lowering.plainer.factory_arguments import with_plain_factories
from migrate.lowering.plainer.filled_by_calls import with_filled_in_place
from migrate.lowering.plainer.filled_one_by_one import with_filled_one_by_one
from migrate.lowering.plainer.forward_by_call import with_forward_passes
from migrate.lowering.plainer.forwarding_lambdas import with_lambdas_named
from migrate.lowering.plainer.freezing_apart import with_freezing_apart
from migrate.lowering.plainer.frozen_before_kept import with_freezing_of_what_is_kept
from migrate.lowering.plainer.frozen_in_place import with_freezing_in_place
from migrate.lowering.plainer.frozen_where_made import with_freezing_where_made
from migrate.lowering.plainer.functions_of_methods import with_functions_as_methods
from migrate.lowering.plainer.gradients_of_inputs import with_gradients_of_inputs
from migrate.lowering.plainer.gradients_read import with_gradients_read
from migrate.lowering.plainer.graphs_apart import with_graphs_apart
from migrate.lowering.plainer.guards_behind import with_guards_behind
from migrate.lowering.plainer.inherited_methods import with_inherited_methods
from migrate.lowering.plainer.initialisers_outside import with_initialisers_inside
from migrate.lowering.plainer.initialisers_told import with_initialisers_told
from migrate.lowering.plainer.kept_by_size import with_nothing_kept_by_size
from migrate.lowering.plainer.last_definitions import with_last_definitions
from migrate.lowering.plainer.layers_measured import with_layers_measured
from migrate.lowering.plainer.layers_named import with_weights_read_of_models
from migrate.lowering.plainer.layers_of_rows import with_layers_in_rows
from migrate.lowering.plainer.layers_of_stacks import with_layers_in_stacks
from migrate.lowering.plainer.layers_written_out import with_layers_written_out
from migrate.lowering.plainer.lines_apart import with_lines_apart
from migrate.lowering.plainer.lists_named_outside import with_lists_named
from migrate.lowering.plainer.lists_of_parameters import with_parameters_listed
from migrate.lowering.plainer.lists_on_models import with_lists_apart
from migrate.lowering.plainer.loaders_named import with_loaders_named
from migrate.lowering.plainer.loops_over_leaves import with_steps_in_place
from migrate.lowering.plainer.methods_of_bases import with_methods_of_bases
from migrate.lowering.plainer.modes_around import with_modes_written_out
from migrate.lowering.plainer.modules_around_models import with_modules_around_models
from migrate.lowering.plainer.modules_that_train import with_trainers_apart
from migrate.lowering.plainer.names_first import with_names_first
from migrate.lowering.plainer.names_given_again import with_names_apart
from migrate.lowering.plainer.names_of_snippets import with_names_left
from migrate.lowering.plainer.objects_named_outside import with_objects_as_self
from migrate.lowering.plainer.of_transformer import with_parts_of_transformers
from migrate.lowering.plainer.optimizer_classes import with_optimizer_classes_told
from migrate.lowering.plainer.optimizers_first import with_optimizers_first
from migrate.lowering.plainer.optimizers_outside import with_optimizers_outside
from migrate.lowering.plainer.optional_optimizers import with_optional_optimizers_apart
from migrate.lowering.plainer.options_of_dicts import with_options_written_out
from migrate.lowering.plainer.own_module import with_own_names
from migrate.lowering.plainer.pairs_as_dicts import with_pairs_as_dicts
from migrate.lowering.plainer.parts_held import with_parts_at_hand
from migrate.lowering.plainer.passes_before_backward import with_passes_before_backward
from migrate.lowering.plainer.placed_entries import with_entries_left
from migrate.lowering.plainer.placing_functions import with_nothing_placed
from migrate.lowering.plainer.pretrained_transformers import with_pretrained_made
from migrate.lowering.plainer.returned_beside import with_kept_returned
from migrate.lowering.plainer.saved_by_masters import with_saved_named
from migrate.lowering.plainer.schedules_of_transformers import with_plain_schedules
from migrate.lowering.plainer.script_modules import with_plain_modules
from migrate.lowering.plainer.seeds_outside import with_seeds_outside
from migrate.lowering.plainer.set_in_branches import with_names_set
from migrate.lowering.plainer.settings_nobody_gives import with_constants_of_classes
from migrate.lowering.plainer.sizes_of_weights import with_sizes_of_weights
from migrate.lowering.plainer.stars_named import with_stars_named
from migrate.lowering.plainer.stars_of_modules import with_no_stars
from migrate.lowering.plainer.state_handed_on import told_of_state, with_state_handed_on
from migrate.lowering.plainer.states_named_first import with_states_named
from migrate.lowering.plainer.steps_in_loops import with_steps_in_loops
from migrate.lowering.plainer.steps_that_tell import with_told_returned
from migrate.lowering.plainer.sums_kept import with_sums_as_lists
from migrate.lowering.plainer.told_by_callers import with_told_by_callers
from migrate.lowering.plainer.transformers_models import with_plain_transformers
from migrate.lowering.plainer.updates_in_place import with_updates_in_place
from migrate.lowering.plainer.updates_in_sides import with_updates_in_sides
from migrate.lowering.plainer.updates_of_objects import with_updates_of_objects
from migrate.lowering.plainer.versions_asked import with_versions_settled
from migrate.lowering.rounds import Input, Lowered, lower_project
from migrate.options import DEFAULT, CheckpointFormat, Options
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import mentions
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_DEEPEST = 6  # how far functions that hand models on to each other are followed
_PLAIN = ("no_grad", "inference_mode", "enable_grad", "staticmethod", "classmethod")
_Definition = cst.FunctionDef | cst.ClassDef


@dataclass(frozen=True)
class _Copy:
    """A definition of a file under another name, for the calls in `calls`; see `_site`."""

    file: str
    definition: _Definition
    name: str
    calls: frozenset[int]

    @property
    def original(self) -> str:
        """The name of what it is a copy of."""
        return self.definition.name.value


@dataclass(frozen=True)
class _Plan:
    """What is changed of the input: definitions copied, or first loops over members as their turns."""

    copies: tuple[_Copy, ...] = ()
    loops: Mapping[cst.For, tuple[Statement, ...]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.copies or self.loops)


@dataclass(frozen=True)
class Taken:
    """The files of a project as they are taken to be written: what was lowered of them, if anything, and the names of
    copies in them -> the names of what those are copies of."""

    inputs: Sequence[Input]
    lowered: Sequence[Lowered] = ()
    originals: Mapping[str, str] = field(default_factory=dict)


def taken_first(inputs: Sequence[Input], options: Options = DEFAULT) -> Taken:
    """The files of a project as they are taken to be written before anything is known of them."""
    taken = with_checkpoint_folders(inputs) if options.checkpoints is CheckpointFormat.orbax else list(inputs)
    for step in _FIRST:
        taken = step(taken)
    return Taken(taken)


_FIRST: tuple[Callable[[Sequence[Input]], list[Input]], ...] = (
    with_stars_named,
    with_lines_apart,
    with_guards_behind,
    with_steps_in_loops,
    with_filled_one_by_one,
    with_bare_forms,
    with_pairs_as_dicts,
    with_constructors_of_bases,
    with_versions_settled,
    with_lambdas_named,
    with_layers_measured,
    with_filled_in_place,
    with_sizes_of_weights,
    with_modes_written_out,
    with_gradients_of_inputs,
    with_own_names,
    with_names_apart,
    with_names_first,
    with_apex_as_torch,
    with_pretrained_made,
    with_plain_transformers,
    with_plain_schedules,
    with_plain_modules,
    with_parts_of_transformers,
    with_last_definitions,
    with_checkpoints_unasked,
    with_states_named,
    with_parameters_listed,
    with_freezing_apart,
    with_functions_of_torch,
    with_layers_written_out,
    with_layers_in_stacks,
    with_layers_in_rows,
    with_optimizers_first,
    with_seeds_outside,
    with_saved_named,
    with_names_set,
    with_nothing_kept_by_size,
    with_plain_factories,
    with_options_written_out,
    with_initialisers_inside,
    with_initialisers_told,
    with_forward_passes,
    with_nothing_placed,
    with_entries_left,
    with_optional_optimizers_apart,
    with_optimizer_classes_told,
    with_no_stars,
    with_eval_where_made,
    with_freezing_of_what_is_kept,
    with_functions_as_methods,
    with_updates_in_sides,
    with_lists_named,
    with_objects_as_self,
    with_arguments_kept,
    with_constructors_whole,
    with_trainers_apart,
    with_optimizers_outside,
    with_constants_of_classes,
    with_told_returned,
    with_averages_assigned,
    with_state_handed_on,
)


def lower_by_class(
    taken: Taken,
    submodules: Mapping[str, Mapping[str, str]] | None = None,
    broken: dict[str, Diagnostic] | None = None,
    options: Options = DEFAULT,
) -> Taken:
    """Lowers the files of a project, as `lower_project` does, taking them otherwise until nothing asks for it.
    `source` of each is what was lowered."""
    current, originals = list(taken.inputs), dict(taken.originals)
    found: dict[str, Diagnostic] = {}
    lowered: list[Lowered] = []
    for depth in range(_DEEPEST + 1):
        found = {}
        lowered = lower_project(current, submodules, found, options)
        plan = _plan(current, lowered) if lowered and depth < _DEEPEST and not found else _Plan()
        if not plan:
            going_on = lowered and depth < _DEEPEST and not found
            again = _taken_otherwise(current, lowered) if going_on else None
            if again is None:
                break
            current = again
            continue
        originals |= {copy.name: originals.get(copy.original, copy.original) for copy in plan.copies}
        script = lowered[0].script
        current = [replace(one, source=_with_copies(one.source, one.scope, plan, script)) for one in current]
    if broken is not None:
        broken |= found
    lowered = told_of_state(current, with_methods_of_bases(with_reasons(lowered)))
    return Taken(current, _alike_joined(lowered, originals) if originals else lowered, originals)


def _taken_otherwise(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Input] | None:
    """The files of a project as they are taken to be written; None where they are taken as they are."""
    bases = with_names_left(inputs, lowered[0].script) or with_names_of_bases(inputs, lowered[0].script)
    methods = bases or with_inherited_methods(inputs, lowered[0].script) or with_steps_in_place(inputs, lowered)
    made = methods or with_updates_in_place(inputs, lowered) or with_updates_of_objects(inputs, lowered)
    made = made or with_freezing_in_place(inputs, lowered) or with_modules_around_models(inputs, lowered)
    made = made or with_freezing_where_made(inputs) or with_parts_at_hand(inputs)
    made = made or with_gradients_read(inputs, lowered) or with_kept_returned(inputs, lowered)
    made = made or with_loaders_named(inputs, lowered)
    made = made or with_told_by_callers(inputs, lowered) or with_asked_by_callers(inputs, lowered)
    made = made or with_weights_read_of_models(inputs, lowered) or with_graphs_apart(inputs, lowered)
    made = made or with_lists_apart(inputs, lowered) or with_attributes_apart(inputs, lowered)
    made = made or with_sums_as_lists(inputs, lowered) or with_passes_before_backward(inputs, lowered)
    return made or with_inputs_kept(inputs, lowered) or with_attributes_handed_on(inputs, lowered)


# -- what is called with models of several classes --------------------------------------------------------------------


def _plan(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> _Plan:
    taken = {name.value for one in inputs for name in every(one.source.module, cst.Name)}
    written = Counter(usage.site_of(call) for one in inputs for call in every(one.source.module, cst.Call))
    files = {one.scope: one.source for one in inputs}
    copies: list[_Copy] = []
    repeated: set[int] = set()
    for name, facts in lowered[0].script.functions.items():
        definition = _definition(files, name, facts)
        if definition is None:
            continue
        groups = _by_class(facts)
        sites = {
            label: frozenset(usage.site_of(site.node) for site in group if site.node) for label, group in groups.items()
        }
        times = Counter(call for calls in sites.values() for call in calls)
        repeated |= {call for call, number in times.items() if number > 1}
        if any(number > 1 or written[call] != 1 for call, number in times.items()):
            continue
        for label, calls in list(sites.items())[1:]:
            wanted = _named_for(definition, label)
            copies.append(_Copy(file_of(name), definition, usage.unused_name(wanted, taken), calls))
            taken.add(copies[-1].name)
    if not copies:
        copies = _objects_apart(files, lowered[0].script, taken)
    loops = {
        statement: tuple(turns)
        for one in lowered
        for statement in every(one.source.module, cst.For)
        if (turns := one.unrolled.get(statement))
        and not isinstance(turns[0], cst.For)
        and any(usage.site_of(call) in repeated for call in usage.calls(statement))
    }
    return _Plan((), loops) if loops else _Plan(tuple(copies))


def _objects_apart(files: Mapping[str, SourceFile], script: Script, taken: set[str]) -> list[_Copy]:
    """A copy of its class for each object that a scope tells from another one of the class by its name alone."""
    copies: list[_Copy] = []
    modules = [one.module for one in files.values()]
    for cls in sorted(script.told_apart):
        name = f"{cls}.__init__"
        definition = _definition(files, name, script.functions[name]) if name in script.functions else None
        objects = [made for module in modules for made in _objects_made(module, spelled(cls))]
        known = {call.func for _, call, _ in objects} | ({definition.name} if definition is not None else set())
        shown = any(mentions(module, spelled(cls), known) for module in modules)
        if definition is None or shown or not all(_is_only_asked(each.value, scope) for each, _, scope in objects):
            continue
        for each, call, _ in objects[1:]:
            wanted = spelled(cls) + each.value.title().replace("_", "")
            copies.append(
                _Copy(file_of(cls), definition, usage.unused_name(wanted, taken), frozenset({usage.site_of(call)}))
            )
            taken.add(copies[-1].name)
    return copies


def _objects_made(module: cst.Module, cls: str) -> Iterator[tuple[cst.Name, cst.Call, cst.Module | cst.FunctionDef]]:
    """The name and the call of each `a = Agent(...)` of a file, with the function that it stands in, or the file."""
    around = {line: one for one in every(module, cst.FunctionDef) for line in every(one, cst.SimpleStatementLine)}
    for line in every(module, cst.SimpleStatementLine):
        small = suites.alone(line)
        if isinstance(small, cst.Assign) and len(small.targets) == 1:
            name, call = small.targets[0].target, small.value
            if isinstance(name, cst.Name) and isinstance(call, cst.Call) and nodes.dotted(call.func) == cls:
                yield name, call, around.get(line, module)


def _is_only_asked(name: str, scope: cst.Module | cst.FunctionDef) -> bool:
    """Whether a name that is given an object is used for nothing but its attributes, is called and handed to functions,
    and is given nothing else."""
    calls = usage.calls(scope)
    known = sum(nodes.dotted(each.value) == name for each in every(scope, cst.Attribute))
    known += sum(nodes.dotted(call.func) == name for call in calls)
    handed = [arg.value for call in calls if isinstance(call.func, cst.Name) for arg in call.args if not arg.star]
    known += sum(nodes.dotted(each) == name for each in handed)
    return sum(each.value == name for each in every(scope, cst.Name)) == known + 1


def _by_class(facts: FunctionFacts) -> dict[tuple[str, ...], list[CallSite]]:
    """The calls of a function from elsewhere by the classes of the models that they give it, in the order of the
    source; none where not all are known, or are the same."""
    sites = [site for site in facts.found_calls if site.node is not None and site.scope != facts.qualname]
    several = [p for p in facts.parameter_names if len({site.models[p] for site in sites if p in site.models}) > 1]
    groups: dict[tuple[str, ...], list[CallSite]] = {}
    if any(cls == "" for site in sites for cls in site.models.values()):
        return groups
    for site in sites if several else ():
        groups.setdefault(tuple(site.models.get(p, "") for p in several), []).append(site)
    return groups


def _definition(files: Mapping[str, SourceFile], name: str, facts: FunctionFacts) -> _Definition | None:
    """What is copied: a function or a method of a file, or the class whose constructor it is; None for others."""
    if name != facts.qualname or file_of(name) not in files:
        return None
    body, found = files[file_of(name)].module.body, None
    for part in spelled(name).removesuffix(".__init__").split("."):
        same = [one for one in body if isinstance(one, _Definition) and one.name.value == part]
        found = same[0] if len(same) == 1 else None
        body = suites.suite_of(found.body.body) if found is not None else []
    if isinstance(found, cst.ClassDef):
        classes = [cls for one in files.values() for cls in every(one.module, cst.ClassDef)]
        inherited = {nodes.code(base.value) for cls in classes for base in cls.bases}
        return None if found.bases or found.name.value in inherited else found
    plain = isinstance(found, cst.FunctionDef) and all(map(_is_plain, found.decorators))
    return found if plain else None


def _is_plain(decorator: cst.Decorator) -> bool:
    """Whether a decorator does no more to a function than say how it runs: others may know it by its name."""
    node = decorator.decorator
    name = nodes.dotted(node.func if isinstance(node, cst.Call) else node) or ""
    return name.rpartition(".")[2] in _PLAIN


def _named_for(definition: _Definition, classes: Iterable[str]) -> str:
    """The name of a copy: `train_student`, `TrainerStudent`."""
    names = [spelled(cls).partition(INLINE)[0].rpartition(".")[2] for cls in classes if cls]
    if isinstance(definition, cst.ClassDef):
        return definition.name.value + "".join(names)
    return "_".join([definition.name.value.rstrip("_"), *map(snake_case, names)])


# -- the input with copies ---------------------------------------------------------------------------------------------


def _with_copies(source: SourceFile, scope: str, plan: _Plan, script: Script) -> SourceFile:
    """A file with the copies behind what they are copies of, called by their names."""
    made = _Copying(scope, plan, script, dict(source.positions))
    return source.with_module(source.module.visit(made), made.positions)


class _Copying(Placing):
    """Puts copies in, and calls them."""

    def __init__(self, scope: str, plan: _Plan, script: Script, positions: dict[cst.CSTNode, CodeRange]) -> None:
        super().__init__(positions)
        self.scope, self.script, self.copies, self.loops = scope, script, plan.copies, plan.loops
        self.names = {call: copy.name for copy in plan.copies for call in copy.calls}

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        name = self.names.get(usage.site_of(original_node))
        if name is None:
            return updated_node
        func = updated_node.func
        called = func.with_changes(attr=nodes.name(name)) if isinstance(func, cst.Attribute) else nodes.name(name)
        return updated_node.with_changes(func=called)

    def leave_For(self, original_node: cst.For, updated_node: cst.For) -> Any:
        turns = self.loops.get(original_node)
        if turns is None:
            return updated_node
        return cst.FlattenSentinel([nodes.visited(turn, Anew(self.positions)) for turn in turns])

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> Any:
        return self._followed(original_node, updated_node)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> Any:
        return self._followed(original_node, updated_node)

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        if isinstance(updated_node.names, cst.ImportStar):
            return updated_node
        more = [copy.name for alias in updated_node.names for copy in self.copies if self._imports(alias, copy)]
        last = updated_node.names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        added = [cst.ImportAlias(nodes.name(name)) for name in more]
        return updated_node.with_changes(names=[*updated_node.names[:-1], last, *added]) if more else updated_node

    def _imports(self, alias: cst.ImportAlias, copy: _Copy) -> bool:
        """Whether an import takes what a copy is of from the file that has it."""
        at = followed(self.script.taken_from, (self.scope, alias.evaluated_alias or alias.evaluated_name))
        return at == (copy.file, copy.original) and at[0] != self.scope

    def _followed(self, original: _Definition, updated: _Definition) -> _Definition | cst.FlattenSentinel[_Definition]:
        if original in self.positions:
            self.positions[updated] = self.positions[original]
        return cst.FlattenSentinel(
            [updated, *(self._copy(updated, copy.name) for copy in self.copies if copy.definition is original)]
        )

    def _copy(self, definition: _Definition, name: str) -> _Definition:
        """A definition under another name, by which it calls itself."""
        made = nodes.substituted(definition, {definition.name.value: nodes.name(name)})
        for old, new in zip(every(definition, cst.CSTNode), every(made, cst.CSTNode), strict=True):
            if old in self.positions:
                self.positions[new] = self.positions[old]
        made = made.visit(Anew(self.positions))
        assert isinstance(made, _Definition)
        copied = made.with_changes(leading_lines=[line for line in made.leading_lines if line.comment is None])
        if made in self.positions:
            self.positions[copied] = self.positions[made]
        return copied


# -- the output with what came out alike -------------------------------------------------------------------------------


def _alike_joined(lowered: Sequence[Lowered], originals: Mapping[str, str]) -> list[Lowered]:
    """The files without the copies that came out as what they are copies of."""
    definitions = [
        one
        for file in lowered
        for _, statements in file.body
        for statement in statements
        for one in every(statement, (cst.FunctionDef, cst.ClassDef))
    ]
    times = Counter(one.name.value for one in definitions)
    family = {**originals, **{name: name for name in originals.values()}}
    texts = {
        one.name.value: nodes.code(one.with_changes(leading_lines=[]))
        for one in definitions
        if one.name.value in family and times[family[one.name.value]] == 1
    }
    same = {name: family[name] for name in texts}
    while True:  # what is alike if these are, and these are only if what they call is
        first: dict[tuple[str, str], str] = {}
        refined = {name: first.setdefault((other, _renamed(texts[name], same)), name) for name, other in same.items()}
        if refined == same:
            break
        same = refined
    alike = {name: other for name, other in same.items() if name != other}
    return [_joined(file, _Joining(alike)) for file in lowered]


def _renamed(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\w+", lambda word: names.get(word[0], word[0]), text)


def _joined(file: Lowered, joining: _Joining) -> Lowered:
    body = tuple((index, tuple(joining.all(statements))) for index, statements in file.body)
    helpers = tuple(replace(helper, code=joining.all(helper.code)) for helper in file.helpers)
    return replace(file, body=body, helpers=helpers, diagnostics=tuple(dict.fromkeys(file.diagnostics)))


class _Joining(cst.CSTTransformer):
    """Leaves copies out, and says the names of what they are copies of."""

    def __init__(self, alike: Mapping[str, str]) -> None:
        super().__init__()
        self.alike = alike

    def all(self, statements: Iterable[Statement]) -> list[Statement]:
        """Statements without the copies among them."""
        kept = [one for one in statements if not (isinstance(one, _Definition) and one.name.value in self.alike)]
        return [nodes.visited(one, self) if self.alike.keys() & _words(one) else one for one in kept]

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return updated_node.with_changes(value=self.alike.get(updated_node.value, updated_node.value))

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> Any:
        return cst.RemoveFromParent() if original_node.name.value in self.alike else updated_node

    def leave_ImportFrom(self, original_node: cst.ImportFrom, updated_node: cst.ImportFrom) -> cst.ImportFrom:
        if isinstance(original_node.names, cst.ImportStar):
            return updated_node
        kept = [alias for alias in original_node.names if alias.evaluated_name not in self.alike]
        last = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return original_node.with_changes(names=[*kept[:-1], last])


def _words(statement: Statement) -> set[str]:
    return {name.value for name in every(statement, cst.Name)}
