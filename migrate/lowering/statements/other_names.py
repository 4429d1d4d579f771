"""Other names of a tensor that is changed in place: whether any of them is read before it is bound again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import libcst as cst

from migrate.known.kinds import Function, Host, Kind, Model, Module, Number, Plain, Scaler, Tensor
from migrate.lowering.scope import Scope
from migrate.lowering.statements.blocks import first_later
from migrate.rules.rule import RULES
from migrate.syntax import nodes, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

# Methods that give a view of the same memory in torch.
VIEWS = frozenset(
    [
        *("view", "reshape", "transpose", "permute", "squeeze", "unsqueeze", "expand", "expand_as", "view_as", "t"),
        *("detach", "chunk", "split", "flatten", "contiguous", "narrow", "select", "swapaxes", "unbind", "diagonal"),
        *("ravel", "unflatten", "unfold", "movedim", "moveaxis", "swapdims", "adjoint", "view_as_real", "tensor_split"),
        *("hsplit", "vsplit", "dsplit", "resolve_conj", "positive", "as_strided"),
        *("to", "float", "double", "half", "int", "long", "type", "type_as", "cpu", "cuda", "numpy"),  # copy or not
        *("get", "setdefault"),  # of a dict
    ]
)

_HOLDING = VIEWS | {"items", "values"}

# Functions whose result may be the memory of their argument.
SHARES = frozenset(
    [
        *("as_tensor", "asarray", "from_numpy", "frombuffer", "Variable", "atleast_1d", "atleast_2d", "real"),
        *("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"),  # where nothing is dropped
    ]
)

TOLD = ("shape", "dtype", "device", "ndim")  # of a tensor, and none of its memory

_CONTAINERS = frozenset(
    ["list", "tuple", "dict", "max", "min", "next", "iter", "reversed", "enumerate", "zip", "sorted"]
)
_MODULES = ("torch", "np", "numpy", "torch.autograd")
_READING = (
    frozenset(["print", "len", "float", "int", "bool", "str", "repr", "isinstance", "abs", "round"]) | _CONTAINERS
)


def may_be_seen(value: Expr) -> bool:
    """Whether a value is, in torch, the memory of something that has a name already."""
    if isinstance(value, cst.Name | cst.Attribute | cst.Subscript):
        whole = value.value if isinstance(value, cst.Subscript) else value
        if isinstance(whole, cst.Call) and isinstance(whole.func, cst.Attribute) and whole.func.attr.value == "size":
            return False  # sizes
        return not isinstance(whole, cst.Attribute) or whole.attr.value not in TOLD
    if isinstance(value, cst.List | cst.Tuple | cst.Dict):
        return any(may_be_seen(element.value) for element in value.elements)
    if isinstance(value, cst.IfExp):
        return may_be_seen(value.body) or may_be_seen(value.orelse)
    if isinstance(value, cst.Call) and nodes.dotted(value.func) == "dict":
        return any(may_be_seen(arg.value) for arg in value.args)
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        return value.func.attr.value in VIEWS and may_be_seen(value.func.value)
    return False


def held(scope: Scope, node: Expr) -> bool:
    """Whether something else holds the elements of a value, `xs`, `d.values()`, `enumerate(x)`, `x.split(1)`: they
    change with the variables of a loop over it. A loader makes its batches anew."""
    while isinstance(node, cst.Call):
        if isinstance(node.func, cst.Name):
            passed = node.func.value in _CONTAINERS or node.func.value == "tqdm"
            return passed and any(held(scope, arg.value) for arg in node.args)
        if not isinstance(node.func, cst.Attribute) or node.func.attr.value not in _HOLDING:
            return False
        node = node.func.value
    return nodes.dotted(node) is not None and not isinstance(scope.kind_of(node), Host)


def kept_twice(scope: Scope, target: Expr) -> bool:
    """Whether the tensor that a container or an object holds, `d["t"]`, `self.x`, may have another name by what the
    function, or the class, writes: it is held as something that has one, or something else is bound to it."""
    entry = isinstance(target, cst.Subscript)
    holder = nodes.code(target.value if entry else target)
    facts = scope.facts
    methods = scope.script.methods(facts.owner) if facts is not None and facts.method and not entry else {}
    bodies = [one.node.body for one in methods.values()] or [scope.own_body]
    lines = (line for body in bodies for line in every(body, cst.Assign, closed=() if methods else _SCOPES))
    for bound, value in _links(lines):
        if entry and isinstance(bound, cst.Subscript) and nodes.code(bound.value) == holder and _named(scope, value):
            return True
        if nodes.code(bound) == holder and (_holds_named(scope, value) if entry else may_be_seen(value)):
            return True
        if not entry and holder in _kept_whole(value):
            return True
    return False


def _named(scope: Scope, value: Expr) -> bool:
    """Whether a value, unless it is a number, has a name."""
    return may_be_seen(value) and not isinstance(scope.kind_of(value), Number | Plain)


def _holds_named(scope: Scope, value: Expr) -> bool:
    """Whether a list, a tuple or a dict is made of what has names, or of one thing several times."""
    match value:
        case cst.List(elements=elements) | cst.Tuple(elements=elements) | cst.Dict(elements=elements):
            return any(_named(scope, each.value) for each in elements)
        case cst.Call(func=cst.Name(value="dict"), args=args):
            return any(arg.keyword is not None and _named(scope, arg.value) for arg in args)
        case cst.BinaryOperation(left=cst.List(elements=elements), operator=cst.Multiply()):
            return not all(isinstance(scope.kind_of(each.value), Number | Plain) for each in elements)
        case _:
            return False


def _kept_whole(value: Expr) -> set[str]:
    """The paths whose values are kept as they are."""
    if isinstance(value, cst.List | cst.Tuple | cst.Dict | cst.Set):
        return {path for each in value.elements for path in _kept_whole(each.value)}
    return {nodes.code(value)}


def nothing_sees(scope: Scope, name: str) -> bool:
    """Whether a variable alone shows a tensor from here on: its other names are bound again before they are read, and
    nothing else keeps it."""
    body = scope.own_body
    goes_on = any(not usage.only_fails(one) for one in every(body, cst.Try))  # after some of a block
    if goes_on or scope.context == "setup" or any(every(body, cst.Global)):
        return False
    others = _names(scope, body, name) if name in scope.reads else None  # not in the head of a block
    if others is None or (others - {name}) & set(scope.reads):
        return False
    inner = set(usage.loads(every(body, (cst.FunctionDef, cst.Lambda))))
    given = set(scope.facts.parameter_names) if scope.facts is not None else set()
    return not others & (inner | given) and not any(_may_read(scope.following, other) for other in others - {name})


_SCOPES = (cst.FunctionDef, cst.ClassDef)


def _names(scope: Scope, body: cst.CSTNode, name: str) -> set[str] | None:
    """All names that may show the memory of a tensor, its own among them; None where something else may."""
    own = partial(every, body, closed=_SCOPES)
    links = list(_links(own(cst.Assign)))
    found, before = {name}, 0
    while len(found) > before:
        before = len(found)
        for target, value in links:
            memory = shown(value) | scope.handed_through(value)
            bound = set(usage.target_names(target))
            if not memory or not found & (memory | bound):
                continue
            if not isinstance(target, cst.Name):
                root = nodes.root(target)
                kind = scope.kind_of_name(root.value) if isinstance(root, cst.Name) else None
                if isinstance(target, cst.Subscript) and isinstance(kind, Tensor):
                    continue  # its values are copied
                return None
            found |= {each for each in memory if not isinstance(scope.kind_of_name(each), Number | Plain)} | bound
    if any(found & shown(each.value) for each in own(cst.AugAssign) if isinstance(each.value, cst.List)):
        return None
    kept = own((cst.AnnAssign, cst.Yield, cst.ListComp, cst.GeneratorExp, cst.DictComp, cst.SetComp))
    if any(found & set(usage.loads(each)) for each in kept):
        return None
    for loop in own(cst.For):
        if found & shown(loop.iter) or (found & set(usage.target_names(loop.target)) and held(scope, loop.iter)):
            return None
    for call in own(cst.Call):
        if any(found & shown(arg.value) for arg in call.args) and not _only_reads(scope, call):
            return None
    return found


def _links(assignments: Iterator[cst.Assign]) -> Iterator[tuple[cst.CSTNode, Expr]]:
    """Targets with what they are bound to, those of tuples apart."""
    for each in assignments:
        for target in each.targets:
            yield from _pairs(target.target, each.value)


def _pairs(target: cst.BaseExpression, value: Expr) -> Iterator[tuple[cst.CSTNode, Expr]]:
    for one, other in usage.pairs(target, value):
        yield from [(one, other)] if one is target else _pairs(one, other)


def shown(value: Expr) -> set[str]:
    """The names of which a value is the memory, or a part of it."""
    if isinstance(value, cst.Name):
        return {value.value}
    if isinstance(value, cst.Attribute | cst.Subscript):
        return shown(value.value)
    if isinstance(value, cst.List | cst.Tuple | cst.Dict | cst.Set):
        return {name for element in value.elements for name in shown(element.value)}
    if isinstance(value, cst.IfExp):
        return shown(value.body) | shown(value.orelse)
    if isinstance(value, cst.BooleanOperation):
        return shown(value.left) | shown(value.right)
    if isinstance(value, cst.NamedExpr):
        return {*usage.loads(value), *usage.stores(cst.SimpleStatementLine([cst.Expr(value)]))}
    if isinstance(value, cst.Call):
        path = nodes.dotted(value.func)  # none of a method of what a call gives: `x.view(-1).contiguous()`
        module, _, name = (path or "").rpartition(".")
        if path is not None and module in ("", *_MODULES):
            taken = value.args if name in VIEWS | SHARES | _CONTAINERS else ()
            return set[str]().union(*(shown(arg.value) for arg in taken))
        if isinstance(value.func, cst.Attribute) and value.func.attr.value in VIEWS:
            return shown(value.func.value)
    return set()


def _only_reads(scope: Scope, call: cst.Call) -> bool:
    """Whether what is called surely keeps nothing that it is given: torch, numpy, a model, Python itself, a function
    that only computes."""
    root = nodes.root(call.func)
    name = root.value if isinstance(root, cst.Name) else ""
    kind: Kind = scope.kind_of(call.func.value) if isinstance(call.func, cst.Attribute) else scope.kind_of(call.func)
    path = scope.torch_name(call.func) or ""
    function = path.startswith("torch.nn.functional.") or (path.count(".") == 1 and path[6:7].islower())
    known = function or name in ("np", "numpy", "math") or (isinstance(call.func, cst.Name) and name in _READING)
    own = scope.script.functions.get(kind.name) if isinstance(kind, Function) else None
    return (
        known
        or isinstance(kind, Tensor | Model | Scaler)
        or isinstance(scope.own_module(call.func), Module)
        or (isinstance(call.func, cst.Attribute) and _is_of_model(scope, call.func.value))
        or (own is not None and _only_computes(scope, own.node))
    )


def _is_of_model(scope: Scope, node: Expr) -> bool:
    """`model(x)`, whose methods are those of tensors, or of what holds some."""
    return isinstance(node, cst.Call) and isinstance(scope.kind_of(node.func), Model)


def _only_computes(scope: Scope, function: cst.FunctionDef) -> bool:
    """Whether a function binds names of its own and calls torch, methods of tensors and Python."""
    bound = [each.target for one in every(function.body, cst.Assign) for each in one.targets]
    closed = not any(every(function.body, (cst.Global, cst.Nonlocal, cst.Yield, cst.FunctionDef, cst.Lambda)))
    return (
        closed
        and not any(next(every(target, (cst.Attribute, cst.Subscript)), None) for target in bound)
        and all(_computes(scope, call) for call in usage.calls(function.body))
    )


def _computes(scope: Scope, call: cst.Call) -> bool:
    if scope.torch_name(call.func) is not None:
        return True
    if isinstance(call.func, cst.Attribute):
        return f"Tensor.{call.func.attr.value}" in RULES
    return isinstance(call.func, cst.Name) and call.func.value in _READING


def _may_read(following: Sequence[Sequence[cst.CSTNode]], name: str) -> bool:
    """Whether the value that a name has now may be read by what follows."""
    return first_later(following, lambda statement: usage.first_access([statement], name)) == "load"
