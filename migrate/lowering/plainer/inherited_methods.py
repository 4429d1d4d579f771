"""Classes that are no modules and inherit from others, where objects of them have models or draw.

What a method is given depends on the object: on the class of its model, and on what the methods need that a subclass
defines. So the input is taken as if each class had the methods of its bases written out; one that `super()` reaches has
a name of its own there, and a base of which no object is made keeps what is abstract alone. What comes out alike is the
base's again in the output (`methods_of_bases.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import libcst as cst
from libcst.metadata import CodeRange

from migrate.known.qualified import file_of, inside, snake_case, spelled
from migrate.known.script import Script, followed
from migrate.lowering.plainer.copied_input import Anew, Edits, Placing, edited
from migrate.lowering.plainer.handed_on import spelled_out
from migrate.lowering.plainer.imports_of_bases import imports_of, with_imports
from migrate.lowering.rounds import Input
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Statement
from migrate.syntax.walking import every

_ABSTRACT = {"abstractmethod", "abc.abstractmethod"}


class _Unclear(Exception):
    """What a class inherits cannot be told."""


@dataclass
class _Class:
    """A class of the project: its definition, the class that it inherits from, if any, and its methods. reaches: which
    methods of other classes each of them calls by `super()`."""

    name: str
    node: cst.ClassDef
    base: str = ""
    methods: dict[str, cst.FunctionDef] = field(default_factory=dict)
    reaches: dict[str, set[tuple[str, str]]] = field(default_factory=dict)

    @property
    def body(self) -> list[Statement]:
        """The statements of its definition."""
        return suites.suite_of(self.node.body.body)


_Family = Mapping[str, _Class]  # a class that inherits from no other, and those that inherit from it; bases first


def with_inherited_methods(inputs: Sequence[Input], script: Script) -> list[Input] | None:
    """The files of a project with the methods that classes inherit written out; None where there is nothing to do."""
    files = {one.scope: one for one in inputs}
    positions = {one.scope: dict(one.source.positions) for one in inputs}
    edits = {one.scope: Edits() for one in inputs}
    lines: dict[str, list[cst.SimpleStatementLine]] = {one.scope: [] for one in inputs}
    inherited: dict[str, tuple[str, str]] = {}
    inheriting: dict[str, tuple[str, ...]] = {}
    for family in _families(inputs, script):
        made = {name for name in family if _is_made(name, family, inputs)}
        try:
            for one in family.values():
                _reach_bases(one, family, positions[file_of(one.name)])
            taken = {name: _taken(name, family) for name in made}
            outer = {name: _of_other_files(name, taken[name], family) for name in made}
            needed = {name: imports_of(files, script, name, methods) for name, methods in outer.items()}
        except (_Unclear, LookupError):
            continue
        for name, one in family.items():
            file = file_of(name)
            lines[file] += [line for line in needed.get(name, []) if not any(map(line.deep_equals, lines[file]))]
            copies = {
                alias: _copy(family[cls].methods[method], alias, positions[file])
                for alias, (cls, method) in taken.get(name, {}).items()
            }
            edits[file].instead[one.node] = [_written_out(one, list(copies.values()), whole=name in made)]
            inherited |= {f"{name}.{alias}": origin for alias, origin in taken.get(name, {}).items()}
            inheriting[name] = tuple(one.methods)
    if not inheriting:
        return None
    made_inputs: list[Input] = []
    for one in inputs:
        source = edited(replace(one.source, positions=positions[one.scope]), edits[one.scope])
        changed = with_imports(one, source, lines[one.scope], inputs)
        made_inputs.append(replace(changed, inherited=inherited, inheriting=inheriting))
    return made_inputs


# -- classes and their bases ------------------------------------------------------------------------------------------


def _families(inputs: Sequence[Input], script: Script) -> Iterator[_Family]:
    """The families of classes with state that have no other bases, but for those that this has been done to."""
    nodes_of = {inside(one.scope, node.name.value): node for one in inputs for node in _top_level(one)}
    bases = {name: _base_of(name, node, nodes_of.keys(), script) for name, node in nodes_of.items()}
    roots = {name: root for name in nodes_of if (root := _root(name, bases)) is not None}
    for root in dict.fromkeys(roots.values()):
        members = sorted((name for name in roots if roots[name] == root), key=lambda name: len(_line(name, bases)))
        family = {name: _Class(name, nodes_of[name], bases[name] or "") for name in members}
        if len(family) > 1 and not script.inheriting.keys() & family.keys() and _has_state(family, script):
            yield family


def _top_level(one: Input) -> list[cst.ClassDef]:
    """The classes of a file, but for those of which there are several of one name."""
    found = [each for each in one.source.module.body if isinstance(each, cst.ClassDef)]
    times = Counter(each.name.value for each in found)
    return [each for each in found if times[each.name.value] == 1]


def _base_of(name: str, node: cst.ClassDef, known: Any, script: Script) -> str | None:
    """The class of the project that a class inherits from, "" where it has none; None where it has others as well."""
    given = [arg.value for arg in node.bases if arg.keyword is None and nodes.dotted(arg.value) not in usage.ROOTS]
    if not given:
        return ""
    written = nodes.dotted(given[0]) or ""
    base = inside(*followed(script.taken_from, (file_of(name), written)))
    return base if len(given) == 1 and base in known else None


def _line(name: str, bases: Mapping[str, str | None]) -> list[str]:
    """A class and those that it inherits from, nearest first."""
    line = [name]
    while (base := bases.get(line[-1])) and base not in line:
        line.append(base)
    return line


def _root(name: str, bases: Mapping[str, str | None]) -> str | None:
    line = _line(name, bases)
    return line[-1] if bases.get(line[-1]) == "" else None


def _has_state(family: _Family, script: Script) -> bool:
    """Whether objects of a class of the family have models, or draw."""
    return any(script.keeps_state(name) or usage.works_on_models(one.node) for name, one in family.items())


def _bases_of(name: str, family: _Family) -> list[_Class]:
    """The classes that one inherits from, nearest first."""
    return [family[each] for each in _line(name, {each: one.base for each, one in family.items()})[1:]]


def _is_made(name: str, family: _Family, inputs: Sequence[Input]) -> bool:
    """Whether there may be objects of a class itself: it is more than a base of others."""
    if not any(one.base == name for one in family.values()):
        return True
    own = spelled(name)
    modules = [one.source.module for one in inputs]
    mentioned = [each for module in modules for each in every(module, cst.Name) if each.value == own]
    aside = {id(each) for module in modules for each in _in_passing(module)}
    renamed = [each for module in modules for each in every(module, cst.ImportAlias) if each.asname is not None]
    return any(id(each) not in aside for each in mentioned) or any(each.evaluated_name == own for each in renamed)


def _in_passing(module: cst.Module) -> Iterator[cst.CSTNode]:
    """Names that make no object of a class: those of definitions and imports, bases, annotations, tests of types,
    `super(Base, self)`, and what is asked for an attribute of its own."""
    for one in every(module, (cst.ClassDef, cst.ImportAlias, cst.Annotation, cst.Attribute, cst.Call)):
        if isinstance(one, cst.ClassDef):
            yield one.name
            yield from (arg.value for arg in one.bases)
        elif isinstance(one, cst.ImportAlias | cst.Annotation):
            yield from every(one, cst.Name)
        elif isinstance(one, cst.Attribute):
            yield one.value
        elif isinstance(one, cst.Call) and nodes.dotted(one.func) in ("isinstance", "issubclass", "super"):
            yield from (name for arg in one.args for name in every(arg, cst.Name))


# -- what is inherited ------------------------------------------------------------------------------------------------


def _reach_bases(one: _Class, family: _Family, positions: dict[cst.CSTNode, CodeRange]) -> None:
    """Notes the methods of a class, with `super()` in them by the names of what it reaches."""
    methods = [each for each in one.body if isinstance(each, cst.FunctionDef)]
    own = {each.name.value: each for each in methods}
    private = [name for name in usage.attributes(one.node) if name.startswith("__") and not name.endswith("__")]
    if len(own) != len(methods) or private:
        raise _Unclear
    for name, method in own.items():
        reaching = _Reaching(method, _bases_of(one.name, family), positions)
        one.methods[name] = nodes.visited(method, reaching)
        one.reaches[name] = reaching.found
        first = [each.name.value for each in method.params.params[:1]]
        if "super" in usage.loads(one.methods[name].body) or (reaching.found and first != ["self"]):
            raise _Unclear


def _alias(cls: str, method: str) -> str:
    """What a method is called beside the one that overrides it: `_trainer_init`."""
    return f"_{snake_case(spelled(cls))}_{method.strip('_')}"


def _taken(name: str, family: _Family) -> dict[str, tuple[str, str]]:
    """What a class has from others, by the names that it gets there: the class and the method."""
    bases = _bases_of(name, family)
    here = set(family[name].methods)
    found: dict[str, tuple[str, str]] = {}
    for base in bases:
        found |= {method: (base.name, method) for method in base.methods if method not in found.keys() | here}
    reached = [(name, method) for method in here] + list(found.values())
    for cls, method in reached:
        for target in sorted(family[cls].reaches[method]):
            if found.setdefault(_alias(*target), target) != target or _alias(*target) in here:
                raise _Unclear
            reached += [target] if target not in reached else []
    return found


def _of_other_files(
    name: str, taken: Mapping[str, tuple[str, str]], family: _Family
) -> dict[str, list[cst.FunctionDef]]:
    """The methods that a class has from classes of other files, by these."""
    found: dict[str, list[cst.FunctionDef]] = {}
    for cls, method in taken.values():
        if file_of(cls) != file_of(name):
            found.setdefault(cls, []).append(family[cls].methods[method])
    return found


class _Reaching(Placing):
    """Calls the methods of bases by the names that they have in the class."""

    def __init__(
        self, method: cst.FunctionDef, bases: Sequence[_Class], positions: dict[cst.CSTNode, CodeRange]
    ) -> None:
        super().__init__(positions)
        self.method, self.bases = method, bases
        self.found: set[tuple[str, str]] = set()

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> Any:
        small = original_node.body[0]
        name, _ = self._called(small.value) if isinstance(small, cst.Expr) else ("", [])
        return cst.RemoveFromParent() if name == "__init__" and self._owner(name) is None else updated_node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        name, _ = self._called(original_node)
        owner = self._owner(name)
        if owner is None:
            return updated_node
        self.found.add((owner.name, name))
        _, args = self._called(updated_node)
        return updated_node.with_changes(func=nodes.expression(f"self.{_alias(owner.name, name)}"), args=args)

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        if original_node is not self.method:
            return updated_node
        for cls, name in sorted(self.found):
            theirs = next(base.methods[name] for base in self.bases if base.name == cls)
            updated_node = spelled_out(updated_node, f"self.{_alias(cls, name)}", theirs)
        return updated_node

    def _called(self, node: cst.CSTNode) -> tuple[str, Sequence[cst.Arg]]:
        """The method of a base that is called, "" where none is, and what it is given."""
        if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
            return "", []
        of, name = node.func.value, node.func.attr.value
        if isinstance(of, cst.Call) and nodes.dotted(of.func) == "super":
            return name, node.args
        by_name = nodes.dotted(of) in {spelled(base.name) for base in self.bases[:1]}
        given = by_name and bool(node.args) and nodes.dotted(node.args[0].value) == "self"
        return (name, node.args[1:]) if given else ("", [])

    def _owner(self, method: str) -> _Class | None:
        return next((base for base in self.bases if method in base.methods), None)


# -- classes with what they inherit -----------------------------------------------------------------------------------


def _copy(method: cst.FunctionDef, name: str, positions: dict[cst.CSTNode, CodeRange]) -> cst.FunctionDef:
    """A method of another class, after a blank line."""
    made = nodes.visited(method.with_changes(name=nodes.name(name)), Anew(positions))
    lines = made.leading_lines
    spaced = made if lines and lines[0].comment is None else made.with_changes(leading_lines=[suites.BLANK, *lines])
    if method in positions:
        positions[spaced] = positions[method]
    return spaced


def _written_out(one: _Class, copies: Sequence[cst.FunctionDef], whole: bool) -> cst.ClassDef:
    """A class with what it inherits; one of which there are no objects keeps what is abstract, and no methods else."""
    body: list[Statement] = []
    for statement in one.body:
        method = one.methods[statement.name.value] if isinstance(statement, cst.FunctionDef) else None
        if method is None:
            body += [] if copies and suites.is_pass(statement) else [statement]
        elif whole or is_abstract(method):
            body.append(method)
    return one.node.with_changes(body=suites.block_of(one.node.body, [*body, *copies]))


def is_abstract(method: cst.FunctionDef) -> bool:
    """Whether subclasses have to define a method."""
    marked = any(nodes.dotted(each.decorator) in _ABSTRACT for each in method.decorators)
    said = [each for each in suites.suite_of(method.body.body) if not suites.is_docstring(each)]
    return marked or (len(said) == 1 and suites.first_line(said[0]).startswith("raise NotImplementedError"))
