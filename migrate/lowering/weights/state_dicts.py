"""Weights under the names that they have in torch: `weights = model.state_dict()`, and what a script does with them.

Where a state dict is only saved, or put into another model, it is the parameters as they are. Where a script looks into
it, it becomes a dict of torch's names and axes, by a table of where each weight is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import libcst as cst

from migrate import layouts
from migrate.diagnostics import Unsupported
from migrate.known.kinds import DType, Items, Model, Plain, Tensor, TorchName
from migrate.known.states import BATCH_STATS, PARAMS, State
from migrate.known.weight_kinds import CHECKPOINT, StateDict, Weight
from migrate.layers.moves import Permute
from migrate.lowering.expressions.binding import Binding
from migrate.lowering.expressions.elements import DICT, WeightsByName
from migrate.lowering.initial.initialisation import kept_statistics
from migrate.lowering.models.model_methods import ModelMethods
from migrate.lowering.modules.module_weights import CONSTANT, NEVER_MADE, UNSAVED
from migrate.lowering.scope import HOST_CONTEXTS, NOWHERE
from migrate.lowering.weights.state_loops import only_averaged
from migrate.lowering.weights.weight_dicts import model_of_state
from migrate.manifest import ModelWeights
from migrate.rules.rule import Value
from migrate.syntax import nodes, usage
from migrate.syntax.chains import MOVED
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every, walk
from migrate.weights import buffer_paths, counts_batches, model_weights

_CHANGES = ("update", "pop", "popitem", "clear", "setdefault")
# what entries of checkpoints are called that hold the weights of a model
_ENTRIES = ("state_dict", "model_state_dict", "model_state", "model", "net", "weights", "params")
_LOOKS = ("keys", "values", "items", "get", "copy", *_CHANGES)


class StateDicts(ModelMethods, Binding):
    """Dicts of weights that scripts look into."""

    def is_moved_array(self, node: cst.Call) -> bool:
        """Whether a call moves what a checkpoint holds to a device: `checkpoint["best"].to(device)`."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in MOVED:
            return False
        saved = self.env.definitions.get(func.value.value) if isinstance(func.value, cst.Name) else func.value
        cast = any(isinstance(self.kind_of(arg.value), TorchName | DType) for arg in node.args)
        return isinstance(saved, cst.Subscript) and self.kind_of(saved.value) == CHECKPOINT and not cast

    def named_state(self, line: cst.SimpleStatementLine, target: Expr, value: Expr) -> list[Statement] | None:
        """`weights = model.state_dict()` where the script looks into them; None for other assignments."""
        model = model_of_state(self, value)
        if model is None and isinstance(target, cst.Name) and self.context in HOST_CONTEXTS:
            return self.named_of_file(line, target, value)
        if model is None or not isinstance(target, cst.Name):
            return None
        if only_averaged(target.value, self.blocks[0].statements):
            self.bind(target, StateDict(model.place or NOWHERE))
            self.define_target(target, value)
            return []
        looks = _looks(target.value, self.blocks[0].statements)
        weights = {leaf.torch for leaf in model_weights(self.script, model.cls).leaves}
        beside = all(isinstance(key, str) and "." not in key and key not in weights for key in looks.added)
        if not looks.found and beside:
            return None
        made = self.by_names(model, value, shown=target.value)
        self.bind(target, made.kind)
        self.define_target(target, None)
        return [line.with_changes(body=[cst.Assign([nodes.target(target)], made.node)])]

    def named_of_file(self, line: cst.SimpleStatementLine, target: cst.Name, value: Expr) -> list[Statement] | None:
        """`weights = torch.load(path)`, or an entry of that, where the script looks into them by torch's names; None
        for other assignments."""
        if not self.are_weights_of_file(target, value) or not _looks(target.value, self.blocks[0].statements).found:
            return None
        read = self.expr(value).node
        named = Value(read, Items(None, Weight(axes=True), DICT))
        made = named if "torch" in self.script.saved_under else self.by_names(self.only_model(value), value, read)
        self.bind(target, made.kind)
        self.define_target(target, None)
        return [line.with_changes(body=[cst.Assign([nodes.target(target)], made.node)])]

    def by_names(self, model: Model, node: cst.CSTNode, read: Expr | None = None, shown: str = "") -> Value:
        """A model's weights, or such weights as a file has (`read`), as a dict of torch's names. `shown`: what
        it is called where it may be shown to a reader, who is told of what torch has beside."""
        assert model.place is not None
        counters = [one.torch for one in model_weights(self.script, model.cls).unused if counts_batches(one.torch)]
        if counters and shown and _shows(shown, self.blocks[0].statements):
            self.unit.report(Unsupported("MIG520", counters[0]), node)
        self.unit.use_snippet("state_dict")
        weights = self.saved(model) if read is None else read
        made = nodes.call("state_dict", weights, *self.where_weights_are(model))
        if read is not None:
            return Value(made, Items(None, Weight(axes=True), DICT))
        return Value(made, WeightsByName(None, Weight(axes=True, live=True), DICT, model.place))

    def are_weights_of_file(self, target: cst.Name, value: Expr) -> bool:
        """Whether a value that gets a name is what a file of the project's has of a model's weights: all that is in it,
        or an entry."""
        if not self.script.checkpoints or len(self.script.saved_under) > 1:
            return False
        if isinstance(value, cst.Call) and self.torch_name(value.func) == "torch.load":
            asked = every(self.unit.source.module, cst.Subscript)
            words = [_word_of(one) for one in asked if nodes.dotted(one.value) == target.value]
            return all("." in word for word in words if word)  # others are entries, not weights
        owner = value.value if isinstance(value, cst.Subscript) else None
        read = isinstance(owner, cst.Call) and self.torch_name(owner.func) == "torch.load"
        known = read or (owner is not None and self.kind_of(owner) == CHECKPOINT)
        return known and isinstance(value, cst.Subscript) and _word_of(value) in _ENTRIES

    def only_model(self, node: Expr) -> Model:
        """The model that a file can have weights of, where all models of the project are of one class."""
        known = {cls: place for place, cls in self.script.places.items() if not self.script.weightless(cls)}
        if len(known) != 1:
            raise Unsupported(
                "MIG306", f"{nodes.code(node)}: the names in a file are Flax's, of which model is not known"
            )
        ((cls, place),) = known.items()
        return Model(cls, place)

    def load_some(self, node: cst.Call, kind: Model) -> list[Statement] | None:
        """`model.load_state_dict(weights, strict=False)` of a dict under torch's names: those that the model has take
        the place of its own; None for other calls."""
        source = node.args[0].value
        value = self.expr(source) if isinstance(source, cst.Name) else None
        loose = [arg.keyword is not None and nodes.is_literal(arg.value, False) for arg in node.args[1:]]
        if value is None or not isinstance(value.kind, Items) or value.kind.type != DICT or loose != [True]:
            return None
        return self.put_back(kind, value.node, "with_weights_it_has")

    def looked_into(self, node: cst.Call, func: cst.Attribute, base: Value) -> tuple[cst.Call, Value]:
        """`model.state_dict().items()` with torch's names in it; other calls as they are."""
        model = model_of_state(self, func.value) if isinstance(base.kind, StateDict) else None
        if model is None or func.attr.value not in _LOOKS:
            return node, base
        named = self.by_names(model, node, shown="state_dict")
        return node.with_changes(func=func.with_changes(value=named.node)), named

    def foreign_state(self, node: cst.Call, func: cst.Attribute) -> Value | None:
        """`other.state_dict()` of a model that another package makes, which stays torch's; None for other calls."""
        if func.attr.value != "state_dict" or node.args or not self.is_foreign(func.value):
            return None
        text = "{{name: jnp.asarray(value) for name, value in {call}.items()}}"
        made = cst.parse_expression(text.format(call=nodes.code(node)))
        return Value(made, Items(None, Tensor("float"), DICT))

    def is_foreign(self, node: Expr) -> bool:
        """Whether an expression is what a class or a function of another package gives."""
        if isinstance(node, cst.Name):
            node = self.env.definitions.get(node.value, node)
        root = (nodes.dotted(node.func) or "").split(".")[0] if isinstance(node, cst.Call) else ""
        return root in self.unit.imported and self.kind_of_name(root) == Plain("imported")

    # -- changes ------------------------------------------------------------------------------------------------------

    def copied_by_name(self, line: cst.SimpleStatementLine, node: cst.Call) -> list[Statement] | None:
        """`weights[name].copy_(value)` changes the model, once all of a loop is done; None for other calls."""
        func = node.func
        if not isinstance(func, cst.Attribute) or func.attr.value != "copy_" or len(node.args) != 1:
            return None
        target = func.value
        if not isinstance(target, cst.Subscript) or not isinstance(target.value, cst.Name):
            return None
        kind = self.kind_of(target.value)
        if not isinstance(kind, WeightsByName):
            return None
        if _looks(target.value.value, self.blocks[0].statements).changed:
            raise Unsupported("MIG306", f"{target.value.value} changes as a dict and as the weights of a model")
        self.changed_by_name[kind.place] = target.value.value
        lowered, value = self.expr(target), self.array(node.args[0].value)
        return [line.with_changes(body=[cst.Assign([nodes.target(lowered.node)], layouts.first(value))])]

    def late_changes(self) -> list[Statement]:
        """What has been copied by name, put into the parameters."""
        if self.loops or self.context not in HOST_CONTEXTS:
            return []
        made: list[Statement] = []
        while self.changed_by_name:
            place, name = self.changed_by_name.popitem()
            kind = self.kind_of_name(place.name)
            assert isinstance(kind, Model)
            made += self.put_back(kind, nodes.name(name))
        return made

    def put_back(self, kind: Model, weights: Expr, snippet: str = "with_state_dict") -> list[Statement]:
        """`params = with_state_dict(params, weights, NET_WEIGHTS)`."""
        self.unit.use_snippet(snippet)
        return self.taken(kind, nodes.call(snippet, self.saved(kind), weights, *self.where_weights_are(kind)))

    def taken(self, kind: Model, made: Expr) -> list[Statement]:
        """`params = made`: weights become those of a model, with its batch statistics where it keeps some."""
        assert kind.place is not None
        if not self.stats_of(kind):
            return [nodes.statement("{p} = {made}", p=self.write(State(PARAMS, kind.place)), made=made)]
        params, stats = (self.write(State(what, kind.place)) for what in (PARAMS, BATCH_STATS))
        return [
            nodes.statement("variables = {made}", made=made),
            nodes.statement(
                '{p}, {s} = variables["params"], {kept}', p=params, s=stats, kept=kept_statistics(self.script, kind.cls)
            ),
        ]

    # -- the table ----------------------------------------------------------------------------------------------------

    def where_weights_are(self, model: Model) -> list[Expr]:
        """The table of a model's names, and the model itself where it makes constants, which torch has in the dict."""
        stats = self.stats_of(model)
        weights = model_weights(self.script, model.cls)
        rows = _rows(weights, stats)
        beside = [unused.torch for unused in weights.unused if unused.reason not in (NEVER_MADE, UNSAVED)]
        constants = [name for name in beside if not counts_batches(name)]
        if constants and (stats or not self.constants_are_found(model.cls, weights)):
            raise Unsupported("MIG306", f"{constants[0]} is in a state dict of {weights.name}, and no weight in Flax")
        table = self.table_of_weights(model.cls, rows | dict.fromkeys(beside), weights)
        if not constants or model.place is None:
            return [table]
        return [table, nodes.expression(self.named_here(model.place))]

    def from_state_dict(self, model: Model, call: cst.Call, source: Expr) -> Expr:
        """The weights that `model.load_state_dict(...)` takes from a dict with torch's names and axes."""
        loose = any(not nodes.is_literal(arg.value, True) for arg in call.args[1:])  # strict=False
        if loose or model.place in self.script.doubled:
            raise Unsupported("MIG306", f"{nodes.code(call)}: a part of the weights, or weights of another type")
        weights = model_weights(self.script, model.cls)
        constants = self.constants_of(model, weights)
        beside = dict.fromkeys(unused.torch for unused in weights.unused if unused.reason != UNSAVED)
        surely = tuple(tie for tie in weights.ties if not tie.optional)
        if len(surely) < len(weights.ties) and model.place is not None and not (constants or self.stats_of(model)):
            rows = _rows(weights, stats=False) | beside
            table = self.table_of_weights(model.cls, rows, replace(weights, ties=surely))
            self.unit.use_snippet("with_weights_it_has")  # what is tied has no leaf of its own
            return nodes.call("with_weights_it_has", self.read(State(PARAMS, model.place)), source, table)
        table = self.table_of_weights(model.cls, _rows(weights, self.stats_of(model)) | beside, weights)
        if constants and model.place is not None:
            self.unit.use_snippet("from_state_dict_of")
            places = nodes.dict_of([(name, cst.SimpleString(f'"{path}"')) for name, path in constants.items()])
            own = nodes.expression(self.named_here(model.place))
            return nodes.call("from_state_dict_of", own, source, table, places)
        self.unit.use_snippet("from_state_dict")
        return nodes.call("from_state_dict", source, table)

    def constants_of(self, model: Model, weights: ModelWeights) -> dict[str, str]:
        """Where a model has what it makes of its settings and torch keeps with the weights, by torch's names."""
        made = [each for each in buffer_paths(self.script, model.cls) if each[2] == CONSTANT]
        found = {torch: path for torch, path, _ in made}
        if made and (len(found) < len(made) or model.place is None):
            raise Unsupported("MIG306", f"{made[0][0]} is in a state dict of {weights.name}, and no weight in Flax")
        return found

    def table_of_weights(self, cls: str, rows: _Rows, weights: ModelWeights) -> Expr:
        """The name of the table in the output."""
        self.refuse_chosen(cls, "the state dict")
        told = next((tie.torch for tie in weights.ties if tie.optional), "")
        if told:
            raise Unsupported("MIG306", f"{told} of {weights.name} is one weight or another in Flax")
        rows = {**rows, **{tie.torch: rows[tie.same_as] for tie in weights.ties}}
        free = next((name for name in rows if "{n" in name), "")
        if free:
            raise Unsupported("MIG306", f"{free} of {weights.name}: the keys of a dict that are told as it is made")
        order = list(self.script.classes[cls].attributes)
        first = {name: name.partition(".")[0] for name in rows if "." in name}  # a class's own weights come before
        names = sorted(_in_order(rows), key=lambda name: order.index(first[name]) if first.get(name) in order else -1)
        lines = "".join(f'    "{name}": {_place(rows[name])},\n' for name in names)
        text = f"{{\n{lines}}}\n"

        def make(name: str) -> list[Statement]:
            comment = "# torch's name of each weight: its path here, and the order of its axes where that is another\n"
            return list(cst.parse_module(f"{comment}{name} = {text}").body)

        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", weights.name).upper()
        return nodes.name(self.unit.helper(f"{words}_WEIGHTS", make, text))

    def constants_are_found(self, cls: str, weights: ModelWeights) -> bool:
        """Whether all that is in torch's dict and no weight in Flax are constants, with torch's names for the way."""
        classes = [self.script.classes[one] for one in self.script.with_submodules(cls)]
        renamed = any(facts.renamed.keys() & {*facts.buffers, *facts.children} for facts in classes)
        made = {CONSTANT, NEVER_MADE, UNSAVED}
        unused = [each for each in weights.unused if not counts_batches(each.torch)]
        numbered = any(part.isdigit() for each in unused for part in each.torch.split("."))
        return not renamed and not numbered and all(each.reason in made for each in unused)


_Row = tuple[str, tuple[int, ...] | None]  # the path of a weight here, the order of its axes
_Rows = dict[str, _Row | dict[int, _Row] | None]  # torch's name -> its row, by the number of axes where that decides


def _rows(weights: ModelWeights, stats: bool) -> _Rows:
    """Where each weight of a model is. `stats`: it keeps batch statistics beside its parameters."""
    found: dict[str, dict[_Row, int]] = {}  # row -> the number of axes
    for leaf in weights.leaves:
        axes = leaf.moves[0].axes if len(leaf.moves) == 1 and isinstance(leaf.moves[0], Permute) else None
        if leaf.moves and axes is None:
            raise Unsupported("MIG306", f"{leaf.torch} of {weights.name} has another form in Flax")
        row = (leaf.flax if stats else leaf.flax.removeprefix("params/"), axes)
        found.setdefault(leaf.torch, {})[row] = len(leaf.shape) if leaf.shape is not None else -1
    rows: _Rows = {}
    for name, ranks in found.items():
        by_rank = {rank: row for row, rank in ranks.items()}
        if len(ranks) > 1 and (len(by_rank) < len(ranks) or -1 in by_rank):
            raise Unsupported("MIG306", f"{name} of {weights.name} is one weight or another in Flax")
        rows[name] = by_rank if len(ranks) > 1 else next(iter(ranks))
    return rows


def _in_order(rows: Mapping[str, object]) -> list[str]:
    """Names with the constants of a module between its own weights and those of the modules inside."""
    names = [name for name, place in rows.items() if place is not None]
    for name in (name for name, place in rows.items() if place is None):
        prefix = name.rpartition(".")[0]
        alike = [number for number, other in enumerate(names) if other.startswith(f"{prefix}." if prefix else "")]
        inside = [number for number in alike if names[number].count(".") > name.count(".")]
        names.insert(inside[0] if inside else alike[-1] + 1 if alike else len(names), name)
    return names


def _place(row: _Row | dict[int, _Row] | None) -> str:
    if isinstance(row, dict):
        return f"{{{', '.join(f'{rank}: {_place(one)}' for rank, one in row.items())}}}"
    return "None" if row is None else f'("{row[0]}", {row[1]})'


class _Looks(cst.CSTVisitor):
    """How a dict under a name is used: `found`, its entries are asked for; `changed`, others take their place; `added`,
    under these keys."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.found = self.changed = False
        self.added: list[object] = []

    def is_it(self, node: cst.CSTNode) -> bool:
        return nodes.dotted(node) == self.name

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.found |= self.is_it(node.value) and node.attr.value in _LOOKS
        self.changed |= self.is_it(node.value) and node.attr.value in _CHANGES

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        target = node.target
        if not isinstance(target, cst.Subscript) or not self.is_it(target.value):
            return True
        self.changed = True
        self.added.append(nodes.looked_up(target))
        return False

    def visit_Subscript(self, node: cst.Subscript) -> None:
        self.found |= self.is_it(node.value)

    def visit_ComparisonTarget(self, node: cst.ComparisonTarget) -> None:
        self.found |= self.is_it(node.comparator)

    def visit_For(self, node: cst.For) -> None:
        self.found |= self.is_it(node.iter)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        self.found |= self.is_it(node.iter)


def _looks(name: str, statements: Sequence[Statement]) -> _Looks:
    visitor = _Looks(name)
    walk(cst.Module(list(statements)), visitor)
    return visitor


def _shows(name: str, statements: Sequence[Statement]) -> bool:
    """Whether a loop over a dict under a name prints something, or its length is asked for."""
    whole = cst.Module(list(statements))
    loops = [one for one in every(whole, cst.For) if name in [*usage.loads(one.iter), *usage.attributes(one.iter)]]
    printed = any(nodes.dotted(call.func) == "print" for one in loops for call in usage.calls(one.body))
    asked = [call.args[0].value for call in usage.calls(whole) if nodes.dotted(call.func) == "len" and call.args]
    return printed or any(name in [*usage.loads(one), *usage.attributes(one)] for one in asked)


def _word_of(node: cst.Subscript) -> str:
    """The word that a subscript looks up; "" where it is none."""
    found = nodes.looked_up(node)
    return found if isinstance(found, str) else ""
