"""What is inside a value: the kind of an element, an item, a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import libcst as cst

from migrate.diagnostics import Unsupported
from migrate.known.constructed import ChoiceNode, ClassNode, LayerNode, ListNode, Node
from migrate.known.kinds import (
    BY_WEIGHT,
    UNKNOWN,
    Host,
    Items,
    Kind,
    Leaf,
    Makers,
    Members,
    Model,
    Module,
    ModuleClass,
    Number,
    Optimizer,
    Packed,
    PackedElements,
    Place,
    Plain,
    Scheduler,
    Tensor,
    is_batch,
)
from migrate.known.script import Script
from migrate.known.weight_kinds import WEIGHT_NAME, Parameters, Selection, Weight
from migrate.lowering.host import graphs
from migrate.rules.catalogue import RULES
from migrate.rules.rule import Value
from migrate.syntax import nodes
from migrate.syntax.nodes import Expr

DICT = "dict"  # the type of a dict of values that are all of one kind
KEY_OF_ITS_OWN = Plain("generator")  # of a generator of random numbers that does nothing but draw
# What tensors have, and models: who reads nothing else of an object may be given one.
OF_TENSORS = frozenset(
    {"shape", "ndim", "T", "mT", "H", "dtype", "device", "data", "grad", "requires_grad", "real", "imag", "is_cuda"}
    | {"training", "module", "weight", "bias", "layout", "is_leaf"}
)
_OF_OTHERS = frozenset(
    {"size", "names", "nbytes", "itemsize", "grad_fn", "mH", "to", "cuda", "cpu", "pin_memory", "items", "keys"}
)
_SERVING = ("loader", "data", "transform", "reshaping")  # what data loading is made of
EACH = "{}"  # in a path: any element of a list of modules


@dataclass(frozen=True)
class WeightsByName(Items):
    """A dict of the weights of the model at `place` by torch's names."""

    place: Place = field(default_factory=lambda: Place("", ""))


def dict_kind(values: Sequence[Kind]) -> Kind:
    """The kind of a dict with values of such kinds: jit takes one of arrays alone. A loader for each phase is one."""
    if values and all(isinstance(kind, Host) and kind.what in _SERVING for kind in values):
        each = Items(tuple(values)).joined()
        return Plain("dict") if each is UNKNOWN else Items(None, each, DICT)
    making = Items(tuple(values)).joined()
    parts = making.items or () if isinstance(making, Items) else (making,)
    if any(isinstance(part, ModuleClass | Makers) for part in parts):  # `{"resnet18": [resnet18, 512], ...}` as well
        return Items(None, making, DICT)
    if len(values) == 1 and isinstance(values[0], Module):
        return Items(None, values[0], DICT)
    if values and all(isinstance(kind, Module) and _only_computes(kind) for kind in values):
        return Items(None, making, DICT)  # `{"relu": nn.ReLU(), "gelu": nn.GELU()}`
    if any(map(is_batch, values)) and all(isinstance(kind, Tensor | Number) or is_batch(kind) for kind in values):
        return Host("batch")
    arrays = [kind for kind in values if isinstance(kind, Tensor)]
    if not arrays or len(arrays) < len(values):
        return Plain("dict")
    return Items(None, Items(tuple(arrays)).joined(), DICT)


def members_of(kinds: Sequence[Kind], elements: Sequence[Expr], type: str, keys: Sequence[Expr] = ()) -> Members | None:
    """The kind of a display of objects that all have names; None for other displays."""
    names = [nodes.dotted(element) for element in elements]
    objects = (Model, Optimizer, Scheduler, Leaf)
    placed = [isinstance(kind, objects) and kind.place not in (None, Place("", "")) for kind in kinds]
    if not kinds or not all(placed) or None in names or any(nodes.literal(key) is ... for key in keys):
        return None
    written = tuple(name for name in names if name is not None)
    return Members(tuple(kinds), type=type, names=written, keys=tuple(map(nodes.code, keys)))


def without_names(kind: Kind) -> Kind:
    """What another scope sees of tensors that gradients are taken of, alone or listed: arrays like any other."""
    if isinstance(kind, Leaf):
        return kind.plain
    if isinstance(kind, Items) and kind.items and any(isinstance(item, Leaf | Items) for item in kind.items):
        plain = tuple(map(without_names, kind.items))
        return kind if plain == kind.items else Items(plain, type=kind.type)
    return kind


def computed(kind: Kind) -> Kind:
    """What a model gives, whose tensors JAX makes: none of them stays torch for what it feeds."""
    if isinstance(kind, Tensor):
        return replace(kind, origins=frozenset())
    if isinstance(kind, Items):
        items = None if kind.items is None else tuple(map(computed, kind.items))
        return replace(kind, items=items, element=computed(kind.element))
    return kind


def display(kind: Members) -> Expr:
    """The list, tuple or dict with the names of its members."""
    members = [nodes.expression(name) for name in kind.names]
    if kind.keys:
        keys = [nodes.expression(key) for key in kind.keys]
        return cst.Dict([cst.DictElement(key, member) for key, member in zip(keys, members, strict=True)])
    return nodes.tuple_of(members) if kind.type == "tuple" else cst.List([cst.Element(member) for member in members])


def part_kind(kind: Kind, number: int, count: int) -> Kind:
    """The kind of one element of an unpacked value."""
    _refuse_packed(kind)
    if isinstance(kind, Items):
        if kind.items is not None and len(kind.items) == count:
            return kind.items[number]
        return kind.first[number] if number < len(kind.first) else kind.joined()
    if isinstance(kind, Module):
        return named_child(kind, number)
    if isinstance(kind, Host):
        return Host("tensor", kind.origins) if kind.what in ("batch", "tensor") else Host("data")
    kind = without_names(kind)
    if isinstance(kind, Tensor):
        return replace(kind, rank=kind.rank - 1 if kind.rank > 0 else -1)
    return UNKNOWN


def is_field(attribute: str) -> bool:
    """Whether an attribute of what a loader gives is one of several things in it, `batch.text`: none that tensors or
    dicts have."""
    return attribute not in OF_TENSORS | _OF_OTHERS and f"Tensor.{attribute}" not in RULES


def part_kinds(kind: Kind, stars: Sequence[bool]) -> list[Kind]:
    """The kinds of what a value is unpacked into, `x, *rest = value`: a starred name has a list."""
    if True not in stars:
        return [part_kind(kind, number, len(stars)) for number in range(len(stars))]
    star, after = stars.index(True), len(stars) - stars.index(True) - 1
    items = kind.items if isinstance(kind, Items) else None
    if items is None or len(items) < len(stars) - 1:
        found = [part_kind(kind, number, -1) for number in range(star)]
        other = _without_first(kind)
        return [*found, Items(None, part_kind(other, star, -1)), *[part_kind(other, star, -1)] * after]
    return [*items[:star], Items(items[star : len(items) - after]), *items[len(items) - after :]]


def _without_first(kind: Kind) -> Kind:
    """A tuple of which it is not known what it begins with."""
    return replace(kind, first=()) if isinstance(kind, Items) else kind


def _refuse_packed(kind: Kind) -> None:
    if isinstance(kind, Packed | PackedElements):
        raise Unsupported("MIG302", "a packed sequence taken apart: its elements are `.data`, as many as the data say")


def loop_kind(kind: Kind, origin: int) -> Kind:
    """The kind of the loop variable over a value of this kind."""
    _refuse_packed(kind)
    kind = without_names(kind)
    if isinstance(kind, Items):
        return {DICT: Plain("str"), BY_WEIGHT: WEIGHT_NAME}.get(kind.type) or kind.joined()
    if isinstance(kind, Tensor):
        return replace(kind, rank=kind.rank - 1 if kind.rank > 0 else -1)
    if isinstance(kind, Host):
        return graphs.element_of(kind, origin) or Host("batch", frozenset({origin}))
    if isinstance(kind, Module):
        return element_kind(kind)
    if isinstance(kind, Parameters | Selection):
        weight = Weight(live=True)
        return Items((WEIGHT_NAME, weight), type="tuple") if kind.named else weight
    return UNKNOWN


def element_kind(kind: Module) -> Kind:
    """What is taken out of a ModuleList or a Sequential."""
    found = tuple(dict.fromkeys(child for option in kind.options for child in children_of(option)))
    return Module(found) if found else UNKNOWN


def is_function(kind: Kind) -> bool:
    """Whether a module is a layer without weights."""
    return isinstance(kind, Module) and all(isinstance(one, LayerNode) and not one.weights for one in kind.options)


def repeated(node: cst.BinaryOperation, kind: Kind) -> Kind | None:
    """What `[layer] * 3` holds; None of other values than lists of modules."""
    if not isinstance(kind, Items) or not isinstance(kind.joined(), Module):
        return None
    times = nodes.literal(node.right)
    if not isinstance(times, int) or kind.items is None:
        raise repeated_unknown(node)
    return replace(kind, items=kind.items * times)


def repeated_unknown(node: Expr) -> Unsupported:
    """What is said of a module that is in a list several times, it is not known how often."""
    return Unsupported("MIG201", f"{nodes.code(node)}: the same module, as often as is told while it runs")


def children_of(node: Node) -> tuple[Node, ...]:
    """The modules of a list, alternatives among them one by one."""
    if isinstance(node, ChoiceNode):
        return tuple(child for option in node.children for child in children_of(option))
    if not isinstance(node, ListNode):
        return ()
    made: tuple[Node, ...] = ()
    for child in node.children:
        if not isinstance(child, LayerNode) or child.torch:
            made += child.children if isinstance(child, ChoiceNode) else (child,)
    return made


def named_child(kind: Module, key: str | int) -> Kind:
    """The module of a list or a dict under a key; UNKNOWN where it is not known which."""
    found: list[Node] = []
    for option in kind.options:
        if (
            isinstance(option, ListNode)
            and option.named
            and key in option.keys
            and len(option.children) == len(option.keys)
        ):
            under = [child for child, one in zip(option.children, option.keys, strict=True) if one == key]
            found += [one for child in under for one in (child.children if isinstance(child, ChoiceNode) else (child,))]
            continue
        if not isinstance(option, ListNode) or option.dynamic:
            return element_kind(kind) if isinstance(key, int) else UNKNOWN
        children = [child for child in option.children if not isinstance(child, LayerNode) or child.torch]
        number = option.keys.index(key) if key in option.keys else key
        if not isinstance(number, int) or not -len(children) <= number < len(children):
            return UNKNOWN
        child = children[number]
        found += child.children if isinstance(child, ChoiceNode) else (child,)
    return Module(tuple(dict.fromkeys(found)))


def only_option(kind: Kind) -> Node | None:
    """What a module surely is."""
    return kind.options[0] if isinstance(kind, Module) and len(kind.options) == 1 else None


def module_at(script: Script, cls: str, path: Sequence[str]) -> Kind:
    """What a module of the user's has at a path of attributes and keys; EACH is any element of a list."""
    kind: Kind = Module((ClassNode(cls),))
    for part in path:
        option = only_option(kind)
        if isinstance(option, ListNode):
            kind = element_kind(Module((option,))) if part == EACH else named_child(Module((option,)), part)
        elif isinstance(option, ClassNode):
            kind = script.classes[option.cls].attributes.get(part, UNKNOWN)
        else:
            return UNKNOWN
    return kind


def has_key(kind: Module, key: str) -> bool:
    """Whether it is a dict of modules with such a key, which torch also has as an attribute."""
    return all(isinstance(one, ListNode) and one.infix == "_" and key in one.keys for one in kind.options)


def _only_computes(kind: Module) -> bool:
    """Whether a module has no weights, and is a layer of torch's whatever is chosen."""
    return all(isinstance(one, LayerNode) and not one.weights for one in kind.options)


def item_kind(kind: Kind, node: cst.Subscript, indices: list[Value | None]) -> Kind:
    """The kind of `x[...]`."""
    if isinstance(kind, Leaf):
        kind = kind.plain
    if isinstance(kind, Tensor):
        return replace(kind, rank=_rank_of_item(kind.rank, indices), optional=False)
    if isinstance(kind, Host):
        one = graphs.element_of(kind)
        if one is not None:
            return one if isinstance(node.slice[0].slice, cst.Index) else kind
        index = node.slice[0].slice
        if kind.what == "batch" and isinstance(index, cst.Slice):
            return kind
        return Host("tensor", kind.origins) if is_batch(kind) else Host("tensor")
    if isinstance(kind, Items):
        number = nodes.literal(node.slice[0].slice.value) if isinstance(node.slice[0].slice, cst.Index) else ...
        if isinstance(number, int) and kind.items is not None and -len(kind.items) <= number < len(kind.items):
            return kind.items[number]
        if isinstance(number, int) and 0 <= number < len(kind.first):
            return kind.first[number]
        return Items(None, kind.joined(), kind.type) if number is ... and indices[0] is None else kind.joined()
    if isinstance(kind, Module):
        index = node.slice[0].slice
        key = nodes.literal(index.value) if isinstance(index, cst.Index) else ...
        if isinstance(key, int | str):
            return named_child(kind, key)
        return element_kind(kind) if isinstance(index, cst.Index) else Items(None, element_kind(kind))
    return UNKNOWN


def _rank_of_item(rank: int, indices: list[Value | None]) -> int:
    """How many axes `x[...]` has: a number takes one away, None adds one, a tensor of one axis replaces one."""
    tensors = 0
    for index in indices:
        kind = index.kind if index is not None else UNKNOWN
        if index is None or isinstance(index.node, cst.Ellipsis):
            continue  # a slice, or all that is left
        if nodes.is_literal(index.node, None):
            rank += 1 if rank >= 0 else 0
        elif isinstance(kind, Number):
            rank = rank - 1 if rank > 0 else -1
        elif isinstance(kind, Tensor) and kind.rank == 1 and not tensors:
            tensors += 1
        else:
            return -1
    return rank


# Functions of numpy that always return a tuple or a list of arrays.
_SEVERAL_ARRAYS = ("nonzero", "meshgrid", "histogram", "split", "array_split", "ix_", "indices")


def arrays_of_numpy(node: cst.Call) -> Kind:
    """What a function of numpy returns that is known to give several arrays: `np.unique(x, return_inverse=True)`."""
    module, _, function = (nodes.dotted(node.func) or "").rpartition(".")
    asked = any(
        arg.keyword is not None and arg.keyword.value.startswith("return_") and nodes.is_literal(arg.value, True)
        for arg in node.args
    )
    several = function in _SEVERAL_ARRAYS or (function == "unique" and asked)
    return Items(None, Items(None, UNKNOWN, "array"), "tuple") if several and module in ("np", "numpy") else UNKNOWN


# Functions of numpy that make an array of numbers: others give back a tensor of torch's where they are given one.
_MAKING_ARRAYS = ("eye", "identity", "zeros", "ones", "full", "arange", "linspace", "array", "asarray")


def made_by_numpy(method: Expr) -> bool:
    """Whether a method is one of an array that numpy has just made: `np.eye(k).flatten().astype`."""
    made = method.value if isinstance(method, cst.Attribute) else None
    if not isinstance(made, cst.Call):
        return False
    module, _, function = (nodes.dotted(made.func) or "").rpartition(".")
    return (module in ("np", "numpy") and function in _MAKING_ARRAYS) or made_by_numpy(made.func)


QUEUES = ("deque", "collections.deque")


def of_queue(node: cst.Call, values: Sequence[Value]) -> Kind | None:
    """What `deque(maxlen=5)` is: a list, as far as its elements go; None of other calls."""
    if nodes.dotted(node.func) not in QUEUES:
        return None
    filled = [value for value, arg in zip(values, node.args, strict=True) if arg.keyword is None]
    return Items(None, loop_kind(filled[0].kind, 0), "list") if filled else Items((), type="list")


def kinds_in(kind: Kind) -> list[Kind]:
    """A kind and, for lists and tuples, what they hold."""
    if isinstance(kind, Items):
        inner = kind.items if kind.items is not None else (kind.element,)
        return [part for item in inner for part in kinds_in(item)]
    return [kind]
