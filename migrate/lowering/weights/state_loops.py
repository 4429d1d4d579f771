"""Loops over the state dicts of models: averages of weights and of batch statistics, as timm and YOLO keep them.

`for k, v in ema.state_dict().items(): v *= d; v += (1 - d) * weights[k]` is a map over the parameters, and one over the
batch statistics. What else a state dict has counts batches, of which an average has no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.kinds import Model
from migrate.known.qualified import is_chosen
from migrate.known.states import BATCH_STATS, PARAMS
from migrate.lowering.modules.module_weights import CONSTANT
from migrate.lowering.scope import NOWHERE
from migrate.lowering.weights.gradient_lists import GradientLists
from migrate.lowering.weights.plain_weights import Looped, PlainWeights, root_of_chain
from migrate.lowering.weights.selections import names_of_pair
from migrate.lowering.weights.weight_dicts import model_of_state
from migrate.syntax import nodes, suites, usage
from migrate.syntax.chains import MOVED
from migrate.syntax.nodes import Expr, Statement
from migrate.syntax.walking import every
from migrate.weights import counts_batches, model_weights, same_weights


@dataclass(frozen=True)
class _Entries:
    """The variables of such a loop with their models, its statements, and what it calls the names of weights."""

    models: dict[str, Model]
    body: list[Statement]
    key: str


class StateLoops(GradientLists):
    """Loops that change what the state dict of a model has."""

    def state_loop(self, node: cst.For) -> list[Statement] | None:
        """The maps for a loop over state dicts that changes one of them; None for other loops."""
        found = self.entries(node) if node.orelse is None else None
        if found is None or not found.models.keys() & set(_changed(found.body)):
            return None
        if found.key in usage.loads(found.body):
            if len(found.models) == 1:
                return None
            raise Unsupported("MIG306", f"{found.key}, the name of a weight in torch, which is Flax's in JAX")
        for model in found.models.values():
            self.refuse_entries(model)
        first = next(iter(found.models.values()))
        if not all(same_weights(self.script, first.cls, model.cls) for model in found.models.values()):
            raise Unsupported("MIG306", f"`for {nodes.code(node.target)}`: state dicts of models of several classes")
        made: list[Statement] = []
        for what in (PARAMS, BATCH_STATS) if self.stats_of(first) else (PARAMS,):
            places = {name: self.seen_here(model.place or NOWHERE) for name, model in found.models.items()}
            looped = [Looped(name, place, f"{name}_grad", what) for name, place in places.items()]
            made += self.mapped_over(looped, found.body)
        return made

    def refuse_entries(self, model: Model) -> None:
        """Declines state dicts that have more than the weights of Flax, or one of them twice."""
        if is_chosen(model.cls):
            raise Unsupported("MIG306", "the state dict of a model of one of several classes")
        weights = model_weights(self.script, model.cls)
        constants = [unused.torch for unused in weights.unused if unused.reason == CONSTANT]
        counted = [leaf.torch for leaf in weights.leaves if counts_batches(leaf.torch)]
        twice = [tie.torch for tie in weights.ties]
        for names, why in ((constants, "and no weight in Flax"), (counted, "and a number"), (twice, "a second time")):
            if names:
                raise Unsupported("MIG306", f"{names[0]} is in a state dict of {weights.name}, {why}")

    def entries(self, node: cst.For) -> _Entries | None:
        """What a loop over state dicts runs through; None for other loops."""
        names, body = names_of_pair(node.target), suites.suite_of(node.body.body)
        if isinstance(node.target, cst.Name) and _changed_by_key(body, node.target.value):
            return self.entries_by_key(node.target.value, node.iter, body)
        if not isinstance(node.iter, cst.Call):
            return None
        if nodes.dotted(node.iter.func) == "zip":
            found = [self.model_of_entries(arg.value, "values") for arg in node.iter.args]
            models = [model for model in found if model is not None]
            if names is None or not len(names) == len(found) == len(models):
                return None
            by_name = dict(zip(names, models, strict=True))
            return _entries(by_name, list(_of_floats(body, by_name.keys() | {""}, "")), "")
        model = self.model_of_entries(node.iter, "items")
        if model is None or names is None or len(names) != 2:
            return None
        key, entry = names
        looked_up = _LookedUp(key, self)
        body = [nodes.visited(statement.deep_clone(), looked_up) for statement in _of_floats(body, {entry}, key)]
        return _entries({entry: model, **looked_up.models}, body, key)

    def entries_by_key(self, key: str, over: Expr, body: Sequence[Statement]) -> _Entries | None:
        """What `for k in weights: average[k].copy_(...)` runs through, where the keys are those of a state dict."""
        match over:
            case cst.Call(func=cst.Attribute(value=owner, attr=cst.Name("keys"))):
                over = owner
        if self.model_of_dict_of_state(over) is None:
            return None
        looked_up = _LookedUp(key, self, by_key=True)
        body = [nodes.visited(statement.deep_clone(), looked_up) for statement in _of_floats(body, set(), key)]
        return _entries(looked_up.models, body, key)

    def model_of_entries(self, node: Expr, method: str) -> Model | None:
        """The model of `model.state_dict().items()`, or of the items of such a dict that has a name."""
        if not isinstance(node, cst.Call) or node.args or not isinstance(node.func, cst.Attribute):
            return None
        return self.model_of_dict_of_state(node.func.value) if node.func.attr.value == method else None

    def model_of_dict_of_state(self, node: Expr) -> Model | None:
        """The model of `model.state_dict()`, or of a name for that."""
        if isinstance(node, cst.Name):
            node = self.env.definitions.get(node.value, node)
        return model_of_state(self, node)


def only_averaged(name: str, statements: Sequence[Statement]) -> bool:
    """Whether a state dict is looked up by nothing but such loops, over another one or over its keys."""
    inside = 0
    for loop in every(cst.Module(list(statements)), cst.For):
        pair, over = names_of_pair(loop.target), nodes.code(loop.iter)
        names = [loop.target.value] if isinstance(loop.target, cst.Name) and loop.orelse is None else pair or []
        if len(names) not in (1, 2):
            continue
        by_key = _changed_by_key(suites.suite_of(loop.body.body), *names)
        if by_key or (len(names) == 2 and over.endswith(".state_dict().items()")):
            looked_up = [nodes.code(found) for found in every(loop.body, cst.Subscript)]
            own = (name, f"{name}.keys()") if len(names) == 1 else (f"{name}.items()",)
            inside += looked_up.count(f"{name}[{names[0]}]") + (over in own and by_key)
    return 0 < inside == usage.loads(statements).count(name)


def _changed_by_key(body: Sequence[Statement], key: str, entry: str = "") -> bool:
    """Whether all that the statements do is to change entries of dicts in place: `average[k].data.copy_(...)`."""
    calls = [suites.call_alone(one) for one in body]
    roots = [root_of_chain(call) if call is not None else None for call in calls]
    return bool(roots) and all(root is not None and _is_entry(root, key, entry) for root in roots)


def _is_entry(node: Expr, key: str, entry: str) -> bool:
    match node:
        case cst.Attribute(value=owner, attr=cst.Name("data")):
            return _is_entry(owner, key, entry)
        case cst.Subscript(value=cst.Name()):
            return nodes.code(node).endswith(f"[{key}]")
        case _:
            return bool(entry and nodes.dotted(node) == entry)


def _entries(models: dict[str, Model], body: Sequence[Statement], key: str) -> _Entries:
    """The same of statements that say `weight` for `weight.data`."""
    looped = [Looped(name, model.place or NOWHERE, f"{name}_grad") for name, model in models.items()]
    plain = PlainWeights(looped)
    return _Entries(models, [plain.visited(one) for one in body], key)


def _changed(body: Sequence[Statement]) -> list[str]:
    return [name for statement in body for name in usage.changes(statement)]


def _of_floats(body: Sequence[Statement], entries: set[str], key: str) -> list[Statement]:
    """The statements of a turn as they run for numbers of floating point, without what moves values to a device, or
    spells names as a wrapper has them."""
    made: list[Statement] = []
    for statement in body:
        inner = suites.suite_of(statement.body.body) if isinstance(statement, cst.If) else []
        if isinstance(statement, cst.If) and nodes.code(statement.test) in _tests_of_floats(entries):
            made += _of_floats(inner, entries, key)
        elif (
            not isinstance(statement, cst.If)
            or statement.orelse is not None
            or not all(_only_places(one, key) for one in inner)
        ):
            made.append(statement)
    return made


def _tests_of_floats(entries: set[str]) -> set[str]:
    forms = ("{}.dtype.is_floating_point", "{}.is_floating_point()", "torch.is_floating_point({})")
    return {form.format(entry) for form in forms for entry in entries}


def _only_places(statement: Statement, key: str) -> bool:
    """Whether a statement is `x = x.to(device)`, or `key = "module." + key`."""
    small = suites.alone(statement)
    if not isinstance(small, cst.Assign) or len(small.targets) != 1:
        return False
    target, value = nodes.dotted(small.targets[0].target), small.value
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        return value.func.attr.value in MOVED and nodes.dotted(value.func.value) == target
    return bool(key) and target == key and nodes.code(value).replace("'", '"') == f'"module." + {key}'


class _LookedUp(cst.CSTTransformer):
    """`weights[k]` is `weight`, a variable of its own. `by_key`: it is called after the name of the dict."""

    def __init__(self, key: str, scope: StateLoops, by_key: bool = False) -> None:
        super().__init__()
        self.key, self.scope, self.by_key = key, scope, by_key
        self.models: dict[str, Model] = {}

    def leave_Subscript(self, original_node: cst.Subscript, updated_node: cst.Subscript) -> Expr:
        owner, index = original_node.value, original_node.slice[0].slice
        model = self.scope.model_of_dict_of_state(owner)
        if model is None or not isinstance(index, cst.Index) or nodes.dotted(index.value) != self.key:
            return updated_node
        name = owner.value.removesuffix("s") if isinstance(owner, cst.Name) and owner.value.endswith("s") else "weight"
        if self.by_key and isinstance(owner, cst.Name):
            name = f"{owner.value.removesuffix('_dict').removesuffix('_state')}_weight"
        self.models[name] = model
        return cst.Name(name)
