"""What a module keeps from one call to the next, `self.hidden`, which its forward pass reads and sets.

torch keeps it on the object; a Flax module has nothing that changes. So the input is taken as if the forward pass took
it as an argument and returned it beside its output, and whoever calls the model kept it:

model.hidden = model.init_hidden()      hidden = model.init_hidden()
scores = model(sentence)                scores, hidden = model(sentence, hidden)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from migrate.diagnostics import Diagnostic
from migrate.lowering.plainer.body_at_call import INNER, given_to, is_sure
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.object_sites import made_by, sites_of
from migrate.lowering.rounds import Input, Lowered
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import CHAINED
from migrate.syntax.mentions import by_itself, called, times_defined
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

CODE = "MIG519"
_SHOWING = ("print", "str", "repr", "type", "isinstance", "hasattr", "torch.save", "summary", "id")  # do not call it
_MODULES = ("nn.Module", "torch.nn.Module", "Module")


def with_state_handed_on(inputs: Sequence[Input]) -> list[Input]:
    """The files of a project with such state as an argument and a result, where the text tells who keeps it."""
    defined = times_defined(one.source.module for one in inputs)
    made = list(inputs)
    for number, file in enumerate(inputs):
        for node in file.source.module.body:
            if not isinstance(node, cst.ClassDef) or defined[node.name.value] != 1:
                continue
            found = _Keeping.of(node)
            if found is None or made[number] is not file:
                continue  # one class of a file: the others keep what they have
            if not all(_only_made(one.source.module, node) for one in inputs):
                continue
            if any(name.value == node.name.value for one in inputs if one is not file for name in _names(one)):
                continue
            edits = found.handed_on(file)
            if edits is not None:
                told = {**file.handed_on, node.name.value: ", ".join(found.states)}
                made[number] = replace(file.edited(edits), handed_on=told)
    return made


def _only_made(module: cst.Module, node: cst.ClassDef) -> bool:
    """Whether a file names a class to make objects of it, and in its own `super(Net, self)`."""
    within = {arg.value for call in usage.calls(node) if nodes.dotted(call.func) == "super" for arg in call.args}
    aside = called(module) | {node.name} | within
    return all(one in aside for one in by_itself(module, node.name.value))


def _names(one: Input) -> Iterator[cst.Name]:
    return iter(every(one.source.module, cst.Name))


def told_of_state(inputs: Sequence[Input], lowered: Sequence[Lowered]) -> list[Lowered]:
    """The files with a note on each class whose forward pass takes what it has kept."""
    taken = {one.scope: one for one in inputs}
    return [replace(one, diagnostics=(*one.diagnostics, *_notes(taken[one.scope]))) for one in lowered]


def _notes(one: Input) -> Iterator[Diagnostic]:
    for node in one.source.module.body:
        if isinstance(node, cst.ClassDef) and node.name.value in one.handed_on:
            line, column = one.source.place(node)
            said = f"{node.name.value}.forward takes and returns {one.handed_on[node.name.value]}"
            yield Diagnostic(one.source.path, line, column, CODE, said, one.source.line(line))


@dataclass(frozen=True)
class _Place:
    """A statement of a file: the functions and classes around it, and where it stands in each block around it."""

    scope: tuple[cst.CSTNode, ...]
    chain: tuple[tuple[Sequence[cst.CSTNode], int], ...]
    line: Statement

    def comes_after(self, other: _Place) -> bool:
        """Whether another statement of a block around this one has surely run before."""
        (block, number) = other.chain[-1]
        return other.scope == self.scope and any(each is block and at > number for each, at in self.chain)


def _places(
    body: Sequence[cst.CSTNode], scope: tuple[cst.CSTNode, ...], chain: tuple[tuple[Sequence[cst.CSTNode], int], ...]
) -> Iterator[_Place]:
    statements = suites.suite_of(body)
    for number, line in enumerate(statements):
        here = (*chain, (statements, number))
        yield _Place(scope, here, line)
        inner = isinstance(line, INNER)
        for block in every(line, cst.BaseSuite, closed=(cst.BaseSuite,)):
            yield from _places(block.body, (*scope, line) if inner else scope, () if inner else here)


@dataclass
class _Keeping:
    """A class of which the forward pass keeps `states` on its object. `resets`: the methods that only set them."""

    node: cst.ClassDef
    init: cst.FunctionDef
    forward: cst.FunctionDef
    states: list[str]
    resets: dict[str, cst.FunctionDef]
    starts: dict[str, tuple[Statement, Expr]] = field(default_factory=dict)

    @staticmethod
    def of(node: cst.ClassDef) -> _Keeping | None:
        """What a class keeps, if that is told here; None of other classes."""
        methods = {one.name.value: one for one in node.body.body if isinstance(one, cst.FunctionDef)}
        init, forward = methods.get("__init__"), methods.get("forward")
        if (
            init is None
            or forward is None
            or [nodes.code(one.value) for one in node.bases] not in [[n] for n in _MODULES]
        ):
            return None
        set_there, read = usage.attributes_set(forward.body), _read(forward.body)
        states = sorted(set_there & read)
        registered = {
            nodes.literal(c.args[0].value) for c in usage.calls(node) if made_by(c).startswith("register") and c.args
        }
        if not states or set_there - read or set(states) & registered or not _is_plain(forward, states):
            return None
        others = {name: one for name, one in methods.items() if name not in ("__init__", "forward")}
        about = {name: one for name, one in others.items() if set(usage.attributes_of_self(one.body)) & set(states)}
        if not all(_only_sets(one, states) for one in about.values()):
            return None
        made = _Keeping(node, init, forward, states, about)
        return made if made._starts() else None

    def _starts(self) -> bool:
        """Whether the constructor sets each of the states once, if at all, to what is no number or layer."""
        for line in suites.suite_of(self.init.body.body):
            named = set(usage.attributes_of_self(line)) & set(self.states)
            bound = usage.bindings(line) if suites.alone(line) is not None else []
            pairs = [(nodes.dotted(one) or "", value) for one, value in bound]
            own = {path.removeprefix("self."): value for path, value in pairs if path.startswith("self.")}
            call = _called_alone(line)
            reset = (
                self.resets.get(made_by(call))
                if call is not None and nodes.code(call.func).startswith("self.")
                else None
            )
            if reset is not None and call is not None:
                given = given_to(reset, call, method=True)
                if given is None:
                    return False
                bound = [pair for one in suites.below_docstring(reset) for pair in usage.bindings(one)]
                for target, value in bound:
                    self.starts[(nodes.dotted(target) or "").removeprefix("self.")] = (
                        line,
                        nodes.substituted(value, given),
                    )
                continue
            if not named:
                continue
            if not named <= own.keys() or len(own) > 1 or named & self.starts.keys():
                return False
            for name, value in own.items():
                number = nodes.literal(value) not in (None, ...) and not isinstance(nodes.literal(value), tuple)
                called = (nodes.dotted(value.func) or "") if isinstance(value, cst.Call) else ""
                if number or called.startswith(("nn.", "torch.nn.")):
                    return False
                self.starts[name] = (line, value)
        return True

    def handed_on(self, file: Input) -> Edits | None:
        """The file with the states as arguments and results; None where it is not told who keeps them."""
        module, name = file.source.module, self.node.name.value
        sites = [one for one in sites_of(file, name, CHAINED) if isinstance(one.call.func, cst.Name)]
        made = sum(nodes.dotted(call.func) == name for call in usage.calls(module))
        outside = [one for one in _places(module.body, (), ()) if self.node not in one.scope]
        if len(sites) != 1 or made != 1 or "." in sites[0].target:
            return None
        site = sites[0]
        given = self._given(site.call)
        taken = _bare_names(module)
        names: dict[str, str] = {}
        for state in self.states:
            names[state] = usage.unused_name(state.strip("_"), taken)
            taken.add(names[state])
        calling = _Calling(self, site.target, names, tuple(site.scope), taken)
        if given is None or not calling.follow_all(module, outside):
            return None
        edits = calling.edits
        edits.instead[self.forward] = [self._forward(names)]
        edits.instead |= {line: [] for line, _ in self.starts.values()}
        edits.instead |= {one: [] for one in self.resets.values()}
        if not calling.always_reset:
            if self.starts.keys() != set(self.states):
                return None
            values = {**given, "self": nodes.name(site.target)}
            lines = [
                nodes.statement(f"{names[state]} = {{v}}", v=nodes.substituted(value, values).deep_clone())
                for state, (_, value) in self.starts.items()
            ]
            edits.behind.setdefault(site.line, []).extend(lines)
        return edits

    def _given(self, call: cst.Call) -> dict[str, Expr] | None:
        """What the parameters of the constructor stand for in a call."""
        params = self.init.params
        without = self.init.with_changes(params=params.with_changes(params=params.params[1:]))
        return given_to(without, call, method=False)

    def _forward(self, names: Mapping[str, str]) -> cst.FunctionDef:
        """The forward pass with the states as arguments, before those that may be left out, and as results."""
        params = list(self.forward.params.params)
        own = _bare_names(self.forward)
        local = {state: usage.unused_name(names[state], own) for state in self.states}
        at = next((n for n, one in enumerate(params) if one.default is not None), len(params))
        params[at:at] = [cst.Param(cst.Name(local[state])) for state in self.states]
        body = nodes.visited(self.forward.body, _Local(local))
        separated = nodes.separated([one.with_changes(comma=cst.MaybeSentinel.DEFAULT) for one in params])
        return self.forward.with_changes(params=self.forward.params.with_changes(params=separated), body=body)


def _called_alone(line: Statement) -> cst.Call | None:
    """The call that a statement is; None of others."""
    small = suites.alone(line)
    return small.value if isinstance(small, cst.Expr) and isinstance(small.value, cst.Call) else None


def _read(body: cst.CSTNode) -> set[str]:
    """The attributes of `self` that a block reads."""
    targets = {id(one) for t in every(body, cst.AssignTarget) for one in _leaves(t.target)}
    return {
        one.attr.value
        for one in every(body, cst.Attribute)
        if nodes.dotted(one.value) == "self" and id(one) not in targets
    }


def _leaves(target: Expr) -> list[Expr]:
    if isinstance(target, cst.Tuple | cst.List):
        return [leaf for one in nodes.elements(target) for leaf in _leaves(one)]
    return [target]


def _is_plain(forward: cst.FunctionDef, states: Sequence[str]) -> bool:
    """Whether a forward pass always returns something, and only names what it keeps where that can be an argument."""
    params, returned = forward.params, usage.returns(forward.body)
    stars = isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None or params.kwonly_params
    inside = [name for one in every(forward.body, (*INNER, cst.Lambda)) for name in usage.attributes_of_self(one)]
    ends = suites.suite_of(forward.body.body)[-1]
    whole = bool(returned) and isinstance(suites.alone(ends), cst.Return) and all(one.value for one in returned)
    generator = any(True for _ in every(forward.body, cst.Yield))
    return not (stars or forward.decorators or set(inside) & set(states) or generator) and whole


def _only_sets(method: cst.FunctionDef, states: Sequence[str]) -> bool:
    """Whether a method does nothing but set states: `def reset(self, n): self.hidden = torch.zeros(n, 4)`."""
    body = suites.below_docstring(method)
    plain = all(isinstance(suites.alone(one), cst.Assign) for one in body) and not method.decorators
    targets = [nodes.dotted(target) or "" for one in body for target, _ in usage.bindings(one)]
    reads = {name for one in body for _, value in usage.bindings(one) for name in usage.attributes_of_self(value)}
    own = all(path.removeprefix("self.") in states and path.startswith("self.") for path in targets)
    return bool(body) and plain and own and not reads & set(states)


@dataclass
class _Calling:
    """What a file does with the one model of such a class, `model`, made in `scope`. `names`: its variables for the
    states."""

    keeping: _Keeping
    model: str
    names: Mapping[str, str]
    scope: tuple[cst.CSTNode, ...]
    taken: set[str]
    edits: Edits = field(default_factory=Edits)
    always_reset: bool = False
    given: list[tuple[str, tuple[cst.CSTNode, ...]]] = field(default_factory=list)  # parameters that are the model
    running: set[str] = field(default_factory=set)  # the functions that call it
    between: list[Sequence[cst.CSTNode]] = field(default_factory=list)  # what runs after a reset, before the call

    def follow_all(self, module: cst.Module, places: Sequence[_Place]) -> bool:
        """Reads all uses of the model, under each name that functions have for it; whether they are understood."""
        functions = {one.name.value: one for one in module.body if isinstance(one, cst.FunctionDef)}
        waiting: list[tuple[str, tuple[cst.CSTNode, ...]]] = [(self.model, self.scope)]
        seen: list[tuple[str, tuple[cst.CSTNode, ...]]] = []
        always: list[bool] = []
        while waiting:
            self.model, self.scope = waiting.pop()
            seen.append((self.model, self.scope))
            if not self.follow(module, places, functions):
                return False
            always.append(self.always_reset)
            waiting += [one for one in self.given if one not in seen + waiting]
            self.given = []
        self.model, self.scope = seen[0]
        self.always_reset = all(always)
        disturbed = any(_calls_any(one, self.running) for block in self.between for one in block)
        return (len(seen) == 1 or self.always_reset) and not disturbed

    def follow(self, module: cst.Module, places: Sequence[_Place], functions: Mapping[str, cst.FunctionDef]) -> bool:
        """The same under one name."""
        around = self.scope[-1] if self.scope and isinstance(self.scope[-1], cst.FunctionDef) else module
        hidden = [one for one in every(around, cst.FunctionDef) if one is not around and self.model in _own_names(one)]
        aside = {id(name) for one in hidden for name in every(one, cst.Name)}
        within = around.body if isinstance(around, cst.FunctionDef) else around
        known = {id(name) for name in by_itself(within, self.model)} - aside
        params = every(around.params, cst.Param) if isinstance(around, cst.FunctionDef) else ()
        parameter = self.model in {one.name.value for one in params}
        if usage.stores(around.body).count(self.model) != (0 if parameter else 1):
            return False
        uses: list[tuple[_Place, cst.Call]] = []
        resets: list[_Place] = []
        mine: list[_Place] = []
        met: set[int] = set()
        for place in places:
            heads = place.line if isinstance(place.line, cst.SimpleStatementLine) else _head(place.line)
            named = {id(name) for name in every(heads, cst.Name)} & known
            if not named:
                continue
            met |= named
            mine.append(place)
            if not self._only_used(heads, known):
                return False
            calls = [
                one for one in usage.calls(heads) if nodes.dotted(one.func) in (self.model, f"{self.model}.forward")
            ]
            if not all(self._gives(call, module, functions) for call in usage.calls(heads)):
                return False
            if (calls and not isinstance(place.line, cst.SimpleStatementLine)) or len(calls) > 1:
                return False
            if self._resets(place):
                resets.append(place)
            uses += [(place, call) for call in calls]
        if met != known:
            return False  # the others stand in heads of statements that are not gone into
        self.always_reset = all(any(use.comes_after(one) for one in resets) for use, _ in uses)
        self.running |= {one.name.value for use, _ in uses for one in use.scope if isinstance(one, cst.FunctionDef)}
        for use, _ in uses:
            last = [one for one in resets if use.comes_after(one)][-1:]
            self.between += [_between(one, use) for one in last]
        elsewhere = any(place.scope != self.scope for place in [*resets, *(use for use, _ in uses)])
        if elsewhere and not self.always_reset:
            return False
        written = all(self._call(place, call) for place, call in uses)
        self._mentions(mine, module)
        return written

    def _only_used(self, heads: cst.CSTNode, known: set[int]) -> bool:
        """Whether code calls the model, asks it for something or gives it away, and has no other name for it."""
        plain = {id(one.value) for one in every(heads, cst.Attribute)} | {id(one.func) for one in usage.calls(heads)}
        plain |= {id(arg.value) for call in usage.calls(heads) for arg in call.args}
        plain |= {id(leaf) for one in every(heads, cst.AssignTarget) for leaf in _leaves(one.target)}
        return all(id(one) in plain for one in every(heads, cst.Name) if id(one) in known)

    def _gives(self, call: cst.Call, module: cst.Module, functions: Mapping[str, cst.FunctionDef]) -> bool:
        """Whether it is known what a call does with the model, if it is given it: a function of the file has it under
        the name of a parameter, if each of its calls gives it the model."""
        if not any(nodes.dotted(arg.value) == self.model for arg in call.args):
            return True
        name = nodes.dotted(call.func) or ""
        if name not in functions:
            return name in _SHOWING
        function, calls = functions[name], [one for one in usage.calls(module) if nodes.dotted(one.func) == name]
        taken = given_to(function, call, method=False)
        if taken is None or len(calls) != 1:
            return False
        self.given += [(key, (function,)) for key, value in taken.items() if nodes.dotted(value) == self.model]
        return True

    def _resets(self, place: _Place) -> bool:
        """Whether a statement sets all states of the model, by a method, or one by one; a method is written out."""
        small, call = suites.alone(place.line), _called_alone(place.line)
        owner, _, name = (nodes.dotted(call.func) or "").rpartition(".") if call is not None else ("", "", "")
        method = self.keeping.resets.get(name) if owner == self.model else None
        if call is not None and method is not None:
            given = given_to(method, call, method=True)
            if given is None:
                return False
            body = [nodes.visited(one, _Local(self.names)) for one in suites.below_docstring(method)]
            made = [nodes.substituted(one, given).deep_clone() for one in body]
            self.edits.instead[place.line] = suites.with_comments(made, place.line)
            return {t for one in body for t in usage.stores(one)} >= set(self.names.values())
        targets = {nodes.dotted(target) for target, _ in usage.bindings(place.line)} if small is not None else set()
        return {f"{self.model}.{state}" for state in self.keeping.states} <= targets

    def _call(self, place: _Place, call: cst.Call) -> bool:
        """Writes a statement that calls the model with the states beside."""
        line, small = place.line, suites.alone(place.line)
        if not isinstance(line, cst.SimpleStatementLine):
            return False
        variables = [nodes.name(one) for one in self.names.values()]
        required = [one for one in self.keeping.forward.params.params[1:] if one.default is None]
        plain = [arg for arg in call.args if arg.keyword is None and not arg.star]
        if any(arg.star for arg in call.args):
            return False
        if len(plain) == len(required):
            args = [*plain, *nodes.arguments(variables), *(arg for arg in call.args if arg.keyword is not None)]
        else:
            args = [*call.args, *nodes.arguments([], {name: nodes.name(name) for name in self.names.values()})]
        whole = nodes.with_some(call, args)
        exchanged = nodes.visited(line, _Exchange(self._attributes(line)))
        if isinstance(small, cst.Assign) and small.value is call and len(small.targets) == 1:
            result = small.targets[0].target
            made = small.with_changes(targets=[nodes.target(_pair(result, variables))], value=whole)
            made = nodes.visited(made, _Exchange(self._attributes(line)))
            self.edits.instead[line] = [line.with_changes(body=[made])]
            return True
        if not is_sure(line, call) or _called_before(line, call):
            return False
        if isinstance(small, cst.Expr) and small.value is call:
            name = "_"
        else:
            name = usage.unused_name("output", self.taken)
            self.taken.add(name)
        first = cst.SimpleStatementLine(
            [cst.Assign([nodes.target(_pair(nodes.name(name), variables))], whole)], leading_lines=line.leading_lines
        )
        rest = nodes.visited(line, _Exchange({**self._attributes(line), call: nodes.name(name)}))
        left = [] if name == "_" else [rest.with_changes(leading_lines=[])]
        self.edits.instead[line] = [nodes.visited(first, _Exchange(self._attributes(line))), *left]
        return exchanged is not None

    def _attributes(self, node: cst.CSTNode) -> dict[cst.CSTNode, Expr]:
        """The mentions of the states of the model in a node, with the variables for them."""
        paths = {f"{self.model}.{state}": name for state, name in self.names.items()}
        found = [(one, nodes.dotted(one) or "") for one in every(node, cst.Attribute)]
        return {one: nodes.name(paths[path]) for one, path in found if path in paths}

    def _says_nothing(self, line: Statement, module: cst.Module) -> bool:
        """Whether a statement sets an attribute of the model that nothing reads: a state by another name."""
        small = suites.alone(line)
        target = small.targets[0].target if isinstance(small, cst.Assign) and len(small.targets) == 1 else None
        if not isinstance(small, cst.Assign) or not isinstance(target, cst.Attribute):
            return False
        named = [one for one in every(module, cst.Attribute) if one.attr.value == target.attr.value]
        written = {id(one.target) for one in every(module, cst.AssignTarget)}
        unread = nodes.dotted(target.value) == self.model and all(id(one) in written for one in named)
        own = target.attr.value not in (*self.names, "training")
        return unread and own and not any(map(_draws, usage.calls(small.value)))

    def _mentions(self, places: Sequence[_Place], module: cst.Module) -> None:
        """Writes all other mentions of the states, and leaves out attributes that nothing reads."""
        for place in places:
            if place.line in self.edits.instead:
                continue
            if self._says_nothing(place.line, module):
                self.edits.instead[place.line] = []
                continue
            node = place.line if isinstance(place.line, cst.SimpleStatementLine) else _head(place.line)
            self.edits.parts |= self._attributes(node)


def _draws(call: cst.Call) -> bool:
    path = nodes.dotted(call.func) or ""
    return not path.startswith("torch.") or "rand" in path


def _between(reset: _Place, use: _Place) -> Sequence[cst.CSTNode]:
    """The statements after one, up to the next of its block that has another one in it."""
    block, number = reset.chain[-1]
    until = next(at for each, at in use.chain if each is block)
    return block[number + 1 : until]


def _calls_any(node: cst.CSTNode, names: set[str]) -> bool:
    return any(nodes.dotted(call.func) in names for call in usage.calls(node))


def _bare_names(node: cst.CSTNode) -> set[str]:
    """The names in a node, but for those of attributes."""
    aside = {one.attr for one in every(node, cst.Attribute)}
    return {one.value for one in every(node, cst.Name) if one not in aside}


def _called_before(line: cst.SimpleStatementLine, call: cst.Call) -> bool:
    """Whether a statement calls something else before a call, as it is evaluated from left to right."""
    for other in usage.calls(line):
        if other is call:
            return False
        if not any(one is call for one in every(other, cst.Call)):
            return True
    return True


def _own_names(function: cst.FunctionDef) -> set[str]:
    return {one.name.value for one in every(function.params, cst.Param)} | set(usage.stores(function.body))


def _head(line: cst.CSTNode) -> cst.CSTNode:
    """What a compound statement says before its blocks."""
    if isinstance(line, cst.If | cst.While):
        return line.test
    return line.iter if isinstance(line, cst.For) else cst.Pass()


def _pair(first: Expr, others: Sequence[Expr]) -> Expr:
    return nodes.bare_tuple([nodes.parenthesized(first) if isinstance(first, cst.Tuple) else first, *others])


class _Local(cst.CSTTransformer):
    """A method of which the states are variables; what it returns has them beside it."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__()
        self.names = names

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        state = original_node.attr.value if nodes.dotted(original_node.value) == "self" else ""
        return cst.Name(self.names[state]) if state in self.names else updated_node

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        if updated_node.value is None:
            return updated_node
        return updated_node.with_changes(
            value=_pair(updated_node.value, [cst.Name(one) for one in self.names.values()])
        )


class _Exchange(cst.CSTTransformer):
    """Puts expressions in the place of others."""

    def __init__(self, instead: Mapping[cst.CSTNode, Expr]) -> None:
        super().__init__()
        self.instead = instead

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> Expr:
        return self.instead.get(original_node, updated_node)

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> Expr:
        return self.instead.get(original_node, updated_node)
