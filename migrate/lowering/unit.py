"""What the lowering carries along: the unit being converted, and the environment of one scope."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import libcst as cst

from migrate.diagnostics import Diagnostic, Unsupported
from migrate.files.borrowed import Borrowed
from migrate.files.imports import Written
from migrate.files.source import SourceFile
from migrate.known.kinds import UNKNOWN, Kind, Model, Never, Place, Plain, join
from migrate.known.qualified import either, options
from migrate.known.script import Script
from migrate.snippet_files import with_needs
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.per_parameter import lists_per_parameter
from migrate.syntax.walking import every

SNIPPETS = frozenset(path.stem for path in (Path(__file__).parents[1] / "snippets").glob("[!_]*.py"))


_GRADIENTS = re.compile(r"\.backward\(|(?<!autograd)\.grad\b(?!\s*=[^=])")
_FUNCTIONAL = re.compile(r"^[^#\n]*\bfunctional_call\b", re.MULTILINE)  # not in a comment


@dataclass(frozen=True)
class ToldMode:
    """A mode that is `on` where a flag holds, else `off`. `flag`: how that is written; `names`: those in it."""

    flag: str
    names: frozenset[str]
    on: str
    off: str


@dataclass
class Environment:
    """What is known at one point of a scope."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)  # names whose channels are last -> rank
    modes: dict[Place, str] = field(default_factory=dict)  # "train", "eval", "mixed"
    told: dict[Place, ToldMode] = field(default_factory=dict)  # of the mixed ones: what tells them
    definitions: dict[str, cst.BaseExpression] = field(default_factory=dict)  # names in terms of the scope's inputs
    outer: Environment | None = None
    shared: set[str] = field(default_factory=set)  # names of tensors that a caller or another name may see
    past: set[str] = field(default_factory=set)  # names of state dicts whose model has changed since
    left: dict[Place, frozenset[str]] = field(default_factory=dict)  # models -> classes that the tests around leave

    def copy(self) -> Environment:
        """A copy for a branch; what is further out is shared."""
        kinds, last, modes, told = dict(self.kinds), dict(self.last), dict(self.modes), dict(self.told)
        sets = set(self.shared), set(self.past)
        return Environment(kinds, last, modes, told, dict(self.definitions), self.outer, *sets, dict(self.left))

    def lookup(self, name: str) -> Kind | None:
        """The kind of a name here or further out; None where nothing binds it."""
        scope: Environment | None = self
        while scope is not None:
            if name in scope.kinds:
                return self._as_left(scope.kinds[name])
            scope = scope.outer
        return None

    def _as_left(self, kind: Kind) -> Kind:
        """A kind, of a model of several classes with those that are left here."""
        if not self.left or not isinstance(kind, Model) or kind.place is None:
            return kind
        left = [cls for cls in options(kind.cls) if cls in self.left.get(kind.place, options(kind.cls))]
        return replace(kind, cls=either(*left)) if left else kind

    def is_past(self, name: str) -> bool:
        """Whether a name stands for the weights that a model had before it was trained."""
        if name in self.kinds or self.outer is None:
            return name in self.past
        return self.outer.is_past(name)

    def join(self, other: Environment) -> None:
        """Covers both this environment and another one, after a branch."""
        for name, kind in other.kinds.items():
            mine = self.kinds.get(name, Never())
            empty = self.is_empty_dict(name), other.is_empty_dict(name)
            if empty[0] and name not in other.definitions:
                self.definitions.pop(name)  # it is filled on the other way
            self.kinds[name] = kind if empty[0] else mine if empty[1] else _joined(mine, kind)
        self.last = {name: rank for name, rank in self.last.items() if other.last.get(name) == rank}
        self.shared |= other.shared
        self.past |= other.past
        self.modes = joined_modes([self.modes, other.modes])
        self.told = {place: told for place, told in self.told.items() if other.told.get(place) == told}
        self.left = {place: left | other.left[place] for place, left in self.left.items() if place in other.left}

    def is_empty_dict(self, name: str) -> bool:
        """Whether a name stands for `{}`, which nothing has been put in."""
        written = self.definitions.get(name)
        return isinstance(written, cst.Dict) and not written.elements and self.kinds.get(name) == Plain("dict")

    def replace(self, other: Environment) -> None:
        """Goes back to another environment of the same scope."""
        self.kinds, self.last, self.modes, self.told = other.kinds, other.last, other.modes, other.told
        self.definitions, self.shared, self.past = other.definitions, other.shared, other.past
        self.left = other.left


def joined_modes(ways: Iterable[Mapping[Place, str]]) -> dict[Place, str]:
    """The modes of models where several ways meet."""
    made: dict[Place, str] = {}
    for modes in ways:
        for place, mode in modes.items():
            made[place] = mode if made.get(place, mode) == mode else "mixed"
    return made


def _joined(one: Kind, other: Kind) -> Kind:
    """What covers the kinds of a name on two ways. A model may have another class on each."""
    if isinstance(one, Model) and isinstance(other, Model) and one.place == other.place is not None:
        return one.or_of(other)
    return join(one, other)


@dataclass
class StaticParts:
    """The statements of a function that make masks which go by shapes alone, and the indices that are made of them."""

    statements: set[Statement] = field(default_factory=set)
    indices: set[cst.BaseExpression] = field(default_factory=set)


@dataclass
class Helper:
    """A function made for the output, placed before the top-level statement `anchor` of the input."""

    anchor: int
    name: str
    code: list[Statement]
    text: str


@dataclass
class Unit:
    """One file under conversion. Everything but `script` is forgotten between two rounds of lowering."""

    source: SourceFile
    script: Script
    scope: str = ""  # the name of its module scope; see `migrate.known.qualified`
    links: Mapping[str, str] = field(default_factory=dict)  # modules that it imports from the project -> their scopes
    unread: Mapping[str, str] = field(default_factory=dict)  # modules of the project that are not converted -> why
    library: str = ""  # the package that it is part of, where that is an installed library
    passed: Mapping[Written, str] = field(default_factory=dict)  # imports that go: the file that nothing is used of
    borrowed: Mapping[str, Borrowed] = field(default_factory=dict)  # names of installed packages -> where they are now
    others: dict[str, Unit] = field(default_factory=dict)  # every file of the project, by its module scope
    diagnostics: list[Diagnostic] = field(default_factory=list)
    static_masks: dict[tuple[int, str], StaticParts] = field(default_factory=dict)  # by function
    reads_values: bool = False  # the statement at hand makes Python numbers of a tensor
    snippets: dict[str, str] = field(default_factory=dict)  # name in the output -> snippet
    helpers: list[Helper] = field(default_factory=list)
    anchor: int = 0
    silent: int = 0
    trials: int = 0  # loops around that are lowered for what they make known
    taken: set[str] = field(default_factory=set)
    changing: frozenset[str] = frozenset()  # names and attributes that the file's training changes
    constants: set[str] = field(default_factory=set)
    settled: dict[str, int] = field(
        default_factory=dict
    )  # names of the module -> the last top-level statement to bind it
    graphs: set[str] = field(default_factory=set)  # those of them that are graphs of PyG's
    key: str = "key"
    imports_torch: bool = False
    imported: dict[str, str] = field(default_factory=dict)  # names from elsewhere -> what they are there
    own_methods: frozenset[str] = frozenset()  # of the project's own classes
    attached: dict[cst.CSTNode, cst.CSTNode] = field(default_factory=dict)  # code -> the code that gradients see
    refused: set[str] = field(default_factory=set)  # names that refused statements would have bound
    refused_reads: set[str] = field(default_factory=set)  # names that they read
    plain: dict[Statement, Statement] = field(default_factory=dict)  # statements in plain terms; kept between rounds
    lambdas: dict[cst.FunctionDef, cst.SimpleStatementLine] = field(default_factory=dict)  # functions of such lines
    choices: dict[cst.Call, Expr] = field(default_factory=dict)  # calls of what gives an argument or makes another
    spelled_out: dict[cst.Call, cst.Call] = field(default_factory=dict)  # calls of shorthands -> those of methods
    apart: dict[Statement, list[Statement]] = field(default_factory=dict)  # the same, of what becomes several
    objects_named: dict[str, set[str]] = field(default_factory=dict)  # scope -> names of objects that had none
    taken_gradients: dict[Statement, list[Statement]] = field(default_factory=dict)  # the same, see `TakenGradients`
    moving: set[Expr] = field(default_factory=set)  # parts of lists of layers that move their channels themselves
    rows: set[Expr] = field(default_factory=set)  # empty dicts that become rows of layers under names of their own
    pieces: dict[Statement, Statement] = field(default_factory=dict)  # parts of a line -> the line
    # containers and loops whose parts have names -> what stands for them and those after them; kept between rounds
    whole: dict[tuple[Statement | str, ...], list[Statement]] = field(default_factory=dict)
    # statements about members of lists, and what these are -> the statements with their names
    unrolled: dict[tuple[Statement, Any], list[Statement]] = field(default_factory=dict)
    named: dict[Statement, Statement] = field(default_factory=dict)  # backward() -> what gives its loss its own place
    precisions: dict[Statement, cst.BaseExpression | None] = field(default_factory=dict)  # of autocast around them

    @functools.cached_property
    def functional(self) -> bool:
        """Whether the project calls models with weights that it is given."""
        return any(_FUNCTIONAL.search(one.source.text) for one in (self, *self.others.values()))

    @functools.cached_property
    def per_parameter(self) -> frozenset[str]:
        """The names of lists that the file keeps beside the parameters of a model."""
        return lists_per_parameter(self.source.module)

    @functools.cached_property
    def takes_gradients(self) -> bool:
        """Whether it calls `torch.autograd.grad`, and the project does no more with `p.grad` than give it a value."""
        files = self.others.values() or [self]
        return "autograd" in self.source.text and not any(_GRADIENTS.search(one.source.text) for one in files)

    def is_of_methods(self, name: str) -> bool:
        """Whether a name is that of methods of classes and of nothing else here, so that a function may have it."""
        module = self.source.module
        lines = [line for cls in every(module, cst.ClassDef) for line in cls.body.body]
        methods = {line.name for line in lines if isinstance(line, cst.FunctionDef)}
        named = by_itself(module, name)
        return bool(named) and methods.issuperset(named)

    def own(self, wanted: str) -> str:
        """A name for what the output alone has: the wanted one, unless the script uses it."""
        return usage.unused_name(wanted, self.taken)

    def stands_for(self, made: Statement, original: Statement) -> None:
        """A statement that is lowered in place of one of the input stands at its place; in place of one that a pass has
        made, where its parts do."""
        if original in self.source.positions:
            self.source.positions[made] = self.source.positions[original]

    def at_place_of(self, foreign: cst.CSTNode, node: cst.CSTNode) -> None:
        """What another file says is here at the place of a node of this one."""
        if node in self.source.positions:
            own = dict.fromkeys(every(foreign, cst.CSTNode), self.source.positions[node])
            self.source.positions.update(
                {each: place for each, place in own.items() if each not in self.source.positions}
            )

    def report(self, error: Unsupported, node: cst.CSTNode) -> None:
        """Adds a finding at the place of a node of the input, unless lowering is `discarding`."""
        if self.silent:
            return
        line, column = self.source.place(node)
        text = self.source.line(line)
        self.diagnostics.append(Diagnostic(self.source.path, line, column, error.code, error.message, text))

    def use_snippet(self, name: str) -> None:
        """Asks for a snippet, with those that it needs; declines one whose name the script uses for something else."""
        for one in with_needs((name,)):
            if one in self.taken:
                self.script.clashing.setdefault(self.scope, set()).add(one)
                raise Unsupported("MIG302", f"the output needs a function called {one}, a name that the script uses")
            self.snippets[one] = one

    @contextlib.contextmanager
    def discarding(self) -> Iterator[None]:
        """Lowering inside is for what it learns only: findings and helpers are dropped."""
        helpers, snippets = len(self.helpers), dict(self.snippets)
        self.silent += 1
        try:
            yield
        finally:
            self.silent -= 1
            del self.helpers[helpers:]
            self.snippets = snippets

    @contextlib.contextmanager
    def trial(self) -> Iterator[None]:
        """The body of a loop is lowered here for what it makes known to its next turn."""
        self.trials += 1
        try:
            yield
        finally:
            self.trials -= 1

    def enable_x64(self) -> None:
        """Tells JAX, below the imports, to have 64-bit types."""
        body = self.source.module.body
        heads = (i for i, s in enumerate(body) if not (suites.is_import(s) or suites.is_docstring(s)))
        anchor, text = next(heads, len(body)), 'jax.config.update("jax_enable_x64", True)'
        if all(found.text != text for found in self.helpers):
            self.helpers.append(Helper(anchor, "", [nodes.statement(text)], text))

    def helper(self, wanted: str, make: Callable[[str], list[Statement]], text: str) -> str:
        """Adds a function to the output, or finds the same one; returns its name. `text` tells two of them apart: the
        whole function, without its name."""
        for found in self.helpers:
            if found.text == text:
                found.anchor = min(found.anchor, self.anchor)
                return found.name
        taken = self.taken - {wanted} if wanted in self.taken and self.is_of_methods(wanted) else self.taken
        name = usage.unused_name(wanted, {found.name for found in self.helpers} | taken)
        self.helpers.append(Helper(self.anchor, name, make(name), text))
        return name


def known(kind: Kind | None) -> Kind:
    """A kind that was looked up; UNKNOWN where there is none."""
    return UNKNOWN if kind is None else kind


def stays(test: cst.BaseExpression, why: str) -> Unsupported:
    """What is said of a branch that is not converted."""
    return Unsupported("MIG307", f"`{nodes.code(test)}` depends on the values of a tensor: {why}")
