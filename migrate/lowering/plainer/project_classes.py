"""The classes of a project by their names, before anything is known of what these stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.known.qualified import inside
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites
from migrate.syntax.imported import module_written
from migrate.syntax.walking import every

_MODULES = ("nn.Module", "torch.nn.Module", "Module", "nn_Module")


@dataclass
class ProjectClass:
    """A class: the file that it is of, its definition, its bases (see `classes_of`), its methods."""

    file: Input
    node: cst.ClassDef
    bases: list[str]
    methods: dict[str, cst.FunctionDef]

    @property
    def name(self) -> str:
        """As its file spells it."""
        return self.node.name.value


def classes_of(inputs: Sequence[Input]) -> dict[str, ProjectClass]:
    """The classes at the top of files by their qualified names, but for those of which a file has several of one name.
    Bases of the project are told by such names as well, others as they are written."""
    named = _Named({one.scope: one for one in inputs})
    made: dict[str, ProjectClass] = {}
    for qualified, group in named.classes.items():
        file, node = group[0]
        bases = [nodes.dotted(arg.value) or "" for arg in node.bases]
        methods = suites.methods_of(node)
        if len(group) == 1:
            made[qualified] = ProjectClass(file, node, [named.found(file, base) or base for base in bases], methods)
    return made


def is_module(name: str, classes: Mapping[str, ProjectClass], seen: frozenset[str] = frozenset()) -> bool:
    """Whether a class inherits from `nn.Module`, as far as names tell."""
    bases = set(classes[name].bases)
    own = bases & classes.keys() - seen
    return bool((bases - classes.keys()) & set(_MODULES)) or any(is_module(one, classes, seen | own) for one in own)


def is_alone(cls: ProjectClass, classes: Mapping[str, ProjectClass]) -> bool:
    """Whether no other class of the project is called like one."""
    return sum(one.name == cls.name for one in classes.values()) == 1


@dataclass(frozen=True)
class _Import:
    """A name that a file binds by an import, maybe a dotted one, "" for all that another file has; the scope of that
    file, and the name there, "" for the file itself."""

    bound: str
    scope: str
    name: str = ""


class _Named:
    """What names at the top of files stand for."""

    def __init__(self, files: Mapping[str, Input]) -> None:
        self.files = files
        self.classes: dict[str, list[tuple[Input, cst.ClassDef]]] = {}
        for scope, one in files.items():
            for node in one.source.module.body:
                if isinstance(node, cst.ClassDef):
                    self.classes.setdefault(inside(scope, node.name.value), []).append((one, node))
        self.imports = {scope: list(_imports(one)) for scope, one in files.items()}

    def found(self, one: Input, written: str, seen: frozenset[str] = frozenset()) -> str:
        """The qualified name of the class of the project that a file means by a name; "" for others."""
        qualified = inside(one.scope, written)
        if qualified in self.classes or qualified in seen:
            return qualified if qualified in self.classes else ""
        for each in self.imports[one.scope]:
            parts = [each.name, written.removeprefix(each.bound).removeprefix(".")]
            there = ".".join(filter(None, parts))
            reached = not each.bound or f"{written}.".startswith(f"{each.bound}.")
            file = self.files.get(each.scope) if reached and there else None
            other = self.found(file, there, seen | {qualified}) if file is not None else ""
            if other:
                return other
        return ""


def _imports(one: Input) -> Iterator[_Import]:
    links = {text: scope for text, scope in one.links.items() if text}
    for node in every(one.source.module, (cst.Import, cst.ImportFrom)):
        text = module_written(node) if isinstance(node, cst.ImportFrom) else ""
        if isinstance(node.names, cst.ImportStar):
            if text in links:
                yield _Import("", links[text])
            continue
        for alias in node.names:
            name = alias.evaluated_name
            bound, whole = alias.evaluated_alias or name, f"{text}{'.' if text.strip('.') else ''}{name}"
            if whole in links:
                yield _Import(bound, links[whole])
            elif text in links:
                yield _Import(bound, links[text], name)
