"""Imports: of torch, of other packages, and of the other files of the project.

A name of another file means here what it means there.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from migrate.apis import PACKAGES, is_data_api
from migrate.diagnostics import Unsupported
from migrate.files.imports import Written
from migrate.known.kinds import UNKNOWN, Kind, Model, Optimizer, Plain, ProjectModule, Scheduler, TorchName
from migrate.known.qualified import is_module, path_of
from migrate.library_modules import MIXIN, REGISTERS, is_torch, role
from migrate.lowering.expressions.binding import COUNTING_ONES, Binding
from migrate.lowering.expressions.einops_calls import einops_kind
from migrate.lowering.expressions.elements import kinds_in
from migrate.lowering.models.borrowed_models import from_borrowed, import_borrowed, is_borrowed_whole
from migrate.lowering.models.summaries import PACKAGES as SUMMARIES
from migrate.lowering.modules.registered_settings import only_in_module_classes
from migrate.machine import NO_OPS, REGISTRIES
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import module_written
from migrate.syntax.nodes import Statement

_PROGRESS = (
    "tqdm",
    "tqdm.tqdm",
    "tqdm.auto.tqdm",
    "tqdm.notebook.tqdm",
    "tqdm.autonotebook.tqdm",
    *COUNTING_ONES,
    "rich.progress.track",
    "fastprogress.progress_bar",
    "fastprogress.fastprogress.progress_bar",
    "fastprogress.master_bar",
    "fastprogress.fastprogress.master_bar",
    "alive_progress.alive_it",
    "progressbar.progressbar",
)
_SERVED = {name: name for name in ("contextlib.nullcontext", "accelerate.Accelerator")}  # as torch's own names are

# what every Python 3 does without being asked
_IN_FORCE = {"absolute_import", "division", "generators", "nested_scopes", "print_function", "unicode_literals"}


class Imports(Binding):
    """What import statements make known."""

    def small_Import(self, line: cst.SimpleStatementLine, small: cst.Import) -> list[Statement]:
        known: list[str] = []
        left: list[cst.ImportAlias] = []
        for alias in small.names:
            name = nodes.dotted(alias.name) or ""
            root = name.split(".")[0]
            bound = alias.evaluated_alias
            if root in PACKAGES:
                known.append(name if bound else root)
                self.env.kinds[bound or root] = TorchName(known[-1])
                left.append(alias)
                continue
            self.report_unread(line, name)
            known.append(name)
            if not is_borrowed_whole(self, alias) and name not in SUMMARIES:
                left.append(alias)
            if name in _PROGRESS:
                self.env.kinds[bound or root] = Plain("progress")
                continue
            self.unit.imported[bound or root] = name if bound else root
            scope = self.unit.links.get(name if bound else root)
            self.env.kinds[bound or root] = Plain("module") if scope is None else ProjectModule(scope)
        return [*self.taking(line, small, left), *import_borrowed(self, line, known)]

    def small_ImportFrom(self, line: cst.SimpleStatementLine, small: cst.ImportFrom) -> list[Statement]:
        if small.relative and self.unit.library:
            small = _absolute(small, self.unit.library)
            line = line.with_changes(body=[small])
        module = module_written(small)
        if module.split(".")[0] in PACKAGES:
            return self.from_torch(line, small, module)
        if module == "__future__" and self.unit.source.notebook is not None and _IN_FORCE.issuperset(_names(small)):
            return []  # in a later cell they are no longer at the beginning of the output
        if module.split(".")[0] == "einops" and not isinstance(small.names, cst.ImportStar):
            return self.from_einops(line, small, small.names, module)
        if self.passed_through(line, small):
            return []
        self.report_unread(line, module)
        scope = self.unit.links.get(module)
        if isinstance(small.names, cst.ImportStar):
            if scope is not None:
                self.import_all(scope, line)
            return [line]
        if scope is None:
            made = from_borrowed(self, line, module, small.names)
            left = [alias for alias in small.names if f"{module}.{alias.evaluated_name}" not in self.unit.borrowed]
            for alias in left:
                name = f"{module}.{alias.evaluated_name}"
                if name in _PROGRESS:
                    self.env.kinds[alias.evaluated_alias or alias.evaluated_name] = Plain("progress")
                    continue
                self.unit.imported[alias.evaluated_alias or alias.evaluated_name] = name
                self.env.kinds[alias.evaluated_alias or alias.evaluated_name] = self.foreign_kind(name)
            return [*self.taking(line, small, [alias for alias in left if not self.is_left_out(alias)]), *made]
        for alias in small.names:
            self.report_unread(line, f"{module}{'' if module.endswith('.') else '.'}{alias.evaluated_name}")
        return self.from_project(line, small, small.names, scope)

    def foreign_kind(self, name: str) -> Kind:
        """What a name of another package is where torch is used: as one of torch's own, or nothing to a module."""
        found = (_SERVED.get(name) or role(name)) if self.unit.imports_torch else ""
        if found in (MIXIN, REGISTERS):
            return Plain(found)
        return TorchName(found) if found else Plain("imported")

    def is_left_out(self, alias: cst.ImportAlias) -> bool:
        """Whether a name of another package is nothing but what module classes, or tables of them, do without."""
        name = alias.evaluated_alias or alias.evaluated_name
        kind = self.kind_of_name(name)
        if self.unit.imported.get(name, "").partition(".")[0] in SUMMARIES:
            return True
        return (isinstance(kind, TorchName) and is_torch(kind.name)) or (
            kind in (Plain(MIXIN), Plain(REGISTERS)) and only_in_module_classes(name, self.blocks[0].statements)
        )

    def from_torch(self, line: cst.SimpleStatementLine, small: cst.ImportFrom, module: str) -> list[Statement]:
        """`from torch import nn`. What has no counterpart is not imported from a library that stays."""
        if isinstance(small.names, cst.ImportStar):
            return [line]
        kept, known = [], []
        made = from_borrowed(self, line, module, small.names)
        for alias in small.names:
            name = f"{module}.{alias.evaluated_name}"
            if name in self.unit.borrowed:
                continue
            known.append(name)
            self.env.kinds[alias.evaluated_alias or alias.evaluated_name] = TorchName(name)
            if name not in NO_OPS | REGISTRIES:
                kept.append(alias)
        return [*self.taking(line, small, kept), *made, *import_borrowed(self, line, known)]

    @staticmethod
    def taking(
        line: cst.SimpleStatementLine, small: cst.Import | cst.ImportFrom, kept: list[cst.ImportAlias]
    ) -> list[Statement]:
        """An import of some of the names alone."""
        if isinstance(small.names, cst.ImportStar) or len(kept) == len(small.names):
            return [line]
        if not kept:
            return []
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return [line.with_changes(body=[small.with_changes(names=kept)])]

    def from_einops(
        self, line: cst.SimpleStatementLine, small: cst.ImportFrom, names: Sequence[cst.ImportAlias], module: str
    ) -> list[Statement]:
        """`from einops import rearrange`. Its layers for torch are made of its functions, and their import goes."""
        for alias in names:
            kind = einops_kind(module, alias.evaluated_name)
            self.env.kinds[alias.evaluated_alias or alias.evaluated_name] = kind or Plain("imported")
        return [] if module.startswith("einops.layers.torch") else [line]

    def from_project(
        self, line: cst.SimpleStatementLine, small: cst.ImportFrom, names: Sequence[cst.ImportAlias], scope: str
    ) -> list[Statement]:
        """`from model import Net`: a name that the other file's output no longer binds goes."""
        kept = []
        for alias in names:
            name = alias.evaluated_name
            kind = self.imported(scope, name, line)
            bound = alias.evaluated_alias or name
            self.env.kinds[bound] = Plain("imported") if kind is UNKNOWN else kind
            self.script.taken_from[self.unit.scope, bound] = scope, name
            if not self.is_gone(scope, name, kind):
                kept.append(alias)
        return self.taking(line, small, kept)

    def is_gone(self, scope: str, name: str, kind: Kind) -> bool:
        """Whether the output of another file does not bind a name that its input binds: a device, an initialising
        function, a part of torch."""
        if isinstance(kind, TorchName):
            return not is_data_api(kind.name)
        return name in self.script.gone.get(scope, ())

    def public_names(self, line: cst.SimpleStatementLine, small: cst.Assign) -> list[Statement] | None:
        """`__all__ = [...]`: without the names that the output no longer binds. None for other assignments."""
        names = small.value
        if nodes.dotted(small.targets[0].target) != "__all__" or not isinstance(names, cst.List | cst.Tuple):
            return None
        texts = [nodes.literal(element.value) for element in names.elements]
        self.script.public[self.unit.scope] = {text for text in texts if isinstance(text, str)}
        gone = self.script.gone.get(self.unit.scope, set())
        kept = [e for e, text in zip(names.elements, texts, strict=True) if text not in gone]
        if len(kept) == len(texts):
            return [line]
        if kept:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return [line.with_changes(body=[small.with_changes(value=names.with_changes(elements=kept))])]

    def import_all(self, scope: str, line: cst.SimpleStatementLine) -> None:
        """`from model import *`: what `__all__` lists there, else every name without an underscore in front."""
        names, of_script = self.script.public.get(scope), self.made_as_script(scope)
        for name in list(self.script.finals.get(scope, {})):
            listed = name in names if names is not None else not name.startswith("_") and name not in of_script
            if listed and self.source_of(scope, name) != (self.unit.scope, name):  # else it has gone in a circle
                kind = self.imported(scope, name, line, used=False)
                self.env.kinds[name] = kind
                if isinstance(kind, TorchName) and is_data_api(kind.name):
                    self.script.wanted_of.setdefault(scope, set()).add(name)

    def made_as_script(self, scope: str) -> set[str]:
        """The names that a file binds where it is run itself, and not imported."""
        unit = self.unit.others.get(scope)
        body = suites.suite_of(unit.source.module.body) if unit is not None else []
        run = [one for one in body if suites.as_script(one) is not None]
        return set(usage.stores(run)) - set(usage.stores([one for one in body if one not in run]))

    def source_of(self, scope: str, name: str) -> tuple[str, str]:
        """The file, and the name in it, where what a file imports is made."""
        seen: set[tuple[str, str]] = set()
        while (scope, name) in self.script.taken_from and (scope, name) not in seen:
            seen.add((scope, name))
            if scope == self.unit.scope:
                break
            scope, name = self.script.taken_from[scope, name]
        return scope, name

    def imported(self, scope: str, name: str, node: cst.CSTNode, used: bool = True) -> Kind:
        """The kind of a name of another file. A model there has its weights in variables of that file, which an import
        does not bring: it is reported, and not known here."""
        kind = self.exported(scope, name)
        if used:
            self.script.wanted_of.setdefault(scope, set()).add(name)
        for part in kinds_in(kind):
            place = part.place if isinstance(part, Model | Optimizer | Scheduler) else None
            if place is not None and is_module(place.scope) and place.scope != self.unit.scope:
                text = f"{name} is made in {path_of(scope)}, and an import brings it without its state"
                self.unit.report(Unsupported("MIG404", text), node)
                return UNKNOWN
        return kind

    def passed_through(self, line: cst.SimpleStatementLine, small: cst.ImportFrom) -> bool:
        """Whether an import goes since the program uses nothing of what it leads to; all of them are said at once."""
        if not self.unit.passed or isinstance(small.names, cst.ImportStar):
            return False
        module = (nodes.dotted(small.module) or "") if small.module else ""
        written = Written(len(small.relative), module, tuple(alias.evaluated_name for alias in small.names))
        if written in self.unit.passed and not any(found.code == "MIG102" for found in self.unit.diagnostics):
            self.unit.report(Unsupported("MIG102", ", ".join(sorted(set(self.unit.passed.values())))), line)
        return written in self.unit.passed

    def report_unread(self, line: cst.SimpleStatementLine, module: str) -> None:
        """Reports an import of a file of the same project that is not converted."""
        if module in self.unit.unread:
            self.unit.report(Unsupported("MIG205", f"{module}: {self.unit.unread[module]}"), line)


def _absolute(small: cst.ImportFrom, package: str) -> cst.ImportFrom:
    """An import that is relative to a package, as it is written outside of it."""
    above = package.split(".")[: len(package.split(".")) - len(small.relative) + 1]
    inside = [nodes.dotted(small.module) or ""] if small.module else []
    module = nodes.expression(".".join([*above, *inside]))
    assert isinstance(module, cst.Name | cst.Attribute)
    return small.with_changes(relative=[], module=module, whitespace_after_from=cst.SimpleWhitespace(" "))


def _names(small: cst.ImportFrom) -> list[str]:
    """The names that an import takes."""
    return [] if isinstance(small.names, cst.ImportStar) else [alias.evaluated_name for alias in small.names]
