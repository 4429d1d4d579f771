"""Definitions of a project that its scripts have no use for: `train.py` takes two functions of a `utils.py` of fifty.

What nothing calls cannot be told what it is given. A definition that no script names, nor anything that a script
names, and that could not be converted, is a stub in the output, and one note instead of a finding at each line. Where
there is very much of it, it is not tried: a script of ten lines would wait minutes for the library that it imports.

Methods are followed by their names, whatever they belong to: `step` of a class is used where any object's is.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from migrate.diagnostics import Diagnostic
from migrate.files.source import SourceFile
from migrate.lowering import Input
from migrate.lowering.plainer.copied_input import Edits, edited
from migrate.syntax import nodes, suites, usage
from migrate.syntax.imported import imported_names, module_written
from migrate.syntax.mentions import declared
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every, walk

CODE = "MIG511"
LONG = 1000  # lines of unused definitions in a file that are not converted: a second for each round of the lowering
_Definition = cst.FunctionDef | cst.ClassDef

# What finds definitions that nobody names.
_BY_NAME = re.compile(r"\b(importlib|__import__|__subclasses__|__init_subclass__|metaclass|pkgutil|getmembers)\b")
_SCOPES = frozenset({"globals", "locals", "vars", "exec", "eval", "dir"})
_BASES = frozenset({"object", "nn.Module", "torch.nn.Module", "Module", "ABC", "abc.ABC"})
_OF_MODULES = frozenset(
    {"forward", "train", "eval", "apply", "extra_repr", "state_dict", "load_state_dict", "parameters", "children"}
    | {"named_parameters", "modules", "named_modules", "named_children", "buffers", "to", "cuda", "cpu", "zero_grad"}
)  # what torch calls by itself, or is called on any module
_HARMLESS = ("torch.", "functools.", "typing.", "abc.", "staticmethod", "classmethod", "property", "abstractmethod")
_KEPT_DECORATORS = frozenset({"staticmethod", "classmethod", "property"})


@dataclass(frozen=True)
class Unused:
    """A definition that nothing uses, of a file; in a class where that is used and one method of it is not."""

    scope: str
    node: _Definition | cst.If
    owner: str = ""

    @property
    def name(self) -> str:
        """As messages show it."""
        if isinstance(self.node, cst.If):
            return nodes.code(self.node.test)
        return f"{self.owner}.{self.node.name.value}" if self.owner else self.node.name.value


def unused_definitions(inputs: Sequence[Input], scripts: Iterable[str]) -> list[Unused]:
    """The definitions that the scripts, given by their scopes, do not name, nor anything that they name. None where
    code looks names up that are only known as it runs."""
    named = frozenset(scripts)
    others = [one for one in inputs if one.scope not in named]
    if not others or any(_BY_NAME.search(one.source.text) for one in inputs):
        return []
    uses = _Uses({one.scope: one for one in inputs})
    for one in inputs:
        uses.imported = _imported(one)
        if one.scope in named:
            uses.own = _own_names(one.source.module, uses.imported)
            uses.read(one.source.module)
            uses.own = frozenset()
            continue
        for statement in suites.suite_of(one.source.module.body):
            if suites.as_script(statement) is None and not _is_export(statement):
                uses.defined(statement, one)
    uses.follow()
    return [] if uses.anything else [found for one in others for found in _left(one, uses)]


def _left(one: Input, uses: _Uses) -> Iterator[Unused]:
    for statement in suites.suite_of(one.source.module.body):
        if suites.as_script(statement) is not None:
            assert isinstance(statement, cst.If)
            yield Unused(one.scope, statement)
        elif isinstance(statement, _Definition) and not uses.has(statement):
            yield Unused(one.scope, statement)
        elif isinstance(statement, cst.ClassDef):
            yield from (
                Unused(one.scope, method, statement.name.value)
                for method in _methods(statement)
                if not uses.has(method, method=True)
            )


@dataclass
class _Uses(cst.CSTVisitor):
    """The names that what is used reads, as far as they have been followed."""

    files: Mapping[str, Input]  # by their scopes
    names: set[str] = field(default_factory=set)  # of what lies at the top of files
    attributes: set[str] = field(default_factory=set)
    waiting: list[tuple[_Definition, _Imported, bool]] = field(default_factory=list)
    imported: _Imported = field(default_factory=lambda: _Imported())  # by the file at hand
    own: frozenset[str] = frozenset()  # names that the functions around bind themselves
    anything: bool = False
    any_method: bool = False
    kept: set[cst.CSTNode] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def has(self, node: _Definition, method: bool = False) -> bool:
        """Whether a definition is used."""
        name = node.name.value
        return node in self.kept or name in self.names or (method and (name in self.attributes or self.any_method))

    def read(self, node: cst.CSTNode) -> None:
        """Takes in the names that some code reads."""
        walk(node, self)

    def defined(self, statement: Statement, one: Input) -> None:
        """A statement of a file that is only imported: what it defines is used once it is named."""
        if not isinstance(statement, _Definition):
            return self.read(statement)
        for decorator in statement.decorators:
            self.read(decorator.decorator)
            if not _harmless(decorator):
                self.kept.add(statement)
        if isinstance(statement, cst.FunctionDef):
            for parameter in every(statement.params, cst.Param):
                if parameter.default is not None:
                    self.read(parameter.default)
        self.waiting.append((statement, self.imported, False))
        return None

    def follow(self) -> None:
        """Goes on to what is named until nothing new is."""
        while found := [one for one in self.waiting if self.has(one[0], one[2])]:
            self.waiting = [one for one in self.waiting if one not in found]
            for node, self.imported, _ in found:
                if isinstance(node, cst.FunctionDef):
                    self.read(node)
                    continue
                methods = _methods(node)
                for part in [*node.bases, *node.keywords, *suites.suite_of(node.body.body)]:
                    if part not in methods:
                        self.read(part)
                self.waiting += [(method, self.imported, True) for method in methods]

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:
        outer = self.own
        parameters = [parameter.name.value for parameter in every(node.params, cst.Param)]
        for part in (node.params, *node.decorators):
            self.read(part)
        self.own |= {*parameters, *usage.stores(node.body)} - _taken_in(node)
        self.read(node.body)
        self.own = outer
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.names |= {node.value} - self.own
        self.anything |= node.value in self.imported.modules.keys() - self.own  # whatever it has may be asked elsewhere

    def visit_Arg(self, node: cst.Arg) -> bool:
        walk(node.value, self)
        return False

    def visit_Param(self, node: cst.Param) -> bool:
        for part in (node.default, node.annotation):
            if part is not None:
                walk(part, self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return not isinstance(node.target, cst.Name)

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        for alias in () if isinstance(node.names, cst.ImportStar) else node.names:
            if alias.asname is not None:
                self.names.add(nodes.code(alias.name))
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        self.attributes.add(node.attr.value)
        root = nodes.dotted(nodes.root(node)) or ""
        if "*" in self.imported.names or root in self.imported.names:
            self.names.add(node.attr.value)
        if nodes.dotted(node.value) is None or root not in self.imported.modules:
            self.read(node.value)
        else:
            self.names |= set((nodes.dotted(node.value) or "").split("."))
        if node.attr.value == "__dict__" and nodes.code(node.value) != "self":  # whose methods are in its class
            self._looked_up_in(node.value)
        return False

    def visit_Call(self, node: cst.Call) -> bool:
        called, args = nodes.dotted(node.func), node.args
        told = nodes.literal(args[1].value) if called == "getattr" and len(args) > 1 else None
        if isinstance(told, str):
            self.names.add(told)
            self.attributes.add(told)
        elif (called == "getattr" and len(args) > 1) or (called in _SCOPES and args):
            if self._looked_up_in(args[0].value):
                for arg in args[1:]:
                    self.read(arg)
                return False
            self.names |= self.imported.names if called in _SCOPES else set()
        elif called in _SCOPES:
            self.names |= self.imported.names
            self.anything |= "*" in self.imported.names
        return True

    def _looked_up_in(self, node: cst.BaseExpression) -> bool:
        """Whatever an object has may be asked of it; of a file that is imported, what it binds. Whether it is one."""
        scope = self.imported.modules.get(nodes.code(node))
        file = None if scope is None else self.files.get(scope)
        told = None if file is None else _looked_up(file)
        if told is not None:
            self.names |= told
            return True
        if self._made_elsewhere(node):
            return False
        self.any_method = True
        self.anything |= nodes.dotted(nodes.root(node)) in self.imported.names
        return False

    def _made_elsewhere(self, node: cst.BaseExpression) -> bool:
        """Whether an attribute holds nothing but objects that another package makes, whose methods are its own:
        `self.vis = visdom.Visdom()`."""
        if not isinstance(node, cst.Attribute):
            return False
        made: list[bool] = []
        for one in self.files.values():
            imported, own = imported_names(one.source.module), _imported(one).names
            for line in every(one.source.module, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
                if node.attr.value in usage.attributes_assigned(line):
                    func = line.value.func if isinstance(line.value, cst.Call) else None
                    root = nodes.dotted(nodes.root(func)) if func is not None else None
                    made.append(root in imported and root not in own and "*" not in own)
        return bool(made) and all(made)


def _own_names(script: cst.Module, imported: _Imported) -> frozenset[str]:
    """The names that a script binds itself, and never imports: those of other files are no use of them."""
    taken = {name for each in every(script, (cst.Import, cst.ImportFrom)) for name in usage.stores(each)}
    return frozenset() if "*" in imported.names else frozenset(usage.stores(script)) - taken - imported.names


def _taken_in(node: cst.FunctionDef) -> set[str]:
    """Names that a function has from elsewhere, though it binds them: it imports them, or says they are global."""
    return {name for each in every(node.body, cst.ImportFrom) for name in usage.stores(each)} | declared(node.body)


def _methods(node: cst.ClassDef) -> list[cst.FunctionDef]:
    """The methods of a class that are not used unless somebody names them; none where another package may call them."""
    if any(nodes.dotted(base.value) not in _BASES for base in node.bases) or node.keywords:
        return []
    return [
        method
        for method in suites.suite_of(node.body.body)
        if isinstance(method, cst.FunctionDef)
        and not method.name.value.startswith("__")
        and method.name.value not in _OF_MODULES
        and all(map(_harmless, method.decorators))
    ]


def _harmless(decorator: cst.Decorator) -> bool:
    """Whether a decorator enters what it decorates nowhere else."""
    made = decorator.decorator
    name = nodes.dotted(made.func if isinstance(made, cst.Call) else made) or ""
    return name.startswith(_HARMLESS) or name.endswith((".setter", ".getter")) or name == "dataclass"


def _is_export(statement: cst.CSTNode) -> bool:
    """Whether a statement sets `__all__`."""
    return nodes.code(statement).lstrip().startswith("__all__")


@dataclass(frozen=True)
class _Imported:
    """The names that a file imports from the project: all of them, "*" for whatever a module has, and the modules."""

    names: frozenset[str] = frozenset()
    modules: Mapping[str, str | None] = field(
        default_factory=dict
    )  # scopes of their files by the names that are bound; None: of another


def _imported(one: Input) -> _Imported:
    links = {link: scope for link, scope in one.links.items() if link}
    names, modules = set[str](), dict[str, str | None]()
    for node in every(one.source.module, (cst.Import, cst.ImportFrom)):
        text = module_written(node) if isinstance(node, cst.ImportFrom) else ""
        if isinstance(node.names, cst.ImportStar):
            names |= {"*"} if text in links else set()
            continue
        for alias in node.names:
            name = nodes.code(alias.name)
            whole = f"{text}{'' if not text or text.endswith('.') else '.'}{name}"
            if text in links or whole in links:
                bound = nodes.code(alias.asname.name) if alias.asname else name.split(".")[0]
                names.add(bound)
                named = bool(alias.asname) or "." not in name  # `import a.b` binds a
                modules |= {bound: links[whole] if named else None} if whole in links else {}
    return _Imported(frozenset(names), modules)


def _looked_up(one: Input) -> frozenset[str] | None:
    """What a name that is told as the program runs may find in a file; None where that is whole other files."""
    imported, bound = _imported(one), set[str]()
    for statement in suites.suite_of(one.source.module.body):
        bound |= {statement.name.value} if isinstance(statement, _Definition) else set(usage.stores(statement))
    return None if imported.modules or "*" in imported.names else frozenset(bound)


# -- what stands for them ---------------------------------------------------------------------------------------------


def stubs_untried(inputs: Sequence[Input], scripts: Collection[str]) -> list[Stub]:
    """The definitions that scripts have no use for and that have to do with torch, of the files in which such come to
    LONG lines or more: whether they could be converted is not asked."""
    made: list[Stub] = []
    if all(len(one.source.lines) < LONG for one in inputs if one.scope not in scripts):
        return made
    unused = unused_definitions(inputs, scripts)
    for one in inputs:
        of_torch = _of_torch([each for each in unused if each.scope == one.scope], one.source.module)
        if sum(_lines(one.source, each.node) for each in of_torch) >= LONG:
            made += [Stub(each, one.source) for each in of_torch]
    return made


def _of_torch(unused: Sequence[Unused], module: cst.Module) -> list[Unused]:
    """Those that name torch, or such a one."""
    words = {one.node: {name.value for name in every(one.node, cst.Name)} for one in unused}
    named = {name for name, whole in imported_names(module).items() if whole.startswith("torch")}
    found: list[Unused] = []
    while more := [one for one in unused if one not in found and words[one.node] & named]:
        found += more
        named |= {one.node.name.value for one in more if isinstance(one.node, _Definition)}
    return [one for one in unused if one in found]


def stubs(unused: Sequence[Unused], found: Mapping[str, Sequence[Diagnostic]], inputs: Sequence[Input]) -> list[Stub]:
    """Those that could not be converted, by the findings in the files. found: by scope."""
    sources = {one.scope: one.source for one in inputs}
    made = []
    for one in unused:
        inside = [error for error in found.get(one.scope, ()) if _inside(sources[one.scope], one.node, error)]
        if inside:
            made.append(Stub(one, sources[one.scope], inside))
    return made


@dataclass(frozen=True)
class Stub:
    """What is left of a definition that nothing uses, with the findings in it: none where it was not tried."""

    of: Unused
    source: SourceFile
    found: Sequence[Diagnostic] = ()

    @property
    def note(self) -> Diagnostic:
        """What is said of it."""
        first, others = min(self.found), len(self.found) - 1
        more = f", and {others} more" if others else ""
        return _said_of(self, f"{self.of.name}: line {first.line}: {first.code} {first.message}{more}")


def notes_of(made: Sequence[Stub]) -> list[Diagnostic]:
    """What is said of stubs: one note for each, and one for all of a file that were not tried."""
    untried: dict[str, list[Stub]] = {}
    for stub in made:
        if not stub.found:
            untried.setdefault(stub.of.scope, []).append(stub)
    return [*(stub.note for stub in made if stub.found), *map(_untried_note, untried.values())]


def _untried_note(made: Sequence[Stub]) -> Diagnostic:
    lines = sum(_lines(stub.source, stub.of.node) for stub in made)
    said = f"{made[0].of.name} and {len(made) - 1} more, {lines:,} lines in all, were not tried"
    return _said_of(made[0], f"{said}: name this file as well to have all of it converted")


def _said_of(stub: Stub, said: str) -> Diagnostic:
    line, column = stub.source.place(stub.of.node)
    return Diagnostic(stub.source.path, line, column, CODE, said, stub.source.line(line))


def with_stubs(inputs: Sequence[Input], made: Sequence[Stub]) -> list[Input]:
    """The files with stubs in place of definitions."""
    return [replace(one, source=_stubbed(one, made)) if _of(one, made) else one for one in inputs]


def _of(one: Input, made: Sequence[Stub]) -> list[Unused]:
    return [stub.of for stub in made if stub.of.scope == one.scope]


def _stubbed(one: Input, made: Sequence[Stub]) -> SourceFile:
    return edited(one.source, Edits(instead={unused.node: [_stub(unused.node)] for unused in _of(one, made)}))


def _stub(node: _Definition | cst.If) -> Statement:
    """What raises an error where it is used after all."""
    raising = suites.block([nodes.statement(f'raise NotImplementedError("{CODE}: the program did not use this")')])
    if isinstance(node, cst.If):
        return node.with_changes(body=raising, orelse=None)
    if isinstance(node, cst.ClassDef):
        method = nodes.statements("def __init__(self, *args, **kwargs):\n    pass")[0]
        assert isinstance(method, cst.FunctionDef)
        body = suites.block([method.with_changes(body=raising)])
        bare = cst.MaybeSentinel.DEFAULT
        return node.with_changes(bases=[], keywords=[], lpar=bare, rpar=bare, decorators=[], body=body)
    kept = [one for one in node.decorators if nodes.dotted(one.decorator) in _KEPT_DECORATORS]
    return node.with_changes(decorators=kept, params=_parameters(node), returns=None, body=raising)


def _parameters(node: cst.FunctionDef) -> cst.Parameters:
    """The parameters as they are, where what they start from is written out."""
    given = list(every(node.params, cst.Param))
    if all(one.default is None or isinstance(nodes.literal(one.default), _WRITTEN_OUT) for one in given):
        return node.params
    star, stars = cst.Param(nodes.name("args")), cst.Param(nodes.name("kwargs"))
    return cst.Parameters(star_arg=star, star_kwarg=stars)


_WRITTEN_OUT = (bool, int, float, str, tuple, list)


def _inside(source: SourceFile, node: cst.CSTNode, found: Diagnostic) -> bool:
    place = source.positions.get(node)
    return place is not None and place.start.line <= found.line <= place.end.line


def _lines(source: SourceFile, node: cst.CSTNode) -> int:
    place = source.positions.get(node)
    return 0 if place is None else place.end.line - place.start.line + 1
