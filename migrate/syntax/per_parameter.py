"""Lists that a file keeps beside the parameters of a model: `vs = [torch.zeros_like(p) for p in net.parameters()]`.

Loops go through them and the parameters together, and change what is in them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import libcst as cst

from migrate.syntax import nodes, suites, usage
from migrate.syntax.nodes import Expr
from migrate.syntax.walking import every

# What a parameter has and a plain array has not: freezing changes it, or it changes the parameter.
OF_PARAMETERS = frozenset({"requires_grad", "grad", "data"})


def lists_per_parameter(module: cst.Module) -> frozenset[str]:
    """The names of such lists, `self.vs` of those that an object keeps, which are no more than made, filled, and gone
    through."""
    loops = list(every(module, cst.For))
    assigned = [one for one in every(module, cst.Assign) if _is_parameters(one.value) or _is_trained(one.value)]
    parameters = {name for one in assigned for name in usage.stores(one)}
    found = {name for loop in loops if changes_its_variables(loop) for name in _beside(loop.iter, parameters)}
    if not found:
        return frozenset()
    together = [zipped(each.iter) for each in (*loops, *every(module, cst.CompFor))]
    while in_order := found & {name for sources in together for name in _in_order(sources, found | parameters)}:
        found -= in_order
    attributes = [node.attr.value for node in every(module, cst.Attribute)]
    mentioned = Counter([*(node.value for node in every(module, cst.Name)), *map("self.{}".format, attributes)])
    mentioned.subtract(attributes)
    mentioned.subtract(node.keyword.value for node in every(module, cst.Arg) if node.keyword is not None)
    plain = Counter(_plain_mentions(module, loops))
    return frozenset(name for name in found if mentioned[name] == plain[name])


def _in_order(sources: Sequence[Expr], known: set[str]) -> set[str]:
    """What a loop goes through together where some of it is in torch's order, which is not that of a tree."""
    names = {nodes.code(one) for one in sources}
    return names if any(nodes.code(one) not in known and not _is_parameters(one) for one in sources) else set()


def filled_in_turn(loop: cst.For) -> list[tuple[str, Expr]] | None:
    """What each statement of a loop over parameters appends, and to which list; None for other loops."""
    made: list[tuple[str, Expr]] = []
    if not _is_parameters(loop.iter) or loop.orelse is not None:
        return None
    for statement in suites.suite_of(loop.body.body):
        small = suites.alone(statement)
        call = small.value if isinstance(small, cst.Expr) else None
        path = nodes.dotted(call.func) if isinstance(call, cst.Call) and len(call.args) == 1 else None
        name, _, method = (path or "").rpartition(".")
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or method != "append":
            return None
        if not path_of_list(call.func.value):
            return None
        made.append((name, call.args[0].value))
    return made


def path_of_list(node: cst.CSTNode) -> str:
    """`vs` or `self.vs`; "" of other expressions."""
    own = isinstance(node, cst.Attribute) and nodes.dotted(node.value) == "self"
    return nodes.dotted(node) or "" if own or isinstance(node, cst.Name) else ""


def comprehension_of(node: Expr) -> cst.ListComp | cst.GeneratorExp | None:
    """The comprehension that an expression is, `list(...)` around it or not."""
    if isinstance(node, cst.Call) and nodes.dotted(node.func) == "list" and len(node.args) == 1:
        node = node.args[0].value
    return node if isinstance(node, cst.ListComp | cst.GeneratorExp) else None


def is_empty(node: Expr) -> bool:
    """Whether an expression is an empty list."""
    return nodes.code(node) in ("[]", "list()")


def changes_its_variables(loop: cst.For) -> bool:
    """Whether a loop says `v.mul_(d)`, `v.detach().mul_(d)`, `v[:] = w`, `v += w` or `v.data = w` of one of them."""
    changed: list[cst.CSTNode] = []
    for node in every(loop.body, (cst.Call, cst.AssignTarget, cst.AugAssign)):
        if isinstance(node, cst.Call):
            method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
            changed += [node.func] if usage.is_in_place(method) else []
        elif isinstance(node, cst.AugAssign) or not isinstance(node.target, cst.Name):
            changed.append(node.target)
    roots = map(_innermost, changed)
    return bool({root.value for root in roots if isinstance(root, cst.Name)} & set(usage.target_names(loop.target)))


def _innermost(node: cst.CSTNode) -> cst.CSTNode:
    while isinstance(node, cst.Attribute | cst.Subscript | cst.Call):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node


def _beside(iterated: Expr, parameters: set[str]) -> set[str]:
    """The names that a loop goes through beside parameters, which some names stand for."""
    sources = zipped(iterated)
    names = {*map(path_of_list, sources)} - {""}
    return names - parameters if names & parameters or any(map(_is_parameters, sources)) else set()


def zipped(iterated: Expr) -> Sequence[Expr]:
    """What a loop goes through together, by `zip`."""
    if isinstance(iterated, cst.Call) and nodes.dotted(iterated.func) == "zip":
        return [arg.value for arg in iterated.args]
    return ()


def _is_parameters(node: Expr) -> bool:
    """`model.parameters()`, or a list of them."""
    if isinstance(node, cst.Call) and nodes.dotted(node.func) in ("list", "tuple") and len(node.args) == 1:
        node = node.args[0].value
    return parameters_of(node) is not None


def switched(statement: cst.CSTNode) -> tuple[Expr, Expr] | None:
    """What a statement freezes or frees, and by which flag: `p` and `False` of `p.requires_grad = False`, and of
    `p.requires_grad_(False)`; None of other statements."""
    match suites.alone(statement):
        case cst.Assign(
            targets=[cst.AssignTarget(target=cst.Attribute(value=weight, attr=cst.Name(value="requires_grad")))],
            value=flag,
        ):
            return weight, flag
        case cst.Expr(
            value=cst.Call(func=cst.Attribute(value=weight, attr=cst.Name(value="requires_grad_")), args=args)
        ):
            return weight, args[0].value if args else nodes.name("True")
    return None


def parameters_of(node: Expr) -> Expr | None:
    """The model of `model.parameters()`; None for other expressions."""
    func = node.func if isinstance(node, cst.Call) and not node.args else None
    return func.value if isinstance(func, cst.Attribute) and func.attr.value == "parameters" else None


def _is_trained(node: Expr) -> bool:
    """`[p for p in parameters if p.requires_grad]`."""
    made = comprehension_of(node)
    return made is not None and nodes.code(made.elt) == nodes.code(made.for_in.target) and asks_for_trained(made.for_in)


def asks_for_trained(each: cst.CompFor) -> bool:
    """Whether what a comprehension asks is whether parameters are trained."""
    return [nodes.code(one.test) for one in each.ifs] == [f"{nodes.code(each.target)}.requires_grad"]


def _plain_mentions(module: cst.Module, loops: Sequence[cst.For]) -> Iterator[str]:
    for each in (*loops, *every(module, cst.CompFor)):
        yield from map(path_of_list, (each.iter, *zipped(each.iter)))
    for loop in loops:
        yield from (name for name, _ in filled_in_turn(loop) or ())
    for assigned in every(module, cst.Assign):
        targets = [one.target for one in assigned.targets]
        made = comprehension_of(assigned.value) is not None or is_empty(assigned.value)
        if made and len(targets) == 1:
            yield path_of_list(targets[0])
