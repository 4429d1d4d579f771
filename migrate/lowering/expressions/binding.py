"""What names stand for: their kinds, and their definitions in terms of the scope's inputs."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.facts import FunctionFacts, merge
from migrate.known.kinds import (
    SIZES,
    UNKNOWN,
    Host,
    Items,
    Kind,
    Leaf,
    Model,
    Place,
    Plain,
    Scheduler,
    Tensor,
)
from migrate.lowering.expressions.elements import part_kinds
from migrate.lowering.expressions.masked import MaskedSelections
from migrate.lowering.expressions.passed_on import passed_on
from migrate.lowering.expressions.scalars import Scalars
from migrate.lowering.host.batch_entries import (
    Read,
    Reader,
    all_read,
    entries_given,
    part_of,
    reads_keys,
    tensors_of,
    text_read,
)
from migrate.lowering.scope import NOWHERE
from migrate.lowering.statements.other_names import SHARES, VIEWS, held, may_be_seen, nothing_sees, shown
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import MOVED
from migrate.syntax.imported import full_name, imported_names
from migrate.syntax.nodes import Expr
from migrate.syntax.projections import FIRST
from migrate.syntax.remembering import remembered
from migrate.syntax.walking import every

_GENERATED = {"jnp", "jax", "nn", "optax", "partial", "example", "np", "serialization", "freeze", "Path"}

_LONG = 300  # characters beyond which a definition is no longer followed


@remembered
def _in_parentheses(row: cst.Tuple) -> cst.Tuple:
    """`(2, 3)` for `2, 3`, which would be two arguments in the place of a name."""
    return row if row.lpar else row.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


@remembered
def _captured(block: cst.CSTNode) -> frozenset[str]:
    """The names that the functions in a block read of those around them."""
    return frozenset(usage.loads(every(block, (cst.FunctionDef, cst.Lambda))))


COUNTING_ONES = ("tqdm.trange", "tqdm.auto.trange", "tqdm.notebook.trange", "tqdm.autonotebook.trange")  # as `range`
_TITLED = {"iterate": "labml.monit.iterate"}  # that show progress, and take what it is of first
_FROM_ITS_START = ("itertools.cycle", "itertools.islice", "itertools.chain")


class Binding(Scalars, MaskedSelections):
    """Names and their definitions."""

    def is_captured(self, name: cst.Name) -> bool:
        """Whether a function inside this one reads a name: as it is when that is called, with torch's axes."""
        around = self.own_body
        return name.value in _captured(around)

    def each_as_array(self, value: Value) -> Value:
        """A batch with each tensor in it as an array; other values as they are taken."""
        if not isinstance(value.kind, Host) or value.kind.what != "batch":
            return self.as_array(value)
        return replace(value, node=self.each_taken_in(value.node))

    @property
    def reader(self) -> Reader:
        """What follows batches to where their entries are read."""

        def passes(path: str) -> FunctionFacts | None:
            kind = self.kind_of_name(path) if path else UNKNOWN
            return self.script.functions.get(f"{kind.cls}.forward") if isinstance(kind, Model) else None

        return Reader(self.script, passes)

    def entries_as_arrays(self, batch: Expr, read: Read | None, as_dict: bool) -> Expr:
        """A batch of several arrays as JAX takes it: with those entries that are read, or with all of them where they
        are arrays as far as is known. `as_dict`: whether something takes it for a dict."""
        files = [unit.source for unit in self.unit.others.values() or [self.unit]]
        given = entries_given([file.module for file in files])
        names = set(usage.loads(batch))
        text = text_read(read, given) if read is not None else None
        if text is not None:
            said = f"the loss reads {nodes.code(batch)}[{text!r}], which is a text: jit takes none"
            raise Unsupported("MIG401", said)
        part = None
        if read is not None and not all_read(read, given):
            part = part_of(batch, read, self.taken_in)
        if part is not None:
            return part
        collated = any("collate_fn" in file.text for file in files)  # what the user's own puts together
        if read is None and as_dict and not collated:
            pair = usage.unused_name("key", names), usage.unused_name("value", names)
            return tensors_of(batch, self.taken_in, pair)
        return self.each_taken_in(batch)

    def in_parts(self, value: Value, function: FunctionFacts, parameter: str) -> Value | None:
        """A batch of several arrays as a function takes it that JAX traces, with those that it reads; None where it
        takes one array."""
        if not isinstance(value.kind, Host) or value.kind.what != "batch":
            return None
        body = [function.node.body]
        read, as_dict = self.reader.read(function.qualname, body, parameter), reads_keys(body, parameter)
        if read is None and not as_dict:
            return None
        return Value(self.entries_as_arrays(value.node, read, as_dict), Items(None, Tensor()))

    def bind(self, target: cst.CSTNode, kind: Kind, layout: str = "first") -> None:
        """Binds the names of an assignment target."""
        if isinstance(kind, Leaf) and kind.place != self.place_of(target):
            kind = kind.plain
        if isinstance(target, cst.Name):
            self.put_first.pop(target.value, None)
            self.env.kinds[target.value] = kind
            self.env.told = {p: told for p, told in self.env.told.items() if target.value not in told.names}
            self.env.shared.discard(target.value)
            self.env.past.discard(target.value)
            self.env.last.pop(target.value, None)
            if layout == "last" and isinstance(kind, Tensor):
                self.env.last[target.value] = kind.rank
        elif isinstance(target, cst.Tuple | cst.List):
            kinds = part_kinds(kind, [isinstance(element, cst.StarredElement) for element in target.elements])
            for element, part in zip(target.elements, kinds, strict=True):
                self.bind(element.value, part)
        elif isinstance(target, cst.Attribute) and nodes.dotted(target.value) == "self":
            self.env.kinds[f"self.{target.attr.value}"] = kind
            merge(self.bound_attributes, f"self.{target.attr.value}", kind)

    def bind_again(self, name: cst.Name, kind: Kind, layout: str, value: Expr) -> None:
        """Binds a name to what it was, `x = x.contiguous()`: other names of that stay, but of a copy, or of a tensor
        that is trained, whose lists are known."""
        seen = name.value in self.env.shared and not set(MOVED) & set(usage.attributes(value))
        seen = seen and not isinstance(kind, Leaf) and not self.fresh(value)
        self.bind(name, kind, layout)
        self.env.shared |= {name.value} if seen else set()

    def share(self, targets: Sequence[cst.CSTNode], value: Expr) -> None:
        """Notes which names are bound to what something else may see: another name's tensor, or a view of it."""
        if len(targets) == 1 and isinstance(targets[0], cst.Tuple) and isinstance(value, cst.Tuple):
            names, values = targets[0].elements, value.elements
            if len(names) == len(values) and all(isinstance(one, cst.Element) for one in (*names, *values)):
                for name, one in zip(names, values, strict=True):  # each name has its own
                    self.share([name.value], one.value)
                return
        by_name = isinstance(value, cst.Call) and isinstance(value.func, cst.Name)
        picked = by_name and held(self, value)  # next(iter(xs))
        if picked or may_be_seen(value):
            seen = shown(value) if picked else usage.loads(value)
            self.env.shared |= {name for target in targets for name in usage.target_names(target)}
            self.env.shared |= {name for name in seen if isinstance(self.kind_of_name(name), Tensor)}

    def still_sizes(self, target: cst.CSTNode, kind: Kind, value: Expr) -> bool:
        """Whether a function makes sizes of sizes, one for each axis: `kernel_size = to_2tuple(kernel_size)`."""
        if not isinstance(target, cst.Name) or type(kind) is not Kind or not isinstance(value, cst.Call):
            return False
        given = any(isinstance(arg.value, cst.Name) and arg.value.value == target.value for arg in value.args)
        return given and self.kind_of_name(target.value) == SIZES

    def stays_alone(self, targets: Sequence[cst.CSTNode], value: Expr) -> bool:
        """Whether a name is bound to a view of a tensor that no other name shows: `x = x.permute(1, 0)`."""
        name = nodes.dotted(targets[0]) if len(targets) == 1 else None
        seen = name is None or name in self.env.shared or not isinstance(self.kind_of_name(name), Tensor)
        return not seen and shown(value) == {name}

    def own(self, node: Expr) -> None:
        """Declines to change in place what a caller or another name may see, since rebinding would not reach it."""
        if isinstance(node, cst.Name) and node.value in self.env.shared and not nothing_sees(self, node.value):
            self.refuse_shared(node)

    def refuse_shared(self, node: Expr) -> None:
        """Declines what a caller may see, or another name, wherever that is read."""
        if isinstance(node, cst.Name) and node.value in self.env.shared:
            raise Unsupported("MIG303", f"{node.value} is changed in place, and may be seen under another name")

    def gives(self, node: Expr) -> bool:
        """Whether nothing here can see an argument change: it was just made, or this statement is the last to read its
        only name."""
        if not isinstance(node, cst.Name):
            return self.fresh(node)
        last = node.value in self.last_reads and node.value in self.env.kinds and not self.nested
        return last and node.value not in self.env.shared

    def fresh(self, node: Expr) -> bool:
        """Whether a value has just been made by torch, so that nothing else can see it change."""
        if isinstance(node, cst.BinaryOperation | cst.Comparison):
            return True  # of a tensor: no operator gives one of its operands
        if isinstance(node, cst.Attribute) and node.attr.value == "data":
            return self.fresh(node.value)
        if not isinstance(node, cst.Call):
            return False
        name = self.torch_name(node.func)
        if name is not None:
            short = name.rpartition(".")[2]
            return short not in VIEWS and short not in SHARES and not short.endswith("_")
        if not isinstance(node.func, cst.Attribute):
            return False
        method = node.func.attr.value
        if method in VIEWS or method.endswith("_"):
            return self.gives(node.func.value)
        return f"Tensor.{method}" in RULES

    def place_of(self, target: cst.CSTNode) -> Place:
        """Where an object with state lives when it is assigned to the target; NOWHERE for other targets."""
        if isinstance(target, cst.Name):
            return Place(self.scope, target.value)
        if isinstance(target, cst.Attribute) and nodes.dotted(target.value) == "self":
            return Place(self.scope.rpartition(".")[0], f"self.{target.attr.value}")
        return NOWHERE

    def held_as(self, cls: str, given: Place) -> Place:
        """The attribute that takes an object over which a method of a class is given, itself or by another method that
        it hands it on to; the object itself where none does."""
        sources = self.script.parameters_of
        for place, source in sources.items():
            while source != given and source.scope.rpartition(".")[0] == cls and source in sources:
                source = sources[source]
            if source == given and place.of_self and place.scope == cls:
                return place
        return given

    def outlive(self, optimizer: Place) -> None:
        """Schedulers that are there before their optimizer is made anew are none of the new one."""
        for name, kind in self.env.kinds.items():
            if isinstance(kind, Scheduler) and kind.optimizer == optimizer:
                self.env.kinds[name] = replace(kind, mixed=True)

    def ends_here(self) -> bool:
        """Whether this function returns at its end alone: what it has made is surely there."""
        body = suites.suite_of(self.facts.node.body.body) if self.facts is not None else []
        returns = usage.returns(cst.Module(body))
        return len(returns) == 1 and isinstance(body[-1], cst.SimpleStatementLine) and body[-1].body[-1] is returns[0]

    def define(self, targets: Sequence[cst.CSTNode], value: Expr) -> None:
        """Remembers what names stand for. A name that is bound again keeps its old meaning in what was defined by
        it."""
        bound = [name for target in targets for name in usage.target_names(target)]
        meant = self.retire(bound, value)
        for target in targets:
            self.define_target(target, meant)

    def retire(self, names: Sequence[str], value: Expr | None) -> Expr | None:
        """Replaces names that are about to be bound again by their definitions, wherever they are used."""
        definitions = self.env.definitions
        old = {name: definitions[name] for name in names if name in definitions}
        if old:
            for name, definition in list(definitions.items()):
                if name not in old and set(usage.loads(definition)) & set(old):
                    self.define_target(cst.Name(name), _followed(nodes.substituted(definition, old)))
            if value is not None and set(usage.loads(value)) & set(old):
                return _followed(nodes.substituted(value, old))
        return value

    def define_target(self, target: cst.CSTNode, value: Expr | None) -> None:
        """Remembers what a target's names stand for; forgets it where the value is None."""
        if isinstance(target, cst.Name):
            self.env.definitions.pop(target.value, None)
            if value is not None:
                self.env.definitions[target.value] = _in_parentheses(value) if isinstance(value, cst.Tuple) else value
        elif isinstance(target, cst.Tuple | cst.List):
            for number, element in enumerate(target.elements):
                part = None
                if isinstance(value, cst.Tuple) and len(value.elements) == len(target.elements):
                    part = value.elements[number].value
                elif value is not None:
                    part = nodes.expression("{value}[" + str(number) + "]", value=_with_places(value))
                self.define_target(element.value, part)

    def gone_through(self, source: Expr) -> Expr:
        """What a loop over `tqdm(x)`, or over a generator that hands on `x`, goes through."""
        while isinstance(source, cst.Call) and source.args:
            shown = self.shown_through(source)
            through = shown if shown is not None else passed_on(self, source)
            if through is None:
                break
            source = through
        return source

    def shown_through(self, call: cst.Call) -> Expr | None:
        """What a call gives one by one as it is, `loader` of `tqdm(loader)`, `range(n)` of `trange(n)`; None of other
        calls."""
        shows = self.shows_progress(call.func)
        if shows and full_name(call.func, imported_names(self.unit.source.module)) in COUNTING_ONES:
            return nodes.call("range", *(arg.value for arg in call.args if arg.keyword is None))
        if shows or self.starts_as(call.func):
            first = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "iterable"]
            return first[0] if first else None
        titled = len(call.args) > 1 and (nodes.dotted(call.func) or "").rpartition(".")[2] in _TITLED
        name = full_name(call.func, imported_names(self.unit.source.module)) if titled else None
        return call.args[1].value if name in _TITLED.values() else None

    def shows_progress(self, func: Expr) -> bool:
        """`tqdm` itself, imported as what it is, or `tqdm.tqdm` of its module."""
        path = nodes.dotted(func)
        return path is not None and self.kind_of_name(path.partition(".")[0]) == Plain("progress")

    def starts_as(self, func: Expr) -> bool:
        """Whether a function of itertools gives what its first argument does, from its start on."""
        tail = (nodes.dotted(func) or "").rpartition(".")[2]  # most calls have another one: the imports are not read
        named = any(one.endswith(f".{tail}") for one in _FROM_ITS_START)
        return named and full_name(func, imported_names(self.unit.source.module)) in _FROM_ITS_START

    def define_loop(self, target: cst.CSTNode, source: Expr) -> None:
        """What the loop variable is in the first turn."""
        source = self.gone_through(source)
        named = self.env.definitions.get(source.value) if isinstance(source, cst.Name) else None
        if isinstance(named, cst.Call) and self.shows_progress(named.func):  # `loop = tqdm(enumerate(loader))`
            source = self.gone_through(named)
        if isinstance(source, cst.Call) and isinstance(source.func, cst.Name) and source.args:
            name, first = source.func.value, source.args[0].value
            if name == "enumerate" and isinstance(target, cst.Tuple) and len(target.elements) == 2:
                self.define_target(target.elements[0].value, cst.Integer("0"))
                self.define_loop(target.elements[1].value, first)
                return
            if name == "range":
                start = first if len(source.args) > 1 else cst.Integer("0")
                self.define_target(target, start)
                return
            if name == "reversed" and (last := _last_counted(first)) is not None:
                self.define_target(target, last)
                return
            if name == "zip" and isinstance(target, cst.Tuple) and len(target.elements) == len(source.args):
                for element, arg in zip(target.elements, source.args, strict=True):
                    self.define_loop(element.value, arg.value)
                return
        if isinstance(source, cst.List | cst.Tuple) and source.elements:
            first = source.elements[0]
            starred = isinstance(first, cst.StarredElement)
            self.define_target(target, nodes.call(FIRST, first.value) if starred else first.value)
            return
        self.define_target(target, nodes.call(FIRST, source))

    def available(self, node: Expr) -> bool:
        """Whether everything that an expression reads is bound by now."""
        return all(self.available_name(name) for name in usage.loads(node))

    def available_name(self, name: str, before: bool = False) -> bool:
        """Whether a name is bound by now: here, further out, by Python, or by what the output imports. `before`: by the
        statement at hand, not in it."""
        if name in _GENERATED:
            return True
        if name in self.env.kinds:
            return not self.heads or name in self.heads[0].kinds or self.bound_in_this_turn(name, before)
        if self.facts is not None and name in usage.stores(self.facts.node.body):
            return False  # a variable of this function, which is bound further down
        outer = self.env.outer
        while outer is not None and name not in outer.kinds:
            outer = outer.outer
        if outer is None:  # Python's own, unless the file binds it further down: `input = batch.to(device)`
            return hasattr(builtins, name) and name not in usage.stores(self.unit.source.module.body)
        looped = outer.outer is None and name not in self.unit.settled
        if outer.outer is None and self.facts is not None and not self.bound_when_called(name):
            return False
        return not (looped and isinstance(outer.kinds[name], Tensor | Host))

    def bound_when_called(self, name: str) -> bool:
        """Whether a variable of the file is bound before the file first calls this function, as the order of its lines
        tells."""
        assert self.facts is not None
        called = self._first_line_calling(self.facts, frozenset())
        positions = self.unit.source.positions
        binding = (cst.SimpleStatementLine, cst.For)
        lines = [
            positions[line].start.line
            for line in every(self.unit.source.module, binding, closed=(cst.FunctionDef, cst.ClassDef))
            if line in positions
            and name in (usage.target_names(line.target) if isinstance(line, cst.For) else usage.stores(line))
        ]
        return called is None or not lines or min(lines) < called

    def _first_line_calling(self, facts: FunctionFacts, seen: frozenset[str]) -> int | None:
        """The first line of the file, outside of functions, that leads to a function; None where that is not known."""
        found: list[int] = []
        for site in facts.calls:
            position = self.unit.source.positions.get(site.node) if site.node is not None else None
            around = self.script.functions.get(site.scope)
            if site.scope == self.unit.scope and position is not None:
                found.append(position.start.line)
            elif around is not None and site.scope not in seen:
                line = self._first_line_calling(around, seen | {site.scope})
                found += [] if line is None else [line]
        return min(found, default=None)

    def bound_in_this_turn(self, name: str, before: bool) -> bool:
        """Whether a name that no statement before the loops binds is bound by now in their first turn as well."""
        bound: set[str] = set()
        for block in self.blocks:
            bound |= set(usage.stores(block.statements[: block.index]))
            around = block.statements[block.index]
            if block is not self.blocks[-1]:
                if isinstance(around, cst.For | cst.With):  # what its head binds
                    bound |= set(usage.stores(around.with_changes(body=cst.SimpleStatementSuite([cst.Pass()]))))
            elif not before:
                bound |= set(usage.stores(around))
        return name in bound


def _followed(definition: Expr) -> Expr | None:
    """The definition, or None where it has grown too long to follow: substituted again and again, it would explode."""
    return None if len(nodes.code(definition)) > _LONG else definition


def _last_counted(node: Expr) -> Expr | None:
    """The last number of `range(n)` or `range(m, n)`."""
    if not isinstance(node, cst.Call) or nodes.dotted(node.func) != "range" or len(node.args) not in (1, 2):
        return None
    return nodes.expression("{stop} - 1", stop=nodes.parenthesized(node.args[-1].value))


def _with_places(value: Expr) -> Expr:
    """What is taken apart, as something of which one element can be asked: a list of what an iterator gives."""
    if isinstance(value, cst.GeneratorExp):
        return cst.ListComp(value.elt, value.for_in)
    if isinstance(value, cst.Call) and nodes.dotted(value.func) in ("map", "zip", "filter"):
        return nodes.call("list", value)
    return value
