"""Containers of modules that are filled after they were made: `net = nn.Sequential()`, `net.add_module("fc", layer)`.

A Flax module is whole when it is made: the container is made where the last of its parts is put in. Where a loop fills
it, a list is filled in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.lowering.initial.fans import Fans
from migrate.lowering.modules.filling_by_name import added_by_name, filled_by_name, makes_dict
from migrate.lowering.plainer.loops_written_out import LoopsWrittenOut, written_entries
from migrate.lowering.statements.blocks import Block
from migrate.syntax import names_written, nodes, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every

_ROW, _MODULES, _PARAMETERS = "torch.nn.Sequential", "torch.nn.ModuleDict", "torch.nn.ParameterDict"
_DICTS = (_MODULES, _PARAMETERS)
_ORDERED = "OrderedDict"  # of layers, given to one of those: `nn.Sequential(layers)`
_PAIRS = "list"  # of names and layers: `nn.Sequential(OrderedDict(layers))`
_FILLING = ("add_module", "register_module", "append", "extend", "insert", "update")

Entries = list[tuple[str, Expr]]  # the keys that the parts of a container have in torch, with the parts


@dataclass(frozen=True)
class _Container:
    """A statement that makes a container: its path, the call, what it holds at first."""

    line: cst.SimpleStatementLine
    path: str
    call: cst.Call
    kind: str
    entries: Entries


class FilledContainers(Fans, LoopsWrittenOut):
    """Blocks in which such containers are whole at once."""

    def make_whole(self, block: Block) -> None:
        """Puts the next statement of a block, a loop or a container, in such terms, with those that belong to it."""
        statement = block.statements[block.index]
        after = block.statements[block.index + 1 :]
        turns = self.turns(statement, after) if isinstance(statement, cst.For) else self.fans(statement)
        if turns is not None:
            block.replace(block.index, block.index + 1, turns)
        container = self.container(block.statements[block.index])
        if container is not None:
            self.fill(container, block)

    def container(self, statement: Statement) -> _Container | None:
        """The container that a statement makes, empty or of what is written out; None for other statements."""
        small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if not isinstance(statement, cst.SimpleStatementLine) or not isinstance(small, cst.Assign | cst.AnnAssign):
            return None
        targets = [small.target] if isinstance(small, cst.AnnAssign) else [each.target for each in small.targets]
        call, path = small.value, nodes.dotted(targets[0])
        if path is None or len(targets) > 1:
            return None
        if isinstance(call, cst.List) and not call.elements and isinstance(targets[0], cst.Name):
            return _Container(statement, path, nodes.call(_ORDERED), _PAIRS, [])
        if not isinstance(call, cst.Call):
            return None
        kind = self.torch_name(call.func) or ""
        entries: Entries | None = None
        if isinstance(targets[0], cst.Name) and not call.args and makes_dict(call):
            return _Container(statement, path, call, _ORDERED, [])
        if kind == _ROW and len(call.args) == 1 and makes_dict(call.args[0].value):
            entries = _of_pairs(call.args[0].value)
        elif kind == _ROW and not any(arg.star or arg.keyword for arg in call.args):
            entries = [(str(number), arg.value) for number, arg in enumerate(call.args)]
        elif kind in _DICTS and not call.args:
            entries = []
        elif kind in _DICTS and len(call.args) == 1 and isinstance(call.args[0].value, cst.Dict):
            entries = _of_dict(call.args[0].value)
        return None if entries is None else _Container(statement, path, call, kind, entries)

    def fill(self, container: _Container, block: Block) -> None:
        """Makes the container whole in its block, where something fills it and is written out."""
        first, tried = block.index + 1, Block(list(block.statements), list(block.positions), block.index)
        for number in range(len(block.statements) - 1, block.index, -1):
            each = block.statements[number]
            after = block.statements[number + 1 :]
            turns = self.turns(each, after, container.path) if isinstance(each, cst.For) else None
            if turns is not None:
                tried.replace(number, number + 1, turns)
        statements = tried.statements
        last = self.last_of(container, statements, first)
        if not last:
            return
        between = statements[first : last + 1]
        others = [one for one in between if not _fills(one, container.path)]
        if any(container.path in usage.paths(one) for one in others if one is not statements[last]):
            return
        known = self.unit.whole.get((container.line, *between))
        if known is None:
            known = self.at_once(container, between, others) or self.as_filled_list(container, between)
        if known is None and self.fill_dict(container, block):
            return
        known = known or self.as_filled_dict(container, between)
        if known is not None:
            self.unit.whole[container.line, *between] = known
            tried.replace(block.index, last + 1, known)
            block.statements[:], block.positions[:] = tried.statements, tried.positions

    def fill_dict(self, container: _Container, block: Block) -> bool:
        """Has a dict filled in the place of a container, in the loops that are there; whether that is possible."""
        first, statements = block.index + 1, block.statements
        last = self.last_of(container, statements, first)
        between = statements[first : last + 1]
        known = self.unit.whole.get((container.line, *between)) if last else None
        known = known or (self.as_filled_dict(container, between) if last else None)
        if known is None:
            return False
        self.unit.whole[container.line, *between] = known
        block.replace(block.index, last + 1, known)
        return True

    def last_of(self, container: _Container, statements: Sequence[Statement], first: int) -> int:
        """The last statement that fills a container, or that takes what a dict holds by then; 0 where there is none."""
        last = max((n for n in range(first, len(statements)) if _fills(statements[n], container.path)), default=0)
        takes = last and container.kind in (_ORDERED, _PAIRS)
        return self.taker(container, statements[last + 1 :], last + 1) if takes else last

    def taker(self, container: _Container, later: Sequence[Statement], position: int) -> int:
        """Which statement makes modules of a dict that is filled before it, and is the only one to read it; 0 where
        there is none."""
        readers = [number for number, one in enumerate(later) if container.path in usage.paths(one)]
        if len(readers) != 1 or usage.loads(later[readers[0]]).count(container.path) != 1:
            return 0
        for call in usage.calls(later[readers[0]]):
            given = [nodes.dotted(arg.value) for arg in call.args]
            takes = self.torch_name(call.func) in (_ROW, *_DICTS) if container.kind == _ORDERED else makes_dict(call)
            if given == [container.path] and takes:
                return position + readers[0]
        return 0

    def at_once(
        self, container: _Container, between: Sequence[Statement], others: Sequence[Statement]
    ) -> list[Statement] | None:
        """The statements with the container made of all its parts, at the place of the last; None where the parts
        would not be the same there."""
        entries = list(container.entries)
        for number in range(-1, len(between)):
            more = container.entries if number < 0 else []
            if number >= 0 and between[number] not in others:  # it puts something in
                found = _entries(between[number], container.kind, len(entries))
                if found is None:
                    return None
                entries, more = entries + found, found
            later = {name for one in between[number + 1 :] for name in usage.changes(one)}
            if later & {name for _, value in more for name in usage.loads(value)}:
                return None
        whole = container.call.with_changes(args=_arguments(container.kind, entries))
        if container.kind in (_ORDERED, _PAIRS):
            given = whole.args[0].value if container.kind == _PAIRS else whole
            taking = nodes.substituted(others[-1], {container.path: given})
            self.all_stand_for(taking, others[-1])
            return [*others[:-1], taking]
        return [*others, self.made_of(container, whole, container.line.leading_lines)]

    def as_filled_list(self, container: _Container, between: Sequence[Statement]) -> list[Statement] | None:
        """The statements with a list filled in the place of the container, of which that is made then."""
        name = usage.unused_name("layers", {*self.unit.taken, *usage.stores(self.blocks[0].statements)})
        listing = _Listing(container.path, name)
        changed = [nodes.visited(one.deep_clone(), listing) for one in between]
        if container.kind != _ROW or listing.odd or any(container.path in usage.paths(one) for one in changed):
            return None
        for made, original in zip(changed, between, strict=True):
            self.all_stand_for(made, original)
        empty = cst.List([cst.Element(value) for _, value in container.entries])
        started = container.line.with_changes(body=[cst.Assign([nodes.target(nodes.name(name))], empty)])
        self.unit.stands_for(started, container.line)
        row = container.call.with_changes(args=[cst.Arg(nodes.name(name), star="*")])
        return [started, *changed, self.made_of(container, row, ())]

    def as_filled_dict(self, container: _Container, between: Sequence[Statement]) -> list[Statement] | None:
        """The statements with a dict filled in the place of a row of layers that have numbers in their names, or of a
        dict of them."""
        if self.context != "setup" or container.kind == _PARAMETERS:
            return None
        local = container.kind not in (_ROW, _MODULES)
        taken = {*usage.loads(self.blocks[0].statements), *usage.stores(self.blocks[0].statements)}
        name = container.path if local else usage.unused_name(container.path.rpartition(".")[2], taken)
        changed = filled_by_name(between, container.path, name)
        if changed is None:
            return None
        for made, original in zip(changed, between, strict=True):
            self.all_stand_for(made, original)
        empty = cst.Dict([])
        self.unit.rows.add(empty)
        started = [cst.SimpleStatementLine([cst.Assign([nodes.target(nodes.name(name))], empty)])]
        started += [
            nodes.statement(
                "{row}[{key}] = {layer}", row=nodes.name(name), key=cst.SimpleString(f'"{key}"'), layer=value
            )
            for key, value in container.entries
        ]
        for one in started:
            self.unit.stands_for(one, container.line)
        row = container.call.with_changes(args=[cst.Arg(nodes.name(name))])
        return [*started, *changed, *([] if local else [self.made_of(container, row, ())])]

    def made_of(self, container: _Container, value: Expr, lines: Sequence[cst.EmptyLine]) -> Statement:
        """The statement that makes the container of something else."""
        made = cst.SimpleStatementLine([container.line.body[0].with_changes(value=value)], leading_lines=lines)
        self.unit.stands_for(made, container.line)
        return made


def _fills(statement: Statement, path: str) -> bool:
    """Whether a statement puts something into the container at a path."""
    calls = {f"{path}.{method}" for method in _FILLING}
    if any(nodes.dotted(call.func) in calls for call in usage.calls(statement)):
        return True
    targets = [target.target for target in every(statement, cst.AssignTarget)]
    return any(isinstance(target, cst.Subscript) and nodes.dotted(target.value) == path for target in targets)


def _entries(statement: Statement, kind: str, length: int) -> Entries | None:
    """What one statement adds to a container that has some parts already; None where that is not written out."""
    small = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) > 1:
        return None
    if (
        isinstance(small, cst.Assign)
        and isinstance(small.targets[0].target, cst.Subscript)
        and kind in (*_DICTS, _ORDERED)
    ):
        index = small.targets[0].target.slice[0].slice
        key = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
        return [(key, small.value)] if isinstance(key, str) and len(small.targets) == 1 else None
    call = small.value if isinstance(small, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or any(a.star for a in call.args):
        return None
    method, values = call.func.attr.value, [arg.value for arg in call.args]
    if kind == _PAIRS:
        pair = nodes.elements(values[0]) if method == "append" and isinstance(values[0], cst.Tuple) else []
        key = names_written.text(pair[0]) if len(pair) == 2 else None
        return None if key is None else [(key, pair[1])]
    added = added_by_name(call)
    if added is not None:
        key = names_written.text(added[0])
        return None if key is None or "." in key else [(key, added[1])]
    if method == "append" and kind == _ROW and len(values) == 1:
        return [(str(length), values[0])]
    if method == "extend" and kind == _ROW and len(values) == 1 and isinstance(values[0], cst.List | cst.Tuple):
        plain = not any(isinstance(element, cst.StarredElement) for element in values[0].elements)
        return [(str(length + n), value) for n, value in enumerate(nodes.elements(values[0]))] if plain else None
    if method == "update" and kind in (*_DICTS, _ORDERED) and len(values) == 1 and isinstance(values[0], cst.Dict):
        return _of_dict(values[0])
    return None


def _of_dict(node: cst.Dict) -> Entries | None:
    """The entries of a dict whose keys are written out."""
    pairs = [(nodes.literal(key), value) for key, value in written_entries(node) or ()]
    found = [(key, value) for key, value in pairs if isinstance(key, str)]
    return found if len(found) == len(node.elements) else None


def _of_pairs(call: Expr) -> Entries | None:
    """The same of `OrderedDict([("conv", layer), ...])`."""
    given = call.args[0].value if isinstance(call, cst.Call) and len(call.args) == 1 else None
    if isinstance(given, cst.Dict):
        return _of_dict(given)
    parts = nodes.elements(given) if isinstance(given, cst.List | cst.Tuple) else []
    pairs = [nodes.elements(part) for part in parts if isinstance(part, cst.List | cst.Tuple)]
    found = [(nodes.literal(pair[0]), pair[1]) for pair in pairs if len(pair) == 2]
    plain = [(key, value) for key, value in found if isinstance(key, str)]
    return plain if plain and len(plain) == len(parts) else None


def _arguments(kind: str, entries: Entries) -> list[cst.Arg]:
    """The arguments of a container that holds some parts from the start; of those with one key, the last counts."""
    parts = dict(entries)
    if kind in _DICTS:
        return [cst.Arg(nodes.dict_of(parts.items()))]
    if kind != _ORDERED and list(parts) == [str(number) for number in range(len(parts))]:
        return [cst.Arg(value) for value in parts.values()]
    pairs = [nodes.tuple_of([cst.SimpleString(repr(key)), value]) for key, value in parts.items()]
    named = cst.List([cst.Element(pair) for pair in pairs])
    return [cst.Arg(named if kind in (_ORDERED, _PAIRS) else nodes.call("OrderedDict", named))]


class _Listing(cst.CSTTransformer):
    """Fills a list in the place of a container. `odd`: something is put in by a name that is no number."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__()
        self.path, self.name, self.odd = path, name, False

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        func = original_node.func
        if not isinstance(func, cst.Attribute) or nodes.dotted(func.value) != self.path:
            return updated_node
        if func.attr.value in ("append", "extend", "insert"):
            return updated_node.with_changes(func=cst.Attribute(nodes.name(self.name), func.attr))
        self.odd |= not self._at_the_end(original_node)
        own = cst.Attribute(nodes.name(self.name), nodes.name("append"))
        return updated_node.with_changes(func=own, args=[cst.Arg(arg.value) for arg in updated_node.args[-1:]])

    def _at_the_end(self, node: cst.Call) -> bool:
        """Whether a part gets the number of those before it as its name: `net.add_module(str(len(net)), layer)`."""
        plain = len(node.args) == 2 and not any(arg.keyword or arg.star for arg in node.args)
        return plain and nodes.code(node.args[0].value) == f"str(len({self.path}))"
