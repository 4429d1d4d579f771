"""What a file does with the one model of a class that keeps a state: each call gives it that, and takes the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.lowering.plainer.body_at_call import INNER, given_to, is_sure
from migrate.lowering.plainer.copied_input import Edits, Exchanging
from migrate.lowering.plainer.object_sites import binds
from migrate.lowering.plainer.state_kept import KeptState, leaves, with_states
from migrate.syntax import nodes, suites, usage
from migrate.syntax.mentions import by_itself
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

Scope = tuple[cst.CSTNode, ...]  # the functions and classes around something, outer ones first
_SHOWING = ("print", "str", "repr", "type", "isinstance", "hasattr", "torch.save", "summary", "id")  # do not call it


@dataclass(frozen=True)
class Place:
    """A statement of a file: what is around it, and where it stands in each block around it."""

    scope: Scope
    chain: tuple[tuple[Sequence[cst.CSTNode], int], ...]
    line: Statement

    def comes_after(self, other: Place) -> bool:
        """Whether another statement of a block around this one has surely run before."""
        (block, number) = other.chain[-1]
        return other.scope == self.scope and any(each is block and at > number for each, at in self.chain)

    def since(self, other: Place) -> Sequence[cst.CSTNode]:
        """The statements after one that comes before this one, up to that of its block which has this one in it."""
        block, number = other.chain[-1]
        return block[number + 1 : next(at for each, at in self.chain if each is block)]


def places(
    body: Sequence[cst.CSTNode], scope: Scope = (), chain: tuple[tuple[Sequence[cst.CSTNode], int], ...] = ()
) -> Iterator[Place]:
    """The statements of a block, and those of the blocks in it."""
    statements = suites.suite_of(body)
    for number, line in enumerate(statements):
        here = (*chain, (statements, number))
        yield Place(scope, here, line)
        inner = isinstance(line, INNER)
        for block in every(line, cst.BaseSuite, closed=(cst.BaseSuite,)):
            yield from places(block.body, (*scope, line) if inner else scope, () if inner else here)


@dataclass
class StateInCalls:
    """The calls of a model in the statements of a file. `names`: the variables for its states; `taken`: the names that
    the file has."""

    kept: KeptState
    module: cst.Module
    places: Sequence[Place]
    names: Mapping[str, str]
    taken: set[str]
    edits: Edits = field(default_factory=Edits)
    running: set[str] = field(default_factory=set)  # the functions that call it
    between: list[Sequence[cst.CSTNode]] = field(default_factory=list)  # what runs after a reset, before the call

    def follow(self, model: str, scope: Scope) -> bool | None:
        """Writes all uses of the model, under each name that functions have for it. Whether its states are set before
        each call, by the same function; None where a use is not understood."""
        waiting, seen, always = [(model, scope)], list[tuple[str, Scope]](), True
        while waiting:
            seen.append(waiting.pop())
            found = _Named(self, *seen[-1]).follow()
            if found is None:
                return None
            given, reset = found
            always = always and reset
            waiting += [one for one in given if one not in seen + waiting]
        disturbed = any(_calls_any(one, self.running) for block in self.between for one in block)
        return None if disturbed or (len(seen) > 1 and not always) else always


@dataclass
class _Named:
    """The same under one name, `model`, that a function of `scope`, or the file, has for it."""

    whole: StateInCalls
    model: str
    scope: Scope

    def follow(self) -> tuple[list[tuple[str, Scope]], bool] | None:
        """The names that functions have for the model which this one gives it to, and whether its states are always set
        before; None where a use is not understood."""
        known, given = self._known(), list[tuple[str, Scope]]()
        if known is None:
            return None
        uses: list[tuple[Place, cst.Call]] = []
        resets: list[Place] = []
        mine: list[Place] = []
        met: set[int] = set()
        for place in self.whole.places:
            parts = suites.evaluated(place.line)
            named = {id(name) for part in parts for name in every(part, cst.Name)} & known
            if not named:
                continue
            met |= named
            mine.append(place)
            calls = [call for part in parts for call in usage.calls(part)]
            own = [one for one in calls if nodes.dotted(one.func) in (self.model, f"{self.model}.forward")]
            handed = [self._given(call) for call in calls]
            plain = isinstance(place.line, cst.SimpleStatementLine)
            if None in handed or not self._only_used(parts, named) or len(own) > (1 if plain else 0):
                return None
            given += [one for names in handed if names is not None for one in names]
            resets += [place] if self._resets(place) else []
            uses += [(place, call) for call in own]
        if met != known:
            return None  # the others stand where they are not gone into
        before = {id(use): [one for one in resets if use.comes_after(one)] for use, _ in uses}
        always = all(before.values())
        if any(place.scope != self.scope for place in [*resets, *(use for use, _ in uses)]) and not always:
            return None
        self.whole.running |= {f.name.value for use, _ in uses for f in use.scope if isinstance(f, cst.FunctionDef)}
        self.whole.between += [use.since(before[id(use)][-1]) for use, _ in uses if before[id(use)]]
        if not all(self._write(place, call) for place, call in uses):
            return None
        self._write_mentions(mine)
        return given, always

    def _known(self) -> set[int] | None:
        """The places of the name; None where it is bound again."""
        around = self.scope[-1] if self.scope and isinstance(self.scope[-1], cst.FunctionDef) else self.whole.module
        hidden = [one for one in every(around, cst.FunctionDef) if one is not around and binds(one, self.model)]
        aside = {id(name) for one in hidden for name in every(one, cst.Name)}
        params = every(around.params, cst.Param) if isinstance(around, cst.FunctionDef) else ()
        parameter = self.model in {one.name.value for one in params}
        if usage.stores(around.body).count(self.model) != (0 if parameter else 1):
            return None
        within = around.body if isinstance(around, cst.FunctionDef) else around
        return {id(name) for name in by_itself(within, self.model)} - aside

    @staticmethod
    def _only_used(parts: Sequence[cst.CSTNode], named: set[int]) -> bool:
        """Whether code calls the model, asks it for something or gives it away, and has no other name for it."""
        plain: set[int] = set()
        for part in parts:
            calls = usage.calls(part)
            plain |= {id(one.value) for one in every(part, cst.Attribute)} | {id(call.func) for call in calls}
            plain |= {id(arg.value) for call in calls for arg in call.args}
            plain |= {id(leaf) for one in every(part, cst.AssignTarget) for leaf in leaves(one.target)}
        return named <= plain

    def _given(self, call: cst.Call) -> list[tuple[str, Scope]] | None:
        """The names under which functions of the file have the model that a call gives them, if that is their one call;
        None where what is called may do anything with it."""
        if not any(nodes.dotted(arg.value) == self.model for arg in call.args):
            return []
        name = nodes.dotted(call.func) or ""
        functions = {one.name.value: one for one in self.whole.module.body if isinstance(one, cst.FunctionDef)}
        if name not in functions:
            return [] if name in _SHOWING else None
        taken = given_to(functions[name], call, method=False)
        once = sum(nodes.dotted(one.func) == name for one in usage.calls(self.whole.module)) == 1
        if taken is None or not once:
            return None
        return [(key, (functions[name],)) for key, value in taken.items() if nodes.dotted(value) == self.model]

    def _resets(self, place: Place) -> bool:
        """Whether a statement sets all states of the model, by a method, or one by one; a method is written out."""
        kept, names, call = self.whole.kept, self.whole.names, suites.call_alone(place.line)
        owner = call.func.value if call is not None and isinstance(call.func, cst.Attribute) else None
        reset = kept.reset_by(call) if call is not None and owner and nodes.dotted(owner) == self.model else None
        if reset is not None:
            made: list[Statement] = [nodes.statement(f"{names[state]} = {{v}}", v=value) for state, value in reset]
            self.whole.edits.instead[place.line] = suites.with_comments(made, place.line)
            return {state for state, _ in reset} >= set(kept.states)
        single = suites.alone(place.line) is not None
        targets = {nodes.dotted(target) for target, _ in usage.bindings(place.line)} if single else set()
        return {f"{self.model}.{state}" for state in kept.states} <= targets

    def _write(self, place: Place, call: cst.Call) -> bool:
        """Writes a statement that calls the model with the states beside; whether it can be."""
        line, small = place.line, suites.alone(place.line)
        assigned = isinstance(small, cst.Assign) and small.value is call and len(small.targets) == 1
        if not isinstance(line, cst.SimpleStatementLine) or any(arg.star for arg in call.args):
            return False
        if not assigned and (not is_sure(line, call) or _called_before(line, call)):
            return False
        whole, variables = self._with_states(call), list(self.whole.names.values())
        if isinstance(small, cst.Assign) and assigned:
            target = nodes.target(with_states(small.targets[0].target, variables))
            made = [line.with_changes(body=[small.with_changes(targets=[target], value=whole)])]
        else:
            alone = suites.call_alone(line) is call
            name = "_" if alone else usage.unused_name("output", self.whole.taken)
            self.whole.taken |= set() if alone else {name}
            first = cst.Assign([nodes.target(with_states(nodes.name(name), variables))], whole)
            rest = nodes.visited(line, Exchanging({call: nodes.name(name)}, {}))
            made = [cst.SimpleStatementLine([first], leading_lines=line.leading_lines)]
            made += [] if alone else [rest.with_changes(leading_lines=[])]
        self.whole.edits.instead[line] = [self._in_variables(one) for one in made]
        return True

    def _with_states(self, call: cst.Call) -> cst.Call:
        """A call of the model that gives it the states: where they come, or by their names."""
        variables = list(self.whole.names.values())
        plain = [arg for arg in call.args if arg.keyword is None]
        if len(plain) != self.whole.kept.required:
            named = nodes.arguments([], {name: nodes.name(name) for name in variables})
            return nodes.with_some(call, [*call.args, *named])
        others = [arg for arg in call.args if arg.keyword is not None]
        return nodes.with_some(call, [*plain, *nodes.arguments(map(nodes.name, variables)), *others])

    def _in_variables(self, line: cst.SimpleStatementLine) -> cst.SimpleStatementLine:
        return nodes.visited(line, Exchanging(self._states_in(line), {}))

    def _states_in(self, node: cst.CSTNode) -> dict[cst.CSTNode, Expr]:
        """The mentions of the states of the model in a node, with the variables for them."""
        variables = {f"{self.model}.{state}": name for state, name in self.whole.names.items()}
        found = [(one, nodes.dotted(one) or "") for one in every(node, cst.Attribute)]
        return {one: nodes.name(variables[path]) for one, path in found if path in variables}

    def _write_mentions(self, mine: Sequence[Place]) -> None:
        """Writes all other mentions of the states, and leaves out attributes that nothing reads."""
        edits = self.whole.edits
        for place in mine:
            if place.line in edits.instead:
                continue
            if self._says_nothing(place.line):
                edits.instead[place.line] = []
                continue
            for part in suites.evaluated(place.line):
                edits.parts |= self._states_in(part)

    def _says_nothing(self, line: Statement) -> bool:
        """Whether a statement sets an attribute of the model that nothing reads: a state by another name."""
        small = suites.alone(line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if not isinstance(small, cst.Assign) or not isinstance(target, cst.Attribute):
            return False
        named = [one for one in every(self.whole.module, cst.Attribute) if one.attr.value == target.attr.value]
        written = {id(one.target) for one in every(self.whole.module, cst.AssignTarget)}
        unread = nodes.dotted(target.value) == self.model and all(id(one) in written for one in named)
        own = target.attr.value not in (*self.whole.names, "training")
        return unread and own and not any(map(_draws, usage.calls(small.value)))


def _draws(call: cst.Call) -> bool:
    path = nodes.dotted(call.func) or ""
    return not path.startswith("torch.") or "rand" in path


def _calls_any(node: cst.CSTNode, names: set[str]) -> bool:
    return any(nodes.dotted(call.func) in names for call in usage.calls(node))


def _called_before(line: cst.SimpleStatementLine, call: cst.Call) -> bool:
    """Whether a statement calls something else before a call, as it is evaluated from left to right."""
    for other in usage.calls(line):
        if other is call:
            return False
        if not any(one is call for one in every(other, cst.Call)):
            return True
    return True
