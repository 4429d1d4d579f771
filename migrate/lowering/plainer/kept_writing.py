"""What is written into a file for one list of what was kept: the list of inputs, the function that computes what was
kept, and the loss that calls it for all turns."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.kept import imported_from
from migrate.known.facts import KeptSite
from migrate.known.script import Script
from migrate.lowering.plainer.copied_input import Edits
from migrate.lowering.plainer.kept_mentions import (
    Level,
    Mention,
    Reading,
    empties,
    filled_at,
    is_call,
    made_anew,
    plural,
)
from migrate.lowering.plainer.turns_together import Together
from migrate.lowering.statements.scanned_loops import is_new_list
from migrate.lowering.updates.computed_in_loss import KEPT_DRAWS, KEPT_KEY, KEPT_TOGETHER, KEPT_TURNS
from migrate.lowering.updates.region import call_of
from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every


@dataclass
class Writing:
    """The edits for one list."""

    module: cst.Module
    site: KeptSite
    read: Reading
    edits: Edits
    script: Script

    def __post_init__(self) -> None:
        self.at, self.found = filled_at(self.module, self.site.holder, self.site.call)
        self.torch = _name_of_torch(self.module)

    def write(self) -> None:
        """Adds them."""
        if not is_call(self.at.line, self.site.call):
            raise Unsupported("MIG401", f"`{nodes.code(self.site.call)}` is more than a statement")
        if id(self.at.line) in self.script.drawing:
            raise Unsupported("MIG401", f"`{nodes.code(self.site.value)}` draws, which acting would no longer do")
        self.taken = {name.value for name in every(self.module, cst.Name)}
        self.single = _singular(self.site.holder.rpartition(".")[2])
        self.function = self.new(f"{self.single}_of")
        known = self.known_key()
        self.key = known or (self.new(self.key_name()) if self.site.drawing is not None else "")
        self.draws_anew = bool(self.key) and not known
        self.kept = [self.as_now(name) for name in self.site.inputs]
        self.kept += [nodes.name(self.key)] if self.key else []
        self.at_hand = self.arrays_at_hand()
        self.act()
        self.learn()

    def known_key(self) -> str:
        """The key that another list keeps of the same draw; "" where there is none."""
        drawing = self.site.drawing
        for block in every(self.module, (cst.Module, cst.IndentedBlock)) if drawing is not None else ():
            suite = suites.suite_of(block.body)
            if drawing is not None and drawing in suite[1:]:
                call = call_of(suite[suite.index(drawing) - 1])
                made = call is not None and nodes.code(call.func) == f"{self.torch}.{KEPT_KEY}"
                return nodes.code(call.args[0].value) if call is not None and made else ""
        return ""

    def key_name(self) -> str:
        """`dropout_key`, or a name for the key of other draws."""
        drawn = {stream for place in self.site.models for stream in self.script.draws(self.script.places[place])}
        return "dropout_key" if drawn == {"dropout"} else "forward_key"

    def new(self, wanted: str) -> str:
        """A name that the file does not use."""
        made = usage.unused_name(wanted, self.taken)
        self.taken.add(made)
        return made

    def fill_earlier(self, after: Statement) -> None:
        """Puts the call behind the statement after which what is kept is made of the same."""
        suite = self.at.levels[-1].suite
        comments = [line for line in self.at.line.leading_lines if line.comment is not None]
        self.edits.instead[self.at.line] = []
        moved = self.at.line.with_changes(leading_lines=comments)
        self.edits.ahead.setdefault(suite[suite.index(after) + 1], []).append(moved)

    def act(self) -> None:
        """What runs while acting, and the function that computes what was kept."""
        site, line = self.site, self.at.line
        value: Expr = self.kept[0] if len(self.kept) == 1 else nodes.tuple_of(self.kept)
        call = site.call.with_changes(args=[cst.Arg(value)])
        assert isinstance(line, cst.SimpleStatementLine)
        self.edits.instead[line] = [] if self.at_hand else [line.with_changes(body=[cst.Expr(call)])]
        emptying = [one.line for one in self.found if self.at_hand and empties(one.line, site.holder)]
        self.edits.instead |= {one: [] for one in emptying if len(usage.stores(one)) < 2}
        self.leave_out_unread()
        if site.drawing is not None and self.draws_anew:
            drawn = nodes.statement(f"{self.torch}.{KEPT_KEY}({self.key})")
            self.edits.instead[site.drawing] = [drawn, site.drawing]
        body = [one.deep_clone().with_changes(leading_lines=[]) for one in site.forward]
        parts = _parts(self.module, site.value)
        result = nodes.tuple_of(parts, parentheses=False) if len(parts) > 1 else parts[0]
        self.methodical = "self" in {*usage.loads(site.forward), *usage.loads(site.value)}
        parameters = [*(["self"] if self.methodical else []), *site.given, *site.inputs]
        made = suites.function(self.function, parameters, [*body, nodes.statement("return {x}", x=result)])
        around = self.at.function
        if around is None or (not self.methodical and _is_inside(self.at.levels, cst.ClassDef)):
            first = self.at.levels[0].statement
            self.edits.ahead[first] = [*self.edits.ahead.get(first, []), _spaced(made, 2)]
        elif site.given and around is not self.read.function:
            raise Unsupported("MIG401", f"{site.given[0]}, which it is made of, is known to the acting function alone")
        elif self.methodical and self.class_of(self.at.levels) is not self.class_of(self.read.levels):
            raise Unsupported("MIG401", "its loss is computed in another class")
        else:
            lines = 1 if self.methodical else 2
            self.edits.behind[around] = [*self.edits.behind.get(around, []), _spaced(made, lines)]
        self.parts = len(parts)

    def arrays_at_hand(self) -> dict[str, str]:
        """What of a turn this list is to keep -> the array of it, where another list has it all that is filled in the
        same turns, and is an array before this one is read; else nothing."""
        turn = self.at.levels[-1].suite
        if any(map(suites.leaves_loop, turn)) or any(map(self.is_beside, self.found)):
            return {}
        calls = list(filter(None, map(call_of, self.edits.of(turn))))
        for statement in self.edits.of(self.read.suite[: self.read.first]):
            small = suites.alone(statement)
            made = small.value if isinstance(small, cst.Assign) else None
            if not isinstance(made, cst.Call) or nodes.code(made.func) != f"{self.torch}.{KEPT_TOGETHER}":
                continue
            filling = f"{nodes.code(made.args[0].value)}.append"
            kept = [call.args[0].value for call in calls if nodes.code(call.func) == filling]
            parts = [nodes.code(part) for value in kept for part in _elements(value)]
            arrays = dict(zip(parts, usage.stores(statement), strict=False))
            if all(nodes.code(one) in arrays for one in self.kept):
                return arrays
        return {}

    def is_beside(self, mention: Mention) -> bool:
        """Whether a place that names the list neither fills nor empties it, nor is on the way to the loss."""
        level = mention.level_in(self.read.suite)
        read = level is not None and self.read.first <= level.index <= self.read.backward
        return not read and mention.line is not self.at.line and not empties(mention.line, self.site.holder)

    def leave_out_unread(self) -> None:
        """Takes what only this list has read, and surely does no more than compute it, out of what runs while acting:
        calls of models, of torch's, and of methods of what these return."""
        models = {*self.site.given, *(place.name for place in self.site.models)}
        of_torch = imported_from([self.module], ("torch",))
        known = {*models, *of_torch, *self.site.arrays, *usage.stores(self.site.forward)}
        own = {function.name.value for function in every(self.module, cst.FunctionDef)}

        def only_computes(call: cst.Call) -> bool:
            root, method = nodes.root(call.func), call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
            surely = root.value in known if isinstance(root, cst.Name) else isinstance(root, cst.Call)
            return nodes.dotted(call.func) in models or (surely and method not in own)

        gone: list[Statement] = [self.at.line]
        for statement in reversed(self.site.forward):
            names = set(usage.stores(statement))
            reading = _named(self.module, names) - sum(_named(left, names) for left in [statement, *gone])
            alone = id(statement) not in self.script.drawing and all(map(only_computes, usage.calls(statement)))
            if not reading and alone and statement not in self.edits.instead:
                self.edits.instead[statement] = []
                gone.append(statement)

    def as_now(self, name: str) -> Expr:
        """An input; a copy of what others may change later, as environments do with what they have returned."""
        plain = nodes.name(name)
        return plain if name in self.site.arrays else nodes.call(f"{self.torch}.tensor", plain)

    @staticmethod
    def class_of(levels: Sequence[Level]) -> Statement | None:
        """The class around."""
        found = [level.statement for level in levels if isinstance(level.statement, cst.ClassDef)]
        return found[-1] if found else None

    def learn(self) -> None:
        """What runs on the way to the loss."""
        read, site = self.read, self.site
        own = read.function.body if read.function is not None else self.module
        local = {*usage.loads(own), *usage.stores(own), *usage.stores(self.edits.of(read.suite))}
        turn = [*site.inputs, *([self.key] if self.key else [])]
        inputs = [self.at_hand[nodes.code(one)] for one in self.kept] if self.at_hand else []
        inputs = inputs or [self.plural(name, local) for name in turn]
        outputs = [self.plural(name, local) for name in self.element_names()]
        before, after = read.suite[: read.first], read.suite[read.first : read.backward + 1]
        together = nodes.expression(
            f"{self.torch}.{KEPT_TOGETHER}({{saved}}, {len(inputs)})", saved=nodes.expression(site.holder)
        )
        function = f"self.{self.function}" if self.methodical else self.function
        called = nodes.call(function, *map(nodes.name, (*site.given, *site.inputs)))
        mapping = f"{self.torch}.{KEPT_DRAWS if self.key else KEPT_TURNS}"
        over: list[Expr] = [nodes.expression(f"lambda {', '.join(turn)}: {{call}}", call=called)]
        over += [cst.SimpleString(f'"{site.mode}"')] if site.mode else []
        mapped_over = nodes.call(nodes.call(mapping, *over), *map(nodes.name, inputs))
        made = [nodes.statement(f"{', '.join(inputs)} = {{x}}", x=together)] if not self.at_hand else []
        if made and (behind := self.behind_acting()) is not None:
            spaced = any(line.comment is None for line in behind.leading_lines[:1]) and behind not in self.edits.ahead
            line = made.pop().with_changes(leading_lines=[suites.BLANK] if spaced else [])
            self.edits.ahead.setdefault(behind, []).append(line)
        made.append(nodes.statement(f"{', '.join(outputs)} = {{x}}", x=mapped_over))
        functions = {one.name.value: one for one in self.module.body if isinstance(one, cst.FunctionDef)}
        arrays = {path: tuple(outputs) for path in (site.holder, *read.aliases)}
        mapped: set[str] = set()
        emptied: set[str] = set()
        for number, statement in enumerate(after):
            rest = [*after[number + 1 :], *read.suite[read.backward + 1 :], *self.later()]
            earlier = [*before, *after[:number]]
            map_ = Together(self.torch, arrays, earlier, rest, functions, mapped, emptied)
            stands = map_.statement(statement)
            if stands != [statement] or not number:
                self.edits.instead[statement] = [*(made if not number else []), *stands]
            if made_anew(statement, site.holder):
                arrays = {path: found for path, found in arrays.items() if path != site.holder}
        for alias in read.aliases.values():
            self.edits.instead[alias] = []
        self.take_lists_out(mapped, emptied, before, after)

    def behind_acting(self) -> Statement | None:
        """The statement that follows what acts, where it stands in the suite that goes on to the loss: the lists are
        arrays there, for all that reads them."""
        level = self.at.level_in(self.read.suite)
        return level.suite[level.index + 1] if level is not None and level.index + 1 < self.read.first else None

    def later(self) -> list[Statement]:
        """What follows the suite in its function."""
        levels = self.read.levels
        start = max((i for i, one in enumerate(levels) if isinstance(one.statement, cst.FunctionDef)), default=-1)
        return [s for level in levels[start + 1 : -1] for s in level.suite[level.index + 1 :]]

    def take_lists_out(
        self, mapped: set[str], emptied: set[str], before: Sequence[Statement], after: Sequence[Statement]
    ) -> None:
        """Lists that maps make need no `losses = []`; nothing else may fill or read them but what joins them."""
        whole = [*before, *after, *self.read.suite[self.read.backward + 1 :], *self.later()]
        for name in mapped:
            new = [one for one in [*before, *after] if is_new_list(one, {name})]
            touching = [one for one in whole if name in {*usage.loads(one), *usage.stores(one)}]
            if name in emptied and (len(new) != 1 or touching[0] is not new[0]):
                raise Unsupported("MIG401", f"{name} holds more than what is computed from what was kept")
            if name in emptied:
                self.edits.instead[new[0]] = [one for one in self.edits.instead.get(new[0], []) if one is not new[0]]
            joined = [one for statement in whole for one in usage.calls(statement) if self.joins(one, name)]
            appended = 1 if name in emptied else 0
            again = _rebinding(touching, name)
            counted = [one for one in whole if again is None or whole.index(one) <= whole.index(again)]
            if sum(usage.loads(one).count(name) for one in counted) != len(joined) + appended:
                raise Unsupported("MIG401", f"{name} is read in another way than by what joins its elements")

    def joins(self, call: cst.Call, name: str) -> bool:
        """Whether a call joins the elements of a list."""
        if not call.args or nodes.dotted(call.args[0].value) != name:
            return False
        return nodes.code(call.func) in ("sum", "len", *(f"{self.torch}.{one}" for one in ("cat", "stack", "concat")))

    def element_names(self) -> list[str]:
        """The names that the loss has for the parts of what was kept."""
        paths = {self.site.holder, *self.read.aliases}
        loops = [
            one
            for statement in self.read.suite[self.read.first : self.read.backward]
            for one in every(statement, (cst.For, cst.CompFor))
        ]
        for one in loops:
            zipped = isinstance(one.iter, cst.Call) and nodes.dotted(one.iter.func) == "zip"
            sources = [arg.value for arg in one.iter.args] if zipped and isinstance(one.iter, cst.Call) else [one.iter]
            targets = nodes.elements(one.target) if zipped and isinstance(one.target, cst.Tuple) else [one.target]
            for source, target in zip(sources, targets, strict=False):
                if nodes.dotted(source) in paths and len(usage.target_names(target)) == self.parts:
                    return usage.target_names(target)
        return [self.single] if self.parts == 1 else [f"{self.single}_{number + 1}" for number in range(self.parts)]

    def plural(self, name: str, local: set[str]) -> str:
        """The name of an array of what has a name."""
        several = plural(name)
        several = f"all_{several}" if several in local or keyword.iskeyword(several) else several
        made = usage.unused_name(several, local)
        local.add(made)
        return made


def _named(node: cst.CSTNode, names: set[str]) -> int:
    """How often code has one of some names, other than for an attribute."""
    attributes = sum(one.attr.value in names for one in every(node, cst.Attribute))
    return sum(one.value in names for one in every(node, cst.Name)) - attributes


def _rebinding(touching: Sequence[Statement], name: str) -> Statement | None:
    """The statement that gives a name another value: `losses = torch.cat(losses).sum()`."""
    return next((one for one in touching if made_anew(one, name)), None)


def _name_of_torch(module: cst.Module) -> str:
    """The name that a file has for torch."""
    for found in every(module, cst.Import):
        for alias in found.names:
            if alias.evaluated_name == "torch":
                return alias.evaluated_alias or "torch"
    raise Unsupported("MIG401", "the file does not import torch itself")


def _elements(value: Expr) -> list[Expr]:
    """The elements of a tuple, or the one value."""
    return nodes.elements(value) if isinstance(value, cst.Tuple) else [value]


def _singular(name: str) -> str:
    """`log_prob` of `saved_log_probs`."""
    made = name.strip("_").removeprefix("saved_").removesuffix("_list").removesuffix("_buffer")
    return (f"{made[:-3]}y" if made.endswith("ies") else made.removesuffix("s")) or name


def _parts(module: cst.Module, value: Expr) -> list[Expr]:
    """The parts of what is kept: of a tuple, or a named one."""
    if isinstance(value, cst.Tuple):
        return [one.deep_clone() for one in nodes.elements(value)]
    named = [
        one.value
        for one in every(module, cst.Assign)
        if isinstance(value, cst.Call) and nodes.code(one.targets[0].target) == nodes.code(value.func)
    ]
    makes = [one for one in named if isinstance(one, cst.Call) and nodes.code(one.func).endswith("namedtuple")]
    if makes and isinstance(value, cst.Call):
        if any(arg.keyword is not None or arg.star for arg in value.args):
            raise Unsupported("MIG401", f"`{nodes.code(value)}` is not made in the order of its fields")
        return [arg.value.deep_clone() for arg in value.args]
    return [value.deep_clone()]


def _is_inside(levels: Sequence[Level], kind: type[Statement]) -> bool:
    return any(isinstance(level.statement, kind) for level in levels)


def _spaced(function: cst.FunctionDef, lines: int) -> cst.FunctionDef:
    return function.with_changes(leading_lines=[suites.BLANK] * lines)
