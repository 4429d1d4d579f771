"""convert(): the passes in order, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from migrate import checks
from migrate.diagnostics import Diagnostic, Fatal, Report, Severity, our_fault
from migrate.emit import THIRD_PARTY, emit, imports
from migrate.files.notebook import Notebook
from migrate.files.project import Member, Project, single
from migrate.files.source import SourceFile
from migrate.files.unused_definitions import notes_of, stubs, stubs_untried, unused_definitions, with_stubs
from migrate.lowering import (
    Input,
    Lowered,
    Taken,
    lower_by_class,
    needed_for_imports,
    passes_by_inputs,
    taken_first,
    with_names_of_imports,
)
from migrate.manifest import Manifest, ModelWeights
from migrate.options import DEFAULT, Options
from migrate.saved_files import SavedFile
from migrate.syntax.deep import deeply
from migrate.syntax.memory import seldom_searched
from migrate.syntax.remembering import forget
from migrate.weights import manifest_of


@dataclass(frozen=True)
class Conversion:
    """What one input became. `text` is the input's own where nothing was rewritten."""

    text: str
    manifest: Manifest
    report: Report

    def changed(self, source: SourceFile) -> bool:
        """Whether anything was rewritten."""
        return self.text != source.text


@dataclass(frozen=True)
class Output:
    """What one file of a project became: `text`, or None where it is copied as it is."""

    member: Member
    text: str | None
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def data(self) -> bytes:
        """The bytes to write."""
        source = self.member.source
        if self.text is None or source is None or self.text == source.text:
            return self.member.data
        if source.notebook is not None:
            written = source.notebook.written(self.text)
            return self.member.data if written is None else written
        return self.text.encode(source.encoding)

    @property
    def shown(self) -> tuple[str, str]:
        """The text before and after, as people read it."""
        source = self.member.source
        before, after = source.text if source else "", self.text or ""
        notebook = source.notebook if source else None
        return (before, after) if notebook is None else (notebook.shown(before), notebook.shown(after))

    @property
    def changed(self) -> bool:
        """Whether anything was rewritten."""
        return self.data != self.member.data


@dataclass(frozen=True)
class ProjectConversion:
    """What a project became."""

    outputs: tuple[Output, ...]
    manifest: Manifest

    @property
    def report(self) -> Report:
        """The findings in all of its files."""
        return Report.of(found for output in self.outputs for found in output.diagnostics)


def convert(source: SourceFile, options: Options = DEFAULT) -> Conversion:
    """Rewrites one parsed file on its own. Raises Fatal (MIG900) on a bug of our own, with nothing written."""
    project = convert_project(single(source), options)
    (output,) = project.outputs
    fatal = next((found for found in output.diagnostics if found.severity is Severity.FATAL), None)
    if fatal is not None:
        raise Fatal(fatal)
    assert output.text is not None
    found = list(output.diagnostics)
    if output.text == source.text and not found:
        what = "uses no torch API that is rewritten" if source.text.strip() else "is empty"
        found.append(Diagnostic(source.path, 0, 0, "MIG101", what))
    return Conversion(output.text, project.manifest, Report.of(found))


@seldom_searched()
def convert_project(project: Project, options: Options = DEFAULT) -> ProjectConversion:
    """Rewrites the files of a project, each part of it that shares no file with the others on its own. A bug of our own
    (MIG900) costs the file that it shows in, which is then copied as it is."""
    return deeply(lambda: _converted(project, options))


def _converted(project: Project, options: Options) -> ProjectConversion:
    outputs: list[Output] = []
    models, saved, by_inputs = list[ModelWeights](), list[SavedFile](), list[str]()
    name = project.scripts[0].name if len(project.scripts) == 1 else project.root.name
    for part in project.components():
        made, manifest = convert_part(part, name, options)
        forget()
        outputs += made
        models += [model for model in manifest.models if model not in models]
        saved += [entries for entries in manifest.saved if entries not in saved]
        by_inputs += passes_by_inputs(part.inputs)
    whole = Manifest(name, "linen", tuple(models), tuple(saved), tuple(by_inputs))
    return ProjectConversion(tuple(outputs), whole)


def convert_part(part: Project, name: str, options: Options = DEFAULT) -> tuple[list[Output], Manifest]:
    """Rewrites files that depend on one another; a fault between their passes (MIG900) leaves them as they are."""
    try:
        return _converted_part(part, name, options)
    except Exception as error:
        faults = [our_fault(member.source.path, error) if member.source else None for member in part.members]
        outputs = [_output(member, None, fault) for member, fault in zip(part.members, faults, strict=True)]
        return outputs, Manifest(name, "linen", ())


def _converted_part(part: Project, name: str, options: Options) -> tuple[list[Output], Manifest]:
    """What the scripts have no use for and cannot be converted is a stub."""
    scripts = [member.scope for member in part.members if member.path in part.scripts]
    left = stubs_untried(part.inputs, scripts)
    taken, told = taken_first(with_stubs(part.inputs, left), options), False  # told: which names hide modules
    while True:
        taken, outputs = _lowered_files(part, taken, options)
        texts = {output.member.scope: output.text for output in outputs if output.text is not None}
        renamed = None if told else with_names_of_imports(taken.inputs, texts, imports())
        if renamed is not None:
            taken, told = replace(taken, inputs=renamed), True
            continue
        errors = _errors(outputs)
        made = stubs(unused_definitions(taken.inputs, scripts), errors, taken.inputs) if any(errors.values()) else []
        if not made:
            break
        left += made
        taken = replace(taken, inputs=with_stubs(taken.inputs, made))
    outputs = [_with_notes(output, notes_of(left)) for output in outputs]
    outputs = [replace(one, diagnostics=(*one.diagnostics, *_hidden(one, taken.inputs))) for one in outputs]
    script = taken.lowered[0].script if taken.lowered else None
    return outputs, manifest_of(script, name) if script else Manifest(name, "linen", ())


def _lowered_files(part: Project, taken: Taken, options: Options) -> tuple[Taken, list[Output]]:
    broken: dict[str, Diagnostic] = {}
    made = lower_by_class(taken, part.submodules, broken, options) if taken.inputs else taken
    by_scope = {found.scope: found for found in made.lowered}
    outputs = [_output(member, by_scope.get(member.scope), broken.get(member.scope)) for member in part.members]
    return made, outputs


def _hidden(output: Output, inputs: Sequence[Input]) -> Iterator[Diagnostic]:
    """Names of the script's own that hide a module from the output, where other files or keywords say them too."""
    for file in (one for one in inputs if one.scope == output.member.scope):
        for name in sorted(needed_for_imports(file, output.text or "", imports())):
            told = f"the output needs `{name}` as {imports()[name]}, and the script calls something else so"
            yield Diagnostic(file.source.path, 0, 0, "MIG305", told)


def _errors(outputs: Sequence[Output]) -> dict[str, list[Diagnostic]]:
    return {
        output.member.scope: [found for found in output.diagnostics if found.severity is Severity.ERROR]
        for output in outputs
        if output.member.source is not None
    }


def _with_notes(output: Output, notes: Sequence[Diagnostic]) -> Output:
    source = output.member.source
    own = [note for note in notes if source is not None and note.path == source.path]
    return replace(output, diagnostics=(*output.diagnostics, *own)) if own else output


def _output(member: Member, lowered: Lowered | None, broken: Diagnostic | None) -> Output:
    source = member.source
    if source is None or lowered is None or broken is not None:
        problem = broken if source is not None else member.problem
        return Output(member, None, () if problem is None else (problem,))
    try:
        text = emit(lowered.source, lowered)
    except Exception as error:
        return Output(member, None, (our_fault(source.path, error),))
    wrong = checks.compiles(source.path, text)
    if wrong:
        return Output(member, None, tuple(wrong))
    found = [
        *lowered.diagnostics,
        *checks.torch_left(lowered.source, lowered.parts, lowered.rebound.union(THIRD_PARTY)),
        *checks.undefined(source.path, source.text, text, lowered.refused),
        *checks.read_only(source, text),
        *checks.shared(source, text),
    ]
    if source.notebook is not None:
        return _notebook_output(member, source.notebook, text, found)
    return Output(member, text, tuple(found))


def _notebook_output(member: Member, notebook: Notebook, text: str, found: list[Diagnostic]) -> Output:
    assert member.source is not None
    path = member.source.path
    found = [notebook.placed(one) for one in found] + notebook.unconverted(path)
    if notebook.written(text) is not None:
        return Output(member, text, tuple(found))
    return Output(member, None, (*found, Diagnostic(path, 0, 0, "MIG206", "an update of weights is spread over cells")))
