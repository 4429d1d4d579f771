"""What a file does with a list in which it keeps outputs of a model: how it is filled, read and emptied."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.lowering.updates.region import call_of, method_call_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every, is_node, parts

_NEW = ("[]", "list()", "deque()", "collections.deque()")


@dataclass(frozen=True)
class Level:
    """A statement in its suite. `cyclic`: the suite is run again and again."""

    suite: tuple[Statement, ...]
    index: int
    cyclic: bool

    @property
    def statement(self) -> Statement:
        """The statement."""
        return self.suite[self.index]


@dataclass(frozen=True)
class Mention:
    """A place where a name is written: the statements around, outermost first, and the expressions around it."""

    node: Expr
    levels: tuple[Level, ...]
    around: tuple[cst.CSTNode, ...]

    @property
    def line(self) -> Statement:
        """The innermost statement around."""
        return self.levels[-1].statement

    def level_in(self, suite: tuple[Statement, ...]) -> Level | None:
        """The statement of a suite that the place is in; None where it is in none."""
        return next((level for level in self.levels if level.suite == suite), None)

    @property
    def function(self) -> cst.FunctionDef | None:
        """The innermost function around."""
        found = [level.statement for level in self.levels[:-1] if isinstance(level.statement, cst.FunctionDef)]
        return found[-1] if found else None


def mentions(module: cst.Module, path: str) -> list[Mention]:
    """All places where a name or a dotted name is written."""
    return list(_mentions(module, path, (), ()))


def _mentions(
    node: cst.CSTNode, path: str, levels: tuple[Level, ...], around: tuple[cst.CSTNode, ...]
) -> Iterator[Mention]:
    if isinstance(node, cst.Name | cst.Attribute) and nodes.dotted(node) == path:
        yield Mention(node, levels, around)
        return
    if isinstance(node, cst.Module | cst.BaseSuite):
        suite = tuple(suites.suite_of(node.body))
        cyclic = bool(levels) and isinstance(levels[-1].statement, cst.For | cst.While)
        for index, statement in enumerate(suite):
            yield from _mentions(statement, path, (*levels, Level(suite, index, cyclic)), ())
        return
    within = around if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement) else (*around, node)
    for child in _children(node):
        yield from _mentions(child, path, levels, within)


def _children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    for name in parts(type(node)):
        if isinstance(node, cst.Attribute | cst.Arg) and name in ("attr", "keyword"):
            continue
        value = getattr(node, name)
        yield from value if isinstance(value, list | tuple) else [value] if is_node(type(value)) else []


def empties(statement: Statement, path: str) -> bool:
    """Whether a statement makes a list empty, or a new one: `del saved[:]`, `saved.clear()`, `saved = []`."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    receiver = method_call_of(statement, "clear")
    if receiver is not None:
        return nodes.dotted(receiver.value) == path
    if isinstance(small, cst.Del):
        return nodes.code(small.target) == f"{path}[:]"
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return False
    target = small.targets[0].target
    if isinstance(target, cst.Tuple) and isinstance(small.value, cst.Tuple):
        pairs = zip(nodes.elements(target), nodes.elements(small.value), strict=False)
        return any(nodes.code(one) == path and nodes.code(value) in _NEW for one, value in pairs)
    return nodes.code(target) in (path, f"{path}[:]") and nodes.code(small.value) in _NEW


def plural(name: str) -> str:
    """`entropies` of `entropy`, `pushes` of `push`."""
    ending = "es" if name.endswith(("sh", "ch", "x")) else "s"
    return name if name.endswith("s") else f"{name[:-1]}ies" if name.endswith("py") else f"{name}{ending}"


@dataclass
class Reading:
    """How a list is read on the way to a loss: `suite` holds the statements that read it, from `first` on, and the
    `backward` pass. `aliases`: other names that it has there."""

    path: str
    function: cst.FunctionDef | None
    levels: tuple[Level, ...]
    first: int
    backward: int
    aliases: dict[str, Statement] = field(default_factory=dict)

    @property
    def suite(self) -> tuple[Statement, ...]:
        """The statements around."""
        return self.levels[-1].suite


def filled_at(module: cst.Module, path: str, filling: cst.Call) -> tuple[Mention, list[Mention]]:
    """Where a list is filled, and all places that mean it."""
    found = mentions(module, path)
    site = next(one for one in found if any(node is filling for node in one.around))
    return site, same_variable(found, site, path) if "." not in path else found


def reading(module: cst.Module, path: str, filling: cst.Call) -> Reading:
    """How a list is read; raises Unsupported where that is more than one loss of one block, after which it is empty."""
    site, found = filled_at(module, path, filling)
    if not path.startswith("self.") and "." in path:
        attribute = path.rpartition(".")[2]
        others = [one for one in every(module, cst.Attribute) if one.attr.value == attribute]
        if len(others) != len(found):
            raise Unsupported("MIG401", f"{path} is read under another name")
    if "." not in path:
        found = _while_it_is_the_list(found, path)
    reads = [one for one in found if one is not site and not empties(one.line, path) and not _counts(one)]
    if not reads:
        raise Unsupported("MIG401", f"nothing reads {path}")
    where = {_region(one): one for one in reads}
    if len(where) != 1 or None in where:
        raise Unsupported("MIG401", f"{path} is read outside of one update")
    (place,) = where
    assert place is not None
    levels = next(one.levels[: place[1] + 1] for one in reads if _region(one) == place)
    made = Reading(path, reads[0].function, levels, len(levels[-1].suite), place[2])
    _sort(made, reads)
    if not _empty_before_more(made, path, found, site):
        raise Unsupported("MIG401", f"{path} is not empty after the update")
    return made


def same_variable(found: Sequence[Mention], site: Mention, path: str) -> list[Mention]:
    """The places that mean the variable that is filled."""
    own = site.function if site.function is not None and _is_local(site.function, path) else None
    if own is not None:
        return [one for one in found if one.function is own]
    beside = [one for one in found if one.function is None or not _is_local(one.function, path)]
    return [one for one in beside if not _is_parameter(one)]


def _is_parameter(mention: Mention) -> bool:
    """Whether a place names a parameter of a function."""
    around = mention.around[-1] if mention.around else None
    return isinstance(around, cst.Param) and around.name is mention.node


def _is_local(function: cst.FunctionDef, name: str) -> bool:
    """Whether a function has a name for itself."""
    declared = {item.name.value for one in every(function.body, cst.Global) for item in one.names}
    bound = {*usage.stores(function.body), *(one.name.value for one in every(function.params, cst.Param))}
    return name in bound - declared


def _while_it_is_the_list(found: Sequence[Mention], path: str) -> list[Mention]:
    """The places before the statement of an update that makes something else of a list, under its name:
    `log_probs = torch.cat(log_probs)`."""
    for one in found:
        place = _region(one)
        if place is None or not made_anew(one.line, path) or len(one.levels) != place[1] + 1:
            continue
        own = one.levels[-1]
        beside = [(each, each.level_in(own.suite)) for each in found]
        return [each for each, level in beside if level is None or level.index <= own.index]
    return list(found)


def made_anew(statement: Statement, path: str) -> bool:
    """Whether a statement gives a name another value that it makes of the one before."""
    line = isinstance(statement, cst.SimpleStatementLine)
    return line and path in usage.stores(statement) and path in usage.loads(statement)


def _counts(mention: Mention) -> bool:
    """Whether only the length of a list is asked for."""
    call = next((node for node in reversed(mention.around) if isinstance(node, cst.Call)), None)
    if call is None or [arg.value for arg in call.args] != [mention.node]:
        return False
    return nodes.dotted(call.func) == "len"


def _region(mention: Mention) -> tuple[int, int, int] | None:
    """The innermost suite around that goes backward after this: its first statement, its depth, and where that is."""
    for depth in range(len(mention.levels) - 1, -1, -1):
        level = mention.levels[depth]
        for index in range(level.index, len(level.suite)):
            if method_call_of(level.suite[index], "backward") is not None:
                return id(level.suite[0]), depth, index
        if isinstance(level.statement, cst.FunctionDef):
            break
    return None


def _sort(made: Reading, reads: Sequence[Mention]) -> None:
    """Notes from where on the list is read, and under which names."""
    depth = len(made.levels) - 1
    for one in reads:
        level = one.levels[depth]
        alias = _alias(level.statement, made.path)
        if alias:
            made.aliases[alias] = level.statement
        else:
            made.first = min(made.first, level.index)
    for index, statement in enumerate(made.suite):
        named = set(usage.loads(statement)) & made.aliases.keys()
        if named and index <= made.backward:
            made.first = min(made.first, index)
        elif named:
            raise Unsupported("MIG401", f"{min(named)} is read after the update")
    body = made.function.body if made.function is not None else cst.Module(list(made.suite))
    for alias in made.aliases:
        inside = usage.loads(made.suite[: made.backward]).count(alias)
        if usage.stores(body).count(alias) != 1 or usage.loads(body).count(alias) != inside:
            raise Unsupported("MIG401", f"{alias} is more than another name of {made.path}")


def _alias(statement: Statement, path: str) -> str:
    """The name that `saved = model.saved` binds; "" for other statements."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or len(small.targets) != 1 or nodes.dotted(small.value) != path:
        return ""
    target = small.targets[0].target
    return target.value if isinstance(target, cst.Name) else ""


def _empty_before_more(made: Reading, path: str, found: Sequence[Mention], site: Mention) -> bool:
    """Whether a list is surely empty after the update, before anything is put into it again."""
    for depth in range(len(made.levels) - 1, -1, -1):
        level = made.levels[depth]
        if isinstance(level.statement, cst.FunctionDef):
            break
        last = made.backward if depth == len(made.levels) - 1 else level.index
        if any(empties(statement, path) for statement in level.suite[last + 1 :]):
            return True
        if level.cyclic:
            return any(empties(statement, path) for statement in level.suite[: level.index])
    local = "." not in path and site.function is not None and site.function is made.function
    return local and any(empties(one.line, path) for one in found)


def steps(module: cst.Module) -> list[tuple[str, cst.Call]]:
    """The calls that may change weights, with the name of their object: `optimizer.step()`, `model.load_state_dict`."""
    found: list[tuple[str, cst.Call]] = []
    for call in usage.calls(module):
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("step", "load_state_dict"):
            found.append((nodes.code(call.func.value).rpartition(".")[2], call))
    return found


def is_call(statement: Statement, call: cst.Call) -> bool:
    """Whether a statement is nothing but a certain call."""
    return call_of(statement) is call
